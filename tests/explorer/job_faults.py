"""Faults to plant in what becomes of jobs."""

from __future__ import annotations

from explorer.plant import Fault

__all__ = ["JOB_FAULTS"]

JOB_FAULTS = {
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
                values (_take_key.queue_id, _take_key.unique_key, _take_key.job_id, true)
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
    "releases that all count": Fault(
        "_nack",
        """
        begin
            return query
            select * from {true}(_nack.job_ids, _nack.lease_token, _nack.delay, _nack.error, 0);
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
    "a rate that is not counted": Fault(
        "_note_claims",
        """
        begin
            perform {true}(_note_claims.queue_id, _note_claims.job_ids);
            update pgq.claim_count as c set credit = null where c.queue_id = _note_claims.queue_id;
        end
        """,
        ("queue", "limits"),
        frozenset({"too many handed out"}),
    ),
    "a pause that claims do not know": Fault(
        "pause_queue",
        """
        begin
            perform {true}(pause_queue.queue);
            update pgq.queue as q set paused = false where q.queue = pause_queue.queue;
        end
        """,
        ("queue", "limits"),
        frozenset({"claimed though paused"}),
    ),
    "room that new jobs do not take": Fault(
        "_check_room",
        """
        begin
            perform {true}(queue_id, max_unfinished, 0, last_id);
        end
        """,
        ("queue", "room"),
        frozenset({"accepted though full"}),
    ),
    "room for one less": Fault(
        "_check_room",
        """
        begin
            perform {true}(queue_id, max_unfinished - 1, new_jobs, last_id);
        end
        """,
        ("queue", "room"),
        frozenset({"refused with room"}),
    ),
    "a page that has dead letters twice": Fault(
        "fetch_dead_letters",
        """
        begin
            return query
            select d.* from pgq.dead_letters as d
            cross join generate_series(1, 2)
            where d.queue = fetch_dead_letters.queue;
        end
        """,
        ("queue",),
        frozenset({"letters out of order"}),
    ),
    "an end that does not say that its key has a place": Fault(
        "_free_keys",
        """
        begin
            perform {true}(array(
                select row(e.job_id, e.queue_id, e.unique_key, null)::pgq._ended_job
                from unnest(_free_keys.ended) as e
            ));
        end
        """,
        ("queue", "keyed"),
        frozenset({"stuck at a key", "job lost", "job stranded"}),
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
        "_store_keys",
        "begin end",
        ("queue",),
        frozenset({"no original"}),
    ),
    "an enqueue that does not wait for its key": Fault(
        "_join_order",
        "begin return array(select distinct unnest(_join_order.ordered_keys)); end",
        ("queue", "endings"),
        frozenset({"overtaken", "key without a first"}),
    ),
    "a count of what is leased that is lost": Fault(
        "_write_claims",
        """
        begin
            perform {true}(
                _write_claims.state,
                case when _write_claims.replaces then '{{}}' else _write_claims.job_ids end,
                _write_claims.replaces
            );
        end
        """,
        ("limits",),
        frozenset({"too many at a time"}),
    ),
    "a limit that allows one more once it was changed": Fault(
        "_allowed_claims",
        """
        begin
            return least(
                _allowed_claims.wanted,
                {true}(_allowed_claims.queue_id, _allowed_claims.wanted) + (
                    select (q.updated_at > q.created_at)::integer from pgq.queue as q
                    where q.queue_id = _allowed_claims.queue_id
                )
            );
        end
        """,
        ("limits",),
        frozenset({"too many at a time"}),
    ),
    "a change of a queue that fills its burst up": Fault(
        "_claims_so_far",
        """
        declare
            refilled_at timestamptz := (
                select c.refilled_at from pgq.claim_count as c
                where c.queue_id = _claims_so_far.queue_id
                order by c.seq desc limit 1
            );
            state pgq.claim_count := {true}(_claims_so_far.queue_id);
        begin
            if exists (
                select from pgq.queue as q
                where q.queue_id = _claims_so_far.queue_id and q.updated_at > refilled_at
            ) then
                state.credit := (
                    select q.rate_burst * state.job_cost from pgq.queue as q
                    where q.queue_id = _claims_so_far.queue_id
                );
            end if;
            return state;
        end
        """,
        ("limits",),
        frozenset({"too many handed out"}),
    ),
    "a bulk write whose jobs do not wait for their turn": Fault(
        "_publish_messages",
        """
        begin
            perform {true}(
                topic, queue, payloads, keys, headers, partition, delay, priority, labels, bodies
            );
            update pgq.job as j set visible_at = j.due_at, due_at = null
            from pgq.queue as q
            where q.queue = _publish_messages.queue and q.queue_id = j.queue_id
                and j.due_at is not null;
        end
        """,
        ("mixed",),
        frozenset({"overtaken"}),
    ),
    "ticks that do not wait for their turn": Fault(
        "_run_schedule",
        """
        begin
            return query
            select * from {true}(
                _run_schedule.schedule, _run_schedule.now_at, _run_schedule.max_ticks
            );
            update pgq.job as j set visible_at = j.due_at, due_at = null
            where j.due_at is not null;
        end
        """,
        ("mixed",),
        frozenset({"overtaken"}),
    ),
}
