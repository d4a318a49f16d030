"""What matrix instructions do to images: ldmatrix, stmatrix, movmatrix and mma.sync.

wmma is built from these. Products of a tensor core are exact; those of a block are added at once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from gemmsmith.sim.arithmetic.tensor_core import HOPPER
from gemmsmith.sim.bundle import Bundle, Operand
from gemmsmith.sim.instructions.mma import Product, QuadPairProduct, SparseProduct
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.lowering.traits import Space
from gemmsmith.sim.memory.fragments import a_matrices, b_matrices, c_matrices, quad_pairs
from gemmsmith.sim.memory.global_memory import resolve_generic
from gemmsmith.sim.proof import field, images
from gemmsmith.sim.proof.arithmetic import has_constants
from gemmsmith.sim.proof.images import BYTES, KINDS, NAMES, Image, Kind, blank
from gemmsmith.sim.proof.moves import check_addresses
from gemmsmith.sim.proof.session import NoProof
from gemmsmith.sim.proof.wave import WaveImages
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.wave import WARP

Run = Callable[..., None]
_LANE = np.arange(WARP)


def _halves_only(wave: WaveImages, step: Bundle[Any]) -> None:
    if wave.session.unit > 2:
        raise NoProof("moves a part of a number", step.first.instruction)


def _row_addresses(wave: WaveImages, step: Bundle[Any], lanes: Lanes) -> Array:
    """(operations, warps, matrices, 8): the shared address of each row."""
    every = np.array(wave.machine.addresses(step.pointers[0], lanes, step.count))
    count = step.detail.count
    rows = every.reshape(step.count, -1, WARP)[:, :, : 8 * count]
    if step.detail.generic:
        _, rows = resolve_generic(rows)
    return rows.reshape(step.count, -1, count, 8)


def _elements(rows: Array, matrix: int, half: int, transposed: bool) -> Array:
    """The address of element 2t + half of row g, or of column g, for each lane 4g + t: (operations, lanes)."""
    g, c = _LANE // 4, 2 * (_LANE % 4) + half
    row, column = (c, g) if transposed else (g, c)
    found: Array = rows[:, :, matrix, row] + (2 * column).astype(rows.dtype)
    return found.reshape(rows.shape[0], -1)


def load_matrix(wave: WaveImages, step: Bundle[Any], lanes: Lanes, run: Run) -> None:
    _halves_only(wave, step)
    check_addresses(wave, step, lanes)
    rows = _row_addresses(wave, step, lanes)
    run()
    each = 2 // wave.session.unit
    for j, target in enumerate(step.targets):
        for half in (0, 1):
            at = _elements(rows, j, half, step.detail.transposed)
            units = wave.load(step, Space.SHARED, _shaped(at, step.count), lanes, 2)
            for n in range(each):
                wave.put_unit(target, lanes, half * each + n, None if units is None else units[n])


def store_matrix(wave: WaveImages, step: Bundle[Any], lanes: Lanes, run: Run) -> None:
    _halves_only(wave, step)
    check_addresses(wave, step, lanes)
    rows = _row_addresses(wave, step, lanes)
    run()
    each = 2 // wave.session.unit
    for j, source in enumerate(step.sources):
        for half in (0, 1):
            at = _shaped(_elements(rows, j, half, step.detail.transposed), step.count)
            units = None
            if wave.tagged(source, lanes):
                units = [wave.unit(source, lanes, half * each + n) for n in range(each)]
            wave.store(step, Space.SHARED, at, lanes, 2, units)


def transpose(wave: WaveImages, step: Bundle[Any], lanes: Lanes, run: Run) -> None:
    """movmatrix: lane 4g + t gets elements (2t, g) and (2t + 1, g)."""
    _halves_only(wave, step)
    each, source = 2 // wave.session.unit, step.sources[0]
    size = wave.machine.indices(lanes).size
    units = [wave.unit(source, lanes, n).broadcast((step.count, size)) for n in range(2 * each)]
    run()
    g, t, warps = _LANE // 4, _LANE % 4, np.arange(size // WARP)[:, None] * WARP
    for half in (0, 1):
        lane = (warps + (2 * t + half) * 4 + g // 2).reshape(-1)
        upper = np.tile(g % 2 == 1, size // WARP)
        for n in range(each):
            low, high = units[n].at((slice(None), lane)), units[each + n].at((slice(None), lane))
            found = images.where(upper, high, low)
            wave.put_unit(step.targets[0], lanes, half * each + n, found.at(0) if step.count == 1 else found)


def _shaped(at: Array, count: int) -> Array:
    return at.reshape(-1) if count == 1 else at


# -- products -----------------------------------------------------------------------------------------


@cache
def places_of(matrix: str, registers: int, size: int, rows: int) -> tuple[Array, Array, Array]:
    """(register, element within it, lane) of each element (K, rows) of A, (K, 8) of B or (rows, 8) of C."""
    word = 8 if size == 8 else 4
    each = word // size
    numbers = np.arange(registers * WARP * each)
    found = np.zeros(0, np.int64)
    for shift in range(0, 16, 8 * size if size < 2 else 16):
        part = (numbers >> shift).astype(f"u{size}").reshape(registers, 1, WARP * each)
        words = np.ascontiguousarray(part).view(f"u{word}").reshape(registers, 1, WARP)
        laid = {"a": lambda w: a_matrices(w, size, rows), "b": lambda w: b_matrices(w, size),
                "c": lambda w: c_matrices(w, size)}[matrix](words)[..., 0]  # fmt: skip
        found = laid.astype(np.int64) if not found.size else found | laid.astype(np.int64) << shift
    register, rest = np.divmod(found, WARP * each)
    lane, element = np.divmod(rest, each)
    return register, element, lane


def gathered(wave: WaveImages, step: Bundle[Any], lanes: Lanes, sources: tuple[Operand, ...], kind: Kind) -> Image:
    """All elements of registers, as (registers, elements of one, instructions, 32)."""
    size = BYTES[kind]
    each, shape = max(4, size) // size, (step.count, wave.machine.indices(lanes).size)
    found = [[wave.number(step, s, lanes, kind, e * size).broadcast(shape) for e in range(each)] for s in sources]
    return Image(*(np.stack([np.stack([getattr(i, name).reshape(-1, WARP) for i in row]) for row in found])
                   for name in ("tag", "element", "tree")))  # fmt: skip


def fragment(image: Image, places: tuple[Array, Array, Array]) -> Image:
    """(…, instructions) elements at places."""
    register, element, lane = places
    return image.at((register, element, slice(None), lane))


def multiply_add(wave: WaveImages, step: Bundle[Any], lanes: Lanes, run: Run) -> None:
    """D = A·B + C of every warp."""
    form = step.detail
    result, a_kind, b_kind, c_kind = step.first.instruction.name.split(".")[-4:]
    kinds = [KINDS.get(kind) for kind in (a_kind, b_kind, c_kind, result)]
    if None in kinds or isinstance(form, SparseProduct):
        raise NoProof("multiplies matrices of a type that is not followed", step.first.instruction)
    ka, kb, kc, kd = (Kind(k) for k in kinds if k is not None)
    if isinstance(form, QuadPairProduct):
        _quad_pairs(wave, step, lanes, run, (ka, kc, kd))
        return
    assert isinstance(form, Product)
    of_a, of_b, of_c, _ = form.registers
    sources = step.sources
    places = [places_of("a", of_a, BYTES[ka], form.rows), places_of("b", of_b, BYTES[kb], form.rows),
              places_of("c", of_c, BYTES[kc], form.rows)]  # fmt: skip
    parts = sources[:of_a], sources[of_a : of_a + of_b], sources[of_a + of_b :]
    a, b, c = (fragment(gathered(wave, step, lanes, s, k), p)
               for s, k, p in zip(parts, (ka, kb, kc), places, strict=True))  # fmt: skip
    total = product(wave, a, b, c, a_kind, kd)
    if has_constants(total):
        run()
    put_fragment(wave, step, lanes, total, places[2], kd)


def put_fragment(
    wave: WaveImages, step: Bundle[Any], lanes: Lanes, total: Image, places: tuple[Array, Array, Array], kind: Kind
) -> None:
    register, element, lane = places
    each, n = max(4, BYTES[kind]) // BYTES[kind], total.tag.shape[-1]
    laid = blank((len(step.targets), each, n, WARP))
    for into, values in zip((laid.tag, laid.element, laid.tree), (total.tag, total.element, total.tree), strict=True):
        into[register, element, :, lane] = values
    shape = (-1,) if step.count == 1 else (step.count, -1)
    for r, target in enumerate(step.targets):
        for e in range(each):
            part = Image(*(x[r, e].reshape(shape) for x in (laid.tag, laid.element, laid.tree)))
            wave.put_number(target, lanes, part, kind, e * BYTES[kind])


def product(wave: WaveImages, a: Image, b: Image, c: Image, kind: str, result: Kind) -> Image:
    """A (K, rows, n) times B (K, 8, n) plus C (rows, 8, n), in blocks of K."""
    session, depth = wave.session, len(a.tag)
    if kind == "f64":
        for k in range(depth):
            c = session.fma(a.at((k, slice(None), None)), b.at((k, None)), c, result, NAMES[result])
        return c
    block = HOPPER[kind].block if kind in HOPPER else depth
    plain = a.plain or b.plain
    for start in range(0, depth, block):
        trees, lost = [], []
        element, tag = c.element, c.tag
        for k in range(start, min(start + block, depth)):
            x, y = a.at((k, slice(None), None)), b.at((k, None))
            trees.append(session.trees.times(x.tree, y.tree, plain))
            term = images.multiplied(x.tag, y.tag, result)
            if plain:
                term = np.where(trees[-1] == 0, np.uint16(0), term)
            tag = images.summed([tag, term], result)
            element = field.add(element, field.multiply(x.element, y.element))
            lost += [x, y]
        tree = session.trees.block(np.broadcast_to(c.tree, tag.shape), np.stack(trees), f"{kind}>{NAMES[result]}")
        c = session.kept(Image(tag, element, tree), *lost, c)
    return c


def _quad_pairs(wave: WaveImages, step: Bundle[Any], lanes: Lanes, run: Run, kinds: tuple[Kind, Kind, Kind]) -> None:
    """m8n8k4 of fp16 with fp32 results: four fused multiply-adds from zero, then C."""
    form, session = step.detail, wave.session
    ka, kc, kd = kinds
    if kd is not Kind.F32:
        raise NoProof("m8n8k4 with fp16 results is not followed", step.first.instruction)
    tables = (quad_pairs("a", form.a_by_rows), quad_pairs("b", form.b_by_rows), quad_pairs("c", size=form.c))
    parts = step.sources[:2], step.sources[2:4], step.sources[4:]
    found = []
    for table, sources, kind in zip(tables, parts, (ka, ka, kc), strict=True):
        each = 4 // BYTES[kind]
        image = gathered(wave, step, lanes, sources, kind)
        found.append(fragment(image, (table.element // each, table.element % each, table.lane)))
    a, b, c = found  # (4, rows, columns, n)
    run()
    total = session.multiply(a.at((slice(None), slice(None), 0, None)), b.at((slice(None), None, 0)), kd, "f32")
    for k in range(1, 4):
        x, y = a.at((slice(None), slice(None), k, None)), b.at((slice(None), None, k))
        total = session.fma(x, y, total, kd, "f32")
    table = quad_pairs("c", size=form.d)
    put_fragment(
        wave, step, lanes, session.add(total, c, kd, "f32"), (table.element, table.element * 0, table.lane), kd
    )
