"""cuBLAS from its wheel and through torch, without a GPU: the calls, what is freed, and restored settings."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from baseline_fakes import FakeCublas, FakeDevice, FakeTorch, Operands
from baseline_rig import PROBLEMS, SMALL, STREAM, check_products, use_cublas, use_torch

from gemmsmith.errors import LaunchError
from gemmsmith.problem import FP16, FP32, Problem
from gemmsmith.run.baselines import (
    baseline_named,
    cublas,
)
from gemmsmith.run.baselines.torch_views import fp32_arithmetic

# cuBLAS from its wheel


@pytest.mark.usefixtures("no_torch")
@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_the_wheel_is_called_for_the_row_major_product(
    monkeypatch: pytest.MonkeyPatch, device: FakeDevice, problem: Problem
) -> None:
    fake, operands = use_cublas(monkeypatch, FakeCublas(device)), Operands(device, problem)
    contender = baseline_named("cublas")
    check_products(operands, contender.prepare(problem, operands.sets, STREAM))
    identity = contender.identity
    assert identity.config == f"cublasGemmEx, {problem.out_dtype} output"
    assert (identity.precision, identity.version) == (problem.dtype.name, "cuBLAS 13.1.0.3")
    assert fake.arguments["cublasGemmEx"][-2] == 68
    assert device.depth == 0


@pytest.mark.usefixtures("no_torch")
def test_the_wheels_workspace_is_set_after_the_stream_and_all_is_freed(
    monkeypatch: pytest.MonkeyPatch, device: FakeDevice
) -> None:
    fake, operands = use_cublas(monkeypatch, FakeCublas(device)), Operands(device, SMALL)
    before = set(device.memory)
    contender = baseline_named("cublas")
    contender.prepare(SMALL, operands.sets, STREAM)
    assert fake.calls.index("cublasSetStream_v2") < fake.calls.index("cublasSetWorkspace_v2")
    assert fake.arguments["cublasSetStream_v2"][1] == STREAM
    assert fake.arguments["cublasSetMathMode"][1] == 0
    assert len(set(device.memory) - before) == 1, "the workspace, and no scratch output"
    contender.prepare(SMALL, operands.sets, STREAM)
    assert len(set(device.memory) - before) == 1, "the first workspace was given back"
    contender.close()
    contender.close()
    assert set(device.memory) == before
    assert fake.calls.count("cublasDestroy_v2") == fake.calls.count("cublasCreate_v2") == 2


@pytest.mark.usefixtures("no_torch")
@pytest.mark.parametrize("fail", ["cublasSetWorkspace_v2", "cublasSetMathMode", "cublasGemmEx"])
def test_a_failed_preparation_frees_everything(monkeypatch: pytest.MonkeyPatch, device: FakeDevice, fail: str) -> None:
    fake, operands = use_cublas(monkeypatch, FakeCublas(device, fail)), Operands(device, SMALL)
    before = set(device.memory)
    with pytest.raises(LaunchError, match=fail):
        baseline_named("cublas").prepare(SMALL, operands.sets, STREAM)
    assert set(device.memory) == before
    assert fake.calls[-1] == "cublasDestroy_v2"
    assert device.depth == 0


@pytest.mark.usefixtures("no_torch")
def test_the_wheel_computes_in_tf32_and_says_so(monkeypatch: pytest.MonkeyPatch, device: FakeDevice) -> None:
    fake, operands = use_cublas(monkeypatch, FakeCublas(device)), Operands(device, SMALL)
    contender = baseline_named("cublas-tf32")
    contender.prepare(SMALL, operands.sets, STREAM)
    assert fake.arguments["cublasSetMathMode"][1] == 3
    assert fake.arguments["cublasGemmEx"][-2] == 77
    assert contender.identity.precision == "tf32"


# cuBLAS through torch


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_torch_computes_in_our_memory(monkeypatch: pytest.MonkeyPatch, device: FakeDevice, problem: Problem) -> None:
    torch, operands = use_torch(monkeypatch, FakeTorch(device)), Operands(device, problem)
    fake = use_cublas(monkeypatch, FakeCublas(device))
    contender = baseline_named("cublas")
    check_products(operands, contender.prepare(problem, operands.sets, STREAM))
    if problem.beta != 0 and problem.out_dtype != problem.dtype:
        assert contender.identity.config.startswith("cublasGemmEx"), "torch has no such call"
        return
    assert not fake.calls
    call = "mm" if problem.beta == 0 else "addmm"
    setting = "ieee" if problem.dtype == FP32 else "none"
    assert torch.products == [(call, setting, STREAM)] * 4, "each set once to warm up, then ours"
    assert contender.identity.config == f"torch.{call}, {problem.out_dtype} output"
    assert contender.identity.version == "cuBLAS 13.1.0.3, torch 2.11.0"


@pytest.mark.parametrize("alpha", [0.0, 0.7])
def test_alpha_is_passed_to_torch(monkeypatch: pytest.MonkeyPatch, device: FakeDevice, alpha: float) -> None:
    problem = SMALL.with_(alpha=alpha)
    use_torch(monkeypatch, FakeTorch(device))
    contender = baseline_named("cublas")
    contender.prepare(problem, Operands(device, problem).sets, STREAM)
    assert contender.identity.config == "torch.addmm, fp32 output"


def test_wider_outputs_use_the_library_where_torch_has_none(
    monkeypatch: pytest.MonkeyPatch, device: FakeDevice
) -> None:
    use_torch(monkeypatch, FakeTorch(device, wider=False))
    use_cublas(monkeypatch, FakeCublas(device))
    contender = baseline_named("cublas")
    for out, way in ((FP32, "cublasGemmEx, fp32 output"), (FP16, "torch.mm, fp16 output")):
        problem = SMALL.with_(dtype=FP16, out_dtype=out)
        contender.prepare(problem, Operands(device, problem).sets, STREAM)
        assert contender.identity.config == way


def test_without_torch(monkeypatch: pytest.MonkeyPatch, device: FakeDevice) -> None:
    torch = use_torch(monkeypatch, FakeTorch(device))
    use_cublas(monkeypatch, FakeCublas(device))
    contender = cublas.Cublas(without_torch=True)
    contender.prepare(SMALL, Operands(device, SMALL).sets, STREAM)
    assert contender.identity.config.startswith("cublasGemmEx")
    assert not torch.products


def test_a_copy_by_torch_is_refused(monkeypatch: pytest.MonkeyPatch, device: FakeDevice) -> None:
    torch = use_torch(monkeypatch, FakeTorch(device))
    honest = torch.as_tensor
    torch.as_tensor = lambda holder, device: SimpleNamespace(  # type: ignore[method-assign]
        data_ptr=lambda: honest(holder, device).data_ptr() + 256
    )
    with pytest.raises(LaunchError, match="copied the matrix"):
        baseline_named("cublas").prepare(SMALL, Operands(device, SMALL).sets, STREAM)


# torch's settings


@pytest.mark.parametrize("before", ["none", "ieee", "tf32"])
@pytest.mark.parametrize(("tf32", "meant"), [(True, "tf32"), (False, "ieee")])
def test_the_new_setting_is_set_inside_and_restored(device: FakeDevice, before: str, tf32: bool, meant: str) -> None:
    torch = FakeTorch(device)
    torch.matmul.fp32_precision = before
    with fp32_arithmetic(torch, tf32=tf32):
        assert torch.matmul.fp32_precision == meant
    assert torch.matmul.fp32_precision == before
    assert torch.old_precision == "medium", "the old setting must not be touched"


@pytest.mark.parametrize(("tf32", "meant"), [(True, "high"), (False, "highest")])
def test_the_old_setting_is_set_inside_and_restored(device: FakeDevice, tf32: bool, meant: str) -> None:
    torch = FakeTorch(device, new=False)
    with fp32_arithmetic(torch, tf32=tf32):
        assert torch.old_precision == meant
    assert torch.old_precision == "medium"
    assert not hasattr(torch.matmul, "fp32_precision")


@pytest.mark.parametrize("new", [True, False])
def test_settings_are_restored_when_the_product_fails(
    monkeypatch: pytest.MonkeyPatch, device: FakeDevice, new: bool
) -> None:
    torch = use_torch(monkeypatch, FakeTorch(device, new=new))
    enqueue = baseline_named("cublas-tf32").prepare(SMALL, Operands(device, SMALL).sets, STREAM)
    torch.fail = True
    with pytest.raises(RuntimeError, match="out of memory"):
        enqueue(0)
    assert torch.products[-1] == ("mm", "tf32" if new else "high", STREAM)
    assert getattr(torch.matmul, "fp32_precision", torch.old_precision) == ("none" if new else "medium")


def test_interleaved_contenders_keep_their_own_arithmetic(monkeypatch: pytest.MonkeyPatch, device: FakeDevice) -> None:
    torch, operands = use_torch(monkeypatch, FakeTorch(device)), Operands(device, SMALL)
    plain, fast = (baseline_named(name).prepare(SMALL, operands.sets, STREAM) for name in ("cublas", "cublas-tf32"))
    torch.products.clear()
    for _ in range(2):
        plain(0)
        fast(0)
    assert [setting for _, setting, _ in torch.products] == ["ieee", "tf32", "ieee", "tf32"]
    assert torch.matmul.fp32_precision == "none"
