"""The baselines without a GPU: names, refusals, and libraries that are missing."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from baseline_fakes import FakeDevice, FakeTorch, Operands
from baseline_rig import SMALL, STREAM, use_torch

from gemmsmith.errors import LaunchError, MissingDeviceError, UnknownKernelError, UnsupportedError
from gemmsmith.problem import BF16, DTYPES, FP16, Problem
from gemmsmith.run.baselines import (
    BASELINES,
    baseline_named,
    cublas_by_wheel,
    library,
    lt_calls,
    torch_views,
)

# Names


def test_every_name_has_a_description_and_a_contender() -> None:
    assert list(BASELINES) == ["cublas", "cublas-tf32", "cublaslt", "cublaslt-tf32", "triton"]
    for name, line in BASELINES.items():
        identity = baseline_named(name).identity
        assert (identity.name, identity.kind) == (name, "baseline")
        assert identity.precision == ("tf32" if name.endswith("tf32") else "fp32")
        assert ("TF32" in line) == name.endswith("tf32")
        assert len(line) < 90


@pytest.mark.parametrize("name", ["", "CUBLAS", "cublas-tf33", "cutlass", "triton-tf32"])
def test_an_unknown_name_lists_the_known_ones(name: str) -> None:
    with pytest.raises(UnknownKernelError, match="cublas, cublas-tf32, cublaslt, cublaslt-tf32, triton") as raised:
        baseline_named(name)
    assert raised.value.exit_code == 2


def test_naming_a_baseline_loads_no_library() -> None:
    code = (
        "import sys\nfrom gemmsmith.run.baselines import BASELINES, baseline_named\n"
        "for name in BASELINES: baseline_named(name)\n"
        "heavy = {'torch', 'triton', 'cupy', 'nvmath', 'cuda.bindings.driver', 'cuda.pathfinder'} & set(sys.modules)\n"
        "sys.exit(', '.join(heavy) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


# Refusals


@pytest.mark.parametrize("name", BASELINES)
@pytest.mark.parametrize(
    ("problem", "says"),
    [
        (Problem(0, 4, 4), "nothing to multiply"),
        (Problem(4, 0, 4), "nothing to multiply"),
        (Problem(4, 4, 0), "nothing to multiply"),
        (Problem(4, 4, 4, lda=9), "tight leading dimensions"),
        (Problem(4, 4, 4, ldb=9), "tight leading dimensions"),
        (Problem(4, 4, 4, ldc=9), "tight leading dimensions"),
        (Problem(4, 4, 4, DTYPES["int8"]), "one plain product"),
        (Problem(4, 4, 4, batch=2), "one plain product"),
        (Problem(4, 4, 4, activation="relu"), "one plain product"),
    ],
)
def test_problems_that_no_baseline_computes(name: str, problem: Problem, says: str) -> None:
    with pytest.raises(UnsupportedError, match=says):
        baseline_named(name).prepare(problem, [], 0)


@pytest.mark.parametrize("name", ["cublas-tf32", "cublaslt-tf32"])
@pytest.mark.parametrize("dtype", [FP16, BF16])
def test_tf32_is_for_fp32_inputs(name: str, dtype: Any) -> None:
    with pytest.raises(UnsupportedError, match=f"inputs are {dtype}\nuse {name[:-5]}$"):
        baseline_named(name).prepare(SMALL.with_(dtype=dtype), [], 0)


# Missing libraries


@pytest.mark.parametrize("name", ["cublas", "cublasLt"])
@pytest.mark.parametrize("error", [RuntimeError("not found"), OSError("libcudart.so.13: cannot open")])
def test_a_missing_library_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch, name: str, error: Exception) -> None:
    def refuse(_name: str) -> None:
        raise error

    library.load.cache_clear()
    monkeypatch.setattr("cuda.pathfinder.load_nvidia_dynamic_lib", refuse)
    with pytest.raises(MissingDeviceError, match=rf"lib{name} is not installed\n.*\.\[torch\].*\.\[baselines\]"):
        library.load(name)


@pytest.mark.usefixtures("no_torch")
def test_without_torch_and_library_cublas_says_how_to_install_it(
    monkeypatch: pytest.MonkeyPatch, device: FakeDevice
) -> None:
    def missing(name: str) -> None:
        raise MissingDeviceError(f"lib{name} is not installed", library.HOW_TO_GET)

    monkeypatch.setattr(cublas_by_wheel, "load", missing)
    monkeypatch.setattr(lt_calls, "load", missing)
    for name in ("cublas", "cublas-tf32", "cublaslt", "cublaslt-tf32"):
        with pytest.raises(MissingDeviceError, match="pip install") as raised:
            baseline_named(name).prepare(SMALL, Operands(device, SMALL).sets, STREAM)
        assert raised.value.exit_code == 3


@pytest.mark.usefixtures("no_torch", "device")
def test_triton_without_torch_says_so() -> None:
    with pytest.raises(MissingDeviceError, match=r"through torch.*\n.*\.\[torch\]"):
        baseline_named("triton").prepare(SMALL, [], STREAM)


def test_torch_without_triton_says_so(monkeypatch: pytest.MonkeyPatch, device: FakeDevice) -> None:
    use_torch(monkeypatch, FakeTorch(device))
    monkeypatch.setitem(sys.modules, "triton", None)
    with pytest.raises(MissingDeviceError, match=r"Triton is not installed\n.*\.\[torch\]"):
        baseline_named("triton").prepare(SMALL, [], STREAM)


def test_torch_that_is_broken_or_has_no_gpu_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    assert torch_views.usable_torch() is None
    torch = SimpleNamespace(cuda=SimpleNamespace(is_available=lambda: False))
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert torch_views.usable_torch() is None
    torch.cuda.is_available = lambda: True
    assert torch_views.usable_torch() is torch


def test_the_fourth_number_of_a_version_comes_from_the_wheel(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(part: int, value: Any) -> int:
        value._obj.value = (13, 1, 0)[part]
        return 0

    functions = SimpleNamespace(cublasGetProperty=answer)
    for recorded, expected in (("13.1.0.3", "13.1.0.3"), ("13.10.0.3", "13.1.0"), ("12.9.1.4", "13.1.0")):
        monkeypatch.setattr(library.metadata, "version", lambda _package, recorded=recorded: recorded)
        assert library._version(functions, "cublas") == expected


def test_a_status_that_is_not_success_raises_with_its_name() -> None:
    loaded = library.Library("cublas", "13", SimpleNamespace(good=lambda: 0, bad=lambda: 15, odd=lambda: 99))
    loaded.call("good")
    with pytest.raises(LaunchError, match=r"bad failed: NOT_SUPPORTED \(15\)"):
        loaded.call("bad")
    with pytest.raises(LaunchError, match=r"odd failed: status \(99\)"):
        loaded.call("odd")
    assert loaded.call("bad", accepted=(0, 15)) == 15
