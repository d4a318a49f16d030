"""The copy to rows that start on 16 bytes: every bit is copied, and nothing else is read or written."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest

from gemmsmith.compile import CompileCache
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.compile.compiler import compile_for
from gemmsmith.fills import Array
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.problem import FP16, Problem, ceil_div
from gemmsmith.prologue.align_copy import (
    ALIGN_COPY,
    AT_ONCE,
    CHUNK,
    THREADS,
    AlignCopyOperand,
    align_copy_launch,
    align_copy_operands,
    packed_bytes,
    packed_ld,
)
from gemmsmith.run.device import Launch
from gemmsmith.sim.device import LoadedPtx, SimDevice
from gemmsmith.sim.memory.global_memory import GlobalMemory

GUARD = 64  # elements around a target; they and what is not copied hold this:
CANARY = 0x7E5A
GRANULE = 16  # bytes
BLOCK = AT_ONCE * THREADS  # chunks
LIMIT = 2**31


@dataclass(frozen=True)
class Case:
    """An operand: elements between it and a 256-byte boundary, and how far apart rows and matrices are."""

    rows: int
    cols: int
    offset: int = 0
    ld: int = 0
    copies: int = 1
    stride: int = 0

    @property
    def pitch(self) -> int:
        """Elements from one row of the copy to the next: 128 bytes and more are a multiple of 128."""
        return ceil_div(self.cols, 64) * 64 if self.cols >= 64 else packed_ld(self.cols)

    @property
    def packed(self) -> int:
        """Elements of the copy."""
        return self.copies * self.rows * self.pitch

    @property
    def blocks(self) -> int:
        return ceil_div(self.copies * self.rows * packed_ld(self.cols) // CHUNK, BLOCK)

    def stored(self, base: int) -> AlignCopyOperand:
        ld = self.ld or self.cols
        stride = self.stride or (self.rows - 1) * ld + self.cols
        return AlignCopyOperand((self.rows, self.cols), base + 2 * self.offset, ld, stride if self.copies > 1 else 0,
                                self.copies, k_major=True)  # fmt: skip


READY = Case(16, 24)


class WatchedMemory(GlobalMemory):
    """Remembers which bytes kernels read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[tuple[Array, int]] = []

    def gather(self, addresses: Array, width: int) -> Array:
        self.reads.append((addresses.reshape(-1).copy(), width))
        return super().gather(addresses, width)

    def bytes_read(self, base: int, nbytes: int, most: int = GRANULE) -> Array:
        """Whether each byte of an allocation was read, by loads of ``most`` bytes or less."""
        found = np.zeros(nbytes, bool)
        for addresses, width in (read for read in self.reads if read[1] <= most):
            at = (addresses - np.uint64(base)).astype(np.int64)
            found[at[(at >= 0) & (at < nbytes)][:, None] + np.arange(width)] = True
        return found


class Watched:
    """An operand of random bits in memory, and its target among canaries."""

    def __init__(self, device: SimDevice, case: Case, random: np.random.Generator) -> None:
        self.device, self.case = device, case
        of = case.stored(0)
        z, row, col = np.ogrid[: case.copies, : case.rows, : case.cols]
        self.at = case.offset + z * of.stride + row * of.ld + col  # where its elements lie
        self.values = random.integers(0, 1 << 16, int(self.at.max()) + 1, np.uint16)  # ends with its last byte
        self.canaries = np.full(GUARD + case.packed + GUARD, CANARY, np.uint16)
        self.base = device.allocate(self.values.nbytes)
        self.target_base = device.allocate(self.canaries.nbytes)
        device.write(self.base, self.values.view(np.uint8))
        device.write(self.target_base, self.canaries.view(np.uint8))
        self.source, self.target = case.stored(self.base), self.target_base + 2 * GUARD

    @property
    def copied(self) -> bool:
        """Whether a row is unaligned."""
        return bool(np.any((self.base + 2 * self.at[..., 0]) % GRANULE))

    def check_copy(self) -> None:
        """Every element of the target's allocation."""
        expected, case = self.canaries.copy(), self.case
        if self.copied:
            shape = case.copies, case.rows, case.pitch
            copy = expected[GUARD : GUARD + case.packed].reshape(shape)
            copy[..., : packed_ld(case.cols)] = 0
            copy[..., : case.cols] = self.values[self.at]
        got = self.device.read(self.target_base, expected.nbytes).view(np.uint16)
        wrong = np.flatnonzero(got != expected)
        assert wrong.size == 0, f"{case}: {wrong.size} elements differ, the first at {wrong[0] - GUARD} of the target"
        assert np.array_equal(self.device.read(self.base, self.values.nbytes).view(np.uint16), self.values)

    def check_single_reads(self, memory: WatchedMemory) -> None:
        """Elements are read singly only at the ends, in a chunk whose two granules reach beyond the operand."""
        single = np.flatnonzero(memory.bytes_read(self.base, 2 * self.values.size, most=2)) // 2 - self.case.offset
        extent = self.values.size - self.case.offset
        inside = single[(single >= 2 * CHUNK - 1) & (single <= extent - 2 * CHUNK)]
        assert inside.size == 0, f"{self.case}: element {inside[0]} of {extent} is read alone"

    def check_reads(self, read: Array) -> None:
        """All bytes of the rows; others only from granules that hold some of them, between first and last."""
        own = np.zeros(2 * self.values.size, bool)
        if self.copied:
            own.reshape(-1, 2)[self.at] = True
        granules = np.zeros(ceil_div(own.size, GRANULE), bool)
        granules[np.flatnonzero(own) // GRANULE] = True
        near = np.repeat(granules, GRANULE)[: own.size]
        near[: 2 * self.case.offset] = False
        assert read[own].all(), f"{self.case}: byte {np.flatnonzero(own & ~read)[0]} is not read"
        assert not (read & ~near).any(), f"{self.case}: byte {np.flatnonzero(read & ~near)[0]} is read"


def compile_align_copy(arch: str, store: CompileCache | None = None) -> CompiledKernel:
    """As ``bind`` does."""
    return compile_for(ALIGN_COPY, ALIGN_COPY.config(), Problem(1, 1, 1, FP16, FP16), arch, store)


@cache
def loaded() -> LoadedPtx:
    return SimDevice().load(compile_align_copy("sm_90"))


def run(a: Case, b: Case = READY, seed: int = 0) -> Geometry:
    """Copy both by one launch, and check every element of the targets' allocations and every byte that was read."""
    random = np.random.default_rng(seed)
    device = SimDevice(timeout=60)
    device.memory = memory = WatchedMemory()
    operands = [Watched(device, case, random) for case in (a, b)]
    one, other = operands
    geometry, arguments = align_copy_launch(one.source, other.source, one.target, other.target)
    if geometry.blocks:
        device.launch(loaded(), Launch(geometry, arguments))
    for operand in operands:
        operand.check_copy()
        operand.check_reads(memory.bytes_read(operand.base, operand.values.nbytes))
        operand.check_single_reads(memory)
    blocks = sum(it.case.blocks for it in operands if it.copied)
    assert (geometry.grid, geometry.block, geometry.pdl) == ((blocks, 1, 1), (THREADS, 1, 1), True)
    return geometry


# --- what is copied, and what is read


@pytest.mark.parametrize("offset", range(8))
@pytest.mark.parametrize("cols", [1, 2, 7, 8, 9, 15, 16, 17, 23, 24, 25, 31, 32, 33, 40, 67])
def test_every_misalignment_and_every_number_of_columns(cols: int, offset: int) -> None:
    """9 rows with an odd leading dimension begin at all eight distances from a boundary."""
    run(Case(9, cols, offset, ld=cols + 2 - cols % 2 + 1))


@pytest.mark.parametrize("offset", [0, 1, 4, 7])
def test_one_element(offset: int) -> None:
    run(Case(1, 1, offset), Case(1, 1, 3))


@pytest.mark.parametrize("cols", [8, 64, 128])
@pytest.mark.parametrize("spare", [0, 8, 1, 5])
def test_whole_chunks_at_any_leading_dimension(cols: int, spare: int) -> None:
    run(Case(11, cols, 3, ld=cols + spare))


@pytest.mark.parametrize("offset", [0, 1, 5])
@pytest.mark.parametrize("cols", [3, 8, 13, 16])
@pytest.mark.parametrize("ld", [27, 32, 40])
def test_granules_between_distant_rows_and_matrices_are_not_read(ld: int, cols: int, offset: int) -> None:
    """That memory may be another's or unmapped. The stride is odd, so that everything is copied."""
    run(Case(3, cols, offset, ld), Case(3, cols, offset, ld, copies=3, stride=5 * ld + 1))


@pytest.mark.parametrize(("rows", "cols"), [(1, 4093), (3, 2048), (5, 2056), (6, 4097), (2, 6144), (1, 20_001)])
def test_rows_of_several_blocks(rows: int, cols: int) -> None:
    run(Case(rows, cols, 5, ld=cols + cols % 2 + 1))


@pytest.mark.parametrize("cols", [1, 13, 60])
@pytest.mark.parametrize("extra", [-1, 0, 1])
@pytest.mark.parametrize("threads", [THREADS, BLOCK, BLOCK + THREADS])
def test_the_chunks_of_a_block_and_their_neighbours(cols: int, extra: int, threads: int) -> None:
    rows = threads // (packed_ld(cols) // CHUNK) + extra
    assert run(Case(rows, cols, 1)).blocks == (2 if rows * packed_ld(cols) > BLOCK * CHUNK else 1)


TALL, WIDE, SOME = Case(700, 9, 3), Case(3, 2049, 7), Case(9, 13, 3, ld=15)
BATCH = Case(5, 7, 1, ld=9, copies=4, stride=50)


@pytest.mark.parametrize(
    ("a", "b"),
    [(SOME, READY), (READY, SOME), (SOME, SOME), (TALL, WIDE), (WIDE, TALL), (TALL, SOME), (SOME, WIDE), (BATCH, SOME),
     (SOME, BATCH), (BATCH, READY), (READY, BATCH), (BATCH, replace(BATCH, copies=3, offset=6)), (BATCH, TALL)],
)  # fmt: skip
def test_one_launch_copies_the_operands_that_are_not_ready(a: Case, b: Case) -> None:
    run(a, b)


def test_nothing_is_launched_for_operands_that_are_ready() -> None:
    batch = Case(6, 5, ld=8, copies=3, stride=56)
    assert run(READY, batch).blocks == 0
    assert run(READY, replace(batch, stride=57)).blocks == 1


@pytest.mark.parametrize("stride", [7, 8, 9])
def test_interleaved_matrices(stride: int) -> None:
    run(Case(5, 7, 2, ld=3 * stride, copies=3, stride=stride))


@pytest.mark.parametrize("seed", range(48))
def test_random_shapes_leading_dimensions_and_batches(seed: int) -> None:
    random = np.random.default_rng(seed)

    def case() -> Case:
        rows, cols = (int(np.exp(random.uniform(0, np.log(200)))) for _ in range(2))
        ld = cols + int(random.choice([0, 0, 1, 2, 3, 8, 21]))
        return Case(rows, cols, int(random.integers(64)), ld, int(random.choice([1, 1, 2, 3, 5])),
                    (rows - 1) * ld + cols + int(random.choice([0, 1, 2, 7, 9, 40])))  # fmt: skip

    run(case(), case(), seed)


def test_every_bit_pattern_survives() -> None:
    """NaN payloads, subnormals and signed zeros are bits like any others."""
    device = SimDevice()
    values = np.arange(1 << 16, dtype=np.uint16)
    source, target = device.allocate(values.nbytes), device.allocate(packed_bytes(16, 4095))
    device.write(source, values.view(np.uint8))
    operand = Case(16, 4095, 1, ld=4096).stored(source)
    geometry, arguments = align_copy_launch(operand, READY.stored(0), target, 0)
    device.launch(loaded(), Launch(geometry, arguments))
    got = device.read(target, packed_bytes(16, 4095)).view(np.uint16).reshape(16, 4096)
    assert np.array_equal(got[:, :4095], values.reshape(16, 4096)[:, 1:])
    assert not got[:, 4095].any()


def test_one_matrix_for_a_whole_batch_is_copied_once() -> None:
    problem = Problem(9, 5, 7, FP16, batch=3, stride_a=70, stride_b=0)
    a, b = align_copy_operands(problem, 4096, 8192)
    assert (a, b) == (Case(9, 7, copies=3, stride=70).stored(4096), replace(Case(7, 5).stored(8192), k_major=False))
    assert (a.packed_ld, a.packed_stride, a.packed_bytes) == (8, 72, 3 * 72 * 2)
    assert (b.packed_ld, b.packed_stride, b.packed_bytes) == (8, 0, 56 * 2)
    run(Case(9, 7, copies=3, stride=70), Case(7, 5))


def test_an_operand_read_in_place_is_not_copied_however_it_is_aligned() -> None:
    operand = Case(9, 13, 3, ld=15).stored(4096)
    staying = replace(operand, in_place=True)
    assert (operand.is_ready, operand.blocks, staying.is_ready, staying.blocks) == (False, 1, True, 0)


# --- more than 32 bits hold

LARGE = {
    "tall": Case(LIMIT - 1, 3),
    "tall, three chunks": Case(LIMIT // 3, 21),
    "as much as is copied": Case(LIMIT // 2, 15),
    "widest": Case(1, LIMIT - 1, 1),
    "wide": Case(1, LIMIT - 9, 7),
    "wide rows": Case(7, LIMIT // 8 - 5),
    "matrices": Case(1 << 20, 3, copies=2047),
    "distant rows": Case(3, 1100, ld=LIMIT + 5),
    "distant matrices": Case(2, 41, ld=43, copies=3, stride=LIMIT + 3),
}


@pytest.mark.parametrize("case", LARGE.values(), ids=LARGE)
def test_more_than_two_to_the_31_elements(case: Case) -> None:
    """Simulated pages exist once they are touched, and of either operand only the last blocks are launched.

    Both are the same matrices; the ends of their last rows are looked at, three where two blocks have as many.
    """
    device = SimDevice()
    of = case.stored(0)
    extent = (case.copies - 1) * of.stride + (case.rows - 1) * of.ld + case.cols
    base = device.allocate(2 * (case.offset + extent))
    source, targets = case.stored(base), [device.allocate(2 * case.packed) for _ in range(2)]
    count = case.copies * case.rows
    lines = range(count - min(count, 3, max(1, BLOCK * CHUNK // packed_ld(case.cols))), count)
    tail = min(case.cols, 64)
    values = np.random.default_rng(7).integers(1, 1 << 16, (len(lines), tail), np.uint16)
    for line, row in zip(lines, values, strict=True):
        z, r = divmod(line, case.rows)
        device.write(source.address + 2 * (z * of.stride + r * of.ld + case.cols - tail), row.view(np.uint8))
    geometry, arguments = align_copy_launch(source, source, *targets)
    half = geometry.blocks // 2
    assert geometry.blocks == 2 * case.blocks
    last = [number for end in (half, 2 * half) for number in range(max(end - half, end - 2), end)]
    device.launch(loaded(), Launch(geometry, arguments), last)
    pad = packed_ld(case.cols) - case.cols
    for target in targets:
        for line, row in zip(lines, values, strict=True):
            at = target + 2 * (line * case.pitch + case.cols - tail)
            got = device.read(at, 2 * (tail + pad)).view(np.uint16)
            assert np.array_equal(got, np.concatenate([row, np.zeros(pad, np.uint16)])), f"line {line}"


def division(across: int) -> tuple[int, int]:
    """The reciprocal and the shift that divide by ``across`` chunks."""
    reciprocal, shift = struct.unpack("<II4x", Case(1, across * CHUNK, 1).stored(4096).as_argument(0)[-12:])
    return reciprocal, shift


def test_a_product_and_a_shift_divide() -> None:
    """By every number of chunks that a row may have: small ones, those around powers of two, and some others."""
    random = np.random.default_rng(5)
    powers = [n for bits in range(29) for n in ((1 << bits) - 1, 1 << bits, (1 << bits) + 1) if 0 < n <= 1 << 28]
    others = np.exp(random.uniform(0, np.log(2**28), 2000)).astype(int)
    ends = np.array([0, 1, 2, LIMIT // 2, LIMIT - 3, LIMIT - 2, LIMIT - 1], np.uint64)
    for across in {*range(1, 2000), *powers, *others.tolist()}:
        reciprocal, shift = division(across)
        assert reciprocal * (LIMIT - 1) < 2**64
        most = (LIMIT - 1) // across
        quotients = np.concatenate([[0, 1, 2, most - 1, most], random.integers(0, most + 1, 60)])
        multiples = np.maximum(quotients, 0).astype(np.uint64) * np.uint64(across)
        numbers = np.concatenate([multiples, np.maximum(multiples, 1) - np.uint64(1), multiples + np.uint64(across - 1),
                                  ends])  # fmt: skip
        numbers = numbers[numbers < LIMIT]
        found = numbers * np.uint64(reciprocal) >> np.uint64(shift)
        assert np.array_equal(found, numbers // np.uint64(across)), across
