"""gemm on a GPU: a call is set up once per call key, and a repeated call only launches."""

from __future__ import annotations

import gc
import struct
import sys
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from fake_torch import FakeGpu, FakeTorch, Parameter, Tensor, install
from mapped_kernel import fake_compile, mapped_kernel

import gemmsmith
from gemmsmith.call.cache import CACHE
from gemmsmith.call.gemm_gpu import CachedCall
from gemmsmith.choose import choice
from gemmsmith.choose.choice import Choice
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.errors import DTypeError, ProblemError, UsageError
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.prologue.build import build_prologue

A, B, C = 0x100000, 0x200000, 0x300000


@pytest.fixture(name="fakes")
def _fakes(monkeypatch: pytest.MonkeyPatch) -> tuple[FakeTorch, FakeGpu]:
    return install(monkeypatch)


@pytest.fixture(name="spec")
def _spec(tmp_path: Path) -> KernelSpec:
    return mapped_kernel(tmp_path)


@pytest.fixture(name="compiled")
def _compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the kernels that were compiled."""
    names: list[str] = []

    def compile_fn(spec: KernelSpec, *rest: Any) -> CompiledKernel:
        names.append(spec.name)
        return fake_compile(spec, *rest)

    monkeypatch.setattr("gemmsmith.call.gpu_executor.compile_for", compile_fn)
    return names


@pytest.fixture(name="prologues")
def _prologues(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the kernels that a prologue was built for, wherever it is built."""
    names: list[str] = []

    def counted(spec: KernelSpec, *rest: Any, **named: Any) -> Any:
        names.append(spec.name)
        return build_prologue(spec, *rest, **named)

    for module in ("gemmsmith.call.launch_plan", "gemmsmith.call.binding"):
        monkeypatch.setattr(f"{module}.build_prologue", counted)
    return names


@pytest.fixture(name="chosen")
def _chosen(fakes: Any, compiled: Any, spec: KernelSpec, monkeypatch: pytest.MonkeyPatch) -> list[Problem]:
    """The problems that a kernel was chosen for; it is always ``spec``."""
    del fakes, compiled
    found, problems = Choice(spec, spec.config(), "model"), list[Problem]()

    def choose(problem: Problem, *_arguments: Any, **_named: Any) -> Choice:
        problems.append(problem)
        return found

    monkeypatch.setattr("gemmsmith.call.api.choose", choose)
    return problems


def tensors(further: int = 0, k: int = 64) -> tuple[Tensor, Tensor, Tensor]:
    return (Tensor((256, k), "bfloat16", A + further), Tensor((k, 128), "bfloat16", B + further),
            Tensor((256, 128), "float32", C + further))  # fmt: skip


def cached_calls() -> int:
    return sum(isinstance(entry, CachedCall) for entry in CACHE._entries.values())


@pytest.mark.parametrize("k", [64, 33])  # rows of 66 bytes need an aligned copy, and so a workspace
def test_a_call_is_planned_compiled_and_loaded_once(fakes: Any, chosen: list[Problem], compiled: list[str],
                                                    prologues: list[str], k: int) -> None:  # fmt: skip
    _, gpu = fakes
    a, b, out = tensors(k=k)
    assert gemmsmith.gemm(a, b, out=out) is out
    kernels = ["mapped"] if k == 64 else ["mapped", "align_copy"]
    assert (prologues, compiled) == (["mapped"], kernels)
    assert [each for each in gpu.asked if isinstance(each, str)] == ["load", "occupancy", "load"][: len(kernels) + 1]
    gpu.asked.clear()
    for _ in range(3):
        assert gemmsmith.gemm(a, b, out=out) is out
    others = tensors(0x1000, k)
    assert gemmsmith.gemm(*others[:2], out=others[2]) is others[2]
    assert (prologues, compiled, len(chosen)) == (["mapped"], kernels, 1)
    assert all(each[0] == "map" for each in gpu.asked)  # of the new addresses, or of a new workspace
    assert [len(steps) for _, steps in gpu.launched] == [len(kernels)] * 5


def test_a_fallback_has_its_prologue_built_once_too(fakes: Any, chosen: Any, prologues: list[str],
                                                    monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    del chosen
    _, gpu = fakes
    spec = next(each for each in gemmsmith.kernels() if each.name == "fp32_wgmma_fp16x3")
    monkeypatch.setattr("gemmsmith.call.api.choose", lambda *_a, **_n: Choice(spec, spec.config(), "model"))
    inner: list[str] = []

    def counted(kernel: KernelSpec, *rest: Any, **named: Any) -> Any:
        inner.append(kernel.name)
        return build_prologue(kernel, *rest, **named)

    monkeypatch.setattr("gemmsmith.prologue.build.build_prologue", counted)
    a, b, out = Tensor((256, 64), "float32", A), Tensor((64, 128), "float32", B), tensors()[2]
    for _ in range(2):
        gemmsmith.gemm(a, b, out=out)
    assert (prologues, inner) == (["fp32_wgmma_fp16x3"], ["fp32_wgmma_bf16x6"])
    assert [len(steps) for _, steps in gpu.launched] == [5, 5]


def python_calls(function: Callable[[], Any]) -> list[str]:
    """The functions of gemmsmith that a call of ``function`` runs."""
    names: list[str] = []

    def note(frame: Any, event: str, _argument: Any) -> None:
        if event == "call" and frame.f_globals["__name__"].startswith("gemmsmith."):
            names.append(frame.f_code.co_qualname)

    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
    return names


def test_the_host_cost_of_a_repeated_call(fakes: Any, chosen: Any) -> None:
    """Function calls stand for time, which a fake GPU cannot tell; benchmarks/host_cost.py measures it on a GPU."""
    torch, _ = fakes
    del chosen
    a, b, out = tensors()
    weight = Parameter(a.shape, a.dtype, A)
    plan = gemmsmith.plan(a, b, out=out)
    torch.is_grad_enabled = lambda: False
    torch.empty = lambda *_arguments, **_named: out  # a real allocator gives the same memory again
    for function, most in (
        (plan, 3),
        (lambda: plan(a, b, out=out), 6),
        (lambda: gemmsmith.gemm(a, b, out=out), 10),
        (lambda: gemmsmith.gemm(a, b), 10),
        (lambda: gemmsmith.gemm(weight, b, out=out), 10),
        (lambda: gemmsmith.gemm(a, b, out, beta=1.0, out=out), 11),
    ):
        function()
        function()
        calls = python_calls(function)
        assert len(calls) <= most, calls


def test_a_launch_is_resolved_once_for_its_addresses_and_stream(fakes: Any, chosen: list[Problem]) -> None:
    torch, gpu = fakes
    a, b, out = tensors()
    gemmsmith.gemm(a, b, out=out)
    gpu.asked.clear()
    for _ in range(3):
        gemmsmith.gemm(a, b, out=out)
    assert gpu.asked == []
    assert gpu.launched[0] == gpu.launched[3]
    torch.stream = 9
    gemmsmith.gemm(a, b, out=out)
    assert [stream for stream, _ in gpu.launched] == [7] * 4 + [9]
    assert len(chosen) == 1


def test_similar_tensors_are_not_described_again(fakes: Any, chosen: list[Problem],
                                                 monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    torch, gpu = fakes
    gemmsmith.gemm(*tensors()[:2])
    monkeypatch.setattr("gemmsmith.call.api.matrix", None)  # would fail
    results = [gemmsmith.gemm(*tensors(0x1000 * i)[:2]) for i in (1, 2)]
    assert (len(chosen), len(gpu.launched)) == (1, 3)
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
    lambda: {"config": {"CLUSTER": 2}},
    lambda: {"c": Tensor((256, 128), "float32", C), "beta": 1.0},
    lambda: {"c": Tensor((256, 128), "float32", 0x400000, (132, 1)), "beta": 1.0},
])  # fmt: skip
def test_a_call_that_differs_is_set_up_anew(chosen: list[Problem], change: Change) -> None:
    a, b, out = tensors()
    gemmsmith.gemm(a, b, out=out)
    others: dict[str, Any] = {"a": a, "b": b, "out": out, **change()}
    for _ in range(2):
        gemmsmith.gemm(others["a"], others["b"], **{k: v for k, v in others.items() if k not in "ab"})
    assert (len(chosen), cached_calls()) == (2, 2)


@pytest.mark.usefixtures("chosen")
@pytest.mark.parametrize("refused", [{"CLUSTER": True}, 3])
def test_a_config_that_equals_a_cached_one_is_still_checked(refused: Any) -> None:
    a, b, out = tensors()
    gemmsmith.gemm(a, b, config={"CLUSTER": 1}, out=out)
    with pytest.raises(UsageError, match=r"config is a int|must be an integer"):
        gemmsmith.gemm(a, b, config=refused, out=out)
    assert cached_calls() == 1


def test_a_rung_of_the_caller_is_cached_and_a_users_file_is_not(fakes: Any, chosen: list[Problem], spec: KernelSpec,
                                                                compiled: list[str]) -> None:  # fmt: skip
    _, gpu = fakes
    a, b, out = tensors()
    for _ in range(2):
        gemmsmith.gemm(a, b, out=out, kernel=spec)
    assert (compiled, cached_calls()) == (["mapped"], 1)
    gemmsmith.gemm(a, b, out=out, kernel=replace(spec, persistent=False))  # the same name, another kernel
    assert cached_calls() == 2
    size, mine = len(CACHE), replace(spec, rung=0)
    for _ in range(2):
        gemmsmith.gemm(a, b, out=out, kernel=mine)
    assert compiled[-2:] == ["mapped"] * 2  # the file may have changed
    assert (len(CACHE), len(gpu.launched), chosen) == (size, 5, [])


def test_true_is_not_a_number(chosen: list[Problem]) -> None:
    a, b, out = tensors()
    gemmsmith.gemm(a, b, alpha=1, out=out)
    with pytest.raises(UsageError):
        gemmsmith.gemm(a, b, alpha=1, out=out, deterministic=1)  # type: ignore[arg-type]
    with pytest.raises(ProblemError, match="alpha"):
        gemmsmith.gemm(a, b, alpha=True, out=out)
    with pytest.raises(ProblemError, match="alpha"):
        gemmsmith.gemm(a, b, alpha=[1], out=out)  # type: ignore[arg-type]
    assert len(chosen) == 1


def test_the_sign_of_a_zero_is_kept(fakes: Any, chosen: list[Problem], spec: KernelSpec) -> None:
    _, gpu = fakes
    a, b, out = tensors()
    roles = [argument.role for argument in spec.signature.arguments]
    for alpha in (0.0, -0.0) * 2:
        gemmsmith.gemm(a, b, alpha=alpha, out=out)
    passed = [steps[0].launch.arguments[roles.index("alpha")] for _, steps in gpu.launched]
    assert passed == [struct.pack("<f", 0.0), struct.pack("<f", -0.0)] * 2
    assert len(chosen) == 2


def test_an_output_over_an_operand_is_refused_in_a_cached_call(fakes: Any, chosen: list[Problem]) -> None:
    _, gpu = fakes
    a, b, out = tensors()
    gemmsmith.gemm(a, b, out=out)
    for place in (A, A + 256 * 64 * 2 - 256, A - 256 * 128 * 4 + 256, B):
        with pytest.raises(ProblemError, match="out overlaps"):
            gemmsmith.gemm(a, b, out=Tensor(out.shape, out.dtype, place))
    assert len(gpu.launched) == 1
    gemmsmith.gemm(a, b, out=Tensor(out.shape, out.dtype, A + 256 * 64 * 2))  # starts where a ends
    assert (len(gpu.launched), len(chosen)) == (2, 1)


def test_an_output_over_bias_or_c_is_refused_in_a_cached_call(fakes: Any, chosen: list[Problem]) -> None:
    _, gpu = fakes
    a, b, out = tensors()
    bias, c = Tensor((128,), "float32", 0x400000), Tensor((256, 128), "float32", 0x500000)
    for _ in range(2):
        gemmsmith.gemm(a, b, c, beta=1.0, bias=bias, out=out)
    for place, name in ((0x400000 - 256, "bias"), (0x500000 + 256, "c")):
        with pytest.raises(ProblemError, match=f"out overlaps {name}"):
            gemmsmith.gemm(a, b, c, beta=1.0, bias=bias, out=Tensor(out.shape, out.dtype, place))
    assert (len(chosen), sum(len(steps) for _, steps in gpu.launched)) == (1, 2)
    wide = Tensor((256, 128), "float32", 0x500000, (132, 1))
    gemmsmith.gemm(a, b, wide, beta=1.0, out=out)
    with pytest.raises(ProblemError, match="out overlaps c"):  # the same address, but another layout
        gemmsmith.gemm(a, b, wide, beta=1.0, out=Tensor(out.shape, out.dtype, 0x500000))


def test_c_is_copied_into_the_output_unless_it_is_the_output(fakes: Any, chosen: list[Problem]) -> None:
    _, gpu = fakes
    a, b, out = tensors()
    c = Tensor((256, 128), "float32", 0x400000)
    for _ in range(2):
        gemmsmith.gemm(a, b, c, beta=1.0, out=out)
    assert [each for each in gpu.asked if each[0] == "copy"] == [("copy", C, 512, 0x400000, 512, 512, 256, 7)] * 2
    gpu.launched.clear()
    for _ in range(2):
        gemmsmith.gemm(a, b, out, beta=1.0, out=out)
    assert [len(steps) for _, steps in gpu.launched] == [1, 1]
    gpu.launched.clear()
    for _ in range(2):
        gemmsmith.gemm(a, b, c, out=c)  # beta is 0: c is not read
    assert [len(steps) for _, steps in gpu.launched] == [1, 1]
    assert len(chosen) == 2


def test_tensors_that_require_grad_are_cached_while_no_gradients_are_recorded(
    fakes: Any, chosen: list[Problem], monkeypatch: pytest.MonkeyPatch
) -> None:
    torch, gpu = fakes
    a, b, out = tensors()
    weight, view = Parameter(a.shape, a.dtype, A), Tensor(a.shape, a.dtype, A)
    view.requires_grad = True
    monkeypatch.setattr(torch, "is_grad_enabled", lambda: False)
    for operand in (weight, view, a) * 2:
        assert gemmsmith.gemm(operand, b, out=out) is out
    assert (len(gpu.launched), len(chosen)) == (6, 1)
    monkeypatch.setattr(torch, "is_grad_enabled", lambda: True)
    for operand in (weight, view):
        with pytest.raises(DTypeError, match="requires grad"):
            gemmsmith.gemm(operand, b, out=out)
    assert gemmsmith.gemm(a, b, out=out) is out
    assert (len(gpu.launched), len(chosen)) == (7, 1)


def test_a_parameter_that_does_not_require_grad_is_cached(fakes: Any, chosen: list[Problem]) -> None:
    del fakes
    a, b, out = tensors()
    frozen = Parameter(a.shape, a.dtype, A)
    frozen.requires_grad = False
    for _ in range(2):
        assert gemmsmith.gemm(frozen, b, out=out) is out
    assert (len(chosen), cached_calls()) == (1, 1)


def test_other_subclasses_of_tensors_are_not_cached(fakes: Any, chosen: list[Problem]) -> None:
    del fakes

    class Wrapped(Tensor):
        pass

    a, b, out = tensors()
    for _ in range(2):
        assert gemmsmith.gemm(Wrapped(a.shape, a.dtype, A), b, out=out) is out
    assert (len(chosen), cached_calls()) == (2, 0)


def test_calls_are_chosen_anew_after_tuning(chosen: list[Problem]) -> None:
    a, b, out = tensors()
    for _ in range(2):
        gemmsmith.gemm(a, b, out=out)
    choice.forget()
    gemmsmith.gemm(a, b, out=out)
    assert len(chosen) == 2


def test_tensors_are_not_kept_alive(chosen: list[Problem]) -> None:
    bias = Tensor((128,), "float32", 0x400000)
    a, b, out = tensors()
    gemmsmith.gemm(a, b, bias=bias, out=out)
    alive = [weakref.ref(each) for each in (a, b, bias, out)]
    del a, b, bias, out
    gc.collect()
    assert [each() for each in alive] == [None] * 4
    assert len(chosen) == 1


@pytest.mark.parametrize("gpus", [1, 2])
def test_a_thread_that_has_not_used_the_gpu_can_launch(fakes: Any, chosen: list[Problem], gpus: int,
                                                       monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    _, gpu = fakes
    monkeypatch.setattr("gemmsmith.call.gpu_executor.device_count", lambda: gpus)
    a, b, out = tensors()
    gpu.lost = True
    for _ in range(3):
        gemmsmith.gemm(a, b, out=out)
    assert (len(gpu.launched), len(chosen), gpu.depth) == (3, 1, 0)


@pytest.mark.usefixtures("chosen")
def test_tensors_of_two_gpus(fakes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is launched on its own GPU, which is current then, on the stream of that GPU; kernels are loaded on both."""
    torch, _ = fakes
    gpus = [FakeGpu(), FakeGpu()]
    for i, each in enumerate(gpus):
        each.ordinal, each.lost = i, True  # neither is current by itself
    monkeypatch.setattr("gemmsmith.call.gpu_executor.device_count", lambda: 2)
    monkeypatch.setattr("gemmsmith.call.gemm_gpu.device_count", lambda: 2)
    for name in ("gemmsmith.call.api", "gemmsmith.call.gpu_executor"):
        monkeypatch.setattr(sys.modules[name], "cuda_device", lambda ordinal: gpus[ordinal])
    torch._C = SimpleNamespace(_cuda_getCurrentRawStream=lambda ordinal: 70 + ordinal)
    places = []
    monkeypatch.setattr(torch, "empty", lambda shape, dtype, device: places.append(device.index) or Tensor(
        shape, dtype, 0x7000_0000, gpu=device.index))  # fmt: skip
    for _ in range(2):
        for gpu in (0, 1):
            a, b = (Tensor((128, 128), "bfloat16", where, gpu=gpu) for where in (0x1000_0000, 0x2000_0000))
            gemmsmith.gemm(a, b)
    assert [[stream for stream, _ in each.launched] for each in gpus] == [[70, 70], [71, 71]]
    assert [each.asked.count("load") for each in gpus] == [1, 1]
    assert [each.depth for each in gpus] == [0, 0]
    assert places == [0, 1, 0, 1]


def test_a_workspace_is_allocated_for_each_call(fakes: Any, chosen: list[Problem]) -> None:
    torch, gpu = fakes
    a, b, out = tensors(k=33)
    for _ in range(2):
        gemmsmith.gemm(a, b, out=out)
    assert [(each.shape, each.dtype) for each in torch.made] == [((1, 256 * 40 * 2), "int8")] * 2
    targets = [int.from_bytes(steps[0].launch.arguments[0][8:16], "little") for _, steps in gpu.launched]
    assert targets == [each.data_ptr() for each in torch.made]
    assert len(chosen) == 1


def test_a_stand_in_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The third call runs another kernel than the first two, and is the one that is remembered."""
    torch, gpu = install(monkeypatch)
    monkeypatch.setenv("GEMMSMITH_FIRST_CALL", "stand-in")
    monkeypatch.setattr("gemmsmith.call.first_call.is_compiled", lambda *_: False)
    monkeypatch.setattr("gemmsmith.call.first_call._compile_beside", lambda *_: None)
    monkeypatch.setattr("gemmsmith.call.gpu_executor.compile_for", fake_compile)
    a, b = Tensor((4096, 4096), "bfloat16", 0x1000_0000), Tensor((4096, 4096), "bfloat16", 0x9000_0000)
    for _ in range(4):
        gemmsmith.gemm(a, b, out_dtype="bf16")
    kernels = [steps[-1].loaded for _, steps in gpu.launched]
    assert kernels[0] == kernels[1]
    assert kernels[2] == kernels[3]
    assert kernels[1] != kernels[2]
    assert len(torch.made) == 4
