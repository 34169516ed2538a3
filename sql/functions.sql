-- The functions in build order: one file for each, with its name.

-- Shared: clock, argument checks, privileges
\ir shared/_clock.sql
\ir shared/version.sql
\ir shared/_keeps_snapshot.sql
\ir shared/_give_back_grant.sql
\ir shared/_revoke_others.sql
\ir shared/_check_name.sql
\ir shared/_check_count.sql
\ir shared/_check_read_committed.sql
\ir shared/_settled_xid.sql
\ir shared/_check_interval.sql
\ir shared/_check_content.sql
\ir shared/_check_batch.sql
\ir shared/_check_lease_token.sql
\ir shared/_check_no_limit.sql
\ir shared/_check_idempotency_window.sql
\ir shared/_check_idempotency_keys.sql
\ir shared/_check_settings_equal.sql
\ir shared/_check_share.sql
\ir shared/_check_word.sql
\ir shared/_liftable.sql
\ir shared/_standard_settings.sql
\ir shared/_merge_settings.sql
\ir shared/_check_settings.sql

-- The message store and its segments
\ir store/_create_leaf.sql
\ir store/_lock_leaf.sql
\ir store/_mark_segment.sql
\ir store/_open_segment.sql
\ir store/_storage_class.sql
\ir store/_segment_until.sql
\ir store/_newest.sql
\ir store/_last_message.sql
\ir store/_is_kept.sql
\ir store/_check_nothing_kept.sql
\ir store/_has_keys.sql

-- The message store and its idempotency keys
\ir store/_key_tier.sql
\ir store/_note_former_window.sql
\ir store/_key_segments.sql
\ir store/_find_keys.sql
\ir store/_insert_keys.sql
\ir store/_forget_keys.sql
\ir store/_note_keys.sql
\ir store/_place_keys.sql

-- The log: argument checks
\ir log/_fail_unknown_topic.sql
\ir log/_check_topic.sql
\ir log/_fail_unknown_partition.sql
\ir log/_check_group.sql
\ir log/_fail_out_of_range.sql
\ir log/_fail_lease_lost.sql
\ir log/_fail_truncated.sql
\ir log/_topic_settings.sql
\ir log/_check_out_of_range.sql
\ir log/_check_dead_letters.sql
\ir log/_check_both_set.sql

-- The log: offsets
\ir log/_home.sql
\ir log/_first_available.sql
\ir log/_first_readable.sql
\ir log/_last_offset.sql
\ir log/_fail_incomplete.sql
\ir log/_runs.sql
\ir log/_published_at.sql
\ir log/_messages_across.sql
\ir log/_offset_at.sql
\ir log/list_offsets.sql
\ir log/_unlocked_partitions.sql
\ir log/watermark.sql
\ir log/check_range.sql
\ir log/_partition_figures.sql
\ir log/_topic_info.sql
\ir log/_group_info.sql

-- Access: rights of roles on topics and queues
\ir access/_caller.sql
\ir access/_act_for.sql
\ir access/_has_role.sql
\ir access/_may.sql
\ir access/_granted.sql
\ir access/_may_use.sql
\ir access/_maker.sql
\ir access/_administers.sql
\ir access/_check_access.sql
\ir access/_check_taken.sql
\ir access/_check_admin.sql
\ir access/_may_write.sql
\ir access/_sees_schedule.sql
\ir access/_check_schedule_access.sql
\ir access/_check_subscription_access.sql
\ir access/_visible_to.sql
\ir access/_visible.sql
\ir access/_visible_in_view.sql
\ir access/_visible_topics.sql
\ir access/_visible_queues.sql
\ir access/_shown_target.sql
\ir access/_dependents.sql
\ir access/_lock_dependents.sql
\ir access/_lock_access.sql
\ir access/_settle_access.sql
\ir access/_settle_all_access.sql
\ir access/_end_dependents.sql
\ir access/_add_grant.sql
\ir access/_restrict.sql
\ir access/_check_admin_of_all.sql
\ir access/_check_grant.sql
\ir access/grant_access.sql
\ir access/revoke_access.sql
\ir access/list_access.sql
\ir access/_check_roles.sql
\ir access/create_roles.sql

-- The log: topics and groups
\ir log/_try_offset.sql
\ir log/_enter_segment.sql
\ir log/_settle_partitions.sql
\ir log/_add_partitions.sql
\ir log/_lock_topic.sql
\ir log/_note_dropped_topic.sql
\ir log/create_topic.sql
\ir log/alter_topic.sql
\ir log/drop_topic.sql
\ir log/list_topics.sql
\ir log/_lock_dead_letter_topic.sql
\ir log/create_group.sql
\ir log/alter_group.sql
\ir log/drop_group.sql
\ir log/list_groups.sql

-- The queue: jobs that point at messages
\ir queue/_point_jobs.sql
\ir queue/_point_ordered.sql
\ir queue/_add_runs.sql
\ir queue/_expand_run.sql

-- Subscriptions
\ir subscription/_fail_unknown_subscription.sql
\ir subscription/_check_filter.sql
\ir subscription/_routing_regex.sql
\ir subscription/_matches.sql
\ir subscription/_subscription_info.sql
\ir subscription/subscribe.sql
\ir subscription/unsubscribe.sql
\ir subscription/list_subscriptions.sql
\ir subscription/_deliver.sql
\ir subscription/_hold_followed.sql
\ir subscription/_deliver_across.sql
\ir subscription/_announce.sql
\ir subscription/_deliver_staged.sql
\ir subscription/_clean_subscriptions.sql

-- The log: publishing
\ir log/_ring.sql
\ir log/_found_in.sql
\ir log/_free_ring.sql
\ir log/_lock_partition.sql
\ir log/_publish_spread.sql
\ir log/_publish_keyed.sql
\ir log/publish_batch.sql
\ir log/_publish_guarded.sql
\ir log/_publish_deferred.sql
\ir log/publish.sql

-- The log: offsets of deferred topics
\ir log/_staged_since.sql
\ir log/_has_staged.sql
\ir log/_stage_batch.sql
\ir log/_move_staged.sql
\ir log/_assign_across.sql
\ir log/_assign.sql
\ir log/_assign_all.sql
\ir log/_try_assign.sql
\ir log/_assign_waiting.sql
\ir log/assign_offsets.sql

-- The log: consuming
\ir log/_near_partition.sql
\ir log/_lock_group.sql
\ir log/_append_position.sql
\ir log/_keep_position.sql
\ir log/_check_positions.sql
\ir log/_give_up.sql
\ir log/_claim_any.sql
\ir log/_claim.sql
\ir log/claim_offsets.sql
\ir log/fetch_range.sql
\ir log/_pack.sql
\ir log/fetch_packed.sql
\ir log/consume.sql
\ir log/fetch.sql
\ir log/poll.sql
\ir log/extend_poll.sql
\ir log/release_poll.sql
\ir log/_ahead_groups.sql
\ir log/_repair_groups.sql
\ir log/nack_offsets.sql
\ir log/commit_offset.sql
\ir log/seek.sql

-- The log: cleaning
\ir log/_clean_positions.sql
\ir log/_forget_segment.sql
\ir log/_assign_staged.sql
\ir log/_leave_segment.sql

-- The queue: argument checks
\ir queue/_fail_unknown_queue.sql
\ir queue/_check_queue.sql
\ir queue/_unchanged.sql
\ir queue/_fail_job_lost.sql
\ir queue/_check_lease.sql
\ir queue/_check_leases.sql
\ir queue/_check_outcome.sql
\ir queue/_check_label.sql
\ir queue/_check_unique_key.sql
\ir queue/_check_unique_keys.sql
\ir queue/_shortest.sql
\ir queue/_queue_settings.sql
\ir queue/_write_queue.sql
\ir queue/_check_queue_together.sql

-- The queue: unique, ordered and limited keys
\ir queue/_moved_job.sql
\ir queue/_let_next.sql
\ir queue/_free_keys.sql
\ir queue/_settle_notes.sql
\ir queue/_parked_place.sql
\ir queue/_keys_of_jobs.sql
\ir queue/_write_keys.sql
\ir queue/_park_jobs.sql
\ir queue/_unpark_jobs.sql
\ir queue/_unpark_all.sql
\ir queue/_lift_key_limit.sql
\ir queue/_settle_keys.sql
\ir queue/_stamp_leased.sql
\ir queue/_begin_notes.sql
\ir queue/_open_keys.sql
\ir queue/_release_keys.sql
\ir queue/_join_order.sql
\ir queue/_turns.sql
\ir queue/_hold_keys.sql

-- The queue: queues
\ir queue/_queue_info.sql
\ir queue/create_queue.sql
\ir queue/alter_queue.sql
\ir queue/drop_queue.sql
\ir queue/list_queues.sql
\ir queue/pause_queue.sql
\ir queue/resume_queue.sql
\ir queue/purge_queue.sql

-- The queue: enqueuing
\ir queue/_due_at.sql
\ir queue/_enqueue_keyed.sql
\ir queue/_take_key.sql
\ir queue/_take_keys.sql
\ir queue/_check_room.sql
\ir queue/_check_job.sql
\ir queue/_admit_job.sql
\ir queue/enqueue.sql
\ir queue/enqueue_batch.sql

-- The queue: claiming and finishing
\ir queue/_bury.sql
\ir queue/_bury_exhausted.sql
\ir queue/_bury_front.sql
\ir queue/_free_claimed.sql
\ir queue/_expire_front.sql
\ir queue/_lock_floor.sql
\ir queue/_raise_floor.sql
\ir queue/_raise_label_floor.sql
\ir queue/_claims_so_far.sql
\ir queue/_write_claims.sql
\ir queue/_allowed_claims.sql
\ir queue/_note_claims.sql
\ir queue/_met_jobs.sql
\ir queue/_known_jobs.sql
\ir queue/_limited_jobs.sql
\ir queue/_expand_runs.sql
\ir queue/_with_label_floors.sql
\ir queue/_plan_claim.sql
\ir queue/_choose_jobs.sql
\ir queue/_end_claim.sql
\ir queue/_claim_jobs.sql
\ir queue/claim_job.sql
\ir queue/_still_leased.sql
\ir queue/_finish.sql
\ir queue/_finish_all.sql
\ir queue/finish_and_claim.sql
\ir queue/ack.sql
\ir queue/ack_batch.sql
\ir queue/archive_job.sql
\ir queue/archive_job_batch.sql
\ir queue/_retry_delay.sql
\ir queue/_return_keys.sql
\ir queue/_nack.sql
\ir queue/nack.sql
\ir queue/nack_batch.sql
\ir queue/release_job.sql
\ir queue/release_job_batch.sql
\ir queue/reject_job.sql
\ir queue/cancel_job.sql
\ir queue/get_job.sql
\ir queue/peek_jobs.sql
\ir queue/_extend_lease.sql
\ir queue/extend_lease.sql
\ir queue/extend_lease_batch.sql
\ir queue/fetch_dead_letters.sql
\ir queue/_check_redrive.sql
\ir queue/_lock_dead_letters.sql
\ir queue/redrive.sql

-- The queue: effects that happen once
\ir queue/_check_effect.sql
\ir queue/_flush_commit.sql
\ir queue/_lock_leased.sql
\ir queue/_lock_effect.sql
\ir queue/begin_effect.sql
\ir queue/finish_effect.sql
\ir queue/forget_effect.sql

-- The queue: cleaning
\ir queue/_expired_jobs.sql
\ir queue/_expire_jobs.sql
\ir queue/_bury_lost.sql
\ir queue/_below_floor.sql
\ir queue/_ahead_runs.sql
\ir queue/_ahead_jobs.sql
\ir queue/_repair_jobs.sql
\ir queue/_lower_floor.sql
\ir queue/_look_below.sql
\ir queue/_sweep_labels.sql
\ir queue/_sweep_floors.sql
\ir queue/_clean_order.sql
\ir queue/_clean_limited_keys.sql
\ir queue/_clean_runs.sql
\ir queue/_clean_dropped_queues.sql
\ir queue/_clean_jobs.sql
\ir queue/_clean_effects.sql
\ir queue/_jobs_of_segment.sql
\ir queue/_expand_segment.sql
\ir queue/_carry_jobs.sql
\ir queue/_has_archived.sql
\ir queue/_has_jobs.sql
\ir queue/_remove_archived.sql
\ir queue/_settle_queues.sql

-- Bulk writes: argument checks
\ir bulk/_fail_write_lost.sql
\ir bulk/_check_no_write.sql
\ir bulk/_check_lengths.sql
\ir bulk/_check_packed.sql
\ir bulk/_starts.sql
\ir bulk/_check_contents.sql
\ir bulk/_fail_other_chunk.sql
\ir bulk/_check_chunk.sql
\ir bulk/_check_chunk_options.sql
\ir bulk/_check_target.sql

-- Bulk writes: forgetting
\ir bulk/_forget_runs.sql
\ir bulk/_forget_staged.sql
\ir bulk/_forget_published.sql
\ir bulk/_forget_older.sql

-- Bulk writes: beginning
\ir bulk/_check_remembered.sql
\ir bulk/_wanted_write.sql
\ir bulk/_known_write.sql
\ir bulk/_add_write.sql
\ir bulk/_restart_write.sql
\ir bulk/begin_write.sql

-- Bulk writes: chunks
\ir bulk/_find_write.sql
\ir bulk/_note_task.sql
\ir bulk/_note_chunk.sql
\ir bulk/_unpack.sql
\ir bulk/_unpack_payloads.sql
\ir bulk/_places.sql
\ir bulk/_store_chunk.sql
\ir bulk/_run_place.sql
\ir bulk/_stage_run.sql
\ir bulk/_check_staged.sql
\ir bulk/_stage_chunk.sql
\ir bulk/_note_last_chunk.sql
\ir bulk/_publish_contents.sql
\ir bulk/_publish_messages.sql
\ir bulk/_publish_chunk.sql
\ir bulk/write_chunk.sql

-- Bulk writes: committing and aborting
\ir bulk/_lock_write.sql
\ir bulk/_count_written.sql
\ir bulk/_check_staged_delays.sql
\ir bulk/_go_on_behind.sql
\ir bulk/_append_runs.sql
\ir bulk/_append_all_runs.sql
\ir bulk/_spread_run.sql
\ir bulk/_keys_of_runs.sql
\ir bulk/_publish_staged.sql
\ir bulk/commit_write.sql
\ir bulk/abort_write.sql

-- Bulk writes: views to insert into
\ir bulk/_write_chunk_row.sql
\ir bulk/_publish_row.sql
\ir bulk/_enqueue_row.sql

-- Bulk writes: cleaning
\ir bulk/_dropped_targets.sql
\ir bulk/_forget_write.sql
\ir bulk/_clean_writes.sql

-- Schedules: argument checks
\ir schedule/_fail_unknown_schedule.sql
\ir schedule/_fail_cron.sql
\ir schedule/_check_time_zone.sql
\ir schedule/_check_year.sql

-- Schedules: times
\ir schedule/_cron_field.sql
\ir schedule/_cron_times.sql
\ir schedule/_next_minute.sql
\ir schedule/_moment_of.sql
\ir schedule/_cron_tick.sql
\ir schedule/_next_tick.sql
\ir schedule/_last_tick.sql

-- Schedules: schedules
\ir schedule/_check_missed.sql
\ir schedule/_check_schedule.sql
\ir schedule/_lock_schedule_target.sql
\ir schedule/_check_schedule_kept.sql
\ir schedule/_schedule_info.sql
\ir schedule/create_schedule.sql
\ir schedule/alter_schedule.sql
\ir schedule/drop_schedule.sql
\ir schedule/list_schedules.sql
\ir schedule/pause_schedule.sql
\ir schedule/resume_schedule.sql
\ir schedule/next_ticks.sql

-- Schedules: running
\ir schedule/_run_schedule.sql
\ir schedule/_ahead_schedules.sql
\ir schedule/_repair_schedules.sql
\ir schedule/run_schedules.sql

-- Metrics: heartbeats of workers
\ir metrics/_check_worker.sql
\ir metrics/_check_heartbeat.sql
\ir metrics/heartbeat.sql
\ir metrics/list_workers.sql
\ir metrics/forget_worker.sql
\ir metrics/_clean_workers.sql

-- Metrics: figures
\ir metrics/_describe_metrics.sql
\ir metrics/_log_figures.sql
\ir metrics/_staged_samples.sql
\ir metrics/_queue_floors.sql
\ir metrics/_job_counts.sql
\ir metrics/_finished_lately.sql
\ir metrics/_queue_samples.sql
\ir metrics/_house_samples.sql
\ir metrics/_worker_samples.sql
\ir metrics/_holder_samples.sql
\ir metrics/_other_samples.sql
\ir metrics/metrics.sql
\ir metrics/_exposition_text.sql
\ir metrics/_exposition_labels.sql
\ir metrics/_exposition_line.sql
\ir metrics/metrics_text.sql

-- Retention
\ir retention/_lengths.sql
\ir retention/_new_lengths.sql
\ir retention/_check_storage_bounds.sql
\ir retention/set_storage_bounds.sql
\ir retention/_clean_dropped.sql
\ir retention/_clean_windows.sql
\ir retention/_close_segments.sql
\ir retention/_class_in_use.sql
\ir retention/_segment_due.sql
\ir retention/_seal_segment.sql
\ir retention/_restore_mark.sql
\ir retention/_seal_segments.sql
\ir retention/_truncate_segment.sql
\ir retention/_truncate_segments.sql
\ir retention/_clean_part.sql
\ir retention/cleanup.sql
\ir retention/repair_clock.sql
\ir retention/schedule_cleanup.sql
\ir retention/unschedule_cleanup.sql
