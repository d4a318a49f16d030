"""gemm with bias, activation, output types, TF32 and batches on NumPy arrays: results and refusals."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import gemmsmith
from gemmsmith import problem as dtypes
from gemmsmith.choose.default import default_rung
from gemmsmith.errors import ConfigError, DTypeError, GemmsmithError, ProblemError, UnsupportedError, UsageError
from gemmsmith.fills import Array
from gemmsmith.problem import Problem

F16, F32, BF16 = np.float16, np.float32, ml_dtypes.bfloat16
gemm = gemmsmith.gemm
# Configurations that compile quickly.
PLAIN: dict[str, Any] = {"kernel": "warp_tile", "config": {"BM": 64, "BN": 64, "BK": 8, "WM": 64, "WN": 32, "WNITER": 2,
                                                           "TM": 4, "TN": 4, "UNROLL": 2}}  # fmt: skip
TENSOR: dict[str, Any] = {"kernel": "mma_swizzled",
                          "config": {"BM": 64, "BN": 64, "BK_BYTES": 32, "WM": 32, "WN": 32}}  # fmt: skip


def integers(*shape: int, seed: int = 0, dtype: Any = F32, largest: int = 5) -> Array:
    """Small non-zero integers, so that all arithmetic is exact."""
    rng = np.random.default_rng(seed)
    return (rng.integers(1, largest + 1, shape) * rng.choice([-1, 1], shape)).astype(dtype)


def product(a: Array, b: Array) -> Array:
    return a.astype(np.float64) @ b.astype(np.float64)


# --- bias


@pytest.mark.parametrize("shape", [(7,), (1, 7), (9, 1)], ids=str)
def test_a_bias_per_column_or_row(shape: tuple[int, ...]) -> None:
    a, b, bias = integers(9, 11), integers(11, 7, seed=1), integers(*shape, seed=2)
    before = bias.copy()
    assert np.array_equal(gemm(a, b, bias=bias, **PLAIN), product(a, b) + bias)
    assert np.array_equal(bias, before)


@pytest.mark.parametrize(("m", "n", "shape"), [
    (5, 5, (5,)), (5, 5, (5, 1)), (5, 5, (1, 5)), (1, 5, (1, 1)), (1, 5, (5,)), (1, 1, (1,)), (5, 1, (1, 1)),
    (5, 1, (5, 1)),
], ids=str)  # fmt: skip
def test_a_bias_with_an_ambiguous_shape(m: int, n: int, shape: tuple[int, ...]) -> None:
    """A 1x1 bias for a single row of five is added to the row, and nothing past it is read."""
    a, b, bias = integers(m, 3), integers(3, n, seed=1), integers(*shape, seed=2)
    assert np.array_equal(gemm(a, b, bias=bias, **PLAIN), product(a, b) + bias)


def test_a_bias_may_be_part_of_a_larger_array() -> None:
    a, b, large = integers(9, 11), integers(11, 7, seed=1), integers(20, 20, seed=2)
    assert np.array_equal(gemm(a, b, bias=large[3, 5:12], **PLAIN), product(a, b) + large[3, 5:12])
    column = np.ascontiguousarray(large[2:11, :1])
    assert np.array_equal(gemm(a, b, bias=column, **PLAIN), product(a, b) + column)


def test_bias_c_and_scalars_together() -> None:
    a, b, c, bias = integers(9, 11), integers(11, 7, seed=1), integers(9, 7, seed=2), integers(7, seed=3)
    before = c.copy()
    got = gemm(a, b, c, alpha=2, beta=-3, bias=bias, activation="relu", **PLAIN)
    assert np.array_equal(got, np.maximum(2 * product(a, b) - 3 * c + bias, 0))
    assert np.array_equal(c, before)


# --- activations

BY_HAND: dict[str, Callable[[float], float]] = {
    "relu": lambda x: max(x, 0.0),
    "gelu": lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2,
    "silu": lambda x: x / (1 + math.exp(-x)),
}


@pytest.mark.parametrize(("name", "tensor"), [("relu", False), ("gelu", False), ("silu", False), ("gelu", True)])
def test_an_activation(name: str, tensor: bool) -> None:
    options, dtype = (TENSOR, F16) if tensor else (PLAIN, F32)
    a, b = integers(6, 5, dtype=dtype), integers(5, 9, seed=1, dtype=dtype)
    got = gemm(a, b, alpha=0.125, activation=name, **options)
    expected = np.vectorize(BY_HAND[name])(0.125 * product(a, b))
    assert got.dtype == F32
    assert np.allclose(got, expected, rtol=1e-5, atol=1e-6)
    assert (np.abs(got - 0.125 * product(a, b)) > 1e-3).any()


def test_nan_stays_nan() -> None:
    a = np.array([[math.nan], [1.0]], F32)
    for name in BY_HAND:
        got = gemm(a, np.ones((1, 2), F32), activation=name, **PLAIN)
        assert np.isnan(got[0]).all()
        assert np.isfinite(got[1]).all()


# --- types


@pytest.mark.parametrize(("dtype", "out"), [(F16, "fp16"), (F16, "fp32"), (BF16, "bf16"), (np.int8, "int8"),
                                            (np.int8, "int32"), (np.int8, "fp32")], ids=str)  # fmt: skip
def test_output_types(dtype: Any, out: str) -> None:
    kind = {"fp16": F16, "fp32": F32, "bf16": BF16, "int8": np.int8, "int32": np.int32}[out]
    a, b = integers(9, 12, dtype=dtype, largest=2), integers(12, 10, seed=1, dtype=dtype, largest=2)
    bias = integers(10, seed=2, dtype=kind)
    got = gemm(a, b, out_dtype=out, bias=bias, **TENSOR)
    assert got.dtype == kind
    assert np.array_equal(got.astype(np.float64), product(a, b) + bias.astype(np.float64))


def test_the_result_has_the_type_of_out() -> None:
    a, b = integers(9, 12, dtype=F16), integers(12, 10, seed=1, dtype=F16)
    out = np.full((9, 10), np.nan, F16)
    assert gemm(a, b, out=out, **TENSOR) is out
    assert np.array_equal(out, product(a, b))
    assert gemm(a, b, **TENSOR).dtype == F32  # the default


def test_int8_saturates_and_int32_does_not() -> None:
    a = np.full((2, 40), 100, np.int8)
    assert (gemm(a, a.T, out_dtype="int8", **TENSOR) == 127).all()
    assert (gemm(a, -a.T, out_dtype="int8", **TENSOR) == -128).all()
    assert (gemm(a, a.T, out_dtype="int32", **TENSOR) == 400_000).all()


def test_fp16_overflows_to_infinity() -> None:
    a = np.full((2, 8), 200, F16)
    assert np.isposinf(gemm(a, a.T, out_dtype="fp16", **TENSOR)).all()
    assert (gemm(a, a.T, **TENSOR) == 320_000).all()


def test_tf32_rounds_the_operands() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((20, 64), F32), rng.standard_normal((64, 30), F32)
    exact, scale = product(a, b), np.abs(a).astype(float) @ np.abs(b)
    tf32 = gemm(a, b, dtype="tf32", **TENSOR)
    full = gemm(a, b, **PLAIN)
    assert tf32.dtype == F32
    assert (np.abs(tf32 - exact) <= 2.0**-10 * scale).all()
    assert np.abs(tf32 - exact).max() > 50 * np.abs(full - exact).max()
    assert np.array_equal(gemm(a, b, dtype="fp32", **PLAIN), full)


def test_a_kernel_is_chosen_that_supports_the_problem() -> None:
    chosen = {
        Problem(6, 5, 8, bias="row"): "warp_tile",
        Problem(6, 5, 8, batch=2): "warp_tile",
        Problem(6, 5, 8, dtypes.TF32): "mma_pipelined",
        Problem(6, 5, 8, dtypes.FP16, dtypes.FP16, activation="relu"): "mma_pipelined",
        Problem(6, 5, 8, dtypes.BF16, trans_a=True, batch=2): "mma_pipelined",
        Problem(6, 5, 8, dtypes.INT8, dtypes.INT32): "mma_pipelined",
    }
    assert {problem: default_rung(problem).name for problem in chosen} == chosen
    with pytest.raises(UnsupportedError, match="no rung computes 6x5x8 int8 to int8 TN with precision='ieee'"):
        default_rung(Problem(6, 5, 8, dtypes.INT8, dtypes.INT8, trans_a=True), "ieee")


# --- batches

Shape = tuple[int, ...]


@pytest.mark.parametrize(("left", "right"), [
    ((3, 9, 11), (3, 11, 7)), ((3, 9, 11), (11, 7)), ((9, 11), (3, 11, 7)), ((1, 9, 11), (3, 11, 7)),
    ((3, 9, 11), (1, 11, 7)), ((1, 9, 11), (1, 11, 7)), ((1, 9, 11), (11, 7)), ((0, 9, 11), (0, 11, 7)),
    ((0, 9, 11), (11, 7)),
], ids=str)  # fmt: skip
def test_batches_and_one_matrix_for_the_batch(left: Shape, right: Shape) -> None:
    a, b = integers(*left), integers(*right, seed=1)
    expected = product(a, b)
    got = gemm(a, b, **PLAIN)
    assert got.shape == expected.shape
    assert np.array_equal(got, expected)


@pytest.mark.parametrize("layout", ["TN", "NT", "TT"])
def test_transposed_batches(layout: str) -> None:
    a, b = integers(2, 11, 9, dtype=F16), integers(2, 7, 11, seed=1, dtype=F16)
    left = a.swapaxes(1, 2) if layout[0] == "T" else np.ascontiguousarray(a.swapaxes(1, 2))
    right = b.swapaxes(1, 2) if layout[1] == "T" else np.ascontiguousarray(b.swapaxes(1, 2))
    assert np.array_equal(gemm(left, right, **TENSOR), product(left, right))
    assert np.array_equal(gemm(left[0], right, **TENSOR), product(left[0], right))


def test_batches_that_are_part_of_larger_arrays() -> None:
    large = integers(7, 20, 30)
    a, b = large[1:6:2, 2:11, 3:14], large[4:, 5:16, 8:15]
    assert np.array_equal(gemm(a, b, **PLAIN), product(a, b))
    repeated = np.broadcast_to(a[0], (3, 9, 11))
    assert np.array_equal(gemm(repeated, b, **PLAIN), product(repeated, b))
    assert np.array_equal(gemm(a, b, activation="relu", bias=large[0, 0, :7], **PLAIN),
                          np.maximum(product(a, b) + large[0, 0, :7], 0))  # fmt: skip


def test_c_and_out_of_a_batch() -> None:
    a, b, c = integers(3, 9, 11), integers(3, 11, 7, seed=1), integers(3, 9, 7, seed=2)
    before = c.copy()
    expected = product(a, b) - 2 * before
    assert np.array_equal(gemm(a, b, c, beta=-2, **PLAIN), expected)
    assert np.array_equal(c, before)
    whole = np.full((6, 12, 10), 7, F32)
    out = whole[::2, 1:10, 2:9]
    assert gemm(a, b, c, beta=-2, out=out, **PLAIN) is out
    assert np.array_equal(out, expected)
    out[:] = 7
    assert (whole == 7).all()
    assert gemm(a, b, c, beta=-2, out=c, **PLAIN) is c
    assert np.array_equal(c, expected)


def test_an_empty_batch_with_c_and_out() -> None:
    a, b, c = np.ones((0, 9, 11), F32), np.ones((11, 7), F32), np.ones((0, 9, 7), F32)
    out = np.empty((0, 9, 7), F32)
    assert gemm(a, b, c, beta=1, out=out, **PLAIN) is out


def test_matmul_takes_batches() -> None:
    a, b = integers(2, 5, 6), integers(6, 4, seed=1)
    assert np.array_equal(gemmsmith.matmul(a, b), product(a, b))


def test_a_large_batch_is_one_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    from gemmsmith.sim.device import SimDevice

    launches = []
    original = SimDevice.launch

    def spy(self: SimDevice, *arguments: Any, **options: Any) -> None:
        launches.append(arguments)
        original(self, *arguments, **options)

    monkeypatch.setattr(SimDevice, "launch", spy)
    a, b = integers(5, 4, 3), integers(5, 3, 2, seed=1)
    assert np.array_equal(gemm(a, b, **PLAIN), product(a, b))
    assert len(launches) == 1


# --- wrong arguments


class Operands:
    """New operands of 4x3 · 3x5, a batch of two of them, and a check whether they changed."""

    def __init__(self) -> None:
        self.memory = np.random.default_rng(0).standard_normal(400).astype(F32)
        self.a, self.b = self.memory[:12].reshape(4, 3), self.memory[20:35].reshape(3, 5)
        self.c, self.out = self.memory[40:60].reshape(4, 5), self.memory[80:100].reshape(4, 5)
        self.many_a, self.many_b = self.memory[100:124].reshape(2, 4, 3), self.memory[130:160].reshape(2, 3, 5)
        self.many_c, self.many_out = self.memory[160:200].reshape(2, 4, 5), self.memory[200:240].reshape(2, 4, 5)
        self.bias = self.memory[300:305]
        self.halves = self.a.astype(F16), self.b.astype(F16)
        self.bytes = (self.a * 9).astype(np.int8), (self.b * 9).astype(np.int8)


def shifted(memory: Array) -> Array:
    """Two matrices of 4x5 that overlap: the second starts at the second row of the first."""
    return np.lib.stride_tricks.as_strided(memory, (2, 4, 5), (20, 20, 4))


Call = Callable[[Operands], Any]
WRONG: dict[str, tuple[Call, type[GemmsmithError], str]] = {
    # bias
    "bias too long": (lambda o: gemm(o.a, o.b, bias=o.memory[:6]), ProblemError,
                      r"bias has shape \(6,\)\npass 5 values for columns, or 4x1 for rows"),
    "bias of M values": (lambda o: gemm(o.a, o.b, bias=o.memory[:4]), ProblemError, r"bias has shape \(4,\)"),
    "bias as 5x1": (lambda o: gemm(o.a, o.b, bias=o.bias.reshape(5, 1)), ProblemError, r"bias has shape \(5, 1\)"),
    "bias as a matrix": (lambda o: gemm(o.a, o.b, bias=o.c), ProblemError, r"bias has shape \(4, 5\)"),
    "bias of a batch": (lambda o: gemm(o.many_a, o.b, bias=o.memory[:10].reshape(2, 1, 5)), ProblemError,
                        r"bias has shape \(2, 1, 5\)"),
    "bias is a number": (lambda o: gemm(o.a, o.b, bias=1.0), DTypeError, "bias is a float"),
    "bias is a list": (lambda o: gemm(o.a, o.b, bias=[1.0] * 5), DTypeError, "bias is a list"),
    "bias float64": (lambda o: gemm(o.a, o.b, bias=o.bias.astype(float)), DTypeError, "bias: .*float64"),
    "bias fp16": (lambda o: gemm(o.a, o.b, bias=o.bias.astype(F16)), DTypeError, "bias is fp16; it must be fp32"),
    "bias of the input's type": (lambda o: gemm(*o.halves, bias=o.bias.astype(F16)), DTypeError,
                                 "bias is fp16; it must be fp32, like the output"),
    "bias with gaps": (lambda o: gemm(o.a, o.b, bias=o.memory[:10:2]), ProblemError, "bias is not contiguous"),
    "bias down a column": (lambda o: gemm(o.a, o.b, bias=o.memory[:40].reshape(4, 10)[:, :1]), ProblemError,
                           "bias is not contiguous"),
    "bias in out": (lambda o: gemm(o.a, o.b, bias=o.out[1], out=o.out), ProblemError, "out overlaps bias"),
    # activation
    "unknown activation": (lambda o: gemm(o.a, o.b, activation="tanh"), ProblemError,
                           "unknown activation 'tanh'\nuse one of relu, gelu, silu"),
    "activation is None": (lambda o: gemm(o.a, o.b, activation=None), ProblemError, "unknown activation None"),
    "a rung without": (lambda o: gemm(o.a, o.b, activation="relu", kernel="naive"), UnsupportedError,
                       "naive takes no bias and no activation\nuse warp_tile"),
    "a rung without bias": (lambda o: gemm(o.a, o.b, bias=o.bias, kernel="padded"), UnsupportedError,
                            "padded takes no bias"),
    # types
    "unknown dtype": (lambda o: gemm(o.a, o.b, dtype="fp8"), DTypeError, "unknown data type 'fp8'"),
    "dtype is a type": (lambda o: gemm(o.a, o.b, dtype=np.float32), DTypeError, "unknown data type"),
    "tf32 of halves": (lambda o: gemm(*o.halves, dtype="tf32"), DTypeError, "dtype is tf32, but a and b are fp16"),
    "fp16 of fp32": (lambda o: gemm(o.a, o.b, dtype="fp16"), DTypeError, "dtype is fp16, but a and b are fp32"),
    "tf32 on fp32 cores": (lambda o: gemm(o.a, o.b, dtype="tf32", kernel="warp_tile"), UnsupportedError,
                           "warp_tile takes fp32 inputs, not tf32\nuse mma_swizzled or mma_pipelined"),
    "unknown out_dtype": (lambda o: gemm(o.a, o.b, out_dtype="fp64"), DTypeError, "unknown data type 'fp64'"),
    "fp16 from fp32": (lambda o: gemm(o.a, o.b, out_dtype="fp16"), DTypeError, "fp32 inputs give fp32, not fp16"),
    "bf16 from fp16": (lambda o: gemm(*o.halves, out_dtype="bf16"), DTypeError, "fp16 inputs give fp32 or fp16"),
    "tf32 as output": (lambda o: gemm(o.a, o.b, out_dtype="tf32"), DTypeError, "fp32 inputs give fp32, not tf32"),
    "out of another type": (lambda o: gemm(*o.halves, out_dtype="fp16", out=o.out), DTypeError,
                            "out is fp32; the result is fp16"),
    "c of another type": (lambda o: gemm(*o.halves, o.c, beta=1, out_dtype="fp16"), DTypeError,
                          "c is fp32; it must be fp16"),
    "int32 operands": (lambda o: gemm(o.a.astype(np.int32), o.b.astype(np.int32)), DTypeError,
                       "int32 inputs give int32, not fp32"),
    "int32 with alpha": (lambda o: gemm(*o.bytes, alpha=2, out_dtype="int32"), ProblemError,
                         "int32 results have alpha 1, beta 0 or 1 and no activation but relu"),
    "int32 with gelu": (lambda o: gemm(*o.bytes, activation="gelu", out_dtype="int32"), ProblemError, "int32 results"),
    "int8 in fp32 cores": (lambda o: gemm(*o.bytes, kernel="warp_tile_mixed"), UnsupportedError,
                           "takes fp16, bf16 inputs, not int8"),
    # batches
    "batches of two and three": (lambda o: gemm(o.many_a, o.memory[:45].reshape(3, 3, 5)), ProblemError,
                                 "a is a batch of 2 and b one of 3"),
    "none and two": (lambda o: gemm(o.many_a[:0], o.many_b), ProblemError, "a is a batch of 0 and b one of 2"),
    "inner extents of a batch": (lambda o: gemm(o.many_a, o.many_c), ProblemError, "inner extents 3 and 4 differ"),
    "a batch backwards": (lambda o: gemm(o.many_a[::-1], o.b), ProblemError, "a runs backwards through its batch"),
    "one c for a batch": (lambda o: gemm(o.many_a, o.b, o.c, beta=1), ProblemError,
                          "c is 4x5, but the product is 2 of 4x5"),
    "c of another batch": (lambda o: gemm(o.many_a, o.b, o.many_c[:1], beta=1), ProblemError, "c is 1 of 4x5"),
    "one out for a batch": (lambda o: gemm(o.many_a, o.b, out=o.out), ProblemError,
                            "out is 4x5, but the product is 2 of 4x5"),
    "a batch of outs": (lambda o: gemm(o.a, o.b, out=o.many_out), ProblemError,
                        "out is 2 of 4x5, but the product is 4x5"),
    "out in a batch of a": (lambda o: gemm(o.many_a, o.b, out=o.memory[110:150].reshape(2, 4, 5)), ProblemError,
                            "out overlaps a"),
    "out in c's second": (lambda o: gemm(o.many_a, o.b, o.many_c, beta=1, out=o.memory[180:220].reshape(2, 4, 5)),
                          ProblemError, "out overlaps c"),
    "beta without c": (lambda o: gemm(o.many_a, o.b, beta=1), UsageError, "beta=1 needs a matrix c"),
    "a rung without batches": (lambda o: gemm(o.many_a, o.many_b, kernel="naive"), UnsupportedError,
                               "naive takes one product, not a batch of 2\nuse warp_tile"),
    "overlapping outs": (lambda o: gemm(o.many_a, o.b, out=shifted(o.memory[250:])), ProblemError,
                         "stride_c=5 is smaller than a matrix of 20 elements"),
    # configurations of these rungs
    "ALIGNED": (lambda o: gemm(*o.halves, kernel="wmma", config={"ALIGNED": 2}), ConfigError, "ALIGNED=2 is not one"),
    "BK of another rung": (lambda o: gemm(*o.halves, kernel="mma_pipelined", config={"BK": 32}), ConfigError,
                           "mma_pipelined has no parameter BK"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_wrong_arguments(what: str) -> None:
    call, kind, message = WRONG[what]
    o = Operands()
    before = o.memory.tobytes()
    with pytest.raises(kind, match=message) as caught:
        call(o)
    assert type(caught.value) is kind
    assert caught.value.exit_code == 2
    assert len(str(caught.value).splitlines()) <= 2
    assert o.memory.tobytes() == before
