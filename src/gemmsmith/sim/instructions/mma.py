"""mma.sync: the product of two small matrices that a warp holds in its registers, plus a third."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from gemmsmith.sim.arithmetic.matrix_arithmetic import Matrix, arithmetic, bits, quad_pair_product
from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.execution import Execution
from gemmsmith.sim.instructions.pattern import Modifiers
from gemmsmith.sim.instructions.record import Draft, Record
from gemmsmith.sim.instructions.warp_registers import check_whole, put, words
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.lowering.places import Lowering, Refused, items, literal, operands
from gemmsmith.sim.lowering.traits import Counted, Mix, Profiled, Quantity, Wait
from gemmsmith.sim.memory.fragments import a_matrices, b_matrices, c_matrices, d_registers, quad_pairs
from gemmsmith.sim.memory.sparse_operands import ROWS, positions, row_metadata, sparse_product
from gemmsmith.sim.ptx.syntax import Instruction
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.wave import WARP

# For each type of A: the bits of an element, and the shapes (rows, K) with 8 columns.
_SHAPES: dict[str, tuple[int, tuple[tuple[int, int], ...]]] = {
    "f16": (16, ((16, 16), (16, 8))), "bf16": (16, ((16, 16), (16, 8))), "tf32": (32, ((16, 8), (16, 4))),
    "f64": (64, ((8, 4), (16, 4), (16, 8), (16, 16))),
    "s8": (8, ((16, 32), (16, 16), (8, 16))), "u8": (8, ((16, 32), (16, 16), (8, 16))),
    "s4": (4, ((16, 64), (16, 32), (8, 32))), "u4": (4, ((16, 64), (16, 32), (8, 32))),
    "e4m3": (8, ((16, 32),)), "e5m2": (8, ((16, 32),)),
    "b1": (1, ((16, 256), (16, 128), (8, 128))),
}  # fmt: skip
# Types of A and B that may be mixed, and the types of C and D they allow.
_FAMILIES: tuple[tuple[frozenset[str], frozenset[str]], ...] = (
    (frozenset({"s8", "u8"}), frozenset({"s32"})), (frozenset({"s4", "u4"}), frozenset({"s32"})),
    (frozenset({"e4m3", "e5m2"}), frozenset({"f32"})), (frozenset({"f16"}), frozenset({"f16", "f32"})),
    (frozenset({"bf16"}), frozenset({"f32"})), (frozenset({"tf32"}), frozenset({"f32"})),
    (frozenset({"f64"}), frozenset({"f64"})),
)  # fmt: skip
_SIZES = {"f16": 2, "f32": 4, "s32": 4, "f64": 8}


@dataclass(frozen=True)
class Product:
    """What is computed, the bytes of a unit of A and B and of an element of C, rows, and registers of A, B, C, D."""

    function: Matrix
    unit: int
    accumulator: int
    rows: int
    registers: tuple[int, int, int, int]


def _product(function: Matrix, shape: str, a: str, c: str) -> Product:
    width, shapes = _SHAPES[a]
    rows, k = next(((m, k) for m, k in shapes if shape == f"m{m}n8k{k}"), (0, 0))
    if not rows:
        raise Refused
    register = max(32, width)
    of_c = rows * 8 * _SIZES[c] // (WARP * register // 8)
    return Product(function, max(1, width // 8), _SIZES[c], rows,
                   (rows * k * width // (WARP * register), 8 * k * width // (WARP * register), of_c, of_c))  # fmt: skip


def _decode(m: Modifiers) -> Product:
    a, b, c, saturate = m["a"], m["b"], m["c"], "satfinite" in m
    allowed = next((results for kinds, results in _FAMILIES if {a, b} <= kinds), frozenset[str]())
    if m["d"] != c or c not in allowed or (saturate and c != "s32"):
        raise Refused
    return _product(arithmetic(a, b, c, saturate), m["shape"], a, c)


def _decode_bits(m: Modifiers) -> Product:
    return _product(_BITS[m["op"]], m["shape"], "b1", "s32")


_BITS: dict[str, Matrix] = {"and": partial(bits, False), "xor": partial(bits, True)}


def _lower(code: Lowering, i: Instruction, form: Product) -> Draft[Product]:
    d, *abc = operands(i, 4)
    kind = "b64" if form.unit == 8 else "b32"
    *inputs, of_d = form.registers
    sources = [code.source(o, kind) for operand, count in zip(abc, inputs, strict=True)
               for o in items(operand, count)]  # fmt: skip
    return Draft(form, tuple([code.slot(o, kind) for o in items(d, of_d)]), tuple(sources))


def _meet(machine: Execution, step: Bundle[Any], lanes: Lanes) -> None:
    """Whole warps come to their products."""
    check_whole(machine, step, lanes)
    if machine.shadow is not None:
        machine.shadow.multiplied(step.operations, lanes)


def _registers(machine: Execution, step: Bundle[Any], lanes: Lanes) -> Array:
    """All source registers as (registers, instructions, 32)."""
    _meet(machine, step, lanes)
    found = np.stack([words(machine, s, lanes, step.count) for s in step.sources])
    return found.reshape(len(step.sources), -1, WARP)


def _multiply(machine: Execution, step: Bundle[Product], lanes: Lanes) -> None:
    """D = A·B + C in every warp."""
    form = step.detail
    of_a, of_b, _, _ = form.registers
    if not machine.moves_data:  # as if A·B were zero
        _meet(machine, step, lanes)
        if all(operation.position in machine.idle for operation in step.operations):
            return
        for target, source in zip(step.targets, step.sources[of_a + of_b :], strict=True):
            machine.put(target, lanes, machine.fetch(source, lanes))
        return
    given = _registers(machine, step, lanes)
    a, b = a_matrices(given[:of_a], form.unit, form.rows), b_matrices(given[of_a : of_a + of_b], form.unit)
    found = d_registers(form.function(a, b, c_matrices(given[of_a + of_b :], form.accumulator)))
    for target, registers in zip(step.targets, found, strict=True):
        put(machine, target, lanes, registers, step.count)


# -- sparse A -----------------------------------------------------------------------------------------

# For each type of A: the bits of an element, and for each K the bits of a row's metadata.
_SPARSE: dict[str, tuple[int, dict[int, int]]] = {
    "f16": (16, {16: 16, 32: 32}), "bf16": (16, {16: 16, 32: 32}), "tf32": (32, {8: 16, 16: 32}),
    "s8": (8, {32: 32, 64: 64}), "u8": (8, {32: 32, 64: 64}), "e4m3": (8, {64: 64}), "e5m2": (8, {64: 64}),
    "s4": (4, {64: 32, 128: 64}), "u4": (4, {64: 32, 128: 64}),
}  # fmt: skip


@dataclass(frozen=True)
class SparseProduct:
    """What is computed; bytes of a unit of A and B and of an element of C; registers of A, B, C, D; metadata."""

    function: Matrix
    unit: int
    accumulator: int
    registers: tuple[int, int, int, int]
    row_bits: int
    tf32: bool
    ordered: bool
    selector: int = 0


def _decode_sparse(m: Modifiers) -> SparseProduct:
    a, b, c, saturate = m["a"], m["b"], m["c"], "satfinite" in m
    allowed = next((results for kinds, results in _FAMILIES if {a, b} <= kinds), frozenset[str]())
    width, metadata = _SPARSE[a]
    k = int(m["shape"].partition("k")[2])
    if m["d"] != c or c not in allowed or (saturate and c != "s32") or k not in metadata:
        raise Refused
    of_a, of_c = ROWS * k // 2 * width // (32 * WARP), ROWS * 8 * _SIZES[c] // (4 * WARP)
    return SparseProduct(arithmetic(a, b, c, saturate), max(1, width // 8), _SIZES[c], (of_a, of_a, of_c, of_c),
                         metadata[k], a == "tf32", m["kind"] != "sp")  # fmt: skip


def _lower_sparse(code: Lowering, i: Instruction, form: SparseProduct) -> Draft[SparseProduct]:
    d, *abc, metadata, selector = operands(i, 6)
    *inputs, of_d = form.registers
    chosen = literal(selector)
    if not 0 <= chosen < 64 // form.row_bits:
        raise Refused
    sources = [code.source(o, "b32") for operand, count in zip(abc, inputs, strict=True)
               for o in items(operand, count)]  # fmt: skip
    return Draft(replace(form, selector=chosen), tuple([code.slot(o, "b32") for o in items(d, of_d)]),
                 (*sources, code.source(metadata, "b32")))  # fmt: skip


def _multiply_sparse(machine: Execution, step: Bundle[SparseProduct], lanes: Lanes) -> None:
    form = step.detail
    given = _registers(machine, step, lanes)
    of_a, of_b, of_c, _ = form.registers
    a, b = a_matrices(given[:of_a], form.unit), b_matrices(given[of_a : of_a + of_b], form.unit)
    c = c_matrices(given[of_a + of_b : of_a + of_b + of_c], form.accumulator)
    rows = row_metadata(given[-1], form.row_bits, min(2, form.unit), form.selector)
    at = positions(rows, form.row_bits, form.tf32, form.ordered)
    found = d_registers(sparse_product(form.function, a, b, c, at))
    for target, registers in zip(step.targets, found, strict=True):
        put(machine, target, lanes, registers, step.count)


# -- m8n8k4 of fp16 -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class QuadPairProduct:
    """Four products of 8×8×4, for four pairs of quads of lanes: layouts of A and B, bytes of C's and D's elements."""

    a_by_rows: bool
    b_by_rows: bool
    c: int
    d: int


def _decode_quad_pairs(m: Modifiers) -> QuadPairProduct:
    if (m["d"], m["c"]) == ("f16", "f32"):
        raise Refused
    return QuadPairProduct(m["rows"] == "row", m["columns"] == "row", _SIZES[m["c"]], _SIZES[m["d"]])


def _lower_quad_pairs(code: Lowering, i: Instruction, form: QuadPairProduct) -> Draft[QuadPairProduct]:
    d, *abc = operands(i, 4)
    sources = [code.source(o, "b32") for operand, count in zip(abc, (2, 2, 2 * form.c), strict=True)
               for o in items(operand, count)]  # fmt: skip
    return Draft(form, tuple([code.slot(o, "b32") for o in items(d, 2 * form.d)]), tuple(sources))


def _multiply_quad_pairs(machine: Execution, step: Bundle[QuadPairProduct], lanes: Lanes) -> None:
    form = step.detail
    given = _registers(machine, step, lanes)
    a = quad_pairs("a", form.a_by_rows).matrices(given[:2], 2)
    b = quad_pairs("b", form.b_by_rows).matrices(given[2:4], 2)
    c = quad_pairs("c", size=form.c).matrices(given[4:], form.c).view(np.float16 if form.c == 2 else np.float32)
    found = quad_pairs("c", size=form.d).registers(quad_pair_product(a, b, c, half=form.d == 2))
    for target, registers in zip(step.targets, found, strict=True):
        put(machine, target, lanes, registers, step.count)


# -- records ------------------------------------------------------------------------------------------


def _tensor(instructions: int) -> Counted:
    """Counted as this many instructions of the tensor pipe, which is what an H200 executes."""
    metrics = (("sm__inst_executed_pipe_tensor.sum", Quantity.EXECUTED),)
    return Counted(Profiled(Mix.TENSOR, metrics=metrics, instructions=instructions))


def _shapes(*kinds: str) -> str:
    return " ".join(sorted({f"m{m}n8k{k}" for kind in kinds for m, k in _SHAPES[kind][1]}))


_COMMON: dict[str, Any] = {"called": "mma.sync.aligned", "waits_on": Wait.WARP}
_ONCE, _TWICE = ("f16", "bf16", "tf32", "f64", "s8", "u8"), ("s4", "u4", "e4m3", "e5m2")
_RESULTS = {"d": "f16 f32 s32 f64", "c": "f16 f32 s32 f64"}
_FORM = "mma.sync!.aligned!.shape!.row.col.satfinite?.d.a.b.c"
_SPARSE_FORM = "mma.kind!.sync!.aligned!.shape!.row.col.satfinite?.d.a.b.c"
_BIT_FORM = "mma.sync!.aligned!.shape!.row.col.s32.b1.b1.s32.op.popc"

RECORDS = (
    Record(_FORM, where={"shape": _shapes(*_ONCE), "a": " ".join(_ONCE), "b": " ".join(_ONCE), **_RESULTS},
           decode=_decode, lower=_lower, execute=_multiply, counts=_tensor(1), **_COMMON),
    # Types that sm_90 has no instruction for: two others take its place.
    Record(_FORM, where={"shape": _shapes(*_TWICE), "a": " ".join(_TWICE), "b": " ".join(_TWICE), **_RESULTS},
           decode=_decode, lower=_lower, execute=_multiply, counts=_tensor(2), **_COMMON),
    Record(_BIT_FORM, where={"shape": _shapes("b1"), "op": "and"}, decode=_decode_bits, lower=_lower,
           execute=_multiply, counts=_tensor(1), **_COMMON),
    Record(_BIT_FORM, where={"shape": _shapes("b1"), "op": "xor"}, decode=_decode_bits, lower=_lower,
           execute=_multiply, counts=_tensor(2), **_COMMON),
    Record(_SPARSE_FORM, where={"kind": "sp sp::ordered_metadata", "a": " ".join(_SPARSE), "b": " ".join(_SPARSE),
                                "shape": "m16n8k8 m16n8k16 m16n8k32 m16n8k64 m16n8k128", **_RESULTS},
           decode=_decode_sparse, lower=_lower_sparse, execute=_multiply_sparse, counts=_tensor(1), **_COMMON),
    Record("mma.sync!.aligned!.m8n8k4!.rows.columns.d.f16.f16.c", decode=_decode_quad_pairs, lower=_lower_quad_pairs,
           where={"rows": "row col", "columns": "row col", "d": "f16 f32", "c": "f16 f32"},
           execute=_multiply_quad_pairs, counts=_tensor(1), **_COMMON),
)  # fmt: skip
