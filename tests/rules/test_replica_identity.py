"""Every table can be published: without an identity of its rows, none could be changed then."""

from __future__ import annotations

from support.house import refuse
from support.session import Session


def test_every_table_has_one(connection: Session) -> None:
    """A primary key, or all columns."""
    connection.execute("select pgq._create_leaf(16)")  # as is done when the first are in use
    tables = connection.execute(
        """
        select c.relname, c.relreplident in ('f', 'i') or exists (
            select
            from pg_index as i
            where i.indrelid = c.oid
                and i.indisprimary
                and c.relreplident = 'd'
        )
        from pg_class as c
        where c.relnamespace = 'pgq'::regnamespace
            and c.relkind = 'r'
        """
    ).fetchall()
    assert "job_archive_16" in dict(tables)
    refuse(name for name, has_identity in tables if not has_identity)
