-- The functions in build order: one file for each, with its name.

-- Core: clock, argument checks
\ir core/_clock.sql
\ir core/version.sql
\ir core/_keeps_snapshot.sql
\ir core/_keep_memory.sql
\ir core/_give_back_grant.sql
\ir core/_revoke_others.sql
\ir core/_check_name.sql
\ir core/_check_count.sql
\ir core/_check_read_committed.sql
\ir core/_oldest_xid.sql
\ir core/_check_interval.sql
\ir core/_is_large.sql
\ir core/_has_large.sql
\ir core/_message_bytes.sql
\ir core/_sizes.sql
\ir core/_check_size.sql
\ir core/_printable.sql
\ir core/_check_content.sql
\ir core/_check_batch.sql
\ir core/_check_lease_token.sql
\ir core/_check_no_limit.sql
\ir core/_check_idempotency_window.sql
\ir core/_check_idempotency_keys.sql
\ir core/_check_settings_equal.sql
\ir core/_check_share.sql
\ir core/_liftable.sql
\ir core/_standard_settings.sql
\ir core/_merge_settings.sql
\ir core/_check_settings.sql

-- Core: privileges
\ir core/_caller.sql
\ir core/_act_for.sql
\ir core/_has_role.sql
\ir core/_may.sql
\ir core/_granted.sql
\ir core/_may_use.sql
\ir core/_maker.sql
\ir core/_administers.sql
\ir core/_check_access.sql
\ir core/_check_taken.sql
\ir core/_check_admin.sql
\ir core/_may_write.sql
\ir core/_visible_to.sql
\ir core/_visible.sql
\ir core/_visible_in_view.sql
\ir core/_visible_topics.sql
\ir core/_visible_queues.sql
\ir core/_shown_target.sql
\ir core/_check_admin_of_all.sql

-- The message store
\ir store/_note_size.sql
\ir store/_copy_size.sql
\ir store/_fit.sql
\ir store/_staged_id.sql
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
\ir store/_key_tier.sql
\ir store/_note_former_window.sql
\ir store/_key_segments.sql
\ir store/_find_keys.sql
\ir store/_insert_keys.sql
\ir store/_delete_keys.sql
\ir store/_note_keys.sql
\ir store/_store_keys.sql

-- The log: argument checks
\ir log/_fail_unknown_topic.sql
\ir log/_check_topic.sql
\ir log/_fail_unknown_partition.sql
\ir log/_check_group.sql
\ir log/_fail_out_of_range.sql
\ir log/_fail_lease_lost.sql
\ir log/_fail_truncated.sql
\ir log/_topic_settings.sql
\ir log/_has_delivery.sql
\ir log/_measure.sql
\ir log/_check_out_of_range.sql
\ir log/_check_dead_letters.sql
\ir log/_check_both_set.sql

-- The log: offsets
\ir log/_state_of.sql
\ir log/_current_position.sql
\ir log/_key_partition.sql
\ir log/_first_available.sql
\ir log/_first_readable.sql
\ir log/_last_offset.sql
\ir log/_fail_incomplete.sql
\ir log/_extents.sql
\ir log/_published_at.sql
\ir log/_messages_across.sql
\ir log/_fit_across.sql
\ir log/_offset_at.sql
\ir log/list_offsets.sql
\ir log/_unlocked_partitions.sql
\ir log/watermark.sql
\ir log/_readable_partition.sql
\ir log/check_range.sql
\ir log/_partition_figures.sql
\ir log/_topic_info.sql
\ir log/_group_info.sql

-- The log: topics and groups
\ir log/_try_offset.sql
\ir log/_enter_segment.sql
\ir log/_settle_partitions.sql
\ir log/_add_partitions.sql
\ir log/_lock_topic.sql
\ir log/_note_dropped_topic.sql
\ir log/_topic_class.sql
\ir log/create_topic.sql
\ir log/alter_topic.sql
\ir log/drop_topic.sql
\ir log/list_topics.sql
\ir log/_lock_dead_letter_topic.sql
\ir log/_enter_partitions.sql
\ir log/create_group.sql
\ir log/alter_group.sql
\ir log/drop_group.sql
\ir log/list_groups.sql

-- The log: publishing
\ir log/_hash_position.sql
\ir log/_found_in.sql
\ir log/_free_position.sql
\ir log/_lock_partition.sql
\ir log/_publish_spread.sql
\ir log/_publish_keyed.sql
\ir log/publish_batch.sql
\ir log/_publish_guarded.sql
\ir log/publish.sql

-- The log: consuming
\ir log/_partition_hint.sql
\ir log/_lock_group.sql
\ir log/_append_position.sql
\ir log/_announce_topic.sql
\ir log/_keep_position.sql
\ir log/_check_positions.sql
\ir log/_give_up.sql
\ir log/_claim_any.sql
\ir log/_claim.sql
\ir log/claim_offsets.sql
\ir log/fetch_range.sql
\ir log/_header_pairs.sql
\ir log/_pack_query.sql
\ir log/fetch_packed.sql
\ir log/consume.sql
\ir log/_fetch_ranges.sql
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
\ir log/_delete_segment.sql
\ir log/_leave_segment.sql

-- The queue: jobs that point at messages
\ir queue/_point_jobs.sql
\ir queue/_add_extents.sql
\ir queue/_expand_extent.sql

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
\ir queue/_new_settings.sql

-- The queue: unique, ordered and limited keys
\ir queue/_moved_job.sql
\ir queue/_free_keys.sql

-- The queue: queues
\ir queue/_queue_info.sql
\ir queue/_drop_extents.sql
\ir queue/create_queue.sql
\ir queue/alter_queue.sql
\ir queue/drop_queue.sql
\ir queue/list_queues.sql
\ir queue/_set_paused.sql
\ir queue/pause_queue.sql
\ir queue/resume_queue.sql
\ir queue/_is_free.sql
\ir queue/_is_waiting.sql
\ir queue/_filter_matches.sql
\ir queue/_is_meant.sql
\ir queue/_check_purge.sql
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
\ir queue/_dead_letter_jobs.sql
\ir queue/_dead_letter_exhausted.sql
\ir queue/_free_claimed.sql
\ir queue/_lock_floor.sql
\ir queue/_read_floors.sql
\ir queue/_is_proved.sql
\ir queue/_write_floor.sql
\ir queue/_raise_floor.sql
\ir queue/_raise_label_floor.sql
\ir queue/_met_jobs.sql
\ir queue/_known_jobs.sql
\ir queue/_expand_extents.sql
\ir queue/_with_label_floors.sql
\ir queue/_plan_claim.sql
\ir queue/_choose_jobs.sql
\ir queue/_cut_jobs.sql
\ir queue/_fit_jobs.sql
\ir queue/_end_claim.sql
\ir queue/_claim_jobs.sql
\ir queue/claim_job.sql
\ir queue/_still_leased.sql
\ir queue/_finish.sql
\ir queue/_end_kept.sql
\ir queue/_finish_all.sql
\ir queue/finish_and_claim.sql
\ir queue/ack.sql
\ir queue/ack_batch.sql
\ir queue/archive_job.sql
\ir queue/archive_job_batch.sql
\ir queue/_retry_delay.sql
\ir queue/_return_keys.sql
\ir queue/_check_attempt.sql
\ir queue/_note_lost.sql
\ir queue/_nack.sql
\ir queue/nack.sql
\ir queue/nack_batch.sql
\ir queue/_announce_jobs.sql
\ir queue/_announce_queue.sql
\ir queue/release_job.sql
\ir queue/release_job_batch.sql
\ir queue/reject_job.sql
\ir queue/_hides_job.sql
\ir queue/_archive_jobs.sql
\ir queue/_cancel_job.sql
\ir queue/cancel_job.sql
\ir queue/_job_message.sql
\ir queue/_queue_id.sql
\ir queue/_check_job_state.sql
\ir queue/_job_state.sql
\ir queue/get_job.sql
\ir queue/peek_jobs.sql
\ir queue/_begun_job.sql
\ir queue/_extend_lease.sql
\ir queue/extend_lease.sql
\ir queue/extend_lease_batch.sql
\ir queue/fetch_dead_letters.sql
\ir queue/_archive_tail.sql
\ir queue/fetch_archived_jobs.sql
\ir queue/_check_redrive.sql
\ir queue/_lock_dead_letters.sql
\ir queue/_redrivable.sql
\ir queue/_count_redrivable.sql
\ir queue/_redrive_jobs.sql
\ir queue/redrive.sql

-- The queue: effects that happen once
\ir queue/_flush_commit.sql
\ir queue/_lock_leased.sql

-- The queue: cleaning
\ir queue/_expired_jobs.sql
\ir queue/_expire_jobs.sql
\ir queue/_dead_letter_lost.sql
\ir queue/_below_floor.sql
\ir queue/_ahead_extents.sql
\ir queue/_ahead_jobs.sql
\ir queue/_repair_jobs.sql
\ir queue/_lower_floor.sql
\ir queue/_look_below.sql
\ir queue/_sweep_labels.sql
\ir queue/_sweep_floors.sql
\ir queue/_clean_extents.sql
\ir queue/_queues_in.sql
\ir queue/_clean_dropped_queues.sql
\ir queue/_clean_jobs.sql
\ir queue/_jobs_of_segment.sql
\ir queue/_expand_segment.sql
\ir queue/_relocate_payloads.sql
\ir queue/_has_archived.sql
\ir queue/_has_jobs.sql
\ir queue/_remove_archived.sql
\ir queue/_settle_queues.sql

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
\ir retention/_try_part.sql
\ir retention/_objects_of.sql
\ir retention/_failed_objects.sql
\ir retention/_forget_failures.sql
\ir retention/_describe_object.sql
\ir retention/_store_failure.sql
\ir retention/_note_failure.sql
\ir retention/_list_objects.sql
\ir retention/_clean_singly.sql
\ir retention/_retry_failures.sql
\ir retention/cleanup.sql
\ir retention/list_cleanup_failures.sql
\ir retention/repair_clock.sql
\ir retention/schedule_cleanup.sql
\ir retention/unschedule_cleanup.sql

-- Subscriptions: rights of roles on topics and queues
\ir addons/subscription/_check_subscription_access.sql

-- Subscriptions
\ir addons/subscription/_fail_unknown_subscription.sql
\ir addons/subscription/_check_filter.sql
\ir addons/subscription/_routing_regex.sql
\ir addons/subscription/_matches.sql
\ir addons/subscription/_subscription_info.sql
\ir addons/subscription/_existing_subscription.sql
\ir addons/subscription/subscribe.sql
\ir addons/subscription/unsubscribe.sql
\ir addons/subscription/list_subscriptions.sql
\ir addons/subscription/_deliver.sql
\ir addons/subscription/_hold_followed.sql
\ir addons/subscription/_deliver_across.sql
\ir addons/subscription/_announce.sql
\ir addons/subscription/_deliver_staged.sql
\ir addons/subscription/_clean_subscriptions.sql

-- Deferred topics
\ir addons/deferred/_publish_deferred.sql
\ir addons/deferred/_staged_since.sql
\ir addons/deferred/_has_staged.sql
\ir addons/deferred/_stage_batch.sql
\ir addons/deferred/_move_staged.sql
\ir addons/deferred/_assign_across.sql
\ir addons/deferred/_assign.sql
\ir addons/deferred/_assign_all.sql
\ir addons/deferred/_try_assign.sql
\ir addons/deferred/_assign_waiting.sql
\ir addons/deferred/assign_offsets.sql
\ir addons/deferred/_assign_staged.sql

-- Ordered queues
\ir addons/ordered/_point_ordered.sql
\ir addons/ordered/_let_next.sql
\ir addons/ordered/_process_wakeups.sql
\ir addons/ordered/_join_order.sql
\ir addons/ordered/_turns.sql
\ir addons/ordered/_hold_keys.sql
\ir addons/ordered/_dead_letter_front.sql
\ir addons/ordered/_expire_front.sql
\ir addons/ordered/_clean_order.sql

-- Limits of queues
\ir addons/limits/_blocked_position.sql
\ir addons/limits/_keys_of_jobs.sql
\ir addons/limits/_write_keys.sql
\ir addons/limits/_block_jobs.sql
\ir addons/limits/_unblock_jobs.sql
\ir addons/limits/_unblock_all.sql
\ir addons/limits/_has_blocked.sql
\ir addons/limits/_remove_key_limit.sql
\ir addons/limits/_unblock_key.sql
\ir addons/limits/_unblock_keys.sql
\ir addons/limits/_leased_jobs.sql
\ir addons/limits/_stamp_leased.sql
\ir addons/limits/_begin_wakeups.sql
\ir addons/limits/_has_ended.sql
\ir addons/limits/_open_keys.sql
\ir addons/limits/_release_keys.sql
\ir addons/limits/_claims_so_far.sql
\ir addons/limits/_write_claims.sql
\ir addons/limits/_allowed_claims.sql
\ir addons/limits/_note_claims.sql
\ir addons/limits/_judge_jobs.sql
\ir addons/limits/_limited_jobs.sql
\ir addons/limits/_clean_limited_keys.sql

-- Effects
\ir addons/effects/_check_effect.sql
\ir addons/effects/_lock_effect.sql
\ir addons/effects/begin_effect.sql
\ir addons/effects/finish_effect.sql
\ir addons/effects/delete_effect.sql
\ir addons/effects/_clean_effects.sql

-- History
\ir addons/history/_event_leaf.sql
\ir addons/history/_trim_attempts.sql
\ir addons/history/_note_attempts.sql
\ir addons/history/_snooze.sql
\ir addons/history/_retry_job.sql
\ir addons/history/retry_job.sql
\ir addons/history/set_progress.sql
\ir addons/history/_clean_notes.sql
\ir addons/history/_note_end.sql
\ir addons/history/job_history.sql
\ir addons/history/get_result.sql

-- Filters
\ir addons/filters/_check_job_filter.sql
\ir addons/filters/_find_jobs.sql
\ir addons/filters/_find_unfinished.sql
\ir addons/filters/cancel_jobs.sql
\ir addons/filters/retry_jobs.sql
\ir addons/filters/search_jobs.sql
\ir addons/filters/list_errors.sql

-- Duplicates
\ir addons/duplicates/_merge_duplicate.sql
\ir addons/duplicates/_merge_duplicates.sql
\ir addons/duplicates/_end_replaced.sql
\ir addons/duplicates/_end_replaced_front.sql

-- Idle workers
\ir addons/idle/_first_due.sql
\ir addons/idle/next_due.sql
\ir addons/idle/next_poll.sql

-- Bulk writes: argument checks
\ir addons/bulk/_fail_write_lost.sql
\ir addons/bulk/_check_no_write.sql
\ir addons/bulk/_check_lengths.sql
\ir addons/bulk/_starts.sql
\ir addons/bulk/_largest.sql
\ir addons/bulk/_check_contents.sql
\ir addons/bulk/_fail_other_chunk.sql
\ir addons/bulk/_check_chunk.sql
\ir addons/bulk/_check_chunk_options.sql
\ir addons/bulk/_check_target.sql

-- Bulk writes: forgetting
\ir addons/bulk/_delete_chunks.sql
\ir addons/bulk/_delete_older.sql

-- Bulk writes: beginning
\ir addons/bulk/_check_remembered.sql
\ir addons/bulk/_wanted_write.sql
\ir addons/bulk/_known_write.sql
\ir addons/bulk/_add_write.sql
\ir addons/bulk/_restart_write.sql
\ir addons/bulk/begin_write.sql

-- Bulk writes: chunks
\ir addons/bulk/_find_write.sql
\ir addons/bulk/_note_task.sql
\ir addons/bulk/_note_chunk.sql
\ir addons/bulk/_unpack.sql
\ir addons/bulk/_unpack_payloads.sql
\ir addons/bulk/_split_by_partition.sql
\ir addons/bulk/_store_chunk.sql
\ir addons/bulk/_extent_position.sql
\ir addons/bulk/_stage_extent.sql
\ir addons/bulk/_stage_chunk.sql
\ir addons/bulk/_publish_contents.sql
\ir addons/bulk/_publish_messages.sql
\ir addons/bulk/_publish_chunk.sql
\ir addons/bulk/write_chunk.sql

-- Bulk writes: committing and aborting
\ir addons/bulk/_lock_write.sql
\ir addons/bulk/_count_written.sql
\ir addons/bulk/_check_staged_delays.sql
\ir addons/bulk/_begin_epoch.sql
\ir addons/bulk/_append_extents.sql
\ir addons/bulk/_append_all_extents.sql
\ir addons/bulk/_spread_extent.sql
\ir addons/bulk/_keys_of_extents.sql
\ir addons/bulk/_lock_staged.sql
\ir addons/bulk/_hold_staged.sql
\ir addons/bulk/_publish_staged.sql
\ir addons/bulk/commit_write.sql
\ir addons/bulk/abort_write.sql

-- Bulk writes: views to insert into
\ir addons/bulk/_write_chunk_row.sql
\ir addons/bulk/_publish_row.sql
\ir addons/bulk/_enqueue_row.sql

-- Bulk writes: cleaning
\ir addons/bulk/_dropped_targets.sql
\ir addons/bulk/_delete_write.sql
\ir addons/bulk/_clean_writes.sql

-- Schedules: rights of roles on topics and queues
\ir addons/schedule/_sees_schedule.sql
\ir addons/schedule/_check_schedule_access.sql

-- Schedules: argument checks
\ir addons/schedule/_fail_unknown_schedule.sql
\ir addons/schedule/_fail_cron.sql
\ir addons/schedule/_check_time_zone.sql
\ir addons/schedule/_check_year.sql

-- Schedules: times
\ir addons/schedule/_cron_field.sql
\ir addons/schedule/_cron_times.sql
\ir addons/schedule/_next_minute.sql
\ir addons/schedule/_time_of.sql
\ir addons/schedule/_cron_tick.sql
\ir addons/schedule/_next_tick.sql
\ir addons/schedule/_last_tick.sql

-- Schedules: schedules
\ir addons/schedule/_check_missed.sql
\ir addons/schedule/_check_schedule.sql
\ir addons/schedule/_touch_target.sql
\ir addons/schedule/_lock_schedule_target.sql
\ir addons/schedule/_check_schedule_kept.sql
\ir addons/schedule/_check_schedule_size.sql
\ir addons/schedule/_schedule_info.sql
\ir addons/schedule/create_schedule.sql
\ir addons/schedule/alter_schedule.sql
\ir addons/schedule/drop_schedule.sql
\ir addons/schedule/list_schedules.sql
\ir addons/schedule/pause_schedule.sql
\ir addons/schedule/resume_schedule.sql
\ir addons/schedule/next_ticks.sql

-- Schedules: running
\ir addons/schedule/_run_schedule.sql
\ir addons/schedule/_ahead_schedules.sql
\ir addons/schedule/_repair_schedules.sql
\ir addons/schedule/run_schedules.sql
\ir addons/schedule/next_run.sql

-- Access: rights of roles on topics and queues
\ir addons/access/_dependents.sql
\ir addons/access/_lock_dependents.sql
\ir addons/access/_lock_access.sql
\ir addons/access/_settle_access.sql
\ir addons/access/_settle_all_access.sql
\ir addons/access/_end_dependents.sql
\ir addons/access/_add_grant.sql
\ir addons/access/_restrict.sql
\ir addons/access/_check_grant.sql
\ir addons/access/grant_access.sql
\ir addons/access/revoke_access.sql
\ir addons/access/list_access.sql
\ir addons/access/_check_roles.sql
\ir addons/access/create_roles.sql

-- Metrics: heartbeats of workers
\ir addons/metrics/_check_worker.sql
\ir addons/metrics/_check_heartbeat.sql
\ir addons/metrics/heartbeat.sql
\ir addons/metrics/list_workers.sql
\ir addons/metrics/delete_worker.sql
\ir addons/metrics/_clean_workers.sql

-- Metrics: figures
\ir addons/metrics/_describe_metrics.sql
\ir addons/metrics/_newest_offsets.sql
\ir addons/metrics/_log_figures.sql
\ir addons/metrics/_staged_samples.sql
\ir addons/metrics/_queue_floors.sql
\ir addons/metrics/_first_jobs.sql
\ir addons/metrics/_job_counts.sql
\ir addons/metrics/_finished_lately.sql
\ir addons/metrics/_queue_samples.sql
\ir addons/metrics/_house_samples.sql
\ir addons/metrics/_worker_samples.sql
\ir addons/metrics/_holder_samples.sql
\ir addons/metrics/_other_samples.sql
\ir addons/metrics/metrics.sql
\ir addons/metrics/_exposition_text.sql
\ir addons/metrics/_exposition_labels.sql
\ir addons/metrics/_exposition_line.sql
\ir addons/metrics/metrics_text.sql
