"""A connection that hands on what the server says, also what no program could have as a value."""

from __future__ import annotations

from dataclasses import dataclass, field

import psycopg
from psycopg import pq

from support.session import contents

__all__ = ["Answer", "Link"]

_INTEGERS = {20, 21, 23}

Value = str | int | None


@dataclass(frozen=True)
class Answer:
    """The rows of a statement, or its error."""

    rows: list[dict[str, Value]] = field(default_factory=list)
    code: str | None = None
    message: str = ""
    raised_by: str = ""
    """The function of the server that raised it: that of ``raise``, or another one."""

    def __str__(self) -> str:
        if self.code is not None:
            return f"{self.code} {self.message}"
        return "; ".join(" ".join(f"{k}={v}" for k, v in row.items()) for row in self.rows[:4])


class Lost(Exception):
    """The connection is gone."""


class Link:
    """A session to a database; what it sends is what a person may type."""

    def __init__(self, dsn: str) -> None:
        self._connection = psycopg.connect(dsn, autocommit=True)
        self._raw = self._connection.pgconn

    def ask(self, statement: str) -> Answer:
        result = self._raw.exec_(statement.encode())
        if result.status == pq.ExecStatus.TUPLES_OK:
            return Answer(_rows(result))
        if result.status == pq.ExecStatus.COMMAND_OK:
            return Answer()
        if self._raw.status != pq.ConnStatus.OK:
            raise Lost(self._raw.error_message.decode())

        def said(part: pq.DiagnosticField) -> str:
            return (result.error_field(part) or b"").decode()

        message = said(pq.DiagnosticField.MESSAGE_PRIMARY)
        context = said(pq.DiagnosticField.CONTEXT).splitlines()[:1]
        return Answer(
            code=said(pq.DiagnosticField.SQLSTATE),
            message="; ".join([message, *context])[:500],
            raised_by=said(pq.DiagnosticField.SOURCE_FUNCTION),
        )

    def do(self, statement: str) -> list[dict[str, Value]]:
        """The rows of a statement that must not fail."""
        answer = self.ask(statement)
        if answer.code is not None:
            raise RuntimeError(f"{statement}: {answer}")
        return answer.rows

    def contents(self) -> dict[str, tuple[int, int]]:
        """What every table has, as a digest."""
        return contents(self._connection)

    @property
    def in_transaction(self) -> bool:
        return self._raw.transaction_status != pq.TransactionStatus.IDLE

    def close(self) -> None:
        self._connection.close()


def _rows(result: pq.abc.PGresult) -> list[dict[str, Value]]:
    names = [(result.fname(n) or b"").decode() for n in range(result.nfields)]
    numbers = [result.ftype(n) in _INTEGERS for n in range(result.nfields)]
    return [
        {name: _value(result.get_value(row, n), numbers[n]) for n, name in enumerate(names)}
        for row in range(result.ntuples)
    ]


def _value(raw: bytes | None, number: bool) -> Value:
    if raw is None:
        return None
    return int(raw) if number else raw.decode()
