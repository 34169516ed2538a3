"""The functions that a consumer calls: what its role needs EXECUTE on."""

from __future__ import annotations

from pgq._runtime._rights import Lacking

__all__ = ["EXECUTE", "refusal"]

_REQUIRED = (
    "list_topics", "list_groups", "poll", "extend_poll", "commit_offset", "release_poll",
    "nack_offsets",
)  # fmt: skip
_OPTIONAL = ("next_poll", "heartbeat")
"""A consumer handles messages without these."""

EXECUTE = (*_REQUIRED, *_OPTIONAL)
"""All that consumers call: the grant for a consumer's role."""


def refusal(lacking: Lacking) -> str | None:
    """Why the role cannot handle messages; None: it can."""
    return lacking.refusal("consumer needs, so nothing is polled", _REQUIRED, _OPTIONAL)
