"""Bias, activation, output type and batch under verification: correct kernels pass, each mistake is caught.

The references are checked against plain arithmetic. The launches run a Python kernel on a fake device; the kernel can
make one mistake on purpose.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from test_verify_fakes import FakeCall, FakeDevice, compile_nothing, make_spec, run

from gemmsmith.errors import UnsupportedError, UsageError
from gemmsmith.kernel.config import Config
from gemmsmith.problem import BF16, FP16, FP32, INT8, INT32, OUTPUTS, DType, Problem
from gemmsmith.verify.harness import verify_launch
from gemmsmith.verify.oracles.epilogue import SLOPES, activated, finished, output_rounding, projected_rounding, stored
from gemmsmith.verify.oracles.reference import Reference
from gemmsmith.verify.verdict import Verdict

Array = np.ndarray[Any, np.dtype[Any]]
XS = (0.0, -0.0, 1.0, -1.0, 0.5, -0.75, 3.0, -3.0, 1e-30, -1e-30, 40.0, -40.0, 1e30, -1e30, 800.0, -800.0)
BY_HAND: dict[str, Callable[[float], float]] = {
    "": lambda x: x,
    "relu": lambda x: x if x > 0 else 0.0,
    "gelu_tanh": lambda x: x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
    "gelu": lambda x: x * (math.erf(x / math.sqrt(2)) + 1) / 2,
    "silu": lambda x: x * (1 / (1 + math.exp(-x)) if x > 0 else math.exp(x) / (1 + math.exp(x))),
}

# --- activations


@pytest.mark.parametrize("name", BY_HAND)
def test_activations_agree_with_math(name: str) -> None:
    got = activated(name, np.array(XS))
    for x, y in zip(XS, got, strict=True):
        assert y == pytest.approx(BY_HAND[name](x), rel=1e-14, abs=1e-300), x


@pytest.mark.parametrize(("name", "below"), [("", -math.inf), ("relu", 0.0), ("gelu", 0.0), ("silu", 0.0)])
def test_activations_of_infinities_and_nan(name: str, below: float) -> None:
    got = activated(name, np.array([math.inf, -math.inf, math.nan]))
    assert got[0] == math.inf
    assert got[1] == below
    assert math.isnan(got[2])


@pytest.mark.parametrize("name", BY_HAND)
def test_slopes_are_tight_upper_bounds(name: str) -> None:
    """An error of the argument is amplified by at most the slope, and the slope is attained."""
    x = np.linspace(-8, 8, 20_001)
    steepest = float(np.abs(np.diff(activated(name, x)) / np.diff(x)).max())
    assert steepest <= SLOPES[name] <= steepest + 0.002


# --- the reference after the epilogue


def plain(*values: float) -> Reference:
    value = np.array([values])
    return Reference(value, value, np.abs(value), np.zeros(value.shape, bool), np.zeros(value.shape, bool))


def test_a_bias_is_added_to_its_row_or_column() -> None:
    value = np.arange(6.0).reshape(2, 3)
    off = np.zeros((2, 3), bool)
    reference = Reference(value, value, np.ones((2, 3)), off, off)
    rows = finished(Problem(2, 3, 1, bias="row"), reference, np.array([10, -20], np.float32))
    assert rows.value.tolist() == [[10, 11, 12], [-17, -16, -15]] == rows.exact.tolist()
    assert rows.magnitude.tolist() == [[11] * 3, [21] * 3]
    columns = finished(Problem(2, 3, 1, bias="column"), reference, np.array([1, 2, np.inf], np.float32))
    assert columns.value.tolist() == [[1, 3, math.inf], [4, 6, math.inf]]
    assert columns.magnitude.tolist() == [[2, 3, 1]] * 2  # an infinity has no size


def test_an_activation_scales_the_errors_by_its_slope() -> None:
    for name, slope in SLOPES.items():
        done = finished(Problem(1, 2, 1, activation=name, own_scalars=True), plain(-0.5, 2.0), None)
        assert done.value[0].tolist() == pytest.approx([BY_HAND[name](-0.5), BY_HAND[name](2.0)])
        assert done.magnitude[0].tolist() == pytest.approx([0.5 * slope, 2.0 * slope])


@pytest.mark.parametrize(("dtype", "limit"), [(FP16, 65520.0), (BF16, 2.0**128 - 2.0**119)], ids=str)
def test_what_rounds_to_infinity(dtype: DType, limit: float) -> None:
    below = float(np.nextafter(np.float32(limit), np.float32(0)))
    with np.errstate(over="ignore"):
        assert np.isinf(np.float32(limit).astype(dtype.numpy))
        assert np.isfinite(np.float32(below).astype(dtype.numpy))
    done = finished(Problem(1, 4, 1, dtype, dtype), plain(limit, -limit, below, 1.0), None)
    assert done.value[0].tolist() == [math.inf, -math.inf, below, 1.0]
    assert done.may_overflow[0].tolist() == [True, True, True, False]
    assert np.isfinite(done.exact).all()


def test_int8_saturates_and_nan_becomes_zero() -> None:
    reference = plain(127.4, 128.0, -129.0, 1e9, -math.inf, math.nan, 3.5)
    done = finished(Problem(1, 7, 1, INT8, INT8), reference, None)
    assert done.value[0].tolist() == [127, 127, -128, 127, -128, 0, 3.5]
    assert done.exact[0].tolist() == done.value[0].tolist()


@pytest.mark.parametrize("dtype", [FP16, BF16], ids=str)
def test_rounding_to_a_narrow_type_stays_within_the_bound(dtype: DType) -> None:
    rng = np.random.default_rng(2)
    least = -24 if dtype == FP16 else -130
    values = np.concatenate([rng.standard_normal(5000) * 2.0**e for e in (0, 5, least // 2, least)])
    values = np.concatenate([values, [1 + dtype.unit_roundoff, 2 - dtype.unit_roundoff / 2, 2.0**least * 1.5, 0.0]])
    error = np.abs(values.astype(dtype.numpy).astype(np.float64) - values)
    allowed = output_rounding(dtype, values)
    assert (error <= allowed).all()
    assert (error > 0.98 * allowed).any()  # the bound is met
    cut = np.abs(values) * dtype.unit_roundoff * 2.2 + allowed * 0.3
    assert (cut[np.abs(values) > 2.0 ** (least + 12)] > allowed[np.abs(values) > 2.0 ** (least + 12)]).all()


def test_rounding_of_the_other_types() -> None:
    assert output_rounding(FP32, np.array([1.0, 1e30])).tolist() == [0, 0]
    assert output_rounding(INT32, np.array([1.0])).tolist() == [0]
    assert output_rounding(INT8, np.array([1.0, 100.0])).tolist() == [0.5, 0.5]
    values, direction = np.full((2, 300), 64.0), np.full(300, -2.0)
    assert projected_rounding(FP32, values, direction).tolist() == [0, 0]
    deviation = 64 * 2.0**-11 * 2 * math.sqrt(300 / 3)
    assert projected_rounding(FP16, values, direction) == pytest.approx([6 * deviation] * 2, rel=0.02)


def test_stored_exact_integers() -> None:
    exact = np.array([[200, -300, 5], [2**31 + 7, -5, 2049]], np.int64)
    bias = np.array([1, 2, 3])
    for problem, expected in (
        (Problem(2, 3, 1), [[200, -300, 5], [2**31, -5, 2049]]),
        (Problem(2, 3, 1, activation="relu", bias="column"), [[201, 0, 8], [2**31, 0, 2052]]),
        (Problem(2, 3, 1, INT8, INT32, bias="row"), [[201, -299, 6], [7 - 2**31 + 2, -3, 2051]]),
        (Problem(2, 3, 1, INT8, INT8, bias="column"), [[127, -128, 8], [127, -3, 127]]),
        (Problem(2, 3, 1, FP16, FP16), [[200, -300, 5], [math.inf, -5, 2048]]),
        (Problem(2, 3, 1, BF16, BF16, activation="relu"), [[200, 0, 5], [2.0**31, 0, 2048]]),
    ):
        made = stored(problem, exact, bias[: problem.bias_length] if problem.bias else None)
        assert made.dtype == problem.out_dtype.numpy
        assert made.astype(np.float64).tolist() == expected, str(problem)
    with pytest.raises(ValueError, match="gelu of an integer is not an integer"):
        stored(Problem(2, 3, 1, activation="gelu"), exact, None)


# --- a kernel with everything

SOURCE = (
    'extern "C" __global__ void gemm(int M, int N, int K, float alpha, const float* A, long long lda, '
    "const float* B, long long ldb, float beta, float* C, long long ldc, const float* bias, long long strideA, "
    "long long strideB, long long strideC) {}"
)


def matrix(call: FakeCall, role: str, index: int, shape: tuple[int, int], dtype: DType) -> Array:
    """A view of matrix ``index`` of a batch."""
    ld, stride = call.values[f"ld{role.lower()}"], call.values[f"stride{role}"]
    memory = call.device.arena[call.values[role] + index * stride * dtype.itemsize :]
    return np.ndarray(shape, dtype.numpy, buffer=memory.data, strides=(ld * dtype.itemsize, dtype.itemsize))


def sums_of(left: Array, right: Array, problem: Problem) -> Array:
    if problem.dtype == INT8:
        return left.astype(np.int64) @ right.astype(np.int64)
    terms = left.astype(np.float32)[:, :, None] * right.astype(np.float32)[None, :, :]
    return terms.sum(axis=1, dtype=np.float32)


def converted(value: Array, dtype: DType) -> Array:
    if dtype == INT8:
        return np.rint(np.nan_to_num(value, nan=0.0)).clip(-128, 127).astype(np.int8)
    return value.astype(dtype.numpy)


def everything(call: FakeCall, problem: Problem, mistake: str = "") -> None:
    """act(alpha·A·B + beta·C + bias) for each product of a batch, with at most one mistake."""
    m, n, k = call.shape
    alpha, beta = np.float32(call.values["alpha"]), np.float32(call.values["beta"])
    out = problem.out_dtype
    length = problem.bias_length
    for i in range(problem.batch):
        at_a, at_b, at_c = i, i, i
        if mistake == "swapped batch":
            at_b = problem.batch - 1 - i
        if mistake == "first matrix for all":
            at_a = 0
        a = matrix(call, "A", at_a, problem.a_shape, problem.dtype)
        b = matrix(call, "B", at_b, problem.b_shape, problem.dtype)
        if mistake == "broadcast ignored":
            skip = i * problem.b_shape[0] * call.values["ldb"] * problem.dtype.itemsize
            memory = call.device.arena[call.values["B"] + skip :]
            b = np.ndarray(b.shape, b.dtype, buffer=memory.data, strides=b.strides)
        c = matrix(call, "C", 0 if mistake == "first output for all" else at_c, (m, n), out)
        left, right = (a.T if problem.trans_a else a), (b.T if problem.trans_b else b)
        with np.errstate(all="ignore"):
            sums = sums_of(left, right, problem) if alpha != 0 and k else np.zeros((m, n), np.float32)
            value = sums.astype(np.float32) * alpha
            old = c.astype(np.float32)
            if beta != 0 and not (mistake == "beta only in the first" and i):
                value = value + beta * old
            offset = np.zeros((m, n), np.float32)
            if problem.bias:
                memory = call.device.arena[call.values["bias"] :]
                vector = np.ndarray((length + 1,), out.numpy, buffer=memory.data)
                first = 1 if mistake == "bias off by one" else 0
                one = vector[first : first + length].astype(np.float32)
                if mistake == "bias of the other side":
                    one = np.resize(one, n if problem.bias == "row" else m)
                    offset = offset + (one[None, :] if problem.bias == "row" else one[:, None])
                else:
                    offset = offset + (one[:, None] if problem.bias == "row" else one[None, :])
                if mistake == "bias overwritten":
                    vector[0] = 0
            if mistake == "no bias":
                offset[:] = 0
            late = mistake == "bias after the activation"
            value = value if late else value + offset
            wide = value.astype(np.float64)
            if mistake == "gelu by tanh":
                wide = 0.5 * wide * (1 + np.tanh(0.7978845608 * (wide + 0.044715 * wide**3)))
            elif mistake != "no activation":
                wide = activated(problem.activation, wide)
            value = wide.astype(np.float32) + (offset if late else 0)
            if mistake == "leaky relu":
                value = np.where(value == 0, np.float32(-0.01), value)
            if out == INT32:
                whole = sums + (np.float32(beta) * c if beta else 0)
                whole = whole.astype(np.int64) + offset.astype(np.int64)
                c[:] = (np.maximum(whole, 0) if problem.activation == "relu" else whole).astype(np.int32)
                continue
            c[:] = convert(value, out, mistake)


def convert(value: Array, out: DType, mistake: str) -> Array:
    if mistake == "cut off":
        return np.trunc(value).clip(-128, 127).astype(np.int8) if out == INT8 else cut(value, out)
    if mistake == "wraps around":
        return np.rint(value).astype(np.int64).astype(np.int8)
    if mistake == "largest instead of infinity":
        return value.clip(-65504, 65504).astype(np.float16)
    if mistake == "nearly":
        return converted(value, out) - np.int8(1)
    if mistake == "through fp16":
        return value.astype(np.float16).astype(np.float32)
    if mistake == "through bf16":
        return value.astype(ml_dtypes.bfloat16).astype(np.float16)
    return converted(value, out)


def cut(value: Array, out: DType) -> Array:
    """Round to the narrower type, towards zero."""
    dropped = np.uint32(0x1FFF if out == FP16 else 0xFFFF)
    return (value.astype(np.float32).view(np.uint32) & ~dropped).view(np.float32).astype(out.numpy)


def judged(tmp_path: Path, problem: Problem, mistake: str = "", **options: object) -> Verdict:
    spec = make_spec(tmp_path, SOURCE, dtypes=(problem.dtype,), layouts=(problem.layout,), epilogue=True, batched=True,
                     out_dtypes=(FP32, FP16, BF16, INT32, INT8))  # fmt: skip
    return run(tmp_path, partial(everything, problem=problem, mistake=mistake), problem, spec, **options)


TYPES = [(dtype, out) for dtype, outs in OUTPUTS.items() for out in outs if dtype in (FP32, FP16, BF16, INT8)]
PLAIN = Problem(19, 21, 33)
BATCH = Problem(19, 21, 33, batch=3)


EPILOGUES = (("", ""), ("row", "relu"), ("column", ""), ("", "relu"), ("row", "gelu"), ("column", "silu"))
HONEST = [(dtype, out, epilogue) for dtype, out in TYPES for epilogue in EPILOGUES
          if out != INT32 or epilogue[1] in ("", "relu")]  # fmt: skip


@pytest.mark.parametrize(("dtype", "out", "epilogue"), HONEST, ids=str)
def test_correct_kernels_pass(tmp_path: Path, dtype: DType, out: DType, epilogue: tuple[str, str]) -> None:
    bias, activation = epilogue
    problem = Problem(19, 21, 33, dtype, out, beta=1.0, bias=bias, activation=activation, batch=2)
    if activation in ("", "relu"):
        assert judged(tmp_path, problem, mode="exact").trusted
    if out != INT32:
        small = problem.with_(alpha=0.01 if dtype == INT8 else 0.7, beta=-0.5)
        for seed in range(3):
            verdict = judged(tmp_path, small, seed=seed)
            assert verdict.trusted, str(verdict)
    if dtype not in (INT8, FP32):
        assert judged(tmp_path, problem, fill="specials").ok


LAID_OUT: list[dict[str, Any]] = [
    {}, {"stride_a": 0}, {"stride_b": 0, "trans_a": True}, {"stride_a": 0, "stride_b": 0},
    {"trans_a": True, "trans_b": True}, {"lda": 40, "ldb": 25, "ldc": 30},
]  # fmt: skip


@pytest.mark.parametrize("changes", LAID_OUT, ids=str)
def test_correct_batches_pass(tmp_path: Path, changes: dict[str, Any]) -> None:
    problem = BATCH.with_(beta=0.5, bias="column", **changes)
    for offsets in ((0, 0, 0), (1, 2, 3)):
        verdict = judged(tmp_path, problem, offsets=offsets)
        assert verdict.trusted, str(verdict)
    assert verdict.total == 3 * 19 * 21


@pytest.mark.parametrize("batch", [0, 1])
def test_batches_of_zero_and_one(tmp_path: Path, batch: int) -> None:
    problem = PLAIN.with_(batch=batch, bias="row", activation="relu")
    verdict = judged(tmp_path, problem)
    assert verdict.trusted, str(verdict)
    assert verdict.total == batch * 19 * 21


def test_nan_and_infinity_with_an_int8_output(tmp_path: Path) -> None:
    for alpha in (math.nan, math.inf):
        problem = Problem(5, 6, 7, INT8, INT8, alpha=alpha, bias="row")
        verdict = judged(tmp_path, problem)
        assert verdict.ok, str(verdict)
        assert not judged(tmp_path, problem, "nearly").ok


HALF = Problem(19, 21, 33, FP16, FP16)
BYTES = Problem(19, 21, 33, INT8, INT8)
WRONG: list[tuple[str, Problem, dict[str, object], str]] = [
    ("bias off by one", PLAIN.with_(bias="row"), {}, "outputs wrong"),
    ("bias off by one", PLAIN.with_(bias="column"), {"mode": "exact"}, "outputs wrong"),
    ("bias of the other side", PLAIN.with_(bias="row"), {}, "outputs wrong"),
    ("bias of the other side", Problem(20, 20, 8, bias="column"), {"mode": "exact"}, "outputs wrong"),
    ("no bias", PLAIN.with_(bias="column"), {}, "outputs wrong"),
    ("bias overwritten", PLAIN.with_(bias="row"), {}, "bias"),
    ("bias after the activation", PLAIN.with_(bias="row", activation="relu"), {"mode": "exact"}, "outputs wrong"),
    ("bias after the activation", PLAIN.with_(bias="row", activation="silu"), {}, "outputs wrong"),
    ("no activation", PLAIN.with_(activation="relu"), {}, "outputs wrong"),
    ("no activation", PLAIN.with_(activation="gelu", bias="row"), {}, "outputs wrong"),
    ("no activation", BYTES.with_(activation="silu", alpha=0.01), {}, "outputs wrong"),
    ("leaky relu", PLAIN.with_(activation="relu"), {}, "outputs wrong"),
    ("gelu by tanh", PLAIN.with_(activation="gelu", alpha=0.2), {}, "outputs wrong"),
    ("cut off", HALF, {}, "outputs wrong"),
    ("cut off", Problem(19, 21, 33, BF16, BF16), {}, "outputs wrong"),
    ("cut off", BYTES.with_(alpha=0.01), {}, "outputs wrong"),
    ("wraps around", BYTES.with_(alpha=20.0), {"mode": "exact"}, "outputs wrong"),
    ("wraps around", BYTES.with_(alpha=0.02), {}, "outputs wrong"),
    ("largest instead of infinity", HALF.with_(alpha=30000.0), {}, "outputs wrong"),
    ("through fp16", PLAIN, {}, "outputs wrong"),
    ("through bf16", HALF, {}, "outputs wrong"),
    ("swapped batch", BATCH, {}, "outputs wrong"),
    ("swapped batch", BATCH.with_(stride_a=0), {"mode": "exact"}, "outputs wrong"),
    ("first matrix for all", BATCH, {}, "wrong: products 1 and 2 of the batch of 3"),
    ("broadcast ignored", BATCH.with_(stride_b=0, trans_a=True), {}, "outputs are NaN and should not be"),
    ("first output for all", BATCH, {}, "798 of 1197 outputs were never written, the first at (0, 0) of product 1 of "
     "the batch\nnever written: products 1 and 2 of the batch of 3, counted from 0\n"),
    ("beta only in the first", BATCH.with_(beta=0.7), {}, "wrong: products 1 and 2 of the batch of 3"),
]  # fmt: skip


@pytest.mark.parametrize(("mistake", "problem", "options", "words"), WRONG, ids=[f"{w[0]}-{w[1]}" for w in WRONG])
def test_mistakes_are_caught(
    tmp_path: Path, mistake: str, problem: Problem, options: dict[str, object], words: str
) -> None:
    assert judged(tmp_path, problem, **options).ok
    verdict = judged(tmp_path, problem, mistake, **options)
    assert not verdict.ok
    assert words in "\n".join([*verdict.reasons, *map(str, verdict.damage)])


@pytest.mark.parametrize("units", [-1, 0, 1])
@pytest.mark.parametrize("out", [FP16, BF16], ids=str)
def test_an_output_off_by_one_unit_is_wrong(tmp_path: Path, out: DType, units: int) -> None:
    """The nearest number is right; its neighbours on both sides are wrong."""
    problem = Problem(6, 7, 8, out, out)

    def moved(call: FakeCall) -> None:
        everything(call, problem)
        matrix(call, "C", 0, (6, 7), out).view(np.int16)[2, 3] += units

    spec = make_spec(tmp_path, SOURCE, dtypes=(out,), epilogue=True, batched=True, out_dtypes=(out,))
    verdict = run(tmp_path, moved, problem, spec)
    assert verdict.ok == (units == 0), str(verdict)
    if units:
        assert (verdict.wrong, verdict.where) == (1, (2, 3))


def test_small_int8_outputs_are_trusted_but_all_zeros_are_not(tmp_path: Path) -> None:
    """Half of the outputs correctly round to zero; an all-zero output is still detected."""
    problem = Problem(19, 21, 33, INT8, INT8, alpha=0.001)
    assert judged(tmp_path, problem).trusted
    spec = make_spec(tmp_path, SOURCE, dtypes=(INT8,), epilogue=True, batched=True, out_dtypes=(INT8,))
    verdict = run(tmp_path, lambda call: matrix(call, "C", 0, (19, 21), INT8).fill(0), problem.with_(alpha=0.02), spec)
    assert not verdict.ok
    assert verdict.mistrusted


# --- refusals, and the repeat line


@pytest.mark.parametrize(("problem", "options", "message"), [
    (PLAIN.with_(activation="gelu"), {"mode": "exact"}, "cannot judge gelu, which rounds"),
    (PLAIN.with_(bias="row"), {"mode": "bits"}, "requires fp32 outputs without an epilogue"),
    (HALF, {"mode": "bits"}, "requires fp32 outputs without an epilogue"),
    (PLAIN.with_(bias="row"), {"mode": "projection"}, "does not support bias and activation"),
    (PLAIN.with_(activation="relu"), {"mode": "projection"}, "does not support bias and activation"),
    (PLAIN.with_(activation="relu"), {"mode": "mod32"}, "requires fp32 outputs without an epilogue"),
], ids=str)  # fmt: skip
def test_unsuitable_oracles_are_refused(
    tmp_path: Path, problem: Problem, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        judged(tmp_path, problem, **options)


def test_room_between_the_matrices_of_a_batch(tmp_path: Path) -> None:
    assert judged(tmp_path, replace(BATCH, stride_c=BATCH.stride_c + BATCH.ldc)).trusted


@pytest.mark.parametrize(("problem", "message"), [
    (PLAIN.with_(bias="row"), "takes no bias and no activation"),
    (PLAIN.with_(activation="relu"), "takes no bias and no activation"),
    (BATCH, "takes one product, not a batch of 3"),
    (HALF, "takes fp32 inputs, not fp16"),
    (replace(PLAIN, dtype=FP16, out_dtype=FP16), "takes fp32 inputs"),
], ids=str)  # fmt: skip
def test_unsupported_epilogues_are_refused(tmp_path: Path, problem: Problem, message: str) -> None:
    spec = make_spec(tmp_path)
    device = FakeDevice(partial(everything, problem=problem), spec)
    with pytest.raises(UnsupportedError, match=message):
        verify_launch(device, spec, Config(), problem, compile_fn=compile_nothing)
    assert device.launches == 0


def test_the_repeat_line_is_complete(tmp_path: Path) -> None:
    problem = Problem(4, 5, 6, FP16, FP16, batch=3, stride_b=0, bias="row", activation="silu")
    line = judged(tmp_path, problem).repeat
    assert "--out-dtype fp16 --batch 3 --share-b --bias row --activation silu" in line
    assert "--share-a" not in line
    plain_line = judged(tmp_path, PLAIN).repeat
    assert not any(word in plain_line for word in ("--out-dtype", "--batch", "--share", "--bias", "--activation"))
    facts = judged(tmp_path, problem).to_json()["problem"]
    assert isinstance(facts, dict)
    assert (facts["out_dtype"], facts["batch"], facts["bias"], facts["activation"]) == ("fp16", 3, "row", "silu")
