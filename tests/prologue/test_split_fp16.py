"""fp32 numbers split into two fp16 numbers with a scale per line: the parts bit by bit, and the verdict on them."""

from __future__ import annotations

import math
import random
import struct
from dataclasses import dataclass, replace

import numpy as np
import pytest
from rung_launch import compiler
from split_fp16_rule import Lines, accepted, split

from gemmsmith.compile.compiler import compile_for
from gemmsmith.compile.sass import disassemble
from gemmsmith.errors import UnsupportedError
from gemmsmith.fills import Array
from gemmsmith.kernel.spec import Addresses, KernelSpec, Prologue
from gemmsmith.problem import Problem
from gemmsmith.prologue.build import region_bytes
from gemmsmith.prologue.split_fp16 import (
    CLUSTER,
    KEPT,
    SPLIT_FP16,
    SPLIT_FP16_CLUSTER,
    VERDICT_BYTES,
    fp16_accepted,
    split_fp16,
)
from gemmsmith.prologue.zero_workspace import FLAG_BYTES
from gemmsmith.run.device import Launch
from gemmsmith.run.memory import upload
from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.schedule import schedule_named

LAYOUTS = ("NN", "NT", "TN", "TT")


@dataclass(frozen=True)
class Split:
    """What a launch left in its workspace; parts and exponents by matrix, lines as rows."""

    prepared: Prologue
    verdict: bytes
    a: list[Lines]
    b: list[Lines]


def launched(problem: Problem, a: Array, b: Array, offsets: tuple[int, int] = (0, 0), order: str = "lockstep") -> Split:
    """A and B as flat numbers from their addresses on, shifted by ``offsets`` elements off 256 bytes."""
    device = SimDevice(schedule=schedule_named(order, 1), hazards=True)
    pairs = zip(offsets, (a, b), strict=True)
    shifted = [np.concatenate([np.full(by, np.nan, np.float32), data.ravel()]) for by, data in pairs]
    at = [upload(device, data) + 4 * by for by, data in zip(offsets, shifted, strict=True)]
    addresses = Addresses(at[0], at[1], 0)
    size = split_fp16(problem, addresses, 0).nbytes
    workspace = device.allocate(size)
    device.write(workspace, np.full(size, 0xA5, np.uint8))
    prepared = split_fp16(problem, addresses, workspace)
    for each in prepared.launches:
        loaded = device.load(compiler(each.spec, each.spec.config(), each.compiled_for, device.arch))
        device.launch(loaded, Launch(each.geometry, each.arguments))
        device.synchronize()
    many_a, many_b, _ = problem.copies
    exponents = workspace + FLAG_BYTES
    found = [
        _lines(device, prepared.addresses.a, exponents, problem.a_shape, many_a, problem.trans_a),
        _lines(device, prepared.addresses.b, exponents + 4 * many_a * problem.m, problem.b_shape, many_b,
               not problem.trans_b),
    ]  # fmt: skip
    return Split(prepared, device.read(workspace, VERDICT_BYTES).tobytes(), *found)


def _lines(device: SimDevice, planes: int, exponents: int, shape: tuple[int, int], copies: int,
           across: bool) -> list[Lines]:  # fmt: skip
    rows, cols = shape
    ld, lines = -(-cols // 8) * 8, cols if across else rows
    data = device.read(planes, copies * 2 * rows * ld * 2).view(np.float16).reshape(copies, 2, rows, ld)
    assert not data[..., cols:].view(np.uint16).any(), "padding is +0"
    scales = device.read(exponents, copies * lines * 4).view(np.int32).reshape(copies, lines)
    parts = data[..., :cols].swapaxes(-1, -2) if across else data[..., :cols]
    return [Lines(p[0], p[1], s.tolist(), 0, 0, True) for p, s in zip(parts, scales, strict=True)]


def same(found: Lines, values: Array) -> bool:
    expected = split(values)
    pairs = ((found.high, expected.high), (found.low, expected.low))
    return found.exponents == expected.exponents and all(
        np.array_equal(np.ascontiguousarray(x).view(np.uint16), np.ascontiguousarray(y).view(np.uint16))
        for x, y in pairs
    )


def anything(shape: tuple[int, int], seed: int) -> Array:
    """Any finite numbers: subnormal ones, zeros of both signs, up to the largest; and lines of one kind only."""
    random = np.random.default_rng(seed)
    patterns = random.integers(0, 2**32, shape, dtype=np.uint32)
    patterns[(patterns >> 23) & 255 == 255] &= np.uint32(0x807FFFFF)  # subnormal instead of NaN
    values = patterns.view(np.float32).copy()
    values[random.random(shape) < 0.1] = -0.0
    values[0] = 0.0
    values[1 % len(values)] = -(2.0**-149)
    values[2 % len(values)] = np.float32(3.4028235e38)
    values[3 % len(values)] = random.standard_normal(shape[1]) * 2.0**-140
    values[4 % len(values)] = random.standard_normal(shape[1])
    return values


def stored(lines: Array, across: bool, ld: int) -> Array:
    """As stored in memory, with NaN between rows."""
    rows = lines.T if across else lines
    padded = np.full((len(rows), ld), np.nan, np.float32)
    padded[:, : rows.shape[1]] = rows
    return padded


@pytest.mark.parametrize(("layout", "shape", "more"), [
    ("NN", (37, 41, 53), (0, 0)), ("NT", (5, 70, 1), (1, 2)), ("TN", (33, 9, 19), (3, 0)), ("TT", (64, 65, 40), (0, 5)),
    ("NT", (3, 6, 1100), (0, 1)), ("TN", (2, 1, 1100), (1, 0)), ("NN", (1, 1, 1), (0, 0)),
])  # fmt: skip
def test_parts_and_exponents_to_the_bit(layout: str, shape: tuple[int, int, int], more: tuple[int, int]) -> None:
    """Every orientation; lines for one warp, for several, and for more threads than there are numbers."""
    m, n, k = shape
    tight = Problem(m, n, k, trans_a=layout[0] == "T", trans_b=layout[1] == "T")
    p = replace(tight, lda=tight.lda + more[0], ldb=tight.ldb + more[1])
    a, b = anything((m, k), 1), anything((n, k), 2)
    found = launched(p, stored(a, p.trans_a, p.lda), stored(b, not p.trans_b, p.ldb), offsets=(1, 3))
    assert same(found.a[0], a)
    assert same(found.b[0], b)
    assert fp16_accepted(found.verdict) == accepted(split(a), split(b))


def test_in_another_order_of_warps() -> None:
    a, b = anything((3, 600), 1), anything((40, 600), 2)
    found = launched(Problem(3, 40, 600), a, np.ascontiguousarray(b.T), order="reversed")
    assert same(found.a[0], a)
    assert same(found.b[0], b)


@pytest.mark.parametrize(("layout", "shape", "more"), [
    ("NT", (2, 1, 8301), (3, 1)), ("TN", (9, 18, 1100), (3, 2)), ("NT", (3, 9, 1023), (1, 2)),
    ("TN", (18, 4, 511), (2, 0)),
])  # fmt: skip
def test_with_more_and_with_fewer_numbers_than_registers_hold(
    layout: str, shape: tuple[int, int, int], more: tuple[int, int]
) -> None:
    """Rows that start on 16 bytes and end within; of the first two problems, numbers are read twice."""
    m, n, k = shape
    tight = Problem(m, n, k, trans_a=layout[0] == "T", trans_b=layout[1] == "T")
    p = replace(tight, lda=tight.lda + more[0], ldb=tight.ldb + more[1])
    a, b = anything((m, k), 3), anything((n, k), 4)
    a[:, k - 1] = 2.0**127  # the largest number is the last one
    found = launched(p, stored(a, p.trans_a, p.lda), stored(b, not p.trans_b, p.ldb))
    assert same(found.a[0], a)
    assert same(found.b[0], b)
    words = [word for each in (split(a), split(b)) for word in (each.lost, 2**31 - 1 - each.large)]
    assert list(struct.unpack("<4i", found.verdict)) == words


def test_a_batch_with_one_b_for_all() -> None:
    p = Problem(9, 11, 33, batch=3, stride_a=9 * 33 + 5, stride_b=0)
    random = np.random.default_rng(3)
    a, b = random.standard_normal((3, 9, 33)).astype(np.float32), random.standard_normal((33, 11)).astype(np.float32)
    a[1] *= 2.0**-130
    padded = np.full((3, p.stride_a), np.nan, np.float32)
    padded[:, : 9 * 33] = a.reshape(3, -1)
    found = launched(p, padded, b)
    assert fp16_accepted(found.verdict)
    assert (len(found.a), len(found.b)) == (3, 1)
    assert all(same(each, lines) for each, lines in zip(found.a, a, strict=True))
    assert same(found.b[0], b.T)
    assert (found.prepared.problem.stride_a, found.prepared.problem.stride_b) == (2 * 9 * 40, 0)
    a[2, 4, 7] = math.inf
    padded[:, : 9 * 33] = a.reshape(3, -1)
    assert not fp16_accepted(launched(p, padded, b).verdict), "one verdict for all products"


def test_what_two_parts_hold() -> None:
    """At most 2**−23 of a number is lost, or 2**−39 of its line's largest."""
    for seed in range(3):
        values = anything((50, 64), seed)
        found = split(values)
        exact = np.ldexp(values.astype(np.float64), np.array(found.exponents)[:, None])
        lost = np.abs(exact - found.high.astype(np.float64) - found.low.astype(np.float64))
        most = np.abs(exact).max(axis=1, keepdims=True)
        assert (lost <= np.maximum(2.0**-23 * np.abs(exact), 2.0**-39 * most)).all()
        assert ((most == 0) | ((most >= 2.0**14) & (most < 2.0**15))).all()


# --- the verdict


def drawn(kind: int, shape: tuple[int, int], random: np.random.Generator) -> Array:
    """Lines of many kinds: dense, sparse, over few binades and over many, with zeros, constant."""
    values = random.standard_normal(shape)
    if kind % 5 == 1:
        values = values * 2.0 ** random.uniform(-random.uniform(1, 24), 0, shape)
    if kind % 5 == 2:
        values[random.random(shape) < random.uniform(0, 0.9)] = 0
    if kind % 5 == 3:
        values = np.ones(shape) * random.choice([1.0, -3.0, 0.0], (shape[0], 1))
        values[random.random(shape) < random.uniform(0, 0.04)] = 2.0 ** -random.integers(1, 16)
    if kind % 5 == 4:
        values = random.uniform(0.5, 1, shape)
        values[:, random.integers(0, shape[1])] = 2.0 ** -random.integers(11, 15)
    return values.astype(np.float32)


def test_the_verdict_is_that_of_counting() -> None:
    random = np.random.default_rng(7)
    seen = []
    for i in range(36):
        k = int(random.choice([32, 33, 64, 100, 200]))
        a, b = drawn(i, (4, k), random), drawn(i // 5, (3, k), random)
        expected = accepted(split(a), split(b))
        found = launched(Problem(4, 3, k, trans_b=True), a, b)
        words = struct.unpack("<4i", found.verdict)
        assert words[0] == split(a).lost
        assert words[2] == split(b).lost
        assert fp16_accepted(found.verdict) == expected
        seen.append(expected)
    assert 8 < sum(seen) < 28


@pytest.mark.parametrize(("small", "large", "expected"), [(1, 32, True), (1, 31, False), (2, 64, True), (2, 63, False)])
def test_where_the_line_is_drawn(small: int, large: int, expected: bool) -> None:
    """With S small numbers in a row of A, 32·S large ones in every column of B are enough."""
    a, b = np.ones((2, 70), np.float32), np.full((3, 70), 1 / 32, np.float32)
    a[1, :small] = 2.0**-13 - 2.0**-30
    b[:, :large] = 1 / 16
    b[:, 0] = 1
    for p, left, right in ((Problem(2, 3, 70, trans_b=True), a, b), (Problem(3, 2, 70, trans_b=True), b, a)):
        assert fp16_accepted(launched(p, left, right).verdict) == expected
    a[1, :small] = 2.0**-13  # no longer small
    assert fp16_accepted(launched(Problem(2, 3, 70, trans_b=True), a, b).verdict)


@pytest.mark.parametrize("layout", ["NT", "TN"])
def test_the_worst_line_decides_wherever_it_is(layout: str) -> None:
    """In any block: the row with most small numbers, the column with fewest large ones."""
    p = Problem(40, 50, 64, trans_a=layout[0] == "T", trans_b=layout[1] == "T")
    for row, column in ((0, 49), (21, 22), (39, 0)):
        a, b = np.ones((40, 64), np.float32), np.ones((50, 64), np.float32)
        a[row, 5] = 2.0**-20
        b[column, 30:] = 1 / 32
        stored_a, stored_b = stored(a, p.trans_a, p.lda), stored(b, not p.trans_b, p.ldb)
        found = launched(p, stored_a, stored_b)
        assert struct.unpack("<4i", found.verdict) == (1, 2**31 - 1 - 63, 0, 2**31 - 1 - 30)
        assert not fp16_accepted(found.verdict)


def test_zeros_count_beside_small_numbers_only() -> None:
    a, b = np.ones((2, 64), np.float32), np.ones((2, 64), np.float32)
    p = Problem(2, 2, 64, trans_b=True)
    a[0, :60] = 0
    assert fp16_accepted(launched(p, a, b).verdict)
    a[0, 61] = 2.0**-20
    assert not fp16_accepted(launched(p, a, b).verdict)
    a[0], b[1] = 0, 0
    assert fp16_accepted(launched(p, a, b).verdict), "lines of zeros are exact"


@pytest.mark.parametrize("layout", ["NT", "TN"])
def test_a_number_that_underflows_is_not_a_zero(layout: str) -> None:
    """2**-100 beside 2**120 becomes zero when it is scaled; against zeros of the other operand it may count alone."""
    p = Problem(3, 4, 40, trans_a=layout[0] == "T", trans_b=layout[1] == "T")
    for side in range(2):
        both = [np.full(p.a_shape, 2.0**120, np.float32), np.full(p.b_shape, 2.0**120, np.float32)]
        both[1 - side].reshape(-1)[:] = 1
        both[1 - side][(slice(0, 20) if (p.trans_a, not p.trans_b)[1 - side] else (slice(None), slice(0, 20)))] = 0
        assert fp16_accepted(launched(p, *both).verdict)
        both[side][1, 1] = 2.0**-100
        assert not fp16_accepted(launched(p, *both).verdict)


@pytest.mark.parametrize(("k", "expected"), [(31, False), (32, True)])
def test_short_sums_are_refused(k: int, expected: bool) -> None:
    found = launched(Problem(2, 3, k, trans_b=True), np.ones((2, k), np.float32), np.ones((3, k), np.float32))
    assert fp16_accepted(found.verdict) == expected


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("layout", ["NN", "TT"])
def test_infinities_and_nan_are_refused(value: float, layout: str) -> None:
    p = Problem(3, 4, 40, trans_a=layout[0] == "T", trans_b=layout[1] == "T")
    for side in range(2):
        operands = [np.ones(p.a_shape, np.float32), np.zeros(p.b_shape, np.float32)]
        assert fp16_accepted(launched(p, *operands).verdict)
        operands[side][2, 2] = value
        assert not fp16_accepted(launched(p, *operands).verdict)


# --- where it lies


def test_regions_of_the_workspace_do_not_overlap() -> None:
    p = Problem(100, 60, 33, batch=2, trans_a=True)
    found = split_fp16(p, Addresses(4, 4, 0), 0x10000)
    begin = 0x10000 + FLAG_BYTES + region_bytes(4 * 2 * 160)
    assert found.addresses[:2] == (begin, begin + region_bytes(2 * 2 * 33 * 104 * 2))
    assert found.nbytes == found.addresses.b + region_bytes(2 * 2 * 33 * 64 * 2) - 0x10000
    assert (found.problem.lda, found.problem.ldb) == (104, 64)
    assert (found.problem.stride_a, found.problem.stride_b) == (2 * 33 * 104, 2 * 33 * 64)
    assert found.workspace == 0x10000
    assert [each.spec.name for each in found.launches] == ["zero_workspace", "split_fp16"]


def test_long_blocks_come_first() -> None:
    """If A is K-major and B is not, B comes first."""
    for layout, first in (("NN", "b"), ("NT", "a"), ("TN", "a"), ("TT", "a")):
        p = Problem(40, 50, 60, trans_a=layout[0] == "T", trans_b=layout[1] == "T")
        described = split_fp16(p, Addresses(0x100, 0x200, 0), 0).launches[1].arguments
        assert struct.unpack_from("<Q", described[0])[0] == (0x100 if first == "a" else 0x200)


def test_a_grid_has_an_end() -> None:
    with pytest.raises(UnsupportedError, match="blocks exceed"):
        SPLIT_FP16.geometry(Problem(2**31 - 1, 4, 4, batch=65_535), SPLIT_FP16.config())


# --- in clusters, without a GPU that has them


def fields(described: bytes) -> tuple[int, int, int, int, int]:
    """Lines, K, threads of a line, blocks of a matrix and of all."""
    lines, depth, span, blocks, total = struct.unpack_from("<5I", described, 48)
    return lines, depth, span, blocks, total


@pytest.mark.parametrize("seed", range(40))
def test_a_cluster_has_blocks_of_one_operand_and_all_lines_have_theirs(seed: int) -> None:
    dice = random.Random(seed)
    m, n, k = (dice.choice((1, 7, 16, 17, 130, 300, 4097)) for _ in range(3))
    p = Problem(m, n, k, trans_a=dice.random() < 0.5, trans_b=dice.random() < 0.5, batch=dice.choice((1, 3, 5)),
                stride_a=dice.choice((-1, 0)), stride_b=dice.choice((-1, 0)))  # fmt: skip
    split_pass = split_fp16(p, Addresses(1 << 20, 1 << 30, 0), 1 << 40, clusters=True).launches[1]
    geometry = split_pass.geometry
    assert split_pass.spec is SPLIT_FP16_CLUSTER
    assert geometry == SPLIT_FP16_CLUSTER.geometry(p, SPLIT_FP16_CLUSTER.config())
    assert geometry.cluster == (CLUSTER, 1, 1)
    begin = 0
    owed = sorted((p.m * p.copies[0], p.n * p.copies[1]))
    done = []
    for described in split_pass.arguments:
        assert begin % CLUSTER == 0
        lines, _, span, blocks, total = fields(described)
        copies = total // blocks
        each, sharers = (256 // span, 1) if span else (16, CLUSTER)
        assert blocks % sharers == 0, "no cluster has blocks of two matrices that wait for each other"
        assert (blocks // sharers - 1) * each < lines <= blocks // sharers * each
        done.append(lines * copies)
        begin += -(-total // CLUSTER) * CLUSTER
    assert geometry.grid == (begin, 1, 1)
    assert sorted(done) == owed


def test_both_kernels_leave_the_same_in_the_same_places() -> None:
    p = Problem(100, 60, 33, batch=2, trans_a=True)
    one, many = (split_fp16(p, Addresses(4, 4, 0), 0x10000, clusters) for clusters in (False, True))
    assert replace(one, launches=()) == replace(many, launches=())
    assert one.launches[1].spec is SPLIT_FP16
    assert one.launches[1].geometry.cluster == (1, 1, 1)
    for left, right in zip(one.launches[1].arguments, many.launches[1].arguments, strict=True):
        assert left[:60] == right[:60], "all but the numbers of blocks"


@pytest.mark.parametrize(("spec", "arch"), [
    (SPLIT_FP16, "sm_80"), (SPLIT_FP16, "sm_90"), (SPLIT_FP16_CLUSTER, "sm_90"),
], ids=["sm_80", "sm_90", "sm_90 in clusters"])  # fmt: skip
def test_the_machine_code(spec: KernelSpec, arch: str) -> None:
    """Numbers stay in registers, few enough for 768 threads; all loads of a thread are in flight together."""
    compiled = compile_for(spec, spec.config(), Problem(1, 1, 1), arch)
    used = compiled.resources
    assert (used.spill_stores, used.spill_loads, used.stack) == (0, 0, 0)
    assert used.registers <= 85
    code = disassemble(compiled)
    names = "".join(
        "L" if i.opcode.startswith("LDG.E.128") else "u" if i.base in ("IMNMX", "VIMNMX", "VIMNMX3", "FMUL") else ""
        for i in code.instructions
    )
    bursts = {len(burst) for burst in names.split("u") if burst}
    assert bursts == {KEPT}, "of walks for the largest, and to split"
    clusters = spec is SPLIT_FP16_CLUSTER
    # One of each for either operand; and largest numbers and counts are told.
    found = {name: code.counts[name] for name in ("UCGABAR_ARV", "UCGABAR_WAIT", "STAS")}
    assert found == {"UCGABAR_ARV": 2 * clusters, "UCGABAR_WAIT": 2 * clusters, "STAS": 4 * clusters}
    assert ("cluster" in compiled.ptx) == clusters, "the simulator knows none"
    assert code.counts["MEMBAR"] <= 2 * clusters
