"""Faults to plant: in topics, groups, schedules, and all the others."""

from __future__ import annotations

from explorer.access_faults import ACCESS_FAULTS
from explorer.filter_faults import FILTER_FAULTS
from explorer.job_faults import JOB_FAULTS
from explorer.newest_faults import NEWEST_FAULTS
from explorer.noted_faults import NOTED_FAULTS
from explorer.plant import Fault
from explorer.prefetch_faults import PREFETCH_FAULTS
from explorer.wait_faults import WAIT_FAULTS

__all__ = ["FAULTS"]

FAULTS = {
    **ACCESS_FAULTS,
    **FILTER_FAULTS,
    **JOB_FAULTS,
    **NEWEST_FAULTS,
    **NOTED_FAULTS,
    **PREFETCH_FAULTS,
    **WAIT_FAULTS,
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
    "a look for messages without offsets that forgets who was at work": Fault(
        "_staged_since",
        """
        declare
            since pgq._staged_since := {true}(_staged_since.partition_id);
        begin
            since.late_xids := '{{}}';
            return since;
        end
        """,
        ("log", "deferred"),
        frozenset({"lost message"}),
    ),
    "offsets in the wrong order": Fault(
        "_move_staged",
        """
        begin
            perform {true}(
                _move_staged.partition_id,
                _move_staged.segment,
                array(
                    select p.place
                    from unnest(_move_staged.tids) with ordinality as p (place, number)
                    order by p.number desc
                ),
                _move_staged.before_first,
                _move_staged.publish_time
            );
        end
        """,
        ("log", "deferred"),
        frozenset({"commit order"}),
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
            perform {true}(
                partition_id, stored_partition_id, segment, first_offset, first_offset
            );
        end
        """,
        ("log", "follow"),
        frozenset({"delivery lost"}),
    ),
    "a run that is left where it is": Fault(
        "_expand_extent",
        """
        begin
            perform {true}(_expand_extent.extent);
            insert into pgq.job_extent select (_expand_extent.extent).*;
        end
        """,
        ("log", "follow"),
        frozenset({"delivered twice"}),
    ),
    "a filter that is not looked at": Fault(
        "_matches",
        """
        begin
            return {true}(_matches.headers, null, _matches.routing_regex);
        end
        """,
        ("log", "follow"),
        frozenset({"delivery unasked"}),
    ),
    "a routing pattern whose # is one word at least": Fault(
        "_routing_regex",
        """
        begin
            return replace({true}(_routing_regex.routing_key), ')*', ')+');
        end
        """,
        ("log", "follow"),
        frozenset({"delivery lost"}),
    ),
    "deliveries that do not wait for their turn": Fault(
        "_point_ordered",
        """
        begin
            perform pgq._point_jobs(
                queue_id, partition_id, segment, offsets, visible_at, expires_at
            );
        end
        """,
        ("log", "follow"),
        frozenset({"overtaken"}),
    ),
    "an unsubscribe that ends nothing": Fault(
        "unsubscribe",
        "begin end",
        ("log", "follow"),
        frozenset({"delivery unasked"}),
    ),
    "an unsubscribe that gives no offsets": Fault(
        "unsubscribe",
        """
        begin
            delete from pgq.subscription as s where s.subscription = unsubscribe.subscription;
        end
        """,
        ("log", "follow", "deferred"),
        frozenset({"delivery lost"}),
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
    "a seek that keeps the attempts": Fault(
        "seek",
        """
        begin
            return query
            select * from {true}(
                seek.topic, seek.consumer_group, seek.partition, seek.log_offset,
                seek.published_at, seek.start
            );
            update pgq.group_position as j set attempts = k.attempts
            from pgq.group_position as k
            inner join pgq.group_partition as l
            on l.group_id = k.group_id and l.partition = k.partition
            where l.topic = seek.topic and l.consumer_group = seek.consumer_group
                and l.partition = coalesce(seek.partition, l.partition)
                and j.group_id = k.group_id and j.partition = k.partition and j.seq = k.seq + 1
                and j.seq = (
                    select max(i.seq) from pgq.group_position as i
                    where i.group_id = k.group_id and i.partition = k.partition
                );
        end
        """,
        ("poison",),
        frozenset({"attempts"}),
    ),
    "a seek that says where the group stands": Fault(
        "seek",
        """
        begin
            return query
            select o.partition, coalesce(seek.log_offset, o.first_offset)
            from pgq.list_offsets(seek.topic) as o
            where o.partition = coalesce(seek.partition, o.partition);
        end
        """,
        ("poison",),
        frozenset({"no effect"}),
    ),
    "a lease that ends when it is to be longer": Fault(
        "extend_poll",
        """
        begin
            return pgq.release_poll(
                extend_poll.topic, extend_poll.consumer_group, extend_poll.partition,
                extend_poll.lease_token
            );
        end
        """,
        ("poison",),
        frozenset({"two leases"}),
    ),
}
