"""PGlite, PostgreSQL in WebAssembly, runs the install script and the SQL of the README."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import psycopg
import pytest

from build import migration_path
from support.drivers import run_program
from support.house import ROOT
from support.pages import blocks

PROGRAM = ROOT / "tests" / "drivers" / "pglite.mjs"

STATE = """
    select jsonb_build_object(
        'messages', (
            select jsonb_agg(jsonb_build_array(m.topic, m.payload) order by m.topic, m.payload)
            from pgq.messages as m
        ),
        'queues', (
            select jsonb_agg(
                jsonb_build_array(s.queue, s.ready + s.leased + s.delayed, s.dead) order by s.queue
            )
            from pgq.queue_stats as s
        ),
        'cleanup', (select count(*) from pgq.cleanup() where action = 'failed')
    ) as state
"""


@pytest.mark.slow
def test_the_readme(dsn: str) -> None:
    """What it leaves is what it leaves in a server."""
    shown = [one.text for one in blocks(ROOT / "README.md") if one.language == "sql"]
    asked = json.dumps([[*shown, STATE], str(migration_path())])
    [answer] = json.loads(run_program(PROGRAM, dsn, asked))

    psql = ["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", dsn]
    subprocess.run(psql, input="\n".join(shown), capture_output=True, text=True, check=True)
    with psycopg.connect(dsn) as connection:
        found: Any = connection.execute(STATE).fetchone()
    assert answer["state"] == found[0]
    assert answer["state"]["messages"]
    assert answer["state"]["queues"]
