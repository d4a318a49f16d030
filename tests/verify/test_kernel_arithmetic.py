"""How a user's kernel computes, which parameters it writes, and the bounds and references for its types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gemmsmith.fills import operands
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.kernel.signature import Argument, Signature
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import BF16, FP16, FP32, FP64, INT8, INT32, TF32, UINT8, DType, Problem
from gemmsmith.verify.code.written import written_parameters
from gemmsmith.verify.oracles.arithmetic import as_compiled, exact_limit, notes, precision_limit
from gemmsmith.verify.oracles.bounds import accuracy
from gemmsmith.verify.oracles.compare import Arithmetic, compare

SIGNATURE = Signature("f", tuple(Argument(n, n, "P") for n in "ABC"))


def spec(dtype: DType, out: DType) -> KernelSpec:
    return KernelSpec("mine.cu", Path("mine.cu"), "", "", lambda *_: Geometry((1, 1, 1), (1, 1, 1)), dtypes=(dtype,),
                      out_dtypes=(out,), known_signature=SIGNATURE)  # fmt: skip


MMA = "mma.sync.aligned.m16n8k16.row.col."
PTX: dict[str, tuple[DType, DType, str, DType, DType | None, str]] = {
    "fp32": (FP32, FP32, "fma.rn.f32 %f1, %f2, %f3, %f1;", FP32, None, ""),
    "fp32 sums of fp16": (FP16, FP32, "cvt.f32.f16 %f1, %rs1;\nfma.rn.f32 %f1, %f2, %f3, %f1;", FP16, None, ""),
    "fp16 fma": (FP16, FP16, "{fma.rn.f16 %rs1,%rs2,%rs3,%rs1;\n}", FP16, FP16, ""),
    "fp16x2 fma": (FP16, FP16, "\t{fma.rn.f16x2 %r1,%r2,%r3,%r1;}", FP16, FP16, ""),
    "bf16 add": (BF16, BF16, "@%p1 add.rn.bf16 %rs1, %rs2, %rs3;", BF16, BF16, ""),
    "fp16 epilogue": (FP16, FP16, "$L1:\nfma.rn.f32 %f1, %f2, %f3, %f1;\n@%p1 bra $L1;\nmul.f16 %rs1, %rs2, %rs3;",
                      FP16, None, ""),
    "fp16 loop": (FP16, FP16, "$L1:\nfma.rn.f16 %rs1,%rs2,%rs3,%rs1;\n@%p1 bra $L1;", FP16, FP16, ""),
    "fp16 atomics": (FP16, FP16, "$L1:\n@%p1 bra $L1;\nred.global.add.noftz.f16 [%rd1], %rs1;", FP16, FP16, ""),
    "mma, fp32 sums": (FP16, FP16, MMA + "f32.f16.f16.f32 {%f1}, {%r1}, {%r2}, {%f1};", FP16, None, ""),
    "mma, fp16 sums": (FP16, FP16, MMA + "f16.f16.f16.f16 {%r3}, {%r1}, {%r2}, {%r3};", FP16, FP16, ""),
    "wmma, fp16 sums": (FP16, FP16, "wmma.mma.sync.aligned.row.col.m16n16k16.f16.f16 {%r1};", FP16, FP16, ""),
    "wmma, fp16 sums for fp32": (FP16, FP32, "wmma.mma.sync.aligned.row.col.m16n16k16.f16.f16 {%r1};", FP16, FP16, ""),
    "wmma, fp32 sums": (FP16, FP32, "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%f1};", FP16, None, ""),
    "tf32": (FP32, FP32, "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1};", TF32, None, ""),
    "fp32 rounded to bf16": (FP32, FP32, MMA + "f32.bf16.bf16.f32 {%f1};", FP32, None, "bf16"),
    "fp32 rounded to fp16 for wmma": (FP32, FP32, "wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {%f1};", FP32, None,
                                      "fp16"),
    "fp64": (FP64, FP64, "fma.rn.f64 %fd1, %fd2, %fd3, %fd1;", FP64, FP64, ""),
    "int8": (INT8, INT32, "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%r1};", INT8, None, ""),
}  # fmt: skip


@pytest.mark.parametrize("what", PTX)
def test_arithmetic_is_read_from_the_ptx(what: str) -> None:
    dtype, out, ptx, found, accumulator, factors = PTX[what]
    compiled = as_compiled(spec(dtype, out), f".entry f()\n{{\n{ptx}\nret;\n}}")
    assert (compiled.dtypes, compiled.accumulator, compiled.arithmetic) == ((found,), accumulator, factors)
    assert compiled.tensor_cores == ("mma" in ptx)
    assert compiled.rounds_again == (what == "fp16 epilogue")
    assert bool(precision_limit(compiled)) == (what == "wmma, fp16 sums for fp32")
    assert bool(notes(compiled)) == (accumulator in (FP16, BF16) or bool(factors) or compiled.rounds_again)


_TILE_IN_FP16 = "{value}\n{{  cvt.rn.f16.f32 %rs1, %f6;}}\nst.shared.u16 [%r6], %rs1;"


@pytest.mark.parametrize(
    ("value", "again"),
    [
        ("mov.f32 \t%f6, 0f00000000;", False),  # zeros beyond the edge of a tile
        ("mov.f32 \t%f6, 0f00000000;\nfma.rn.f32 %f6, %f2, %f3, %f6;", True),  # an accumulator
        (MMA + "f32.f16.f16.f32 {%f5, %f6}, {%r1}, {%r2}, {%f5, %f6};", True),
    ],
)
def test_only_a_sum_that_is_rounded_and_used_again_widens_the_gate(value: str, again: bool) -> None:
    ptx = _TILE_IN_FP16.format(value=value)
    assert as_compiled(spec(FP16, FP16), f".entry f()\n{{\n{ptx}\nret;\n}}").rounds_again == again


def test_what_narrow_sums_hold_exactly() -> None:
    half = as_compiled(spec(FP16, FP16), PTX["fp16 fma"][2])
    assert exact_limit(half) == 2047
    data = operands(Problem(8, 8, 64, FP16, FP16), "integers", 0, exact_limit(half))
    product = np.abs(data.a.astype(np.float64)) @ np.abs(data.b.astype(np.float64))
    assert product.max() <= 2047


def judged(problem: Problem, got: Any, how: Arithmetic, seed: int = 0) -> bool:
    data = operands(problem, "normal", seed)
    return not compare("float", problem, SIGNATURE, data, got(data), "normal", seed, how).wrong.any()


def fp16_sums(data: Any) -> Any:
    total = np.zeros((data.a.shape[0], data.b.shape[1]), np.float16)
    for k in range(data.a.shape[1]):
        total = total + data.a[:, k, None] * data.b[None, k, :]
    return total


def test_fp16_sums_pass_with_their_own_roundoff_alone() -> None:
    problem, half = Problem(32, 32, 128, FP16, FP16), Arithmetic(accumulator=FP16)
    assert judged(problem, fp16_sums, half)
    assert not judged(problem, fp16_sums, Arithmetic())

    def without_one_term(data: Any) -> Any:
        total = fp16_sums(data).astype(np.float32)
        return (total - np.outer(data.a[:, 7], data.b[7]).astype(np.float32)).astype(np.float16)

    assert not judged(problem, without_one_term, half)


def test_an_epilogue_in_fp16_is_judged_with_its_roundings() -> None:
    problem, again = Problem(32, 32, 128, FP16, FP16, alpha=0.6875, beta=-1.5), Arithmetic(rounds_again=True)

    def epilogue(data: Any, beta: float = -1.5) -> Any:
        product = (data.a.astype(np.float64) @ data.b.astype(np.float64)).astype(np.float16)
        return np.float16(0.6875) * product + np.float16(beta) * data.c

    assert judged(problem, epilogue, again)
    assert not judged(problem, epilogue, Arithmetic())
    assert not judged(problem, lambda data: epilogue(data, -1.515), again)


def test_fp64_is_judged_beyond_fp32() -> None:
    problem, double = Problem(24, 40, 64, FP64, FP64), Arithmetic(accumulator=FP64)
    assert judged(problem, lambda data: data.a @ data.b, double)
    assert not judged(problem, lambda data: (data.a.astype(np.float32) @ data.b.astype(np.float32)) * 1.0, double)
    assert not judged(problem, lambda data: data.a @ data.b * (1 + 2.0**-45), double)
    assert accuracy("fp32", 64, accumulator=FP64).unit == 2.0**-53


@pytest.mark.parametrize("dtype", [INT8, UINT8, INT32])
def test_integer_sums_are_compared_exactly(dtype: DType) -> None:
    problem = Problem(16, 24, 1000, dtype, INT32)

    def exact(data: Any) -> Any:
        return data.a.astype(np.int32) @ data.b.astype(np.int32)

    assert judged(problem, exact, Arithmetic())
    assert not judged(problem, lambda data: exact(data) + (np.arange(24) == 5).astype(np.int32), Arithmetic())


def test_unsigned_bytes_reach_past_the_sign() -> None:
    a = operands(Problem(32, 32, 32, UINT8, INT32), "normal").a
    assert a.dtype == np.uint8
    assert (a > 127).any()
    assert (a < 128).any()


# --- what is written

HEAD = ".visible .entry f(\n.param .u64 f_param_0,\n.param .u64 f_param_1,\n.param .u64 f_param_2\n)\n{\n"
LOADS = "".join(f"ld.param.u64 %rd{i}, [f_param_{i}];\ncvta.to.global.u64 %rd1{i}, %rd{i};\n" for i in range(3))
STORES = {
    "a store": ("st.global.f32 [%rd12], %f1;", {2}),
    "an offset in another register": ("add.s64 %rd20, %rd11, %rd5;\n@%p1 st.global.v4.f32 [%rd20+16], {%f1};", {1}),
    "a reduction": ("red.global.add.f32 [%rd10], %f1;", {0}),
    "an atomic": ("atom.global.add.f32 %f2, [%rd10], %f1;", {0}),
    "wmma": ("wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%rd12], {%f1}, %r1;", {2}),
    "around a loop": ("L:\nst.global.f32 [%rd30], %f1;\nmov.u64 %rd30, %rd31;\nadd.s64 %rd31, %rd12, 4;", {2}),
    "shared memory only": ("st.shared.f32 [%r1], %f1;", set()),
    "only loads": ("ld.global.f32 %f1, [%rd12];", set()),
    "two": ("st.global.f32 [%rd11], %f1;\nst.global.f32 [%rd12], %f1;", {1, 2}),
}


@pytest.mark.parametrize("what", STORES)
def test_written_parameters(what: str) -> None:
    text, found = STORES[what]
    ptx = HEAD.replace("f", "g") + "st.global.f32 [%rd10], %f1;\n}\n" + HEAD + LOADS + text + "\n}\n"
    assert written_parameters(ptx, "f") == found
