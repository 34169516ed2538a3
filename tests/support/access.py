"""Every call of the functions that give access, for tests that want them all."""

from __future__ import annotations

from typing import Any

__all__ = ["use_access"]


def use_access(pgq: Any) -> None:
    pgq.create_roles()
    for kind in ("topic", "queue"):
        target = {kind: "guarded"}
        getattr(pgq, f"create_{kind}")(**target, restricted=True)
        pgq.grant_access(role="public", access="publish", **target)
        pgq.list_access(**target)
        pgq.revoke_access(role="public", **target)
        getattr(pgq, f"alter_{kind}")(**target, restricted=False)
        pgq.revoke_access(role="pgq_monitor", **{kind: "*"})
