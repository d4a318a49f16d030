"""What a product with scales, zero points or two types of operands computes: every likely meaning, as NumPy has it.

One launch on data whose sums are exact in every type decides between them: small integers and powers of two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.shapes import Shape
from gemmsmith.userfile.kernels.scaled_parameters import ScaledParameter

Array = NDArray[Any]
_LAYOUTS = ((False, False), (False, True), (True, False), (True, True))
_ROUNDINGS: dict[str, Callable[[Array], Array]] = {
    "to the nearest even": np.rint,
    "half away from zero": lambda x: np.sign(x) * np.floor(np.abs(x) + 0.5),
    "towards zero": np.trunc,
}
_GROUPS = (32, 64, 128)  # elements of K that share a scale, where no parameter says so


@dataclass(frozen=True)
class Sharing:
    """Which elements of an operand share a value: ``kind`` one, line (a row of A, a column of B), group (of K along
    each line), block (a square of both extents); ``order``: K first, or the lines first; ``of``: elements of K."""

    kind: str
    operand: str
    order: str = ""
    of: int = 0

    def count(self, shape: Shape) -> int:
        """How many values there are."""
        lines, depth = self._extents(shape)
        groups = math.ceil(depth / self.of) if self.of else 1
        return {"one": 1, "line": lines, "group": lines * groups,
                "block": math.ceil(lines / (self.of or 1)) * groups}[self.kind]  # fmt: skip

    def spread(self, values: Array, shape: Shape) -> Array:
        """One value for each element of the operand: M×K of A, K×N of B."""
        lines, depth = self._extents(shape)
        if self.kind in ("one", "line"):
            whole = np.broadcast_to(values[: self.count(shape)].reshape(-1, 1), (lines, depth))
        else:
            groups = math.ceil(depth / self.of)
            rows = lines if self.kind == "group" else math.ceil(lines / self.of)
            kept = values[: rows * groups]
            kept = kept.reshape(groups, rows).T if self.order == "K first" else kept.reshape(rows, groups)
            kept = kept if self.kind == "group" else np.repeat(kept, self.of, axis=0)[:lines]
            whole = np.repeat(kept, self.of, axis=1)[:, :depth]
        return whole if self.operand == "A" else whole.T

    def _extents(self, shape: Shape) -> tuple[int, int]:
        m, n, k = shape
        return (m if self.operand == "A" else n), k

    def text(self, name: str) -> str:
        """A value as a formula has it: scale_b[n], scales[k/64, n]."""
        line = "m" if self.operand == "A" else "n"
        inside = {"one": "", "line": line, "group": f"k/{self.of}", "block": f"k/{self.of}"}[self.kind]
        if self.kind in ("group", "block"):
            other = line if self.kind == "group" else f"{line}/{self.of}"
            inside = f"{inside}, {other}" if self.order == "K first" else f"{other}, {inside}"
        return f"{name}[{inside}]" if inside else name


@dataclass(frozen=True)
class Meaning:
    """One of them: whether A and B are stored transposed, which elements share each scale and zero point, by name, and
    whether the bias belongs to rows or columns. ``rounding``: of results that are integers again, as a name in
    ``_ROUNDINGS``."""

    transposed: tuple[bool, bool]
    sharing: Mapping[str, Sharing]
    bias: str = ""
    rounding: str = ""

    @property
    def layout(self) -> str:
        return "".join("T" if each else "N" for each in self.transposed)

    @property
    def group(self) -> int:
        """K must be a multiple of this."""
        return max((each.of for each in self.sharing.values()), default=0) or 1


def meanings(parameters: Sequence[ScaledParameter], group: int, narrow: Mapping[str, bool]) -> Iterator[Meaning]:
    """Every meaning that names allow, the likeliest first. ``group``: the value of a parameter that says how many
    elements share a scale, 0 if there is none; ``narrow``: whether A, B and C have elements of one byte."""
    to_output = [each for each in parameters if each.role == "zero" and each.operand == "C"]
    if to_output and not (narrow["C"] and all(not each.pointer for each in to_output)):
        return
    rounded = narrow["C"] and any(each.role == "scale" for each in parameters)
    roundings = tuple(_ROUNDINGS) if rounded else ("",)
    shared = [each for each in parameters if each.role in ("scale", "zero")]
    choices = [list(_sharings(each, group, narrow)) for each in shared]
    biases = ("column", "row") if any(each.role == "bias" for each in parameters) else ("",)
    for ways in product(*choices):
        groups = {way.of for way in ways if way.of}
        if len(groups) > 1:
            continue
        sharing = {each.name: way for each, way in zip(shared, ways, strict=True)}
        for transposed, bias, rounding in product(_LAYOUTS, biases, roundings):
            yield Meaning(transposed, sharing, bias, rounding)


def _sharings(parameter: ScaledParameter, group: int, narrow: Mapping[str, bool]) -> Iterator[Sharing]:
    if parameter.operand == "C" and narrow["C"] and not parameter.pointer:  # a scale of the result divides it
        yield Sharing("one", "C")
        if parameter.role == "zero":
            return
    for operand in _owners(parameter, narrow):
        yield Sharing("one", operand)
        if not parameter.pointer:
            continue
        yield Sharing("line", operand)
        for of, order in product((group,) if group else _GROUPS, ("K first", "lines first")):
            yield Sharing("group", operand, order, of)
        for of, order in product((group,) if group else _GROUPS[-1:], ("K first", "lines first")):
            yield Sharing("block", operand, order, of)


def _owners(parameter: ScaledParameter, narrow: Mapping[str, bool]) -> tuple[str, ...]:
    """Whose scale it may be: as its name says; else that of the one operand with narrow elements, or of B."""
    if parameter.operand in ("A", "B"):
        return (parameter.operand,)
    quantised = [operand for operand in "AB" if narrow[operand]]
    if parameter.role == "zero" and len(quantised) == 2:
        return ("B", "A")
    return (quantised[0],) if len(quantised) == 1 else ("B",)


def result(meaning: Meaning, parameters: Sequence[ScaledParameter], data: Mapping[str, Any], shape: Shape) -> Array:
    """What the kernel must write, in float64: M×N."""
    a, b = _operands(meaning, parameters, data, shape)
    total: Array = a @ b
    for each in parameters:
        if each.role == "bias":
            bias = np.asarray(data[each.name]).astype(np.float64)
            total = total + (bias[None, : shape[1]] if meaning.bias == "column" else bias[: shape[0], None])
    of_result = _of_result(meaning, parameters)
    for each in of_result:
        total = total / float(data[each.name]) if each.role == "scale" else total
    if meaning.rounding:
        total = _ROUNDINGS[meaning.rounding](total)
        total = total + sum(float(data[each.name]) for each in of_result if each.role == "zero")
    return total


def _of_result(meaning: Meaning, parameters: Sequence[ScaledParameter]) -> list[ScaledParameter]:
    """The scales and zero points of C."""
    return [each for each in parameters if each.name in meaning.sharing and meaning.sharing[each.name].operand == "C"]


def magnitude(meaning: Meaning, parameters: Sequence[ScaledParameter], data: Mapping[str, Any], shape: Shape) -> float:
    """The largest sum of the terms' magnitudes, that roundings are measured by."""
    a, b = _operands(meaning, parameters, data, shape)
    return float((np.abs(a) @ np.abs(b)).max(initial=0.0))


def _operands(
    meaning: Meaning, parameters: Sequence[ScaledParameter], data: Mapping[str, Any], shape: Shape
) -> tuple[Array, Array]:
    m, n, k = shape
    sides = {"A": (m, k), "B": (k, n)}
    made: dict[str, Array] = {}
    for each in parameters:
        if each.role in sides:
            rows, columns = sides[each.role]
            flat = np.asarray(data[each.name]).astype(np.float64)[: rows * columns]
            stored_turned = meaning.transposed["AB".index(each.role)]
            made[each.role] = flat.reshape(columns, rows).T if stored_turned else flat.reshape(rows, columns)
    for role in ("zero", "scale"):
        for each in parameters:
            if each.role == role and (sharing := meaning.sharing[each.name]).operand != "C":
                values = np.atleast_1d(np.asarray(data[each.name])).astype(np.float64)
                whole = sharing.spread(values, shape)
                own = made[sharing.operand]
                made[sharing.operand] = own - whole if role == "zero" else own * whole
    return made["A"], made["B"]


def formula(meaning: Meaning, parameters: Sequence[ScaledParameter]) -> str:
    """What it computes in a line: Σ A·(B − zeros[k/64, n])·scales[k/64, n] + bias[n]."""
    factors = []
    for operand in "AB":
        name = next(each.name for each in parameters if each.role == operand)
        own = [each for each in parameters if each.name in meaning.sharing
               and meaning.sharing[each.name].operand == operand]  # fmt: skip
        zeros = [meaning.sharing[each.name].text(each.name) for each in own if each.role == "zero"]
        factors.append(f"({name} − {' − '.join(zeros)})" if zeros else name)
        factors += [meaning.sharing[each.name].text(each.name) for each in own if each.role == "scale"]
    bias = next((each.name for each in parameters if each.role == "bias"), "")
    line = "n" if meaning.bias == "column" else "m"
    of_result = _of_result(meaning, parameters)
    factors[-1] += "".join(f" / {each.name}" for each in of_result if each.role == "scale")
    after = "".join(f" + {each.name}" for each in of_result if each.role == "zero")
    if meaning.rounding:
        return f"the rounded Σ {'·'.join(factors)}{f' + {bias}[{line}]' if bias else ''}{after} ({meaning.rounding})"
    return f"Σ {'·'.join(factors)}" + (f" + {bias}[{line}]" if bias else "")
