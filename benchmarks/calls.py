"""The calls whose instructions are counted."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.counting import MANY, Call

__all__ = ["BASE", "CALLS"]

ENOUGH = MANY + 20

TOPIC = "select pgq.create_topic('{0}', partitions => 8);"
FILLED = (
    TOPIC + "select count(*) from generate_series(0, 7) as number,"
    " pgq.publish_batch('{0}', partition => number,"
    " bodies => array_fill('\\x6162'::bytea, array[{1}]));"
    "select pgq.create_group('{0}', 'g');"
)
QUEUE = "select pgq.create_queue('{0}');"
JOBS = (
    QUEUE + "select count(*) from"
    " pgq.enqueue_batch('{0}', bodies => array_fill('\\x6162'::bytea, array[{1}]));"
)
# The jobs of one batch have consecutive ids, and those of one claim the same token.
IDS = "create sequence {0}_ids;"
# Each call finds a topic of its own, with messages that have no offset yet.
STAGED = (
    "create sequence staged_{0};"
    "do $do$ begin for number in 1..{1} loop"
    " perform pgq.create_topic('staged_{0}_' || number, partitions => 1, deferred => true);"
    " perform pgq.publish_batch('staged_{0}_' || number,"
    " bodies => array_fill('\\x6162'::bytea, array[{0}]));"
    " end loop; end $do$;"
)
# Restricted, and the caller named in a grant, or a member of the role that is.
GRANTED = "select pgq.grant_access(session_user::text, '{1}', {2} => '{0}');"
MEMBER = "create role {0}; grant {0} to session_user; " + GRANTED.replace(
    "session_user::text", "'{0}'"
)
LEASED = (
    "select max(lease_token::text), setval('{0}_ids', min(job_id), false)"
    " from pgq.claim_job('{0}', max_jobs => {1}, lease => '1 day')"
)
LEASED_HUNDREDS = (
    "select quote_literal(array_agg(job_id)), quote_literal(lease_token)"
    " from (select *, (row_number() over () - 1) / 100 as part"
    " from pgq.claim_job('{0}', max_jobs => {1}, lease => '1 day')) as claimed"
    " group by part, lease_token order by part"
)

BASE: Sequence[Call] = (
    Call(
        name="insert",
        statement="insert into plain (payload) select unnest(array['\\x6162'::bytea])",
        setup="create table plain (id bigserial primary key, payload bytea not null);",
    ),
    Call(
        name="insert_100",
        statement="insert into plain_100 (payload)"
        " select unnest(array_fill('\\x6162'::bytea, array[100]))",
        setup="create table plain_100 (id bigserial primary key, payload bytea not null);",
    ),
    Call(
        name="empty_function",
        statement="select empty_function()",
        setup="create function empty_function() returns void language plpgsql volatile"
        " security definer set search_path = pg_catalog, pg_temp as $$ begin end $$;",
        answer='empty_function = "',
    ),
    Call(
        name="commit",
        # With an id of its own a transaction has something to commit; no row is printed.
        statement="select where pg_current_xact_id() is null",
    ),
)

# Where the targets were measured, calls were made by `select *`: printing a row of all columns of a
# message or job costs 35 thousand more than printing two or three.
CALLS: Sequence[Call] = (
    Call(
        name="publish",
        setup=TOPIC.format("publish"),
        statement="select * from pgq.publish('publish', body => '\\x6162'::bytea)",
        answer='log_offset = "',
    ),
    Call(
        name="publish_granted",
        setup=TOPIC.format("granted") + GRANTED.format("granted", "publish", "topic"),
        statement="select * from pgq.publish('granted', body => '\\x6162'::bytea)",
        answer='log_offset = "',
    ),
    Call(
        name="publish_member",
        setup=TOPIC.format("member") + MEMBER.format("member", "publish", "topic"),
        statement="select * from pgq.publish('member', body => '\\x6162'::bytea)",
        answer='log_offset = "',
    ),
    Call(
        name="publish_deferred",
        database="deferred",
        setup="select pgq.create_topic('publish', partitions => 1, deferred => true);",
        statement="select * from pgq.publish('publish', body => '\\x6162'::bytea)",
        answer='partition = "',
    ),
    Call(
        name="assign_offsets",
        database="deferred",
        setup=STAGED.format(1, ENOUGH),
        statement="select * from pgq.assign_offsets('staged_1_' || nextval('staged_1'))",
        answer='last_offset = "1"',
    ),
    Call(
        name="assign_offsets_100",
        database="deferred",
        setup=STAGED.format(100, ENOUGH),
        statement="select * from pgq.assign_offsets('staged_100_' || nextval('staged_100'))",
        answer='last_offset = "100"',
    ),
    Call(
        name="publish_batch_100",
        setup=TOPIC.format("publish_batch"),
        statement="select * from pgq.publish_batch('publish_batch',"
        " bodies => array_fill('\\x6162'::bytea, array[100]))",
        answer='first_offset = "',
    ),
    Call(
        name="consume",
        setup=FILLED.format("consume", ENOUGH),
        statement="select * from pgq.consume('consume', 'g', max_messages => 1)",
        answer='log_offset = "',
    ),
    Call(
        name="consume_100",
        setup=FILLED.format("consume_100", 100 * ENOUGH),
        statement="select count(*), sum(log_offset)"
        " from pgq.consume('consume_100', 'g', max_messages => 100)",
        answer='count = "100"',
    ),
    Call(
        name="fetch",
        setup=FILLED.format("fetch", 1),
        statement="select * from pgq.fetch('fetch', 'g', max_messages => 1)",
        answer='log_offset = "',
    ),
    Call(
        name="claim_offsets",
        setup=FILLED.format("claim_offsets", ENOUGH),
        statement="select * from pgq.claim_offsets('claim_offsets', 'g', max_messages => 1)",
        answer='first_offset = "',
    ),
    Call(
        name="poll_and_commit",
        setup=FILLED.format("poll", ENOUGH),
        statement="select pgq.commit_offset('poll', 'g', partition, log_offset, lease_token)"
        " from pgq.poll('poll', 'g', max_messages => 1)",
        answer='commit_offset = "',
    ),
    Call(
        name="enqueue",
        setup=QUEUE.format("enqueue"),
        statement="select * from pgq.enqueue('enqueue', body => '\\x6162'::bytea)",
        answer='job_id = "',
    ),
    Call(
        name="enqueue_granted",
        setup=QUEUE.format("enqueue_granted")
        + GRANTED.format("enqueue_granted", "publish", "queue"),
        statement="select * from pgq.enqueue('enqueue_granted', body => '\\x6162'::bytea)",
        answer='job_id = "',
    ),
    Call(
        name="enqueue_member",
        setup=QUEUE.format("enqueue_member") + MEMBER.format("enqueue_member", "publish", "queue"),
        statement="select * from pgq.enqueue('enqueue_member', body => '\\x6162'::bytea)",
        answer='job_id = "',
    ),
    Call(
        name="enqueue_batch_100",
        setup=QUEUE.format("enqueue_batch"),
        statement="select count(*), sum(job_id) from pgq.enqueue_batch('enqueue_batch',"
        " bodies => array_fill('\\x6162'::bytea, array[100]))",
        answer='count = "100"',
    ),
    Call(
        name="claim_job",
        setup=JOBS.format("claim_job", 2 * ENOUGH),
        statement="select * from pgq.claim_job('claim_job')",
        answer='job_id = "',
    ),
    Call(
        name="claim_job_100",
        setup=JOBS.format("claim_100", 100 * ENOUGH),
        statement="select count(*), sum(job_id) from pgq.claim_job('claim_100', max_jobs => 100)",
        answer='count = "100"',
    ),
    Call(
        name="ack",
        setup=JOBS.format("ack", ENOUGH) + IDS.format("ack"),
        constants=LEASED.format("ack", ENOUGH),
        statement="select pgq.ack(nextval('ack_ids'), '{0}')",
        answer='ack = "t"',
    ),
    Call(
        name="finish_and_claim",
        setup=JOBS.format("finish", 3 * ENOUGH) + IDS.format("finish"),
        constants=LEASED.format("finish", ENOUGH),
        statement="select * from"
        " pgq.finish_and_claim('finish', array[nextval('finish_ids')], '{0}')",
        answer='job_id = "',
    ),
    Call(
        name="finish_and_claim_100",
        setup=JOBS.format("finish_100", 300 * ENOUGH),
        types="bigint[], uuid",
        arguments=LEASED_HUNDREDS.format("finish_100", 100 * ENOUGH),
        statement="select count(*), sum(job_id)"
        " from pgq.finish_and_claim('finish_100', $1, $2, max_jobs => 100)",
        answer='count = "100"',
    ),
)
