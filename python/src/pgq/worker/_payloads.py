"""Payloads as the types that handlers ask for."""

from __future__ import annotations

import types
import typing
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from pgq._unreadable import Unreadable
from pgq.errors import UnreadablePayload
from pgq.messages import Job
from pgq.worker import _fields
from pgq.worker._outcomes import Misfit

__all__ = ["reader"]


def reader(kind: Any) -> Callable[[Job], Any]:
    """What makes the argument of a handler out of a job; it raises Misfit.

    `kind` is the annotation. Models of pydantic are read by pydantic; plain types, dataclasses and
    ``list[UUID]`` or the like here; all else (TypedDict, …) by msgspec. TypeError: it is missing.
    """
    if kind in (Any, object, None):
        return _anything
    if kind is bytes:
        return _body
    convert, errors = _pydantic(kind) if _is_pydantic(kind) else _ours(kind)

    def read(job: Job) -> Any:
        try:
            return convert(_payload(job))
        except errors as error:
            raise Misfit(f"the payload does not fit {_name(kind)}: {error}") from None

    return read


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
            f"a handler that takes {_name(kind)} needs msgspec: pip install 'pgq-sql[typed]'"
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
