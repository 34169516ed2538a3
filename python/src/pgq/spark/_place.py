"""Where the data source ``pgq`` connects to: options that reads and writes have alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from pgq.spark._bounds import refused
from pgq.spark._connection import SERVER_TYPES, Location

__all__ = ["PLACE", "connect", "conninfo_of", "known", "urls_of"]

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

PLACE = ("url", "user", "password", *_SETTINGS, "ssl", "targetServerType")
"""The options that say where the database is, and how to connect."""


def known(options: Mapping[str, str], names: tuple[str, ...]) -> dict[str, str]:
    """The options by their names in lower case; any that is not among the names is an error."""
    given = {name.lower(): value for name, value in options.items()}
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
        raise refused("url", "is missing: jdbc:postgresql://host:port/database")
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


def connect(conninfo: str) -> psycopg.Connection[Any]:
    """A connection in autocommit that a pooler may serve."""
    return psycopg.connect(
        conninfo,
        autocommit=True,
        prepare_threshold=None,
        fallback_application_name="pgq spark",
        client_encoding="UTF8",
    )
