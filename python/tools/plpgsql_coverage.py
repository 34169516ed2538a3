"""Run tests, and write which statements of PL/pgSQL none of them has executed.

Arguments go to pytest. The page `.cache/coverage/page.txt` has a line for each function and, below
it, the statements that were never reached. A statement that is written out for each leaf counts as
reached when one of its copies was. The profiler loses what a call did that ended in an error, so
statements that raise are left out, and one that is followed by an error in every test is shown.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import psycopg

from build import ROOT, migration_path
from lint import PROGRAMS
from pgq.embedded import Server
from pgq.embedded._binaries import system_folders

FOLDER = ROOT / ".cache" / "coverage"
_UNCOUNTED = re.compile(r"raise\b|perform pgq\._fail|if \S+ <= \d+ then")
_LEAF = re.compile(r"\b(message|idempotency|job_archive|job_event)_\d+\b")


def main() -> int:
    """Run the tests, and write the page."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    programs = next((folder for folder in system_folders() if _has_profiler(folder)), None)
    if programs is None:
        print("no server here has the extension plpgsql_check (postgresql-NN-plpgsql-check)")
        return 1
    os.environ["PGQ_PG_BIN"] = str(programs)
    arguments = sys.argv[1:] or ["-n", "auto", "-m", "not slow"]
    done = subprocess.run(
        [PROGRAMS / "pytest", "-q", *arguments],
        cwd=ROOT,
        env={**os.environ, "PGQ_COVERAGE": str(FOLDER)},
        check=False,
    )
    executed: defaultdict[str, set[int]] = defaultdict(set)
    for path in FOLDER.glob("*.jsonl"):
        for line in path.read_text().splitlines():
            for name, lines in json.loads(line).items():
                executed[name] |= {*lines}
    page, missing, every = _page(executed)
    (FOLDER / "page.txt").write_text(page)
    print(f"{every - missing} of {every} statements: {FOLDER / 'page.txt'}")
    return done.returncode


def _has_profiler(folder: Path) -> bool:
    """Whether Debian's package of the extension is there for the programs in a folder."""
    return (folder.parent / "lib" / "plpgsql_check.so").exists()


def _page(executed: dict[str, set[int]]) -> tuple[str, int, int]:
    with Server(settings={"shared_preload_libraries": "plpgsql_check"}) as server:
        with psycopg.connect(server.dsn, autocommit=True) as connection:
            connection.execute("create extension plpgsql_check")
            script = re.sub(r"^\\.*\n", "", migration_path().read_text(), flags=re.MULTILINE)
            connection.execute(script.encode())
            functions = connection.execute(
                """
                select p.proname, p.prosrc, array_agg(distinct s.lineno)
                from pg_proc as p
                inner join pg_language as l on l.oid = p.prolang
                cross join plpgsql_profiler_function_statements_tb(p.oid) as s
                where p.pronamespace = 'pgq'::regnamespace and l.lanname = 'plpgsql'
                    and p.prorettype <> 'anyelement'::regtype -- which the profiler cannot take
                group by p.proname, p.prosrc
                order by p.proname
                """
            ).fetchall()
    parts, missing, every = [], 0, 0
    for name, source, numbers in functions:
        texts = source.split("\n")
        counted = {n for n in numbers if not _UNCOUNTED.match(texts[n - 1].strip())}
        reached = {_text(texts, number) for number in executed.get(name, ())}
        lines = [
            f"    {number}: {texts[number - 1].strip()}"
            for number in sorted(counted)
            if number not in executed.get(name, ()) and _text(texts, number) not in reached
        ]
        every += len(counted)
        missing += len(lines)
        parts.append(f"{name}: {len(counted) - len(lines)} of {len(counted)}")
        parts += lines
    return "\n".join(parts) + "\n", missing, every


def _text(texts: list[str], number: int) -> str:
    """A statement's first lines, the same for each leaf."""
    return _LEAF.sub(r"\1_N", " ".join(" ".join(texts[number - 1 : number + 7]).split()))[:160]


if __name__ == "__main__":
    sys.exit(main())
