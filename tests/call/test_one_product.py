"""gemm on a GPU: what is found out about tensors is kept for others like them, and for nothing else."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fake_torch import FakeGpu, FakeTorch, Tensor, install
from mapped_kernel import fake_compile, mapped_kernel

import gemmsmith
from gemmsmith.call.binding import bind
from gemmsmith.choose import choice
from gemmsmith.choose.choice import Choice
from gemmsmith.errors import DTypeError, ProblemError, UsageError
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem

A, B, C = 0x100000, 0x200000, 0x300000
ONE = sys.modules["gemmsmith.call.gemm_gpu"]


@pytest.fixture(name="fakes")
def _fakes(monkeypatch: pytest.MonkeyPatch) -> tuple[FakeTorch, FakeGpu]:
    return install(monkeypatch)


@pytest.fixture(name="spec")
def _spec(tmp_path: Path) -> KernelSpec:
    return mapped_kernel(tmp_path)


@pytest.fixture(name="binds")
def _binds(fakes: Any, spec: KernelSpec, monkeypatch: pytest.MonkeyPatch) -> list[Problem]:
    """The problems that were bound."""
    del fakes, spec
    bound: list[Problem] = []
    without_compiling = partial(bind, compile_fn=fake_compile)

    def counted(*arguments: Any) -> Any:
        bound.append(arguments[3])
        return without_compiling(*arguments)

    monkeypatch.setattr(ONE, "bind", counted)
    return bound


@pytest.fixture(name="asked")
def _asked(binds: list[Problem], spec: KernelSpec, monkeypatch: pytest.MonkeyPatch) -> list[Problem]:
    """The problems that a kernel was chosen for: always the same object."""
    del binds
    chosen, problems = Choice(spec, spec.config(), "model"), list[Problem]()

    def choose(problem: Problem, *_arguments: Any, **_named: Any) -> Choice:
        problems.append(problem)
        return chosen

    monkeypatch.setattr("gemmsmith.call.api.choose", choose)
    return problems


def tensors(further: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    return (Tensor((256, 64), "bfloat16", A + further), Tensor((64, 128), "bfloat16", B + further),
            Tensor((256, 128), "float32", C + further))  # fmt: skip


def test_the_same_addresses_are_bound_once(fakes: Any, binds: list[Problem], asked: list[Problem]) -> None:
    torch, gpu = fakes
    a, b, out = tensors()
    for _ in range(3):
        assert gemmsmith.gemm(a, b, out=out) is out
    assert (len(asked), len(binds), len(gpu.launched)) == (1, 1, 3)
    assert gpu.launched[0] == gpu.launched[2]
    gemmsmith.gemm(a, b, alpha=2, out=out)
    gemmsmith.gemm(Tensor(a.shape, a.dtype, A + 0x40), b, out=out)
    torch.stream = 9
    gemmsmith.gemm(a, b, out=out)
    assert [problem.alpha for problem in binds] == [1, 2, 1, 1]
    assert [stream for stream, _ in gpu.launched] == [7] * 5 + [9]


def test_tensors_alike_are_not_looked_at_again(fakes: Any, binds: list[Problem], asked: list[Problem],
                                               monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    torch, gpu = fakes
    gemmsmith.gemm(*tensors()[:2])
    monkeypatch.setattr("gemmsmith.call.api.matrix", None)  # would fail
    results = [gemmsmith.gemm(*tensors(0x1000 * i)[:2]) for i in (1, 2)]
    assert (len(asked), len(binds), len(gpu.launched)) == (1, 3, 3)
    assert [(each.shape, each.dtype) for each in results] == [((256, 128), "float32")] * 2
    assert results == torch.made[1:]
    first, second = (steps[0].launch.arguments for _, steps in gpu.launched[1:])
    assert first != second


Change = Callable[[], dict[str, Any]]


@pytest.mark.parametrize("change", [
    lambda: {"a": Tensor((256, 64), "bfloat16", A, (72, 1))},
    lambda: {"a": Tensor((256, 64), "bfloat16", A + 16)},
    lambda: {"a": Tensor((256, 64), "bfloat16", A + 128)},
    lambda: {"a": Tensor((255, 64), "bfloat16", A), "out": Tensor((255, 128), "float32", C)},
    lambda: {"a": Tensor((256, 64), "float16", A), "b": Tensor((64, 128), "float16", B)},
    lambda: {"b": Tensor((64, 128), "bfloat16", B, (1, 64))},
    lambda: {"out": Tensor((256, 128), "float32", C, (132, 1))},
    lambda: {"out": None},
    lambda: {"alpha": 2},
    lambda: {"alpha": 1.0},
    lambda: {"bias": Tensor((128,), "float32", 0x400000)},
    lambda: {"activation": "relu"},
    lambda: {"deterministic": False},
    lambda: {"precision": "fp32"},
    lambda: {"out_dtype": "fp32"},
    lambda: {"kernel": "given"},
    lambda: {"config": {"CLUSTER": 2}},
    lambda: {"c": Tensor((256, 128), "float32", C), "beta": 1.0},
])  # fmt: skip
def test_what_differs_is_looked_at(asked: list[Problem], spec: KernelSpec, change: Change) -> None:
    a, b, out = tensors()
    gemmsmith.gemm(a, b, out=out)
    seen = dict(ONE._SEEN)
    others: dict[str, Any] = {"a": a, "b": b, "out": out, **change()}
    given = others.get("kernel") == "given"
    if given:
        others["kernel"] = spec
    gemmsmith.gemm(others.pop("a"), others.pop("b"), **others)
    assert given or len(asked) == 2
    kept = not {"kernel", "config", "c"} & others.keys()
    assert len(ONE._SEEN) == len(seen) + kept


def test_true_is_still_no_number(asked: list[Problem]) -> None:
    a, b, out = tensors()
    gemmsmith.gemm(a, b, alpha=1, out=out)
    with pytest.raises(UsageError):
        gemmsmith.gemm(a, b, alpha=1, out=out, deterministic=1)  # type: ignore[arg-type]
    with pytest.raises(ProblemError, match="alpha"):
        gemmsmith.gemm(a, b, alpha=True, out=out)
    assert len(asked) == 1


def test_an_output_over_an_operand_is_refused_again(fakes: Any, asked: list[Problem]) -> None:
    _, gpu = fakes
    a, b, out = tensors()
    gemmsmith.gemm(a, b, out=out)
    for place in (A, A + 256 * 64 * 2 - 256, A - 256 * 128 * 4 + 256, B):
        with pytest.raises(ProblemError, match="out overlaps"):
            gemmsmith.gemm(a, b, out=Tensor(out.shape, out.dtype, place))
    assert len(gpu.launched) == 1
    gemmsmith.gemm(a, b, out=Tensor(out.shape, out.dtype, A + 256 * 64 * 2))  # right behind it
    assert (len(gpu.launched), len(asked)) == (2, 1)


def test_gradients_are_refused_whatever_came_before(fakes: Any, asked: list[Problem],
                                                    monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    torch, gpu = fakes
    a, b, out = tensors()
    a.requires_grad = True
    monkeypatch.setattr(torch, "is_grad_enabled", lambda: False)
    for _ in range(2):
        gemmsmith.gemm(a, b, out=out)
    assert (len(gpu.launched), len(asked)) == (2, 2)
    monkeypatch.setattr(torch, "is_grad_enabled", lambda: True)
    with pytest.raises(DTypeError, match="requires grad"):
        gemmsmith.gemm(a, b, out=out)


def test_what_was_tuned_since_is_chosen(asked: list[Problem]) -> None:
    a, b, out = tensors()
    for _ in range(2):
        gemmsmith.gemm(a, b, out=out)
    choice.forget()
    gemmsmith.gemm(a, b, out=out)
    assert len(asked) == 2


def test_tensors_are_not_kept_alive(asked: list[Problem]) -> None:
    bias = Tensor((128,), "float32", 0x400000)
    a, b, out = tensors()
    gemmsmith.gemm(a, b, bias=bias, out=out)
    alive = [weakref.ref(each) for each in (a, b, bias, out)]
    del a, b, bias, out
    gc.collect()
    assert [each() for each in alive] == [None] * 4
    assert len(asked) == 1


@pytest.mark.parametrize("gpus", [1, 2])
def test_a_thread_that_never_used_the_gpu_launches_as_well(fakes: Any, asked: list[Problem], gpus: int,
                                                           monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    _, gpu = fakes
    monkeypatch.setattr(sys.modules["gemmsmith.call.plan"], "device_count", lambda: gpus)
    a, b, out = tensors()
    gpu.lost = True
    for _ in range(3):
        gemmsmith.gemm(a, b, out=out)
    assert (len(gpu.launched), len(asked), gpu.depth) == (3, 1, 0)


def test_what_is_kept_is_bounded(asked: list[Problem], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ONE, "_MOST_KEPT", 4)
    a, b, out = tensors()
    for alpha in range(1, 12):
        gemmsmith.gemm(a, b, alpha=alpha, out=out)
        assert max(len(ONE._SEEN), len(ONE._BOUND)) <= 4
    assert len(asked) == 11


def test_a_kernel_of_the_callers_is_bound_anew(binds: list[Problem], spec: KernelSpec) -> None:
    a, b, out = tensors()
    for _ in range(2):
        gemmsmith.gemm(a, b, out=out, kernel=spec)
    assert len(binds) == 2  # a user's file may have changed
    assert ONE._BOUND == {}


def test_an_id_that_is_used_again_is_not_believed(binds: list[Problem], asked: list[Problem]) -> None:
    a, b, out = tensors()
    gemmsmith.gemm(a, b, out=out)
    ((key, ((problem, spec, config), start)),) = ONE._BOUND.items()
    ONE._BOUND[key] = ((replace(problem, alpha=3.0), spec, config), start)
    gemmsmith.gemm(a, b, out=out)
    assert (len(binds), len(asked)) == (2, 1)
