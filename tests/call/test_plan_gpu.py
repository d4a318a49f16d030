"""Plans on a fake GPU that records what it is asked: what a call launches, keeps and refuses."""

from __future__ import annotations

import gc
import struct
import weakref
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from fake_torch import FakeGpu, FakeTorch, Parameter, Tensor, install
from mapped_kernel import fake_compile, mapped_kernel

import gemmsmith
from gemmsmith.call.cache import CACHE
from gemmsmith.call.launch_plan import plan_launches
from gemmsmith.choose.choice import Choice
from gemmsmith.errors import DTypeError, LaunchError, ProblemError
from gemmsmith.kernel.spec import Addresses, KernelSpec, Prologue
from gemmsmith.problem import Problem

# --- on a fake GPU that records what it is asked

A, B, C = 0x100000, 0x200000, 0x300000


@pytest.fixture(name="fakes")
def _fakes(monkeypatch: pytest.MonkeyPatch) -> tuple[FakeTorch, FakeGpu]:
    monkeypatch.setattr("gemmsmith.call.gpu_executor.compile_for", fake_compile)
    return install(monkeypatch)


@pytest.fixture(name="spec")
def _spec(tmp_path: Path) -> KernelSpec:
    return mapped_kernel(tmp_path)


def tensors(k: int = 64) -> tuple[Tensor, Tensor, Tensor]:
    return Tensor((256, k), "bfloat16", A), Tensor((k, 128), "bfloat16", B), Tensor((256, 128), "float32", C)


def address_of_c(step: Any, spec: KernelSpec) -> int:
    roles = [argument.role for argument in spec.signature.arguments]
    return int(struct.unpack("<Q", step.launch.arguments[roles.index("C")])[0])


def test_a_call_only_launches(fakes: Any, spec: KernelSpec) -> None:
    torch, gpu = fakes
    a, b, out = tensors()
    plan = gemmsmith.plan(a, b, out=out, kernel=spec)
    assert gpu.launched == []
    gpu.asked.clear()
    assert plan() is out
    assert plan() is out
    assert [stream for stream, _ in gpu.launched] == [7, 7]
    assert gpu.launched[0] == gpu.launched[1]
    torch.stream = 9
    plan()
    plan()
    assert [stream for stream, _ in gpu.launched[2:]] == [9, 9]
    assert (gpu.asked, torch.made) == ([], [])


def test_another_operand_set_is_resolved_once(fakes: Any, spec: KernelSpec) -> None:
    _, gpu = fakes
    plan = gemmsmith.plan(*tensors()[:2], out=tensors()[2], kernel=spec)
    gpu.asked.clear()
    a, b, out = (Tensor(t.shape, t.dtype, t.data_ptr() + 0x1000) for t in tensors())
    for _ in range(3):
        assert plan(a, b, out=out) is out
    assert gpu.asked == [("map", "A", A + 0x1000), ("map", "B", B + 0x1000), ("map", "C", C + 0x1000)]
    assert {address_of_c(steps[0], spec) for _, steps in gpu.launched} == {C + 0x1000}
    plan()
    assert address_of_c(gpu.launched[-1][1][0], spec) == C
    assert len(gpu.asked) == 3


@pytest.mark.parametrize("beta", [0.0, 1.0])
def test_only_the_operands_of_the_last_call_are_kept_alive(fakes: Any, spec: KernelSpec, beta: float) -> None:
    del fakes
    c = {"c": Tensor(tensors()[2].shape, tensors()[2].dtype, C + 0x800000), "beta": beta} if beta else {}
    plan = gemmsmith.plan(*tensors()[:2], out=tensors()[2], kernel=spec, **c)  # type: ignore[arg-type]
    alive = []
    for i in range(1, 4):
        a, b, out = (Tensor(t.shape, t.dtype, t.data_ptr() + 0x1000 * i) for t in tensors())
        plan(a, b, out=out)
        alive += [weakref.ref(t) for t in (a, b, out)]
        del a, b, out
    gc.collect()
    assert [ref() is not None for ref in alive] == [False] * 6 + [True] * 3


def test_operand_sets_are_evicted_least_recently_used_first(fakes: Any, spec: KernelSpec,
                                                            monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    _, gpu = fakes
    plan = gemmsmith.plan(*tensors()[:2], out=tensors()[2], kernel=spec)
    monkeypatch.setattr(CACHE, "capacity", 4)
    others = [Tensor((256, 64), "bfloat16", A + 0x10000 * i) for i in range(1, 7)]
    for other in others:
        plan(other)
    assert len(CACHE) == 4
    gpu.asked.clear()
    plan(others[-1])
    assert gpu.asked == []
    plan(others[0])
    assert ("map", "A", others[0].data_ptr()) in gpu.asked
    gpu.asked.clear()
    CACHE.clear()
    plan()
    assert gpu.asked == []  # a plan holds its own launches


@pytest.mark.parametrize(("make", "kind", "message"), [
    (lambda: Tensor((256, 64), "bfloat16", A + 8), ProblemError, "a starts 8 bytes past a multiple of 16"),
    (lambda: Tensor((256, 64), "bfloat16", A, (72, 1)), ProblemError, "rows 72 elements apart"),
    (lambda: Tensor((256, 64), "bfloat16", A, gpu=1), DTypeError, "a is on GPU 1, and the plan is for GPU 0"),
    (lambda: Tensor((256, 64), "float16", A), DTypeError, "a is fp16, and the plan is for bf16"),
    (lambda: Tensor((255, 64), "bfloat16", A), ProblemError, "a is 255x64"),
    (lambda: Tensor((256, 64), "bfloat16", C + 0x400), ProblemError, "out overlaps a"),
])  # fmt: skip
def test_a_tensor_that_does_not_match_launches_nothing(fakes: Any, spec: KernelSpec, make: Any, kind: Any,
                                                     message: str) -> None:  # fmt: skip
    _, gpu = fakes
    plan = gemmsmith.plan(*tensors()[:2], out=tensors()[2], kernel=spec)
    plan(tensors()[0])  # cached for this address, but only for a tensor like this
    with pytest.raises(kind, match=message):
        plan(make())
    assert len(gpu.launched) == 1
    plan()
    assert len(gpu.launched) == 2


def test_operands_of_another_alignment_class_are_planned_for_once(fakes: Any, spec: KernelSpec,
                                                                  monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    _, gpu = fakes
    plan = gemmsmith.plan(*tensors()[:2], out=tensors()[2], kernel=spec)
    planned: list[Any] = []

    def counted(*arguments: Any) -> Any:
        planned.append(arguments[3])
        return plan_launches(*arguments)

    monkeypatch.setattr("gemmsmith.call.gpu_executor.plan_launches", counted)
    for address in (A + 16, A + 16, A + 256 + 16, A + 256):
        plan(Tensor((256, 64), "bfloat16", address))
    assert [each.a for each in planned] == [A + 16]
    assert len(gpu.launched) == 4


def test_operands_that_need_a_larger_workspace_are_refused(fakes: Any, spec: KernelSpec) -> None:
    """No kernel asks for more than 16 bytes of alignment; one that did must not write past the plan's workspace."""

    def prepared(problem: Problem, _config: Any, addresses: Addresses, workspace: int, _fallback: bool) -> Prologue:
        return Prologue(problem, addresses, 4096 if addresses.a % 256 == 0 else 8192, workspace=workspace)

    _, gpu = fakes
    plan = gemmsmith.plan(*tensors()[:2], out=tensors()[2], kernel=replace(spec, prologue=prepared))
    with pytest.raises(ProblemError, match="need a workspace of 8,192 bytes, and the plan has 4,096"):
        plan(Tensor((256, 64), "bfloat16", A + 16))
    assert gpu.launched == []


def test_tensors_that_require_grad(fakes: Any, spec: KernelSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    torch, gpu = fakes
    plan = gemmsmith.plan(*tensors()[:2], out=tensors()[2], kernel=spec)
    weight = Parameter((256, 64), "bfloat16", A + 0x1000)
    monkeypatch.setattr(torch, "is_grad_enabled", lambda: False)
    plan(weight)
    gpu.asked.clear()
    plan(weight)
    assert (len(gpu.launched), gpu.asked) == (2, [])
    monkeypatch.setattr(torch, "is_grad_enabled", lambda: True)
    with pytest.raises(DTypeError, match="requires grad"):
        plan(weight)


def test_a_thread_that_has_not_used_the_gpu_can_launch(fakes: Any, spec: KernelSpec) -> None:
    _, gpu = fakes
    plan = gemmsmith.plan(*tensors()[:2], kernel=spec)
    gpu.lost = True
    plan()
    assert (len(gpu.launched), gpu.depth) == (1, 0)


def test_with_several_gpus_the_right_one_is_made_current(monkeypatch: pytest.MonkeyPatch, spec: KernelSpec) -> None:
    monkeypatch.setattr("gemmsmith.call.gpu_executor.compile_for", fake_compile)
    _, gpu = install(monkeypatch, gpus=2)
    depths = []
    plan = gemmsmith.plan(*tensors()[:2], kernel=spec)
    monkeypatch.setattr(gpu, "launcher", lambda _products, _stream: lambda _index: depths.append(gpu.depth))
    plan = gemmsmith.plan(*tensors()[:2], kernel=spec)
    plan()
    assert depths == [1]


def test_a_launch_that_fails_is_reported(fakes: Any, spec: KernelSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    _, gpu = fakes

    def broken(_products: Any, _stream: int) -> Any:
        def enqueue(_index: int) -> None:
            raise LaunchError("launching the kernel failed: CUDA_ERROR_ILLEGAL_ADDRESS")

        return enqueue

    monkeypatch.setattr(gpu, "launcher", broken)
    plan = gemmsmith.plan(*tensors()[:2], kernel=spec)
    with pytest.raises(LaunchError, match="ILLEGAL_ADDRESS"):
        plan()


def test_a_plan_owns_its_output_and_workspace(fakes: Any, spec: KernelSpec) -> None:
    torch, gpu = fakes
    a, b, _ = tensors(33)  # rows of 66 bytes
    plan = gemmsmith.plan(a, b, kernel=spec)
    out, workspace = torch.made
    assert (out.shape, workspace.shape, plan.workspace_bytes) == ((256, 128), (1, 256 * 40 * 2), 256 * 40 * 2)
    assert plan.launches == 2
    assert plan() is out
    torch.stream = 9
    assert plan() is out
    assert (out.streams, workspace.streams) == ([9], [9])
    assert [len(steps) for _, steps in gpu.launched] == [2, 2]
    described, _ = gpu.launched[0][1][0].launch.arguments
    assert struct.unpack_from("<QQ", described) == (a.data_ptr(), workspace.data_ptr())


class Interface:
    """An array of a library that cannot allocate for us."""

    def __init__(self, tensor: Tensor) -> None:
        kinds = {"bfloat16": np.dtype(ml_dtypes.bfloat16).str, "float32": "<f4", "float16": "<f2"}
        self.__cuda_array_interface__ = {"data": (tensor.data_ptr(), False), "shape": tensor.shape, "version": 3,
                                         "typestr": kinds[tensor.dtype], "stream": 5}  # fmt: skip


def test_a_workspace_from_the_driver_is_freed_with_the_plan(fakes: Any, spec: KernelSpec,
                                                          monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    _, gpu = fakes
    monkeypatch.setattr("gemmsmith.run.tensors.pointer_ordinal", lambda _: 0)
    a, b = Tensor((256, 33), "float16", A), Tensor((33, 128), "float16", B)
    plan = gemmsmith.plan(Interface(a), Interface(b), out=Interface(tensors()[2]), kernel=spec)
    assert ("allocate", 20480) in gpu.asked
    plan()
    assert gpu.launched[0][0] == 5
    assert ("free", 0x5000) not in gpu.asked
    del plan
    gc.collect()
    assert ("free", 0x5000) in gpu.asked


def test_c_is_copied_into_the_output_unless_it_is_the_output(fakes: Any, spec: KernelSpec) -> None:
    _, gpu = fakes
    a, b, out = tensors()
    c = Tensor((256, 128), "float32", 0x400000)
    plan = gemmsmith.plan(a, b, c, beta=1, out=out, kernel=spec)
    plan()
    assert gpu.asked[-1] == ("copy", C, 512, 0x400000, 512, 512, 256, 7)
    assert [len(steps) for _, steps in gpu.launched] == [0, 1]
    plan(c=out)
    assert [len(steps) for _, steps in gpu.launched] == [0, 1, 1]


def test_choose_is_given_the_gpu_and_the_addresses(fakes: Any, spec: KernelSpec,
                                                  monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    del fakes
    asked: list[Any] = []

    def choose(problem: Problem, gpu: Any, addresses: Any, **further: Any) -> Choice:
        asked.append((problem.layout, gpu, addresses, further))
        return Choice(spec, spec.config({"CLUSTER": 2}), "tuned")

    monkeypatch.setattr("gemmsmith.call.api.choose", choose)
    a, b, out = tensors()
    plan = gemmsmith.plan(a, b, out=out, config={"STORE_MODE": 0})
    of_gpu = {"sms": 132, "arch": "sm_90", "precision": "fp32", "deterministic": True}
    assert asked == [("NN", "NVIDIA H200", (A, B, C), of_gpu)]
    assert (plan.source, dict(plan.config)) == ("given", {"STORE_MODE": 0, "CLUSTER": 2})
