"""Bits: logic, shifts, fields, counts and permutations."""

from __future__ import annotations

from functools import cache, partial

import numpy as np

from gemmsmith.sim.arithmetic import integers
from gemmsmith.sim.instructions.lanewise import (
    Function,
    compute,
    compute_several,
    lanewise,
    optional_slots,
    with_negated,
)
from gemmsmith.sim.instructions.record import Draft, Record, no_form
from gemmsmith.sim.lowering.places import Lowering, literal, operands
from gemmsmith.sim.ptx.syntax import Instruction
from gemmsmith.sim.ptx.types import BITS, INTEGERS, Array

_BITS = {"type": BITS}
_WORDS = {"type": "b32 b64"}


@cache
def _lop3(truth_table: int) -> Function:
    """One function for each truth table, so that only operations with the same table are bundled."""
    return partial(integers.lop3, truth_table=truth_table)


def _lower_lop3(code: Lowering, i: Instruction, _: None) -> Draft[Function]:
    target, a, b, c, truth_table = operands(i, 5)
    return Draft(_lop3(literal(truth_table) & 0xFF), targets=(code.slot(target, "b32"),),
                 sources=tuple([code.source(o, "b32") for o in (a, b, c)]))  # fmt: skip


@cache
def _combined(truth_table: int, either: bool) -> Function:
    """lop3 with a predicate: the word, and whether it is not zero, combined with another predicate."""
    combine = np.logical_or if either else np.logical_and

    def compute(a: Array, b: Array, c: Array, predicate: Array) -> tuple[Array, Array]:
        word = integers.lop3(a, b, c, truth_table)
        return word, combine(word != 0, predicate)

    return compute


def _lower_lop3_with(code: Lowering, i: Instruction, either: bool) -> Draft[Function]:
    target, predicate, a, b, c, truth_table, other = operands(i, 7)
    function, sources = with_negated(_combined(literal(truth_table) & 0xFF, either), (a, b, c, other))
    kinds = ("b32", "b32", "b32", "pred")
    return Draft(function, targets=optional_slots(code, (target, predicate), ("b32", "pred")),
                 sources=tuple([code.source(o, kind) for o, kind in zip(sources, kinds, strict=True)]))  # fmt: skip


RECORDS = (
    *(
        record
        for name, bitwise, logical in (("and", np.bitwise_and, np.logical_and), ("or", np.bitwise_or, np.logical_or),
                                       ("xor", np.bitwise_xor, np.logical_xor))
        for record in (
            lanewise(f"{name}.type", "type, type -> type", bitwise, where=_BITS),
            lanewise(f"{name}.pred", "pred, pred -> pred", logical),
        )
    ),
    lanewise("not.type", "type -> type", np.invert, where=_BITS),
    lanewise("not.pred", "pred -> pred", np.logical_not),
    lanewise("cnot.type", "type -> type", integers.equals_zero, where=_BITS),
    lanewise("shl.type", "type, u32 -> type", integers.shift_left, where=_BITS),
    lanewise("shr.type", "type, u32 -> type", integers.shift_right, where={"type": f"{BITS} {INTEGERS}"}),
    lanewise("shf.side.mode.b32", "b32, b32, u32 -> b32", where={"side": "l r", "mode": "wrap clamp"},
             choose=lambda m: integers.funnel(m["side"] == "l", m["mode"] == "wrap")),
    lanewise("bfe.type", "type, u32, u32 -> type", integers.bit_field_extract, where={"type": "u32 s32 u64 s64"}),
    lanewise("bfi.type", "type, type, u32, u32 -> type", integers.bit_field_insert, where=_WORDS),
    lanewise("popc.type", "type -> u32", integers.population, where=_WORDS),
    lanewise("clz.type", "type -> u32", integers.leading_zeros, where=_WORDS),
    lanewise("brev.type", "type -> type", integers.bit_reverse, where=_WORDS),
    lanewise("prmt.b32", "b32, b32, b32 -> b32", integers.permute_bytes),
    lanewise("prmt.b32.mode", "b32, b32, b32 -> b32", where={"mode": integers.PERMUTATIONS},
             choose=lambda m: integers.permute_by(m["mode"])),
    lanewise("bfind.shiftamt?.type", "type -> u32", where={"type": "u32 s32 u64 s64"},
             choose=lambda m: integers.find_leading("shiftamt" in m)),
    lanewise("fns.b32", "b32, b32, s32 -> b32", integers.find_nth_set),
    lanewise("bmsk.mode.b32", "b32, b32 -> b32", where={"mode": "clamp wrap"},
             choose=lambda m: integers.bit_mask(m["mode"] == "wrap")),
    lanewise("szext.mode.type", "type, u32 -> type", where={"mode": "clamp wrap", "type": "u32 s32"},
             choose=lambda m: integers.extend_from(m["mode"] == "wrap")),
    Record("lop3.combine.b32", where={"combine": "and or"}, decode=lambda m: m["combine"] == "or",
           lower=_lower_lop3_with, execute=compute_several),
    Record("lop3.b32", decode=no_form, lower=_lower_lop3, execute=compute),
)  # fmt: skip
