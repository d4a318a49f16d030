"""atom and red: an update of memory that no other thread can come between, in global or shared memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from gemmsmith.sim.arithmetic import halves
from gemmsmith.sim.arithmetic.directed import arithmetic32
from gemmsmith.sim.arithmetic.rounding import add32, arithmetic64
from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.execution import Execution
from gemmsmith.sim.instructions.lanewise import optional_slots
from gemmsmith.sim.instructions.pattern import Modifiers
from gemmsmith.sim.instructions.record import Draft, Record
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.lowering.places import Lowering, Refused, items, operands
from gemmsmith.sim.lowering.traits import Access, Bundling, Effect, Space
from gemmsmith.sim.memory.global_memory import RAW, GlobalMemory
from gemmsmith.sim.memory.window_memory import WindowMemory
from gemmsmith.sim.ptx.syntax import SINK, Instruction, Operand
from gemmsmith.sim.ptx.types import DTYPES, TYPE_BYTES, Array

Update = Callable[..., Array]
_SEVERAL = 4  # lanes that meet at each address: their sums are made at once
_LARGEST, _SMALLEST = np.finfo(np.float32).max, np.finfo(np.float32).tiny  # of regular numbers

_SPACES = {
    "global": Space.GLOBAL,
    "shared": Space.SHARED,
    "shared::cta": Space.SHARED,
    "shared::cluster": Space.SHARED,
    "": Space.GENERIC,
}


def _add_double_global(old: Array, value: Array) -> Array:
    """A NaN operand is passed on as it is, the new value's first; a new NaN is negative."""
    result = arithmetic64(np.add)(old, value)
    return np.where(value != value, value, np.where(old != old, old, result))


def _increment(old: Array, limit: Array) -> Array:
    return np.where(old >= limit, np.uint32(0), old + np.uint32(1))


def _decrement(old: Array, limit: Array) -> Array:
    return np.where((old == 0) | (old > limit), limit, old - np.uint32(1))


def _exchange(old: Array, value: Array) -> Array:
    del old
    return value


def _swap_if_equal(old: Array, compare: Array, value: Array) -> Array:
    return np.where(old == compare, value, old)


# What each operation makes of the old value, by type, in shared memory; and where global memory differs.
_INTEGER_ADD = dict.fromkeys(("u32", "s32", "u64", "s64"), np.add)
_ADD: dict[str, Update] = {
    **_INTEGER_ADD, "f32": add32, "f64": arithmetic64(np.add, prefer=0),
    **{kind: halves.arithmetic("add", kind) for kind in halves.KINDS.split()},
}  # fmt: skip
_GLOBAL_ADD: dict[str, Update] = {"f32": arithmetic32("add", ftz=True), "f64": _add_double_global}
_ORDERED = "u32 s32 u64 s64"
_WORDS = "b32 b64"
_OTHERS: dict[str, tuple[Update, str]] = {
    "min": (np.minimum, _ORDERED), "max": (np.maximum, _ORDERED), "inc": (_increment, "u32"),
    "dec": (_decrement, "u32"), "exch": (_exchange, _WORDS), "and": (np.bitwise_and, _WORDS),
    "or": (np.bitwise_or, _WORDS), "xor": (np.bitwise_xor, _WORDS), "cas": (_swap_if_equal, f"b16 {_WORDS}"),
}  # fmt: skip


@dataclass(frozen=True)
class Form:
    """An update of ``count`` elements of a PTX type in some space."""

    op: str
    space: Space
    kind: str
    count: int

    def update(self, space: Space) -> Update:
        if self.op != "add":
            return _OTHERS[self.op][0]
        return (_GLOBAL_ADD.get(self.kind) if space is Space.GLOBAL else None) or _ADD[self.kind]


def _decode(m: Modifiers) -> Form:
    types = " ".join(_ADD) if m["op"] == "add" else _OTHERS[m["op"]][1]
    vector = m.get("vec", "v1")
    if m["type"] not in types.split() or (vector != "v1" and not m["type"].strip("bx12346").startswith("f")):
        raise Refused
    return Form(m["op"], _SPACES[m.get("space", "")], m["type"], int(vector[1:]))


def _lower_atom(code: Lowering, i: Instruction, form: Form) -> Draft[Form]:
    given = 4 if form.op == "cas" else 3
    old, at, *values = operands(i, given, given + 1)  # one more is a cache policy
    return _draft(code, () if old == SINK else items(old, form.count), at, tuple(values[: given - 2]), form)


def _lower_red(code: Lowering, i: Instruction, form: Form) -> Draft[Form]:
    at, *values = operands(i, 2, 3)
    if form.op in ("exch", "cas"):
        raise Refused
    return _draft(code, (), at, tuple(values[:1]), form)


def _draft(
    code: Lowering, old: tuple[Operand, ...], at: Operand, values: tuple[Operand, ...], form: Form
) -> Draft[Form]:
    width = TYPE_BYTES[form.kind]
    sources = [code.source(part, form.kind) for value in values for part in items(value, form.count)]
    return Draft(form, optional_slots(code, old, (form.kind,) * len(old)), tuple(sources), (code.pointer(at),),
                 Access(form.space, Effect.UPDATE, width * form.count, width, width * form.count))  # fmt: skip


def _execute(machine: Execution, step: Bundle[Form], lanes: Lanes) -> None:
    """Lanes that meet at one address update it one after another, in lane order."""
    form = step.detail
    width = TYPE_BYTES[form.kind]
    given = [machine.spread(machine.fetch(source, lanes), lanes) for source in step.sources]
    space, addresses = machine.place_of(step, lanes)
    mine, old = machine.indices(lanes), []
    for n in range(form.count):
        at = addresses + addresses.dtype.type(n * width)
        if space is Space.GLOBAL:
            memory: GlobalMemory | WindowMemory = machine.memory
        else:
            memory, bases = machine.window(space, lanes)
            at = memory.index(at, bases, width)
        if machine.shadow is not None and space is Space.SHARED:
            memory.gather(at, width)  # a fault comes first
            machine.shadow.atomic(step.first, mine, at)
        old.append(_update(memory, at, form, space, given[n :: form.count]))
    for target, values_before in zip(step.targets, old, strict=False):
        machine.put(target, lanes, values_before)


def _update(memory: GlobalMemory | WindowMemory, at: Array, form: Form, space: Space, values: list[Array]) -> Array:
    """Apply the update at each address; what was there before each lane's turn."""
    width, update, kind = TYPE_BYTES[form.kind], form.update(space), DTYPES[form.kind]
    old = memory.gather(at, width).view(kind)  # before anything is written: a fault names the right lane
    if form.op == "add" and form.kind == "f32" and (groups := _equal_groups(at)) is not None:
        sums = _regular_sums(old[groups[:, 0]], values[0][groups])
        if sums is not None:
            old[groups] = sums[:, :-1]
            memory.scatter(at[groups[:, 0]], width, np.ascontiguousarray(sums[:, -1]).view(RAW[width]))
            return old
    for turn in turns(at):
        old[turn] = memory.gather(at[turn], width).view(kind)
        new = np.asarray(update(old[turn], *(v[turn] for v in values)), kind)
        memory.scatter(at[turn], width, np.ascontiguousarray(new).view(RAW[width]))
    return old


def _equal_groups(addresses: Array) -> Array | None:
    """The lanes of each address, in order, one row for each; None unless several meet at each, and as many at all."""
    if addresses.size < 2:
        return None
    order = np.argsort(addresses, kind="stable")
    ordered = addresses[order]
    distinct = 1 + int(np.count_nonzero(ordered[1:] != ordered[:-1]))
    several, rest = divmod(addresses.size, distinct)
    if several < _SEVERAL or rest:
        return None
    rows = ordered.reshape(distinct, several)
    return order.reshape(distinct, several) if bool((rows[:, 0] == rows[:, -1]).all()) else None


def _regular_sums(first: Array, values: Array) -> Array | None:
    """What each address holds before and after each lane's turn, a row for each address: sums in fp32, each rounded as
    it is made. None where a number is subnormal, infinite or NaN: memories treat those in ways of their own."""
    terms = np.concatenate([first[:, None], values], axis=1)
    sums: Array = np.add.accumulate(terms, axis=1, dtype=np.float32)
    for numbers in (terms, sums):
        size = np.abs(numbers)
        if not (size <= _LARGEST).all() or ((size < _SMALLEST) & (size != 0)).any():
            return None
    return sums


def turns(addresses: Array) -> Iterator[Array]:
    """Sets of lanes with different addresses; the n-th lane of each address is in the n-th set."""
    order = np.argsort(addresses, kind="stable")
    ordered = addresses[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    turn = np.arange(addresses.size) - np.repeat(starts, np.diff(np.append(starts, addresses.size)))
    by_turn = order[np.argsort(turn, kind="stable")]
    yield from np.split(by_turn, np.cumsum(np.bincount(turn))[:-1])


_WHERE = {
    "order": "relaxed acquire release acq_rel", "scope": "cta gpu sys cluster", "space": " ".join(_SPACES),
    "op": " ".join(("add", *_OTHERS)), "type": f"{_ORDERED} b16 b32 b64 f32 f64 {halves.KINDS}", "vec": "v2 v4 v8",
    "hint": "noftz L2::*",
}  # fmt: skip

RECORDS = (
    Record("atom.order?.scope?.space?.op.vec?.hint*.type", where=_WHERE, decode=_decode, lower=_lower_atom,
           execute=_execute, verb="atomic update", bundling=Bundling.ALONE),
    Record("red.order?.scope?.space?.op.vec?.hint*.type", where=_WHERE, decode=_decode, lower=_lower_red,
           execute=_execute, verb="atomic update", bundling=Bundling.ALONE),
)  # fmt: skip
