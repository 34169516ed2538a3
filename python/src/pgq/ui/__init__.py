"""``pgq ui``: a local page with topics, groups, queues and workers, as the extra ``pgq-sql[ui]``.

The page reads and acts through the functions of the database, as the role that the server connects
with, so it shows and may do what that role may. Whoever wants to see it needs the token that the
server makes at its start.
"""

from __future__ import annotations

from pgq.ui._app import create_app
from pgq.ui._serving import run

__all__ = ["create_app", "run"]
