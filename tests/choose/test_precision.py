"""precision=: which kernel is chosen, its results on the simulator, and what is refused."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import gemmsmith
from gemmsmith.choose import default
from gemmsmith.choose.choice import Choice, choose, forget
from gemmsmith.choose.default import SIMULATOR, default_rung
from gemmsmith.choose.precision import PRECISIONS, check_promise, input_dtype, promises
from gemmsmith.errors import DTypeError, UnsupportedError, UsageError
from gemmsmith.fills import fill_named, operands
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import rung_named, rungs
from gemmsmith.problem import BF16, FP16, FP32, INT8, TF32, DType, Problem
from gemmsmith.verify.oracles.accuracy_study import DISTRIBUTIONS
from gemmsmith.verify.oracles.bounds import accuracy, error_ratios
from gemmsmith.verify.oracles.fma import ordered_fma_reference
from gemmsmith.verify.oracles.reference import float64_reference

F32 = np.float32
SHAPE = Problem(40, 24, 50)
# The first that the ladder has.
SIMULATED = {
    "ieee": ("warp_tile",),
    "fp32": ("warp_tile",),
    "fp32-fast": ("fp32_tensor_fp16x3", "fp32_tensor_bf16x6"),
    "tf32": ("mma_pipelined",),
}


@pytest.fixture(autouse=True)
def _own_tuning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setenv("GEMMSMITH_TUNING", str(tmp_path / "tuning.jsonl"))
    forget()
    yield
    forget()


def largest(problem: Problem, got: Any, fill: str, arithmetic: str = "fp32", seed: int = 0) -> float:
    """The largest ρ, in units of the arithmetic's roundoff."""
    data = operands(problem, fill, seed)
    unit = accuracy(arithmetic, problem.k).unit
    return float(error_ratios(problem, got, float64_reference(problem, data.a, data.b, data.c), unit).max())


# --- on the simulator


@pytest.mark.parametrize("precision", PRECISIONS)
def test_each_precision_has_its_rung_and_accuracy(precision: str) -> None:
    known = {spec.name for spec in rungs()}
    expected = next(name for name in SIMULATED[precision] if name in known)
    data = operands(SHAPE)
    plan = gemmsmith.plan(data.a, data.b, precision=precision)
    assert (plan.kernel, plan.source) == (expected, "default")
    arithmetic = "tf32" if precision == "tf32" else "fp32"
    assert plan.problem.dtype.name == arithmetic
    for fill in ("normal", "uniform", "wide"):
        data = operands(SHAPE, fill)
        got = plan(data.a, data.b)
        ratio = largest(SHAPE, got, fill, arithmetic)
        assert ratio <= accuracy(arithmetic, SHAPE.k, fill_named(fill).errors_grow).gate
        assert precision != "tf32" or ratio * 2**13 > 100, "TF32 would show in units of fp32's roundoff"
        if precision == "ieee":
            assert np.array_equal(got, ordered_fma_reference(SHAPE, data.a, data.b, data.c))


def test_fp32_on_tensor_cores_is_no_less_accurate_than_an_fma_loop() -> None:
    """A sum of ascending k, as cuBLAS computes it on CUDA cores. No output of a thousand uses the margin."""
    problem = Problem(32, 32, 96)
    data = operands(problem)
    plan = gemmsmith.plan(data.a, data.b, kernel="fp32_tensor_bf16x6", precision="fp32")
    for fill in DISTRIBUTIONS:
        data = operands(problem, fill)
        theirs = largest(problem, ordered_fma_reference(problem, data.a, data.b, data.c), fill)
        assert largest(problem, plan(data.a, data.b), fill) <= theirs, fill


def test_ieee_keeps_infinities_nan_and_subnormals_and_is_bit_reproducible() -> None:
    problem = Problem(33, 18, 21)
    data = operands(problem)
    plan = gemmsmith.plan(data.a, data.b, precision="ieee")
    for fill in ("specials", "subnormal"):
        data = operands(problem, fill, 3)
        first = plan(data.a, data.b).copy()
        assert np.array_equal(first, ordered_fma_reference(problem, data.a, data.b, data.c), equal_nan=True)
        assert plan(data.a, data.b).tobytes() == first.tobytes()
    assert gemmsmith.matmul(data.a, data.b, precision="ieee").tobytes() == first.tobytes()


def test_calls_without_precision_are_unchanged() -> None:
    usual = {
        Problem(6, 5, 8): "warp_tile", Problem(6, 5, 8, trans_b=True): "coalesced",
        Problem(6, 5, 8, TF32): "mma_pipelined", Problem(6, 5, 8, FP16): "mma_pipelined",
        Problem(6, 5, 8, INT8): "mma_pipelined", Problem(0, 5, 8): "warp_tile",
    }  # fmt: skip
    assert {problem: choose(problem).spec.name for problem in usual} == usual
    data = operands(SHAPE)
    plain = gemmsmith.matmul(data.a, data.b)
    assert np.array_equal(plain, ordered_fma_reference(SHAPE, data.a, data.b, data.c))


def test_fp32_takes_what_no_rung_on_cuda_cores_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    ladder(monkeypatch, "simt_best")
    batch = Problem(6, 5, 8, trans_b=True, batch=3, bias="row")
    assert default_rung(batch).name == "fp32_tensor_bf16x6"
    with pytest.raises(UnsupportedError, match=r"no rung computes .* with precision='ieee'"):
        default_rung(batch, "ieee")


@pytest.mark.parametrize("dtype", [FP16, BF16])
def test_narrow_types_on_cuda_cores(dtype: DType) -> None:
    data = operands(replace(SHAPE, dtype=dtype))
    plan = gemmsmith.plan(data.a, data.b, precision="ieee")
    assert plan.kernel == "warp_tile_mixed"
    wide = data.a.astype(F32), data.b.astype(F32)
    assert np.array_equal(plan(), ordered_fma_reference(SHAPE, *wide, np.zeros(SHAPE.c_shape, F32)))
    assert choose(replace(SHAPE, dtype=dtype), precision="fp32").spec.name == "mma_pipelined"


def test_tf32_by_precision_and_by_dtype_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gemmsmith.call.api.SimExecutor", lambda request: SimpleNamespace(again=lambda: request))
    ways: list[dict[str, str]] = [{"dtype": "tf32"}, {"precision": "tf32"}, {"dtype": "tf32", "precision": "tf32"}]
    first, *others = (gemmsmith.gemm(*fp32(), **way) for way in ways)  # type: ignore[arg-type]
    for other in others:
        assert (other.problem, other.spec, other.config) == (first.problem, first.spec, first.config)
    assert first.problem.dtype == TF32
    assert gemmsmith.gemm(*fp32()).problem.dtype == FP32, "a problem is kept by all that it is made of"


def test_the_example_of_the_documentation_runs(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "docs" / "precision.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.S)
    script = tmp_path / "example.py"
    script.write_text(code, encoding="utf-8")
    done = subprocess.run([sys.executable, str(script)], check=True, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(PRECISIONS)
    errors = [float(line.split()[2]) for line in lines]
    assert max(errors[:3]) < 5e-7 < 1e-5 < errors[3], lines


# --- what is refused


def fp32() -> tuple[Any, Any]:
    return np.ones((4, 3), F32), np.ones((3, 5), F32)


REFUSED: dict[str, tuple[dict[str, Any], type[UsageError], str]] = {
    "unknown": ({"precision": "double"}, UsageError, "unknown precision 'double'"),
    "no text": ({"precision": 32}, UsageError, "unknown precision 32"),
    "a list": ({"precision": ["fp32"]}, UsageError, "unknown precision"),
    "none": ({"precision": None}, UsageError, "unknown precision None"),
    "not a truth value": ({"deterministic": "yes"}, UsageError, "deterministic='yes' is neither"),
    "fp32, but tf32": ({"dtype": "tf32", "precision": "fp32"}, UsageError, "'fp32' and dtype='tf32' contradict"),
    "ieee, but tf32": ({"dtype": "tf32", "precision": "ieee"}, UsageError, "'ieee' and dtype='tf32' contradict"),
    "tf32, but fp32": ({"dtype": "fp32", "precision": "tf32"}, UsageError, "'tf32' and dtype='fp32' contradict"),
    "unknown dtype": ({"dtype": "fp33", "precision": "fp32"}, DTypeError, "fp33"),
    "ieee on tensor cores": (
        {"kernel": "fp32_tensor_bf16x6", "precision": "ieee"}, UnsupportedError,
        "fp32_tensor_bf16x6 does not keep precision='ieee' for fp32 operands: it keeps fp32, fp32-fast",
    ),
    "tf32 on CUDA cores": (
        {"kernel": "warp_tile", "precision": "tf32"}, UnsupportedError, "warp_tile does not keep precision='tf32'",
    ),
    "fp32 on a rung for others": (
        {"kernel": "mma_pipelined", "precision": "fp32"}, UnsupportedError, "mma_pipelined does not keep.*'fp32'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", [gemmsmith.gemm, gemmsmith.plan])
@pytest.mark.parametrize(("arguments", "kind", "text"), REFUSED.values(), ids=REFUSED.keys())
def test_contradictions(how: Any, arguments: dict[str, Any], kind: type[UsageError], text: str) -> None:
    with pytest.raises(kind, match=text) as caught:
        how(*fp32(), **arguments)
    assert len(str(caught.value).splitlines()) <= 2


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.int8])
@pytest.mark.parametrize("precision", ["fp32-fast", "tf32"])
def test_narrow_types_have_no_faster_fp32(dtype: Any, precision: str) -> None:
    a, b = (x.astype(dtype) for x in fp32())
    with pytest.raises(DTypeError, match=f"precision='{precision}' is for fp32 operands") as caught:
        gemmsmith.matmul(a, b, precision=precision)
    assert "'ieee' or 'fp32'" in caught.value.hint


def test_int8_has_no_rung_on_cuda_cores() -> None:
    a, b = (x.astype(np.int8) for x in fp32())
    with pytest.raises(UnsupportedError, match="no rung computes 4x5x3 int8 to int32 with precision='ieee'"):
        gemmsmith.matmul(a, b, precision="ieee")


def test_a_users_file_has_no_precision() -> None:
    mine = replace(rung_named("naive"), name="mine.cu", rung=0)
    assert promises(mine, FP32) == ()
    with pytest.raises(UnsupportedError, match=r"mine.cu is your own file.*precision='fp32'"):
        check_promise(mine, FP32, "fp32")
    check_promise(mine, FP32, "")


def test_input_dtype() -> None:
    assert input_dtype("", "tf32", FP16) == "tf32", "nothing is looked at where nothing is asked"
    assert input_dtype("tf32", "", FP32) == "tf32"
    assert input_dtype("tf32", "tf32", TF32) == "tf32"
    assert input_dtype("fp32-fast", "fp32", FP32) == "fp32"
    assert input_dtype("fp32", "", FP16) == ""


# --- precision follows from the specification


def test_every_rung_has_a_precision_for_each_of_its_types() -> None:
    for spec in rungs():
        for dtype in spec.dtypes:
            kept = promises(spec, dtype)
            assert kept, spec.name
            assert set(kept) <= set(PRECISIONS)
            assert not (spec.tensor_cores and "ieee" in kept), spec.name
            assert ("tf32" in kept) == (dtype == TF32)
        assert promises(spec, FP32 if FP32 not in spec.dtypes else FP16) == ()


def fake(name: str, **changes: Any) -> KernelSpec:
    return replace(rung_named("fp32_tensor_bf16x6"), name=name, **changes)


FAKES = (
    replace(rung_named("warp_tile"), name="simt_best", layouts=("NN", "NT", "TN", "TT"), rung=23),
    fake("fp32_tensor_bf16x6"),
    fake("fp32_tensor_fp16x3", arithmetic="fp16x3", rung=24),
    fake("fp32_wgmma_bf16x6", min_arch=90, arch_specific=90, simulated=False, tensor_maps=lambda *_: {}),
    fake("fp32_wgmma_fp16x3", arithmetic="fp16x3", min_arch=90, arch_specific=90, simulated=False),
)
LADDER = (*(spec for spec in rungs() if spec.name not in {each.name for each in FAKES}), *FAKES)


def ladder(monkeypatch: pytest.MonkeyPatch, *without: str) -> None:
    kept = tuple(spec for spec in LADDER if spec.name not in without)
    monkeypatch.setattr(default, "rungs", lambda: kept)
    forget()


def test_precision_of_split_products() -> None:
    assert promises(FAKES[1], FP32) == ("fp32", "fp32-fast")
    assert promises(FAKES[2], FP32) == ("fp32-fast",)
    assert promises(fake("x", arithmetic="bf16x3"), FP32) == (), "what is not known is not promised"
    assert promises(fake("x", arithmetic=""), FP32) == ()


BY_ARCHITECTURE = {
    ("ieee", "sm_90"): "simt_best", ("fp32", "sm_90"): "fp32_wgmma_bf16x6", ("fp32-fast", "sm_90"): "fp32_wgmma_fp16x3",
    ("ieee", "sm_80"): "simt_best", ("fp32", "sm_80"): "simt_best", ("fp32-fast", "sm_80"): "fp32_tensor_fp16x3",
    ("fp32", "sm_89"): "simt_best", ("fp32-fast", "sm_89"): "simt_best",
    ("fp32-fast", "sm_100"): "fp32_tensor_fp16x3", ("fp32", ""): "warp_tile", ("ieee", ""): "warp_tile",
    ("fp32-fast", ""): "fp32_tensor_fp16x3",
}  # fmt: skip


@pytest.mark.parametrize(("precision", "arch"), BY_ARCHITECTURE)
def test_the_method_by_architecture(precision: str, arch: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ladder(monkeypatch)
    gpu = "some GPU" if arch else None
    found = choose(Problem(4096, 4096, 4096), gpu, sms=108 if arch else 0, arch=arch, precision=precision)
    assert found.spec.name == BY_ARCHITECTURE[precision, arch]


def test_rungs_that_are_not_registered_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem(4096, 4096, 4096)
    for without, precision, name in (
        (("fp32_wgmma_bf16x6",), "fp32", "simt_best"),
        (("fp32_wgmma_bf16x6", "simt_best"), "fp32", "async_copy"),
        (("fp32_wgmma_fp16x3",), "fp32-fast", "fp32_wgmma_bf16x6"),
        (("fp32_wgmma_fp16x3", "fp32_wgmma_bf16x6"), "fp32-fast", "fp32_tensor_fp16x3"),
        (("simt_best", "async_copy"), "ieee", "warp_tile"),
    ):
        ladder(monkeypatch, *without)
        assert default_rung(problem, precision, 90).name == name


def test_rungs_that_an_architecture_does_not_run_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    newer = replace(FAKES[0], min_arch=90)
    monkeypatch.setattr(default, "rungs", lambda: (newer, rung_named("async_copy")))
    for arch, name in ((80, "async_copy"), (90, "simt_best"), (100, "simt_best")):
        assert default_rung(Problem(64, 64, 64), "ieee", arch).name == name
    monkeypatch.setattr(default, "rungs", lambda: (replace(newer, arch_specific=90), rung_named("async_copy")))
    assert default_rung(Problem(64, 64, 64), "ieee", 100).name == "async_copy"


def test_empty_problems_go_to_a_kernel_without_tensor_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    ladder(monkeypatch)
    assert default_rung(Problem(64, 64, 0), "fp32", 90).name == "simt_best"


def test_small_products_may_go_to_cuda_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    ladder(monkeypatch)
    large = Problem(4096, 4096, 4096)
    for small in (Problem(64, 64, 64), Problem(512, 512, 512), Problem(128, 128, 16384), Problem(64, 4096, 4096)):
        assert default_rung(small, "fp32", 90).name == default_rung(small, "fp32-fast", 90).name == "simt_best"
        assert default_rung(small, "fp32", SIMULATOR).name == "warp_tile"
    for enough in (large, Problem(1024, 1024, 1024), Problem(512, 512, 512, batch=64)):
        assert default_rung(enough, "fp32", 90).name == "fp32_wgmma_bf16x6"
    assert default_rung(large, "fp32-fast", 90).name == "fp32_wgmma_fp16x3"
    assert default_rung(large, "fp32-fast", 80).name == "fp32_tensor_fp16x3"


def test_fallbacks_for_a_short_k_and_for_too_large_a_workspace(monkeypatch: pytest.MonkeyPatch) -> None:
    ladder(monkeypatch)
    assert default_rung(Problem(64, 64, 31), "fp32-fast", SIMULATOR).name == "fp32_tensor_bf16x6"
    for rows, name in ((2**16, "fp32_wgmma_bf16x6"), (2**20, "simt_best")):  # 96 GiB of split operands
        assert default_rung(Problem(rows, 16384, 16384), "fp32", 90).name == name
    monkeypatch.setattr(default, "cuda_cores_are_faster", lambda *_: False)
    for k, name in ((31, "fp32_wgmma_bf16x6"), (32, "fp32_wgmma_fp16x3")):
        assert default_rung(Problem(8192, 8192, k), "fp32-fast", 90).name == name


@pytest.mark.parametrize("shape", [(10852, 12052, 4), (7084, 2756, 20), (7116, 3900, 44), (8192, 8192, 31)])
def test_products_of_a_short_k_go_to_cuda_cores_however_many_outputs_they_have(shape: tuple[int, int, int]) -> None:
    """Tiles of tensor cores begin and end for little work: 435 us against 163 us at 10852x12052x4."""
    assert default_rung(Problem(*shape), "fp32", 90).name == "simt_best"
    assert default_rung(Problem(*shape[:2], 2048), "fp32", 90).name == "fp32_wgmma_bf16x6"


def test_the_answer_does_not_depend_on_earlier_requests() -> None:
    """A shared B, and alpha = 0, are different problems."""
    whole = Problem(64, 512, 1024, batch=32)
    pairs = [(whole, whole.with_(stride_b=0)), (Problem(64, 500, 2000), Problem(64, 500, 2000, alpha=0.0))]
    for pair in pairs:
        found = []
        for order in (pair, pair[::-1]):
            forget()
            answers = [choose(problem, "NVIDIA H200", sms=132, arch="sm_90") for problem in order]
            found.append(answers if order is pair else answers[::-1])
        assert [(c.spec, c.config) for c in found[0]] == [(c.spec, c.config) for c in found[1]]
    forget()


def test_answers_are_cached_separately(monkeypatch: pytest.MonkeyPatch) -> None:
    ladder(monkeypatch)
    asked = [(precision, bits) for precision in ("ieee", "fp32", "fp32-fast") for bits in (True, False)]

    def answer(precision: str, deterministic: bool) -> Choice:
        return choose(Problem(4096, 4096, 4096), "some GPU", sms=132, arch="sm_90", precision=precision,
                      deterministic=deterministic)  # fmt: skip

    first = [answer(*each) for each in asked]
    assert [choice.spec.name for choice in first] == [
        "simt_best", "simt_best", "fp32_wgmma_bf16x6", "fp32_wgmma_bf16x6", "fp32_wgmma_fp16x3", "fp32_wgmma_fp16x3",
    ]  # fmt: skip
    for each, choice in zip(asked, first, strict=True):
        assert answer(*each) is choice
    assert len({id(choice) for choice in first}) == len(first)


def test_ieee_of_16_bit_types_does_not_use_wgmma() -> None:
    problem = Problem(64, 64, 64, BF16)
    assert choose(problem, "NVIDIA H200", sms=132, arch="sm_90", precision="ieee").spec.name == "warp_tile_mixed"
    assert choose(problem, "NVIDIA H200", sms=132, arch="sm_90").spec.arch_specific == 90
