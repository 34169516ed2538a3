"""Faults to plant in the attempts of jobs that are prefetched."""

from __future__ import annotations

from explorer.plant import Fault

__all__ = ["PREFETCH_FAULTS"]

PREFETCH_FAULTS = {
    "a prefetched job that counts its attempt": Fault(
        "claim_job",
        """
        begin
            return query
            select * from {true}(
                claim_job.queue, claim_job.max_jobs, claim_job.lease, claim_job.label
            );
        end
        """,
        ("prefetch",),
        frozenset({"attempts"}),
    ),
    "a job that has begun and does not count its attempt": Fault(
        "_begun_job",
        """
        begin
            return job;
        end
        """,
        ("prefetch",),
        frozenset({"attempts"}),
    ),
}
