"""The value of a variable of host code that an if or a while loop changes before a launch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from gemmsmith.userfile.host.host_choices import NO_VALUE
from gemmsmith.userfile.host.host_frame import Frame, Sizes
from gemmsmith.userfile.host.values import Scope, UnknownValueError, Value, converted, evaluate, number

_MOST_ROUNDS = 4096  # of a while loop


class PlaceScope(Scope, Protocol):
    """Names at a place in host code."""

    frame: Frame
    sizes: Sizes

    def where(self, texts: Mapping[str, str]) -> PlaceScope:
        """The same, where these names have these values."""

    def before_changes(self, name: str) -> Value:
        """The value that a variable is declared with, or that a parameter was passed."""


def chosen(at: PlaceScope, name: str) -> Value | None:
    """The value that an if gives ``name``, where its conditions are known there; None otherwise. They may ask for the
    value before the if: ``if (grid.x == 0) grid = dim3(...)``."""
    scope = at.frame.locals
    text, changes = scope.choices.get(name, ("", 0))
    if changes != len(scope.changed[name]) or not text:
        return None
    found = _known(text, at)
    if found is None:
        try:
            before = spelled(at.before_changes(name))
        except UnknownValueError:
            return None
        found = _known(text, at.where({name: before, NO_VALUE: before})) if before else None
    if found is None:
        return None
    return converted(scope.variables[name].type, found) if name in scope.variables else found


def is_known(at: PlaceScope, name: str, text: str) -> bool:
    """Whether a value that a branch may assign to ``name`` is known there; it may ask for the one before."""
    if _known(text, at) is not None:
        return True
    try:
        before = spelled(at.before_changes(name))
    except UnknownValueError:
        return False
    return bool(before) and _known(text, at.where({name: before})) is not None


def looped(at: PlaceScope, name: str) -> Value | None:
    """The value of ``name`` after a while loop that changes nothing else; None where that is not known."""
    loop, variable = at.frame.locals.loops[name], at.frame.locals.variables.get(name)
    if variable is None or not variable.value:
        return None
    try:
        value = number(at.before_changes(name))
        for _ in range(_MOST_ROUNDS):
            there = at.where({name: str(value)})
            if not evaluate(loop.condition, there):
                return value
            value = number(converted(variable.type, evaluate(loop.following, there)))
    except UnknownValueError:
        return None
    return None


def _known(text: str, at: Scope) -> Value | None:
    try:
        return evaluate(text, at)
    except UnknownValueError:
        return None


def spelled(value: Value) -> str:
    """A number, or what dim3 holds, as an expression."""
    if not isinstance(value, tuple):
        return str(value)
    return f"dim3({', '.join(spelled(each) for each in value)})" if len(value) == 3 else ""
