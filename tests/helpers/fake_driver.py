"""The CUDA driver's functions for tensor maps, clusters and launches, as a fake that records its calls."""

from __future__ import annotations

import ctypes
from enum import IntEnum
from types import SimpleNamespace
from typing import Any

Arguments = (ctypes.c_int, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32, ctypes.c_void_p,
             ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(ctypes.c_uint32),
             ctypes.POINTER(ctypes.c_uint32), *[ctypes.c_int] * 4)  # fmt: skip


class FakeEncode:
    """cuTensorMapEncodeTiled in the C calling convention; writes 128 bytes of 7."""

    def __init__(self, status: int = 0) -> None:
        self.status = status
        self.seen: list[tuple[Any, ...]] = []
        self._keep = ctypes.CFUNCTYPE(*Arguments)(self._call)
        self.address = ctypes.cast(self._keep, ctypes.c_void_p).value or 0

    def _call(self, target: int, kind: int, rank: int, where: int, extents: Any, strides: Any, box: Any, steps: Any,
              *modes: int) -> int:  # fmt: skip
        ctypes.memset(target, 7, 128)
        self.seen.append((target % 64, kind, rank, where, extents[:rank], strides[: rank - 1], box[:rank],
                          steps[:rank], modes))  # fmt: skip
        return self.status


class Result(IntEnum):
    """CUresult; the bindings do not accept a plain number."""

    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1


LAUNCH_EX = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * 4)


class FakeConfig(SimpleNamespace):
    """CUlaunchConfig of the bindings."""

    def getPtr(self) -> int:  # noqa: N802
        return id(self)


class FakeDriver:
    """The functions of cuda.bindings.driver for maps, clusters and occupancy."""

    CUresult = Result
    CUfunction_attribute = SimpleNamespace(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8)
    CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_RELAXED=2)
    CUlaunchAttributeID = SimpleNamespace(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION="cluster",
                                          CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION="pdl")  # fmt: skip

    def __init__(self) -> None:
        self.encode = FakeEncode()
        self.asked: list[tuple[Any, ...]] = []
        self.CUlaunchConfig = FakeConfig
        self.launched: list[tuple[int, int, int]] = []  # configuration, function and arguments, by address
        self.launch_ex = LAUNCH_EX(self._launch_ex)
        self.CUlaunchAttribute = lambda: SimpleNamespace(value=SimpleNamespace(clusterDim=SimpleNamespace()))

    def cuGetProcAddress(self, name: bytes, version: int, flags: int) -> tuple[int, int, int]:  # noqa: N802
        self.asked.append((name, version, flags))
        if name == b"cuLaunchKernelEx":
            return 0, ctypes.cast(self.launch_ex, ctypes.c_void_p).value or 0, 0
        return 0, self.encode.address, 0

    def _launch_ex(self, config: int, function: int, arguments: int, _extra: int) -> int:
        self.launched.append((config, function, arguments))
        return 0

    def cuThreadExchangeStreamCaptureMode(self, mode: int) -> tuple[int, int]:  # noqa: N802
        return 0, mode

    def cuOccupancyMaxActiveClusters(self, function: str, config: Any) -> tuple[int, int]:  # noqa: N802
        self.asked.append((function, vars(config)))
        return 0, 31

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(self, *what: Any) -> tuple[int, int]:  # noqa: N802
        self.asked.append(what)
        return 0, 2

    def cuGetErrorName(self, status: Result) -> tuple[int, bytes]:  # noqa: N802
        return 0, status.name.encode()

    cuGetErrorString = cuGetErrorName  # noqa: N815

    def cuFuncSetAttribute(self, *_what: Any) -> tuple[int]:  # noqa: N802
        return (0,)

    def cuLaunchKernelEx(self, config: Any, function: str, *_arguments: Any) -> tuple[int]:  # noqa: N802
        self.asked.append((config, function))
        return (0,)

    def cuLaunchKernel(self, *what: Any) -> tuple[int]:  # noqa: N802
        self.asked.append(what[:7])
        return (0,)
