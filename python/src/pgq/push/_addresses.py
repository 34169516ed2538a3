"""Which addresses a host has, and whether a request may go there."""

from __future__ import annotations

import asyncio
import socket
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network

__all__ = ["Address", "AddressRefused", "is_public", "public_addresses", "resolve"]

Address = IPv4Address | IPv6Address

_GLOBAL_UNICAST = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")
# what no version of ipaddress, or not every one, knows as special
_SPECIAL = tuple(
    ip_network(text)
    for text in ("192.0.0.0/24", "192.88.99.0/24", "2001::/23", "2001:db8::/32", "3fff::/20")
)


class AddressRefused(Exception):
    """The host has an address that requests must not go to."""


def is_public(address: Address) -> bool:
    """Whether an address belongs to one host of the public internet.

    Not so: loopback, private, link-local, shared (CGNAT), multicast, unspecified, reserved and
    documentation addresses, and whatever carries one of those inside (IPv4-mapped, 6to4, NAT64).
    """
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and address in _NAT64:
            inner = IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(inner)
        if address not in _GLOBAL_UNICAST:
            return False
    if any(address.version == special.version and address in special for special in _SPECIAL):
        return False
    return address.is_global and not address.is_multicast and not address.is_reserved


async def resolve(host: str, port: int) -> list[Address]:
    """The addresses of a host, in the order in which they are to be tried.

    It also reads the old ways to write an address (127.1, 0x7f.0.0.1, 2130706433), so what is
    judged is what a connection would go to.
    """
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(ip_address(str(entry[4][0])) for entry in found))


async def public_addresses(host: str, port: int, *, allow_private: bool) -> list[Address]:
    """The addresses of a host; refuses the host as a whole if one of them is not public."""
    addresses = await resolve(host, port)
    if not allow_private:
        for address in addresses:
            if not is_public(address):
                raise AddressRefused(
                    f"the host {host} has the address {address}, which is not public"
                    " (allow_private lets it through)"
                )
    return addresses
