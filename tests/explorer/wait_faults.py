"""Faults to plant in snoozes, retries and progress."""

from __future__ import annotations

from explorer.plant import Fault

__all__ = ["WAIT_FAULTS"]

ENDINGS = ("queue", "endings")

WAIT_FAULTS = {
    "a snooze that counts its attempt": Fault(
        "release_job",
        """
        begin
            if delay is null then
                return {true}(job_id, lease_token);
            end if;
            perform pgq._snooze(job_id, lease_token, delay);
            return pgq.nack(job_id, lease_token, delay);
        end
        """,
        ENDINGS,
        frozenset({"attempts"}),
    ),
    "a snooze that is over at once": Fault(
        "release_job",
        """
        begin
            return {true}(job_id, lease_token, case when delay is not null then '0'::interval end);
        end
        """,
        ENDINGS,
        frozenset({"before its time", "retry refused"}),
    ),
    "a snooze that is noted whoever asks": Fault(
        "_snooze",
        """
        begin
            insert into pgq.job_note as n (job_id, snoozes) values (_snooze.job_id, 1)
            on conflict on constraint job_note_pkey do update set snoozes = n.snoozes + 1;
        end
        """,
        ENDINGS,
        frozenset({"snoozes"}),
    ),
    "a retry that takes a leased job": Fault(
        "retry_job",
        """
        begin
            update pgq.job as j set lease_token = null where j.job_id = retry_job.job_id;
            return {true}(retry_job.job_id);
        end
        """,
        ENDINGS,
        frozenset({"two leases", "refused", "retried what is leased"}),
    ),
    "a retry that only says so": Fault(
        "retry_job",
        """
        begin
            return exists (
                select from pgq.job as j
                where j.job_id = retry_job.job_id and j.lease_token is null
                    and j.due_at is null and j.visible_at > pgq._clock()
            );
        end
        """,
        ENDINGS,
        frozenset({"retried in vain"}),
    ),
    "a retry that is always too late": Fault(
        "retry_job",
        "begin return false; end",
        ENDINGS,
        frozenset({"retry refused"}),
    ),
    "a progress that is not noted": Fault(
        "set_progress",
        "begin return (pgq._lock_leased(job_id, lease_token)).job_id is not null; end",
        ENDINGS,
        frozenset({"progress"}),
    ),
}
