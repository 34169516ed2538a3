"""What a handler says of how far it has come, as JSON that the database takes."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["as_json"]


def as_json(value: Any) -> str:
    """The text of a value; TypeError or ValueError: it has none that jsonb could hold.

    That is so of objects of classes of one's own, NaN and infinities, NUL and lone surrogates.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    text.encode()
    if "\\u0000" in text.replace("\\\\", ""):
        raise ValueError("a text with NUL, which jsonb cannot hold")
    return text
