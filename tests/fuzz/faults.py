"""Faults to plant, each of another kind, which the fuzzer has to find."""

from __future__ import annotations

from explorer.plant import Fault

__all__ = ["FAULTS"]


def fault(function: str, body: str, *kinds: str) -> Fault:
    return Fault(function, body, (), frozenset(kinds))


FAULTS = {
    "a code that nobody documented": fault(
        "nack",
        """
        begin
            if nack.delay > '1 year' then
                raise exception 'no' using errcode = 'P0001';
            end if;
            return {true}(nack.job_id, nack.lease_token, nack.delay, nack.error);
        end
        """,
        "undocumented",
    ),
    "a number that gets out of range": fault(
        "extend_lease",
        """
        begin
            perform (extract(epoch from extend_lease.lease) * 1000)::integer;
            return {true}(extend_lease.job_id, extend_lease.lease_token, extend_lease.lease);
        end
        """,
        "undocumented",
    ),
    "less than nothing that is taken for something": fault(
        "claim_job",
        """
        begin
            return query select * from {true}(
                claim_job.queue, greatest(claim_job.max_jobs, 1), claim_job.lease, claim_job.label
            );
        end
        """,
        "accepted a negative",
    ),
    "null that is taken for nothing": fault(
        "delete_worker",
        """
        begin
            return {true}(coalesce(delete_worker.worker, 'nobody'));
        end
        """,
        "accepted null",
    ),
    "an array whose dimensions nobody counts": fault(
        "ack_batch",
        """
        begin
            return query select * from {true}(
                array(select unnest(ack_batch.job_ids)), ack_batch.lease_token
            );
        end
        """,
        "accepted the impossible",
    ),
    "an error that is swallowed behind a write": fault(
        "cancel_job",
        """
        begin
            insert into pgq.worker (role, worker, kind, sources, running, started_at, last_seen_at)
            values ('r', cancel_job.job_id::text, 'k', '{{}}', 0, pgq._clock(), pgq._clock())
            on conflict do nothing;
            return {true}(cancel_job.job_id);
        exception when others then
            return false;
        end
        """,
        "changed",
        "accepted null",
    ),
    "an error of the server's own": fault(
        "peek_jobs",
        """
        begin
            if length(peek_jobs.state) > 20 then
                raise exception 'cache lookup failed' using errcode = 'XX000';
            end if;
            return query select * from {true}(
                peek_jobs.queue, peek_jobs.state, peek_jobs.max_jobs
            );
        end
        """,
        "undocumented",
    ),
    "a row that is there already": fault(
        "resume_queue",
        """
        begin
            insert into pgq.worker (role, worker, kind, sources, running, started_at, last_seen_at)
            values ('r', 'w', 'k', '{{}}', 0, pgq._clock(), pgq._clock());
            return query select * from {true}(resume_queue.queue);
        end
        """,
        "undocumented",
    ),
    "a check that is left to the server": fault(
        "next_ticks",
        """
        begin
            perform pgq._clock() at time zone next_ticks.time_zone;
            return query select * from {true}(
                next_ticks.cron, next_ticks.time_zone, next_ticks.after, next_ticks.max_ticks
            );
        end
        """,
        "raised by PostgreSQL",
    ),
    "a lease that has ended when it begins": fault(
        "poll",
        """
        begin
            return query select
                p.lease_token, p.leased_until - '1 day'::interval, p.partition, p.log_offset,
                p.published_at, p.key, p.headers, p.payload, p.body, p.attempt, p.cut_short
            from {true}(
                poll.topic, poll.consumer_group, poll.max_messages, poll.partition, poll.lease
            ) as p;
        end
        """,
        "lease in the past",
    ),
    "a look that leaves something": fault(
        "get_job",
        """
        begin
            update pgq.queue set updated_at = updated_at;
            return query select * from {true}(get_job.job_id);
        end
        """,
        "undocumented",
        "changed",
    ),
    "an offset that nobody has": fault(
        "publish",
        """
        begin
            perform from {true}(publish.topic, publish.payload, partition => publish.partition);
            return query select * from {true}(
                publish.topic, publish.payload, publish.key, publish.headers, publish.partition,
                publish.idempotency_key, publish.body
            );
            delete from pgq.message as m
            using pgq.partition as p
            where p.topic = publish.topic and m.partition_id = p.stored_partition_id
                and m.log_offset = 2;
        end
        """,
        "state",
        "cannot go on",
    ),
}
