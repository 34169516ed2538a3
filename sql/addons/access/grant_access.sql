create function pgq.grant_access(
    role text,
    access text,
    topic text default null,
    queue text default null,
    end_dependents boolean default false
)
returns setof pgq.access_info
language plpgsql volatile parallel unsafe rows 1
security definer
set search_path = pgq, pg_temp
as $$
declare
    kind text := case when topic is not null then 'topic' else 'queue' end;
    everything boolean := coalesce('*' in (topic collate "C", queue collate "C"), false);
begin
    if access is null then
        raise exception 'argument "access" must not be null' using errcode = '22004';
    end if;
    perform pgq._check_grant(role collate "C", topic, queue, access);
    if role collate "C" <> 'public'
        and not exists (select from pg_catalog.pg_roles as r where r.rolname = role collate "C")
    then
        raise exception 'role "%" does not exist', role using errcode = '42704';
    end if;

    if everything then
        perform pgq._lock_access(null, null, false);
        perform pgq._add_grant(kind, null, null, role, access);
        perform pgq._settle_all_access(kind, false);
    else
        perform pgq._restrict(topic collate "C", queue, true, role, access, end_dependents);
    end if;

    return query
    select g.role, grant_access.topic, grant_access.queue, g.access, g.granted_by, g.granted_at
    from pgq.access_grant as g
    left join pgq.topic as t on t.topic_id = g.topic_id
    left join pgq.queue as q on q.queue_id = g.queue_id
    where g.scope = kind collate "C"
        and coalesce(t.topic, q.queue, '*') = coalesce(
            grant_access.topic collate "C", grant_access.queue
        )
        and g.role = grant_access.role collate "C"
        and g.access = grant_access.access collate "C";
end
$$;

comment on function pgq.grant_access(text, text, text, text, boolean) is
'Lets a role publish to a topic or queue, consume it, see its figures, or administer it.
The first grant restricts the topic or queue: from then on only roles with a grant, the owner of pgq
and superusers can use it. Until then, every role with EXECUTE on the functions can use it; EXECUTE
is needed in any case. access: publish (publish, enqueue, bulk writes, schedules), consume (read,
consumer groups, claims, jobs, dead letters), monitor (names and figures; included in each of the
others), admin (all of these, settings, drop, purge, redrive, grants). topic or queue *: all
existing and future ones, without restricting them. role public: every role. The caller is the role
set by SET ROLE, else the session user, with the access of roles whose privileges it inherits; the
owner of a security definer function that calls pgq does not count. Roles are stored by name: revoke
before one is dropped or renamed. The call waits for open publishes. Only the role that created the
topic or queue, or an admin of all of them, can give the first grant. The creator then keeps admin
access; if another admin gives the first grant, the creator has only the access that is granted.
Subscriptions, schedules and dead_letter_topics work on behalf of the roles that created them: if
the first grant would take the access that they need, the call is refused. end_dependents => true
(default false) instead ends such subscriptions, pauses such schedules and removes the max_attempts
of such groups, which then stop at a message that fails.
Errors: MQ001 unknown topic, MQ002 unknown queue, 22004 a required argument is null, 22023 topic and
queue, or a bad access, 2BP01 what others have set up needs the access that they lose, 40001 above
READ COMMITTED when another transaction was first (try again), 42501 the caller has no admin access,
or has not made what is open, 42704 there is no such role.';
