create function pgq._staged_id(own_id bigint, xid bigint)
returns bigint
language sql immutable parallel safe
as $$
select (own_id << 27) + (xid & 134217727) - 9223372036854775807 - 1
$$;

comment on function pgq._staged_id(bigint, bigint) is
'The partition_id under which a transaction stages messages of a deferred partition. It is negative,
so that no partition has it: that of the partition times 2^27, plus the lowest 27 bits of the
transaction id, minus 2^63. xid 0: the lowest one of the partition.';
