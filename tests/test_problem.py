"""Problem, data types and configurations: what is refused, with which message, and that nothing changes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from gemmsmith.errors import ConfigError, DTypeError, GemmsmithError, ProblemError, UnsupportedError, UsageError
from gemmsmith.kernel.config import Config, Parameter, Preset
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import check_accepts
from gemmsmith.problem import (
    BF16,
    DTYPES,
    FP16,
    FP32,
    MAX_EXTENT,
    Problem,
    ceil_div,
    dtype_named,
    dtype_of,
    geometric_mean,
)

BAD_PROBLEMS: list[tuple[dict[str, Any], str]] = [
    ({"m": -1}, "M=-1 is negative"),
    ({"n": -5}, "N=-5 is negative"),
    ({"k": -2147483648}, "K=-2147483648 is negative"),
    ({"m": MAX_EXTENT + 1}, "M=2147483648 exceeds 2147483647"),
    ({"n": 2**40}, "exceeds 2147483647"),
    ({"k": 2**31}, "K=2147483648 exceeds"),
    ({"m": 1.0}, "M must be an integer, not 1.0"),
    ({"n": "4"}, "N must be an integer, not '4'"),
    ({"k": None}, "K must be an integer, not None"),
    ({"m": True}, "M must be an integer, not True"),
    ({"n": np.float32(4)}, "N must be an integer"),
    ({"k": (4,)}, "K must be an integer"),
    ({"m": math.nan}, "M must be an integer, not nan"),
    ({"alpha": "1"}, "alpha must be a real number, not '1'"),
    ({"alpha": None}, "alpha must be a real number"),
    ({"alpha": 1j}, "alpha must be a real number"),
    ({"alpha": True}, "alpha must be a real number, not True"),
    ({"beta": [0.0]}, "beta must be a real number"),
    ({"beta": False}, "beta must be a real number, not False"),
    ({"beta": np.complex64(1)}, "beta must be a real number"),
    ({"lda": 5}, "lda=5 is smaller than a row of 6 elements"),
    ({"ldb": 4}, "ldb=4 is smaller than a row of 5 elements"),
    ({"ldc": 1}, "ldc=1 is smaller than a row of 5 elements"),
    ({"lda": 0}, "lda=0 is smaller"),
    ({"lda": -2}, "lda=-2 is smaller"),
    ({"lda": 6.0}, "lda must be an integer, not 6.0"),
    ({"ldb": True}, "ldb must be an integer, not True"),
    ({"ldc": "8"}, "ldc must be an integer, not '8'"),
    ({"lda": 3, "trans_a": True}, "lda=3 is smaller than a row of 4 elements"),
    ({"ldb": 5, "trans_b": True}, "ldb=5 is smaller than a row of 6 elements"),
    ({"k": 0, "lda": 0}, "lda=0 is smaller than a row of 0 elements"),
]


@pytest.mark.parametrize(("changes", "message"), BAD_PROBLEMS, ids=str)
def test_illegal_problems(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ProblemError) as caught:
        Problem(**({"m": 4, "n": 5, "k": 6} | changes))
    assert message in str(caught.value)
    assert caught.value.exit_code == 2
    assert isinstance(caught.value, UsageError)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize("changes", [{"m": -1}, {"alpha": "x"}, {"lda": 1}], ids=str)
def test_a_refused_change_does_not_alter_the_problem(changes: dict[str, Any]) -> None:
    problem = Problem(4, 5, 6, lda=8)
    before = dataclasses.asdict(problem)
    with pytest.raises(ProblemError):
        problem.with_(**changes)
    assert dataclasses.asdict(problem) == before


def test_problems_are_frozen_and_unknown_fields_are_refused() -> None:
    problem = Problem(1, 2, 3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        problem.m = 5  # type: ignore[misc]
    with pytest.raises(TypeError):
        problem.with_(rows=5)


@pytest.mark.parametrize(
    ("layout", "a_shape", "b_shape"),
    [("NN", (4, 6), (6, 5)), ("NT", (4, 6), (5, 6)), ("TN", (6, 4), (6, 5)), ("TT", (6, 4), (5, 6))],
)
def test_stored_shapes(layout: str, a_shape: tuple[int, int], b_shape: tuple[int, int]) -> None:
    problem = Problem(4, 5, 6, trans_a=layout[0] == "T", trans_b=layout[1] == "T")
    assert (problem.layout, problem.a_shape, problem.b_shape, problem.c_shape) == (layout, a_shape, b_shape, (4, 5))
    assert (problem.lda, problem.ldb, problem.ldc) == (a_shape[1], b_shape[1], 5)


@pytest.mark.parametrize("shape", [(0, 0, 0), (0, 5, 6), (4, 0, 6), (4, 5, 0), (1, 1, 1), (MAX_EXTENT,) * 3])
def test_legal_extents_have_legal_leading_dimensions(shape: tuple[int, int, int]) -> None:
    problem = Problem(*shape)
    assert min(problem.lda, problem.ldb, problem.ldc) >= 1
    assert problem.flops == 2 * shape[0] * shape[1] * shape[2]


@pytest.mark.parametrize(
    ("given", "seen"),
    [(0.7, 0.699999988079071), (1, 1.0), (np.float64(0.1), 0.10000000149011612), (1e300, math.inf), (-1e39, -math.inf),
     (1e-60, 0.0), (np.int64(3), 3.0), (math.inf, math.inf)],
)  # fmt: skip
def test_scalars_are_rounded_to_fp32(given: float, seen: float) -> None:
    problem = Problem(1, 1, 1, alpha=given, beta=given)
    assert (problem.alpha, problem.beta) == (seen, seen)
    assert type(problem.alpha) is float


def test_negative_zero_and_nan_scalars_are_kept() -> None:
    problem = Problem(1, 1, 1, alpha=-0.0, beta=math.nan)
    assert math.copysign(1.0, problem.alpha) == -1.0
    assert math.isnan(problem.beta)


@pytest.mark.parametrize(
    ("problem", "nbytes"),
    [(Problem(2, 3, 4), 4 * (8 + 12 + 6)), (Problem(2, 3, 4, beta=1.0), 4 * (8 + 12 + 12)),
     (Problem(2, 3, 4, alpha=0.0), 4 * 6), (Problem(2, 3, 4, FP16), 2 * 20 + 4 * 6)],
)  # fmt: skip
def test_compulsory_bytes(problem: Problem, nbytes: int) -> None:
    assert problem.compulsory_bytes == nbytes


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        (Problem(1, 2, 3), "1x2x3 fp32"),
        (Problem(1, 2, 3, BF16, trans_b=True), "1x2x3 bf16 NT"),
        (Problem(1, 2, 3, alpha=0.5, beta=-1), "1x2x3 fp32 alpha=0.5 beta=-1"),
        (Problem(1, 2, 3, lda=4, ldc=9), "1x2x3 fp32 lda=4 ldc=9"),
    ],
)
def test_text(problem: Problem, text: str) -> None:
    assert str(problem) == text


def test_with_resets_leading_dimensions() -> None:
    problem = Problem(4, 5, 6, lda=60)
    assert problem.with_(k=3).lda == 3
    assert problem.with_(k=3, lda=60).lda == 60


# ---- data types -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [FP32, FP16, BF16], ids=str)
def test_types_by_name_and_by_numpy_type(dtype: Any) -> None:
    assert dtype_named(dtype.name) is dtype
    assert dtype_of(dtype.numpy) is dtype
    assert str(dtype) == dtype.name
    one, eps = dtype.numpy.type(1), 2 * dtype.unit_roundoff
    assert float(dtype.numpy.type(1 + eps)) == 1 + eps > float(one)
    assert float(dtype.numpy.type(1 + eps / 2)) == 1


def test_integers_by_numpy_type_and_tf32_only_by_name() -> None:
    assert dtype_of(np.dtype(np.int8)) is DTYPES["int8"]
    assert dtype_of(np.dtype(np.int32)) is DTYPES["int32"]
    assert dtype_of(np.dtype(np.float32)) is FP32
    assert dtype_named("tf32").numpy == np.float32


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dtype": DTYPES["int32"]}, "int32 inputs give int32, not fp32"),
        ({"out_dtype": FP16}, "fp32 inputs give fp32, not fp16"),
        ({"dtype": FP16, "out_dtype": BF16}, "fp16 inputs give fp32 or fp16, not bf16"),
        ({"bias": "both"}, "unknown bias 'both'"),
        ({"activation": "tanh"}, "unknown activation 'tanh'"),
        ({"dtype": DTYPES["int8"], "out_dtype": DTYPES["int32"], "alpha": 2.0}, "int32 results have alpha 1"),
        ({"dtype": DTYPES["int8"], "out_dtype": DTYPES["int32"], "activation": "gelu"}, "int32 results have alpha 1"),
        ({"batch": -1}, "BATCH=-1 is negative"),
        ({"batch": 2, "stride_a": 5}, "stride_a=5 is smaller than a matrix of 12 elements"),
        ({"batch": 2, "stride_c": 0}, "stride_c=0 is smaller than a matrix of 6 elements"),
        ({"batch": 2, "stride_b": 1.5}, "stride_b must be an integer"),
    ],
)
def test_illegal_types_epilogues_and_batches(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(GemmsmithError) as caught:
        Problem(3, 2, 4, **fields)
    assert message in str(caught.value)


def test_a_batch() -> None:
    problem = Problem(3, 2, 4, batch=5, stride_b=0, lda=6)
    assert (problem.stride_a, problem.stride_b, problem.stride_c) == (18, 0, 6)
    assert problem.copies == (5, 1, 5)
    assert problem.flops == 5 * Problem(3, 2, 4).flops
    assert problem.compulsory_bytes == 4 * (5 * 12 + 8 + 5 * 6)
    assert problem.single == Problem(3, 2, 4, lda=6)
    assert problem.with_(k=7).stride_b == 0
    assert problem.with_(k=7).stride_a == 21
    assert str(problem) == "5 of 3x2x4 fp32 lda=6"


def test_an_epilogue() -> None:
    problem = Problem(3, 2, 4, FP16, FP16, bias="row", activation="gelu")
    assert problem.has_epilogue
    assert problem.bias_length == 3
    assert problem.with_(bias="column").bias_length == 2
    assert problem.compulsory_bytes == 2 * (12 + 8 + 6 + 3)
    assert str(problem) == "3x2x4 fp16 to fp16 with a bias for each row and gelu"


@pytest.mark.parametrize("name", ["fp64", "float32", "FP32", "", " fp32", "TF32", None, 32, ["fp32"], np.float32])
def test_unknown_type_names(name: Any) -> None:
    with pytest.raises(DTypeError, match="unknown data type") as caught:
        dtype_named(name)
    assert "fp32, fp16, bf16" in caught.value.hint
    assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize(
    "dtype", [np.float64, np.int16, np.uint8, np.bool_, np.complex64, np.uint16, ml_dtypes.float8_e4m3fn, ">f4", "S4"]
)
def test_unsupported_numpy_types(dtype: Any) -> None:
    with pytest.raises(DTypeError, match="not supported") as caught:
        dtype_of(np.dtype(dtype))
    assert caught.value.exit_code == 2


# ---- configurations ---------------------------------------------------------------------------------------------


def too_much_shared(config: Config) -> str | None:
    used = 4 * config["BM"] * config["BK"]
    return f"BM·BK·4 = {used} B of shared memory, 4096 allowed" if used > 4096 else None


@pytest.fixture
def spec() -> KernelSpec:
    return KernelSpec(
        name="tile",
        source=Path("nowhere.cu"),
        summary="",
        teaches="",
        geometry=lambda *_: Geometry((1, 1, 1), (32, 2, 1)),
        parameters=(Parameter("BM", 64, (32, 64, 128), "rows"), Parameter("BK", 8, (8, 16), "depth")),
        constraints=(too_much_shared,),
        presets=(Preset("small", Config((("BM", 32),)), "here"),),
    )


def test_legal_configurations(spec: KernelSpec) -> None:
    assert str(spec.config()) == "BM=64,BK=8"
    assert spec.config({"BK": 16})["BK"] == 16
    assert spec.config({"BK": 16}, preset="small") == Config((("BM", 32), ("BK", 16)))
    assert dict(spec.config()) == {"BM": 64, "BK": 8}
    with pytest.raises(KeyError):
        spec.config()["BN"]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda s: s.config({"BN": 64}), "tile has no parameter BN"),
        (lambda s: s.config({"bm": 64}), "tile has no parameter bm"),
        (lambda s: s.config({"BM": 48}), "BM=48 is not one of 32, 64, 128"),
        (lambda s: s.config({"BM": 0}), "BM=0 is not one of"),
        (lambda s: s.config({"BM": -64}), "BM=-64 is not one of"),
        (lambda s: s.config({"BM": "64"}), "BM must be an integer, not '64'"),
        (lambda s: s.config({"BM": 64.0}), "BM must be an integer, not 64.0"),
        (lambda s: s.config({"BM": True}), "BM must be an integer, not True"),
        (lambda s: s.config({"BM": None}), "BM must be an integer, not None"),
        (lambda s: s.config({"BM": 128, "BK": 16}), "8192 B of shared memory, 4096 allowed"),
        (lambda s: s.config(preset="large"), "tile has no preset 'large'"),
        (lambda s: s.config({"BK": 7}, preset="small"), "BK=7 is not one of 8, 16"),
    ],
)
def test_illegal_configurations(spec: KernelSpec, call: Callable[[KernelSpec], Config], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        call(spec)
    assert message in str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert str(spec.config()) == "BM=64,BK=8"


def test_every_illegal_value_is_named(spec: KernelSpec) -> None:
    reasons = spec.illegal(Config((("BM", 1), ("BK", 2))))
    assert len(reasons) == 2


@pytest.mark.parametrize(
    ("problem", "message"),
    [
        (Problem(1, 1, 1, FP16), "tile takes fp32 inputs, not fp16\nuse mixed"),
        (Problem(1, 1, 1, BF16), "tile takes fp32 inputs, not bf16\nno rung takes this"),
        (Problem(1, 1, 1, trans_a=True), "tile takes layout NN, not TN\nmake the operands contiguous row-major first"),
        (Problem(1, 1, 1, bias="row"), "tile takes no bias and no activation\nno rung takes this"),
        (Problem(1, 1, 1, batch=2), "tile takes one product, not a batch of 2"),
    ],
)
def test_problems_a_kernel_does_not_support(
    spec: KernelSpec, problem: Problem, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = dataclasses.replace(spec, name="mixed", dtypes=(FP16,))
    monkeypatch.setattr("gemmsmith.ladder.registry.rungs", lambda: [spec, other])
    with pytest.raises(UnsupportedError) as caught:
        check_accepts(spec, problem)
    assert str(caught.value).startswith(message)
    check_accepts(spec, Problem(1, 1, 1, FP32))


def test_geometry_counts() -> None:
    geometry = Geometry((3, 4, 5), (32, 2, 1), smem=8)
    assert (geometry.blocks, geometry.threads) == (60, 64)


@pytest.mark.parametrize(("a", "b", "pieces"), [(0, 8, 0), (1, 8, 1), (8, 8, 1), (9, 8, 2), (2**31 - 1, 128, 2**24)])
def test_ceil_div(a: int, b: int, pieces: int) -> None:
    assert ceil_div(a, b) == pieces


def test_geometric_mean() -> None:
    assert geometric_mean([1.0, 4.0, 16.0]) == pytest.approx(4.0)


def test_errors_say_what_to_do() -> None:
    error = GemmsmithError("it broke", "mend it")
    assert str(error) == "it broke\nmend it"
    assert str(GemmsmithError("it broke")) == "it broke"
    assert error.exit_code == 1


def test_a_batch_with_one_b_is_one_product_if_rows_follow_one_another() -> None:
    one = Problem(5, 7, 3, batch=4, stride_b=0, alpha=0.5, bias="column")
    assert one.folded == Problem(20, 7, 3, alpha=0.5, bias="column")
    assert one.folded.flops == one.flops
    wide = Problem(5, 7, 3, batch=4, stride_b=0, lda=8, ldc=9)
    assert (wide.folded.m, wide.folded.lda, wide.folded.ldc) == (20, 8, 9)
    for other in (Problem(5, 7, 3, batch=4), Problem(5, 7, 3, batch=4, stride_b=0, trans_a=True),
                  Problem(5, 7, 3, batch=4, stride_b=0, bias="row"), Problem(5, 7, 3, batch=4, stride_b=0, stride_a=16),
                  Problem(5, 7, 3, batch=4, stride_b=0, stride_c=36), Problem(5, 7, 3),
                  Problem(5, 7, 3, batch=4, stride_a=0, stride_b=0)):  # fmt: skip
        assert other.folded is other
