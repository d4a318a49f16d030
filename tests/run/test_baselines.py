"""The baselines without a GPU: names, refusals, the calls of the libraries, and restored settings."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from baseline_fakes import FakeCublas, FakeDevice, FakeLt, FakeTorch, FakeTriton, Operands

from gemmsmith.errors import LaunchError, MissingDeviceError, UnknownKernelError, UnsupportedError
from gemmsmith.problem import BF16, DTYPES, FP16, FP32, Problem
from gemmsmith.run.baselines import (
    BASELINES,
    baseline_named,
    cublas,
    cublas_by_torch,
    cublas_by_wheel,
    cublaslt,
    library,
    lt_calls,
    torch_views,
    trials,
    triton_contender,
)
from gemmsmith.run.baselines.lt_calls import common_alignment
from gemmsmith.run.baselines.torch_views import fp32_arithmetic
from gemmsmith.run.baselines.triton_contender import TILES, Tile, TritonGemm

LAYOUTS = [(False, False), (False, True), (True, False), (True, True)]
PAIRS = [(FP32, FP32), (FP16, FP32), (FP16, FP16), (BF16, FP32), (BF16, BF16)]
PROBLEMS = [
    Problem(5, 7, 3, dtype, out, alpha, beta, trans_a=ta, trans_b=tb)
    for ta, tb in LAYOUTS
    for dtype, out in PAIRS
    for alpha, beta in ((1.0, 0.0), (0.5, -2.0))
]
SMALL = Problem(4, 6, 5)
STREAM = 77


@pytest.fixture(name="device")
def _device(monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    """A fake GPU that holds every operand."""
    device = FakeDevice()
    for module in (cublas_by_torch, cublas_by_wheel, cublaslt, triton_contender):
        monkeypatch.setattr(module, "device_of", lambda _sets: device)
    return device


@pytest.fixture(name="no_torch")
def _no_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cublas, "usable_torch", lambda: None)
    monkeypatch.setattr(triton_contender, "usable_torch", lambda: None)


def use_torch(monkeypatch: pytest.MonkeyPatch, torch: FakeTorch) -> FakeTorch:
    monkeypatch.setattr(cublas, "usable_torch", lambda: torch)
    monkeypatch.setattr(triton_contender, "usable_torch", lambda: torch)
    monkeypatch.setattr(cublas_by_torch, "load", lambda _name: SimpleNamespace(version="13.1.0.3"))
    return torch


def use_cublas(monkeypatch: pytest.MonkeyPatch, fake: FakeCublas) -> FakeCublas:
    monkeypatch.setattr(cublas_by_wheel, "load", lambda _name: fake)
    return fake


def use_lt(monkeypatch: pytest.MonkeyPatch, fake: FakeLt, times: dict[int, float] | None = None) -> FakeLt:
    """Times candidates by their number; the last launched one is being timed."""
    monkeypatch.setattr(lt_calls, "load", lambda _name: fake)
    monkeypatch.setattr(cublaslt, "seconds", lambda *_: (times or {}).get(fake.launched[-1], 1.0))
    return fake


def check_products(operands: Operands, enqueue: Callable[[int], None]) -> None:
    """``prepare`` wrote to no C, and each product is written to its own set."""
    for index, before in enumerate(operands.before):
        np.testing.assert_array_equal(operands.c(index), before)
    enqueue(1)
    np.testing.assert_array_equal(operands.c(0), operands.before[0])
    enqueue(0)
    for index, expected in enumerate(operands.expected):
        np.testing.assert_array_equal(operands.c(index), expected)


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


# cuBLASLt


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_cublaslt_is_called_for_the_row_major_product(
    monkeypatch: pytest.MonkeyPatch, device: FakeDevice, problem: Problem
) -> None:
    fake, operands = use_lt(monkeypatch, FakeLt(device)), Operands(device, problem)
    contender = baseline_named("cublaslt")
    check_products(operands, contender.prepare(problem, operands.sets, STREAM))
    assert fake.compute == 68
    assert contender.identity.precision == problem.dtype.name
    assert contender.identity.version == "cuBLASLt 13.1.0.3"
    assert contender.identity.config.endswith(f"best of 3 candidates, {problem.out_dtype} output")
    contender.close()
    assert not fake.objects, "every descriptor was destroyed"
    assert len(device.memory) == 6, "only the operands are left"


def test_the_fastest_candidate_is_used_and_broken_ones_are_skipped(
    monkeypatch: pytest.MonkeyPatch, device: FakeDevice
) -> None:
    fake = FakeLt(device, states=(0, 15, 0, 0, 0), broken=(102,))
    use_lt(monkeypatch, fake, {100: 3.0, 101: 0.1, 102: 0.2, 103: 1.0, 104: 2.0})
    operands = Operands(device, SMALL)
    contender = baseline_named("cublaslt")
    enqueue = contender.prepare(SMALL, operands.sets, STREAM)
    config = contender.identity.config
    assert config.startswith("algorithm 103, tile #1, stages #1, split-K 1, heuristic's no. 4, best of 4 candidates")
    fake.launched.clear()
    check_products(operands, enqueue)
    assert fake.launched == [103, 103]


@pytest.mark.parametrize(("states", "broken"), [((), ()), ((15, 15), ()), ((0, 0), (100, 101))])
def test_without_a_usable_candidate_everything_is_freed(
    monkeypatch: pytest.MonkeyPatch, device: FakeDevice, states: tuple[int, ...], broken: tuple[int, ...]
) -> None:
    fake, operands = use_lt(monkeypatch, FakeLt(device, states, broken)), Operands(device, SMALL)
    before = set(device.memory)
    with pytest.raises(UnsupportedError, match="candidates computes 4x6x5 fp32"):
        baseline_named("cublaslt").prepare(SMALL, operands.sets, STREAM)
    assert not fake.objects
    assert set(device.memory) == before


def test_cublaslt_computes_in_tf32_and_says_so(monkeypatch: pytest.MonkeyPatch, device: FakeDevice) -> None:
    fake = use_lt(monkeypatch, FakeLt(device))
    contender = baseline_named("cublaslt-tf32")
    contender.prepare(SMALL, Operands(device, SMALL).sets, STREAM)
    assert fake.compute == 77
    assert contender.identity.precision == "tf32"


def test_cublaslt_is_given_the_alignment_of_the_addresses(monkeypatch: pytest.MonkeyPatch, device: FakeDevice) -> None:
    fake, operands = use_lt(monkeypatch, FakeLt(device)), Operands(device, SMALL)
    with device.current(), ExitStack() as held:
        shifted = [type(s)(s.a + 4, s.b + 16, s.c + 64) for s in operands.sets]
        lt_calls.LtProduct(device, SMALL, shifted, held, tf32=False).candidates()  # type: ignore[arg-type]
    workspace, first_is_b, second_is_a, c, d = (fake.preference[i] for i in (1, 5, 6, 7, 8))
    assert (workspace, first_is_b, second_is_a, c, d) == (64 * 2**20, 16, 4, 64, 64)


def test_common_alignment() -> None:
    assert common_alignment([4096, 8192]) == 256
    assert common_alignment([4096, 8192 + 32]) == 32
    assert common_alignment([4096 + 6]) == 2
    assert common_alignment([1]) == 1


# Triton


def use_triton(monkeypatch: pytest.MonkeyPatch, device: FakeDevice, **options: Any) -> FakeTriton:
    use_torch(monkeypatch, FakeTorch(device))
    fake = FakeTriton(**options)
    monkeypatch.setitem(sys.modules, "triton", fake)
    monkeypatch.setitem(sys.modules, "gemmsmith.run.baselines.triton_kernel", SimpleNamespace(gemm=fake))
    return fake


TRIO = (Tile(128, 128, 32, 8, 3), Tile(64, 64, 32, 4, 3), Tile(2, 3, 5, 4, 2))


def time_by_tile(monkeypatch: pytest.MonkeyPatch, fake: FakeTriton, times: dict[int, float]) -> None:
    monkeypatch.setattr(triton_contender, "seconds", lambda *_: times[fake.launches[-1]["BM"]])


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_triton_is_launched_for_the_product(
    monkeypatch: pytest.MonkeyPatch, device: FakeDevice, problem: Problem
) -> None:
    fake, operands = use_triton(monkeypatch, device), Operands(device, problem)
    time_by_tile(monkeypatch, fake, {128: 3.0, 64: 1.0, 2: 2.0})
    contender = TritonGemm(TRIO)
    check_products(operands, contender.prepare(problem, operands.sets, STREAM))
    identity = contender.identity
    config = "BM=64 BN=64 BK=32 warps=4 stages=3 group=8, best of 3 tiles"
    assert identity.config == f"{config}, {problem.out_dtype} output"
    assert (identity.precision, identity.version) == (problem.dtype.name, "triton 3.6.0, torch 2.11.0")
    assert len(identity.digest) == 64
    assert len(device.memory) == 6, "only the operands are left"


def test_every_set_is_run_before_triton_is_timed(monkeypatch: pytest.MonkeyPatch, device: FakeDevice) -> None:
    fake, operands = use_triton(monkeypatch, device), Operands(device, SMALL, count=4)
    shifted = [type(s)(s.a, s.b, s.c + 4 * i) for i, s in enumerate(operands.sets)]
    seen: list[list[int]] = []

    def seconds(*_: Any) -> float:
        seen.append([launch["c"] % 256 for launch in fake.launches])
        return 1.0

    monkeypatch.setattr(triton_contender, "seconds", seconds)
    TritonGemm(TRIO[:1]).prepare(SMALL, shifted, STREAM)
    assert seen == [[s.c % 256 for s in shifted]]


def test_triton_tiles_that_do_not_fit_are_skipped(monkeypatch: pytest.MonkeyPatch, device: FakeDevice) -> None:
    fake, operands = use_triton(monkeypatch, device, too_large=(128, 64)), Operands(device, SMALL)
    time_by_tile(monkeypatch, fake, {2: 1.0})
    contender = TritonGemm(TRIO)
    contender.prepare(SMALL, operands.sets, STREAM)
    assert contender.identity.config.startswith("BM=2 ")
    with pytest.raises(UnsupportedError, match="none of 2 Triton tiles fits fake GPU"):
        TritonGemm(TRIO[:2]).prepare(SMALL, operands.sets, STREAM)


def test_triton_masks_only_where_tiles_do_not_divide(monkeypatch: pytest.MonkeyPatch, device: FakeDevice) -> None:
    fake = use_triton(monkeypatch, device)
    monkeypatch.setattr(triton_contender, "seconds", lambda *_: 1.0)
    even = Problem(4, 6, 10)
    for problem in (even, even.with_(m=5), even.with_(n=7), even.with_(k=11)):
        TritonGemm(TRIO[2:]).prepare(problem, Operands(device, problem).sets, STREAM)
        assert fake.launches[-1]["EVEN"] == (problem == even)


def test_triton_with_alpha_0_reads_nothing(monkeypatch: pytest.MonkeyPatch, device: FakeDevice) -> None:
    fake, problem = use_triton(monkeypatch, device), SMALL.with_(alpha=0.0)
    monkeypatch.setattr(triton_contender, "seconds", lambda *_: 1.0)
    operands = Operands(device, problem)
    check_products(operands, TritonGemm(TRIO).prepare(problem, operands.sets, STREAM))
    assert {launch["k"] for launch in fake.launches} == {0}


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
def test_tiles_are_legal_for_triton(dtype: str) -> None:
    assert len(set(TILES[dtype])) == len(TILES[dtype])
    itemsize = DTYPES[dtype].itemsize
    for tile in TILES[dtype]:
        assert all(extent >= 16 and extent & (extent - 1) == 0 for extent in (tile.bm, tile.bn, tile.bk))
        assert (tile.bm + tile.bn) * tile.bk * itemsize * tile.stages <= 227 * 1024, "sm_90's shared memory of a block"
        assert tile.bm * tile.bn // (32 * tile.warps) <= 128, "accumulators of a thread"


# Trial runs


class FakeDriver:
    """The driver's events and graphs; ``milliseconds`` are the next timings."""

    CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_THREAD_LOCAL=1)

    def __init__(self, milliseconds: list[float]) -> None:
        self.milliseconds = milliseconds
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        def call(*_: Any) -> tuple[Any, ...]:
            self.calls.append(name)
            return (0, self.milliseconds.pop(0)) if name == "cuEventElapsedTime" else (0, name)

        return call


def use_driver(monkeypatch: pytest.MonkeyPatch, milliseconds: list[float]) -> FakeDriver:
    import cuda.bindings

    driver = FakeDriver(milliseconds)
    monkeypatch.setattr(cuda.bindings, "driver", driver, raising=False)
    return driver


def test_trials_time_a_graph_of_launches_over_all_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = use_driver(monkeypatch, [0.4, 9.0, 5.0, 1.0, 4.0, 2.0, 3.0])
    launched: list[int] = []
    time = trials.seconds(launched.append, 3, STREAM)
    assert time == pytest.approx(3.0e-3 / 5), "the median of five rounds of five launches"
    assert launched == [0, 0, 1, 2, 0, 1], "one alone, then one round captured"
    assert driver.calls.count("cuGraphLaunch") == 6
    for made, freed in (("cuEventCreate", "cuEventDestroy"), ("cuStreamEndCapture", "cuGraphDestroy")):
        assert driver.calls.count(made) == driver.calls.count(freed) > 0
    assert driver.calls.count("cuGraphExecDestroy") == 1


def test_trials_on_the_default_stream_are_not_captured(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = use_driver(monkeypatch, [1.0] * 7)
    launched: list[int] = []
    assert trials.seconds(launched.append, 2, 0) == pytest.approx(0.5e-3)
    assert launched == [0] + [0, 1] * 6
    assert not any("Capture" in call or "Graph" in call for call in driver.calls)


def test_a_variant_that_is_far_slower_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    use_driver(monkeypatch, [10.0])
    launched: list[int] = []
    assert trials.seconds(launched.append, 2, STREAM, best=0.005) == float("inf")
    assert launched == [0]
    # A short kernel whose first launch waits for the host is not dropped.
    use_driver(monkeypatch, [0.1] + [0.064] * 6)
    assert trials.seconds(launched.append, 2, STREAM, best=5e-6) == pytest.approx(0.064e-3 / 20)


def test_a_capture_is_ended_if_the_work_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    driver = use_driver(monkeypatch, [1.0])
    launched: list[int] = []

    def enqueue(index: int) -> None:
        if launched:
            raise LaunchError("refused under capture")
        launched.append(index)

    with pytest.raises(LaunchError, match="refused under capture"):
        trials.seconds(enqueue, 1, STREAM)
    assert driver.calls.count("cuStreamBeginCapture") == driver.calls.count("cuStreamEndCapture") == 1
    assert driver.calls.count("cuEventDestroy") == 2


def test_an_error_of_the_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Status(int):
        name = "CUDA_ERROR_ILLEGAL_ADDRESS"

    driver = use_driver(monkeypatch, [])
    driver.cuEventSynchronize = lambda _event: (Status(700),)  # type: ignore[attr-defined]
    with pytest.raises(LaunchError, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
        trials.seconds(lambda _index: None, 1, STREAM)
