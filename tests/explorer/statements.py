"""The statements of calls."""

from __future__ import annotations

from explorer.draw import Arguments
from explorer.script import written

__all__ = ["sql_of"]

OWN = {
    "look": "select count(*) from pg_class where relname = 'topic'",
    "take_id": "select pg_current_xact_id()",
    "move_clock": "select setval('public.clock_offset', (select last_value from"
    " public.clock_offset) + {seconds} * 1000000::bigint)",
    "claim_followed": "select * from pgq.claim_job({queue}, {max_jobs}, {lease})",
    "fill_journal": "select * from public.fill_journal({topic}, {consumer_group}, {partition})",
}


def sql_of(name: str, arguments: Arguments) -> str:
    """The statement of a call; all arguments are known by now."""
    texts = {key: written(value) for key, value in arguments.items() if key not in "*#@"}
    role = f"set local role {arguments['@']}; " if "@" in arguments else ""
    if name == "restrict":
        what = arguments["what"]
        given = f"{texts[what]}, restricted => {texts['restricted']}"
        return f"{role}select * from pgq.alter_{what}({given})"
    if name in OWN:
        return role + OWN[name].format(**texts)
    listed = ", ".join(f"{key} => {text}" for key, text in texts.items())
    function = name
    for suffix in ("_unique", "_poison", "_followed", "_keyed", "_newest"):
        function = function.removesuffix(suffix)
    return f"{role}select * from pgq.{function}({listed})"
