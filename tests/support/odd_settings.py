"""Settings that a database, a role or a session may have, and that pgq must not depend on."""

from __future__ import annotations

import pytest
from psycopg import sql

from support.session import Session

__all__ = ["KINDS", "STRICT", "set_for_database"]

# PL/pgSQL as strict as it can be.
STRICT = {"plpgsql.extra_errors": "all", "plpgsql.extra_warnings": "all"}

# What decides how a text is read or written, or how a statement is planned. With these a literal
# with a backslash that is no E'' literal means something else, and is warned of.
ODD = {
    "standard_conforming_strings": "off",
    "escape_string_warning": "on",
    "backslash_quote": "off",
    "transform_null_equals": "on",
    "quote_all_identifiers": "on",
    "bytea_output": "escape",
    "datestyle": "German, DMY",
    "intervalstyle": "sql_standard",
    "extra_float_digits": "-15",
    "timezone": "Pacific/Chatham",
    "xmlbinary": "hex",
    "row_security": "off",
    "check_function_bodies": "off",
    "plan_cache_mode": "force_custom_plan",
    "enable_indexscan": "off",
    "search_path": "pg_catalog",
}

KINDS = [
    pytest.param(STRICT, id="strict"),
    pytest.param(ODD, id="odd", marks=pytest.mark.slow),
]


def set_for_database(connection: Session, settings: dict[str, str]) -> None:
    """Give a database settings of its own, which later sessions have."""
    database = sql.Identifier(connection.info.dbname)
    for setting, value in settings.items():
        connection.execute(
            sql.SQL("alter database {} set {} = {}").format(
                database,
                sql.SQL(setting),
                # a list is written without quotes around it
                sql.SQL(value) if setting == "datestyle" else sql.Literal(value),
            )
        )
