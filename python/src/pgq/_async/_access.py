"""Access to topics and queues."""

from __future__ import annotations

from pgq._async._calling import Calling
from pgq.messages import Access, CreatedRole

__all__ = ["AccessRights"]


class AccessRights(Calling):
    """Who may do what with topics and queues."""

    async def grant_access(
        self,
        role: str,
        access: str,
        *,
        topic: str | None = None,
        queue: str | None = None,
        end_dependents: bool | None = None,
    ) -> Access:
        """Let a role use a topic or a queue, which from then on is closed to roles without a grant.

        `access` is 'publish' (also enqueue), 'consume' (also claim, and consumer groups), 'monitor'
        (see names and figures) or 'admin' (all of these, settings, drop, purge, redrive, grants).
        A `topic` or `queue` '*' stands for all, without restricting them; `role` 'public' for every
        role. Each role needs EXECUTE on the functions as well. Raises InsufficientPrivilege for a
        caller without admin access, and psycopg's UndefinedObject where there is no such role.
        A first grant that takes access from roles whose subscriptions, schedules or dead-letter
        topics need it raises psycopg's DependentObjectsStillExist, or ends these with
        `end_dependents`.
        """
        return await self._row(
            Access,
            "grant_access",
            role=role,
            access=access,
            topic=topic,
            queue=queue,
            end_dependents=end_dependents,
        )

    async def revoke_access(
        self,
        role: str,
        access: str | None = None,
        *,
        topic: str | None = None,
        queue: str | None = None,
        end_dependents: bool | None = None,
    ) -> bool:
        """Take back what `grant_access` gave, without `access` all of it; False: there was nothing.

        The topic or queue stays restricted; `alter_topic` and `alter_queue` open it.
        Where subscriptions, schedules or dead-letter topics of the role need the access it raises
        psycopg's DependentObjectsStillExist, or ends these with `end_dependents`.
        """
        return await self._value(
            bool,
            "revoke_access",
            role=role,
            access=access,
            topic=topic,
            queue=queue,
            end_dependents=end_dependents,
        )

    async def list_access(
        self, *, topic: str | None = None, queue: str | None = None
    ) -> list[Access]:
        """What roles may do with restricted topics and queues, as far as the caller may see it."""
        return await self._rows(Access, "list_access", topic=topic, queue=queue)

    async def create_roles(self, *, adopt: bool | None = None) -> list[CreatedRole]:
        """Create pgq_admin, pgq_monitor, pgq_publisher and pgq_consumer, with what they need.

        For the owner of pgq, where he may create roles: else InsufficientPrivilege, as for a role
        of such a name that others made or have, unless ``adopt`` is true. Call it again after an
        upgrade.
        """
        return await self._rows(CreatedRole, "create_roles", adopt=adopt)
