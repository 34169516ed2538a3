"""Configurations of the push worker for tests."""

from __future__ import annotations

from typing import Any

__all__ = ["settings"]


def settings(topic: str, url: str, **others: Any) -> str:
    """A configuration of one push that loses no time."""
    values = {
        "name": "hook",
        "topic": topic,
        "consumer_group": "readers",
        "url": url,
        "poll": "20ms",
        "backoff": "20ms",
        "backoff_max": "40ms",
        "allow_private": True,
        **others,
    }
    lines = [f"{key} = {_toml(value)}" for key, value in values.items()]
    return "\n".join(["[[push]]", *lines])


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        inner = ", ".join(f'"{name}" = {_toml(content)}' for name, content in value.items())
        return f"{{ {inner} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    return f'"{value}"' if isinstance(value, str) else str(value)
