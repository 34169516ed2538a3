"""Where the database is, and calls of its functions from the Spark driver."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.pq import DiagnosticField
from pyspark.sql import SparkSession

from pgq.errors import BY_SQLSTATE
from pgq.spark._retry import RETRY, Patience, is_lost_by_spark

__all__ = [
    "SERVER_TYPES",
    "Arguments",
    "DriverConnection",
    "Location",
    "call",
    "error_of",
    "is_classic",
    "moment",
    "one_connection",
    "quoted",
]

DRIVER = "org.postgresql.Driver"

Arguments = Mapping[str, tuple[str, object]]
"""Arguments of a function by name: the SQL type and the value of each."""

_JDBC_URL = re.compile(
    r"jdbc:postgresql:(?://(?P<hosts>[^/?@]*)/)?(?P<database>[^/?]*)(?:\?(?P<query>.*))?"
)

# what libpq calls the properties of the JDBC driver that it has as well
_LIBPQ = {
    "user": "user",
    "password": "password",
    "sslmode": "sslmode",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "sslpassword": "sslpassword",
    "sslrootcert": "sslrootcert",
    "ApplicationName": "application_name",
    "connectTimeout": "connect_timeout",
    "options": "options",
    "gssEncMode": "gssencmode",
    "channelBinding": "channel_binding",
}
SERVER_TYPES = {
    "any": "any",
    "primary": "read-write",
    "master": "read-write",
    "secondary": "standby",
    "slave": "standby",
    "prefersecondary": "prefer-standby",
    "preferslave": "prefer-standby",
}
_SECRET = ("user", "password", "sslpassword")

# With -1 results come in binary form from the first execution on, which reads faster.
DEFAULTS = {"ApplicationName": "pgq spark", "prepareThreshold": "-1"}


class Location:
    """A database for the JDBC driver, and for psycopg: its URL, and properties with credentials.

    ``url`` is that of the JDBC driver, ``jdbc:postgresql://host:port/database``; ``properties`` are
    the driver's too. Afterwards ``url`` has all of them but the credentials, which Spark masks
    where it logs options.
    """

    def __init__(
        self, url: str, properties: Mapping[str, str] | None = None, retry: float = RETRY
    ) -> None:
        self.retry = retry
        found = _JDBC_URL.fullmatch(url)
        if found is None:
            # The URL itself may hold a password, so it is not shown.
            raise ValueError(
                "not a JDBC URL of PostgreSQL: it has the form jdbc:postgresql://host:port/database"
            )
        self._hosts = [
            (host or "localhost", port or "5432")
            for host, _, port in (
                re.sub(r"^\[(.*)\]", lambda m: m[1].replace(":", "%3A"), host).partition(":")
                for host in (found["hosts"] or "").split(",")
            )
        ]
        self._database = unquote(found["database"])
        self.given = url
        given = {name: str(value) for name, value in (properties or {}).items()}
        given.pop("driver", None)
        settings = {
            **DEFAULTS,
            **given,
            **dict(parse_qsl(found["query"] or "", keep_blank_values=True)),
        }
        self.credentials = {
            name.lower(): settings.pop(name) for name in list(settings) if name.lower() in _SECRET
        }
        self._settings = settings
        # Spark lowers the case of properties on some of its ways, where the driver then does not
        # know them; in the URL they stay as they are.
        self.url = f"{url.partition('?')[0]}?{urlencode(settings, quote_via=quote)}"

    def __repr__(self) -> str:
        return f"Location({self.url.partition('?')[0]!r})"

    def options(self) -> dict[str, str]:
        """What Spark's JDBC source needs to connect."""
        return {"url": self.url, "driver": DRIVER, **self.credentials}

    def conninfo(self) -> str:
        """The same place for psycopg; properties that only the JDBC driver has are left out."""
        known = {
            _LIBPQ[name]: value
            for name, value in {**self._settings, **self.credentials}.items()
            if name in _LIBPQ
        }
        if "sslmode" not in known and self._settings.get("ssl", "false").lower() in ("", "true"):
            known["sslmode"] = "verify-full"  # what the JDBC driver takes it for
        server = SERVER_TYPES.get(self._settings.get("targetServerType", "any").lower(), "any")
        if server != "any":
            known["target_session_attrs"] = server
        database = {"dbname": self._database} if self._database else {}
        return make_conninfo(
            "",
            host=",".join(host.replace("%3A", ":") for host, _ in self._hosts),
            port=",".join(port for _, port in self._hosts),
            **database,
            **known,
        )


def quoted(value: object) -> str:
    """A literal of SQL."""
    if value is None:
        return "null"
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if "\0" in text:
        raise ValueError("a text for PostgreSQL cannot contain NUL")
    # an E string means the same whatever standard_conforming_strings says
    return "E'" + text.replace("\\", "\\\\").replace("'", "''") + "'"


_NO_DRIVER = (
    "the JDBC driver of PostgreSQL is not among Spark's jars: set spark.jars, or "
    "spark.jars.packages to org.postgresql:postgresql:42.7.13, for the session; with "
    "Spark Connect, for the server"
)


def call(
    spark: SparkSession,
    location: Location,
    function: str,
    arguments: Arguments,
    *,
    retry: float | None = None,
) -> list[Any]:
    """Call a function of pgq in a transaction of its own, and return its rows.

    Where the server is away the call is repeated, so this is for functions that may be repeated.
    """
    patience = Patience(location.retry if retry is None else retry)
    while True:
        try:
            return _call(spark, location, function, arguments)
        except Exception as error:
            if not is_lost_by_spark(error) or not patience.again(error):
                raise
            _shared.set(None)


def _call(
    spark: SparkSession, location: Location, function: str, arguments: Arguments
) -> list[Any]:
    if _jvm(spark) is not None:
        shared = _shared.get()
        if shared is not None and shared.location is location:
            return shared.call(function, arguments)
        with DriverConnection(spark, location) as connection:
            return connection.call(function, arguments)
    # On Spark Connect there is no JVM at hand; there the call is a query that Spark's JDBC source
    # runs. It is run once, by the one action on it, but for a task that fails and is tried again.
    values = ", ".join(
        f"{name} => {quoted(value)}::{kind}" for name, (kind, value) in arguments.items()
    )
    query = f"select to_json(r)::text as answer from pgq.{function}({values}) as r"
    try:
        rows = (
            spark.read.format("jdbc")
            .options(**location.options())
            .option("query", query)
            .load()
            .collect()
        )
    except Exception as error:
        if "ClassNotFoundException) org.postgresql.Driver" in str(error):
            raise RuntimeError(_NO_DRIVER) from error
        raise
    return [json.loads(row["answer"]) for row in rows]


class DriverConnection:
    """A JDBC connection of the Spark driver, as a context manager; autocommit is on at first.

    ``retry``: for how many seconds it waits for a server that is away.
    """

    def __init__(self, spark: SparkSession, location: Location, retry: float = 0) -> None:
        self._patience = Patience(retry)
        self._jvm = _jvm(spark)
        if self._jvm is None:
            raise NotImplementedError(
                "this needs a transaction of the Spark driver, which Spark Connect cannot hold: "
                "use a classic session"
            )
        self.location = location
        self._connection: Any = None

    def __enter__(self) -> DriverConnection:
        while True:
            try:
                self._connect()
                return self
            except psycopg.Error as error:
                if not is_lost_by_spark(error) or not self._patience.again(error):
                    raise

    def _connect(self) -> None:
        properties = self._jvm.java.util.Properties()
        for name, value in self.location.credentials.items():
            properties.setProperty(name, value)
        with _errors():
            driver = self._jvm.org.postgresql.Driver
            if type(driver).__name__ == "JavaPackage":
                raise RuntimeError(_NO_DRIVER)
            # The driver itself: DriverManager does not see classes that came by spark.jars.
            self._connection = driver().connect(self.location.url, properties)
            # whatever the database's default: commit_write needs it
            self._connection.setTransactionIsolation(2)  # TRANSACTION_READ_COMMITTED

    def __exit__(self, *exc_info: object) -> None:
        # Closing rolls back what was not committed.
        self._connection.close()

    def begin(self) -> None:
        """From now on nothing is committed but by :meth:`commit`."""
        with _errors():
            self._connection.setAutoCommit(False)

    def commit(self) -> None:
        """Commit the transaction."""
        with _errors():
            self._connection.commit()

    def rollback(self) -> None:
        """Undo the transaction, and let go of its locks."""
        with _errors():
            self._connection.rollback()

    def call(self, function: str, arguments: Arguments) -> list[Any]:
        """Call a function of pgq by a prepared statement and return its rows."""
        names = ", ".join(f"{name} => ?::{kind}" for name, (kind, _) in arguments.items())
        with _errors():
            statement = self._connection.prepareStatement(
                f"select to_json(r)::text from pgq.{function}({names}) as r"
            )
            try:
                for place, (_, value) in enumerate(arguments.values(), 1):
                    if value is None:
                        statement.setNull(place, 12)  # java.sql.Types.VARCHAR
                    else:
                        text = str(value).lower() if isinstance(value, bool) else str(value)
                        statement.setString(place, text)
                answers = statement.executeQuery()
                rows = []
                while answers.next():
                    rows.append(json.loads(answers.getString(1)))
                return rows
            finally:
                statement.close()


_shared: ContextVar[DriverConnection | None] = ContextVar("_shared", default=None)
"""The connection that calls share."""


@contextmanager
def one_connection(spark: SparkSession, location: Location) -> Iterator[None]:
    """Calls to this place share a connection, which takes longer to make than most calls."""
    if _jvm(spark) is None:
        yield
        return
    with DriverConnection(spark, location, location.retry) as connection:
        before = _shared.set(connection)
        try:
            yield
        finally:
            _shared.reset(before)


def is_classic(spark: SparkSession) -> bool:
    """Whether the session has the Spark driver at hand, which one of Spark Connect has not."""
    return _jvm(spark) is not None


def _jvm(spark: SparkSession) -> Any:
    try:
        return spark._jvm
    except AttributeError:
        return None


@contextmanager
def _errors() -> Iterator[None]:
    """Raise errors of the JDBC driver as those of psycopg and pgq, by their SQLSTATE."""
    # Clients of Spark Connect come without it, and never get here.
    from py4j.protocol import Py4JJavaError

    try:
        yield
    except Py4JJavaError as error:
        known = _known(error.java_exception)
        if known is None:
            raise
        raise known from None


def error_of(spark: SparkSession, error: BaseException) -> psycopg.Error | None:
    """What the server said to a task that failed; None on Spark Connect, which has only texts."""
    cause = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    if _jvm(spark) is None:
        return None
    while cause is not None:
        if cause.getClass().getName() == "org.postgresql.util.PSQLException":
            return _known(cause)
        cause = cause.getCause()
    return None


def _known(cause: Any) -> psycopg.Error | None:
    """An exception of the JDBC driver as that of psycopg and pgq; None for any other."""
    state = getattr(cause, "getSQLState", lambda: None)()
    if not isinstance(state, str):
        return None
    kind = BY_SQLSTATE.get(state)
    if kind is None:
        try:
            kind = psycopg.errors.lookup(state)
        except KeyError:
            kind = psycopg.OperationalError if state[:2] == "08" else psycopg.DatabaseError
    said = getattr(cause, "getServerErrorMessage", lambda: None)()
    if said is None:
        return kind(cause.getMessage())
    # so that detail, hint and diag have what the server reported
    fields = {
        DiagnosticField.SQLSTATE: state,
        DiagnosticField.MESSAGE_PRIMARY: said.getMessage(),
        DiagnosticField.MESSAGE_DETAIL: said.getDetail(),
        DiagnosticField.MESSAGE_HINT: said.getHint(),
    }
    info: dict[int, bytes | None] = {
        field: text.encode() for field, text in fields.items() if text is not None
    }
    return kind(said.toString(), info=info)


def moment(text: str) -> datetime:
    """A time as JSON of the database has it."""
    pattern = "%Y-%m-%dT%H:%M:%S.%f%z" if "." in text else "%Y-%m-%dT%H:%M:%S%z"
    return datetime.strptime(text, pattern)
