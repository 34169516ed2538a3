"""``pgq access``."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from pgq.cli._complete import queue_names, topic_names
from pgq.cli._house import AsJson, Database, command, connected, family
from pgq.cli._output import show_object, show_rows, write_line

__all__ = ["add"]


class Kind(str, Enum):
    """What may be granted."""

    publish = "publish"
    consume = "consume"
    monitor = "monitor"
    admin = "admin"


Role = Annotated[str, typer.Argument(metavar="ROLE", help="a role; public: every role")]
Topic = Annotated[
    str | None,
    typer.Option("--topic", metavar="NAME", help="'*': all topics", autocompletion=topic_names),
]
Queue = Annotated[
    str | None,
    typer.Option("--queue", metavar="NAME", help="'*': all queues", autocompletion=queue_names),
]

EndDependents = Annotated[
    bool,
    typer.Option(
        "--end-dependents",
        help="end subscriptions, pause schedules and lift the max_attempts of groups whose makers "
        "lose the access that these need",
    ),
]


def add(app: typer.Typer) -> None:
    """Add the commands."""
    access = family("access", "What roles may do with restricted topics and queues.", app)

    @command(
        access, "list", examples=["pgq access list", "pgq access list --topic payments"], table=True
    )
    def list_access(
        topic: Topic = None, queue: Queue = None, database: Database = "", json: AsJson = False
    ) -> None:
        """Show who may do what, of one topic or queue or of all."""
        with connected(database, read_only=True) as client:
            found = client.admin.list_access(topic=topic, queue=queue)
        show_rows(found, json=json, nothing="no grants")

    @command(
        access,
        "grant",
        examples=[
            "pgq access grant web publish --topic payments",
            "pgq access grant prometheus monitor --queue '*'",
        ],
    )
    def grant_access(
        role: Role,
        access: Annotated[Kind, typer.Argument(help="admin is all of them, and settings")],
        topic: Topic = None,
        queue: Queue = None,
        end_dependents: EndDependents = False,
        database: Database = "",
        json: AsJson = False,
    ) -> None:
        """Let a role use a topic or queue, which is closed to others from then on."""
        with connected(database) as client:
            given = client.admin.grant_access(
                role, access.value, topic=topic, queue=queue, end_dependents=end_dependents
            )
        show_object(given, json=json)

    @command(access, "revoke", examples=["pgq access revoke web --topic payments"])
    def revoke_access(
        role: Role,
        access: Annotated[Kind | None, typer.Argument(help="default: all that it has")] = None,
        topic: Topic = None,
        queue: Queue = None,
        end_dependents: EndDependents = False,
        database: Database = "",
    ) -> None:
        """Take it back; the topic or queue stays closed to roles without access."""
        with connected(database) as client:
            done = client.admin.revoke_access(
                role,
                None if access is None else access.value,
                topic=topic,
                queue=queue,
                end_dependents=end_dependents,
            )
        write_line(f'revoked the access of "{role}"' if done else "there was nothing to revoke")
