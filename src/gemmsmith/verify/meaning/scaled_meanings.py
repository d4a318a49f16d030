"""What a product with scales, zero points or two types of operands computes: every likely meaning, as NumPy has it.

One launch on data whose sums are exact in every type decides between them: small integers and powers of two.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.shapes import Shape
from gemmsmith.userfile.kernels.scaled_parameters import ScaledParameter
from gemmsmith.verify.meaning.scaled_rounding import Rounding
from gemmsmith.verify.meaning.scaled_storage import Encoding, Storage, storages

Array = NDArray[Any]
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
    """One of them: how A and B lie in memory, which elements share each scale and zero point, by name, whether the bias
    belongs to rows or columns, and whether it is added to the plain sum (``scaled_bias``), so that scales multiply it,
    too. ``output``: what C holds. ``rounding``: of results that are integers again."""

    stored: tuple[Storage, Storage]
    output: Encoding
    sharing: Mapping[str, Sharing]
    bias: str = ""
    scaled_bias: bool = False
    rounding: Rounding | None = None

    @property
    def layout(self) -> str:
        return "".join("T" if each.transposed else "N" for each in self.stored)

    @property
    def is_packed(self) -> bool:
        """Whether an operand holds numbers of four bits, of any size."""
        return any(each.encoding.codes for each in self.stored)

    @property
    def groups(self) -> frozenset[int]:
        """The lengths along K of what shares a scale."""
        return frozenset(each.of for each in self.sharing.values() if each.of)

    @property
    def group(self) -> int:
        """K must be a multiple of this."""
        (a, b), words = self.stored, [1]
        if not a.transposed:
            words.append(int(a.encoding.per_element))
        if b.transposed:
            words.append(int(b.encoding.per_element))
        return math.lcm(*self.groups, a.tile[1], b.tile[0], *words)

    def fits(self, m: int, n: int, k: int) -> bool:
        """Whether elements of the arrays that hold several numbers are whole."""
        counts = (m * k, k * n)
        return all(count % max(1, int(each.encoding.per_element)) == 0
                   for count, each in zip(counts, self.stored, strict=True))  # fmt: skip

    def of_group(self, length: int) -> Meaning:
        """The same for groups of another length."""
        return replace(self, sharing={name: replace(each, of=length if each.of else 0)
                                      for name, each in self.sharing.items()})  # fmt: skip


@dataclass(frozen=True)
class Choices:
    """What a kernel may mean, part by part: the likeliest first."""

    stored: tuple[tuple[Storage, ...], tuple[Storage, ...]]
    outputs: tuple[Encoding, ...]
    sharings: Mapping[str, tuple[Sharing, ...]]
    biases: tuple[tuple[str, bool], ...] = (("", False),)
    roundings: tuple[Rounding | None, ...] = (None,)

    @property
    def count(self) -> int:
        ways = math.prod(len(each) for each in (*self.sharings.values(), *self.stored))
        return ways * len(self.outputs) * len(self.biases) * len(self.roundings)

    def meanings(self) -> Iterator[Meaning]:
        """Every meaning, the likeliest first."""
        for ways in product(*self.sharings.values()):
            if len({way.of for way in ways if way.of}) > 1:
                continue
            sharing = dict(zip(self.sharings, ways, strict=True))
            for a, b, output, (bias, inside), rounding in product(*self.stored, self.outputs, self.biases,
                                                                  self.roundings):  # fmt: skip
                yield Meaning((a, b), output, sharing, bias, inside, rounding)


def choices(
    parameters: Sequence[ScaledParameter], group: int, held: tuple[Encoding, Encoding, Encoding],
    roundings: tuple[Rounding | None, ...],
) -> Choices | None:  # fmt: skip
    """What names allow; None where they contradict each other. ``group``: the value of a parameter that says how many
    elements share a scale, 0 if there is none; ``held``: what A, B and C hold."""
    narrow = {role: each.kind.itemsize == 1 for role, each in zip("ABC", held, strict=True)}
    to_output = [each for each in parameters if each.role == "zero" and each.operand == "C"]
    if to_output and not (narrow["C"] and all(not each.pointer for each in to_output)):
        return None
    shared = [each for each in parameters if each.role in ("scale", "zero")]
    sharings = {each.name: tuple(_sharings(each, group, narrow)) for each in shared}
    bias = next((each for each in parameters if each.role == "bias"), None)
    inside = bias is not None and any(each.role == "scale" for each in parameters)
    biases = tuple((line, scaled) for scaled in (False, True)[: 1 + inside] for line in ("column", "row"))
    return Choices((tuple(storages(held[0], "A")), tuple(storages(held[1], "B"))), (held[2],), sharings,
                   biases if bias is not None else (("", False),), roundings)  # fmt: skip


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
    """Whose scale it may be: as its name says; else that of the one operand with narrow elements, or of B first."""
    if parameter.operand in ("A", "B"):
        return (parameter.operand,)
    quantised = [operand for operand in "AB" if narrow[operand]]
    return (quantised[0],) if len(quantised) == 1 else ("B", "A")


def result(
    meaning: Meaning, parameters: Sequence[ScaledParameter], data: Mapping[str, Any], shape: Shape,
    sums: dict[Any, Array] | None = None,
) -> Array:  # fmt: skip
    """What the kernel must write, in float64: M×N. ``sums``: of the same data, by what they depend on; it is added."""
    sums = {} if sums is None else sums
    inside = [meaning.sharing[each.name] for each in parameters if each.role in ("zero", "scale")
              and not (each.role == "scale" and _is_of_lines(meaning.sharing[each.name]))]  # fmt: skip
    key = meaning.stored, tuple(inside)
    if key not in sums:
        a, b = _operands(meaning, parameters, data, shape)
        sums[key] = a @ b
    total: Array = sums[key]
    total = total + _bias(meaning, parameters, data, shape) if meaning.scaled_bias else total
    for each in parameters:
        if each.role == "scale" and _is_of_lines(meaning.sharing[each.name]):
            values = np.atleast_1d(np.asarray(data[each.name])).astype(np.float64)
            total = total * _along_lines(meaning.sharing[each.name], values, shape)
    total = total + _bias(meaning, parameters, data, shape) if meaning.bias and not meaning.scaled_bias else total
    for each in (each for each in _of_result(meaning, parameters) if each.role == "scale"):
        total = total / float(data[each.name])
    if meaning.rounding is None:
        return total
    shift = next((data[each.name] for each in parameters if each.role == "shift"), 0)
    total = meaning.rounding.rounded(total, np.atleast_1d(np.asarray(shift, np.float64))[: shape[1]])
    total = total + sum(float(data[each.name]) for each in _of_result(meaning, parameters) if each.role == "zero")
    limits = [next((data[each.name] for each in parameters if each.role == role), None) for role in ("low", "high")]
    return total if limits == [None, None] else np.clip(total, *limits)


def _is_of_lines(sharing: Sharing) -> bool:
    """Whether a scale multiplies whole rows or columns of C."""
    return sharing.kind in ("one", "line") and sharing.operand != "C"


def _along_lines(sharing: Sharing, values: Array, shape: Shape) -> Array:
    kept = values[: sharing.count(shape)]
    return kept[:, None] if sharing.operand == "A" else kept[None, :]


def _bias(meaning: Meaning, parameters: Sequence[ScaledParameter], data: Mapping[str, Any], shape: Shape) -> Array:
    name = next(each.name for each in parameters if each.role == "bias")
    bias = np.asarray(data[name]).astype(np.float64)
    return bias[None, : shape[1]] if meaning.bias == "column" else bias[: shape[0], None]


def _of_result(meaning: Meaning, parameters: Sequence[ScaledParameter]) -> list[ScaledParameter]:
    """The scales and zero points of C."""
    return [each for each in parameters if each.name in meaning.sharing and meaning.sharing[each.name].operand == "C"]


def magnitude(meaning: Meaning, parameters: Sequence[ScaledParameter], data: Mapping[str, Any], shape: Shape) -> float:
    """The largest sum of the terms' magnitudes, that roundings are measured by."""
    a, b = _operands(meaning, parameters, data, shape)
    total = np.abs(a) @ np.abs(b)
    for each in parameters:
        if each.role == "scale" and _is_of_lines(meaning.sharing[each.name]):
            values = np.abs(np.atleast_1d(np.asarray(data[each.name])).astype(np.float64))
            total = total * _along_lines(meaning.sharing[each.name], values, shape)
    return float(total.max(initial=0.0))


def _operands(
    meaning: Meaning, parameters: Sequence[ScaledParameter], data: Mapping[str, Any], shape: Shape
) -> tuple[Array, Array]:
    """A and B with their zero points and the scales that change along K."""
    m, n, k = shape
    sides = {"A": (m, k), "B": (k, n)}
    made: dict[str, Array] = {}
    for each in parameters:
        if each.role in sides:
            stored = meaning.stored["AB".index(each.role)]
            made[each.role] = stored.matrix(np.asarray(data[each.name]), *sides[each.role])
    for role in ("zero", "scale"):
        for each in parameters:
            if each.role != role or (sharing := meaning.sharing[each.name]).operand == "C":
                continue
            if role == "zero" or not _is_of_lines(sharing):
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
    bias = f" + {bias}[{'n' if meaning.bias == 'column' else 'm'}]" if bias else ""
    of_result = _of_result(meaning, parameters)
    factors[-1] += "".join(f" / {each.name}" for each in of_result if each.role == "scale")
    after = "".join(f" + {each.name}" for each in of_result if each.role == "zero")
    total = f"Σ {'·'.join(factors)}{bias}"
    if meaning.scaled_bias:
        scales = [each for each in parameters if each.role == "scale" and _is_of_lines(meaning.sharing[each.name])]
        outside = [meaning.sharing[each.name].text(each.name) for each in scales]
        inner = [factor for factor in factors if factor not in outside]
        total = "·".join((f"(Σ {'·'.join(inner)}{bias})", *outside))
    if meaning.rounding is None:
        return total
    return f"the rounded {meaning.rounding.scaled(total)}{after} ({meaning.rounding.name})"
