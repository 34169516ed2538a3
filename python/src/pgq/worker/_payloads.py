"""Payloads as the types that handlers ask for."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pgq._extras import install
from pgq._unreadable import Unreadable
from pgq.errors import UnreadablePayload
from pgq.messages import Job
from pgq.worker import _fields
from pgq.worker._outcomes import Misfit, UnknownTask

__all__ = ["Arguments", "reader"]


def reader(kind: Any) -> Callable[[Job], Any]:
    """What makes the argument of a handler out of a job; it raises Misfit.

    `kind` is the annotation. Models of pydantic are read by pydantic; plain types, dataclasses and
    ``list[UUID]`` or the like here; all else (TypedDict, …) by msgspec. TypeError: it is missing.
    """
    if kind in (Any, object, None):
        return _anything
    if kind is bytes:
        return _body
    convert, errors = _converter(kind)

    def read(job: Job) -> Any:
        try:
            return convert(_payload(job))
        except errors as error:
            raise Misfit(f"the payload does not fit {_name(kind)}: {error}") from None

    return read


class Arguments:
    """The arguments of a function, as an object of JSON; `job` is not among them.

    TypeError: it takes some that have no name.
    """

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        whole = inspect.signature(function)
        hints = typing.get_type_hints(function, include_extras=True)
        self.takes_job = "job" in whole.parameters
        for one in (parameters := [*whole.parameters.values()]):
            if one.kind not in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY):
                raise TypeError(f"{name}: {one} has no name that an argument could be sent by")
            if one.name == "job" and one.default is one.empty:
                raise TypeError(f"{name}: job needs a default, None: an enqueue has no job to give")
        self._name = name
        self._taken = {
            one.name: (_converter(hints.get(one.name, Any)), one.default is one.empty)
            for one in parameters
            if one.name != "job"
        }
        self._signature = whole.replace(parameters=[p for p in parameters if p.name != "job"])

    def bind(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """What a call gives, by the names; TypeError: the function does not take it."""
        try:
            return self._signature.bind(*args, **kwargs).arguments
        except TypeError as error:
            raise TypeError(f"{self._name}: {error}") from None

    def read(self, given: Any) -> dict[str, Any]:
        """Arguments of the annotated types. Misfit: a value is not; UnknownTask: what is that?"""
        if not isinstance(given, dict):
            raise Misfit(f"the arguments of {self._name} are no object")
        if unknown := given.keys() - self._taken.keys():
            raise UnknownTask(f"{self._name} takes no {', '.join(sorted(unknown))} here")
        made = {}
        for name, ((convert, errors), required) in self._taken.items():
            if name in given:
                try:
                    made[name] = convert(given[name])
                except errors as error:
                    told = error.below(f".{name}") if isinstance(error, _fields.Unfit) else error
                    path = "" if told is not error else f"{name}: "
                    raise Misfit(f"the arguments do not fit {self._name}: {path}{told}") from None
            elif required:
                raise Misfit(f"the arguments do not fit {self._name}: {name}: is missing")
        return made

    def read_job(self, job: Job) -> dict[str, Any]:
        """The same of a job."""
        return self.read(_payload(job))


def _anything(job: Job) -> Any:
    return _payload(job) if job.body is None else job.body


def _body(job: Job) -> bytes:
    if job.body is None:
        raise Misfit("the job has a payload, its handler takes a body")
    return job.body


def _payload(job: Job) -> Any:
    if job.body is not None:
        raise Misfit("the job has a body, its handler takes a payload")
    if isinstance(job.payload, Unreadable):
        raise Misfit(str(UnreadablePayload(job.payload)))
    return job.payload


def _converter(kind: Any) -> tuple[Callable[[Any], Any], type[Exception]]:
    return _pydantic(kind) if _is_pydantic(kind) else _ours(kind)


def _is_pydantic(kind: Any) -> bool:
    arguments = typing.get_args(kind)
    return hasattr(kind, "__pydantic_core_schema__") or any(map(_is_pydantic, arguments))


def _pydantic(kind: Any) -> tuple[Callable[[Any], Any], type[Exception]]:
    import pydantic

    return pydantic.TypeAdapter(kind).validate_python, pydantic.ValidationError


def _ours(kind: Any) -> tuple[Callable[[Any], Any], type[Exception]]:
    try:
        return _fields.reader(kind), _fields.Unfit
    except _fields.Unknown:
        return _msgspec(kind)


def _msgspec(kind: Any) -> tuple[Callable[[Any], Any], type[Exception]]:
    try:
        import msgspec
    except ModuleNotFoundError:
        raise TypeError(
            f"a handler that takes {_name(kind)} needs msgspec: {install('typed')}"
        ) from None

    def convert(value: Any) -> Any:
        return msgspec.convert(value, kind)

    with suppress(msgspec.ValidationError):
        convert(None)  # what it does not know it says now, not at the first job
    return convert, msgspec.ValidationError


def _name(kind: Any) -> str:
    if isinstance(kind, type) and not isinstance(kind, types.GenericAlias):
        return kind.__qualname__
    return str(kind)
