"""Faults to plant in what is noted of jobs, and in what a sleeping worker is told."""

from __future__ import annotations

from explorer.plant import Fault

__all__ = ["NOTED_FAULTS"]

NOTED = ("queue", "endings", "noted")

NOTED_FAULTS = {
    "a claim that does not note whose lease was lost": Fault(
        "_end_claim",
        """
        begin
            chosen.lost_ids := null;
            return {true}(plan, chosen, label);
        end
        """,
        NOTED,
        frozenset({"attempt not noted"}),
    ),
    "a release that is noted as an attempt": Fault(
        "release_job",
        """
        begin
            if {true}(job_id, lease_token, delay) then
                perform pgq._note_attempts(
                    (select j.queue_id from pgq.job as j where j.job_id = release_job.job_id),
                    array[job_id], 'failed', 0, null, null, null
                );
                return true;
            end if;
            return false;
        end
        """,
        NOTED,
        frozenset({"noted attempt"}),
    ),
    "an attempt that is noted with the number of the next one": Fault(
        "_note_attempts",
        """
        begin
            perform {true}(
                queue_id, job_ids, event, case when event = 'lost' then 0 else since_then end,
                error, worker, began_at
            );
        end
        """,
        NOTED,
        frozenset({"noted attempt", "attempt not noted"}),
    ),
    "a cancel that leaves no result": Fault(
        "_note_end",
        """
        begin
            if event <> 'cancelled' then
                perform {true}(ended, event, result);
            end if;
        end
        """,
        NOTED,
        frozenset({"result"}),
    ),
    "a result that is forgotten": Fault(
        "_note_end",
        "begin perform {true}(ended, event, null); end",
        NOTED,
        frozenset({"result"}),
    ),
    "a sleep that does not count on lost leases": Fault(
        "next_due",
        """
        begin
            return (
                select min(j.visible_at) from pgq.job as j
                inner join pgq.queue as q on q.queue_id = j.queue_id
                where q.queue = next_due.queue and j.lease_token is null and j.due_at is null
            );
        end
        """,
        NOTED,
        frozenset({"sleeps past"}),
    ),
    "a sleep until the last job is due": Fault(
        "_first_due",
        """
        begin
            return (
                select max(j.visible_at) from pgq.job as j where j.queue_id = plan.queue_id
            );
        end
        """,
        NOTED,
        frozenset({"sleeps past"}),
    ),
}
