"""Plants faults in a database, so that a test can see that they are found.

A function of pgq is put aside in another schema, and a worse one takes its place.
"""

from __future__ import annotations

from dataclasses import dataclass

from explorer.database import Link

__all__ = ["FAULTS", "Fault", "plant"]


@dataclass(frozen=True)
class Fault:
    """A function, what it becomes, where to look, and the broken promises that give it away.

    In the body, ``{true}`` is the function that was put aside.
    """

    function: str
    body: str
    areas: tuple[str, ...]
    kinds: frozenset[str]


def plant(link: Link, fault: Fault) -> None:
    """Put the fault in the place of the function."""
    name = fault.function
    row = link.rows(
        "select pg_get_function_arguments(p.oid) as arguments,"
        " pg_get_function_result(p.oid) as result, pg_get_functiondef(p.oid) as definition"
        f" from pg_proc as p where p.oid = 'pgq.{name}'::regproc"
    )[0]
    # in another schema and under its own name, by which its body knows its arguments
    link.rows(row["definition"].replace(f"FUNCTION pgq.{name}(", f"FUNCTION explorer.{name}(", 1))
    body = fault.body.format(true=f"explorer.{name}")
    link.rows(
        f"create or replace function pgq.{name}({row['arguments']}) returns {row['result']}"
        f" language plpgsql as $$\n#variable_conflict use_column\n{body}\n$$"
    )


FAULTS = {
    "a publish that looks for its offset before it has its lock": Fault(
        "publish",
        """
        declare
            guessed bigint;
            published pgq.publish_result;
        begin
            select o.last_offset + 1 into guessed
            from pgq.list_offsets(publish.topic) as o
            where o.partition = coalesce(publish.partition, 0);
            select * into published from {true}(
                publish.topic, publish.payload, publish.key, null, publish.partition,
                publish.idempotency_key
            );
            published.log_offset := coalesce(guessed, published.log_offset);
            return next published;
        end
        """,
        ("log",),
        frozenset({"offset given out twice", "lost message", "commit order"}),
    ),
    "a claim without its conflict": Fault(
        "consume",
        """
        declare
            found pgq.message_record[];
        begin
            found := array(
                select m::pgq.message_record from pgq.fetch(
                    consume.topic, consume.consumer_group, consume.max_messages, consume.partition
                ) as m
            );
            if cardinality(found) > 0 then
                perform from pgq.seek(
                    consume.topic, consume.consumer_group, (found[1]).partition,
                    (select max(f.log_offset) + 1 from unnest(found) as f
                    where f.partition = (found[1]).partition)
                );
            end if;
            return query
            select f.* from unnest(found) as f where f.partition = (found[1]).partition;
        end
        """,
        ("log",),
        frozenset({"range given out twice", "two leases", "skipped"}),
    ),
    "a change of a group that does not meet a change of its topic": Fault(
        "alter_group",
        """
        begin
            update pgq.consumer_group as g
            set out_of_range = coalesce(alter_group.out_of_range, g.out_of_range)
            from pgq.topic as t
            where t.topic = alter_group.topic
                and t.topic_id = g.topic_id
                and g.consumer_group = alter_group.consumer_group;
            update pgq.group_partition as l
            set out_of_range = coalesce(alter_group.out_of_range, l.out_of_range)
            where l.topic = alter_group.topic
                and l.consumer_group = alter_group.consumer_group;
            return query
            select i.* from pgq._group_info(alter_group.topic, alter_group.consumer_group) as i;
        end
        """,
        ("settings",),
        frozenset({"torn group"}),
    ),
    "a seek that does nothing": Fault(
        "seek",
        """
        begin
            return query
            select o.partition, coalesce(seek.log_offset, o.first_offset)
            from pgq.list_offsets(seek.topic) as o
            where o.partition = coalesce(seek.partition, o.partition);
        end
        """,
        ("log",),
        frozenset({"range given out twice", "skipped", "no effect", "ahead"}),
    ),
    "a lease that ends at once": Fault(
        "claim_job",
        """
        begin
            return query
            select * from {true}(claim_job.queue, claim_job.max_jobs, '1 microsecond');
        end
        """,
        ("queue",),
        frozenset({"two leases"}),
    ),
    "an ack that forgets": Fault(
        "ack",
        """
        begin
            return true;
        end
        """,
        ("queue",),
        frozenset({"job twice", "job stranded"}),
    ),
    "an ack that leaves no trace": Fault(
        "ack",
        """
        declare
            done boolean;
        begin
            done := {true}(ack.job_id, ack.lease_token);
            delete from pgq.job_archive as a where a.job_id = ack.job_id;
            return done;
        end
        """,
        ("queue",),
        frozenset({"not archived"}),
    ),
    "an ack in every archive": Fault(
        "ack",
        """
        begin
            return exists (
                select from pgq._finish(array[ack.job_id], ack.lease_token, 'acked', null, true)
            );
        end
        """,
        ("queue",),
        frozenset({"archived unasked"}),
    ),
    "an ack that notes what it refuses": Fault(
        "ack",
        """
        begin
            if {true}(ack.job_id, ack.lease_token) then
                return true;
            end if;
            insert into pgq.job_archive (job_id, queue_id, ended_at, segment, attempt, outcome)
            select d.job_id, d.queue_id, pgq._clock(), d.segment, d.attempt, 'acked'
            from (
                select j.job_id, j.queue_id, j.segment, j.attempt from pgq.job as j
                union all
                select a.job_id, a.queue_id, a.segment, a.attempt from pgq.job_archive as a
            ) as d
            where d.job_id = ack.job_id;
            return false;
        end
        """,
        ("queue",),
        frozenset({"archived twice", "archived unasked"}),
    ),
    "a finish_and_claim that finishes nothing": Fault(
        "finish_and_claim",
        """
        begin
            return query
            select * from {true}(
                finish_and_claim.queue,
                max_jobs => finish_and_claim.max_jobs,
                lease => finish_and_claim.lease
            );
        end
        """,
        ("queue",),
        frozenset({"job twice", "job stranded"}),
    ),
    "a nack that believes nobody": Fault(
        "nack",
        """
        begin
            return false;
        end
        """,
        ("queue",),
        frozenset({"refused"}),
    ),
    "a key that a look finds free": Fault(
        "_take_key",
        """
        declare
            holder_id bigint;
        begin
            select u.job_id into holder_id from pgq.unique_job as u
            where u.queue_id = _take_key.queue_id and u.unique_key = _take_key.unique_key;
            if not found then
                insert into pgq.unique_job
                values (_take_key.queue_id, _take_key.unique_key, _take_key.job_id)
                on conflict do nothing;
            end if;
            return coalesce(holder_id, _take_key.job_id);
        end
        """,
        ("queue", "endings"),
        frozenset({"two of a key", "key not held", "stale duplicate"}),
    ),
    "a cancel that leaves the key": Fault(
        "cancel_job",
        """
        begin
            update pgq.job as j set unique_key = null where j.job_id = cancel_job.job_id;
            return {true}(cancel_job.job_id);
        end
        """,
        ("queue", "endings"),
        frozenset({"loose key", "stale duplicate"}),
    ),
    "a cancel that leaves the job": Fault(
        "cancel_job",
        """
        begin
            return exists (select from pgq.job as j where j.job_id = cancel_job.job_id);
        end
        """,
        ("queue", "endings"),
        frozenset({"job twice", "not archived"}),
    ),
    "a release that counts": Fault(
        "release_job",
        """
        begin
            return pgq.nack(release_job.job_id, release_job.lease_token, '0');
        end
        """,
        ("queue", "endings"),
        frozenset({"attempts"}),
    ),
    "limits that are not asked": Fault(
        "_allowed_claims",
        """
        begin
            return _allowed_claims.wanted;
        end
        """,
        ("queue", "limits"),
        frozenset({"too many leased"}),
    ),
    "an effect that is begun again": Fault(
        "begin_effect",
        """
        begin
            return query
            select * from {true}(
                begin_effect.job_id, begin_effect.lease_token, begin_effect.effect, true
            );
        end
        """,
        ("queue", "effects"),
        frozenset({"effect twice"}),
    ),
    "an effect that is settled by a look alone": Fault(
        "finish_effect",
        """
        begin
            return exists (
                select from pgq.effect as e
                where e.job_id = finish_effect.job_id
                    and e.effect = finish_effect.effect
                    and e.lease_token = finish_effect.lease_token
            );
        end
        """,
        ("queue", "effects"),
        frozenset({"effect lost", "effect unknown", "effect twice"}),
    ),
    "an enqueue whose job nobody may see": Fault(
        "enqueue_batch",
        """
        begin
            return query
            select b.* from {true}(
                enqueue_batch.queue,
                enqueue_batch.payloads,
                idempotency_keys => enqueue_batch.idempotency_keys
            ) as b;
            update pgq.job as j set visible_at = 'infinity' where j.attempt = 0;
        end
        """,
        ("queue",),
        frozenset({"job lost", "job stranded"}),
    ),
    "an idempotency key that is noted without its job": Fault(
        "_place_keys",
        "begin end",
        ("queue",),
        frozenset({"no original"}),
    ),
    "a run of schedules that locks none of them": Fault(
        "run_schedules",
        """
        declare
            name text;
        begin
            for name in
                select s.schedule from pgq.schedule as s
                where s.due_at <= pgq._clock() and not s.paused
            loop
                return query
                select r.* from pgq._run_schedule(name, pgq._clock(), 1000) as r;
            end loop;
        end
        """,
        ("ticks",),
        frozenset({"tick twice"}),
    ),
    "a run of schedules that leaves out a tick": Fault(
        "run_schedules",
        """
        begin
            update pgq.schedule as s
            set next_at = s.next_at + s.every
            where s.due_at <= pgq._clock() and not s.paused and s.every is not null;
            return query select r.* from {true}(run_schedules.max_ticks) as r;
        end
        """,
        ("ticks",),
        frozenset({"tick lost"}),
    ),
    "a delivery of the first message alone": Fault(
        "_deliver",
        """
        begin
            perform {true}(partition_id, segment, first_offset, first_offset);
        end
        """,
        ("log", "follow"),
        frozenset({"delivery lost"}),
    ),
    "a run that is left where it is": Fault(
        "_expand_run",
        """
        begin
            perform {true}(_expand_run.run);
            insert into pgq.job_run select (_expand_run.run).*;
        end
        """,
        ("log", "follow"),
        frozenset({"delivered twice"}),
    ),
    "a cleanup that takes what is young": Fault(
        "cleanup",
        """
        begin
            return query select * from {true}();
            delete from pgq.message as m
            where m.published_at < pgq._clock() - '1 hour'::interval;
        end
        """,
        ("log",),
        frozenset({"gap", "lost message"}),
    ),
    "an error that nobody documented": Fault(
        "poll",
        """
        begin
            return query
            select * from {true}(
                poll.topic, poll.consumer_group, poll.max_messages, poll.partition, poll.lease
            );
            if not found then
                raise unique_violation;
            end if;
        end
        """,
        ("log",),
        frozenset({"raw error"}),
    ),
    "a message that is given up and published nowhere": Fault(
        "_give_up",
        """
        begin
            perform pgq._append_position(
                _give_up.state, (_give_up.state).next_offset + 1, null, null
            );
        end
        """,
        ("poison",),
        frozenset({"skipped"}),
    ),
    "an enqueue that does not wait for its key": Fault(
        "_join_order",
        "begin return array(select distinct unnest(_join_order.ordered_keys)); end",
        ("queue", "endings"),
        frozenset({"overtaken", "key without a first"}),
    ),
}
