"""What a handler says of how far it has come, as JSON that the database takes."""

from __future__ import annotations

import re
from typing import Any

from pgq._encoding import Encoding

__all__ = ["as_json"]

_PAIR = re.compile(r"\\ud[89ab]..\\ud[c-f]..")
_SURROGATE = re.compile(r"\\ud[89a-f]")


def as_json(value: Any, encoding: Encoding) -> str:
    """The text of a value; TypeError or ValueError: it has none that jsonb could hold.

    That is so of what the encoder refuses, NaN and infinities, NUL and lone surrogates.
    """
    text = encoding.text("progress", value)
    escapes = text.replace("\\\\", "")
    if "\\u0000" in escapes:
        raise ValueError("progress: a text with NUL, which jsonb cannot hold")
    if _SURROGATE.search(_PAIR.sub("", escapes)):
        raise ValueError("progress: a text with a lone surrogate, which jsonb cannot hold")
    return text
