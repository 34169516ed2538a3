"""What a request asks for, in the types that the functions take."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import typer
from psycopg.types.json import Jsonb

from pgq.cli._values import moment_of, span_of
from pgq.ui._source import Problem

__all__ = ["Query"]


class Query:
    """The parameters of a request; what makes no sense is a Problem that names it."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._given = given

    def text(self, name: str) -> str:
        """A text that must be there."""
        value = self.maybe(name)
        if value is None:
            raise Problem(400, f"{name} is missing")
        return value

    def maybe(self, name: str) -> str | None:
        """A text; an empty one is none."""
        value = self._given.get(name)
        if value is None or value == "":
            return None
        if not isinstance(value, str):
            raise Problem(400, f"{name} must be a text")
        return value

    def number(self, name: str) -> int | None:
        """A whole number, which may come as a text."""
        value = self._given.get(name)
        if value is None or value == "":
            return None
        try:
            if isinstance(value, (bool, float)):
                raise ValueError
            return int(value)
        except (TypeError, ValueError):
            raise Problem(400, f"{name} must be a whole number") from None

    def whole(self, name: str) -> int:
        """A whole number that must be there."""
        value = self.number(name)
        if value is None:
            raise Problem(400, f"{name} is missing")
        return value

    def job_ids(self, name: str) -> list[int]:
        """Up to a thousand job ids, in ascending order."""
        given = self._given.get(name)
        if not isinstance(given, list) or not 0 < len(given) <= 1000:
            raise Problem(400, f"{name} must be a list of 1 to 1000 ids")
        return sorted({Query({name: one}).whole(name) for one in given})

    def rate(self, name: str) -> float | None:
        """A number."""
        value = self._given.get(name)
        if value is None or value == "":
            return None
        try:
            if isinstance(value, bool):
                raise ValueError
            return float(value)
        except (TypeError, ValueError):
            raise Problem(400, f"{name} must be a number") from None

    def flag(self, name: str) -> bool | None:
        """True or false."""
        value = self._given.get(name)
        if value is not None and not isinstance(value, bool):
            raise Problem(400, f"{name} must be true or false")
        return value

    def json(self, name: str) -> Jsonb | None:
        """A text that is JSON; the database reads it, so that numbers keep all their digits."""
        value = self.maybe(name)
        return None if value is None else Jsonb(value, dumps=str)

    def numbers(self, name: str) -> dict[int, int] | None:
        """Whole numbers by whole numbers, as ``0:17,1:4``."""
        value = self.maybe(name)
        if value is None:
            return None
        try:
            pairs = (one.split(":") for one in value.split(","))
            return {int(left): int(right) for left, right in pairs}
        except ValueError:
            raise Problem(400, f"{name} must be of the form 0:17,1:4") from None

    def moment(self, name: str) -> datetime | None:
        """A point in time: ISO 8601, or an age such as '10m ago'."""
        value = self.maybe(name)
        try:
            return None if value is None else moment_of(value)
        except typer.BadParameter as error:
            raise Problem(400, error.message) from None

    def span(self, name: str) -> timedelta | None:
        """A length of time, such as 90s."""
        value = self.maybe(name)
        try:
            return None if value is None else span_of(value)
        except typer.BadParameter as error:
            raise Problem(400, error.message) from None
