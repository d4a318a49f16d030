"""A fake device in host memory whose kernels are Python functions, so that tests can plant bugs."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gemmsmith.compile.compiled import CompiledKernel, Resources
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import DTYPES, FP32, Problem, ceil_div
from gemmsmith.run.device import Device, Launch
from gemmsmith.verify.harness import verify_launch
from gemmsmith.verify.verdict import Verdict

GEMM = (
    'extern "C" __global__ void gemm(int M, int N, int K, float alpha, const float* A, long long lda, '
    "const float* B, long long ldb, float beta, float* C, long long ldc) {}"
)
WORKLOG = "__global__ void gemm(const float* A, const float* B, float* C, int M, int N, int K) {}"


Kernel = Callable[["FakeCall"], None]


class FakeDevice:
    """Host memory in one arena, with allocations 64 KiB apart; every launch runs ``kernel``."""

    kind = "gpu"
    name = "fake"
    arch = "sm_00"

    def __init__(self, kernel: Kernel | None = None, spec: KernelSpec | None = None) -> None:
        self.arena = np.zeros(1 << 16, dtype=np.uint8)
        self.live: dict[int, int] = {}
        self.kernel = kernel
        self.spec = spec
        self.launches = 0
        self.top = 4096

    def allocate(self, nbytes: int) -> int:
        assert nbytes > 0
        address = self.top
        self.top += ceil_div(nbytes, 256) * 256 + (1 << 16)
        if self.top > self.arena.size:
            self.arena = np.concatenate([self.arena, np.zeros(self.top, dtype=np.uint8)])
        self.live[address] = nbytes
        return address

    def free(self, address: int) -> None:
        del self.live[address]

    def write(self, address: int, data: np.ndarray) -> None:
        assert self._inside(address, data.size), "a copy outside every allocation"
        self.arena[address : address + data.size] = data

    def read(self, address: int, nbytes: int) -> np.ndarray:
        assert self._inside(address, nbytes), "a copy outside every allocation"
        return self.arena[address : address + nbytes].copy()

    def forbid_reads(self, address: int, why: str) -> None:
        assert self._inside(address, 0), why

    def label(self, address: int, name: str) -> None:
        assert self._inside(address, 0), name

    def load(self, compiled: CompiledKernel) -> Any:
        return compiled.entry

    def launch(self, loaded: Any, launch: Launch) -> None:
        assert loaded == "gemm"
        self.launches += 1
        assert self.spec is not None
        assert self.kernel is not None
        self.kernel(FakeCall.unpack(self, launch))

    def synchronize(self) -> None:
        pass

    def _inside(self, address: int, nbytes: int) -> bool:
        return any(base <= address and address + nbytes <= base + size for base, size in self.live.items())


@dataclass
class FakeCall:
    """A launch's arguments by role; matrices are views of the device's memory, without bounds."""

    device: FakeDevice
    values: dict[str, Any]

    @classmethod
    def unpack(cls, device: FakeDevice, launch: Launch) -> FakeCall:
        values: dict[str, Any] = {"alpha": 1.0, "beta": 0.0}
        assert device.spec is not None
        for argument, raw in zip(device.spec.signature.arguments, launch.arguments, strict=True):
            code = "Q" if argument.code == "P" else argument.code
            values[argument.role] = struct.unpack("<" + code, raw)[0]
        values.setdefault("lda", max(1, values["K"]))
        values.setdefault("ldb", max(1, values["N"]))
        values.setdefault("ldc", max(1, values["N"]))
        return cls(device, values)

    def view(self, role: str, rows: int, columns: int, dtype: Any = np.float32) -> np.ndarray:
        """A strided view that starts at the matrix's address; it may be larger than the matrix."""
        ld = self.values[f"ld{role.lower()}"]
        itemsize = np.dtype(dtype).itemsize
        memory = self.device.arena[self.values[role] :]
        return np.ndarray((rows, columns), dtype, buffer=memory.data, strides=(ld * itemsize, itemsize))

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.values["M"], self.values["N"], self.values["K"]

    def operands(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        m, n, k = self.shape
        spec = self.device.spec
        assert spec is not None
        dtype, layout = spec.dtypes[0].numpy, spec.layouts[0]
        a = self.view("A", k, m, dtype).T if layout[0] == "T" else self.view("A", m, k, dtype)
        b = self.view("B", n, k, dtype).T if layout[1] == "T" else self.view("B", k, n, dtype)
        return a, b, self.view("C", m, n)


def correct(call: FakeCall) -> None:
    """A correct fp32 GEMM, in NumPy's order of summation."""
    a, b, c = call.operands()
    alpha, beta = np.float32(call.values["alpha"]), np.float32(call.values["beta"])
    with np.errstate(all="ignore"):
        value = np.zeros(c.shape, dtype=np.float32)
        if alpha != 0 and a.shape[1]:
            terms = a.astype(np.float32)[:, :, None] * b.astype(np.float32)[None, :, :]
            value = alpha * terms.sum(axis=1, dtype=np.float32)
        c[:] = value if beta == 0 else value + beta * c


def make_spec(tmp_path: Path, source: str = GEMM, **changes: Any) -> KernelSpec:
    path = tmp_path / "fake.cu"
    path.write_text(source, encoding="utf-8")

    def geometry(problem: Problem, _config: object) -> Geometry:
        return Geometry((max(1, ceil_div(problem.m, 16) * ceil_div(problem.n, 32)), 1, 1), (32, 1, 1))

    fields = {"name": "fake", "source": path, "summary": "", "teaches": "", "geometry": geometry, "rung": 1}
    return KernelSpec(**(fields | changes))


def compile_nothing(spec: KernelSpec, _config: object, _problem: Problem, arch: str) -> CompiledKernel:
    resources = Resources(0, 0, 0, 0, 0, 0, 0)
    return CompiledKernel(spec.entry, arch, "", b"", resources, "", "none", "", False, "")


def run(tmp_path: Path, kernel: Kernel, problem: Problem, spec: KernelSpec | None = None, **options: object) -> Verdict:
    spec = spec or make_spec(tmp_path, dtypes=(problem.dtype,), layouts=(problem.layout,))
    device = FakeDevice(kernel, spec)
    verdict = verify_launch(device, spec, Config(), problem, compile_fn=compile_nothing, **options)  # type: ignore[arg-type]
    assert not device.live, "memory was not freed"
    json.dumps(verdict.to_json(), allow_nan=False)
    return verdict


def test_the_fake_device_is_a_device() -> None:
    device: Device = FakeDevice()
    address = device.allocate(8)
    device.write(address, np.arange(8, dtype=np.uint8))
    assert device.read(address + 2, 2).tolist() == [2, 3]
    with pytest.raises(AssertionError, match="outside"):
        device.read(address, 9)
    device.free(address)
    with pytest.raises(AssertionError, match="outside"):
        device.read(address, 1)


@pytest.mark.parametrize("name", ["fp32", "fp16", "bf16", "int8"])
def test_the_correct_kernel_multiplies(tmp_path: Path, name: str) -> None:
    dtype = DTYPES[name]
    spec = make_spec(tmp_path, dtypes=(dtype,))
    device = FakeDevice(correct, spec)
    size = dtype.itemsize
    a, b, c = device.allocate(6 * size), device.allocate(12 * size), device.allocate(32)
    device.write(a, np.arange(6, dtype=np.float32).astype(dtype.numpy).view(np.uint8))
    device.write(b, np.arange(12, dtype=np.float32).astype(dtype.numpy).view(np.uint8))
    problem = Problem(2, 4, 3, dtype)
    device.launch("gemm", Launch(Geometry((1, 1, 1), (1, 1, 1)), spec.signature.pack(problem, a, b, c)))
    expected = np.arange(6).reshape(2, 3) @ np.arange(12).reshape(3, 4)
    assert (device.read(c, 32).view(FP32.numpy).reshape(2, 4) == expected).all()
    assert math.isclose(device.launches, 1)
