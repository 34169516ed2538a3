"""Faults to plant in calls about many jobs."""

from __future__ import annotations

from explorer.plant import Fault

__all__ = ["FILTER_FAULTS"]

FILTER_FAULTS = {
    "a cancel of many that takes what workers have": Fault(
        "cancel_jobs",
        """
        begin
            return query
            select * from {true}(
                cancel_jobs.queue, cancel_jobs.all_jobs, cancel_jobs.max_jobs, cancel_jobs.key,
                cancel_jobs.label, cancel_jobs.error_contains, cancel_jobs.due_since,
                cancel_jobs.due_before, true, cancel_jobs.after_id, cancel_jobs.dry_run
            );
        end
        """,
        ("queue", "endings"),
        frozenset({"refused"}),
    ),
    "a retry of many that makes leased jobs due": Fault(
        "_is_waiting",
        """
        begin
            return job.visible_at > pgq._clock() and job.due_at is null;
        end
        """,
        ("queue", "endings"),
        frozenset({"two leases", "refused"}),
    ),
}
