"""While a command works on a user's file, it and the files around it are read once.

A check asks what a file says a dozen times: which kernels it has, how they are launched, where that is written. Outside
of ``files_read_once`` each question reads the files as they are then.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

T = TypeVar("T")
_known: ContextVar[dict[Hashable, Any] | None] = ContextVar("files that were read", default=None)


@contextmanager
def files_read_once() -> Iterator[None]:
    """What is read inside is kept until the end; then it is forgotten."""
    if _known.get() is not None:
        yield
        return
    token = _known.set({})
    try:
        yield
    finally:
        _known.reset(token)


def once(what: str, key: Hashable, read: Callable[[], T]) -> T:
    """What ``read`` returns, which depends on ``key`` and on files alone; errors are not kept."""
    known = _known.get()
    if known is None:
        return read()
    place = what, key
    if place not in known:
        known[place] = read()
    found: T = known[place]
    return found
