"""Which formulas a kernel may compute, by what it takes: the likeliest first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import permutations, product

from gemmsmith.kernel.field_roles import own_name
from gemmsmith.kernel.role_names import pointer_role
from gemmsmith.verify.formula.formula import (
    GATED,
    LOWER,
    ONE,
    RESULT,
    SPLIT,
    UPPER,
    WITH_BIAS,
    Formula,
    Stored,
    Triangle,
)
from gemmsmith.verify.formula.functions import FUNCTIONS, USUAL
from gemmsmith.verify.formula.takes import Takes

Axes = tuple[str, str, str]  # rows, columns and depth of the product
_MANY = 3  # extents of a product of which all are told
_WIDEST = 16  # of a number of columns that the template has
_ORDER = {"A": 0, "B": 1}


def axes(taken: Takes, constants: Mapping[str, int]) -> Iterator[Axes]:
    """What the extents may be: all different where three are told; else one is two of them, 1, or a constant. Of one
    extent all matrices are square, or one is a vector."""
    names = taken.extents
    if len(names) == _MANY:
        yield from permutations(names)
        return
    if len(names) == 1:
        yield from product((names[0],), (names[0], ONE), names)
        yield (ONE, names[0], names[0])
        return
    first, second = names
    for one, two in ((first, second), (second, first)):
        yield from ((one, two, one), (one, two, two), (one, one, two))
    columns = (ONE, *(name for name, value in constants.items() if 1 < value <= _WIDEST))
    for column, (one, two) in product(columns, ((first, second), (second, first))):
        yield from ((one, column, two), (column, one, two))


def formulas(taken: Takes, found_axes: Axes, ways: Sequence[str]) -> Iterator[Formula]:
    """The products that may be, without what is done to their results; ``ways``: leading dimensions that belong to no
    matrix by their names, and "" for none."""
    rows, columns, depth = found_axes
    for inputs in _orders(taken.inputs):
        for (lefts, rights, kind), turned in product(_sides(inputs, taken.output), product((False, True), repeat=3)):
            for leading in _leadings(taken, (taken.output, *lefts, *rights), ways):
                stored = partial(_stored, taken, leading)
                c = stored(taken.output, rows, columns, turned[0])
                left = tuple(stored(each, rows, depth, turned[1]) for each in lefts)
                right = tuple(stored(each, depth, columns, turned[2]) for each in rights)
                plain = Formula(c, left, right, kind)
                if _shares_pitches(plain, taken):
                    yield from _halves(plain, rows, columns, depth)


def _shares_pitches(plain: Formula, taken: Takes) -> bool:
    """Whether operands with lines along the same extent have the same leading dimension, where none is named after one
    of them."""
    owned = set(taken.leading.values())
    free = [each for each in (*plain.lefts, *plain.rights) if each.member not in owned]
    pitches = {(each.rows if each.by_column else each.columns, each.leading) for each in free}
    return len(pitches) == len({line for line, _ in pitches})


def _stored(
    taken: Takes, leading: Mapping[str, str], member: str, rows: str, columns: str, by_column: bool = False
) -> Stored:
    stride = next((name for name, owner in taken.strides.items() if owner == member), "")
    return Stored(member, rows, columns, by_column, leading.get(member, ""), stride)


def _orders(inputs: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """The inputs in the order of A and B as they are called, then in every other one."""
    named = sorted(inputs, key=lambda each: _ORDER.get(pointer_role(own_name(each)), len(_ORDER)))
    yield tuple(named)
    yield from (each for each in permutations(inputs) if list(each) != named)


def _sides(inputs: tuple[str, ...], output: str) -> Iterator[tuple[tuple[str, ...], tuple[str, ...], str]]:
    """The members of the left and of the right operand. What is left of the inputs is added."""
    if len(inputs) == 1:
        yield inputs, inputs, ""
        yield inputs, (output,), ""
        yield (output,), inputs, ""
        return
    yield inputs[:1], inputs[1:2], ""
    if len(inputs) == len("LRR"):
        yield inputs[:1], inputs[1:], GATED
    if len(inputs) == len("LLRR"):
        yield inputs[:2], inputs[2:], SPLIT


def _leadings(taken: Takes, members: Sequence[str], ways: Sequence[str]) -> Iterator[dict[str, str]]:
    """The leading dimension of each matrix: the one that is named after it, else one of ``ways``."""
    owned = {owner: name for name, owner in taken.leading.items() if owner}
    free = [each for each in dict.fromkeys(members) if each not in owned]
    for chosen in product(ways, repeat=len(free)):
        yield owned | dict(zip(free, chosen, strict=True))


def _halves(plain: Formula, rows: str, columns: str, depth: str) -> Iterator[Formula]:
    """The product of whole matrices, then those of which only a triangle counts or is written."""
    yield plain
    if rows == columns and plain.lefts == tuple(_turned(each) for each in plain.rights):
        yield from (replace(plain, half=half) for half in (LOWER, UPPER))
    for right in [side for side, square in ((False, rows == depth), (True, columns == depth)) if square]:
        if not plain.kind:
            yield from (replace(plain, triangle=Triangle(right, half, mirrored))
                        for half in (LOWER, UPPER) for mirrored in (False, True))  # fmt: skip


def _turned(matrix: Stored) -> Stored:
    return replace(matrix, rows=matrix.columns, columns=matrix.rows, by_column=not matrix.by_column)


def finished(taken: Takes, plain: Formula) -> Iterator[Formula]:
    """The formula with what may be done to the product: a factor, a bias, an addend, an activation."""
    used = {each.member for each in (*plain.lefts, *plain.rights)}
    rest = [each for each in (*taken.inputs, *taken.biases) if each not in used]
    alpha, beta = taken.scalars.get("alpha", ""), taken.scalars.get("beta", "")
    owned = {owner: name for name, owner in taken.leading.items() if owner}
    old = plain.c if taken.output not in used else None
    for biases in _biases(rest, taken.biases):
        others = [each for each in rest if each not in biases]
        if len(others) > 1 or (others and plain.kind):
            continue
        c = plain.c
        residual = [_stored(taken, owned, each, c.rows, c.columns, c.by_column) for each in others]
        addends: list[Stored | None] = [*residual] or ([old] if beta else [None, old] if old is not None else [None])
        for addend, bias_of in product(addends, ("column", "row") if biases else ("",)):
            for factor, own in _factors(taken, alpha, beta) if addend is not None else ((alpha, ""),):
                with_sum = replace(plain, alpha=factor, beta=own, addend=addend, bias=biases[0] if biases else "",
                                   bias_of=bias_of)  # fmt: skip
                yield from _activated(taken, with_sum)
                yield from _scaled_otherwise(taken, with_sum)


def _scaled_otherwise(taken: Takes, plain: Formula) -> Iterator[Formula]:
    """The same where alpha multiplies the bias too, or the result of the activation."""
    if plain.alpha and plain.bias:
        yield from _activated(taken, replace(plain, scaled=WITH_BIAS))
    if plain.alpha:
        yield from (each for each in _activated(taken, replace(plain, scaled=RESULT)) if each.function)


def _factors(taken: Takes, alpha: str, beta: str) -> Iterator[tuple[str, str]]:
    """The factors of the sum and of the addend: a single number may be that of the addend."""
    yield alpha, beta
    if not beta:
        yield from (("", each) for each in (alpha, *taken.reals) if each)


def _biases(rest: list[str], named: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if named:
        yield from ((each,) for each in named if each in rest)
        return
    yield ()
    yield from ((each,) for each in rest)


def _activated(taken: Takes, plain: Formula) -> Iterator[Formula]:
    plainly = (name for name, each in FUNCTIONS.items() if each.parameters == 0)
    functions: list[tuple[str, tuple[str, ...]]] = [(name, ()) for name in plainly]
    low, high, slope = (taken.scalars.get(role, "") for role in ("low", "high", "slope"))
    for each in (slope, *taken.reals):
        functions += [(name, (each,)) for name in ("leaky", "elu") if each]
    functions += [("softcap", (each,)) for each in (high, *taken.reals) if each]
    bounds = (low or "0", high) if high else ()
    functions += [("clamp", bounds)] if bounds else [("clamp", ("0", each)) for each in taken.reals]
    functions += [("clamp", pair) for pair in permutations(taken.reals, 2)]
    for name, given in (*functions, *USUAL):
        yield replace(plain, function=name, given=given)
        if plain.addend is not None and name:
            yield replace(plain, function=name, given=given, late=True)
