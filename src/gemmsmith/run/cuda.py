"""The GPU as a device, through NVIDIA's driver bindings.

The driver is loaded when a GPU is asked for, so the package works without one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any

from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.errors import LaunchError, MissingDeviceError
from gemmsmith.kernel.geometry import Dim3, Geometry, TensorMap
from gemmsmith.run.cuda_launch import CudaLaunch, LoadedCubin, launch_config
from gemmsmith.run.cuda_memory import CudaMemory
from gemmsmith.run.driver import check_driver, driver_report
from gemmsmith.run.driver_calls import checked, driver_bindings, text_of
from gemmsmith.run.tensor_map import Encoder, check_tensor_map, driver_encoder, driver_im2col_encoder

__all__ = ["CudaDevice", "LoadedCubin", "checked", "cuda_device", "device_count", "driver_bindings", "gpu_available",
           "pointer_ordinal"]  # fmt: skip

_CUDA_OF_TENSOR_MAPS = 12000  # the CUDA version of the cuTensorMapEncodeTiled that is called


@cache
def device_count() -> int:
    """How many GPUs the driver has; raises ``MissingDeviceError`` when there is none."""
    driver = driver_bindings()
    try:
        status = driver.cuInit(0)[0]
    except Exception:  # the loader's own exception types vary between versions
        raise MissingDeviceError(
            "no NVIDIA driver on this machine",
            "use --device sim (or NumPy arrays) to run on the simulator",
        ) from None
    if int(status) != 0:
        name = text_of(driver.cuGetErrorName(status)[1])
        raise MissingDeviceError(
            f"the NVIDIA driver does not start: {name} ({driver_report().found})",
            "check nvidia-smi; or use --device sim",
        )
    count = int(checked(driver.cuDeviceGetCount(), "counting GPUs"))
    if count == 0:
        raise MissingDeviceError("the NVIDIA driver finds no GPU", "use --device sim to run on the simulator")
    return count


def pointer_ordinal(address: int) -> int:
    """The GPU that a device address belongs to; 0 for the null pointer of an empty tensor."""
    device_count()
    if address == 0:
        return 0
    driver = driver_bindings()
    which = driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
    return int(checked(driver.cuPointerGetAttribute(which, address), f"finding the GPU of address {address:#x}"))


def gpu_available() -> bool:
    """Whether a GPU can be used."""
    try:
        return device_count() > 0
    except MissingDeviceError:
        return False


class CudaDevice(CudaMemory, CudaLaunch):
    """One GPU, in its primary context, which torch and CuPy use as well."""

    kind = "gpu"

    def __init__(self, ordinal: int = 0) -> None:
        count = device_count()
        if not 0 <= ordinal < count:
            raise MissingDeviceError(f"there is no GPU {ordinal}", f"this machine has {count}, numbered from 0")
        self._cu = driver_bindings()
        self.ordinal = ordinal
        self._device = checked(self._cu.cuDeviceGet(ordinal), "finding the GPU")
        self._context = checked(self._cu.cuDevicePrimaryCtxRetain(self._device), "opening the GPU")
        self.name = text_of(checked(self._cu.cuDeviceGetName(256, self._device), "naming the GPU"))
        attribute = self._cu.CUdevice_attribute
        major = self._attribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
        minor = self._attribute(attribute.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
        self.arch = f"sm_{major}{minor}"
        self.smem_limit = self._attribute(attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
        self.sms = self._attribute(attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
        self.threads_per_sm = self._attribute(attribute.CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)
        self.l2_bytes = self._attribute(attribute.CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)
        self.max_mhz = self._attribute(attribute.CU_DEVICE_ATTRIBUTE_CLOCK_RATE) / 1000
        self._loaded: dict[tuple[str, str], LoadedCubin] = {}
        self._opted_in: dict[LoadedCubin, int] = {}
        self._at_once: dict[tuple[LoadedCubin, Dim3, int, Dim3], int] = {}
        self._encoders: dict[str, Encoder] = {}
        self._configs: dict[tuple[Geometry, int], Any] = {}
        self._launch_ex: Callable[..., int] | None = None

    def _attribute(self, which: Any) -> int:
        return int(checked(self._cu.cuDeviceGetAttribute(which, self._device), "asking for an attribute"))

    @property
    def driver_version(self) -> str:
        """The newest CUDA version that the driver supports, such as '13.0'."""
        number = int(checked(self._cu.cuDriverGetVersion(), "asking for the driver's version"))
        return f"{number // 1000}.{number % 1000 // 10}"

    @property
    def pci_bus_id(self) -> str:
        """The PCI address of the GPU, by which NVML identifies it too."""
        return text_of(checked(self._cu.cuDeviceGetPCIBusId(32, self._device), "asking for the GPU's address"))

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make this GPU current in the calling thread, and restore the thread's own afterwards."""
        checked(self._cu.cuCtxPushCurrent(self._context), "selecting the GPU")
        try:
            yield
        finally:
            self._cu.cuCtxPopCurrent()

    @contextmanager
    def allowed_in_captures(self) -> Iterator[None]:
        """Calls that would end the capture of a graph, of this thread or another, though they add nothing to it."""
        relaxed = self._cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        before = checked(self._cu.cuThreadExchangeStreamCaptureMode(relaxed), "preparing for a capture")
        try:
            yield
        finally:
            self._cu.cuThreadExchangeStreamCaptureMode(before)

    def is_capturing(self, stream: int) -> bool:
        """Whether a graph is captured from ``stream``."""
        with self.current():
            found = checked(self._cu.cuStreamIsCapturing(stream), "asking for a capture")
        return bool(found != self._cu.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE)

    def load(self, compiled: CompiledKernel) -> LoadedCubin:
        known = self._loaded.get((compiled.key, compiled.entry))
        if known is not None:
            return known
        if not self._loaded and compiled.compiler:
            check_driver(compiled.compiler)
        code = compiled.cubin or compiled.ptx.encode() + b"\0"  # PTX alone: the driver assembles it
        with self.current(), self.allowed_in_captures():
            module = checked(self._cu.cuModuleLoadData(code), f"loading {compiled.entry} for {compiled.arch}")
            function = checked(
                self._cu.cuModuleGetFunction(module, compiled.entry.encode()), f"finding {compiled.entry}"
            )
        loaded = LoadedCubin(function, module, compiled.resources.static_smem)
        self._loaded[compiled.key, compiled.entry] = loaded
        return loaded

    def symbol(self, loaded: LoadedCubin, name: str) -> tuple[int, int]:
        """Address and bytes of a variable of the module."""
        with self.current(), self.allowed_in_captures():
            found = checked(self._cu.cuModuleGetGlobal(loaded.module, name.encode()), f"finding the variable {name}")
        return int(found[0]), int(found[1])

    def encode_tensor_map(self, described: TensorMap, address: int) -> bytes:
        check_tensor_map(described, address)
        name = "cuTensorMapEncodeTiled" if described.im2col is None else "cuTensorMapEncodeIm2col"
        if name not in self._encoders:
            found = self._cu.cuGetProcAddress(name.encode(), _CUDA_OF_TENSOR_MAPS, 0)
            function = checked(found, f"finding {name} in the driver")[0]
            if not int(function):
                raise LaunchError(f"the driver of {self.name} has no tensor maps", "install one for CUDA 12 or newer")
            make = driver_encoder if described.im2col is None else driver_im2col_encoder
            self._encoders[name] = make(int(function))
        with self.current():
            status, data = self._encoders[name](described, address)
        checked((self._cu.CUresult(status),), f"describing {described.operand} by a tensor map")
        return data

    def resident_blocks(self, loaded: LoadedCubin, geometry: Geometry) -> int:
        """How many blocks of this launch an SM runs at the same time, by the driver's occupancy calculator."""
        count = self._cu.cuOccupancyMaxActiveBlocksPerMultiprocessor
        with self.current(), self.allowed_in_captures():
            return int(checked(count(loaded.function, geometry.threads, geometry.smem), "asking for the occupancy"))

    def blocks_at_once(self, loaded: LoadedCubin, geometry: Geometry) -> int:
        """How many blocks of this launch, in whole clusters, the GPU runs at the same time, by the same calculator."""
        key = (loaded, geometry.block, geometry.smem, geometry.cluster)
        if key not in self._at_once:
            self._admit(loaded, geometry)
            together = math.prod(geometry.cluster)
            if together == 1:
                count = self.resident_blocks(loaded, geometry) * self.sms
            else:
                count = self._resident_clusters(loaded, geometry) * together
            self._at_once[key] = max(together, count)
        return self._at_once[key]

    def _resident_clusters(self, loaded: LoadedCubin, geometry: Geometry) -> int:
        """Fewer than fit into all SMs, where the SMs of a GPC are not a multiple of the cluster."""
        config = launch_config(self._cu, replace(geometry, grid=geometry.cluster))
        config.attrs, config.numAttrs = [self._cluster_attribute(geometry)], 1
        with self.current(), self.allowed_in_captures():
            answer = self._cu.cuOccupancyMaxActiveClusters(loaded.function, config)
            return int(checked(answer, "asking how many clusters fit"))

    def synchronize(self) -> None:
        with self.current():
            checked(self._cu.cuCtxSynchronize(), "running the kernel")

    def wait_for(self, stream: int) -> None:
        """Wait for the work on a stream; unlike ``synchronize`` also while another thread captures a graph."""
        with self.current(), self.allowed_in_captures():
            checked(self._cu.cuStreamSynchronize(stream), "running the kernel")


@cache
def cuda_device(ordinal: int = 0) -> CudaDevice:
    """The device object of a GPU; one per process."""
    return CudaDevice(ordinal)
