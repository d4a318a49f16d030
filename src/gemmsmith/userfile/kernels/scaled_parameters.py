"""The parameters of a product with scales, zero points or operands of two types, by their names and types.

    C = Σ scale_a·(A − zero_a) · scale_b·(B − zero_b) + bias

Which elements share a scale is not told by names: it is found by trying (verify/meaning/scaled_meanings.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gemmsmith.kernel.element_types import parameter_type
from gemmsmith.kernel.pointer_use import written
from gemmsmith.kernel.role_names import is_weight, pointer_role, words
from gemmsmith.kernel.signature import Argument, Signature, is_number
from gemmsmith.problem import OUTPUTS

_SCALE = frozenset(("scale", "scales", "scaling", "dequant", "absmax"))
_ZERO = frozenset(("zero", "zeros", "zp", "zps", "zeropoint", "zeropoints"))
_GROUP = frozenset(("group", "groupsize", "gs", "g"))
_OPERANDS = {
    "A": frozenset(("a", "x", "input", "in", "act", "activation", "activations", "lhs", "inp", "token")),
    "B": frozenset(("b", "w", "weight", "weights", "rhs", "wt", "channel")),
    "C": frozenset(("c", "o", "out", "output", "y", "dst", "result", "d")),
}
# Of a scale that names no operand: rows of C are rows of A, columns of C columns of B.
_AXES = {"A": frozenset(("row", "rows", "m")), "B": frozenset(("col", "cols", "column", "columns", "n"))}
_SHORT_AXES = {"sr": "A", "sc": "B"}  # where a kernel has both
_SCALE_TYPES = frozenset(("float", "double", "__half", "__nv_bfloat16"))
_EXTENTS = ("M", "N", "K")
_LEADING = {"lda": "A", "ldb": "B", "ldc": "C", "ldd": "C"}


@dataclass(frozen=True)
class ScaledParameter:
    """One parameter. ``role``: A, B, C, M, N, K, lda, ldb, ldc, group, scale, zero, bias, or a number that is passed.
    ``operand``: whose scale or zero point it is, where its name tells; ``type``: the C++ type of its elements."""

    name: str
    role: str
    type: str
    pointer: bool
    operand: str = ""


def scaled_parameters(signature: Signature, body: str) -> tuple[ScaledParameter, ...] | None:
    """What the parameters are; None where the kernel is an ordinary product, or one of them is not understood."""
    arguments = signature.arguments
    if any("." in arg.name or arg.table for arg in arguments) or signature.fixed:
        return None
    axes = _SHORT_AXES if {arg.name for arg in arguments if arg.code == "P"} >= set(_SHORT_AXES) else {}
    found = [ScaledParameter(arg.name, "scale", arg.ctype, True, axes[arg.name]) if arg.name in axes else _by_name(arg)
             for arg in arguments]  # fmt: skip
    matrices = [i for i, arg in enumerate(arguments) if arg.code == "P" and not found[i].role]
    roles = _matrices([arguments[i] for i in matrices], body)
    if roles is None:
        return None
    for i, role in zip(matrices, roles, strict=True):
        found[i] = replace(found[i], role=role)
    present = [each.role for each in found]
    if not all(present) or any(present.count(role) != 1 for role in ("A", "B", "C", *_EXTENTS)):
        return None
    return tuple(found) if _is_scaled(found) else None


def _by_name(arg: Argument) -> ScaledParameter:
    """A parameter with the role that its name tells; a matrix has none yet."""
    told, is_pointer = _words(arg.name), arg.code == "P"
    made = ScaledParameter(arg.name, "", arg.ctype, is_pointer, _operand(told))
    if told & (_ZERO | _SCALE) and not made.operand:
        sides = [role for role, names in _AXES.items() if told & names]
        made = replace(made, operand=sides[0] if len(sides) == 1 else "")
    if told & _ZERO or _is_short(told, "z", arg, "iIbBhH"):
        return replace(made, role="zero")
    if told & _SCALE or (arg.role == "alpha" and not is_pointer) or _is_short(told, "s", arg, "fd"):
        return replace(made, role="scale")
    if is_pointer and arg.ctype in _SCALE_TYPES and made.operand in ("A", "B") and _is_short(told, "s", arg, "P"):
        return replace(made, role="scale")
    if is_pointer:
        return replace(made, role="bias" if arg.role == "bias" else "0" if arg.role == "0" else "")
    if told & _GROUP and arg.role not in _EXTENTS:
        return replace(made, role="group")
    known = arg.role in _EXTENTS or arg.role in _LEADING or is_number(arg.role)
    return replace(made, role=arg.role if known else "")


def _words(name: str) -> set[str]:
    """The words of a name; of ``sx`` and ``zw`` the two letters, of which the second is that of an operand."""
    told = set(words(name))
    return set(name) if len(name) == 2 and name[0] in "sz" and _operand({name[1]}) else told


def _is_short(told: set[str], letter: str, arg: Argument, codes: str) -> bool:
    """Whether a number is named by one letter and its operand's: ``sA`` is a scale, ``zA`` a zero point."""
    return arg.code in codes and letter in told and len(told) == 2 and bool(_operand(told))


def _operand(told: set[str]) -> str:
    owners = [role for role, names in _OPERANDS.items() if told & names]
    return owners[0] if len(owners) == 1 else ""


def _matrices(pointers: Sequence[Argument], body: str) -> list[str] | None:
    """A, B and C among three pointers: the one that is written is C."""
    names = [arg.name for arg in pointers]
    stored = written(names, body)
    if len(pointers) != 3 or len(stored) != 1:
        return None
    inputs = [name for name in names if name not in stored]
    told = [pointer_role(name) for name in inputs]
    turned = told == ["B", "A"] or (is_weight(inputs[0]) and not is_weight(inputs[1]))
    roles = dict(zip(inputs, "BA" if turned else "AB", strict=True))
    return [roles.get(name, "C") for name in names]


def _is_scaled(found: Sequence[ScaledParameter]) -> bool:
    """Whether it has what an ordinary product has not: scales, zero points, two types, or types that are not summed."""
    if any(each.role in ("scale", "zero", "group") for each in found):
        return True
    kinds = {each.role: parameter_type(each.type, {}).element for each in found if each.role in ("A", "B", "C")}
    inputs, output = (kinds["A"], kinds["B"]), kinds["C"]
    return inputs[0] != inputs[1] or inputs[0] is None or output not in OUTPUTS.get(inputs[0], ())
