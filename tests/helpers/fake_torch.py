"""A fake torch whose tensors are metadata, and a fake GPU that records its calls: for tests of gemm and plan."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import pytest

import gemmsmith.call.api  # noqa: F401 - replaced in
from gemmsmith.call.cache import CACHE
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.errors import LaunchError
from gemmsmith.kernel.geometry import Geometry, TensorMap
from gemmsmith.run.device import Launch, PatchedStep, Step
from gemmsmith.run.tensor_map import check_tensor_map, encode_simulated

SIZES = {"float32": 4, "float16": 2, "bfloat16": 2, "int8": 1, "int32": 4}


class Device(NamedTuple):
    type: str
    index: int


class Tensor:
    """The metadata of a tensor."""

    requires_grad = is_nested = False

    def __init__(
        self, shape: Sequence[int], dtype: str, address: int, stride: Sequence[int] = (), gpu: int = 0
    ) -> None:
        self.shape, self.dtype, self.layout = tuple(shape), dtype, "strided"
        self.device = Device("cuda", gpu)
        self._address, self.streams = address, list[int]()
        tight = [1]
        for extent in reversed(self.shape[1:]):
            tight.insert(0, tight[0] * extent)
        self._stride = tuple(stride or tight)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def stride(self) -> tuple[int, ...]:
        return self._stride

    def data_ptr(self) -> int:
        return self._address

    def element_size(self) -> int:
        return SIZES[self.dtype]

    def reshape(self, *_: int) -> Tensor:
        return Tensor((1, *self.shape), self.dtype, self._address)

    def record_stream(self, stream: Any) -> None:
        self.streams.append(stream.cuda_stream)


class Parameter(Tensor):
    """torch.nn.Parameter: it requires grad unless told otherwise."""

    requires_grad = True


class FakeTorch(ModuleType):
    """``stream`` is the current stream; ``made`` are the tensors that were allocated."""

    strided = "strided"

    def __init__(self) -> None:
        super().__init__("torch")
        self.Tensor, self.nn = Tensor, SimpleNamespace(Parameter=Parameter)
        for name in SIZES:
            setattr(self, name, name)
        self.stream, self.made, self._next = 7, list[Tensor](), 0x7000_0000
        self.cuda = SimpleNamespace(current_stream=lambda _: SimpleNamespace(cuda_stream=self.stream))
        self._C = SimpleNamespace(_cuda_getCurrentRawStream=lambda _: self.stream)

    def is_grad_enabled(self) -> bool:
        return True

    def empty(self, shape: Sequence[int], dtype: str, device: Any) -> Tensor:
        del device
        self.made.append(Tensor(shape, dtype, self._next))
        self._next += 0x1000_0000
        return self.made[-1]


class FakeGpu:
    """Records launches with their streams and steps, and all other calls in ``asked``. ``lost``: it is not current."""

    kind, name, arch, sms, ordinal = "gpu", "NVIDIA H200", "sm_90", 132, 0

    def __init__(self) -> None:
        self.launched: list[tuple[int, tuple[Step, ...]]] = []
        self.asked: list[Any] = []
        self.lost, self.depth = False, 0

    def load(self, compiled: CompiledKernel) -> str:
        self.asked.append("load")
        return compiled.key

    def encode_tensor_map(self, described: TensorMap, address: int) -> bytes:
        self.asked.append(("map", described.operand, address))
        check_tensor_map(described, address)
        return encode_simulated(described, address)

    def is_capturing(self, stream: int) -> bool:
        del stream
        return False

    def blocks_at_once(self, loaded: str, geometry: Geometry) -> int:
        del loaded, geometry
        self.asked.append("occupancy")
        return 10

    def allocate(self, nbytes: int) -> int:
        self.asked.append(("allocate", nbytes))
        return 0x5000

    def free(self, address: int) -> None:
        self.asked.append(("free", address))

    def copy_rows(self, *what: int) -> None:
        self.launched.append((what[-1], ()))
        self.asked.append(("copy", *what))

    def launcher(self, products: Sequence[Sequence[Step]], stream: int) -> Callable[[int], None]:
        def enqueue(index: int) -> None:
            if self.lost and not self.depth:
                raise LaunchError("launching the kernel failed: CUDA_ERROR_INVALID_CONTEXT")
            self.launched.append((stream, tuple(products[index])))

        return enqueue

    def armed(self, steps: Sequence[PatchedStep]) -> Callable[..., None]:
        def filled(each: PatchedStep, addresses: tuple[int, ...]) -> Step:
            arguments = [bytearray(argument) for argument in each.step.launch.arguments]
            for patch in each.patches:
                where = addresses[patch.slot] + patch.offset
                struct.pack_into("<Q", arguments[patch.argument], patch.position, where)
            return replace(each.step, launch=Launch(each.step.launch.geometry, tuple(map(bytes, arguments))))

        def start(*places: int) -> None:
            *addresses, stream = places
            if self.lost and not self.depth:
                raise LaunchError("launching the kernel failed: CUDA_ERROR_INVALID_CONTEXT")
            self.launched.append((stream, tuple(filled(each, tuple(addresses)) for each in steps)))

        return start

    @contextmanager
    def current(self) -> Iterator[None]:
        self.depth += 1
        try:
            yield
        finally:
            self.depth -= 1


def install(monkeypatch: pytest.MonkeyPatch, gpus: int = 1) -> tuple[FakeTorch, FakeGpu]:
    """Both in place of the real ones, until the test ends."""
    torch, gpu = FakeTorch(), FakeGpu()
    monkeypatch.setitem(sys.modules, "torch", torch)
    for name in ("gemmsmith.call.api", "gemmsmith.call.gpu_executor"):
        monkeypatch.setattr(sys.modules[name], "cuda_device", lambda _ordinal: gpu)
    monkeypatch.setattr("gemmsmith.call.gpu_executor.device_count", lambda: gpus)
    monkeypatch.setenv("GEMMSMITH_FIRST_CALL", "wait")  # the same kernel from the first call on
    CACHE.clear()
    return torch, gpu
