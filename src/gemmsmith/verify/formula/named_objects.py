"""Function objects that are called after an activation, and compute something else: a GELU with another constant.

    struct Gelu { __device__ float operator()(float x) const { return x * normcdff(2.0f * x); } };

What no formula explains is not judged, except where the instance beside it is right without an activation: then each
sum is known, and what the object makes of it.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from gemmsmith.userfile.kernels.formula_kernel import FormulaKernel
from gemmsmith.verify.formula.case import Array, Runner
from gemmsmith.verify.formula.find import Found, expected, rooms

Activation = tuple[str, tuple[str, ...]]  # the function of a formula, and its numbers
_NEUTRAL = re.compile(r"activation|epilogue|functor|func|op|act|fn|_")
_NAMED: dict[str, tuple[Activation, ...]] = {
    "gelu": (("gelu", ()), ("gelu_tanh", ()), ("quick_gelu", ())),
    "gelutanh": (("gelu_tanh", ()),),
    "gelunew": (("gelu_tanh", ()),),
    "gelufast": (("gelu_tanh", ()), ("quick_gelu", ())),
    "silu": (("silu", ()),),
    "relu": (("relu", ()),),
    "relu6": (("clamp", ("0", "6")),),
    "sigmoid": (("sigmoid", ()),),
}
_FAR = 0.04  # of a result, relative to it plus one: no usual approximation is so far off
_SAME = 2.0**-8  # two results of one sum


def activations_named_by(kernel: FormulaKernel) -> tuple[Activation, ...]:
    """The activations that a type among its template's values is called after; empty if there is none, or several."""
    given = {**kernel.launch.template, **dict(kernel.launch.facts.given)}
    types = [given.get(each.name, "") for each in kernel.launch.facts.kernel.template or () if each.kind == "typename"]
    named = [_NAMED.get(_NEUTRAL.sub("", each.rpartition("::")[2].strip(" )").lower()), ()) for each in types]
    found = [each for each in named if each]
    return found[0] if len(found) == 1 else ()


def other_than_named(runner: Runner, plain: Found, named: tuple[Activation, ...]) -> Found | None:
    """The formula with the activation that is nearest to what the object computes, where it is none of those that its
    name says; ``plain`` has none, and is of an instance beside it."""
    if plain.formula.function or plain.formula.kind or plain.formula.half:
        return None
    case = plain.case
    arrays = runner.arrays(case, rooms(plain.formula, case.sizes), keeps=plain.formula.addend is not None)
    got = runner.written(case, arrays).astype(np.float64)
    sums = expected(plain.formula, runner.values(case), arrays, case.sizes)
    if not _is_function(sums, got):
        return None
    nearest: tuple[float, Found | None] = (np.inf, None)
    for function, given in named:
        formula = replace(plain.formula, function=function, given=given)
        wanted = expected(formula, runner.values(case), arrays, case.sizes)
        error = float((np.abs(wanted - got) / (1 + np.abs(wanted))).max())
        nearest = min(nearest, (error, Found(formula, case, True)), key=lambda each: each[0])
    return nearest[1] if nearest[0] > _FAR else None


def _is_function(sums: Array, got: Array) -> NDArray[np.bool_] | bool:
    """Whether equal sums give equal results, and there are many of them."""
    order = np.argsort(sums, kind="stable")
    equal = np.diff(sums[order]) == 0
    apart = np.abs(np.diff(got[order]))[equal]
    return bool(equal.mean() > 1 / 2) and bool((apart <= _SAME * (1 + np.abs(got[order][1:][equal]))).all())
