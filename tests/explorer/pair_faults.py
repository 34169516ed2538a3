"""Faults that show when two calls meet, and in some orders and at some levels alone."""

from __future__ import annotations

from explorer.plant import Fault

__all__ = ["PAIR_FAULTS"]

PAIR_FAULTS = {
    "a cancel that answers what it saw before it waited": Fault(
        "cancel_job",
        """
        declare
            there boolean;
        begin
            there := exists (select from pgq.job as j where j.job_id = cancel_job.job_id);
            perform {true}(cancel_job.job_id);
            return there;
        end
        """,
        ("queue", "endings"),
        frozenset({"job twice"}),
    ),
    "an archive_job that takes a conflict for a success": Fault(
        "archive_job",
        """
        begin
            return {true}(archive_job.job_id, archive_job.lease_token);
        exception
            when serialization_failure then
                return true;
        end
        """,
        ("queue",),
        frozenset({"job twice"}),
    ),
    "a claim of offsets that answers where the group stood": Fault(
        "claim_offsets",
        """
        declare
            stood bigint;
            claimed record;
        begin
            select min(f.log_offset) into stood from pgq.fetch(
                claim_offsets.topic, claim_offsets.consumer_group, 1, claim_offsets.partition
            ) as f;
            return query
            select c.partition, coalesce(least(stood, c.first_offset), c.first_offset),
                c.last_offset
            from {true}(
                claim_offsets.topic, claim_offsets.consumer_group,
                claim_offsets.max_messages, claim_offsets.partition
            ) as c;
        end
        """,
        ("log",),
        frozenset({"range given out twice"}),
    ),
    "a watermark that does not look who is publishing": Fault(
        "watermark",
        """
        begin
            perform {true}(watermark.topic);
            return pgq._clock();
        end
        """,
        ("log",),
        frozenset({"published too late"}),
    ),
    "offsets that leave out the newest": Fault(
        "list_offsets",
        """
        begin
            return query
            select o.partition, o.first_offset,
                greatest(o.last_offset - 1, o.first_offset - 1), o.log_offset
            from {true}(list_offsets.topic, list_offsets.published_at) as o;
        end
        """,
        ("log",),
        frozenset({"wrong offsets"}),
    ),
}
