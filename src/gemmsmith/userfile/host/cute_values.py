"""Extents of CuTe's shapes, layouts and tiled operations, as far as launches ask for them: ``size(tiled_mma)`` threads,
``ceil_div(m, bM)`` blocks. A shape is a tuple of numbers and of tuples; a layout is its shape."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from gemmsmith.userfile.host.values import Scope, UnknownValueError, Value, evaluate, evaluate_int

_TUPLES = frozenset({"make_shape", "make_tuple", "make_tile", "make_coord", "make_stride"})
# Threads that one matrix instruction takes, by the beginning of its atom's name.
_ATOM_THREADS = ((r"UniversalFMA", 1), (r"SM61_", 1), (r"SM70_", 8), (r"SM(?:75|80|86|89|120)_", 32),
                 (r"SM90_\d+x8x\d+_F64|SM90_\w*C64", 32), (r"SM90_64x", 128))  # fmt: skip


def cute_call(name: str, template: Sequence[str], arguments: Sequence[str], scope: Scope) -> Value:
    """The value of a call of CuTe's; raises ``UnknownValueError`` for others."""
    if name in _TUPLES:
        return tuple(evaluate(text, scope) for text in arguments)
    if name == "make_layout" and arguments:
        return evaluate(arguments[0], scope)
    if name == "make_tiled_mma" and len(arguments) >= 1:
        return (_atom_threads(arguments[0]), evaluate(arguments[1], scope) if len(arguments) > 1 else 1)
    if name == "size" and len(arguments) == 1:
        return _product(_part(evaluate(arguments[0], scope), template, scope))
    if name == "get" and len(arguments) == 1 and template:
        return _part(evaluate(arguments[0], scope), template, scope)
    if name == "select" and len(arguments) == 1:
        whole = evaluate(arguments[0], scope)
        return tuple(_part(whole, [text], scope) for text in template)
    if name.endswith("{}"):
        return cute_object(name[:-2], template, scope)
    raise UnknownValueError(f"{name}() is not known")


def cute_object(name: str, template: Sequence[str], scope: Scope) -> Value:
    """The value of ``name<template…>{}``, a shape, layout or tiled operation; raises ``UnknownValueError``."""
    if name in ("Shape", "Tile", "Coord", "Stride"):
        return tuple(_static(text, scope) for text in template)
    if name == "Layout" and template:
        return _static(template[0], scope)
    if name == "TiledMMA" and template:
        return (_atom_threads(template[0]), _static(template[1], scope) if len(template) > 1 else 1)
    raise UnknownValueError(f"{name}{{}} is no number")


def _static(text: str, scope: Scope) -> Value:
    """What a type stands for, as its only object: ``_32``, ``Int<8>``, ``Shape<_16, _16>``."""
    return evaluate(f"{text}{{}}", scope)


def _part(whole: Value, template: Sequence[str], scope: Scope) -> Value:
    for text in template:
        if not isinstance(whole, tuple):
            raise UnknownValueError("a part of a number")
        whole = whole[evaluate_int(text, scope)]
    return whole


def _product(value: Value) -> Value:
    return math.prod(_number(_product(part)) for part in value) if isinstance(value, tuple) else value


def _number(value: Value) -> int:
    if isinstance(value, tuple):
        raise UnknownValueError("a tuple where a number is needed")
    return math.trunc(value)


def _atom_threads(text: str) -> int:
    for pattern, threads in _ATOM_THREADS:
        if re.search(rf"\b{pattern}", text):
            return threads
    raise UnknownValueError(f"the threads of {text} are not known")
