create function pgq._claim(
    topic text,
    consumer_group text,
    max_messages integer,
    partition integer,
    lease interval
)
returns pgq._claim_state
language plpgsql
volatile
parallel unsafe
as $$
#variable_conflict use_column
declare
    target_id bigint;
    number integer;
    home_id bigint;
    leaf integer;
    segment_first_offset bigint;
    seq bigint;
    next_offset bigint;
    leased_until timestamptz;
    taken_to bigint;
    token uuid;
    moment timestamptz;
    claimed pgq._claim_state;
begin
    if (_claim.max_messages between 1 and 1000000) is not true then
        perform pgq._check_count('max_messages', _claim.max_messages, 1, 1000000);
    end if;

    -- The usual case: where this member looks first, the next messages stand in the segment that is
    -- written to now. _claim_any knows the others.
    select
        l.group_id,
        l.partition,
        l.partition_id,
        p.segment,
        p.segment_first_offset,
        q.seq,
        q.next_offset,
        q.leased_until
    into
        target_id,
        number,
        home_id,
        leaf,
        segment_first_offset,
        seq,
        next_offset,
        leased_until
    from (
        select g.group_id, g.partition, g.partition_id
        from pgq.group_partition as g
        where g.topic = _claim.topic
            and g.consumer_group = _claim.consumer_group
            and g.ring <= pgq._ring()
            and _claim.partition is null
        order by g.ring desc
        limit 1
    ) as l
    inner join pgq.partition as p on p.partition_id = l.partition_id
    cross join lateral (
        select j.seq, j.next_offset, j.leased_until
        from pgq.group_position as j
        where j.group_id = l.group_id
            and j.partition = l.partition
        order by j.seq desc
        limit 1
    ) as q;

    moment := pgq._clock();
    if next_offset >= segment_first_offset and (leased_until > moment) is not true then
        if _claim.lease is not null then
            token := gen_random_uuid();
        end if;

        -- Only a partition that has something to read is locked. Where another member was faster,
        -- its row of the journal has this number, or the journal was trimmed above it.
        -- for the leaf: leaf
        insert into pgq.group_position (
            group_id,
            partition,
            seq,
            first_offset,
            next_offset,
            recorded_at,
            leased_until,
            lease_token,
            lease_last_offset
        )
        select
            {target_id},
            {number},
            {seq} + 1,
            {next_offset},
            case when {token} is null then t.taken_to + 1 else {next_offset} end,
            {moment},
            {moment} + {_claim.lease},
            {token},
            case when {token} is not null then t.taken_to end
        from (
            select least(m.log_offset, {next_offset} + {_claim.max_messages} - 1) as taken_to
            from pgq.message_{leaf} as m
            where m.partition_id = {home_id}
                and m.log_offset >= {next_offset}
            order by m.log_offset desc
            limit 1
        ) as t
        cross join lateral (
            select 1
            from pgq.group_partition as l
            where l.group_id = {target_id}
                and l.partition = {number}
                and l.trimmed_seq <= {seq}
                and t.taken_to is not null
            for no key update skip locked
        ) as l
        on conflict do nothing
        returning coalesce(lease_last_offset, next_offset - 1)
        into taken_to;
        -- end of the leaf

        if taken_to is not null then
            claimed.partition := number;
            claimed.partition_id := home_id;
            claimed.first_offset := next_offset;
            claimed.last_offset := taken_to;
            claimed.segment := leaf;
            claimed.lease_token := token;
            return claimed;
        end if;
    end if;

    return pgq._claim_any(
        _claim.topic,
        _claim.consumer_group,
        _claim.max_messages,
        _claim.partition,
        _claim.lease
    );
end
$$;

comment on function pgq._claim(text, text, integer, integer, interval) is
'The common part of claim_offsets, consume and poll: takes the next messages of a partition for a
group, for good when lease is null. Null: nothing to read. Its segment is null when they may stand
in several.';
