"""What an accuracy study compares: kernels on the simulator, tensors on a GPU, libraries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from gemmsmith.bench.arithmetic import arithmetic
from gemmsmith.errors import MissingDeviceError
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import BF16, FP16, FP32, INT8, TF32, DType, Problem
from gemmsmith.run.contender import OperandSet
from gemmsmith.sim.device import SimDevice
from gemmsmith.userfile.kernels.user_kernel import UserOptions, user_kernel
from gemmsmith.verify.oracles import accuracy_subjects
from gemmsmith.verify.oracles.accuracy_study import Plan, study
from gemmsmith.verify.oracles.accuracy_subjects import baseline_subject, kernel_subject

SOURCE = """
__global__ void mine(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * blockDim.y + threadIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= M || column >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + column];
    C[row * N + column] = sum;
}
"""
NAIVE = rung_named("naive")


@pytest.mark.parametrize("dtype", [FP32, TF32, FP16, BF16, INT8], ids=str)
def test_a_baseline_gets_the_same_numbers_in_fp32(dtype: DType) -> None:
    subject = kernel_subject(NAIVE, NAIVE.config(), Problem(8, 8, 4, dtype), SimDevice(), arithmetic, is_baseline=True)
    rng = np.random.default_rng(0)
    a, b = ((rng.integers(-8, 8, shape)).astype(dtype.numpy) for shape in ((8, 4), (4, 8)))
    assert np.array_equal(subject.product(a, b), a.astype(np.float64) @ b.astype(np.float64))
    assert subject.arithmetic == "fp32"


def test_a_file_is_named_by_the_arithmetic_of_its_code(tmp_path: Path) -> None:
    """Its types say fp32; its instruction is TF32."""
    multiply = """
    unsigned a0 = K, b0 = M; float d0 = 0, d1 = 0, d2 = 0, d3 = 0;
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
                 "{%0,%1,%2,%3}, {%4,%4,%4,%4}, {%5,%5}, {%0,%1,%2,%3};"
                 : "+f"(d0), "+f"(d1), "+f"(d2), "+f"(d3) : "r"(a0), "r"(b0));
    if (d0 < 0) sum += d1 + d2 + d3;"""
    found = []
    for name, more in (("plain.cu", ""), ("tensor.cu", multiply)):
        (tmp_path / name).write_text(SOURCE.replace("float sum = 0;", f"float sum = 0; {more}"))
        spec = user_kernel(tmp_path / name, UserOptions())
        found.append(kernel_subject(spec, spec.config(), Problem(8, 8, 8), SimDevice(), arithmetic).arithmetic)
    assert found == ["fp32", "tf32"]


def test_results_of_one_plan_do_not_overwrite_each_other() -> None:
    subject = kernel_subject(NAIVE, NAIVE.config(), Problem(4, 4, 4), SimDevice(), arithmetic)
    eye = np.eye(4, dtype=np.float32)
    first = subject.product(eye, eye)
    second = subject.product(2 * eye, eye)
    assert np.array_equal(first, eye)
    assert np.array_equal(second, 2 * eye)


def test_a_kernel_for_transposed_operands_gets_transposed_operands() -> None:
    """The numbers are the same."""
    spec = replace(rung_named("mma_pipelined"), layouts=("TN", "TT"))
    subject = kernel_subject(spec, spec.config(), Problem(16, 24, 8, FP16), SimDevice(), arithmetic)
    rng = np.random.default_rng(0)
    a, b = rng.integers(-4, 4, (16, 8)).astype(np.float16), rng.integers(-4, 4, (8, 24)).astype(np.float16)
    assert np.array_equal(subject.product(a, b), a.astype(np.float64) @ b.astype(np.float64))


class FakeGpu(SimDevice):
    """A GPU whose memory the test can read."""

    kind = "gpu"

    @contextmanager
    def current(self) -> Iterator[None]:
        yield

    def matrix(self, address: int, shape: tuple[int, int], dtype: DType) -> Any:
        return self.read(address, shape[0] * shape[1] * dtype.itemsize).view(dtype.numpy).reshape(shape)


class FakeLibrary:
    """A contender that multiplies in float64, on the stream that it gets."""

    def __init__(self, gpu: FakeGpu) -> None:
        self.gpu, self.closed, self.streams = gpu, 0, list[int]()

    def prepare(self, problem: Problem, sets: Sequence[OperandSet], stream: int) -> Callable[[int], None]:
        self.streams.append(stream)

        def enqueue(index: int) -> None:
            at = sets[index]
            assert np.isnan(self.gpu.matrix(at.c, problem.c_shape, FP32)).all()
            a, b = (self.gpu.matrix(address, shape, problem.dtype).astype(np.float64)
                    for address, shape in ((at.a, problem.a_shape), (at.b, problem.b_shape)))  # fmt: skip
            self.gpu.write(at.c, (a @ b).astype(np.float32).reshape(-1).view(np.uint8))

        return enqueue

    def close(self) -> None:
        self.closed += 1


@pytest.mark.parametrize(("name", "dtype", "arithmetic"), [
    ("cublas", FP32, "fp32"), ("cublas", TF32, "fp32"), ("cublas-tf32", FP32, "tf32"), ("cublas", BF16, "bf16"),
], ids=str)  # fmt: skip
def test_a_library_computes_the_product(
    name: str, dtype: DType, arithmetic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = FakeGpu()
    library = FakeLibrary(gpu)
    monkeypatch.setattr(accuracy_subjects, "baseline_named", lambda asked: {name: library}[asked])
    subject = baseline_subject(name, Problem(24, 16, 40, dtype), gpu, 77)  # type: ignore[arg-type]
    assert (subject.name, subject.arithmetic, subject.is_baseline) == (name, arithmetic, True)
    for point in study([subject], Plan(24, 16, (8, 40), ("normal",), dtype)):
        assert point.errors.largest <= 1  # one rounding
    assert library.streams == [77, 77]
    assert library.closed == 2


class FakeTensor(np.ndarray[Any, Any]):
    device = "cuda:0"

    def cuda(self) -> FakeTensor:
        return self

    def cpu(self) -> FakeTensor:
        return self

    def numpy(self) -> Any:
        return np.asarray(self)


@pytest.mark.parametrize("layouts", [("NN",), ("TN",), ("NT", "TT")], ids=str)
@pytest.mark.parametrize("dtype", [FP32, TF32, BF16, INT8], ids=str)
def test_tensors_go_through_the_public_function(
    dtype: DType, layouts: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = replace(rung_named("mma_pipelined"), layouts=layouts, dtypes=(FP32, TF32, BF16, INT8))
    waited: list[bool] = []
    torch = SimpleNamespace(
        bfloat16=ml_dtypes.bfloat16, float32=np.float32, from_numpy=lambda values: values.view(FakeTensor),
        full=lambda shape, value, dtype, **_: np.full(shape, value, dtype).view(FakeTensor),
        cuda=SimpleNamespace(synchronize=lambda: waited.append(True)),
    )  # fmt: skip

    def gemm(a: Any, b: Any, *, kernel: Any, config: Any, dtype: str, out: Any, deterministic: bool) -> None:
        assert (kernel, config, dtype, deterministic) == (spec, spec.config(), wanted, True)
        assert a.T.flags.c_contiguous == (layouts[0][0] == "T")
        assert b.T.flags.c_contiguous == (layouts[0][1] == "T")
        out[:] = a.astype(np.float64) @ b.astype(np.float64)

    wanted = dtype.name
    monkeypatch.setattr(accuracy_subjects, "usable_torch", lambda: torch)
    monkeypatch.setattr(accuracy_subjects, "gemm", gemm)
    subject = kernel_subject(spec, spec.config(), Problem(24, 16, 40, dtype), FakeGpu(), arithmetic)
    (point,) = study([subject], Plan(24, 16, (40,), ("normal",), dtype))
    assert point.errors.largest * point.unit <= 2.0**-24
    assert waited == [True]


def test_a_gpu_needs_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accuracy_subjects, "usable_torch", lambda: None)
    with pytest.raises(MissingDeviceError, match="torch"):
        kernel_subject(NAIVE, NAIVE.config(), Problem(8, 8, 8), FakeGpu(), arithmetic)
