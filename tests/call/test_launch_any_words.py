"""Arguments in words: what each form makes, and what is said about a form that is not understood."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import gemmsmith
from gemmsmith.call.any_kernel.spec import parse_arguments
from gemmsmith.errors import UsageError


def value(text: str, **options: Any) -> Any:
    made = parse_arguments(text).values(**options)
    assert isinstance(made, list)
    return made[0]


@pytest.mark.parametrize(
    ("text", "dtype", "shape"),
    [
        ("zeros(4)", np.float32, (4,)), ("ones(2, 3, f16)", np.float16, (2, 3)), ("empty(5, f64)", np.float64, (5,)),
        ("arange(7)", np.int32, (7,)), ("arange(7, bf16)", ml_dtypes.bfloat16, (7,)),
        ("randn(3,4,bf16)", ml_dtypes.bfloat16, (3, 4)), ("rand(0, f32)", np.float32, (0,)),
        ("randint(-3, 9, 100, i8)", np.int8, (100,)), ("full(2.5, 3, 3, e4m3)", ml_dtypes.float8_e4m3fn, (3, 3)),
        ("zeros(2*8 + 1, u64)", np.uint64, (17,)), ("ones(1024/256, bool)", np.bool_, (4,)),
    ],
)  # fmt: skip
def test_arrays(text: str, dtype: Any, shape: tuple[int, ...]) -> None:
    made = value(text)
    assert made.dtype == np.dtype(dtype)
    assert made.shape == shape


def test_the_numbers_in_the_arrays() -> None:
    assert value("arange(3, f32)").tolist() == [0, 1, 2]
    assert set(value("randint(-3, 2, 500, i32)").tolist()) == {-3, -2, -1, 0, 1}
    assert value("full(-1, 2, i32)").tolist() == [-1, -1]
    assert np.isnan(value("empty(4, f16)")).all()
    rand = value("rand(1000)")
    assert 0 <= rand.min() < 0.1 < 0.9 < rand.max() < 1


@pytest.mark.parametrize(
    ("text", "expected"),
    [("3", 3), ("-3", -3), ("1.5", 1.5), ("1e-5f", 1e-5), ("-inf", -np.inf), ("true", True), ("null", None),
     ("64*1024", 65536), ("ceil(10/4)", 3), ("3:i8", np.int8(3)), ("1.5:f16", np.float16(1.5))],
)  # fmt: skip
def test_scalars(text: str, expected: Any) -> None:
    made = value(text)
    assert made == expected
    assert type(made) is type(expected)


def test_names_of_integers_are_sizes_and_random_numbers_repeat() -> None:
    words = parse_arguments("n=8, x=randn(2*n, f32), y=randn(2*n, f32)")
    one, again, other = words.values(), words.values(), words.values(seed=1)
    assert isinstance(one, dict)
    assert isinstance(again, dict)
    assert isinstance(other, dict)
    assert one["x"].shape == (16,)
    assert words.integers == {"n": 8}
    assert np.array_equal(one["x"], again["x"])
    assert not np.array_equal(one["x"], one["y"])
    assert not np.array_equal(one["x"], other["x"])


def test_other_fills() -> None:
    words = parse_arguments("x=randn(100), y=rand(100), k=randint(0, 5, 100), out=zeros(4), n=3")
    integers, poison = words.values(fill="integers"), words.values(fill="poison")
    assert isinstance(integers, dict)
    assert isinstance(poison, dict)
    assert np.array_equal(integers["x"], np.round(integers["x"]))
    assert integers["y"].min() > 0
    assert integers["y"].max() <= 1
    assert not integers["out"].any()
    assert np.isnan(poison["out"]).all()
    assert np.array_equal(poison["x"], words.values()["x"])  # type: ignore[call-overload]


def test_a_file_of_numpy(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(6.0).reshape(2, 3))
    assert value(str(tmp_path / "x.npy")).shape == (2, 3)
    np.save(tmp_path / "bad.npy", np.array([{}], dtype=object))
    with pytest.raises(UsageError, match="cannot be read as an array"):
        value(str(tmp_path / "bad.npy"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x=zeros(4, f33)", "unknown element type 'f33'"),
        ("x=zeros()", "'x=zeros()' has no size"),
        ("x=zeros(f32)", "'x=zeros(f32)' has no size"),
        ("x=zeros(-4)", "-4 is not a size"),
        ("x=zeros(1.5)", "1.5 is not a size"),
        ("x=randint(5, 5, 4)", "5 is not below 5"),
        ("x=arange(2, 3)", "arange has one size"),
        ("x=zeros(1 << 40)", "is larger than 16 GiB"),
        ("x=300:i8", "300 does not fit i8"),
        ("x=1.5:i32", "1.5 does not fit i32"),
        ("x=__import__('os')", "the argument \"x=__import__('os')\" is not understood"),
        ("x=zeroes(4)", "the argument 'x=zeroes(4)' is not understood"),
        ("x=nowhere", "the argument 'x=nowhere' is not understood"),
        ("x=1, x=2", "x is given twice"),
        ("x=1, 2", "the argument '2' has no name"),
        ("x=/nowhere/x.npy", "/nowhere/x.npy cannot be read as an array"),
        ("x=" + "(" * 4000, "4000 are the most"),
    ],
)
def test_what_is_not_understood_is_shown(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        parse_arguments(text).values()


def test_a_launch_takes_words() -> None:
    code = "__global__ void add(const float* x, float* out, float by) { out[threadIdx.x] = x[threadIdx.x] + by; }"
    result = gemmsmith.launch(code, grid=1, block=4, args="x=arange(4, f32), out=empty(4, f32), by=0.5")
    assert result["out"].tolist() == [0.5, 1.5, 2.5, 3.5]
