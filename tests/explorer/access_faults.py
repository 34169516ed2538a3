"""Faults to plant in access, and in what workers tell of themselves."""

from __future__ import annotations

from explorer.plant import Fault

__all__ = ["ACCESS_FAULTS", "WRONG_ORDER"]

ACCESS_FAULTS = {
    "a revoke that those do not see who publish": Fault(
        "revoke_access",
        """
        declare
            revoked boolean;
        begin
            delete from pgq.access_grant as g
            where g.role = revoke_access.role
                and g.access = coalesce(revoke_access.access, g.access)
                and coalesce(g.topic_id, g.queue_id, 0) = coalesce(
                    (select t.topic_id from pgq.topic as t where t.topic = revoke_access.topic),
                    (select q.queue_id from pgq.queue as q where q.queue = revoke_access.queue),
                    0
                );
            return found;
        end
        """,
        ("log", "access"),
        frozenset({"not refused"}),
    ),
    "a grant that allows more than it says": Fault(
        "_granted",
        """
        begin
            return {true}(_granted.scope, _granted.target_id, 'monitor');
        end
        """,
        ("log", "queue", "access"),
        frozenset({"not refused"}),
    ),
    "a batch that asks nobody": Fault(
        "_publish_spread",
        """
        begin
            perform pgq._act_for(true);
            return query
            select * from {true}(
                _publish_spread.topic, _publish_spread.payloads, _publish_spread.keys,
                _publish_spread.headers, _publish_spread.partition, _publish_spread.keyless,
                _publish_spread.bodies
            );
            perform pgq._act_for(false);
        end
        """,
        ("log", "access"),
        frozenset({"not refused"}),
    ),
    "members that have nothing of their role": Fault(
        "_has_role",
        """
        begin
            return _has_role.caller = any(_has_role.roles) or 'public' = any(_has_role.roles)
                or {true}(_has_role.caller, '{{}}');
        end
        """,
        ("queue", "access"),
        frozenset({"refused"}),
    ),
    "a heartbeat that is noted once": Fault(
        "heartbeat",
        """
        begin
            if not exists (select from pgq.worker as w where w.worker = heartbeat.worker) then
                perform {true}(heartbeat.worker, running => heartbeat.running);
            end if;
        end
        """,
        ("queue", "workers"),
        frozenset({"worker differs"}),
    ),
    "a cleanup that forgets who is alive": Fault(
        "_clean_workers",
        """
        begin
            return query select * from {true}(_clean_workers.now_at + '1 day'::interval);
        end
        """,
        ("queue", "workers"),
        frozenset({"worker lost"}),
    ),
    "a worker that is never forgotten": Fault(
        "delete_worker",
        """
        begin
            return exists (select from pgq.worker as w where w.worker = delete_worker.worker);
        end
        """,
        ("queue", "workers"),
        frozenset({"worker differs"}),
    ),
}

# It meets others only where it is stopped.
WRONG_ORDER = Fault(
    "grant_access",
    """
    begin
        perform from pgq.queue as q where q.queue = grant_access.queue for no key update;
        assert public.gate();
        return query
        select * from {true}(
            grant_access.role, grant_access.access, grant_access.topic, grant_access.queue
        );
    end
    """,
    ("queue", "access"),
    frozenset({"deadlock"}),
)
