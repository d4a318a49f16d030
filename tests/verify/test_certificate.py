"""Certificates: right kernels of several styles get one, wrong ones and those outside the class get none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from certificate_kernels import (
    ARCH,
    BYTES,
    CALLED,
    HALF,
    HALF_PAIRS,
    LOCAL,
    PAIRS,
    PAIRS_OF_BYTES,
    PLAIN,
    SHUFFLED,
    SPLIT,
    TILED,
    TWO_LEVELS,
    certificate_of,
    spec_of,
)
from ptx_only import compile_to_ptx, copy_kernel

from gemmsmith.cli.render.certificate_text import certificate_json, certificate_lines
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import rung_named, simulated_rungs
from gemmsmith.problem import FP16, FP32, INT8, TF32, DType, Problem
from gemmsmith.sim.device import SimDevice
from gemmsmith.verify.harness import verify_launch
from gemmsmith.verify.oracles.certificate import certify

SPLIT_GRID = "ceil(N/16),ceil(M/16),4"

# Which of the simulated rungs compute something else than sums of products, and what the reason says.
OUTSIDE = {
    "fp32_tensor_bf16x6": "compares a value of the matrices", "fp32_tensor_fp16x3": "compares a value",
    "fp32_wgmma_bf16x6": "compares a value of the matrices", "fp32_wgmma_fp16x3": "compares a value of the matrices",
    "fp32_wgmma_registers": "compares a value of the matrices",
}  # fmt: skip


def replaced(source: str, old: str, new: str) -> str:
    assert source.count(old) == 1, f"{old!r} occurs {source.count(old)} times"
    return source.replace(old, new)


# --- right kernels


@pytest.mark.parametrize(("name", "dtype"), [(spec.name, dtype) for spec in simulated_rungs() for dtype in spec.dtypes],
                         ids=lambda x: str(x))  # fmt: skip
def test_every_simulated_rung_has_a_certificate_or_a_reason(name: str, dtype: DType) -> None:
    spec = rung_named(name)
    shape = (17, 40, 48) if name not in OUTSIDE or "wgmma" in name else (16, 16, 16)
    problem = Problem(*shape, dtype, spec.out_dtypes[0])
    found = certify(spec, spec.small_config(), problem, compile_to_ptx, ARCH, other_m=False)
    if name in OUTSIDE:
        assert OUTSIDE[name] in found.reason
        return
    assert found.reason == ""
    assert found.probability < -57
    assert found.deterministic
    blocks = {FP16: 16, TF32: 8, INT8: 32}
    tensor = spec.tensor_cores
    assert found.order.startswith(f"blocks of {blocks.get(dtype, 16)} products" if tensor else "k ascending, one")


@pytest.mark.parametrize(("name", "layout"), [("wgmma_stream_k", "NN"), ("wgmma_cluster", "TT"), ("wgmma_tma", "TN")])
def test_tma_and_wgmma_are_followed(name: str, layout: str) -> None:
    """Multicast, partial sums in memory, operands in both orders."""
    spec = rung_named(name)
    problem = Problem(64, 128, 128, FP16, FP32, trans_a=layout[0] == "T", trans_b=layout[1] == "T")
    found = certify(spec, spec.small_config(), problem, compile_to_ptx, ARCH, other_m=False)
    assert found.reason == ""
    assert "blocks of 16 products added at once" in found.order


@pytest.mark.parametrize(("old", "new"), [
    ("tile.col, k, strideB ? z : 0)", "tile.col, k + BK, strideB ? z : 0)"),
    ("warpgroup, step > 0)", "warpgroup, true)"),
])  # fmt: skip
def test_a_wrong_wgmma_kernel_has_none(old: str, new: str, tmp_path: Path) -> None:
    spec = copy_kernel(rung_named("wgmma_tma"), tmp_path)
    spec.source.write_text(replaced(spec.source.read_text(), old, new))
    found = certify(spec, spec.small_config(), Problem(64, 64, 128, FP16, FP32), compile_to_ptx, ARCH, other_m=False)
    assert found.reason


@pytest.mark.parametrize(
    ("source", "options", "order"),
    [
        (PLAIN, {}, "k ascending, one accumulator"),
        (TILED, {}, "k ascending, one accumulator"),
        (TILED, {"shape": (33, 20, 37)}, "k ascending, one accumulator"),
        (TWO_LEVELS, {}, "8 parts of 8 consecutive k (k ascending), added one after another"),
        (SHUFFLED, {"block": "32", "grid": "N,M", "shape": (4, 8, 128)},
         "32 interleaved parts (every 32th k), added as a tree"),
        (HALF, {}, "k ascending, one accumulator"),
        (PAIRS, {"block": "8,16", "grid": "ceil(N/16),ceil(M/16)"}, "k ascending, one accumulator"),
        (HALF_PAIRS, {"block": "8,16", "grid": "ceil(N/16),ceil(M/16)"},
         "k ascending, one accumulator, sums rounded to f16 on the way"),
        (replaced(PLAIN.replace("float", "double"), "0.0f", "0.0"), {}, "k ascending, one accumulator"),
        (BYTES, {}, "blocks of 4 products added at once, k ascending, one accumulator"),
        (PAIRS_OF_BYTES, {}, "blocks of 2 products added at once, k ascending, one accumulator"),
        (CALLED, {}, "k ascending, one accumulator"),
        (replaced(PLAIN, "int k = 0; k < K; ++k", "int k = K - 1; k >= 0; --k"), {}, "k descending, one accumulator"),
        (replaced(PLAIN, "sum += A[row * K + k] * B[k * N + col]",
                  "sum = __fadd_rn(sum, __fmul_rn(A[row * K + k], B[k * N + col]))"), {},
         "k ascending, products rounded before they are added, one accumulator"),
    ],
    ids=["plain", "tiled", "ragged", "two levels", "shuffled", "half", "pairs", "half pairs", "double", "bytes",
         "pairs of bytes", "called", "descending", "unfused"],
)  # fmt: skip
def test_styles_and_their_orders(tmp_path: Path, source: str, options: dict[str, object], order: str) -> None:
    found = certificate_of(tmp_path, source, **options)  # type: ignore[arg-type]
    assert found.reason == ""
    assert found.order == order
    assert found.deterministic
    assert found.orders == 1
    assert len(found.same_for) > 2
    assert found.differs_at == ()


def test_a_branch_on_beta_is_certified_for_both_sides(tmp_path: Path) -> None:
    found = certificate_of(tmp_path, TILED)
    assert found.ok
    assert "on the branches of alpha = 0.6875, beta = -1.5 or of alpha = 1, beta = 0" in found.scalars
    assert "gemm.cu:14" in found.scalars
    wrong = replaced(TILED, "C[row * N + col] = alpha * sum;", "C[row * N + col] = sum;")
    assert "outputs are not the product" in certificate_of(tmp_path, wrong).reason
    assert certificate_of(tmp_path, PLAIN).scalars == "for every alpha and beta"


def test_a_bias_is_part_of_it() -> None:
    spec = rung_named("mma_swizzled")
    problem = Problem(16, 32, 32, FP16, FP16, bias="column")
    found = certify(spec, spec.small_config(), problem, compile_to_ptx, ARCH, other_m=False)
    assert found.ok
    lines = certificate_lines(found, spec)
    assert "alpha·Σ a·b + beta·c + bias" in lines[0]
    assert "|bias|" in lines[-1]


# --- wrong kernels

WRONG = {
    "a dropped k": (PLAIN, "k < K; ++k", "k < K - 1; ++k"),
    "a dropped k in the last tile": (TILED, "i < 16; ++i", "i < (k + 16 < K ? 16 : 15); ++i"),
    "a product twice": (PLAIN, "float sum = 0.0f;", "float sum = A[row * K] * B[col];"),
    "a swapped index": (TILED, "As[ty][i] * Bs[i][tx]", "As[i][ty] * Bs[i][tx]"),
    "a scale that is right on integers": (PLAIN, "alpha * sum", "alpha * rintf(0.0f) + alpha * sum * 0.1f * 10.0f"),
    "a neighbouring row": (PLAIN, "A[row * K + k]", "A[(row == 7 ? 8 : row) * K + k]"),
    "a neighbouring column at one k": (PLAIN, "B[k * N + col]", "B[k * N + (k == 9 ? col ^ 1 : col)]"),
    "beta twice": (PLAIN, "beta * C[row * N + col]", "beta * C[row * N + col] + beta * C[row * N + col]"),
    "alpha twice": (PLAIN, "alpha * sum", "alpha * alpha * sum"),
    "beta for alpha": (PLAIN, "alpha * sum + beta", "beta * sum + alpha"),
    "a stale accumulator": (TILED, "float sum = 0.0f;", "float sum = C[0];"),
    "one block too few along N": (PLAIN, "col >= N", "col >= N - 1"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_kernel_has_no_certificate(tmp_path: Path, name: str) -> None:
    source, old, new = WRONG[name]
    assert "outputs are not the product" in certificate_of(tmp_path, replaced(source, old, new)).reason


def test_terms_that_cancel_in_the_data_do_not_cancel_here(tmp_path: Path) -> None:
    """Two mistakes that undo each other for symmetric data, and a term whose factor is tiny."""
    tiny = replaced(PLAIN, "alpha * sum", "alpha * sum + 1e-30f * A[row * K]")
    assert "outputs are not the product" in certificate_of(tmp_path, tiny).reason


def test_a_scale_that_is_one_in_the_field_is_refused(tmp_path: Path) -> None:
    """2^61 is 1 modulo the prime."""
    large = replaced(PLAIN, "alpha * sum", "alpha * sum * 2305843009213693952.0f")
    assert "very large or very small constants" in certificate_of(tmp_path, large).reason
    assert certificate_of(tmp_path, replaced(PLAIN, "alpha * sum", "alpha * (sum * 4.0f) * 0.25f")).ok


# --- outside the class

OUTSIDE_THE_CLASS = {
    "skips zeros": (PLAIN, "sum += A[row * K + k] * B[k * N + col];",
                    "{ float a = A[row * K + k]; if (a == 0.0f) continue; sum += a * B[k * N + col]; }",
                    "gemm.cu:6 compares a value of the matrices (setp.eq.f32)"),
    "relu": (PLAIN, "alpha * sum +", "fmaxf(sum, 0.0f) +", "gemm.cu:7 takes the larger of two values (max.f32)"),
    "absolute": (PLAIN, "alpha * sum +", "fabsf(sum) +", "takes an absolute value"),
    "divides": (PLAIN, "alpha * sum +", "sum / alpha +", "gemm.cu:7"),
    "exponential": (PLAIN, "alpha * sum +", "__expf(sum) +", "computes a function, not a polynomial"),
    "address": (PLAIN, "A[row * K + k]", "A[row * K + (int)B[k] % K]", "gemm.cu:6 an address depends on data"),
    "bits": (PLAIN, "alpha * sum +", "__int_as_float(__float_as_int(sum) + 1) +",
             "gemm.cu:6 computes with the bits of a number (add.s32)"),
    "rounds to an integer": (PLAIN, "alpha * sum +", "rintf(sum) +", "rounds a number to an integer"),
    "a split": (PLAIN, "sum += A[row * K + k] * B[k * N + col];",
                "{ float a = A[row * K + k], h = __int_as_float(__float_as_int(a) & 0xffff0000); "
                "sum += h * B[k * N + col] + (a - h) * B[k * N + col]; }",
                "subtracted from its own rounded copy"),
}  # fmt: skip


@pytest.mark.parametrize("name", OUTSIDE_THE_CLASS)
def test_a_kernel_outside_the_class_has_a_reason(tmp_path: Path, name: str) -> None:
    source, old, new, reason = OUTSIDE_THE_CLASS[name]
    assert reason in certificate_of(tmp_path, replaced(source, old, new)).reason


def test_a_large_problem_is_left_to_the_tests(tmp_path: Path) -> None:
    assert "try a smaller shape" in certificate_of(tmp_path, PLAIN, shape=(1024, 1024, 1024)).reason


# --- order


def test_atomic_additions_have_no_order(tmp_path: Path) -> None:
    found = certificate_of(tmp_path, SPLIT, grid=SPLIT_GRID)
    assert found.ok
    assert found.adds_c
    assert not found.deterministic
    assert "up to 4 atomic additions meet at one place" in found.why_not
    assert "4 parts of 16 consecutive k" in found.order


def test_an_order_that_depends_on_m_is_told(tmp_path: Path) -> None:
    source = replaced(PLAIN, "for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];",
                      "for (int i = 0; i < K; ++i) { int k = M > 40 ? K - 1 - i : i; "
                      "sum += A[row * K + k] * B[k * N + col]; }")  # fmt: skip
    found = certificate_of(tmp_path, source)
    assert found.ok
    assert found.same_for == (1, 32)
    assert found.differs_at == (64,)
    assert "another order for M = 64 than for 1, 32" in certificate_lines(found, spec_of(tmp_path, source))[2]


def test_outputs_may_have_different_orders(tmp_path: Path) -> None:
    found = certificate_of(tmp_path, LOCAL)
    assert found.ok
    assert found.orders == 8
    assert found.same_for == (1, 32, 64)
    assert "(8 orders in all)" in certificate_lines(found, spec_of(tmp_path, LOCAL))[1]


def test_an_order_that_the_schedule_decides_is_not_deterministic(tmp_path: Path) -> None:
    """Two warps take tickets, and add their parts in that order."""
    source = """
__global__ void gemm(int M, int N, int K, const float* A, const float* B, float* C) {
    __shared__ float parts[4][32];
    __shared__ int taken;
    int row = blockIdx.y, col = blockIdx.x * 32 + threadIdx.x % 32, warp = threadIdx.x / 32;
    if (threadIdx.x == 0) taken = 0;
    __syncthreads();
    int ticket = 0;
    if (threadIdx.x % 32 == 0) ticket = atomicAdd(&taken, 1);
    ticket = __shfl_sync(0xffffffffu, ticket, 0);
    float sum = 0.0f;
    for (int k = warp; k < K; k += 4) sum += A[row * K + k] * B[k * N + col];
    parts[ticket][threadIdx.x % 32] = sum;
    __syncthreads();
    if (warp == 0) C[row * N + col] = ((parts[0][threadIdx.x] + parts[1][threadIdx.x]) + parts[2][threadIdx.x])
                                      + parts[3][threadIdx.x];
}
"""
    found = certificate_of(tmp_path, source, (4, 32, 32), block="128", grid="N/32,M")
    assert found.ok
    assert not found.deterministic
    assert "the order of warps changes it" in found.why_not
    assert found.bound is None
    spec = spec_of(tmp_path, source, block="128", grid="N/32,M")
    hurried = certify(spec, spec.config(), spec.problem(4, 32, 32), compile_to_ptx, ARCH, seconds=0.0)
    assert hurried.ok
    assert hurried.bound is None
    assert "other orders of warps were not tried" in certificate_lines(hurried, spec)[1]


# --- bounds


@pytest.mark.parametrize("source", [PLAIN, TWO_LEVELS, CALLED], ids=["plain", "two levels", "called"])
def test_no_error_exceeds_the_bound(tmp_path: Path, source: str) -> None:
    spec = spec_of(tmp_path, source)
    found = certificate_of(tmp_path, source, (32, 48, 256))
    assert_error_is_below(found.bound, spec, spec.config(), found.problem)


@pytest.mark.parametrize("dtype", [FP16, TF32], ids=str)
def test_no_error_of_a_tensor_core_exceeds_the_bound(dtype: DType) -> None:
    spec = rung_named("mma_swizzled")
    problem = Problem(32, 32, 256, dtype, FP32)
    found = certify(spec, spec.small_config(), problem, compile_to_ptx, ARCH, other_m=False)
    assert_error_is_below(found.bound, spec, spec.small_config(), problem)


def assert_error_is_below(bound: float | None, spec: KernelSpec, config: Config, problem: Problem) -> None:
    """Positive data, on which errors add up. The bound may be larger by no more than K allows."""
    verdict = verify_launch(SimDevice(ARCH), spec, config, problem, compile_fn=compile_to_ptx, fill="uniform")
    unit = problem.dtype.unit_roundoff if problem.dtype == TF32 else 2.0**-24
    assert bound is not None
    assert 0 < verdict.rho * unit <= bound < 300 * unit


def test_the_bound_of_a_sequential_sum_is_the_textbook_one(tmp_path: Path) -> None:
    found = certificate_of(tmp_path, CALLED, (16, 16, 100))
    assert found.bound is not None
    np.testing.assert_allclose(found.bound, (1 + 2.0**-24) ** 100 - 1, rtol=1e-6)


def test_sums_in_fp16_are_told(tmp_path: Path) -> None:
    source = replaced(
        HALF,
        "sum += __half2float(A[row * K + k]) * __half2float(B[k * N + col]);",
        "sum = __half2float(__float2half(sum + __half2float(A[row * K + k] * B[k * N + col])));",
    )
    found = certificate_of(tmp_path, source)
    assert "sums rounded to f16 on the way" in found.order
    assert found.bound is not None
    assert found.bound > 64 * 2.0**-11


def test_tensor_cores_err_by_their_own_step() -> None:
    """A block of 16: 17 terms cut two bits below fp32's last place, and their sum cut to fp32."""
    spec = rung_named("mma_swizzled")
    problem = Problem(16, 32, 64, FP16, FP32)
    found = certify(spec, spec.small_config(), problem, compile_to_ptx, ARCH, other_m=False)
    step = 17 * 2.0**-25 + 2.0**-23
    assert found.bound is not None
    np.testing.assert_allclose(found.bound, 4 * step + 2 * 2.0**-24, rtol=1e-4)


def test_a_kernel_that_subtracts_has_no_bound(tmp_path: Path) -> None:
    source = replaced(replaced(PLAIN, "sum += ", "sum -= "), "alpha * sum + beta * C[row * N + col]",
                      "beta * C[row * N + col] - alpha * sum")  # fmt: skip
    found = certificate_of(tmp_path, source)
    assert found.ok
    assert found.bound is None
    assert "no error bound follows" in certificate_lines(found, spec_of(tmp_path, source))[-1]


# --- text


def test_a_certificate_is_a_few_lines(tmp_path: Path) -> None:
    found = certificate_of(tmp_path, PLAIN)
    spec = spec_of(tmp_path, PLAIN)
    assert certificate_lines(found, spec) == [
        "Certificate for 32x48x64 fp32: every output is exactly alpha·Σ a·b + beta·c, each product once "
        "(error probability below 2^-57)",
        "it holds for every alpha and beta",
        "sum: k ascending, one accumulator; deterministic; the same for M = 1, 32, 64",
        "so |error| ≤ 65.1·2^-24·(|alpha|·Σ|a||b| + |beta||c|), barring overflow and underflow",
    ]
    found_json = certificate_json(found, spec)
    assert found_json["certified"]
    assert found_json["same_for_m"] == [1, 32, 64]


def test_no_certificate_is_one_line(tmp_path: Path) -> None:
    source = replaced(PLAIN, "k < K; ++k", "k < K - 1; ++k")
    found, spec = certificate_of(tmp_path, source), spec_of(tmp_path, source)
    (line,) = certificate_lines(found, spec)
    assert line.startswith("No certificate: in exact arithmetic 1,536 of 1,536 outputs are not the product")
    assert certificate_json(found, spec) == {"certified": False, "reason": found.reason}
