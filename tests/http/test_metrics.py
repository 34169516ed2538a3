"""Metrics over HTTP: PostgREST is all that Prometheus needs."""

from __future__ import annotations

import urllib.request

import psycopg
from prometheus_client.parser import text_string_to_metric_families

from pgq import Client
from support.http import Http
from support.postgrest import Postgrest

PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
    "text/plain;version=0.0.4;q=0.4,*/*;q=0.1"
)
"""What it accepts when it scrapes."""


def test_a_scrape(http: Http, postgrest: Postgrest, dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        client = Client(connection)
        client.create_topic("readings", partitions=1)
        client.publish("readings", {"celsius": 21.5})
        client.heartbeat('odd "name" \\ \N{SNOWMAN}')
    for accept in ("text/plain", PROMETHEUS):
        request = urllib.request.Request(
            f"{postgrest.url}/rpc/metrics_text", headers={"Accept": accept}
        )
        with urllib.request.urlopen(request, timeout=30) as response:
            kind = response.headers["Content-Type"]
            text = response.read().decode()
        assert kind.startswith("text/plain"), kind
        found = {
            (sample.name, *sample.labels.values()): sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
        }
        assert found["pgq_topic_published_total", "readings"] == 1
        [worker] = [key[1:] for key in found if key[0] == "pgq_worker_running"]
        assert 'odd "name" \\ \N{SNOWMAN}' in worker


def test_rows(http: Http) -> None:
    """As JSON."""
    found = http.get("rpc/metrics")
    assert found.status == 200
    [row] = [row for row in found.body if row["name"] == "pgq_info"]
    assert (row["value"], row["type"]) == (1, "gauge")
    assert row["labels"]["version"]
