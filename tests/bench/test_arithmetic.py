"""A kernel's arithmetic from its PTX, and the limits and bounds that follow."""

from __future__ import annotations

import math

import numpy as np
import pytest
from ptx_only import compile_to_ptx

from gemmsmith.bench import kernel_contender
from gemmsmith.bench.arithmetic import arithmetic
from gemmsmith.bench.limits import Limits
from gemmsmith.bench.oracle import Oracle
from gemmsmith.call.binding import aligned_config
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.compile.resources import Resources
from gemmsmith.fills import operands
from gemmsmith.gpus import gpu_named
from gemmsmith.ladder.registry import rung_named, rungs
from gemmsmith.problem import DTYPES, Problem, arithmetic_of
from gemmsmith.sweep import workbench
from gemmsmith.verify.oracles.bounds import accuracy


def named(ptx: str) -> str:
    nothing = Resources(0, 0, 0, 0, 0, 0, 0)
    return arithmetic(CompiledKernel("e", "sm_90", ptx, b"", nothing, "", "", "", False, ""))


@pytest.mark.parametrize(
    ("ptx", "expected"),
    [
        ("fma.rn.f32 %f1, %f2, %f3, %f4;", "fp32"),
        ("fma.rn.f16x2 %r1, %r2, %r3, %r4;", "fp16"),
        ("fma.rn.relu.bf16x2 %r1, %r2, %r3, %r4;", "bf16"),
        ("cvt.f32.f16 %f1, %h1; fma.rn.f32 %f2, %f1, %f1, %f2;", "fp32"),
        ("dp4a.s32.s32 %r1, %r2, %r3, %r4;", "int8"),
        ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {…", "fp16"),
        ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {…", "tf32"),
        ("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {…", "bf16"),
        ("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {…", "int8"),
        ("mma.sync.aligned.m16n8k32.row.col.satfinite.s32.u8.s8.s32 {…", "int8"),
        ("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32 {…", "fp8"),
        ("wmma.mma.sync.aligned.row.row.m16n16k16.f32.f32 {…", "fp16"),
        ("wmma.mma.sync.aligned.row.row.m16n16k16.f32.bf16.bf16.f32 {…", "bf16"),
        ("wmma.mma.sync.aligned.row.row.m16n16k8.f32.tf32.tf32.f32 {…", "tf32"),
        ("wmma.mma.sync.aligned.row.col.m16n16k16.s32.u8.u8.s32 {…", "int8"),
        ("wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {…", "fp16"),
        ("wgmma.mma_async.sync.aligned.m64n128k16.f16.f16.f16 {…", "fp16"),
        ("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {…", "bf16"),
        ("wgmma.mma_async.sync.aligned.m64n256k8.f32.tf32.tf32 {…", "tf32"),
        ("wgmma.mma_async.sync.aligned.m64n256k32.f32.e4m3.e4m3 {…", "fp8"),
        ("wgmma.mma_async.sync.aligned.m64n256k32.f16.e5m2.e4m3 {…", "fp8"),
        ("wgmma.mma_async.sync.aligned.m64n256k32.s32.s8.s8 {…", "int8"),
        ("wgmma.mma_async.sync.aligned.m64n256k32.s32.s8.u8 {…", "int8"),
        ("cvt.rn.f16.f32 %h1, %f1; mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {…", "tf32"),
        ("ld.global.s8 %r1, [%rd1]; cvt.rn.f32.s8 %f1, %r1; fma.rn.f32 %f2, %f1, %f1, %f2;", "fp32"),
    ],
)
def test_arithmetic_from_ptx(ptx: str, expected: str) -> None:
    assert named(ptx) == expected


def test_of_two_arithmetics_the_faster_counts() -> None:
    both = "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {…\nmma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {…"
    assert named(both) == "int8"


def test_bench_and_sweeps_use_the_arithmetic_as_precision() -> None:
    assert vars(kernel_contender)["arithmetic"] is vars(workbench)["arithmetic"] is arithmetic


TENSOR = [(spec.name, dtype.name) for spec in rungs() if spec.tensor_cores for dtype in spec.dtypes]


@pytest.mark.parametrize(("name", "dtype"), TENSOR)
def test_a_tensor_rungs_arithmetic_is_its_input_type_as_in_verification(name: str, dtype: str) -> None:
    spec, problem = rung_named(name), Problem(64, 64, 64, DTYPES[dtype])
    small = {"BM": 64, "BN": 64, "CONSUMERS": 1}  # of what compiles slowly
    config = spec.config({k: v for k, v in small.items() if k in dict(spec.config())} if spec.arch_specific else {})
    compiled = compile_to_ptx(spec, aligned_config(spec, config, problem), problem, "sm_90")
    assert (spec.arithmetic or arithmetic(compiled)) in (dtype, "bf16x6", "fp16x3")
    assert accuracy(spec.arithmetic or dtype, 64) == accuracy(arithmetic_of(problem.dtype, True), 64)


def test_bf16x6_has_the_error_bound_of_fp32_and_a_sixth_of_the_bf16_peak() -> None:
    assert rung_named("fp32_tensor_bf16x6").arithmetic == "bf16x6"
    h200 = gpu_named("H200")
    assert h200.peak_tflops("bf16x6") == h200.peak_tflops("bf16") / 6 > h200.peak_tflops("fp32")


def test_fp16x3_has_the_error_bound_of_fp32_and_a_third_of_the_fp16_peak() -> None:
    assert rung_named("fp32_tensor_fp16x3").arithmetic == "fp16x3"
    h200 = gpu_named("H200")
    assert h200.peak_tflops("fp16x3") == h200.peak_tflops("fp16") / 3
    assert accuracy("fp16x3", 4096, errors_grow=True) == accuracy("fp32", 4096, errors_grow=True)
    assert h200.peak_tflops("fp16x") == h200.peak_tflops("box") == 0


def test_int8_has_its_own_limit_and_the_bound_of_exact_sums() -> None:
    problem = Problem(8192, 8192, 8192, DTYPES["int8"])
    h200 = Limits(gpu_named("H200"))  # 8192 operations × 132 SMs × 1.98 GHz
    assert h200.objection(problem, "int8", problem.flops / 1.1e15) == "", "1100 TOPS is possible"
    assert h200.objection(problem, "fp32", problem.flops / 1.1e15) != ""
    assert "above the int8 limit of H200, 2141.1 TOPS" in h200.objection(problem, "int8", problem.flops / 2.5e15)
    assert accuracy("int8", 8192) == accuracy("fp32", 8192)


def test_the_oracle_supports_int8() -> None:
    problem = Problem(16, 24, 64, DTYPES["int8"])
    data = operands(problem, "normal", 3)
    right = (data.a.astype(np.int64) @ data.b.astype(np.int64)).astype(np.float32)
    oracle = Oracle(problem, data)
    assert oracle.judge(right, "int8").why == ""
    wrong = right.copy()
    wrong[5, 7] += 1
    found = oracle.judge(wrong, "int8")
    assert found.why.startswith("1 of 384 outputs wrong")
    assert math.isfinite(found.rho)
