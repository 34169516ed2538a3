"""Under which names a server may be asked.

A page of others whose name leads to this machine, all of a sudden, would be read by its own rules:
a browser tells its name in the header Host.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Collection

__all__ = ["is_this_machine", "may_be_asked", "own_names"]


def is_this_machine(host: str) -> bool:
    """Whether nobody else reaches this address."""
    return host == "localhost" or (_is_address(host) and ipaddress.ip_address(host).is_loopback)


def own_names(host: str) -> frozenset[str]:
    """The names of a server that listens here, and those of the machine where others reach it."""
    names = {"localhost", host}
    if not is_this_machine(host):
        names |= {socket.gethostname(), socket.getfqdn()}
    return frozenset(name.lower() for name in names)


def may_be_asked(header: str | None, names: Collection[str]) -> bool:
    """Whether a request with this header Host is meant for a server of these names.

    Addresses are: no name of others leads to them. So is a request without one: no browser sends
    it.
    """
    if header is None or "*" in names:
        return True
    if header.startswith("["):
        host, bracket, port = header[1:].partition("]")
        sound = bracket == "]" and (port == "" or port.startswith(":"))
    else:
        host, _, _ = header.partition(":")
        sound = True
    return sound and (_is_address(host) or host.rstrip(".").lower() in names)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
