"""The parameters of a product with scales, zero points or operands of two types, by their names and types.

    C = Σ scale_a·(A − zero_a) · scale_b·(B − zero_b) + bias

Which elements share a scale is not told by names: it is found by trying (verify/meaning/scaled_meanings.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from gemmsmith.kernel.element_types import holds_bytes, parameter_type
from gemmsmith.kernel.pointer_use import written
from gemmsmith.kernel.role_names import extent_role, is_weight, leading_role, pointer_role, words
from gemmsmith.kernel.signature import Argument, Signature, is_formula, is_number
from gemmsmith.problem import OUTPUTS

_SCALE = frozenset((
    "scale", "scales", "scaling", "dequant", "absmax", "mult", "multiplier", "multipliers", "mul", "scl",
))  # fmt: skip
_ZERO = frozenset(("zero", "zeros", "zp", "zps", "zeropoint", "zeropoints", "zout", "zin"))
_GROUP = frozenset(("group", "groupsize", "gs", "g"))
_SHIFT = frozenset(("shift", "shifts", "rshift"))
_LOW = frozenset(("lo", "low", "min", "qmin", "lower"))
_HIGH = frozenset(("hi", "high", "max", "qmax", "upper"))
_OPERANDS = {
    "A": frozenset(("a", "x", "input", "in", "act", "activation", "activations", "lhs", "inp", "token", "zin")),
    "B": frozenset(("b", "w", "weight", "weights", "rhs", "wt", "channel")),
    "C": frozenset(("c", "o", "out", "output", "y", "dst", "result", "d", "zout")),
}
# Of a scale that names no operand: rows of C are rows of A, columns of C columns of B.
_AXES = {"A": frozenset(("row", "rows", "m")), "B": frozenset(("col", "cols", "column", "columns", "n"))}
_SHORT_AXES = ({"sr": "A", "sc": "B"}, {"rs": "A", "cs": "B"})  # where a kernel has both
_SCALE_TYPES = frozenset(("float", "double", "__half", "half", "__nv_bfloat16", "nv_bfloat16"))
_INTEGERS = "iIbBhHqQ"
_EXTENTS = ("M", "N", "K")
_OF_WORDS = re.compile(r"_?(?:4|words?|w4|i32|int)$", re.IGNORECASE)  # ``pitchA4``, ``lda_words``
_LEADING = {"lda": "A", "ldb": "B", "ldc": "C", "ldd": "C"}
_PACKING = re.compile(r"^(?:q|quant|packed)_?(?=[a-z])|(?<=[a-z])_?(?:q|quant|packed|int4|i4|u4|s4|4|8)$|_?\d+$", re.I)


@dataclass(frozen=True)
class ScaledParameter:
    """One parameter. ``role``: A, B, C, M, N, K, lda, ldb, ldc, group, scale, zero, bias, shift, low, high, a formula
    of the extents, or a number that is passed. ``operand``: whose scale or zero point it is, where its name tells;
    ``type``: the C++ type of its elements; ``parameter``: the index of the kernel's own parameter, where this is a
    field of a struct, else -1. ``guessed``: its name does not tell the role."""

    name: str
    role: str
    type: str
    pointer: bool
    operand: str = ""
    parameter: int = -1
    guessed: bool = False

    @property
    def multiplies_integers(self) -> bool:
        """Whether it is the integer multiplier of a fixed-point number."""
        return self.role == "scale" and self.type not in _SCALE_TYPES


def scaled_parameters(signature: Signature, body: str) -> tuple[ScaledParameter, ...] | None:
    """What the parameters are; None where the kernel is an ordinary product, or one of them is not understood."""
    arguments = signature.arguments
    if any(arg.table for arg in arguments) or signature.fixed:
        return None
    leaves = {_leaf(arg.name) for arg in arguments if arg.code == "P"}
    axes = {name: role for pair in _SHORT_AXES if leaves >= set(pair) for name, role in pair.items()}
    found = [ScaledParameter(arg.name, "scale", arg.ctype, True, axes[_leaf(arg.name)])
             if arg.code == "P" and _leaf(arg.name) in axes else _by_name(arg) for arg in arguments]  # fmt: skip
    structs = any("." in arg.name for arg in arguments)
    found = [replace(each, parameter=arg.parameter if structs else -1)
             for each, arg in zip(found, arguments, strict=True)]  # fmt: skip
    matrices = [i for i, arg in enumerate(arguments) if arg.code == "P" and not found[i].role]
    roles = _matrices([arguments[i] for i in matrices], body)
    if roles is None:
        return None
    for i, role in zip(matrices, roles, strict=True):
        found[i] = replace(found[i], role=role)
        if role == "scale":
            found[i] = replace(found[i], operand=_axis(arguments[i]), guessed=True)
    found = _without_lone_axes(found)
    present = [each.role for each in found]
    if not all(present) or any(present.count(role) != 1 for role in "ABC"):
        return None
    if any(present.count(role) > 1 for role in _EXTENTS) or not _has_extents(present):
        return None
    packed = all(holds_bytes(each.type, body) for each in found if each.role in ("A", "B"))
    return tuple(found) if _is_scaled(found) or packed else None


def other_readings(parameters: tuple[ScaledParameter, ...]) -> Iterator[tuple[ScaledParameter, ...]]:
    """The same with a bias in place of a scale that no name tells."""
    if any(each.role == "bias" for each in parameters):
        return
    for i, each in enumerate(parameters):
        if each.guessed:
            yield *parameters[:i], replace(each, role="bias"), *parameters[i + 1 :]


def _without_lone_axes(found: list[ScaledParameter]) -> list[ScaledParameter]:
    """``row_scale`` beside ``col_scale`` belongs to rows of C; alone it may be that of rows of weights."""
    of_axes = [each for each in found if each.role in ("scale", "zero") and each.operand in _AXES
               and set(words(_leaf(each.name))) & _AXES[each.operand]]  # fmt: skip
    both = {each.operand for each in of_axes} == set(_AXES)
    return found if both else [replace(each, operand="") if each in of_axes else each for each in found]


def _axis(arg: Argument) -> str:
    """The operand whose rows or columns a name says; empty for none."""
    sides = [role for role, names in _AXES.items() if set(words(_leaf(arg.name))) & names]
    return sides[0] if len(sides) == 1 else ""


def _has_extents(present: Sequence[str]) -> bool:
    """Whether N and K are told, or formulas of them; rows may stand in the grid alone."""
    told = " ".join(each for each in present if each in _EXTENTS or is_formula(each))
    return all(re.search(rf"\b{role}\b", told) for role in "NK")


def _leaf(name: str) -> str:
    """The name of a field without that of its struct."""
    return name.rpartition(".")[2]


def _by_name(arg: Argument) -> ScaledParameter:
    """A parameter with the role that its name tells; a matrix has none yet."""
    told, is_pointer = _words(_leaf(arg.name)), arg.code == "P"
    made = ScaledParameter(arg.name, "", arg.ctype, is_pointer, _operand(told))
    if told & (_ZERO | _SCALE) and not made.operand:
        made = replace(made, operand=_axis(arg))
    if told & _ZERO or _is_short(told, "z", arg, "iIbBhH"):
        return replace(made, role="zero")
    if told & _SCALE or (arg.role == "alpha" and not is_pointer) or _is_short(told, "s", arg, "fd"):
        return replace(made, role="scale")
    if is_pointer and arg.ctype in _SCALE_TYPES and made.operand in ("A", "B") and _is_short(told, "s", arg, "P"):
        return replace(made, role="scale")
    if told & _SHIFT and (is_pointer or arg.code in _INTEGERS):
        return replace(made, role="shift")
    if is_pointer:
        return replace(made, role="bias" if arg.role == "bias" else "0" if arg.role == "0" else "")
    if told & (_LOW | _HIGH) and arg.role not in _EXTENTS and arg.code in _INTEGERS:
        return replace(made, role="low" if told & _LOW else "high")
    if told & _GROUP and arg.role not in _EXTENTS:
        return replace(made, role="group")
    if not arg.role and (pitch := leading_role(_OF_WORDS.sub("", _leaf(arg.name)), batched=False)) in _LEADING:
        return replace(made, role=pitch)
    known = arg.role in _EXTENTS or arg.role in _LEADING or is_number(arg.role) or is_formula(arg.role)
    return replace(made, role=arg.role if known else "" if arg.role else extent_role(_leaf(arg.name)))


def _words(name: str) -> set[str]:
    """The words of a name; of ``sx`` and ``zw`` the two letters, of which the second is that of an operand; of ``ws``
    the first is."""
    told, low = set(words(name)), name.lower()
    if len(low) == 2 and ((low[0] in "sz" and _operand({low[1]})) or (low[1] == "s" and low[0] in "abwx")):
        return set(low)
    return told


def _is_short(told: set[str], letter: str, arg: Argument, codes: str) -> bool:
    """Whether a number is named by one letter and its operand's: ``sA`` is a scale, ``zA`` a zero point."""
    return arg.code in codes and letter in told and len(told) == 2 and bool(_operand(told))


def _operand(told: set[str]) -> str:
    owners = [role for role, names in _OPERANDS.items() if told & names]
    return owners[0] if len(owners) == 1 else ""


def _matrices(pointers: Sequence[Argument], body: str) -> list[str] | None:
    """A, B and C among pointers: the one that is written is C. What is left where two others are named after operands,
    or hold integers of few bits, may be scales."""
    names = [arg.name for arg in pointers]
    stored = written(names, body)
    if len(pointers) < 3 or len(stored) != 1:
        return None
    inputs = [arg for arg in pointers if arg.name not in stored]
    operands = _two_operands(inputs)
    if operands is None:
        return None
    told = [pointer_role(_bare(arg.name)) for arg in operands]
    weights = [is_weight(_bare(arg.name)) for arg in operands]
    turned = told == ["B", "A"] or (weights[0] and not weights[1])
    roles = dict(zip((arg.name for arg in operands), "BA" if turned else "AB", strict=True))
    rest = [arg for arg in inputs if arg.name not in roles]
    if any(arg.ctype not in _SCALE_TYPES for arg in rest):
        return None
    return [roles.get(name, "scale" if name not in stored else "C") for name in names]


def _two_operands(inputs: Sequence[Argument]) -> list[Argument] | None:
    """The two of ``inputs`` that are matrices; None where names and types do not tell."""
    if len(inputs) == 2:
        return list(inputs)
    named = [arg for arg in inputs if pointer_role(_bare(arg.name)) in ("A", "B")]
    narrow = [arg for arg in inputs if arg.ctype not in _SCALE_TYPES]
    return next((found for found in (named, narrow) if len(found) == 2), None)


def _bare(name: str) -> str:
    """A matrix's name without what says that it is quantised or packed: w of ``qw``, ``w4`` and ``W_packed``."""
    leaf = _leaf(name)
    while (less := _PACKING.sub("", leaf)) != leaf and less:
        leaf = less
    return leaf


def _is_scaled(found: Sequence[ScaledParameter]) -> bool:
    """Whether it has what an ordinary product has not: scales, zero points, two types, or types that are not summed."""
    if any(each.role in ("scale", "zero", "group", "shift") for each in found):
        return True
    kinds = {each.role: parameter_type(each.type, {}).element for each in found if each.role in ("A", "B", "C")}
    inputs, output = (kinds["A"], kinds["B"]), kinds["C"]
    return inputs[0] != inputs[1] or inputs[0] is None or output not in OUTPUTS.get(inputs[0], ())
