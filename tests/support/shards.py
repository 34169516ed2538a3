"""Several databases that a topic is spread over."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from psycopg.conninfo import conninfo_to_dict

from support.session import Session

__all__ = ["Shards", "location_of"]

Location = tuple[str, dict[str, str]]


def location_of(dsn: str) -> Location:
    """A psycopg connection string as a JDBC URL and properties."""
    place = conninfo_to_dict(dsn)
    host, port = place.get("host", "localhost"), place.get("port", 5432)
    properties = {name: str(place[name]) for name in ("user", "password") if place.get(name)}
    return f"jdbc:postgresql://{host}:{port}/{place['dbname']}", properties


class Shards:
    """The databases, each with a session in autocommit; a context manager."""

    def __init__(self, dsns: Sequence[str]) -> None:
        self.dsns = list(dsns)
        self.urls = [location_of(dsn)[0] for dsn in dsns]
        self.properties = location_of(dsns[0])[1]
        self.logs = [Session.connect(dsn, autocommit=True) for dsn in dsns]

    def __enter__(self) -> Shards:
        return self

    def __exit__(self, *exc_info: object) -> None:
        for log in self.logs:
            log.close()

    @property
    def options(self) -> dict[str, str]:
        """What the data source is told of them."""
        return {"url": " ".join(self.urls), **self.properties}

    def broker(self, spark: Any) -> Any:
        """Pgq on all of them."""
        from pgq.spark import Pgq

        return Pgq(spark, self.urls, self.properties)

    def create(self, topic: str, partitions: int = 2) -> str:
        """A topic in each of them."""
        for log in self.logs:
            log.create_topic(topic=topic, partitions=partitions)
        return topic

    def bodies(self, topic: str) -> list[list[str]]:
        """The contents of a topic in each database, sorted."""
        return [self.bodies_of(shard, topic) for shard in range(len(self.logs))]

    def bodies_of(self, shard: int, topic: str) -> list[str]:
        """The contents of a topic in a database, sorted."""
        query = "select coalesce(convert_from(body, 'UTF8'), payload::text) from pgq.messages"
        rows = self.logs[shard].execute(f"{query} where topic = %s".encode(), [topic])
        return sorted(row[0] for row in rows)

    def reconnect(self, shard: int) -> None:
        """Have a new session to a server that is back."""
        self.logs[shard].close()
        self.logs[shard] = Session.connect(self.dsns[shard], autocommit=True)

    def all(self, topic: str) -> list[str]:
        """The contents of a topic in all databases, sorted."""
        return sorted(body for bodies in self.bodies(topic) for body in bodies)

    def open_writes(self) -> int:
        """How many writes are neither committed nor forgotten."""
        query = "select count(*) from pgq.bulk_write where committed_at is null"
        return sum(log.execute(query).fetchone()[0] for log in self.logs)

    def refuse_commits(self, shard: int, event: str, *, times: int | None = None) -> None:
        """Let a COMMIT fail in a database after an insert or an update; so many times."""
        log = self.logs[shard]
        log.execute("create sequence public.refused")
        most = "true" if times is None else f"nextval('public.refused') <= {times}"
        log.execute(
            f"""
            create function public.refuse() returns trigger language plpgsql as $$
            begin
                if {most} then
                    raise 'the commit fails';
                end if;
                return null;
            end
            $$
            """.encode()
        )
        log.execute(
            f"create constraint trigger refuse after {event}"
            " deferrable initially deferred for each row execute function public.refuse()".encode()
        )

    def allow_commits(self, shard: int) -> None:
        """Let them pass again."""
        self.logs[shard].execute("drop function public.refuse() cascade")
        self.logs[shard].execute("drop sequence public.refused")
