"""simt_best with TRANSPOSED_COPY: operands transposed by a launch before it; the bits are those without it.

All memory here ends where its matrix does, so that the simulator faults at whatever is read or written behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace

import numpy as np
import pytest
from rung_launch import aligned, compiler
from test_simt_best import LAYOUTS, TEAMS, problem, small

from gemmsmith.call.binding import bind, specialized_config, workspace_bytes
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.compile.compiler import compile_for
from gemmsmith.compile.sass import disassemble
from gemmsmith.errors import UnsupportedError
from gemmsmith.fills import Array, operands
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import Addresses, KernelSpec
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import Problem
from gemmsmith.prologue.build import build_prologue
from gemmsmith.prologue.transpose import TRANSPOSE, TransposeOperand, transpose_launch, transpose_operands
from gemmsmith.run.device import Launch
from gemmsmith.run.memory import Damage, GuardedMatrix
from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.schedule import schedule_named
from gemmsmith.verify.harness import SIMULATOR_GUARD_BYTES

FRESH = Addresses(1 << 20, 1 << 30, 1 << 40)
WORKSPACE = 1 << 41
OFF = (1, 3, 1)  # elements behind a boundary of 256 bytes


def both(**changes: int) -> tuple[KernelSpec, Config, Config]:
    """The rung without and with TRANSPOSED_COPY."""
    return *small(**changes), small(**changes, TRANSPOSED_COPY=1)[1]


def product(
    spec: KernelSpec, config: Config, p: Problem, offsets: Sequence[int] = (0, 0, 0)
) -> tuple[Array, list[str]]:
    """C, and the names of the kernels launched for it, in an order of warps that shows missing synchronization."""
    device = SimDevice(schedule=schedule_named("reversed", 0, late_copies=True), hazards=True)
    data = operands(p, "normal", seed=5)
    with ExitStack() as stack:
        matrices = [
            stack.enter_context(GuardedMatrix.create(device, values.shape, ld, p.dtype, offset, name=name,
                                                     guard_bytes=SIMULATOR_GUARD_BYTES))
            for name, values, ld, offset in zip("ABC", (data.a, data.b, data.c), (p.lda, p.ldb, p.ldc), offsets,
                                                strict=True)
        ]  # fmt: skip
        a, b, c = matrices
        for matrix, values in zip(matrices, (data.a, data.b, data.c), strict=True):
            matrix.upload(values)
        addresses = Addresses(a.address, b.address, c.address)
        workspace = device.allocate(workspace_bytes(spec, config, p, addresses))
        names: list[str] = []

        def named(of: KernelSpec, chosen: Config, seen: Problem, arch: str) -> CompiledKernel:
            names.append(f"{of.name} {seen.layout} {dict(chosen).get('ALIGNED', '')}".rstrip())
            return compiler(of, chosen, seen, arch)

        for step in bind(device, spec, config, p, addresses, workspace, named):
            device.launch(step.loaded, step.launch)
        damage: tuple[Damage, ...] = a.damage(is_input=True) + b.damage(is_input=True)
        after = c.read_back(is_input=False)
        assert not damage + after.damage
    return after.values, sorted(names)


def same_bits(p: Problem, offsets: Sequence[int] = (0, 0, 0), **changes: int) -> list[str]:
    """The kernels launched with TRANSPOSED_COPY."""
    spec, plain, transposed = both(**changes)
    expected, _ = product(spec, plain, p, offsets)
    got, names = product(spec, transposed, p, offsets)
    assert np.array_equal(got, expected)
    return names


# --- the same bits


@pytest.mark.parametrize("layout", LAYOUTS)
def test_aligned_operands(layout: str) -> None:
    """Ragged on all sides, and more than a tile of 64 x 64 in N."""
    names = same_bits(aligned(problem((31, 69, 22), layout, alpha=0.7, beta=-1.0)))
    assert names == (["simt_best TN 1"] if layout == "TN" else ["simt_best TN 1", "transpose NN"])


@pytest.mark.parametrize("layout", ["NN", "TN"])
def test_operands_that_are_not_aligned(layout: str) -> None:
    """Neither the first row nor the step from row to row is aligned."""
    p = problem((31, 66, 19), layout, beta=1.0)
    assert same_bits(replace(p, lda=p.lda + 2, ldc=p.ldc + 1), OFF) == ["simt_best TN 1", "transpose NN"]


@pytest.mark.parametrize("shape", [(1, 1, 1), (3, 2, 7), (64, 64, 64), (130, 3, 4)], ids=str)
def test_other_shapes(shape: tuple[int, int, int]) -> None:
    same_bits(problem(shape))


@pytest.mark.parametrize(("layout", "broadcast"), [("NN", "stride_b"), ("TN", "stride_a"), ("NN", "")])
@pytest.mark.parametrize("offsets", [(0, 0, 0), OFF], ids=str)
def test_a_batch(layout: str, broadcast: str, offsets: tuple[int, int, int]) -> None:
    """With one operand broadcast, or none."""
    p = problem((33, 66, 21), layout, alpha=0.5, beta=0.5, batch=3)
    same_bits(replace(p, **{broadcast: 0}) if broadcast else p, offsets)


@pytest.mark.parametrize("changes", [TEAMS, {"SHARERS": 5, **TEAMS}], ids=str)
def test_shared_sums(changes: dict[str, int]) -> None:
    """The flags are zeroed, and transposed operands lie behind the partial sums."""
    names = same_bits(problem((31, 70, 27), "NT", alpha=0.7, beta=-1.0, batch=2), OFF, **changes)
    assert ("zero_workspace NN" in names) == ("SHARERS" in changes)
    assert {"simt_best TN 1", "transpose NN"} <= set(names)


# --- the launch before it


def stored(values: Array, ld: int) -> Array:
    """Rows ``ld`` apart, with NaN between them and nothing after the last."""
    rows = np.full((values.shape[0], ld), np.nan, np.float32)
    rows[:, : values.shape[1]] = values
    return rows.reshape(-1)[: rows.size - ld + values.shape[1]]


def transposed_alone(p: Problem, offset: int = 0) -> SimDevice:
    """Transpose A and B without a product, and check every number."""
    device = SimDevice(schedule=schedule_named("reversed", 0), hazards=True, count=True)
    data = operands(p, "normal", seed=7)
    places = []
    for values, ld in ((data.a, p.lda), (data.b, p.ldb)):
        exact = stored(values, ld)
        places.append(device.allocate(4 * offset + exact.nbytes) + 4 * offset)
        device.write(places[-1], exact.view(np.uint8))
    both_lines = transpose_operands(p, *places)
    targets = [device.allocate(lines.packed_bytes) for lines in both_lines]
    loaded = device.load(compiler(TRANSPOSE, TRANSPOSE.config(), Problem(1, 1, 1), device.arch))
    device.launch(loaded, Launch(*transpose_launch(*both_lines, *targets)))
    for lines, target, values in zip(both_lines, targets, (data.a, data.b), strict=True):
        if not lines.is_ready:
            check_lines(lines, device.read(target, lines.packed_bytes).view(np.float32), values)
    return device


def check_lines(lines: TransposeOperand, found: Array, values: Array) -> None:
    rows, columns = lines.packed_shape
    got = found.reshape(lines.copies, rows, lines.packed_ld)[..., :columns]
    expected = values.reshape(lines.copies, *lines.shape)
    assert np.array_equal(got, expected.swapaxes(1, 2) if lines.k_major else expected)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_number_is_where_it_must_be(layout: str) -> None:
    transposed_alone(problem((67, 130, 65), layout, batch=2), offset=1)
    transposed_alone(replace(problem((67, 130, 65), layout, batch=2), stride_a=0), offset=3)
    transposed_alone(replace(problem((67, 130, 65), layout, batch=2), stride_b=0))
    if layout != "TN":
        transposed_alone(aligned(problem((67, 130, 128), layout)))  # vectors, and rows that are not there


def test_no_bank_conflicts_and_vectors_in_both_directions() -> None:
    """Aligned operands: 16 bytes per thread and access, in the fewest wavefronts."""
    device = transposed_alone(problem((128, 64, 128), "NT"))
    counters = device.counters
    assert counters is not None
    requests: dict[str, int] = {}
    wasted = 0
    for operation, count in counters.items():
        if operation.space in ("shared", "global"):
            name = operation.profiled.mix.value
            requests[name] = requests.get(name, 0) + count.requests
            wasted += count.wavefronts - count.groups if operation.space == "shared" else 0
    warps = 8 * (4 + 2)  # of six tiles
    assert {name: n for name, n in requests.items() if n} == dict.fromkeys(
        ("global load", "global store", "shared load", "shared store"), 4 * warps
    )
    assert wasted == 0


# --- the prologue


def test_no_launch_where_nothing_must_be_transposed() -> None:
    spec, plain, transposed = both()
    fine = problem((36, 68, 40), "TN")
    for config, p in (
        (plain, problem((35, 69, 37), "NT")), (transposed, fine), (transposed, fine.with_(batch=3)),
        (transposed, problem((35, 69, 37), "NT", alpha=0.0)), (transposed, problem((35, 69, 0), "NT")),
    ):  # fmt: skip
        ready = build_prologue(spec, config, p, FRESH, WORKSPACE)
        assert (ready.problem, ready.addresses, ready.nbytes, ready.launches, ready.workspace) == (p, FRESH, 0, (), 0)


@pytest.mark.parametrize(("address", "changes"), [
    (FRESH._replace(a=FRESH.a + 4), {}), (FRESH._replace(a=FRESH.a + 8), {}), (FRESH, {"lda": 38}),
    (FRESH, {"batch": 2, "stride_a": 36 * 40 + 1}),
], ids=str)  # fmt: skip
def test_unaligned_rows_are_copied(address: Addresses, changes: dict[str, int]) -> None:
    """A alone, as B is ready."""
    spec, _, config = both()
    p = problem((36, 68, 40), "TN").with_(**changes)
    ready = build_prologue(spec, config, p, address, WORKSPACE)
    assert (ready.addresses.a, ready.addresses.b) == (WORKSPACE, FRESH.b)
    assert (ready.problem.layout, ready.problem.lda, ready.problem.stride_a) == ("TN", 36, (p.batch > 1) * 36 * 40)
    assert specialized_config(spec, config, p, address)["ALIGNED"] == 1
    assert spec.specialize(config, p, address[:3])["ALIGNED"] == 0


def test_the_workspace() -> None:
    """Rows of whole vectors, in regions of 256 bytes, behind the partial sums."""
    spec, _, config = both()
    p = problem((4096, 4096, 4096), "NT")
    assert workspace_bytes(spec, config, p, FRESH) == 2 * 4096 * 4096 * 4
    assert workspace_bytes(spec, config, p.with_(trans_a=True), FRESH) == 4096 * 4096 * 4
    p = problem((33, 66, 7), "NT", batch=3)
    a, b = 7 * 36 * 4, 7 * 68 * 4
    assert workspace_bytes(spec, config, p, FRESH) == 3072 + 5888  # 3·a and 3·b, rounded up
    assert (3 * a, 3 * b) == (3024, 5712)
    # With one B it is one product of 99 rows: 7 * 100 * 4 and b bytes, rounded up.
    assert workspace_bytes(spec, config, replace(p, stride_b=0), FRESH) == 2816 + 2048
    shared = small(SHARERS=5, TRANSPOSED_COPY=1)[1]
    start = 4096 + 4 * 3 * 5 * 2 * 32 * 64
    ready = build_prologue(spec, shared, p, FRESH, WORKSPACE)
    assert [each.spec.name for each in ready.launches] == ["zero_workspace", "transpose"]
    assert ready.addresses == Addresses(WORKSPACE + start, WORKSPACE + start + 3072, FRESH.c)
    assert (ready.nbytes, ready.workspace) == (start + 3072 + 5888, WORKSPACE)
    assert (ready.problem.layout, ready.problem.lda, ready.problem.ldb) == ("TN", 36, 68)
    assert (ready.problem.stride_a, ready.problem.stride_b) == (7 * 36, 7 * 68)


def test_blocks_and_shared_memory() -> None:
    """One block per 64 x 64 tile; a batch with one B is one product; no padding in the kernel's k-tiles."""
    spec, plain, config = both()
    p = problem((65, 128, 200), "NT", batch=3)
    before = build_prologue(spec, config, replace(p, stride_b=0), FRESH).launches
    assert [(each.geometry.grid, each.geometry.pdl) for each in before] == [((4 * 4 + 2 * 4, 1, 1), True)]
    k_tiles = 3 * 8 * 4 * (32 + 64)
    assert [spec.geometry(p, c).smem for c in (plain, config)] == [k_tiles + 3 * 8 * 4 * 8, k_tiles]
    assert spec.geometry(p.with_(trans_a=True, trans_b=False), plain).smem == k_tiles
    with pytest.raises(UnsupportedError, match="blocks exceed"):
        build_prologue(spec, config, problem((2**24, 1, 2**24)), FRESH)


# --- the machine code


@pytest.mark.parametrize("arch", ["sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"])
def test_no_spills(arch: str) -> None:
    used = compile_for(TRANSPOSE, TRANSPOSE.config(), Problem(1, 1, 1), arch).resources
    assert (used.spill_stores, used.spill_loads, used.stack, used.static_smem) == (0, 0, 0, 64 * 64 * 4)
    assert used.registers <= 48


def test_transpose_waits_for_the_launch_before_and_keeps_loads_together() -> None:
    code = disassemble(compile_for(TRANSPOSE, TRANSPOSE.config(), Problem(1, 1, 1), "sm_90")).instructions
    names = [i.base for i in code]
    assert not {"LDG", "STG"} & set(names[: names.index("ACQBULK")])
    wide = [n for n, i in enumerate(code) if i.base == "LDG" and ".128" in i.opcode]
    assert wide == list(range(wide[0], wide[0] + 4))
    assert sum(i.base == "STG" and ".128" in i.opcode for i in code) == names.count("STG") == 8
    assert rung_named("simt_best").prologue is None  # what it computes does not depend on the data
