"""Faults to plant in what duplicates do."""

from __future__ import annotations

from explorer.plant import Fault

__all__ = ["NEWEST_FAULTS"]

AREAS = ("queue", "duplicates")

NEWEST_FAULTS = {
    "a duplicate that writes the content alone": Fault(
        "_merge_duplicate",
        """
        declare
            held pgq.job;
        begin
            select j.* into held from pgq.job as j
            where j.job_id = holder_id and j.lease_token is null;
            execute format(
                'update pgq.message_%s set payload = $1
                where partition_id = $2 and log_offset = $3', held.segment
            )
            using payload, held.partition_id, held.log_offset;
        end
        """,
        AREAS,
        frozenset({"old content"}),
    ),
    "a duplicate that is forgotten": Fault(
        "_merge_duplicate", "begin return; end", AREAS, frozenset({"newest lost", "old content"})
    ),
}
