"""wgmma: products of a warpgroup, whose operands are in shared memory and whose accumulators are in registers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from gemmsmith.sim.arithmetic.matrix_arithmetic import Matrix, bits, wgmma_arithmetic
from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.execution import Execution
from gemmsmith.sim.instructions.pattern import Modifiers
from gemmsmith.sim.instructions.record import Draft, Record
from gemmsmith.sim.instructions.warp_registers import check_whole
from gemmsmith.sim.instructions.wgmma_operands import (
    CHUNK,
    K_BYTES,
    SIZES,
    Form,
    accumulators_of,
    operand_index,
    operand_tile,
    registers_of,
    rows_inside,
    signed,
)
from gemmsmith.sim.lanes import Lanes, compact
from gemmsmith.sim.lowering.places import Lowering, Refused, items, literal
from gemmsmith.sim.lowering.traits import Access, Bundling, Counted, Effect, Mix, Profiled, Quantity, Space, Wait
from gemmsmith.sim.memory.access_faults import AccessFault, LaneFault, Unwritten
from gemmsmith.sim.memory.fragments import a_matrices
from gemmsmith.sim.memory.sparse_operands import positions, row_metadata, sparse_product
from gemmsmith.sim.memory.tile_origins import Read, TileOrigins
from gemmsmith.sim.ptx.syntax import Instruction, Negated, Vector
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.races.async_hazards import ProxyFences, WgmmaRegisters
from gemmsmith.sim.waits.wgmma_products import WARPS, WgmmaProducts
from gemmsmith.sim.wave import WARP

_ROWS = 64
# Types of A and B that may be mixed, and the types of D they allow.
_FAMILIES: tuple[tuple[frozenset[str], frozenset[str]], ...] = (
    (frozenset({"f16"}), frozenset({"f16", "f32"})), (frozenset({"bf16"}), frozenset({"f32"})),
    (frozenset({"tf32"}), frozenset({"f32"})), (frozenset({"e4m3", "e5m2"}), frozenset({"f16", "f32"})),
    (frozenset({"s8", "u8"}), frozenset({"s32"})),
)  # fmt: skip
_MINUS_ONE = (-1, (1 << 32) - 1, (1 << 64) - 1)  # as a literal may be read
_INTEGER_COLUMNS = (8, 16, 24, *range(32, 257, 16))


@dataclass(frozen=True)
class Product:
    """What is computed. Sources are the registers of A or its descriptor, the descriptor of B, and scale-d."""

    function: Matrix
    form: Form
    a_in_registers: bool
    negate_a: bool
    negate_b: bool
    transpose_a: bool
    transpose_b: bool
    scale_negated: bool
    selector: int = 0

    @property
    def of_a(self) -> int:
        """How many sources A has."""
        return 4 if self.a_in_registers else 1


def _decode(m: Modifiers) -> Form:
    a, b, d, shape, sparse = m["a"], m["b"], m["d"], m["shape"], "sp" in m
    allowed = next((results for kinds, results in _FAMILIES if {a, b} <= kinds), frozenset[str]())
    columns, _, k = shape.removeprefix("m64n").partition("k")
    if d not in allowed or not columns.isdigit() or k != str(K_BYTES * (1 + sparse) // SIZES[a]):
        raise Refused
    n = int(columns)
    if n % 8 or not 8 <= n <= 256 or (d == "s32" and n not in _INTEGER_COLUMNS) or ("satfinite" in m and d != "s32"):
        raise Refused
    return Form(a, b, d, n, "satfinite" in m, sparse)


def _decode_bits(m: Modifiers) -> Form:
    columns, _, k = m["shape"].removeprefix("m64n").partition("k")
    if not columns.isdigit() or int(columns) not in _INTEGER_COLUMNS or k != str(8 * K_BYTES):
        raise Refused
    return Form("b1", "b1", "s32", int(columns), False)


def _arithmetic(form: Form) -> Matrix:
    if form.a == "b1":
        return partial(bits, False)
    return wgmma_arithmetic(form.a, form.b, form.d, form.saturate)


def _lower(code: Lowering, i: Instruction, form: Form) -> Draft[Product]:
    d, a, b, *rest = i.operands
    metadata, selector, rest = _metadata(code, form, rest)
    in_registers = isinstance(a, Vector)
    scale, negations, transposes = _rest(form, in_registers, rest)
    negated = isinstance(scale, Negated)
    targets = tuple([code.slot(o, "b32") for o in items(d, form.columns * form.accumulator // 8)])
    of_a = [code.source(o, "b32") for o in items(a, 4)] if in_registers else [code.source(a, "b64")]
    of_scale = code.slot(scale.register, "pred") if isinstance(scale, Negated) else code.source(scale, "pred")
    product = Product(_arithmetic(form), form, in_registers, negations[0] < 0, negations[1] < 0, transposes[0] == 1,
                      transposes[1] == 1, negated, selector)  # fmt: skip
    return Draft(product, targets, (*of_a, *metadata, code.source(b, "b64"), of_scale),
                 access=Access(Space.SHARED, Effect.READ, CHUNK, 4, 0))  # fmt: skip


def _metadata(code: Lowering, form: Form, rest: list[Any]) -> tuple[list[Any], int, list[Any]]:
    """The register with the metadata of a sparse A, their selector, and the operands after them."""
    if not form.sparse:
        return [], 0, rest
    if len(rest) < 2 or not 0 <= (selector := literal(rest[1])) < 64 // form.row_bits:
        raise Refused
    return [code.source(rest[0], "b32")], selector, rest[2:]


def _rest(form: Form, in_registers: bool, rest: list[Any]) -> tuple[Any, list[int], list[int]]:
    """scale-d, the signs of A and B, and whether A and B are transposed."""
    if not rest:
        raise Refused
    scale, *flags = rest
    if form.d == "s32":
        if flags:
            raise Refused
        return scale, [1, 1], [0, 0]
    values = [literal(flag) for flag in flags]
    values = [-1 if v in _MINUS_ONE else v for v in values]
    expected = 2 + (0 if form.size != 2 else 1 if in_registers else 2)
    if len(values) != expected or any(abs(v) != 1 for v in values[:2]) or any(v not in (0, 1) for v in values[2:]):
        raise Refused
    transposes = [0, *values[2:]] if in_registers else values[2:]
    return scale, values[:2], [*transposes, 0, 0][:2]


# -- execution ----------------------------------------------------------------------------------------


def _multiply(machine: Execution, step: Bundle[Product], lanes: Lanes) -> None:
    check_whole(machine, step, lanes)
    whole = machine.wave.threads // (WARPS * WARP) * (WARPS * WARP)  # a last warp may only load, and have no others
    if machine.wave.threads > whole and (machine.thread[machine.indices(lanes)] >= whole).any():
        raise LaneFault(
            int(np.argmax(machine.thread[machine.indices(lanes)] >= whole)),
            f"wgmma by the last {machine.wave.threads - whole} threads of a block of {machine.wave.threads}: it is for "
            "whole warpgroups of 128 threads",
        )
    if machine.counters is not None:
        form = step.detail.form
        read = (0 if step.detail.a_in_registers else _ROWS * K_BYTES) + form.columns * form.b_bytes
        machine.counters.shared_product(step.first, machine.indices(lanes).size // WARP, read // WARPS)
    if not machine.moves_data:
        if step.first.position not in machine.idle:
            _zero(machine, step, lanes)
        return
    mine, detail = machine.indices(lanes), step.detail
    *_, b, scale = step.sources
    of_b = machine.spread(machine.fetch(b, lanes), lanes)[::WARP].copy()
    of_a = (
        None if detail.a_in_registers else machine.spread(machine.fetch(step.sources[0], lanes), lanes)[::WARP].copy()
    )
    keep = (machine.spread(machine.fetch(scale, lanes), lanes)[::WARP] != detail.scale_negated).copy()

    def compute(chosen: Array) -> None:
        warps = chosen[::WARP] // WARP
        some = compact(mine[chosen])

        def products() -> None:
            _products(machine, step, some, None if of_a is None else of_a[warps], of_b[warps], keep[warps])

        try:
            products()
        except Unwritten as fault:
            machine.read_unwritten(step, some, fault, products)

    def touch(chosen: Array, by: int | None) -> None:
        warps = chosen[::WARP] // WARP
        _touch(machine, step, mine[chosen][::WARP], None if of_a is None else of_a[warps], of_b[warps], by)

    if machine.recorder is not None:
        machine.recorder.multiplies(machine, step, lanes, of_a, of_b)
    machine.unit(WgmmaRegisters).issue(step, lanes)
    if machine.shadow is not None:
        _look(machine, step, mine[::WARP], of_a, of_b)
    machine.unit(WgmmaProducts).issue(step.first, lanes, compute, touch)


def _zero(machine: Execution, step: Bundle[Product], lanes: Lanes) -> None:
    """Products of nothing: a sum that begins is zero."""
    if (machine.fetch(step.sources[-1], lanes) == step.detail.scale_negated).any():
        for target in step.targets:
            machine.put(target, lanes, np.uint32(0))


def _chunks(machine: Execution, step: Bundle[Product], first: Array, of_a: Array | None, of_b: Array) -> list[Array]:
    """For each warp, the positions of all 16-byte chunks of shared memory that its product reads."""
    detail, form = step.detail, step.detail.form
    b = operand_index(machine, of_b, np.arange(form.columns), form, detail.transpose_b, first, of_b=True)
    found = []
    for n, lane in enumerate(first.tolist()):
        parts = [b[n].reshape(-1)]
        if of_a is not None:
            rows = 16 * (int(machine.thread[lane]) // WARP % 4) + np.arange(16)
            parts.append(
                operand_index(machine, of_a[n : n + 1], rows, form, detail.transpose_a, first[n : n + 1]).reshape(-1)
            )
        found.append(np.unique(np.concatenate(parts) // CHUNK) * CHUNK)
    return found


def _touch(
    machine: Execution, step: Bundle[Product], first: Array, of_a: Array | None, of_b: Array, by: int | None
) -> None:
    """The product may read its operands now, for its own lanes or for ``by``."""
    assert machine.shadow is not None
    chunks = _chunks(machine, step, first, of_a, of_b)
    lanes = np.repeat(first, [c.size for c in chunks])
    if by is not None:
        chunks = [np.unique(np.concatenate(chunks))]
        lanes = np.full(chunks[0].size, by)
    machine.shadow.read(step.first, lanes, np.concatenate(chunks))


def _look(machine: Execution, step: Bundle[Product], first: Array, of_a: Array | None, of_b: Array) -> None:
    """Whether what the product reads was made visible to it."""
    _look_at_origins(machine, step, first, of_a, of_b)
    fences = machine.unit(ProxyFences)
    if fences.pending:
        for lane, chunks in zip(first.tolist(), _chunks(machine, step, first, of_a, of_b), strict=True):
            fences.look(step.first, lane, chunks, CHUNK)


def _look_at_origins(machine: Execution, step: Bundle[Product], first: Array, of_a: Array | None, of_b: Array) -> None:
    """Whether the first warp reads its operands as TMA wrote them."""
    detail, form, one = step.detail, step.detail.form, first[:1]

    def read(name: str, descriptors: Array, rows: Array, transposed: bool) -> Read:
        step_k = 1 if transposed else CHUNK // form.size
        try:
            index = operand_index(machine, descriptors[:1], rows, form, transposed, one, of_b=name == "B")[0]
        except AccessFault as fault:
            inside = rows_inside(machine, descriptors[:1], rows, form, transposed, name == "B")
            index = operand_index(machine, descriptors[:1], inside, form, transposed, one, of_b=name == "B")[0]
            why = machine.unit(TileOrigins).explanation(Read(name, index, form.size, step_k))
            raise AccessFault(fault.kind, fault.position, fault.address, f"{fault.detail}; {why}" if why else
                              fault.detail, fault.space) from None  # fmt: skip
        return Read(name, index, form.size, step_k)

    reads = [read("B", of_b, np.arange(form.columns), detail.transpose_b)]
    if of_a is not None:
        start = 16 * (int(machine.thread[one[0]]) // WARP % 4)
        reads.append(read("A", of_a, start + np.arange(16), detail.transpose_a))
    machine.unit(TileOrigins).look(step.first, int(one[0]), reads)


def _products(
    machine: Execution, step: Bundle[Product], lanes: Lanes, of_a: Array | None, of_b: Array, keep: Array
) -> None:
    """D = A·B + D, or A·B where ``keep`` does not hold, for whole warps."""
    detail, form, mine = step.detail, step.detail.form, machine.indices(lanes)
    first = mine[::WARP]
    b = operand_tile(machine, of_b, np.arange(form.columns), form, detail.transpose_b, first, of_b=True)
    if of_a is None:
        registers = np.stack([machine.fetch(s, lanes).reshape(-1, WARP) for s in step.sources[:4]])
        a = a_matrices(registers, form.size)
    else:
        a = np.empty((K_BYTES // form.size, 16, first.size), f"u{form.size}")
        quarter = machine.thread[first] // WARP % 4
        for q in np.unique(quarter):
            these = quarter == q
            a[:, :, these] = operand_tile(
                machine, of_a[these], 16 * q + np.arange(16), form, detail.transpose_a, first[these]
            )
    words = np.stack([machine.fetch(t, lanes).reshape(-1, WARP) for t in step.targets])
    c = accumulators_of(words, form)
    c = np.where(keep, c, c.dtype.type(0))
    a, b = signed(a, form, detail.negate_a), signed(b, form, detail.negate_b)
    if form.sparse:
        held = machine.fetch(step.sources[detail.of_a], lanes).reshape(-1, WARP)
        rows = row_metadata(held, form.row_bits, min(2, form.size), detail.selector)
        d = sparse_product(detail.function, a, b, c, positions(rows, form.row_bits, form.a == "tf32", ordered=True))
    else:
        d = detail.function(a, b, c)
    for target, values in zip(step.targets, registers_of(np.asarray(d).view(c.dtype), form), strict=True):
        machine.put(target, lanes, values.reshape(-1))


def element_positions(
    machine: Execution, step: Bundle[Product], lanes: Lanes
) -> tuple[Array | None, Array, Array]:  # fmt: skip
    """Byte positions in the wave's shared memory of A (K, 16, warps), None if it is in registers, and of B (K, columns,
    warps); and whether the accumulators of each warp are kept."""
    detail, form, first = step.detail, step.detail.form, machine.indices(lanes)[::WARP]
    *_, b, scale = step.sources

    def of_warps(source: Any) -> Array:
        return machine.spread(machine.fetch(source, lanes), lanes)[::WARP]

    def positions(descriptors: Array, rows: Array, transposed: bool, lanes_: Array) -> Array:
        index = operand_index(machine, descriptors, rows, form, transposed, lanes_)
        if not transposed:
            index = (index[..., None] + np.arange(0, CHUNK, form.size)).reshape(*index.shape[:2], -1)
        return index.transpose(2, 1, 0)

    a: Array | None = None
    if not detail.a_in_registers:
        of_a, quarter = of_warps(step.sources[0]), machine.thread[first] // WARP % 4
        a = np.empty((K_BYTES // form.size, 16, first.size), np.int64)
        for q in np.unique(quarter):
            these = quarter == q
            a[:, :, these] = positions(of_a[these], 16 * q + np.arange(16), detail.transpose_a, first[these])
    of_b = positions(of_warps(b), np.arange(form.columns), detail.transpose_b, first)
    return a, of_b, of_warps(scale) != detail.scale_negated


# -- records ------------------------------------------------------------------------------------------

_TENSOR_PIPE = (
    ("sm__inst_executed_pipe_tensor.sum", Quantity.EXECUTED),
    ("sm__inst_executed_pipe_tensor_op_gmma.sum", Quantity.EXECUTED),
    ("sm__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_gmma.sum", Quantity.WAVEFRONTS),
)
_WARP: dict[str, Any] = {"waits_on": Wait.WARP, "bundling": Bundling.BOUNDARY, "aligned": True}

RECORDS = (
    Record("wgmma.mma_async.sync.aligned.shape.d.a.b.satfinite?",
           where={"shape": "m64n*", "d": "f16 f32 s32", "a": " ".join(SIZES), "b": " ".join(SIZES)}, decode=_decode,
           lower=_lower, execute=_multiply, called="wgmma.mma_async", verb="read by wgmma",
           counts=Counted(Profiled(Mix.TENSOR, metrics=_TENSOR_PIPE)), **_WARP),
    Record("wgmma.mma_async.sp.sync.aligned.shape.d.a.b.satfinite?",
           where={"shape": "m64n*", "d": "f16 f32 s32", "a": " ".join(SIZES), "b": " ".join(SIZES)}, decode=_decode,
           lower=_lower, execute=_multiply, called="wgmma.mma_async.sp", verb="read by wgmma",
           counts=Counted(Profiled(Mix.TENSOR, metrics=_TENSOR_PIPE)), **_WARP),
    Record("wgmma.mma_async.sync.aligned.shape.s32.b1.b1.and.popc", where={"shape": "m64n*"}, decode=_decode_bits,
           lower=_lower, execute=_multiply, called="wgmma.mma_async", verb="read by wgmma",
           counts=Counted(Profiled(Mix.TENSOR, metrics=_TENSOR_PIPE)), **_WARP),
)  # fmt: skip
