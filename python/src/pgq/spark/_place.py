"""Where the data source ``pgq`` connects to: options that reads and writes have alike."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pgq.spark._bounds import refused
from pgq.spark._connection import SERVER_TYPES, Location
from pgq.spark._retry import RETRY, connected

__all__ = [
    "PLACE",
    "VIEW",
    "WRITING",
    "connect",
    "conninfo_of",
    "known",
    "length",
    "retry_of",
    "urls_of",
]

# What libpq calls each further option. Some have a name of the JDBC driver beside that of libpq.
_SETTINGS = {
    "sslmode": "sslmode",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "sslpassword": "sslpassword",
    "sslrootcert": "sslrootcert",
    "sslcrl": "sslcrl",
    "ApplicationName": "application_name",
    "application_name": "application_name",
    "connectTimeout": "connect_timeout",
    "connect_timeout": "connect_timeout",
    "options": "options",
    "gssEncMode": "gssencmode",
    "channelBinding": "channel_binding",
    "channel_binding": "channel_binding",
    "target_session_attrs": "target_session_attrs",
    "keepalives": "keepalives",
    "keepalives_idle": "keepalives_idle",
    "keepalives_interval": "keepalives_interval",
    "keepalives_count": "keepalives_count",
    "tcp_user_timeout": "tcp_user_timeout",
}

WRITING = (
    "topic",
    "queue",
    "producer",
    "seq",
    "valueFormat",
    "delay",
    "priority",
    "timeout",
    "chunkRows",
    "chunkBytes",
    "expectedMessages",
    "checkRepeated",
    "badRowsTopic",
)
"""The options of a write. A read takes them, too: a temporary view has one set for both."""

PLACE = ("url", "user", "password", *_SETTINGS, "ssl", "targetServerType", "retryTimeout")
"""The options that say where the database is, and how to connect."""


VIEW = "; instead of CREATE TABLE use CREATE TEMPORARY VIEW … USING pgq OPTIONS (…)"
"""What to do where Spark asks without any option, as for a table."""


def known(options: Mapping[str, str], names: tuple[str, ...]) -> dict[str, str]:
    """The options by their names in lower case; any that is not among the names is an error."""
    given = {name.lower(): value for name, value in options.items()}
    if "provider" in given:  # as Spark has it of a table
        raise ValueError(f"the data source pgq has no tables{VIEW}")
    unknown = sorted(given.keys() - {name.lower() for name in (*names, *PLACE)})
    if unknown:
        # names alone: what they are set to may be a secret
        raise ValueError(
            f"unknown option {', '.join(map(repr, unknown))}; the data source pgq knows "
            + ", ".join((*names, *PLACE))
        )
    return given


def urls_of(given: Mapping[str, str]) -> list[str]:
    """The URL of each database; there are several where a topic is spread over them."""
    return given.get("url", "").split() or [""]


def conninfo_of(given: Mapping[str, str], url: str) -> str:
    """The place for psycopg. No message here shows the URL, which may hold a password."""
    credentials = {name: given[name] for name in ("user", "password") if name in given}
    if not url:
        what = "is missing: jdbc:postgresql://host:port/database"
        raise refused("url", f"{what}{'' if given else VIEW}")
    try:
        if url.startswith(("postgresql://", "postgres://")):
            place = make_conninfo(url, **credentials)
        else:
            place = Location(url, credentials).conninfo()
        said = conninfo_to_dict(place)
    except (ValueError, psycopg.Error):
        raise refused(
            "url",
            "is no URL of a PostgreSQL database: it has the form "
            "jdbc:postgresql://host:port/database or postgresql://host:port/database",
        ) from None
    settings = _settings(given)
    if "sslmode" in said and "ssl" in given and "sslmode" not in given:
        settings.pop("sslmode", None)
    return make_conninfo(place, **settings)


def _settings(given: Mapping[str, str]) -> dict[str, str]:
    """The further options, by the names that libpq has for them."""
    settings = {
        keyword: given[name.lower()] for name, keyword in _SETTINGS.items() if name.lower() in given
    }
    if "sslmode" not in settings and given.get("ssl", "false").lower() in ("", "true"):
        settings["sslmode"] = "verify-full"  # what the JDBC driver takes it for
    kind = given.get("targetservertype")
    if kind is not None:
        if kind.lower() not in SERVER_TYPES:
            raise refused(
                "targetServerType", f"is {kind!r}; it must be one of {', '.join(SERVER_TYPES)}"
            )
        settings["target_session_attrs"] = SERVER_TYPES[kind.lower()]
    return settings


_UNITS = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}


def length(given: Mapping[str, str], name: str, default: timedelta) -> timedelta:
    """A length of time."""
    text = given.get(name.lower())
    if text is None:
        return default
    found = re.fullmatch(r"(\d{1,9})(ms|s|m|min|h|d)", text.strip().lower())
    if found is None:
        raise refused(name, f"is {text!r}; it must be a number with ms, s, m, h or d, like 15m")
    return timedelta(seconds=int(found[1]) * _UNITS[found[2]])


def retry_of(given: Mapping[str, str]) -> float:
    """For how many seconds a lost server is asked again."""
    return length(given, "retryTimeout", timedelta(seconds=RETRY)).total_seconds()


def connect(conninfo: str, retry: float) -> psycopg.Connection[Any]:
    """A connection in autocommit that a pooler may serve; it waits for a server that is away."""
    return connected(
        lambda: psycopg.connect(
            conninfo,
            autocommit=True,
            prepare_threshold=None,
            fallback_application_name="pgq spark",
            client_encoding="UTF8",
        ),
        conninfo,
        retry,
    )
