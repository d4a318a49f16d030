"""A verified launch: the correct kernel passes, wrong use raises, and a device error is a failing verdict."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from test_verify_fakes import WORKLOG, FakeCall, FakeDevice, compile_nothing, correct, make_spec, run

from gemmsmith.errors import (
    CompileError,
    LaunchError,
    ProblemError,
    SimulationError,
    UnknownInstructionError,
    UnsupportedError,
    UsageError,
)
from gemmsmith.kernel.config import Config
from gemmsmith.problem import BF16, FP16, FP32, Problem
from gemmsmith.verify.harness import affordable_mode, refusal, verify_launch
from gemmsmith.verify.oracles.reference import mod32_reference

HONEST = [
    Problem(1, 1, 1), Problem(33, 17, 65), Problem(33, 17, 65, alpha=0.7, beta=-1.3), Problem(5, 6, 0, beta=2.0),
    Problem(5, 6, 0), Problem(0, 5, 5), Problem(5, 0, 5), Problem(9, 8, 7, lda=10, ldb=11, ldc=12, beta=1.0),
    Problem(9, 8, 7, alpha=0.0, beta=0.5), Problem(9, 8, 7, alpha=-0.0), Problem(4, 4, 4, alpha=math.nan),
    Problem(4, 4, 4, alpha=math.inf, beta=1.0), Problem(4, 4, 4, beta=math.inf), Problem(4, 4, 4, beta=math.nan),
    Problem(4, 4, 0, alpha=math.inf), Problem(8, 8, 8, alpha=2.0**-130), Problem(8, 9, 10, trans_a=True, trans_b=True),
]  # fmt: skip


@pytest.mark.parametrize("problem", HONEST, ids=str)
@pytest.mark.parametrize("offsets", [(0, 0, 0), (1, 2, 3)], ids=str)
def test_the_correct_kernel_passes(tmp_path: Path, problem: Problem, offsets: tuple[int, int, int]) -> None:
    verdict = run(tmp_path, correct, problem, offsets=offsets)
    assert verdict.ok, str(verdict)
    assert verdict.trusted
    assert str(verdict).startswith("ok: fake")
    assert verdict.to_json()["ok"] is True


@pytest.mark.parametrize("dtype", [FP32, FP16, BF16], ids=str)
@pytest.mark.parametrize(
    ("mode", "fill"),
    [(None, None), ("float", "uniform"), ("float", "wide"), ("float", "specials"), ("float", "subnormal"),
     ("float", "integers"), ("exact", None), ("exact", "integers"), ("projection", None), ("projection", "uniform"),
     ("bits", "integers")],
)  # fmt: skip
def test_the_correct_kernel_passes_in_every_mode(tmp_path: Path, dtype: object, mode: str, fill: str) -> None:
    problem = Problem(31, 29, 37, dtype, alpha=-1.0, beta=3.0)  # type: ignore[arg-type]
    for seed in range(3):
        verdict = run(tmp_path, correct, problem, mode=mode or "float", fill=fill, seed=seed)
        assert verdict.trusted, str(verdict)


def test_mod32_mode_on_a_device_in_that_mode(tmp_path: Path) -> None:
    def mod32(call: FakeCall) -> None:
        a, b, c = (np.ascontiguousarray(x) for x in call.operands())
        problem = Problem(*call.shape, alpha=call.values["alpha"], beta=call.values["beta"])
        call.operands()[2][:] = mod32_reference(problem, a, b, c).view(np.float32)

    problem = Problem(20, 21, 22, alpha=0.7, beta=1.0)
    assert run(tmp_path, mod32, problem, mode="mod32").trusted
    assert not run(tmp_path, correct, problem, mode="mod32").ok


PLAIN = Problem(40, 36, 20)
PADDED = Problem(40, 36, 20, lda=23, ldb=37, ldc=38)


def zeroes(call: FakeCall) -> None:
    call.operands()[2][:] = 0


def test_zero_extents_launch_nothing(tmp_path: Path) -> None:
    spec = make_spec(tmp_path)
    device = FakeDevice(correct, spec)
    for problem in (Problem(0, 4, 4), Problem(4, 0, 4, beta=1.0)):
        assert verify_launch(device, spec, Config(), problem, compile_fn=compile_nothing).ok
    assert device.launches == 0


@pytest.mark.parametrize("mode", ["float", "projection", "exact", "bits"])
def test_mostly_zeros_are_mistrusted_unless_expected(tmp_path: Path, mode: str) -> None:
    assert run(tmp_path, zeroes, PLAIN, mode=mode).mistrusted
    assert run(tmp_path, correct, Problem(4, 4, 0), mode=mode if mode != "projection" else "float").trusted


def test_a_signalling_nan_is_only_a_wrong_value(tmp_path: Path) -> None:
    def signalling(call: FakeCall) -> None:
        call.operands()[2].view(np.uint32)[:] = 0x7F800001

    for mode in ("float", "exact", "bits", "projection"):
        assert not run(tmp_path, signalling, PLAIN, mode=mode).ok


ERRORS = [SimulationError("out of bounds at line 7"), LaunchError("illegal address"), UnknownInstructionError("frob")]


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
@pytest.mark.parametrize("where", ["launch", "synchronize", "load", "read"])
def test_a_device_error_is_a_failing_verdict(tmp_path: Path, error: Exception, where: str) -> None:
    spec = make_spec(tmp_path)
    device = FakeDevice(correct, spec)

    def fail(*_: object) -> None:
        raise error

    setattr(device, where, fail)
    verdict = verify_launch(device, spec, Config(), PLAIN, compile_fn=compile_nothing)
    assert not verdict.ok
    assert verdict.reasons == (str(error),)
    assert not device.live
    json.dumps(verdict.to_json(), allow_nan=False)


def test_a_compile_error_is_not_a_verdict(tmp_path: Path) -> None:
    def fail(*_: object) -> None:
        raise CompileError("expected a ';'")

    spec = make_spec(tmp_path)
    device = FakeDevice(correct, spec)
    with pytest.raises(CompileError):
        verify_launch(device, spec, Config(), PLAIN, compile_fn=fail)  # type: ignore[arg-type]
    assert not device.live


WRONG_USE: list[tuple[dict[str, object], type[Exception], str]] = [
    ({"mode": "fast"}, UsageError, "unknown mode 'fast'"),
    ({"fill": "zeros"}, UsageError, "unknown fill 'zeros'"),
    ({"mode": "exact", "fill": "normal"}, UsageError, "needs the fill 'integers'"),
    ({"mode": "mod32", "fill": "normal"}, UsageError, "do not go together"),
    ({"mode": "float", "fill": "bits"}, UsageError, "do not go together"),
    ({"mode": "projection", "fill": "wide"}, UsageError, "mode 'projection' needs"),
    ({"seed": -1}, UsageError, "seed"),
    ({"offsets": (0, -1, 0)}, ProblemError, "offsets must be"),
    ({"offsets": (0, 0)}, ProblemError, "offsets must be"),
    ({"c": "one"}, UsageError, "unknown state 'one' of C before the launch"),
]


@pytest.mark.parametrize(("options", "kind", "message"), WRONG_USE, ids=str)
def test_wrong_use_raises_before_anything_is_allocated(
    tmp_path: Path, options: dict[str, object], kind: type[Exception], message: str
) -> None:
    spec = make_spec(tmp_path)
    device = FakeDevice(correct, spec)
    with pytest.raises(kind, match=message):
        verify_launch(device, spec, Config(), PLAIN, compile_fn=compile_nothing, **options)  # type: ignore[arg-type]
    assert device.top == 4096
    assert device.launches == 0


@pytest.mark.parametrize(
    ("source", "problem", "message"),
    [
        (WORKLOG, PLAIN.with_(alpha=2.0), "takes no alpha, so alpha must be 1, not 2"),
        (WORKLOG, PLAIN.with_(alpha=math.nan), "takes no alpha"),
        (WORKLOG, PLAIN.with_(beta=1.0), "takes no beta, so beta must be 0, not 1"),
        (WORKLOG, PADDED, "takes no lda, so rows must be contiguous"),
        (WORKLOG.replace("int M, int N, int K", "int N"), PLAIN, "takes only N, so M, N and K must be equal"),
    ],
)
def test_problems_that_a_signature_cannot_express_are_refused(
    tmp_path: Path, source: str, problem: Problem, message: str
) -> None:
    spec = make_spec(tmp_path, source)
    assert message in refusal(spec.signature, problem)
    with pytest.raises(UnsupportedError, match=message):
        run(tmp_path, correct, problem, spec)


def test_a_worklog_kernel_is_verified_unchanged(tmp_path: Path) -> None:
    assert run(tmp_path, correct, PLAIN, make_spec(tmp_path, WORKLOG)).trusted


def careless(call: FakeCall) -> None:
    """alpha·sum + beta·C, without special cases for 0."""
    a, b, c = call.operands()
    with np.errstate(all="ignore"):
        c[:] = call.values["alpha"] * (a @ b) + np.float32(call.values["beta"]) * c


def adds(call: FakeCall) -> None:
    a, b, c = call.operands()
    c += a @ b


@pytest.mark.parametrize("fill", ["normal", "specials"])
def test_c_may_be_read_if_set(tmp_path: Path, fill: str) -> None:
    assert not run(tmp_path, careless, PLAIN, fill=fill).ok
    assert run(tmp_path, careless, PLAIN, fill=fill, c="set").trusted
    assert not run(tmp_path, careless, PLAIN.with_(alpha=0.0, beta=1.0)).ok
    assert run(tmp_path, careless, PLAIN.with_(alpha=0.0, beta=1.0), c="set").trusted


def test_c_may_be_added_to_if_zero(tmp_path: Path) -> None:
    assert not run(tmp_path, adds, PLAIN).ok
    assert not run(tmp_path, adds, PLAIN, c="set").ok
    for mode in ("float", "exact"):
        assert run(tmp_path, adds, PLAIN, mode=mode, c="zero").trusted


@pytest.mark.parametrize("c", ["unset", "set", "zero"])
def test_unwritten_outputs_are_found_for_every_state_of_c(tmp_path: Path, c: str) -> None:
    verdict = run(tmp_path, lambda _: None, PLAIN, c=c)
    assert verdict.unwritten == verdict.total
    assert "never written" in verdict.reasons[0]


def test_nan_is_not_blamed_on_c_if_c_was_set(tmp_path: Path) -> None:
    def mine(call: FakeCall) -> None:
        correct(call)
        call.operands()[2][3, 4] = np.nan

    for c, blamed in (("unset", True), ("set", False), ("zero", False)):
        text = " ".join(run(tmp_path, mine, PLAIN, c=c).reasons)
        assert ("C was read although beta is 0" in text) is blamed
        assert "a variable was never set" in text


@pytest.mark.parametrize(("edge", "mode"), [(512, "float"), (8192, "projection"), (4096, "float")])
def test_affordable_mode(edge: int, mode: str) -> None:
    assert affordable_mode(Problem(edge, edge, edge)) == mode


def test_small_guards_in_the_simulator(tmp_path: Path) -> None:
    spec = make_spec(tmp_path)
    sizes = {}
    for kind in ("gpu", "sim"):
        device = FakeDevice(correct, spec)
        device.kind = kind
        allocate = device.allocate
        sizes[kind] = []

        def spy(nbytes: int, kind: str = kind, allocate: Callable[[int], int] = allocate) -> int:
            sizes[kind].append(nbytes)
            return allocate(nbytes)

        device.allocate = spy  # type: ignore[method-assign]
        assert verify_launch(device, spec, Config(), Problem(2, 2, 2), compile_fn=compile_nothing).ok
    assert sizes == {"gpu": [8192 + 16] * 3, "sim": [16] * 3}


def test_fp16_is_refused_by_an_fp32_kernel(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="takes fp32 inputs, not fp16"):
        run(tmp_path, correct, Problem(2, 2, 2, FP16), make_spec(tmp_path))
