"""Ways by which a role without access might come to what is not its own."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest
from psycopg.types.json import Jsonb

from addons.access.conftest import STRANGER, VIEWS, acting, role_of
from support.calls import Arguments
from support.session import Connect, Session, refused, unchanged

FIGURES = ("topic_stats", "group_lag", "queue_stats")


def kept_out(session: Session, statement: str) -> psycopg.Error:
    """A statement of a stranger that fails as it does for a name that is not there."""
    with pytest.raises(psycopg.Error) as caught, session.transaction(force_rollback=True):
        session.execute(statement.encode())
    assert caught.value.sqlstate in ("MQ001", "MQ002"), caught.value
    return caught.value


def test_views(roles: Session, known: Arguments) -> None:
    """A stranger sees nothing in any, one who monitors figures alone, one who consumes all."""
    for view in VIEWS:
        query = f"select count(*) from pgq.{view}".encode()
        seen = {}
        for role in (STRANGER, *map(role_of, ("publish", "consume", "monitor"))):
            with acting(roles, role):
                [(seen[role],)] = roles.execute(query).fetchall()
        assert seen[STRANGER] == 0, view
        if view != "archived_jobs":
            assert seen[role_of("consume")] > 0, view
        for level in ("publish", "monitor"):
            assert (seen[role_of(level)] > 0) == (view in FIGURES), (view, level)


@pytest.mark.parametrize("view", VIEWS)
def test_plans_tell_nothing(view: str, roles: Session, known: Arguments) -> None:
    """What is counted while a view is read is the same for a hidden name and for none."""
    column, hidden = (
        ("topic", "t")
        if view in ("messages", "topic_stats", "group_lag")
        else (
            "queue",
            "q",
        )
    )
    plans = []
    for name in (hidden, "nowhere"):
        with acting(roles, STRANGER):
            rows = roles.execute(
                "explain (analyze, verbose, costs off, timing off, summary off, buffers off)"
                f" select * from pgq.{view} where {column} = '{name}'".encode()
            ).fetchall()
        plans.append("\n".join(text.replace(f"'{name}'", "…") for (text,) in rows))
    assert plans[0] == plans[1]
    assert "hidden" not in plans[0]


def test_conditions_that_look_at_rows(roles: Session, known: Arguments) -> None:
    """A function of the caller's is not asked about rows that are not shown to him."""
    with roles.transaction(force_rollback=True):
        roles.execute("create schema lair")
        roles.execute("create table lair.seen (what text)")
        roles.execute(
            "create function lair.look(value anyelement) returns boolean language plpgsql"
            " cost 0.0000001 as $$ begin raise notice 'seen: %', value; return true; end $$"
        )
        roles.execute(f"grant usage on schema lair to {STRANGER}")
        heard: list[str] = []

        def hear(notice: Any) -> None:
            heard.append(notice.message_primary)

        roles.add_notice_handler(hear)
        try:
            roles.execute(f"set local role {STRANGER}")
            for view in VIEWS:
                name = "topic" if view in ("messages", "topic_stats", "group_lag") else "queue"
                roles.execute(f"select from pgq.{view} as v where lair.look(v.{name})".encode())
                roles.execute(f"select from pgq.{view} as v where lair.look(v)".encode())
            roles.execute(f"set local role {role_of('consume')}")
            roles.execute("reset role")
            roles.execute("select from pgq.messages as v where lair.look(v.topic) limit 1")
        finally:
            roles.remove_notice_handler(hear)
    assert [text for text in heard if text != "seen: t"] == []
    assert heard != []  # by the owner, who may see it: so looking works


def test_tables_and_helpers(roles: Session, known: Arguments) -> None:
    """Nothing but functions and views can be used, nor the key by which views ask helpers."""
    relations = roles.execute(
        "select relname from pg_class where relnamespace = 'pgq'::regnamespace"
        " and relkind in ('r', 'p', 'S') order by 1"
    ).fetchall()
    assert len(relations) > 40
    with roles.transaction(force_rollback=True):
        roles.execute(f"set local role {STRANGER}")
        for (name,) in relations:
            with pytest.raises(psycopg.errors.InsufficientPrivilege), roles.transaction():
                roles.execute(f"select * from pgq.{name}".encode())
        for helper in ("_visible_topics", "_visible_queues"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege), roles.transaction():
                roles.execute(
                    f"select * from pgq.{helper}(gen_random_uuid(), 'postgres', 'monitor')".encode()
                )


def test_helpers_that_may_be_called_do_not_bypass(roles: Session, known: Arguments) -> None:
    """EXECUTE on every function, those of pgq itself among them, gives no access."""
    with unchanged(roles), roles.transaction(force_rollback=True):
        roles.execute(f"set local role {STRANGER}")
        for call in (
            "select pgq._act_for(true)",
            "select pgq._settle_access(1, null, false)",
            "select pgq._restrict('t', null, false)",
            "insert into pgq.message select",
        ):
            with pytest.raises(psycopg.Error), roles.transaction():
                roles.execute(call.encode())


def test_names_of_the_callers_own(roles: Session, known: Arguments) -> None:
    """Temporary objects, operators, types and the search_path of the caller change nothing."""
    with unchanged(roles), roles.transaction(force_rollback=True):
        roles.execute("create schema lair")
        roles.execute(f"grant create, usage on schema lair to {STRANGER}")
        roles.execute(f"set local role {STRANGER}")
        for text in (
            "create temp table partition (topic text, publishers text[], consumers text[])",
            "create temp table topic (topic_id bigint, topic text, restricted boolean)",
            "create function lair.yes(text, text) returns boolean language sql immutable as"
            " 'select true'",
            "create operator lair.= (leftarg = text, rightarg = text, function = lair.yes)",
            "create function pg_temp._may(text[]) returns boolean language sql as 'select true'",
            "create function lair.pg_has_role(text, regrole, text) returns boolean language sql"
            " as 'select true'",
            "create domain lair.text as pg_catalog.text",
            "create function lair.as_t(integer) returns pg_catalog.text language sql as"
            " $$ select 't'::pg_catalog.text $$",
            "set local search_path = lair, pg_temp, pgq, pg_catalog",
        ):
            roles.execute(text.encode())
        for call in (
            "select * from pgq.publish('t'::lair.text, '1')",
            "select * from publish('t', '1')",
            "select * from pgq.publish(lair.as_t(1), '1')",
            "select * from pgq.consume('t', 'g')",
            "select * from pgq.enqueue('q', '1')",
            "select * from pgq.claim_job('q')",
            "insert into pgq.publish_rows (topic, payload) values ('t', '1')",
            "insert into pgq.enqueue_rows (queue, payload) values ('q', '1')",
        ):
            kept_out(roles, call)


def test_settings_of_the_callers_own(roles: Session, known: Arguments) -> None:
    """What pgq remembers in settings of the session are hints, and a key that nobody can guess."""
    roles.create_topic(topic="late", partitions=1, deferred=True, restricted=True)
    with roles.transaction(force_rollback=True):
        for name, value in (("pgq.found_in", "1 1"), ("pgq.acts_for_owner", "")):
            roles.execute("select set_config(%s, %s, true)", [name, value])
        roles.execute(f"set local role {STRANGER}")
        for value in ("", "true", "00000000-0000-0000-0000-000000000000"):
            roles.execute("select set_config('pgq.acts_for_owner', %s, true)", [value])
            kept_out(roles, "select * from pgq.publish('late', '1')")
            kept_out(roles, "select * from pgq.publish('late', '1', key => 'k')")
            kept_out(roles, "select * from pgq.publish('t', '1')")
    roles.drop_topic(topic="late")


def test_who_calls(roles: Session, known: Arguments, shared_connect: Connect) -> None:
    """SET ROLE counts, in all its forms; the owner of a function around the call does not."""
    publisher = role_of("publish")
    with roles.transaction(force_rollback=True):
        roles.execute(f"grant {publisher} to {STRANGER}")
        roles.execute("create schema lair")
        roles.execute(f"grant create, usage on schema lair to {publisher}")
        roles.execute(f"set local role {publisher}")
        roles.execute(
            "create function lair.wrapped() returns bigint language sql security definer"
            " as $$ select log_offset from pgq.publish('t', '1') $$"
        )
        roles.execute(f"grant execute on function lair.wrapped() to {STRANGER}")
        roles.execute("reset role")
        roles.execute(f"grant usage on schema lair to {STRANGER}")
        # an heir has it, one that does not inherit has not
        roles.execute(f"set local role {STRANGER}")
        assert roles.publish(topic="t", payload=1).log_offset == 151
        roles.execute("reset role")
        roles.execute(f"revoke {publisher} from {STRANGER}")
        roles.execute(f"set local role {STRANGER}")
        kept_out(roles, "select * from pgq.publish('t', '1')")
        kept_out(roles, "select lair.wrapped()")
        roles.execute("reset role")
        # the session's own user counts where no role is set
        roles.execute(f"set local session authorization {STRANGER}")
        kept_out(roles, "select * from pgq.publish('t', '1')")
        roles.execute("reset session authorization")
        roles.execute(f"set local session authorization {publisher}")
        assert roles.publish(topic="t", payload=1).log_offset == 152


def test_without_inheritance(roles: Session, known: Arguments) -> None:
    """A member that does not inherit has to SET ROLE first."""
    publisher = role_of("publish")
    with roles.transaction(force_rollback=True):
        roles.execute("create role pgq_test_visitor noinherit")
        roles.execute("grant usage on schema pgq to pgq_test_visitor")
        roles.execute("grant execute on all functions in schema pgq to pgq_test_visitor")
        roles.execute(f"grant {publisher} to pgq_test_visitor")
        roles.execute("set local session authorization pgq_test_visitor")
        kept_out(roles, "select * from pgq.publish('t', '1')")
        roles.execute(f"set local role {publisher}")
        assert roles.publish(topic="t", payload=1).log_offset == 151


def test_bulk_writes_of_others(roles: Session, known: Arguments) -> None:
    """Whoever knows the id of a write still needs access to what it writes to."""
    roles.execute("update pgq.bulk_write set owner = 'job', seq = 1 where producer is null")
    for write in (known["$write"], known["$queue_write"]):
        chunk = {"task": 0, "task_attempt": "a", "chunk": 0, "lengths": [1]}
        for role in (STRANGER, role_of("consume"), role_of("monitor")):
            with unchanged(roles), roles.transaction(force_rollback=True):
                roles.execute(f"set local role {role}")
                with roles.transaction(force_rollback=True):
                    refused("MQ008", roles.write_chunk, write_id=write, packed_bodies=b"1", **chunk)
                with roles.transaction(force_rollback=True):
                    refused("MQ008", roles.commit_write, write_id=write)
                assert roles.abort_write(write_id=write) is False
                assert roles.abort_write(owner="job", seq=2) is False
                with pytest.raises(psycopg.Error) as caught, roles.transaction():
                    roles.execute(
                        "insert into pgq.write_chunks"
                        " (write_id, task, task_attempt, chunk, lengths, packed_bodies)"
                        " values (%s, 0, 'a', 0, '{1}', '1')",
                        [str(write)],
                    )
                assert caught.value.sqlstate == "MQ008"


def test_cursors_and_prepared_statements(roles: Session, known: Arguments) -> None:
    """What was prepared asks again each time; a cursor shows what its reader may see."""
    reader = role_of("consume")
    with roles.transaction(force_rollback=True):
        roles.execute(f"set local role {reader}")
        roles.execute("prepare look as select * from pgq.fetch_range('t', 0, 1, 1)")
        roles.execute("prepare view as select * from pgq.messages where topic = 't' limit 1")
        for statement in ("look", "view"):
            assert len(roles.execute(f"execute {statement}".encode()).fetchall()) == 1
        roles.execute("reset role")
        roles.revoke_access(role=reader, topic="t")
        roles.execute(f"set local role {reader}")
        kept_out(roles, "execute look")
        assert roles.execute("execute view").fetchall() == []
        roles.execute("declare c cursor for select * from pgq.messages")
        assert roles.execute("fetch all from c").fetchall() == []
        roles.execute("deallocate look")
        roles.execute("deallocate view")


def test_notices(roles: Session, known: Arguments) -> None:
    """Anybody may LISTEN: of what is restricted the notice has no name."""
    roles.create_topic(topic="loud", notify=True)
    roles.create_queue(queue="loud", notify=True)
    with psycopg.connect(roles.info.dsn, autocommit=True) as listener:
        listener.execute("listen pgq_topic")
        listener.execute("listen pgq_queue")

        def heard() -> list[tuple[str, str]]:
            roles.publish(topic="loud", payload=1)
            roles.enqueue(queue="loud", payload=1)
            roles.enqueue_batch(queue="loud", payloads=[Jsonb(1)])
            return [
                (notice.channel, notice.payload)
                for notice in listener.notifies(timeout=10, stop_after=3)
            ]

        open_ones = [("pgq_topic", "loud"), ("pgq_queue", "loud"), ("pgq_queue", "loud")]
        assert heard() == open_ones
        roles.alter_topic(topic="loud", restricted=True)
        roles.alter_queue(queue="loud", restricted=True)
        [notice] = listener.notifies(timeout=10, stop_after=1)  # of the change itself
        assert notice.payload == ""
        assert heard() == [(channel, "") for channel, _ in open_ones]


def test_statistics(roles: Session, known: Arguments) -> None:
    """The planner's samples of tables are for those who may read these."""
    roles.execute("analyze pgq.topic, pgq.message_0")
    with acting(roles, STRANGER):
        assert roles.execute("select * from pg_stats where schemaname = 'pgq'").fetchall() == []


def test_a_hidden_job_that_waits(roles: Session, known: Arguments) -> None:
    """Only who may claim it can make it due; for others there is no such job."""
    number = roles.enqueue(queue="q", payload=Jsonb(1), delay="1 hour").job_id
    for role in (STRANGER, role_of("publish"), role_of("monitor")):
        with acting(roles, role):
            assert roles.retry_job(job_id=number) is False, role
            roles.execute("reset role")
            assert roles.get_job(job_id=number).state == "delayed"
    for role in (role_of("consume"), role_of("admin")):
        with acting(roles, role):
            assert roles.retry_job(job_id=number) is True, role
    assert roles.cancel_job(job_id=number)
