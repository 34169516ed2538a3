"""Metrics over HTTP: PostgREST is all that Prometheus needs."""

from __future__ import annotations

import urllib.request

import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families

from pgq import Client
from support.http import Answer, Http
from support.postgrest import Postgrest

PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,"
    "text/plain;version=0.0.4;q=0.4,*/*;q=0.1"
)
"""What it accepts when it scrapes."""


def test_a_scrape(http: Http, postgrest: Postgrest, dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        client = Client(connection)
        client.admin.create_topic("readings", partitions=1)
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


@pytest.mark.parametrize("select", ["*", "name,value", "name,labels,value", "value,name"])
def test_some_of_the_rows(http: Http, select: str) -> None:
    """A filter goes by columns that are selected; before 13.0 PostgREST knows no others."""
    for query in ({}, {"select": select}):
        found = http.get("rpc/metrics", name="eq.pgq_info", **query)
        assert found.status == 200, found
        [row] = found.body
        assert row["value"] == 1
    several = http.get(
        "rpc/metrics", name="in.(pgq_info,pgq_jobs_created_total)", select="name,type"
    )
    assert sorted((row["name"], row["type"]) for row in several.body) == [
        ("pgq_info", "gauge"),
        ("pgq_jobs_created_total", "counter"),
    ]
    assert http.get("rpc/metrics", name="eq.nothing").body == []


def test_a_filter_by_what_is_not_selected(http: Http, postgrest: Postgrest) -> None:
    """The guide on HTTP says from which version of PostgREST on this works."""
    with urllib.request.urlopen(postgrest.url, timeout=30) as response:
        major = int(response.headers["Server"].removeprefix("postgrest/").partition(".")[0])
    found = http.get("rpc/metrics", name="eq.pgq_info", select="value")
    if major < 13:
        assert (found.status, found.body["code"]) == (400, "42703")
    else:
        assert found == Answer(200, [{"value": 1}])
