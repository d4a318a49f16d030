"""What a product with scales computes, found by launches on data whose sums are exact in every type.

Where many meanings are possible, each part is found by a launch of its own first: how A and B lie in memory with scales
that are all one value, then which elements share each scale with the others as they were.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.errors import GemmsmithError, SignatureError, SimulationError
from gemmsmith.shapes import Shape
from gemmsmith.userfile.kernels.packed_weights import unpacks_nibbles
from gemmsmith.verify.meaning.scaled_data import converted
from gemmsmith.verify.meaning.scaled_evidence import has_misplaced_scale, is_almost, is_wrong_product
from gemmsmith.verify.meaning.scaled_meanings import Choices, Meaning, choices, result
from gemmsmith.verify.meaning.scaled_nibbles import packed_storage
from gemmsmith.verify.meaning.scaled_rounding import NEAREST, Rounding, mistaken_roundings, roundings
from gemmsmith.verify.meaning.scaled_runner import Runner
from gemmsmith.verify.meaning.scaled_storage import Encoding, Storage, encodings

Array = NDArray[Any]
_OTHER_GROUPS = (32, 64, 128, 16)  # of a kernel that does not use what it is told
_MANY_ROUNDINGS = 10  # those of fixed-point numbers
_MOST = 0.75  # of the results
_DEPTH = 128  # of the launch that shows how weights are packed: a multiple of most groups
_FEW = 200  # meanings that are tried without narrowing them down
_LAYOUTS = ("NN", "NT", "TN", "TT")


def find_meaning(runner: Runner, shape: Shape, tried_launch: bool = False) -> Meaning:
    """The meaning; raises ``SignatureError`` where none that was tried gives the result of a launch, and nothing shows
    that the kernel is wrong: not where its launch was tried (``tried_launch``), nor where no name says that an array
    is a scale."""
    possible = list(_packed(runner, shape) if _unpacks(runner) else ()) or list(_possible(runner))
    near: Meaning | None = None
    loose: Meaning | None = None
    why = ""
    for choice in possible:
        found, almost, stopped = _among(runner, shape, choice, likeliest=choice is possible[0])
        if found is not None and not (found.rounding is not None and found.rounding.loose):
            return found
        loose, near, why = loose or found, near or almost, why or stopped
    if loose is not None:
        return loose
    if not possible or tried_launch or any(each.guessed for each in runner.parameters):
        raise _refused(runner, possible, why)
    if near is not None:
        return near
    for choice in possible if not why and not _has_rows_apart(runner) else ():
        if _is_wrong(runner, shape, choice):
            return _first_within_arrays(runner, shape, choice)
    if runner.group and (other := _of_another_group(runner, shape)) is not None:
        return other
    raise _refused(runner, possible, why)


def _is_wrong(runner: Runner, shape: Shape, choice: Choices) -> bool:
    """Whether the kernel is a product with a mistake, if its arrays hold what this choice says."""
    like = next(choice.meanings())
    if like.rounding is not None or like.output.kind.itemsize == 1:
        return False
    counts = _counts(choice, shape)
    run = runner.neutral(shape, like, counts)
    if not like.is_packed:
        kinds = like.stored[0].encoding.kind, like.stored[1].encoding.kind
        return is_wrong_product(run, kinds, shape, runner.parameters)
    data = _data(runner, shape, like, counts)
    bare = replace(choice, sharings={name: ways[:1] for name, ways in choice.sharings.items()})
    if not _explaining(runner, shape, bare, runner.uniform(data)):
        return False
    ones = np.ones(shape[0] * shape[2]).astype(like.stored[0].encoding.kind)
    return has_misplaced_scale(run, (ones, data[runner.named("B")]), shape, runner.parameters)


def likeliest(runner: Runner) -> Meaning | None:
    """The meaning that is tried first; None for no meaning at all."""
    return next((meaning for choice in _possible(runner) for meaning in choice.meanings()), None)


def _possible(runner: Runner, group: int | None = None) -> Iterator[Choices]:
    """What the kernel may mean, for each kind of numbers that its arrays may hold; ways of rounding that are known
    mistakes last."""
    held = [encodings(runner.type_of(runner.of_role(role))) for role in "ABC"]
    held[2] = tuple(each for each in held[2] if each.is_plain or each.kind.itemsize == 2)
    scaled = [each for each in runner.parameters if each.role == "scale"]
    for a, b, c in product(*held):
        fixed = any(each.multiplies_integers for each in scaled)
        is_rounded = (c.kind.itemsize == 1 and bool(scaled)) or fixed
        for ways in (roundings(fixed), mistaken_roundings(fixed)) if is_rounded else ((None,),):
            found = choices(runner.parameters, runner.group if group is None else group, (a, b, c), ways)
            if found is not None and (a.array != b.array or a.is_plain == b.is_plain):
                yield found


def _unpacks(runner: Runner) -> bool:
    """Whether the kernel takes numbers of four bits out of integers."""
    facts = getattr(runner.spec.geometry, "facts", None)
    weights = runner.of_role("B")
    return facts is not None and runner.type_of(weights).kind in "iu" and unpacks_nibbles(facts.reached, [weights.name])


def _packed(runner: Runner, shape: Shape) -> Iterator[Choices]:
    """What it may mean if its weights have four bits: as they are packed for one launch whose A is the unit matrix."""
    depth = shape[2] if runner.group > _DEPTH else _DEPTH
    square = depth, shape[1], depth
    for choice in _possible(runner):
        plain = choice.stored[1][0].encoding
        if not plain.is_plain or not choice.stored[0][0].encoding.is_plain or not choice.outputs[0].is_plain:
            continue
        codes = Encoding(plain.array, plain.array, tuple(map(float, range(16))))
        like = replace(next(choice.meanings()), stored=(choice.stored[0][0], Storage(codes, False)))
        data = runner.data(square, like, _counts(choice, square))
        kind = data[runner.named("A")].dtype
        unit = np.eye(depth).astype(kind).reshape(-1)
        try:
            written = runner.neutral(square, like, _counts(choice, square))((unit, data[runner.named("B")]), "")
        except SimulationError:
            continue
        unpacked = runner.numbers_of(written, choice.outputs[0], square).astype(np.float64)
        stored = packed_storage(data[runner.named("B")], unpacked)
        if stored is not None:
            yield replace(choice, stored=(choice.stored[0], (stored,)))


def _counts(choice: Choices, shape: Shape) -> dict[str, int]:
    """The most values that each scale and zero point may have."""
    return {name: max(each.count(shape) for each in ways) for name, ways in choice.sharings.items()}


def _has_rows_apart(runner: Runner) -> bool:
    return any(each.role in ("lda", "ldb") for each in runner.parameters)


def _among(
    runner: Runner, shape: Shape, choice: Choices, likeliest: bool
) -> tuple[Meaning | None, Meaning | None, str]:
    """The meaning that gives every result; else one that gives nearly all; and why a launch stopped. Where it is not
    the ``likeliest`` choice, one launch that nothing explains ends the search."""
    near: Meaning | None = None
    loose: Meaning | None = None
    why = ""
    counts = _counts(choice, shape)
    for own in _by_layout(choice) if _has_rows_apart(runner) else (choice,):
        try:
            narrowed = own
            if own.count > _FEW or not likeliest:
                narrowed = _narrowed(runner, shape, own, counts, likeliest)
            if not narrowed.count:
                continue
            data = _data(runner, shape, next(narrowed.meanings()), counts)
            written = runner.written(shape, data)
        except SimulationError as error:
            why = why or f" (one launch of it stopped: {error.message.splitlines()[0]})"
            continue
        fitting: list[Meaning] = []
        sums: dict[Any, Array] = {}
        for meaning in narrowed.meanings():
            if not runner.has_time:
                break
            got = runner.numbers_of(written, meaning.output, shape)
            exact = result(meaning, runner.parameters, data, shape, sums)
            expected = converted(exact, got.dtype)
            equal = _same(expected, got)
            if equal.all():
                fitting.append(meaning)
            unpacks_wrongly = bool(meaning.stored[1].encoding.sure) and equal.mean() >= 1 / 2
            if meaning.rounding is not None and _is_one_step_off(meaning.rounding, equal, expected, got):
                loose = loose or replace(meaning, rounding=replace(meaning.rounding, loose=True))
                continue
            near = near or (meaning if unpacks_wrongly or is_almost(equal, expected.astype(np.float64)) else None)
            if near is None and got.dtype.kind in "iu" and got.dtype.itemsize == 1 and equal.any():
                near = meaning if (exact.astype(np.int64).astype(got.dtype) == got).all() else None  # it wraps around
        if fitting:
            return _as_meant(_settled(runner, shape, fitting)), None, ""
    return loose, None if near is None else _as_meant(near), why


def _is_one_step_off(rounding: Rounding, equal: NDArray[np.bool_], expected: Array, got: Array) -> bool:
    """Whether results differ from those of rounding to the nearest by one step at most, and most of them do not."""
    off = np.abs(expected.astype(np.float64) - got.astype(np.float64))
    most = rounding.name in NEAREST and not rounding.mistake and not equal.all() and equal.mean() >= _MOST
    return bool(most and (off <= 1).all())


def _settled(runner: Runner, shape: Shape, fitting: list[Meaning]) -> Meaning:
    """The meaning among those that give every result of one launch: of blocks, the order of several must be seen."""
    blocks = [way for meaning in fitting for way in meaning.sharing.values() if way.kind == "block"]
    if not blocks or len(fitting) == 1:
        return fitting[0]
    m, n, k = shape
    step = max(way.of for way in blocks)
    larger = (m * math.ceil(2 * step / m), n * math.ceil(2 * step / n), k)
    counts = {name: max(meaning.sharing[name].count(larger) for meaning in fitting) for name in fitting[0].sharing}
    try:
        data = _data(runner, larger, fitting[0], counts)
        written = runner.written(larger, data)
    except GemmsmithError:
        return fitting[0]
    left = (meaning for meaning in fitting if _gives(runner, larger, meaning, data, written))
    return next(left, fitting[0])


def _gives(
    runner: Runner, shape: Shape, meaning: Meaning, data: Mapping[str, Any], written: Array,
    sums: dict[Any, Array] | None = None,
) -> bool:  # fmt: skip
    """Whether a meaning gives every result of a launch."""
    got = runner.numbers_of(written, meaning.output, shape)
    return bool(_same(converted(result(meaning, runner.parameters, data, shape, sums), got.dtype), got).all())


def _data(runner: Runner, shape: Shape, like: Meaning, counts: Mapping[str, int]) -> dict[str, Any]:
    """Data that a kernel with a mistake in its unpacking multiplies rightly, too."""
    data = runner.data(shape, like, counts)
    weights = runner.named("B")
    return {**data, weights: like.stored[1].encoding.surest(data[weights])}


def _same(expected: Array, got: Array) -> NDArray[np.bool_]:
    with np.errstate(invalid="ignore"):
        same: NDArray[np.bool_] = expected.astype(np.float64) == got.astype(np.float64)
    return same


def _as_meant(meaning: Meaning) -> Meaning:
    """The meaning of a kernel without the mistake by which it was recognised."""
    rounding = meaning.rounding
    return meaning if rounding is None else replace(meaning, rounding=replace(rounding, mistake=""))


def _by_layout(choice: Choices) -> Iterator[Choices]:
    """The meanings of each layout: leading dimensions are passed for one."""
    for layout in _LAYOUTS:
        a, b = (tuple(each for each in stored if each.transposed == (letter == "T"))
                for stored, letter in zip(choice.stored, layout, strict=True))  # fmt: skip
        yield replace(choice, stored=(a, b))


def _narrowed(
    runner: Runner, shape: Shape, choice: Choices, counts: Mapping[str, int], likeliest: bool
) -> Choices:  # fmt: skip
    """Those parts of the meaning that launches of their own leave; all of a part where these leave none."""
    data = _data(runner, shape, next(choice.meanings()), counts)
    one = {name: ways[:1] for name, ways in choice.sharings.items()}
    bare = replace(choice, sharings=one, biases=choice.biases[:1])
    left = _explaining(runner, shape, bare, runner.uniform(data))
    if not left and (not likeliest or len(choice.roundings) > _MANY_ROUNDINGS):
        return replace(choice, stored=((), ()))
    if left:
        stored = tuple(tuple(dict.fromkeys(each.stored[i] for each in left)) for i in (0, 1))
        choice = replace(choice, stored=(stored[0], stored[1]),
                         roundings=tuple(dict.fromkeys(each.rounding for each in left)))  # fmt: skip
    for each in runner.parameters:
        part = choice.sharings.get(each.name, ())
        if len(part) > 1 and each.pointer:
            alone = replace(choice, sharings={**one, each.name: part}, biases=choice.biases[:1])
            if left := _explaining(runner, shape, alone, runner.uniform(data, each.name)):
                ways = tuple(dict.fromkeys(meaning.sharing[each.name] for meaning in left))
                choice = replace(choice, sharings={**choice.sharings, each.name: ways})
        if each.role == "bias":
            alone = replace(choice, sharings=one)
            if left := _explaining(runner, shape, alone, runner.uniform(data, each.name)):
                ways_of_bias = tuple(dict.fromkeys((meaning.bias, meaning.scaled_bias) for meaning in left))
                choice = replace(choice, biases=ways_of_bias)
    return choice


def _explaining(runner: Runner, shape: Shape, choice: Choices, data: Mapping[str, Any]) -> list[Meaning]:
    """The meanings that give every result of one launch."""
    written = runner.written(shape, data)
    sums: dict[Any, Array] = {}
    return [meaning for meaning in choice.meanings()
            if runner.has_time and _gives(runner, shape, meaning, data, written, sums)]  # fmt: skip


def _of_another_group(runner: Runner, shape: Shape) -> Meaning | None:
    """What a kernel was meant to compute that is right for another length of a group than the one it is passed."""
    for meant, group in product(_possible(runner), (x for x in _OTHER_GROUPS if x != runner.group)):
        own = [each for each in meant.meanings() if runner.group in each.groups] if runner.has_time else []
        for other in _possible(runner, group) if own else ():
            for meaning in other.meanings():
                same = next((each for each in own if _is_same_but_for_groups(each, meaning)), None)
                if group not in meaning.groups or same is None:
                    continue
                counts = {name: max(each.count(shape), same.sharing[name].count(shape))
                          for name, each in meaning.sharing.items()}  # fmt: skip
                data = runner.data(shape, meaning, counts)
                with suppress(SimulationError):
                    if _gives(runner, shape, meaning, data, runner.written(shape, data)):
                        return same
    return None


def _is_same_but_for_groups(one: Meaning, two: Meaning) -> bool:
    ways = ({name: (way.kind, way.operand, way.order) for name, way in each.sharing.items()} for each in (one, two))
    return next(ways) == next(ways) and replace(one, sharing={}) == replace(two, sharing={})


def _first_within_arrays(runner: Runner, shape: Shape, choice: Choices) -> Meaning:
    """The likeliest meaning under which scales and zero points have all the values that the kernel reads."""
    tried = set[tuple[int, ...]]()
    for meaning in choice.meanings():
        counts = {name: each.count(shape) for name, each in meaning.sharing.items()}
        if (key := tuple(counts.values())) in tried:
            continue
        tried.add(key)
        with suppress(SimulationError):
            runner.written(shape, runner.data(shape, meaning, counts))
            return meaning
    return next(choice.meanings())


def _refused(runner: Runner, possible: list[Choices], why: str) -> SignatureError:
    takes = ", ".join(f"{each.name} {each.type}*" for each in runner.parameters if each.pointer)
    shared = [each.name for each in runner.parameters if each.role in ("scale", "zero")]
    count = sum(each.count for each in possible)
    tried = f"{count} ways to apply {', '.join(shared)}" if shared else "the four layouts of A and B"
    packed = [each.name for each in runner.parameters if each.role in ("A", "B")
              and runner.type_of(each).kind in "iu" and runner.type_of(each).itemsize > 1]  # fmt: skip
    hint = f"{packed[0]} may hold packed numbers, in an order that is not known; " if packed else ""
    return SignatureError(
        f"{runner.spec.entry} takes {takes}: none of {tried} explains its result{'' if packed else why}",
        f"{hint}compare one launch with your own answer: --grid … --block … --args … --expect FILE.py:FUNCTION",
    )
