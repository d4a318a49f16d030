"""What a kernel computes, as a formula of its arrays: products of matrices of which only a triangle counts, gated or
split ones, an addend with rows of its own, an activation with parameters.

    C = f(alpha·Σ L·R + bias + beta·addend)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.verify.formula.functions import FUNCTIONS, applied

Array = NDArray[Any]
ONE = "1"  # the extent of a vector across
PLAIN, GATED, SPLIT = "", "gated", "split"
LOWER, UPPER = "lower", "upper"
WITH_BIAS, RESULT = "bias", "result"


@dataclass(frozen=True)
class Stored:
    """A matrix in the memory of ``member``: rows and columns by the names of extents, whether it lies column by column,
    and the number that tells how far its lines are apart; empty where they follow one another. ``stride``: the number
    that tells how far the matrices of a batch are apart; empty where they follow one another, "0" of one for all."""

    member: str
    rows: str
    columns: str
    by_column: bool = False
    leading: str = ""
    stride: str = ""

    def with_ones(self, fixed: Collection[str]) -> Stored:
        """The same with 1 for these extents: one line, in whatever order."""
        rows, columns = (ONE if name in fixed else name for name in (self.rows, self.columns))
        return replace(self, rows=rows, columns=columns, by_column=self.by_column and ONE not in (rows, columns))

    def counts(self, sizes: Mapping[str, int]) -> tuple[int, int, int]:
        """Lines, elements of each, and how far they are apart."""
        rows, columns = sizes[self.rows], sizes[self.columns]
        lines, length = (columns, rows) if self.by_column else (rows, columns)
        return lines, length, sizes[self.leading] if self.leading else length

    def step(self, sizes: Mapping[str, int]) -> int:
        """From one matrix of a batch to the next."""
        lines, _, apart = self.counts(sizes)
        return sizes[self.stride] if self.stride in sizes else 0 if self.stride == "0" else lines * apart

    def room(self, sizes: Mapping[str, int]) -> int:
        """Elements of all matrices."""
        lines, _, apart = self.counts(sizes)
        return (sizes.get("batch", 1) - 1) * self.step(sizes) + lines * apart

    def of(self, flat: Array, sizes: Mapping[str, int], number: int = 0) -> Array:
        """A view of matrix ``number`` of a batch, rows by columns."""
        lines, length, apart = self.counts(sizes)
        start = number * self.step(sizes)
        found = flat[start : start + lines * apart].reshape(lines, apart)[:, :length]
        return found.T if self.by_column else found


@dataclass(frozen=True)
class Triangle:
    """Which half of a square operand counts; ``mirrored``: the other half is its mirror image, else zeros."""

    right: bool
    half: str
    mirrored: bool

    def applied(self, matrix: Array) -> Array:
        kept = np.tril(matrix) if self.half == LOWER else np.triu(matrix)
        return kept + kept.T - np.diag(np.diag(matrix)) if self.mirrored else kept

    def text(self, name: str) -> str:
        return f"{'the symmetric' if self.mirrored else 'the triangular'} {name} ({self.half} half)"


@dataclass(frozen=True)
class Formula:
    """One of them. ``kind``: of two products the one is a factor of the other after its activation (gated), or the
    operands are sums of two matrices (split). ``half``: of C that is written; empty for all. ``late``: the addend comes
    after the activation. ``function``: the activation, ``given`` the names of its parameters, or numbers. ``scaled``:
    what alpha multiplies besides the product: the bias too, or the result of the activation."""

    c: Stored
    lefts: tuple[Stored, ...]
    rights: tuple[Stored, ...]
    kind: str = PLAIN
    triangle: Triangle | None = None
    half: str = ""
    alpha: str = ""
    beta: str = ""
    addend: Stored | None = None
    bias: str = ""
    bias_of: str = ""
    function: str = ""
    given: tuple[str, ...] = ()
    late: bool = False
    scaled: str = PLAIN

    @property
    def depth(self) -> str:
        return self.lefts[0].columns

    @property
    def structured(self) -> Stored:
        """The operand of which a triangle counts, if one does."""
        return (self.rights if self.triangle is not None and self.triangle.right else self.lefts)[0]

    def with_ones(self, fixed: Collection[str]) -> Formula:
        """The formula with 1 for these extents: what two instances of a template have in common that fixes them."""
        lefts, rights = (tuple(each.with_ones(fixed) for each in side) for side in (self.lefts, self.rights))
        addend = None if self.addend is None else self.addend.with_ones(fixed)
        return replace(self, c=self.c.with_ones(fixed), lefts=lefts, rights=rights, addend=addend)

    def product(self, arrays: Mapping[str, Array], sizes: Mapping[str, int], number: int = 0) -> tuple[Array, ...]:
        """The products of which the result is made, of one matrix of a batch."""
        lefts, rights = ([each.of(arrays[each.member], sizes, number) for each in side]
                         for side in (self.lefts, self.rights))  # fmt: skip
        if self.triangle is not None:
            side = rights if self.triangle.right else lefts
            side[0] = self.triangle.applied(side[0])
        if self.kind == SPLIT:
            return (sum(lefts[1:], lefts[0]) @ sum(rights[1:], rights[0]),)
        with np.errstate(invalid="ignore"):  # of infinities
            return tuple(lefts[0] @ right for right in rights)

    def finished(
        self, products: tuple[Array, ...], arrays: Mapping[str, Array], values: Mapping[str, float],
        sizes: Mapping[str, int], rows: slice, number: int = 0,
    ) -> Array:  # fmt: skip
        """The results of these rows, from their products."""
        alpha = values[self.alpha] if self.alpha else 1.0
        total = products[0] * (1.0 if self.scaled else alpha)
        if self.bias:
            bias = arrays[self.bias]
            row = self.bias_of == "row"
            total = total + (bias[: sizes[self.c.rows], None][rows] if row else bias[None, : sizes[self.c.columns]])
        total = total * alpha if self.scaled == WITH_BIAS else total
        added: Array | float = 0.0
        if self.addend is not None:
            own = self.addend.of(arrays[self.addend.member], sizes, number)[rows]
            added = own * (values[self.beta] if self.beta else 1.0)
        given = [values[each] if each in values else float(each) for each in self.given]
        result = applied(self.function, total if self.late else total + added, given)
        result = result * alpha if self.scaled == RESULT else result
        result = result * products[1] if self.kind == GATED else result
        return result + added if self.late else result

    def written(self, matrix: Array) -> NDArray[np.bool_]:
        """Which elements of C are set."""
        whole = np.ones(matrix.shape, np.bool_)
        return {"": whole, LOWER: np.tril(whole), UPPER: np.triu(whole)}[self.half]

    def matrices(self) -> Iterator[Stored]:
        yield from (self.c, *self.lefts, *self.rights)
        if self.addend is not None and self.addend.member != self.c.member:
            yield self.addend

    def text(self) -> str:
        """In a line: "relu6(A·Wᵀ + bias)"."""
        if self.kind == SPLIT:
            product = "·".join(f"({' + '.join(map(_named, side))})" for side in (self.lefts, self.rights))
        else:
            names = [[_named(each) for each in side] for side in (self.lefts, self.rights)]
            if self.triangle is not None:
                side = names[self.triangle.right]
                side[0] = self.triangle.text(side[0])
            product = f"{names[0][0]}·{names[1][0]}"
        total = f"{self.alpha}·{product}" if self.alpha and not self.scaled else product
        total += f" + {self.bias}" if self.bias else ""
        total = f"{self.alpha}·({total})" if self.scaled == WITH_BIAS else total
        added = "" if self.addend is None else f" + {f'{self.beta}·' if self.beta else ''}{self.addend.member}"
        inside = total if self.late else total + added
        if self.function:
            inside = f"{FUNCTIONS[self.function].said}({', '.join((inside, *self.given))})"
        inside = f"{self.alpha}·{inside}" if self.scaled == RESULT else inside
        inside += f" * {self.lefts[0].member}·{self.rights[1].member}" if self.kind == GATED else ""
        inside += added if self.late else ""
        return inside + (f" in the {self.half} half of {self.c.member}" if self.half else "")


def _named(matrix: Stored) -> str:
    return f"{matrix.member}ᵀ" if matrix.by_column else matrix.member
