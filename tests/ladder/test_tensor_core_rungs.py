"""The tensor-core rungs: exact in every type and layout, aligned or not, without bank conflicts, races or spills."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from rung_launch import assembling, compiler, launched, verified

from gemmsmith.compile.nvrtc import compile_request
from gemmsmith.compile.render import render_kernel
from gemmsmith.compile.toolchain import find_toolchain
from gemmsmith.errors import ConfigError, SimulationError
from gemmsmith.fills import Array, Operands, operands
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import BF16, DTYPES, FP16, FP32, INT8, OUTPUTS, TF32, DType, Problem
from gemmsmith.run.device import Launch
from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.schedule import schedule_named

RUNGS = ("wmma", "mma_swizzled", "mma_pipelined")
LAYOUTS = ("NN", "NT", "TN", "TT")
# Beside the small configuration: k-tiles of several steps.
DEEPER = {"wmma": {"BK": 32}, "mma_swizzled": {"BK_BYTES": 64}, "mma_pipelined": {}}
# mma_swizzled shares its copies and fragments with mma_pipelined, bf16 its layouts with fp16. mma_pipelined reads tf32
# in each layout differently.
CASES = [
    *(("mma_pipelined", dtype, layout) for dtype, layout in product(("fp16", "int8", "tf32"), LAYOUTS)),
    ("mma_pipelined", "bf16", "NT"),
    ("wmma", "fp16", "NN"), ("wmma", "fp16", "TT"), ("wmma", "bf16", "TN"),
    ("mma_swizzled", "fp16", "NN"), ("mma_swizzled", "tf32", "TN"), ("mma_swizzled", "int8", "NT"),
]  # fmt: skip


def small(name: str, **changes: int) -> tuple[KernelSpec, Config]:
    spec = rung_named(name)
    return spec, spec.config({**dict(spec.small), **DEEPER[name], "MIN_BLOCKS": 1, **changes})


def depth(dtype: DType) -> int:
    """Elements of k in a k-tile of the small configurations."""
    return 64 // dtype.itemsize


def problem(shape: tuple[int, int, int], dtype: str, layout: str = "NN", **more: float) -> Problem:
    return Problem(*shape, dtype=DTYPES[dtype], trans_a=layout[0] == "T", trans_b=layout[1] == "T", **more)  # type: ignore[arg-type]


def aligned(p: Problem) -> Problem:
    """Leading dimensions of A and B on 16 bytes, and larger than a row."""
    per = 16 // p.dtype.itemsize
    return replace(p, lda=(p.lda // per + 1) * per, ldb=(p.ldb // per + 1) * per)


def checking(late: bool = True, order: str = "lockstep", seed: int = 0) -> SimDevice:
    return SimDevice(schedule=schedule_named(order, seed, late_copies=late), hazards=True, count=True)


def conflicts(device: SimDevice) -> dict[str, int]:
    """Wavefronts that are bank conflicts, by kind of access to shared memory."""
    counters = device.counters
    assert counters is not None
    found = {"load": 0, "store": 0, "copy": sum(c.wavefronts - c.groups for c in counters.copies.values())}
    for operation, count in counters.items():
        if operation.profiled.sass in ("LDS", "STS", "LDSM"):
            found["store" if operation.profiled.sass == "STS" else "load"] += count.conflicts
    return found


# --- right, in every type and layout


@pytest.mark.parametrize(("name", "dtype", "layout"), CASES)
def test_aligned_operands_with_ragged_edges(name: str, dtype: str, layout: str) -> None:
    """More than one tile in M and N, and more k-tiles than stages in K."""
    spec, config = small(name)
    device = checking()
    p = aligned(problem((67, 70, 3 * depth(DTYPES[dtype]) + 3), dtype, layout, alpha=-1.0, beta=2.0))
    verified(spec, config, p, device=device, mode="exact", compile_fn=assembling)
    if name != "wmma":
        assert not conflicts(device)["load"]


@pytest.mark.parametrize(("name", "dtype", "layout"), CASES)
def test_whole_tiles(name: str, dtype: str, layout: str) -> None:
    spec, config = small(name)
    device = checking()
    p = problem((64, 128, 4 * depth(DTYPES[dtype])), dtype, layout)
    verified(spec, config, p, device=device, mode="exact", compile_fn=assembling)
    if name != "wmma":
        assert not any(conflicts(device).values())


@pytest.mark.parametrize("warp", [(64, 16), (16, 64)])
@pytest.mark.parametrize("layout", ["NN", "TT"])
def test_tf32_in_pairs_and_warps_that_are_not_square(warp: tuple[int, int], layout: str) -> None:
    """In NN a warp computes the transpose of its tile: rows and columns must not be mistaken for each other."""
    spec, config = small("mma_pipelined", WM=warp[0], WN=warp[1])
    device = checking()
    p = aligned(problem((67, 70, 51), "tf32", layout, alpha=-1.0, beta=2.0)).with_(bias="column", activation="relu")
    verified(spec, config, p, device=device, mode="exact")
    assert not conflicts(device)["load"]
    verified(spec, config, p.with_(bias="row", activation="silu", beta=0.0), mode="float")


UNALIGNED = [("mma_pipelined", "fp16", "NN"), ("mma_pipelined", "fp16", "TT"), ("mma_pipelined", "tf32", "NN"),
             ("mma_pipelined", "int8", "TT"), ("wmma", "bf16", "NN"), ("mma_swizzled", "fp16", "TN")]  # fmt: skip


@pytest.mark.parametrize(("name", "dtype", "layout"), UNALIGNED)
def test_operands_that_are_not_aligned(name: str, dtype: str, layout: str) -> None:
    spec, config = small(name)
    p = problem((66, 65, depth(DTYPES[dtype]) + 1), dtype, layout, beta=1.0)
    verified(spec, config, replace(p, lda=p.lda + 2, ldc=p.ldc + 1), mode="exact", offsets=(1, 3, 1))
    verified(spec, config, p.with_(alpha=0.7, beta=-1.5), mode="float")


def test_rounding_to_tf32_is_better_than_truncation() -> None:
    errors = []
    p = problem((32, 64, 512), "tf32", "NT")
    draw = np.random.default_rng(1).random
    data = Operands(draw(p.a_shape, np.float32), draw(p.b_shape, np.float32), np.zeros(p.c_shape, np.float32))
    exact = data.a.astype(np.float64) @ data.b.T.astype(np.float64)
    for rounded in (0, 1):
        spec, config = small("mma_swizzled", ROUND=rounded)
        errors.append(float(np.abs(launched(spec, config, p, data) / exact - 1).max()))
    assert errors[1] < 2.0**-13 < 2.0**-11 < errors[0] < 2.0**-9


@pytest.mark.parametrize("group", [1, 2, 16])
def test_every_tile_is_computed_whatever_the_order_of_blocks(group: int) -> None:
    """Three rows of tiles: the last strip of two is lower, and one of sixteen is not filled."""
    spec, config = small("mma_pipelined", GROUP=group)
    verified(spec, config, problem((129, 130, 32), "fp16"), mode="exact")


# --- outputs, bias, activation, batch


NARROWED = [(name, dtype.name, out.name) for name in ("wmma", "mma_pipelined") for dtype in rung_named(name).dtypes
            for out in OUTPUTS[dtype] if out != FP32]  # fmt: skip


@pytest.mark.parametrize(("name", "dtype", "out"), NARROWED)
def test_other_output_types(name: str, dtype: str, out: str) -> None:
    spec, config = small(name)
    p = replace(problem((65, 68, 40), dtype, beta=1.0), out_dtype=DTYPES[out]).with_(bias="row", activation="relu")
    verified(spec, config, p, mode="exact")
    if DTYPES[out] == INT8:  # fractions, to be rounded
        verified(spec, config, p.with_(alpha=0.02), mode="float")


@pytest.mark.parametrize("out", ["int8", "int32"])
def test_sums_that_leave_the_range_of_integers(out: str) -> None:
    spec, config = small("mma_pipelined", ALIGNED=0)
    p = replace(problem((8, 12, 64), "int8", beta=1.0), out_dtype=DTYPES[out])
    start = np.full(p.c_shape, 2**31 - 5 if out == "int32" else 100, p.out_dtype.numpy)
    data = Operands(np.full(p.a_shape, 1, np.int8), np.full(p.b_shape, 1, np.int8), start)
    expected = 2**31 - 5 + 64 - 2**32 if out == "int32" else 127
    assert (launched(spec, config, p, data) == expected).all()
    if out == "int8":
        negative = replace(data, b=np.full(p.b_shape, -128, np.int8))
        assert (launched(spec, config, p, negative) == -128).all()


@pytest.mark.parametrize("out", [FP16, BF16], ids=str)
def test_an_output_that_overflows_is_infinite_and_ties_go_to_even(out: DType) -> None:
    spec, config = small("mma_swizzled", ALIGNED=0)
    p = replace(problem((4, 8, 1), out.name, alpha=1.0), out_dtype=out)
    left = np.array([[3e38 if out == BF16 else 65504.0], [1.0], [1.0], [-1.0]], out.numpy)
    right = np.full(p.b_shape, 1.0, out.numpy)
    scaled = p.with_(alpha=float(np.float32(1 + out.unit_roundoff)))  # half way to the next number
    got = launched(spec, config, scaled, Operands(left, right, np.zeros(p.c_shape, out.numpy)))
    assert np.array_equal(got[1:].astype(np.float32), np.broadcast_to([[1.0], [1.0], [-1.0]], (3, 8)))
    doubled = launched(spec, config, p.with_(alpha=2.0), Operands(left, right, np.zeros(p.c_shape, out.numpy)))
    assert np.isposinf(doubled[0].astype(np.float32)).all()


EPILOGUES = [("row", "gelu"), ("column", "silu"), ("column", "gelu"), ("row", "relu")]


@pytest.mark.parametrize(("name", "epilogue"), list(zip((*RUNGS, "warp_tile"), EPILOGUES, strict=True)))
def test_bias_activation_and_batch_in_one_launch(name: str, epilogue: tuple[str, str]) -> None:
    bias, activation = epilogue
    spec, config = small(name) if name in RUNGS else (rung_named(name), rung_named(name).config())
    p = Problem(65, 66, 33, dtype=spec.dtypes[0], alpha=0.2, beta=0.5, bias=bias, activation=activation, batch=3)
    verified(spec, config, replace(p, stride_b=0), mode="float")


@pytest.mark.parametrize("extra", [0, 8, 1])
@pytest.mark.parametrize("name", RUNGS)
def test_a_batch_with_any_stride(name: str, extra: int) -> None:
    """Matrices a multiple of 16 bytes apart, or not; A is broadcast."""
    spec, config = small(name)
    p = problem((64, 64, 32), "fp16", "NT", batch=2)
    p = replace(p, stride_a=0, stride_b=p.stride_b + extra, stride_c=p.stride_c + extra)
    rng = np.random.default_rng(extra)
    a, b = (rng.integers(-3, 4, size).astype(np.float16) for size in (64 * 32, p.stride_b + 64 * 32))
    c = np.full(p.stride_c + 64 * 64, np.nan, np.float32)
    device = SimDevice()
    arrays: tuple[Array, ...] = (a, b, c)
    addresses = [device.allocate(array.nbytes) for array in arrays]
    for address, array in zip(addresses, arrays, strict=True):
        device.write(address, array.view(np.uint8))
    fitted = spec.specialize(config, p, (addresses[0], addresses[1], addresses[2]))
    launch = Launch(spec.geometry(p, fitted), spec.signature.pack(p, *addresses))
    device.launch(device.load(compiler(spec, fitted, p, device.arch)), launch)
    got = device.read(addresses[2], c.nbytes).view(np.float32)
    for i in range(2):
        exact = a.reshape(64, 32).astype(np.float64) @ b[i * p.stride_b :][: 64 * 32].reshape(64, 32).T
        assert np.array_equal(got[i * p.stride_c :][: 64 * 64].reshape(64, 64), exact)
    assert np.isnan(got[64 * 64 : p.stride_c]).all()


# --- what is not read


def test_a_bias_is_not_read_past_its_end() -> None:
    """Loaded with __ldg, a bias was hoisted out of the loop over rows, past the guard: lanes beyond N read it, too."""
    spec = rung_named("wmma")
    p = problem((5, 300, 100), "bf16", "NT", alpha=0.7, beta=-1.3)
    verified(spec, spec.config(), p.with_(out_dtype=BF16, bias="column", activation="silu"), mode="float")


@pytest.mark.parametrize("name", RUNGS)
def test_forbidden_reads(name: str) -> None:
    spec, config = small(name)
    for shape, alpha, beta in (((65, 3, 7), 0.0, 0.0), ((65, 3, 7), 0.0, -1.0), ((5, 66, 0), math.inf, 2.0)):
        p = problem(shape, "fp16", "TN", alpha=alpha, beta=beta)
        data = operands(p, "integers", seed=2)
        data = replace(data, a=np.full_like(data.a, np.nan), b=np.full_like(data.b, np.nan))
        assert np.array_equal(launched(spec, config, p, data), beta * data.c if beta else np.zeros(p.c_shape))


# --- the pipeline

ORDERS = (("in_order", 0), ("reversed", 0), ("random", 1), ("starved", 1))


@pytest.mark.parametrize(("stages", "order", "seed"), [*((3, *order) for order in ORDERS), (4, "random", 2)])
def test_every_order_of_warps_and_depth_of_the_ring(stages: int, order: str, seed: int) -> None:
    spec, config = small("mma_pipelined", STAGES=stages)
    for k_tiles in (1, 5):  # fewer than stages, and more
        p = problem((64, 65, k_tiles * 32), "fp16", "NT", alpha=2.0)
        verified(spec, config, p, device=checking(seed != 2, order, seed), mode="exact")


def test_registers_instead_of_copies_keep_the_order_too() -> None:
    spec, config = small("mma_pipelined", ALIGNED=0)
    verified(spec, config, problem((64, 65, 160), "fp16"), device=checking(order="reversed"), mode="exact")


MUTANTS = [
    ("mma_pipelined", "cp_async_wait<STAGES - 2>();\n                    __syncthreads();", "__syncthreads();"),
    ("mma_pipelined", "cp_async_wait<STAGES - 2>();\n                    __syncthreads();",
     "cp_async_wait<STAGES - 2>();"),
    ("mma_pipelined", "k > TileA::BK ? after(from) : from", "from"),
    ("mma_pipelined", "cp_async_commit();  //", "if (left > 0) cp_async_commit();  //"),
    ("mma_swizzled", "cp_async_wait<0>();", ""),
    ("mma_swizzled", "&b[j / 2][j % 2 * 2]", "&b[j / 2][0]"),
    ("wmma", "__syncwarp();\n            float", "float"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "right", "wrong"), MUTANTS)
def test_it_can_fail(tmp_path: Path, name: str, right: str, wrong: str) -> None:
    spec, config = small(name)
    assert spec.code.count(right) == 1
    broken = tmp_path / "broken.cu"
    broken.write_text(spec.code.replace(right, wrong), encoding="utf-8")
    for k_tiles, (order, seed) in product((5, 1), ORDERS):
        try:
            verified(replace(spec, source=broken), config, problem((64, 65, k_tiles * 32), "fp16", "NT"),
                     device=checking(order=order, seed=seed), mode="exact")  # fmt: skip
        except (AssertionError, SimulationError):
            return
    pytest.fail("nothing showed it")


# --- far from the origin


@pytest.mark.parametrize("far", ["a", "b", "c"])
def test_offsets_do_not_overflow(far: str) -> None:
    """The last tile of a matrix whose rows lie so far apart that a 32-bit offset would wrap around."""
    spec, config = small("mma_pipelined", GROUP=1)
    leading = (2**31 // 64 // 8 + 1) * 8
    p = problem((65, 65, 72), "fp16").with_(**{f"ld{far}": leading}, alpha=0.5, beta=1.0)
    part = Problem(1, 1, p.k, dtype=FP16, alpha=0.5, beta=1.0)
    data = operands(part, "integers", seed=4)
    device = SimDevice()

    def place(shape: tuple[int, int], ld: int, row: int, column: int, values: Array) -> int:
        size = values.itemsize
        address = device.allocate(((shape[0] - 1) * ld + shape[1]) * size)
        for i, line in enumerate(values):
            device.write(address + ((row + i) * ld + column) * size, np.ascontiguousarray(line).view(np.uint8))
        return address

    a = place(p.a_shape, p.lda, 64, 0, data.a)
    b = place(p.b_shape, p.ldb, 0, 64, data.b)
    c = place(p.c_shape, p.ldc, 64, 64, data.c)
    fitted = spec.specialize(config, p, (a, b, c))
    geometry = spec.geometry(p, fitted)
    arguments = spec.signature.pack(p, a, b, c)
    device.launch(device.load(compiler(spec, fitted, p, device.arch)), Launch(geometry, arguments), blocks=[3])
    got = device.read(c + (64 * p.ldc + 64) * 4, 4).view(np.float32)
    exact = 0.5 * (data.a.astype(np.float64) @ data.b.astype(np.float64)) + data.c
    assert got[0] == exact[0, 0]


# --- configurations


def test_the_fast_path_is_chosen_by_address_leading_dimension_and_stride() -> None:
    spec = rung_named("mma_pipelined")
    config = spec.config()
    p = problem((64, 64, 64), "fp16", batch=2)
    assert spec.specialize(config, p, (256, 512, 3)) == config
    wrong = [(p, (258, 512, 0)), (p, (256, 504, 0)), (p.with_(lda=65), (0, 0, 0)), (p.with_(ldb=68), (0, 0, 0)),
             (p.with_(stride_a=4100), (0, 0, 0)), (p.with_(stride_b=4097), (0, 0, 0))]  # fmt: skip
    for changed, addresses in wrong:
        assert spec.specialize(config, changed, addresses)["ALIGNED"] == 0
    assert spec.specialize(config, p.single, (0, 0, 0))["ALIGNED"] == 1
    assert spec.specialize(spec.config({"ALIGNED": 0}), p, (0, 0, 0))["ALIGNED"] == 0  # asked for, kept


@pytest.mark.parametrize(("name", "changes", "reason"), [
    ("mma_pipelined", {"BM": 256, "BN": 256, "BK_BYTES": 128}, r"STAGES·\(BM\+BN\)·BK_BYTES = 4·\(256\+256\)·128 = "
                                                               r"262,144 B of shared memory, but 232,448 B"),
    ("mma_pipelined", {"WM": 128}, "WM·WN/32 = 128·64/32 = 256 accumulators per lane"),
    ("mma_swizzled", {"BM": 256, "BN": 64, "WM": 128, "WN": 32, "MIN_BLOCKS": 4}, None),
    ("mma_pipelined", {"BN": 64, "WM": 128, "WN": 64}, "256 accumulators per lane"),
    ("mma_pipelined", {"BM": 64, "BN": 256, "WM": 64, "WN": 256}, "WN=256 is not one of 16, 32, 64, 128"),
    ("mma_swizzled", {"BM": 64, "BN": 64, "WM": 128}, "WM=128 does not divide BM=64"),
    ("wmma", {"BM": 256, "BN": 256, "BK": 64}, r"2·\(BM\+BN\)·\(BK\+PAD\) = 2·\(256\+256\)·\(64\+8\) = 73,728 B"),
    ("wmma", {"BK": 16, "WM": 16, "WN": 16}, "2048 threads"),
])  # fmt: skip
def test_illegal_configurations_show_the_arithmetic(name: str, changes: dict[str, int], reason: str | None) -> None:
    spec = rung_named(name)
    if reason is None:
        assert spec.config(changes)
        return
    with pytest.raises(ConfigError, match=reason):
        spec.config(changes)


# Every architecture, and every type and layout at least once; the rest costs minutes.
ARCHS = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
COMPILED = [("mma_pipelined", arch, dtype, layout) for arch, dtype, layout in zip(
    ARCHS, (FP16, TF32, INT8, TF32, BF16, INT8), ("NN", "NT", "TN", "NN", "TT", "NN"), strict=True)]  # fmt: skip
COMPILED += [("wmma", "sm_80", BF16, "TN"), ("mma_swizzled", "sm_86", INT8, "NN")]


@pytest.mark.parametrize(("name", "arch", "dtype", "layout"), COMPILED, ids=str)
def test_no_spills_by_default(name: str, arch: str, dtype: DType, layout: str) -> None:
    spec = rung_named(name)
    request = render_kernel(spec, spec.config(), dtype=dtype, trans_a=layout[0] == "T", trans_b=layout[1] == "T",
                            arch=arch)  # fmt: skip
    resources = compile_request(request, find_toolchain()).resources
    assert not resources.spills
    assert resources.stack == 0
    assert spec.geometry(Problem(1, 1, 1, dtype=dtype), spec.config()).smem <= 99 * 1024
