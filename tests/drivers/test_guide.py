"""The guide shows the very programs that run here, and its SQL for all takes strings alone."""

from __future__ import annotations

import base64
import re

from psycopg import pq

import driver_guide
from support.drivers import PROGRAMS
from support.house import ROOT, refuse
from support.session import Session

TEXT = 25
"""The oid of the type: what a driver sends that declares all its strings."""


def test_the_guide_shows_the_programs_as_they_are() -> None:
    pages = driver_guide.generate()
    assert len(pages) == 10
    refuse(page.name for page, text in pages.items() if text != page.read_text())


def test_the_guide_shows_every_program() -> None:
    programs = {path.name for path in PROGRAMS.iterdir() if path.suffix != ".txt"}
    assert sorted((ROOT / name).name for name in driver_guide.shown()) == sorted(programs)


def _statements() -> list[str]:
    section = (
        (driver_guide.GUIDE / "index.md")
        .read_text()
        .split("\n## SQL that works in every driver\n")[1]
    )
    block = re.search(r"```sql\n(.*?)```", section, re.DOTALL)
    assert block is not None
    return [statement.strip() for statement in block[1].split(";\n") if statement.strip()]


def test_one_sql_for_all(connection: Session) -> None:
    answers: dict[str, list[dict[str, str | None]]] = {}

    def run(statement: str, *values: str | None) -> list[dict[str, str | None]]:
        sent = [None if value is None else value.encode() for value in values]
        result = connection.pgconn.exec_params(statement.encode(), sent, [TEXT] * len(sent))
        assert result.status == pq.ExecStatus.TUPLES_OK, (statement, result.error_message)
        names = [(result.fname(column) or b"").decode() for column in range(result.nfields)]
        rows = []
        for row in range(result.ntuples):
            cells = [result.get_value(row, column) for column in range(result.nfields)]
            texts = [None if cell is None else bytes(cell).decode() for cell in cells]
            rows.append(dict(zip(names, texts)))
        return rows

    def lease(name: str, *columns: str) -> list[str | None]:
        return [answers[name][0][column] for column in columns]

    body = base64.b64encode(b"\x00\xffA").decode()
    place = ["orders", "billing"]
    given = {
        "create_topic": lambda: ["orders", "1"],
        "create_group": lambda: place,
        "create_queue": lambda: ["mail"],
        "publish": lambda: ["orders", '{"n": 1}', None],
        "publish body": lambda: ["orders", body],
        "publish_batch": lambda: ["orders", '[{"n": 3}, {"n": 4}]', '["ada", null]'],
        "consume": lambda: [*place, "2"],
        "poll": lambda: [*place, "1 minute"],
        "commit_offset": lambda: [*place, "0", "3", *lease("poll", "lease_token")],
        "enqueue": lambda: ["mail", '{"to": "ada"}', None],
        "enqueue_batch": lambda: ["mail", '[{"to": "bob"}, {"to": "cid"}]'],
        "claim_job": lambda: ["mail", "10"],
        "ack": lambda: lease("claim_job", "job_id", "lease_token"),
        "nack": lambda: [
            *[answers["claim_job"][1][name] for name in ("job_id", "lease_token")],
            "2 hours",
            "mailbox full",
        ],
    }
    for statement in _statements():
        name = re.search(r"pgq\.(\w+)", statement)
        assert name is not None
        key = name[1] + (" body" if "body =>" in statement else "")
        answers[key] = run(statement, *given[key]())
    assert list(answers) == list(given)

    assert [each["payload"] for each in answers["consume"]] == ['{"n": 1}', None]
    assert answers["consume"][1]["body"] == "\\x00ff41"
    assert [(each["key"], each["payload"]) for each in answers["poll"]] == [
        ("ada", '{"n": 3}'),
        (None, '{"n": 4}'),
    ]
    assert answers["commit_offset"] == [{"commit_offset": "3"}]
    assert [each["payload"] for each in answers["claim_job"]] == [
        '{"to": "ada"}',
        '{"to": "bob"}',
        '{"to": "cid"}',
    ]
    assert answers["ack"] == [{"ack": "t"}]
    assert answers["nack"] == [{"nack": "t"}]
