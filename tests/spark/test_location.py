"""A JDBC URL and properties, as Spark and psycopg take them."""

from __future__ import annotations

import pytest
from psycopg.conninfo import conninfo_to_dict

from pgq.spark._connection import Location, quoted


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("jdbc:postgresql://db:6432/shop", {"host": "db", "port": "6432", "dbname": "shop"}),
        ("jdbc:postgresql://db/shop", {"host": "db", "port": "5432", "dbname": "shop"}),
        ("jdbc:postgresql:shop", {"host": "localhost", "port": "5432", "dbname": "shop"}),
        ("jdbc:postgresql://a:1,b:2/s", {"host": "a,b", "port": "1,2", "dbname": "s"}),
        ("jdbc:postgresql://[::1]:7/s", {"host": "::1", "port": "7", "dbname": "s"}),
        ("jdbc:postgresql://db/a%20b", {"host": "db", "port": "5432", "dbname": "a b"}),
        (
            "jdbc:postgresql://db/s?sslmode=require&tcpKeepAlive=true",
            {"host": "db", "port": "5432", "dbname": "s", "sslmode": "require"},
        ),
    ],
)
def test_a_url_means_the_same_to_psycopg(url: str, expected: dict[str, str]) -> None:
    found = conninfo_to_dict(Location(url).conninfo())
    assert found == {**expected, "application_name": "pgq spark"}


def test_credentials_leave_the_url() -> None:
    location = Location("jdbc:postgresql://db/s?user=ann&password=s%26cret&sslmode=require")
    assert location.credentials == {"user": "ann", "password": "s&cret"}
    assert "ann" not in location.url
    assert "cret" not in location.url + repr(location)
    found = conninfo_to_dict(location.conninfo())
    assert (found["user"], found["password"]) == ("ann", "s&cret")


def test_other_properties_stand_in_the_url() -> None:
    # on some of its ways Spark lowers their case, and the driver does not know preparethreshold
    given = {"ApplicationName": "load & go", "prepareThreshold": "5", "user": "ann"}
    location = Location("jdbc:postgresql://db/s?prepareThreshold=3", given)
    assert location.url == (
        "jdbc:postgresql://db/s?ApplicationName=load%20%26%20go&prepareThreshold=3"
    )
    assert conninfo_to_dict(location.conninfo())["application_name"] == "load & go"


@pytest.mark.parametrize(
    ("parameters", "expected"),
    [
        ("ssl=true", {"sslmode": "verify-full"}),
        ("ssl", {"sslmode": "verify-full"}),
        ("ssl=true&sslmode=require", {"sslmode": "require"}),
        ("ssl=false", {}),
        ("targetServerType=primary", {"target_session_attrs": "read-write"}),
        ("targetServerType=preferSecondary", {"target_session_attrs": "prefer-standby"}),
    ],
)
def test_encryption_and_the_kind_of_server_mean_the_same(
    parameters: str, expected: dict[str, str]
) -> None:
    found = conninfo_to_dict(Location(f"jdbc:postgresql://db/s?{parameters}").conninfo())
    assert {name: found.get(name) for name in expected} == expected
    assert ("sslmode" in found) == ("sslmode" in expected)


def test_a_password_is_one_however_it_is_spelled() -> None:
    location = Location("jdbc:postgresql://db/s", {"Password": "s3cret"})
    assert location.credentials == {"password": "s3cret"}
    assert "s3cret" not in location.url


def test_results_are_binary_from_the_first_execution_on() -> None:
    assert "prepareThreshold=-1" in Location("jdbc:postgresql://db/s").url


@pytest.mark.parametrize(
    "url", ["postgresql://u:secret@db/s", "jdbc:mysql://db/s?password=secret", "db", ""]
)
def test_other_urls_are_refused_and_not_shown(url: str) -> None:
    with pytest.raises(ValueError, match="jdbc:postgresql://") as caught:
        Location(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("text", ["it's", "back\\slash", 'quo"te', "é\n", "$1 ?", "--"])
def test_literals_are_what_they_were(connection, text: str) -> None:  # type: ignore[no-untyped-def]
    assert connection.execute(f"select {quoted(text)}".encode()).fetchone() == (text,)


def test_a_literal_cannot_have_nul() -> None:
    with pytest.raises(ValueError, match="NUL"):
        quoted("a\0b")
