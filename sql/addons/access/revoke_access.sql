create function pgq.revoke_access(
    role text,
    access text default null,
    topic text default null,
    queue text default null,
    end_dependents boolean default false
)
returns boolean
language plpgsql volatile parallel unsafe
security definer
set search_path = pgq, pg_temp
as $$
declare
    kind text := case when topic is not null then 'topic' else 'queue' end;
    everything boolean := coalesce('*' in (topic collate "C", queue collate "C"), false);
    target_id bigint;
    revoked boolean;
begin
    perform pgq._check_grant(role collate "C", topic, queue, access);
    if not everything then
        perform pgq._check_access(topic collate "C", queue, 'admin');
    end if;
    target_id := coalesce(
        pgq._lock_access(
            case when not everything then topic collate "C" end,
            case when not everything then queue end, end_dependents
        ),
        0
    );
    if not everything then
        perform pgq._check_access(topic collate "C", queue, 'admin');
    end if;

    delete from pgq.access_grant as g
    where g.scope = kind collate "C"
        and coalesce(g.topic_id, g.queue_id, 0) = target_id
        and g.role = revoke_access.role collate "C"
        and g.access = coalesce(revoke_access.access collate "C", g.access);
    revoked := found;

    if revoked and everything then
        perform pgq._settle_all_access(kind, end_dependents);
    elsif revoked then
        perform pgq._settle_access(
            case when kind = 'topic' then target_id end,
            case when kind = 'queue' then target_id end, true
        );
    end if;
    if revoked then
        perform pgq._end_dependents(kind, nullif(target_id, 0), end_dependents);
    end if;
    return revoked;
end
$$;

comment on function pgq.revoke_access(text, text, text, text, boolean) is
'Revokes one access of a role, or all of them when access is null; false when it has none.
Grants given by other roles are revoked too. A topic or queue stays restricted after its last grant
is revoked; alter_topic and alter_queue open it. A worker can still finish the jobs that it has
leased; a member of a group can no longer commit, and another member reads its partition again. A
transaction above READ COMMITTED with an older snapshot may still read and claim the rows that it
sees, but cannot publish. Jobs enqueued by an open transaction, and its messages to a deferred
topic, arrive when it commits. Subscriptions, schedules and dead-letter topics work on behalf of the
roles that created them: if the call would take the access that they need, it is refused.
end_dependents => true (default false) instead ends such subscriptions, pauses such schedules and
removes the max_attempts of such groups, which then stop at a message that fails.
Errors: MQ001 unknown topic, MQ002 unknown queue, 22004 a required argument is null, 22023 topic and
queue, or a bad access, 2BP01 what others have set up needs the access that they lose, 40001 above
READ COMMITTED when another transaction was first (try again), 42501 the caller has no admin
access.';
