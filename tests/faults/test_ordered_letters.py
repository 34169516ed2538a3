"""Workers of an ordered queue whose jobs soon become dead letters; all are killed with -9 at work.

Whether a dead letter stops its key or not, no job is handed out before one that it has to follow.
"""

from __future__ import annotations

import psycopg
import pytest

from support.crowd import crowd
from support.ordered import broken, ordered_queue
from support.queue import ack, claim
from support.session import Session, row
from support.waiting import wait_until

ADDER = """
keys = [f"key {n}" for n in range(6)]
rounds = iter(range(60))

def work(connection):
    if next(rounds, None) is None:
        time.sleep(600)
    for key in rng.sample(keys, rng.choice([1, 2, 4])):
        [(number,)] = connection.execute(
            "select job_id from pgq.enqueue(%s, '1', %s, max_attempts => %s)",
            [queue, key, rng.choice([1, None])],
        ).fetchall()
        connection.execute("insert into added values (%s, %s)", [key, number])
    if rng.random() < 0.1:
        connection.rollback()
    else:
        connection.commit()
    time.sleep(rng.random() * 0.05)
"""

WORKER = """
def work(connection):
    jobs = connection.execute(
        "select job_id, lease_token, key from pgq.claim_job(%s, %s, '0.3 seconds')",
        [queue, rng.choice([1, 1, 4])],
    ).fetchall()
    if rng.random() < 0.05:
        connection.rollback()
        return
    connection.commit()
    if not jobs:
        time.sleep(0.02)
    for job_id, token, key in jobs:
        what = rng.choice(["nack", "nack", "reject_job", "release_job", "sleep"] + ["ack"] * 8)
        if what == "sleep":
            time.sleep(0.3)
            continue
        [(ended,)] = connection.execute(
            f"select pgq.{what}(%s, %s)", [job_id, token]
        ).fetchall()
        if what == "ack" and ended:
            connection.execute("insert into done (key, job_id) values (%s, %s)", [key, job_id])
        if rng.random() < 0.05:
            connection.rollback()
        connection.commit()
"""

REDRIVER = """
def work(connection):
    if rng.random() < 0.3:
        connection.execute("select pgq.redrive(%s, all_jobs => true)", [queue])
    else:
        connection.execute("select pgq.redrive(%s, all_jobs => true, max_jobs => 1)", [queue])
    connection.commit()
    time.sleep(0.05)
"""

# A job of a key that is handed out has none of its key before it, but for those that were dead
# where the key goes on without them; no other one of the key is at work, and no letter stops it.
LEDGER = """
create table public.added (key text, job_id bigint);
create table public.done (
    place bigint generated always as identity, key text, job_id bigint
);
create table public.died (job_id bigint);
create table public.overtaken (job_id bigint, other bigint, why text);
create function public.judge() returns trigger language plpgsql as $$
begin
    insert into public.overtaken
    select new.job_id, j.job_id, 'before'
    from pgq.job as j
    where j.queue_id = new.queue_id
        and j.ordered_key = new.ordered_key
        and j.job_id < new.job_id
        and not exists (
            select
            from public.died as d
            inner join pgq.queue as q on q.after_dead_letter = 'continue'
            where d.job_id = j.job_id and q.queue_id = new.queue_id
        )
    union all
    select new.job_id, j.job_id, 'leased'
    from pgq.job as j
    where j.queue_id = new.queue_id
        and j.ordered_key = new.ordered_key
        and j.job_id <> new.job_id
        and j.lease_token is not null
        and j.visible_at > pgq._clock()
    union all
    select new.job_id, d.job_id, 'stopped'
    from pgq.dead_job as d
    where d.queue_id = new.queue_id
        and d.ordered_key = new.ordered_key
        and d.stops_key;
    return null;
end
$$;
create trigger judge after insert on pgq.job for each row
when (new.lease_token is not null and new.ordered_key is not null and new.due_at is null)
execute function public.judge();
create function public.note_death() returns trigger language plpgsql as $$
begin
    insert into public.died values (new.job_id);
    return null;
end
$$;
create trigger note_death after insert on pgq.dead_job for each row
execute function public.note_death();
"""


def ended(connection: psycopg.Connection) -> int:
    [(count,)] = connection.execute(
        "select (select count(*) from done) + (select count(*) from died)"
    ).fetchall()
    return int(count)


@pytest.mark.parametrize("after_dead_letter", ["stop", "continue"])
def test_no_key_is_overtaken(dsn: str, connection: Session, after_dead_letter: str) -> None:
    connection.execute(LEDGER)
    queue = ordered_queue(connection, max_attempts=2, after_dead_letter=after_dead_letter)
    programs = [
        f"queue = {queue!r}\n{program}" for program in (ADDER, ADDER, REDRIVER, *[WORKER] * 4)
    ]
    with crowd(dsn, programs) as running:
        running.over_kills("client", 12, ended, 20)

    def empty() -> bool:
        connection.redrive(queue=queue, all_jobs=True)
        while jobs := claim(connection, queue, 100):
            for job in jobs:
                assert ack(connection, job)
                connection.execute(
                    "insert into done (key, job_id) values (%s, %s)", [job.key, job.job_id]
                )
        return row(
            connection,
            "select (select count(*) from pgq.job) + (select count(*) from pgq.dead_job)",
        ) == (0,)

    wait_until(empty, 120, "for all jobs to be done")
    assert connection.execute("select * from overtaken").fetchall() == []
    assert ended(connection) > 240
    assert row(connection, "select count(*) > 20 from died") == (True,)
    assert (
        connection.execute(
            "select job_id, count(a.job_id), count(d.job_id) from added as a full join done as d"
            " using (job_id) group by job_id having count(a.job_id) <> 1 or count(d.job_id) <> 1"
        ).fetchall()
        == []
    )
    if after_dead_letter == "stop":
        out_of_order = connection.execute(
            "select * from (select key, job_id, lag(job_id) over (partition by key order by place)"
            " as before from done) as d where d.before >= d.job_id"
        ).fetchall()
        assert out_of_order == []
    connection.cleanup()
    assert broken(connection) == []
    assert row(connection, "select count(*) from pgq.ordered_key") == (0,)
