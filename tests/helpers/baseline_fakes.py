"""A fake GPU, cuBLAS, cuBLASLt and torch in NumPy, to test how the baselines call the real ones.

The fake libraries are column-major and take addresses like the real ones, so a wrong operand order, transpose or
leading dimension gives a wrong product.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np

from gemmsmith.errors import LaunchError
from gemmsmith.problem import BF16, FP16, FP32, Problem
from gemmsmith.run.baselines.column_major import Stored
from gemmsmith.run.contender import OperandSet

NUMPY_TYPE = {0: FP32.numpy, 2: FP16.numpy, 14: BF16.numpy}


class FakeDevice:
    """Memory by address; records whether the context was current at each library call."""

    ordinal, name = 0, "fake GPU"

    def __init__(self) -> None:
        self.memory: dict[int, np.ndarray[Any, Any]] = {}
        self.depth = 0
        self._next = 4096

    def allocate(self, nbytes: int) -> int:
        address, self._next = self._next, self._next + -(-nbytes // 256) * 256 + 256
        # The fakes never touch a large workspace.
        self.memory[address] = np.full(min(nbytes, 2**20), 0xFF, np.uint8)
        return address

    def free(self, address: int) -> None:
        del self.memory[address]

    @contextmanager
    def current(self) -> Iterator[None]:
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1

    def synchronize(self) -> None:
        assert self.depth >= 0

    def view(self, address: int, dtype: np.dtype[Any], count: int) -> np.ndarray[Any, Any]:
        base = max(a for a in self.memory if a <= address)
        start = address - base
        return self.memory[base][start : start + count * dtype.itemsize].view(dtype)


class Operands:
    """Random operand sets on a fake device, with their expected products."""

    def __init__(self, device: FakeDevice, problem: Problem, count: int = 2) -> None:
        self.device, self.problem = device, problem
        random = np.random.default_rng(7)
        self.sets, self.expected, self.before = [], [], []
        for _ in range(count):
            a = random.integers(-4, 5, problem.a_shape).astype(problem.dtype.numpy)
            b = random.integers(-4, 5, problem.b_shape).astype(problem.dtype.numpy)
            c = random.integers(-4, 5, problem.c_shape).astype(problem.out_dtype.numpy)
            self.sets.append(OperandSet(self._put(a), self._put(b), self._put(c)))
            left = (a.T if problem.trans_a else a).astype(np.float64)
            right = (b.T if problem.trans_b else b).astype(np.float64)
            self.before.append(c.astype(np.float64))
            self.expected.append(problem.alpha * (left @ right) + problem.beta * c.astype(np.float64))

    def _put(self, values: np.ndarray[Any, Any]) -> int:
        # Room to shift an address.
        address = self.device.allocate(values.nbytes + 64)
        self.device.memory[address][: values.nbytes] = values.reshape(-1).view(np.uint8)
        return address

    def c(self, index: int) -> np.ndarray[Any, Any]:
        m, n = self.problem.c_shape
        flat = self.device.view(self.sets[index].c, self.problem.out_dtype.numpy, m * n)
        return flat.reshape(m, n).astype(np.float64)


def column_major_product(device: FakeDevice, m: int, n: int, k: int, alpha: float, beta: float,
                         first: tuple[int, int, Stored], second: tuple[int, int, Stored],
                         out: tuple[int, int, Stored]) -> None:  # fmt: skip
    """out (m×n) = alpha·op(first)·op(second) + beta·out; an operand is (address, CUDA type, storage)."""

    def columns(address: int, kind: int, stored: Stored) -> np.ndarray[Any, Any]:
        flat = device.view(address, NUMPY_TYPE[kind], stored.ld * stored.cols)
        return flat.reshape(stored.cols, stored.ld)[:, : stored.rows].T

    def operated(operand: tuple[int, int, Stored]) -> np.ndarray[Any, Any]:
        matrix = columns(*operand).astype(np.float64)
        return matrix.T if operand[2].transposed else matrix

    left, right, target = operated(first), operated(second), columns(*out)
    assert left.shape == (m, k)
    assert right.shape == (k, n)
    assert target.shape == (m, n)
    old = 0.0 if beta == 0 else beta * target.astype(np.float64)
    target[:] = (alpha * (left @ right) + old).astype(target.dtype)


class FakeCublas:
    """Records every call; the call named ``fail`` returns an error."""

    name, version = "cublas", "13.1.0.3"

    def __init__(self, device: FakeDevice, fail: str = "") -> None:
        self.device, self.fail = device, fail
        self.calls: list[str] = []
        self.arguments: dict[str, tuple[Any, ...]] = {}

    def call(self, function: str, *arguments: Any) -> None:
        assert self.device.depth > 0, f"{function} without the GPU's context"
        self.calls.append(function)
        self.arguments[function] = arguments
        if function == self.fail:
            raise LaunchError(f"{function} failed")
        if function == "cublasGemmEx":
            self._gemm(*arguments)

    def _gemm(self, _handle: Any, op_a: int, op_b: int, m: int, n: int, k: int, alpha: Any, a: int, a_type: int,
              lda: int, b: int, b_type: int, ldb: int, beta: Any, c: int, c_type: int, ldc: int, _compute: int,
              _algorithm: int) -> None:  # fmt: skip
        first = Stored(*((k, m) if op_a else (m, k)), lda, bool(op_a))
        second = Stored(*((n, k) if op_b else (k, n)), ldb, bool(op_b))
        column_major_product(
            self.device, m, n, k, alpha._obj.value, beta._obj.value,
            (a, a_type, first), (b, b_type, second), (c, c_type, Stored(m, n, ldc)),
        )  # fmt: skip


class FakeLt:
    """cuBLASLt with candidates whose ids are 100, 101, …; ``broken`` of them refuse to run."""

    name, version = "cublasLt", "13.1.0.3"

    def __init__(self, device: FakeDevice, states: tuple[int, ...] = (0, 0, 0), broken: tuple[int, ...] = ()) -> None:
        self.device, self.states, self.broken = device, states, broken
        self.objects: dict[int, dict[Any, Any]] = {}
        self.launched: list[int] = []
        self.compute = 0

    def call(self, function: str, *arguments: Any, accepted: tuple[int, ...] = (0,)) -> int:
        assert self.device.depth > 0, f"{function} without the GPU's context"
        if function == "cublasLtMatmulAlgoGetHeuristic" and not self.states:
            assert 15 in accepted
            return 15
        if function.endswith("Create"):
            made = arguments[0]._obj
            made.value = 1000 + len(self.objects)
            self.objects[made.value] = {"made": arguments[1:]}
            if function == "cublasLtMatmulDescCreate":
                self.compute = arguments[1]
        elif function.endswith("Destroy"):
            del self.objects[arguments[0].value]
        elif function.endswith("SetAttribute"):
            target, attribute, value, size = arguments
            assert size == ctypes.sizeof(value._obj)
            self.objects[target.value][attribute] = value._obj.value
        else:
            getattr(self, f"_{function}")(*arguments)
        return 0

    def _cublasLtMatmulAlgoGetHeuristic(self, *arguments: Any) -> None:  # noqa: N802 — the library's name
        results, count = arguments[-2]._obj, arguments[-1]._obj
        count.value = len(self.states)
        for i, state in enumerate(self.states):
            results[i].state = state
            results[i].algorithm.data[0] = 100 + i
        self.preference = dict(self.objects[arguments[6].value])

    def _cublasLtMatmulAlgoConfigGetAttribute(self, algorithm: Any, attribute: int, value: Any, *_: Any) -> None:  # noqa: N802
        value._obj.value = algorithm._obj.data[0] if attribute == 0 else 1

    def _cublasLtMatmul(self, *arguments: Any) -> None:  # noqa: N802
        _, product, alpha, a, a_layout, b, b_layout, beta, c, _, d, d_layout, algorithm, *_ = arguments
        number = algorithm._obj.data[0]
        if number in self.broken:
            raise LaunchError("cublasLtMatmul failed: NOT_SUPPORTED (15)")
        assert c == d
        self.launched.append(number)
        flags = self.objects[product.value]
        first, second = self._stored(a_layout, flags[3]), self._stored(b_layout, flags[4])
        out = self._stored(d_layout, 0)
        k = first[1].rows if flags[3] else first[1].cols
        column_major_product(
            self.device, out[1].rows, out[1].cols, k, alpha._obj.value, beta._obj.value,
            (a, *first), (b, *second), (d, *out),
        )  # fmt: skip

    def _stored(self, layout: Any, transposed: int) -> tuple[int, Stored]:
        kind, rows, cols, ld = self.objects[layout.value]["made"]
        return kind, Stored(rows, cols, ld, bool(transposed))


class FakeTensor:
    """The part of a tensor that the baselines use."""

    def __init__(self, values: np.ndarray[Any, Any], address: int) -> None:
        self.values, self._address = values, address

    def data_ptr(self) -> int:
        return self._address

    def view(self, dtype: np.dtype[Any]) -> FakeTensor:
        return FakeTensor(self.values.view(dtype), self._address)

    def stride(self, axis: int) -> int:
        return self.values.strides[axis] // self.values.itemsize

    @property
    def T(self) -> FakeTensor:  # noqa: N802 — torch's name
        return FakeTensor(self.values.T, self._address)


class FakeMatmul:
    """torch.backends.cuda.matmul of torch 2.9 and newer."""

    fp32_precision = "none"


class FakeTorch:
    """torch with new or old settings; ``products`` records setting, stream and call of each product."""

    __version__ = "2.11.0+cu130"
    float32, float16, bfloat16 = FP32.numpy, FP16.numpy, BF16.numpy

    def __init__(self, device: FakeDevice, *, new: bool = True, wider: bool = True) -> None:
        self._device, self._stream = device, 0
        self.old_precision, self.products = "medium", []
        self.fail = False
        self.matmul = FakeMatmul() if new else SimpleNamespace()
        self.backends = SimpleNamespace(cuda=SimpleNamespace(matmul=self.matmul))
        overloads = ["default", "out", *(["dtype", "dtype_out"] if wider else [])]
        self.ops = SimpleNamespace(aten=SimpleNamespace(mm=SimpleNamespace(overloads=lambda: overloads)))
        self.cuda = SimpleNamespace(
            is_available=lambda: True,
            ExternalStream=lambda stream, device: (stream, device),
            stream=self._on,
        )

    @contextmanager
    def _on(self, stream: tuple[int, int]) -> Iterator[None]:
        self._stream = stream[0]
        try:
            yield
        finally:
            self._stream = 0

    def get_float32_matmul_precision(self) -> str:
        return self.old_precision

    def set_float32_matmul_precision(self, value: str) -> None:
        self.old_precision = value

    def as_tensor(self, holder: Any, device: str) -> FakeTensor:
        assert device == "cuda:0"
        facts = holder.__cuda_array_interface__
        address, shape = facts["data"][0], facts["shape"]
        flat = self._device.view(address, np.dtype(facts["typestr"]), shape[0] * shape[1])
        return FakeTensor(flat.reshape(shape), address)

    def mm(self, a: FakeTensor, b: FakeTensor, *, out: FakeTensor, out_dtype: Any = None) -> None:
        assert out.values.dtype == (a.values.dtype if out_dtype is None else out_dtype)
        self._product("mm", a, b, 1.0, 0.0, out)

    def addmm(self, c: FakeTensor, a: FakeTensor, b: FakeTensor, *, beta: float, alpha: float, out: FakeTensor) -> None:
        assert c is out
        assert out.values.dtype == a.values.dtype
        self._product("addmm", a, b, alpha, beta, out)

    def _product(self, call: str, a: FakeTensor, b: FakeTensor, alpha: float, beta: float, out: FakeTensor) -> None:
        setting = getattr(self.matmul, "fp32_precision", self.old_precision)
        self.products.append((call, setting, self._stream))
        if self.fail:
            raise RuntimeError("CUDA out of memory")
        old = beta * out.values.astype(np.float64) if beta else 0.0
        out.values[:] = alpha * (a.values.astype(np.float64) @ b.values.astype(np.float64)) + old


class FakeTriton:
    """triton's errors, and a kernel that multiplies with NumPy; tiles in ``too_large`` do not fit."""

    __version__ = "3.6.0"

    class OutOfResources(Exception):  # noqa: N818 — triton's name
        pass

    class PTXASError(Exception):
        pass

    def __init__(self, too_large: tuple[int, ...] = ()) -> None:
        self.runtime = SimpleNamespace(errors=self)
        self.too_large = too_large
        self.launches: list[dict[str, Any]] = []

    def __getitem__(self, grid: tuple[int]) -> Any:
        def launch(a: FakeTensor, b: FakeTensor, c: FakeTensor, m: int, n: int, k: int, *scalars: Any,
                   **constants: Any) -> None:  # fmt: skip
            if constants["BM"] in self.too_large:
                raise FakeTriton.OutOfResources
            assert grid == (-(-m // constants["BM"]) * -(-n // constants["BN"]),)
            assert scalars[:5] == (a.stride(0), a.stride(1), b.stride(0), b.stride(1), c.stride(0))
            alpha, beta = scalars[5:]
            self.launches.append({"c": c.data_ptr(), "k": k, **constants})
            old = beta * c.values.astype(np.float64) if constants["READ_C"] else 0.0
            product = a.values[:, :k].astype(np.float64) @ b.values[:k].astype(np.float64)
            c.values[:] = alpha * product + old

        return launch
