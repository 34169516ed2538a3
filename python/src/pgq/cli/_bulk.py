"""What is done with many jobs of a queue: which ones, how many, and page by page."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

import typer

from pgq import BulkResult, Client
from pgq.cli._complete import queue_names
from pgq.cli._errors import warn
from pgq.cli._house import confirm
from pgq.cli._output import as_json, write_line
from pgq.cli._values import a_moment

__all__ = [
    "All",
    "Before",
    "Bulk",
    "DryRun",
    "ErrorText",
    "Key",
    "Label",
    "Leased",
    "OfQueue",
    "Since",
    "filter_of",
    "tell",
]

OfQueue = Annotated[
    str | None,
    typer.Option("--queue", "-q", metavar="QUEUE", autocompletion=queue_names, help="the queue"),
]
All = Annotated[bool, typer.Option("--all", help="every one, in place of a filter")]
Label = Annotated[str | None, typer.Option(help="only those with this label")]
ErrorText = Annotated[
    str | None,
    typer.Option("--error", metavar="TEXT", help="only with this text in the last error"),
]
Key = Annotated[str | None, typer.Option(help="only those of this key, in an ordered queue")]
Since = Annotated[datetime | None, a_moment("only those that died, or are due, then or later")]
Before = Annotated[datetime | None, a_moment("only those that died, or are due, before")]
Leased = Annotated[bool, typer.Option("--leased", help="those that a worker has as well")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="only say how many there are")]


def filter_of(
    label: str | None,
    error: str | None,
    key: str | None,
    since: datetime | None,
    before: datetime | None,
    *,
    times: str,
) -> dict[str, Any]:
    """The arguments of a call for what is given; `times`: died or due."""
    given = {
        "label": label,
        "error_contains": error,
        "key": key,
        f"{times}_since": since,
        f"{times}_before": before,
    }
    return {name: value for name, value in given.items() if value is not None}


@dataclass(slots=True)
class Bulk:
    """An act on jobs of a queue.

    `call` is a method of the client that returns a BulkResult, `which` the arguments that say which
    jobs. `verb` and `done` are the words for it, `what` the one for the jobs.
    """

    client: Client
    queue: str
    call: Callable[..., BulkResult]
    verb: str
    done: str
    which: dict[str, Any]
    what: str = "job"
    max_jobs: int | None = None
    per_second: float | None = None

    def run(self, *, dry_run: bool, yes: bool, json: bool) -> None:
        """Say how many there are, ask, and do it."""
        if dry_run or not yes:
            count = self._pages(dry_run=True)
            if dry_run:
                if json:
                    write_line(as_json({"queue": self.queue, self.done: 0, "matching": count}))
                else:
                    write_line(f"{self._counted(count)} would be {self.done}")
                return
            if count:
                confirm(f"{self.verb} {self._counted(count)}?", yes)
        tell(self._pages(dry_run=False) if yes or count else 0, self.done, self.queue, json)

    def _counted(self, count: int) -> str:
        return f'{count:,} {self.what}{"" if count == 1 else "s"} of queue "{self.queue}"'

    def _pages(self, *, dry_run: bool) -> int:
        """Call it until it has looked at all jobs; each call is a transaction of its own."""
        options = {} if self.per_second is None or dry_run else {"per_second": self.per_second}
        taken = 0
        after_id: int | None = None
        try:
            while True:
                left = None if self.max_jobs is None else self.max_jobs - taken
                began = time.monotonic()
                page = self._page(left, after_id, dry_run, options)
                taken += page.taken
                after_id = page.after_id
                if after_id is None or taken == self.max_jobs:
                    return taken
                if options and self.per_second is not None:
                    self._wait(began + page.taken / self.per_second, taken)
        except BaseException:
            if taken and not dry_run:
                warn(f"{self.done} {self._counted(taken)} before that")
            raise

    def _page(
        self, left: int | None, after_id: int | None, dry_run: bool, options: dict[str, Any]
    ) -> BulkResult:
        def act(_: Client) -> BulkResult:
            return self.call(
                self.queue,
                **self.which,
                **options,
                max_jobs=left,
                after_id=after_id,
                dry_run=dry_run or None,
            )

        return self.client.retry(act)

    def _wait(self, until: float, taken: int) -> None:
        """A call spreads its jobs from its own time on, so the next one waits for their end."""
        rest = until - time.monotonic()
        if rest >= 1:
            warn(f"{self.done} {self._counted(taken)}, goes on in {rest:,.0f} s")
        if rest > 0:
            time.sleep(rest)


def tell(count: int, done: str, queue: str, json: bool) -> None:
    """Say how many it were."""
    if json:
        write_line(as_json({"queue": queue, done: count}))
    else:
        write_line(f'{done} {count:,} {"job" if count == 1 else "jobs"} of queue "{queue}"')
