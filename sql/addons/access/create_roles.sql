create function pgq.create_roles(adopt boolean default false)
returns table (role text, created boolean)
language plpgsql volatile parallel unsafe
set search_path = pgq, pg_temp
as $$
declare
    names text[] := array['pgq_admin', 'pgq_monitor', 'pgq_publisher', 'pgq_consumer'];
    name text;
begin
    if not coalesce(adopt, false) then
        perform pgq._check_roles(names);
    end if;

    foreach name in array names loop
        role := name;
        created := to_regrole(name) is null;
        if created then
            execute format('create role %I', name);
        end if;
        execute format('grant usage on schema pgq to %I', name);
        return next;
    end loop;

    grant execute on all functions in schema pgq to pgq_admin;
    grant select on pgq.messages, pgq.dead_letters, pgq.archived_jobs, pgq.effects
        to pgq_admin, pgq_consumer;
    grant insert on pgq.publish_rows, pgq.enqueue_rows, pgq.write_chunks
        to pgq_admin, pgq_publisher;

    -- A test compares these lists with the functions that exist.
    grant execute on function pgq.version, pgq.list_topics, pgq.list_queues
        to pgq_monitor, pgq_publisher, pgq_consumer;
    grant select on pgq.topic_stats, pgq.group_lag, pgq.queue_stats
        to pgq_admin, pgq_monitor, pgq_publisher, pgq_consumer;

    grant execute on function
        pgq.list_groups, pgq.list_offsets, pgq.watermark,
        pgq.list_subscriptions, pgq.list_workers, pgq.list_cleanup_failures
        to pgq_monitor, pgq_consumer;
    grant execute on function pgq.metrics, pgq.metrics_text to pgq_monitor;

    grant execute on function
        pgq.publish, pgq.publish_batch, pgq.enqueue, pgq.enqueue_batch,
        pgq.begin_write, pgq.write_chunk, pgq.commit_write, pgq.abort_write,
        pgq.create_schedule, pgq.alter_schedule, pgq.pause_schedule, pgq.resume_schedule,
        pgq.drop_schedule, pgq.list_schedules, pgq.next_ticks, pgq.get_result
        to pgq_publisher;

    grant execute on function
        pgq.create_group, pgq.alter_group, pgq.drop_group, pgq.seek, pgq.assign_offsets,
        pgq.consume, pgq.claim_offsets, pgq.commit_offset, pgq.nack_offsets,
        pgq.poll, pgq.extend_poll, pgq.release_poll, pgq.check_range,
        pgq.fetch, pgq.fetch_range, pgq.fetch_packed,
        pgq.claim_job, pgq.finish_and_claim, pgq.get_job, pgq.peek_jobs, pgq.search_jobs,
        pgq.list_errors, pgq.cancel_job, pgq.cancel_jobs, pgq.retry_jobs, pgq.next_due,
        pgq.next_poll,
        pgq.ack, pgq.ack_batch, pgq.nack, pgq.nack_batch, pgq.archive_job, pgq.archive_job_batch,
        pgq.reject_job, pgq.release_job, pgq.release_job_batch,
        pgq.extend_lease, pgq.extend_lease_batch, pgq.fetch_dead_letters,
        pgq.fetch_archived_jobs, pgq.get_result, pgq.job_history, pgq.retry_job, pgq.set_progress,
        pgq.begin_effect, pgq.finish_effect, pgq.delete_effect,
        pgq.heartbeat, pgq.run_schedules, pgq.next_run, pgq.cleanup
        to pgq_consumer;

    perform pgq.grant_access('pgq_admin', 'admin', topic => '*');
    perform pgq.grant_access('pgq_admin', 'admin', queue => '*');
    perform pgq.grant_access('pgq_monitor', 'monitor', topic => '*');
    perform pgq.grant_access('pgq_monitor', 'monitor', queue => '*');
end
$$;

comment on function pgq.create_roles(boolean) is
'Creates the roles of pgq, and grants them their rights in this database.
pgq_admin may call every function and administer all topics and queues. pgq_monitor sees names and
figures of all of them, but no messages. pgq_publisher may call the functions that need publish
access, pgq_consumer those that need consume access: both can use every topic and queue that is not
restricted, and the restricted ones to which grant_access gave them or their members access. Grant
them to your own roles: grant pgq_monitor to prometheus. Each row shows whether this call created
the role. Repeat the call after an upgrade, which may add functions: a role that already has USAGE
on the schema pgq gets the rights again. Any other existing role of these names is refused if it may
log in, has members, or is not administered by the caller, since all of them would get the rights;
adopt => true (default false) takes it as it is. The caller must be the owner of pgq and be allowed
to create roles; if it is not, have another role create them first.
Errors: 40001 above READ COMMITTED when another transaction was first (try again), 42501 the caller
may not create roles, or is not the owner of pgq, or another role has made one of these.';
