"""The copy into rows that start on 16 bytes: every bit, nothing beyond a row read, nothing beyond a copy written."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest

from gemmsmith.compile import CompileCache, disassemble
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.compile.compiler import compile_for
from gemmsmith.errors import ProblemError, SimulationError, UnsupportedError
from gemmsmith.fills import Array
from gemmsmith.kernels.repack import CHUNK, REPACK, ROWS, THREADS, packed_bytes, packed_ld, repack_launch
from gemmsmith.kernels.spec import Geometry
from gemmsmith.problem import FP16, Problem
from gemmsmith.run.device import Launch
from gemmsmith.sim.device import LoadedPtx, SimDevice
from gemmsmith.sim.memory import GlobalMemory

GUARD = 64  # elements around the target; they and all that a copy leaves alone hold this:
CANARY = 0x7E5A
LIMIT = 2**31


@dataclass(frozen=True)
class Case:
    """A copy: elements between the source and a 256-byte boundary, and how far apart rows and matrices are."""

    rows: int
    cols: int
    offset: int = 0
    source_ld: int = 0
    target_ld: int = 0
    batch: int = 1
    source_gap: int = 0
    target_gap: int = 0

    @property
    def lds(self) -> tuple[int, int]:
        return self.source_ld or self.cols, self.target_ld or packed_ld(self.cols)

    @property
    def strides(self) -> tuple[int, int]:
        """A matrix of the source begins ``source_gap`` elements after the last element of the one before."""
        source_ld, target_ld = self.lds
        return (self.rows - 1) * source_ld + self.cols + self.source_gap, self.rows * target_ld + self.target_gap


class WatchedMemory(GlobalMemory):
    """Remembers which bytes kernels read."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[tuple[Array, int]] = []

    def gather(self, addresses: Array, width: int) -> Array:
        self.reads.append((addresses.reshape(-1).copy(), width))
        return super().gather(addresses, width)

    def bytes_read(self, base: int, nbytes: int) -> Array:
        """How often each byte of an allocation was read."""
        count = np.zeros(nbytes, np.int64)
        for addresses, width in self.reads:
            for byte in range(width):
                np.add.at(count, (addresses - np.uint64(base - byte)).astype(np.int64), 1)
        return count


def compile_repack(arch: str, store: CompileCache | None = None) -> CompiledKernel:
    """As ``bind`` does."""
    return compile_for(REPACK, REPACK.config(), Problem(1, 1, 1, FP16, FP16), arch, store)


@cache
def loaded() -> LoadedPtx:
    return SimDevice().load(compile_repack("sm_90"))


def element_index(case: Case, ld: int, stride: int, cols: int) -> Array:
    """Where the elements of each matrix, row and column lie."""
    b, r, c = np.ogrid[: case.batch, : case.rows, :cols]
    return b * stride + r * ld + c


def run(case: Case, seed: int = 0) -> tuple[SimDevice, Geometry]:
    """Copy random bits, and check every element of the target's allocation and every byte that was read."""
    random = np.random.default_rng(seed)
    (source_ld, target_ld), (source_stride, target_stride) = case.lds, case.strides
    device = SimDevice(timeout=60)
    device.memory = memory = WatchedMemory()
    at = element_index(case, source_ld, source_stride, case.cols)
    source = random.integers(0, 1 << 16, case.offset + int(at.max()) + 1, np.uint16)  # ends with the matrix's last byte
    to = GUARD * 2 + element_index(case, target_ld, target_stride, packed_ld(case.cols))
    expected = np.full(int(to.max()) + 1 + GUARD, CANARY, np.uint16)

    source_base, target_base = device.allocate(source.nbytes), device.allocate(expected.nbytes)
    device.write(source_base, source.view(np.uint8))
    device.write(target_base, expected.view(np.uint8))
    geometry, arguments = repack_launch(
        case.rows, case.cols, source_base + 2 * case.offset, source_ld, target_base + 4 * GUARD, target_ld,
        batch=case.batch, source_stride=source_stride, target_stride=target_stride,
    )  # fmt: skip
    device.launch(loaded(), Launch(geometry, arguments))

    expected[to] = 0
    expected[to[..., : case.cols]] = source[case.offset + at]
    got = device.read(target_base, expected.nbytes).view(np.uint16)
    wrong = np.flatnonzero(got != expected)
    assert wrong.size == 0, f"{case}: {wrong.size} elements differ, the first at {wrong[0] - 2 * GUARD} of the target"
    owned = np.zeros(source.size, bool)
    owned[case.offset + at] = True
    read = memory.bytes_read(source_base, source.nbytes) > 0
    assert np.array_equal(read, np.repeat(owned, 2)), f"{case}: bytes read are not those of the rows"
    assert np.array_equal(device.read(source_base, source.nbytes).view(np.uint16), source)
    return device, geometry


@pytest.mark.parametrize("offset", range(8))
@pytest.mark.parametrize("cols", [1, 2, 7, 8, 9, 15, 16, 17, 23, 24, 25, 31, 32, 33, 40, 67])
def test_every_misalignment_and_every_number_of_columns(cols: int, offset: int) -> None:
    """9 rows with an odd leading dimension begin at all eight distances from a boundary."""
    run(Case(9, cols, offset, source_ld=cols + 2 - cols % 2 + 1))


@pytest.mark.parametrize("offset", [0, 1, 4, 7])
def test_one_element(offset: int) -> None:
    run(Case(1, 1, offset))


@pytest.mark.parametrize("cols", [8, 64, 128])
@pytest.mark.parametrize("source_ld", [0, 8, 1, 5])
def test_whole_chunks_at_any_leading_dimension(cols: int, source_ld: int) -> None:
    run(Case(11, cols, 3, source_ld=cols + source_ld))


@pytest.mark.parametrize(("rows", "cols"), [(1, 4093), (3, 2048), (5, 2056), (6, 4097), (2, 6144), (1, 20_001)])
@pytest.mark.parametrize("spare", [0, 16])
def test_rows_of_several_blocks(rows: int, cols: int, spare: int) -> None:
    """Of 2056 columns and others the last block has threads to spare, which must not write into the padding."""
    _, geometry = run(Case(rows, cols, 5, source_ld=cols + cols % 2 + 1, target_ld=packed_ld(cols) + spare))
    assert geometry.threads <= THREADS


@pytest.mark.parametrize("cols", [1, 13, 100])
@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_the_rows_of_a_block_and_their_neighbours(cols: int, extra: int) -> None:
    height = THREADS // (packed_ld(cols) // CHUNK) * ROWS
    _, geometry = run(Case(height + extra, cols, 1))
    assert geometry.blocks == (2 if extra == 1 else 1)


@pytest.mark.parametrize("seed", range(48))
def test_random_shapes_leading_dimensions_and_batches(seed: int) -> None:
    random = np.random.default_rng(seed)
    rows, cols = (int(np.exp(random.uniform(0, np.log(300)))) for _ in range(2))
    run(Case(
        rows, cols, offset=int(random.integers(64)), source_ld=cols + int(random.choice([0, 0, 1, 2, 3, 8, 21])),
        target_ld=packed_ld(cols) + 8 * int(random.integers(4)), batch=int(random.choice([1, 1, 2, 3, 5])),
        source_gap=int(random.integers(10)), target_gap=8 * int(random.integers(4)),
    ), seed)  # fmt: skip


def test_every_bit_pattern_survives() -> None:
    """NaN payloads, subnormals and signed zeros are bits like any others."""
    device = SimDevice()
    values = np.arange(1 << 16, dtype=np.uint16)
    source, target = device.allocate(values.nbytes), device.allocate(packed_bytes(16, 4095))
    device.write(source, values.view(np.uint8))
    geometry, arguments = repack_launch(16, 4095, source + 2, 4096, target, 4096)
    device.launch(loaded(), Launch(geometry, arguments))
    got = device.read(target, packed_bytes(16, 4095)).view(np.uint16).reshape(16, 4096)
    assert np.array_equal(got[:, :4095], values.reshape(16, 4096)[:, 1:])
    assert not got[:, 4095].any()


def test_one_matrix_for_a_whole_batch() -> None:
    device = SimDevice()
    values = np.arange(1, 36, dtype=np.uint16)
    source, target = device.allocate(values.nbytes), device.allocate(packed_bytes(5, 7, 3))
    device.write(source, values.view(np.uint8))
    geometry, arguments = repack_launch(5, 7, source, 7, target, 8, batch=3, source_stride=0, target_stride=40)
    device.launch(loaded(), Launch(geometry, arguments))
    got = device.read(target, packed_bytes(5, 7, 3)).view(np.uint16).reshape(3, 5, 8)
    assert np.array_equal(got, np.broadcast_to(np.pad(values.reshape(5, 7), ((0, 0), (0, 1))), (3, 5, 8)))


@dataclass(frozen=True)
class Large:
    """A copy of more than 2³¹ elements, of which only the last matrix's last rows are looked at."""

    rows: int
    cols: int
    source_ld: int
    target_ld: int
    batch: int = 1
    source_stride: int = 0
    target_stride: int = 0


@pytest.mark.parametrize(
    "large",
    [
        Large(LIMIT - 1, 3, 3, 8),
        Large(1, LIMIT - 1, LIMIT - 1, LIMIT),
        Large(1, LIMIT - 9, LIMIT - 9, LIMIT - 8),
        Large(3, 1100, LIMIT + 5, 1104),
        Large(3, 1100, 1103, LIMIT + 8),
        Large(2, 41, 43, 48, 3, LIMIT + 3, 96),
        Large(2, 41, 43, 48, 3, 89, LIMIT + 8),
    ],
    ids=["tall", "widest", "wide", "source_ld", "target_ld", "source_stride", "target_stride"],
)
def test_more_than_two_to_the_31_elements(large: Large) -> None:
    """Simulated pages exist once they are touched, and only the last block is launched.

    1100 columns are 138 chunks: the three rows belong to one thread, which adds leading dimensions up.
    """
    device = SimDevice()
    before = (large.batch - 1) * large.source_stride + (large.rows - 1) * large.source_ld
    behind = (large.batch - 1) * large.target_stride + (large.rows - 1) * large.target_ld
    source = device.allocate(2 * (before + large.cols))
    target = device.allocate(2 * (behind + packed_ld(large.cols)))
    tail = min(large.cols, 64)
    values = np.random.default_rng(7).integers(1, 1 << 16, tail, np.uint16)
    device.write(source + 2 * (before + large.cols - tail), values.view(np.uint8))
    geometry, arguments = repack_launch(
        large.rows, large.cols, source, large.source_ld, target, large.target_ld, batch=large.batch,
        source_stride=large.source_stride, target_stride=large.target_stride,
    )  # fmt: skip
    device.launch(loaded(), Launch(geometry, arguments), [geometry.blocks - 1])
    at = target + 2 * (behind + large.cols - tail)
    pad = packed_ld(large.cols) - large.cols
    got = device.read(at, 2 * (tail + pad)).view(np.uint16)
    assert np.array_equal(got, np.concatenate([values, np.zeros(pad, np.uint16)]))


def test_a_byte_past_the_source_is_a_fault() -> None:
    """The checks above can fail: a launch for one column more than there is runs over the allocation's end."""
    device = SimDevice()
    source, target = device.allocate(2 * 5 * 20), device.allocate(packed_bytes(5, 21))
    geometry, arguments = repack_launch(5, 20, source, 20, target, 24)
    device.launch(loaded(), Launch(geometry, arguments))
    wrong = (arguments[0], struct.pack("<i", 21), *arguments[2:])
    with pytest.raises(SimulationError, match="past the end"):
        device.launch(loaded(), Launch(geometry, wrong))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90", "sm_90a"])
def test_machine_code_moves_vectors_and_has_all_loads_in_flight(arch: str) -> None:
    compiled = compile_repack(arch)
    assert compiled.resources.stack == 0
    assert not compiled.resources.spills
    code = disassemble(compiled).instructions
    opcodes = [i.opcode for i in code]
    assert not [o for o in opcodes if o.startswith(("LDL", "STL", "LD.", "ST.", "LDS", "STS"))]
    loads = [n for n, o in enumerate(opcodes) if o.startswith("LDG.E.128")]
    stores = [n for n, o in enumerate(opcodes) if o.startswith("STG.E.128")]
    assert len(loads) == 2 * ROWS  # both granules of each chunk
    assert len(stores) == ROWS == sum(o.startswith("STG") for o in opcodes)
    assert loads[-1] < stores[0]
    pending: set[str] = set()
    for n in range(loads[0], loads[-1] + 1):  # no load waits for the result of another
        assert not pending & set(re.findall(r"\bR\d+\b", code[n].text)), code[n].text
        if n in loads:
            first = int(code[n].operands[0].removeprefix("R"))
            pending |= {f"R{first + word}" for word in range(4)}
    assert len(pending) == 4 * len(loads)


def test_compiled_once_for_an_architecture(tmp_path: object) -> None:
    store = CompileCache(f"{tmp_path}/cache")
    fresh = compile_repack("sm_90", store)
    assert not fresh.cached
    assert fresh.entry == REPACK.entry
    assert compile_repack("sm_90", store) == replace(fresh, cached=True)
    on_disk = compile_repack("sm_90", CompileCache(f"{tmp_path}/cache"))
    assert on_disk == replace(fresh, cached=True)
    assert store.info().entries == 1
    assert compile_repack("sm_80", store).key != fresh.key


@pytest.mark.parametrize(("cols", "expected"), [(1, 8), (7, 8), (8, 8), (9, 16), (4093, 4096)])
def test_packed_sizes(cols: int, expected: int) -> None:
    assert packed_ld(cols) == expected
    assert packed_bytes(3, cols, 2) == 2 * 3 * expected * 2


def test_the_specification_launches_operand_a() -> None:
    plain = Problem(100, 50, 30, dtype=FP16)
    assert REPACK.geometry(plain, REPACK.config()) == repack_launch(100, 30, 0, 30, 0, 32)[0]
    turned = plain.with_(trans_a=True)
    assert REPACK.geometry(turned, REPACK.config()) == repack_launch(30, 100, 0, 100, 0, 104)[0]


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"rows": 0}, ProblemError, "rows=0 leaves nothing to copy"),
        ({"cols": 0}, ProblemError, "cols=0 leaves nothing to copy"),
        ({"batch": 0}, ProblemError, "batch=0 leaves nothing to copy"),
        ({"rows": LIMIT}, ProblemError, "rows=2,147,483,648 exceeds"),
        ({"cols": LIMIT}, ProblemError, "cols=2,147,483,648 exceeds"),
        ({"batch": 65_536, "target_stride": 64}, UnsupportedError, "65,535 matrices at most"),
        ({"source": 4097}, ProblemError, "source at 0x1001 does not start on 2 bytes"),
        ({"source_ld": 9}, ProblemError, "leading dimension 9 is less than its 10 columns"),
        ({"target": 8200}, ProblemError, "target at 0x2008 does not start on 16 bytes"),
        ({"target_ld": 17}, ProblemError, "leading dimension 17 is no multiple of 8 from 16 on"),
        ({"target_ld": 8}, ProblemError, "leading dimension 8 is no multiple of 8 from 16 on"),
        ({"batch": 2}, ProblemError, "stride 0 is no multiple of 8 from 64 on"),
        ({"batch": 2, "target_stride": 68}, ProblemError, "stride 68 is no multiple"),
        ({"batch": 2, "target_stride": 56}, ProblemError, "stride 56 is no multiple"),
        ({"rows": LIMIT - 1, "cols": LIMIT - 1, "source_ld": LIMIT, "target_ld": LIMIT}, UnsupportedError, "a grid"),
    ],
)
def test_what_cannot_be_copied_is_refused(changes: dict[str, int], error: type[Exception], words: str) -> None:
    arguments = {"rows": 4, "cols": 10, "source": 4096, "source_ld": 10, "target": 8192, "target_ld": 16}
    repack_launch(**arguments)
    with pytest.raises(error, match=words):
        repack_launch(**(arguments | changes))
