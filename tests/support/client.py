"""The methods of the client, by name, wherever they are: on the client, or in one of its groups."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cached_property
from operator import attrgetter
from typing import Any, get_type_hints

from pgq import AsyncClient, Client

__all__ = ["groups", "method", "methods"]


def groups(kind: type[Client] | type[AsyncClient]) -> dict[str, Any]:
    """The classes of the client and of its groups, by the names of these; the client's is ''."""
    found = {
        name: get_type_hints(group.func)["return"]
        for name, group in inspect.getmembers(kind)
        if isinstance(group, cached_property)
    }
    return {"": kind, **found}


def methods(kind: type[Client] | type[AsyncClient]) -> dict[str, tuple[str, Callable[..., Any]]]:
    """The group and the function of each method."""
    return {
        name: (group, function)
        for group, part in groups(kind).items()
        for name, function in inspect.getmembers(part, inspect.isfunction)
        if not name.startswith("_")
    }


def method(client: Client, name: str) -> Callable[..., Any]:
    """A method of this client."""
    if not hasattr(client, name):
        client = attrgetter(methods(Client)[name][0])(client)
    found: Callable[..., Any] = getattr(client, name)
    return found
