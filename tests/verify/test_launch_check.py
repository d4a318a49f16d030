"""The check of a launch of any kernel: the examples pass, and each mistake put into one of them is found."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gemmsmith.call.launch import Launch
from gemmsmith.errors import UsageError
from gemmsmith.verify.launch_check import LaunchCheck, check_launch, trials
from gemmsmith.verify.launch_expected import RTOL, Tolerance, differences

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples" / "any_kernel"


def examples() -> dict[str, Launch]:
    spec = importlib.util.spec_from_file_location("example_launches", EXAMPLES / "launches.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {str(each.source).removesuffix(".cu"): replace(each, source=EXAMPLES / each.source)
            for each in module.launches}  # fmt: skip


LAUNCHES = examples()


def mutant(name: str, old: str, new: str) -> Launch:
    text = (EXAMPLES / f"{name}.cu").read_text(encoding="utf-8")
    assert old in text
    return replace(LAUNCHES[name], source=text.replace(old, new))


def reasons(check: LaunchCheck) -> str:
    return "\n".join(reason for outcome in check.outcomes for reason in outcome.reasons)


@pytest.mark.parametrize("name", sorted(LAUNCHES))
def test_every_example_gives_its_answer_in_every_order(name: str) -> None:
    check = check_launch(LAUNCHES[name], timeout=60)
    assert check.ok, reasons(check)
    assert check.compared
    assert check.not_run == ()
    assert {"lockstep", "in_order", "reversed", "random", "starved"} == {o.trial.schedule for o in check.outcomes}
    assert not any(outcome.notes for outcome in check.outcomes)


@pytest.mark.parametrize(
    ("name", "old", "new", "found"),
    [
        ("transpose", "__syncthreads();", "", "never|race on shared|no thread has written"),
        ("transpose", "[TILE][TILE + 1]", "[TILE][TILE]", ""),  # slower, not wrong
        ("transpose", "x < width && y < height", "y < height", r"in\[7000\], 1 past its end|elements of out are wrong"),
        ("reduce", "i < n", "i < n - 1", "elements of out are wrong"),
        ("reduce", "i < n", "i <= n", r"x\[10000\], 1 past its end \(x has 10000 elements\)"),
        ("reduce", "__syncthreads();", "", "race on shared"),
        ("reduce", "sum += x[i]", "sum = x[i]", "8 of 8 elements of out are wrong, the first out[0]"),
        ("scan", "        __syncthreads();\n", "", "race on shared|no thread has written"),
        ("scan", "t >= distance", "t > distance", "elements of out are wrong"),
        ("scan", "sums[2][THREADS]", "sums[1][THREADS]", "out-of-bounds shared"),
        ("layernorm", "+ epsilon", "+ 1.0f", "elements of out are wrong"),
        ("layernorm", "row >= rows", "row > rows", r"past its end"),
        ("stencil", "0.25 *", "0.2500001 *", "elements of out are wrong"),
        ("stencil", "if (x >= width || y >= height) return;", "if (y >= height) return;", "past its end|wrong"),
    ],
)
def test_a_mistake_is_found(name: str, old: str, new: str, found: str) -> None:
    check = check_launch(mutant(name, old, new), timeout=60)
    assert check.ok is (not found), reasons(check)
    assert re.search(found.replace("out[0]", r"out\[0\]"), reasons(check)), reasons(check)


def test_elements_that_were_never_written_are_counted() -> None:
    check = check_launch(
        mutant("scan", "out[blockIdx.x * THREADS + t] =", "if (t > 2) out[blockIdx.x * THREADS + t] =")
    )
    assert "12 of 512 elements of out are wrong, the first out[0, 0]" in reasons(check)
    assert "12 of them were never written" in reasons(check)


def test_small_integers_find_one_lost_term_of_many() -> None:
    """A sum of 40,000 numbers that lacks one may be within the tolerance of f32."""
    code = """__global__ void sum(const float* x, float* out, int n) {
        float s = 0.0f;
        for (int i = threadIdx.x; i < n; i += 32) s += x[i];
        for (int d = 16; d > 0; d /= 2) s += __shfl_down_sync(0xffffffffu, s, d);
        if (threadIdx.x == 0) out[0] = s; }"""
    launch = Launch(code, grid=1, block=32, args="x=rand(40000), y=zeros(1), n=40000",
                    expect=lambda x: {"y": [x.astype(float).sum()]})  # fmt: skip
    assert check_launch(launch).ok
    lost = check_launch(replace(launch, source=code.replace("i < n;", "i < n - 1;")))
    assert [outcome.trial.fill for outcome in lost.outcomes if not outcome.ok] == ["integers"]


def test_ties_among_small_integers_are_no_mistake() -> None:
    """The last of equal maxima is as good as NumPy's first; an index that is wrong for the given data is not."""
    code = """__global__ void argmax(const float* x, int* out, int n) {
        int best = 0;
        for (int i = 1; i < n; ++i) if (x[i] >= x[best]) best = i;
        out[0] = best; }"""
    launch = Launch(code, grid=1, block=1, args="x=randn(300), out=zeros(1, i32), n=300",
                    expect=lambda x: {"out": np.array([x.argmax()])})  # fmt: skip
    check = check_launch(launch)
    assert check.ok, reasons(check)
    assert any("ties are broken in another way" in note for outcome in check.outcomes for note in outcome.notes)
    assert not check_launch(replace(launch, source=code.replace(">=", "<="))).ok


def test_the_result_must_not_depend_on_the_order_even_without_an_answer() -> None:
    code = "__global__ void last(int* x) { if (threadIdx.x % 32 == 0) atomicExch(x, threadIdx.x); }"
    launch = Launch(code, grid=1, block=128, args="x=zeros(1, i32)")
    check = check_launch(launch)
    assert not check.compared
    assert "the result depends on the order of warps: 1 of 1 elements of x are wrong" in reasons(check)
    assert check.not_run
    assert [label for label, _ in check.skipped] == ["comparison with an expected result"]
    assert not check_launch(replace(launch, source=code.replace("atomicExch(x, threadIdx.x)", "*x = threadIdx.x"))).ok


def test_a_kernel_that_adds_to_its_output_gets_a_note() -> None:
    code = "__global__ void add(const float* x, float* out) { out[threadIdx.x] += x[threadIdx.x]; }"
    launch = Launch(code, grid=1, block=32, args="x=randn(32), out=zeros(32)", expect=lambda x, out: {"out": x + out})
    check = check_launch(launch)
    assert check.ok
    assert "the result depends on what out held before the launch" in check.outcomes[-1].notes[0]
    some = replace(launch, source=code.replace("+=", "=").replace("out[t", "if (threadIdx.x < 30) out[t"),
                   expect=lambda x, out: {"out": np.where(np.arange(32) < 30, x, out)})  # fmt: skip
    assert "2 of 32 elements of out are not written" in check_launch(some).outcomes[-1].notes[0]


def test_an_output_that_must_be_zero_is_no_mistake() -> None:
    """A ticket counter of -1 would be an index outside the array; a const array of zeros stays as it is."""
    code = """__global__ void take(const float* x, const float* bias, float* out, int* tickets) {
        int place = atomicAdd(tickets, 1);
        out[place] = x[0] + bias[0]; }"""
    launch = Launch(code, grid=1, block=4, args="x=rand(1), bias=zeros(1), out=zeros(4), tickets=zeros(1, i32)",
                    expect=lambda x: {"out": np.full(4, x[0]), "tickets": np.array([4])})  # fmt: skip
    check = check_launch(launch)
    assert check.ok, reasons(check)
    assert "its outputs must be zero before the launch, or else: out-of-bounds" in check.outcomes[-1].notes[0]
    plain = Launch("__global__ void k(const float* bias, float* out) { out[0] = bias[0]; }", grid=1, block=1,
                   args="bias=zeros(1), out=zeros(1)")  # fmt: skip
    assert check_launch(plain).outcomes[-1].notes == ()


def test_a_uniform_number_below_1_stays_below_1() -> None:
    code = "__global__ void bin(const float* x, int* bins, int n) { atomicAdd(&bins[int(x[threadIdx.x] * n)], 1); }"
    launch = Launch(code, grid=1, block=64, args="x=rand(64), bins=zeros(10, i32), n=10",
                    expect=lambda x: {"bins": np.bincount((x * np.float32(10)).astype(int), minlength=10)})  # fmt: skip
    check = check_launch(launch)
    assert check.ok, reasons(check)


def test_values_in_place_of_words_have_no_other_data() -> None:
    launch = Launch("__global__ void k(float* x) { x[0] = 1.0f; }", grid=1, block=1, args=[np.zeros(1, np.float32)])
    assert len(list(trials(launch, "sim"))) == 5
    assert len(list(trials(launch, "gpu"))) == 1


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda x: {"y": x}, "expects 'y', which the kernel does not write"),
        (lambda x: (x, x, x), "returns 3 arrays, and the kernel may write 1: x"),
        (lambda z: z, "asks for 'z', which is no argument of the kernel"),
        (lambda x: x["a"], "failed: IndexError"),
    ],
)
def test_an_answer_that_cannot_be_used(answer: Any, message: str) -> None:
    launch = Launch("__global__ void k(float* x) { x[0] = 1.0f; }", grid=1, block=1, args="x=zeros(1)", expect=answer)
    with pytest.raises(UsageError, match=re.escape(message)):
        check_launch(launch)


def test_an_answer_may_be_the_array_itself() -> None:
    code = "__global__ void k(float* x, float* out) { out[0] = x[0] + 1.0f; }"  # x is not const: it may be written
    launch = Launch(code, grid=1, block=1, args="x=zeros(1), out=zeros(1)", expect=lambda x: x + 1)
    assert check_launch(launch).ok
    assert not check_launch(replace(launch, expect=lambda x: x + 2)).ok


@pytest.mark.parametrize("name", sorted(RTOL))
def test_the_default_tolerance_accepts_less_than_it_and_rejects_more(name: str) -> None:
    import ml_dtypes

    dtype = np.dtype(getattr(ml_dtypes, name, None) or name)
    expected = np.array([1.0, -2.0, 4.0]).astype(dtype)
    wide = expected.astype(complex if "complex" in name else float)
    assert differences("x", expected, wide * (1 + 0.5 * RTOL[name]), Tolerance()) == ""
    assert differences("x", expected, wide + 5 * RTOL[name] * 4, Tolerance())


def test_nan_and_infinity_must_be_met() -> None:
    values = np.array([1, np.nan, np.inf, -np.inf], np.float32)
    assert differences("x", values, values.astype(float), Tolerance()) == ""
    for at in range(4):
        other = values.copy()
        other[at] = 7
        assert f"x[{at}]" in differences("x", other, values, Tolerance())
        assert f"x[{at}]" in differences("x", values, other, Tolerance())


def test_integers_are_exact_and_sizes_agree() -> None:
    values = np.array([1, 2**30], np.int32)
    assert differences("x", values, values.astype(np.int64), Tolerance()) == ""
    assert "x[1]: 1073741824, expected 1073741825" in differences("x", values, values + np.array([0, 1]), Tolerance())
    assert differences("x", values, np.zeros(3), Tolerance()) == "x has 2 elements, and 3 are expected"
    with pytest.raises(UsageError, match="rtol -1 is not a tolerance"):
        Tolerance(rtol=-1)
