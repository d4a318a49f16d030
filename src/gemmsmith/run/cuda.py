"""The GPU as a device, through NVIDIA's driver bindings.

The driver is loaded when a GPU is asked for, so the package works without one.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import pairwise
from typing import Any

from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.errors import LaunchError, MissingDeviceError
from gemmsmith.gpus import cuda_limits
from gemmsmith.kernel.geometry import Dim3, Geometry, TensorMap
from gemmsmith.problem import ceil_div
from gemmsmith.run.cuda_memory import CudaMemory
from gemmsmith.run.device import Launch, PatchedStep, Step
from gemmsmith.run.driver import check_driver, driver_report
from gemmsmith.run.driver_calls import checked, driver_bindings, text_of
from gemmsmith.run.tensor_map import Encoder, check_tensor_map, driver_encoder, driver_im2col_encoder

__all__ = ["CudaDevice", "LoadedCubin", "checked", "cuda_device", "device_count", "driver_bindings", "gpu_available",
           "pointer_ordinal"]  # fmt: skip

_MOST_CONFIGS = 4096  # launch configurations that are kept
_MOST_STREAMS = 256  # that one armed launch remembers
_ARGUMENT_ALIGNMENT = 16  # bytes
_POINTER_BYTES = 8
_CUDA_OF_TENSOR_MAPS = 12000  # the CUDA version of the cuTensorMapEncodeTiled that is called


@dataclass(frozen=True, eq=False)  # compared by identity, so that it is a fast key
class LoadedCubin:
    """A kernel on the GPU; ``module`` keeps it loaded."""

    function: Any
    module: Any
    static_smem: int


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


class CudaDevice(CudaMemory):
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

    def load(self, compiled: CompiledKernel) -> LoadedCubin:
        known = self._loaded.get((compiled.key, compiled.entry))
        if known is not None:
            return known
        if not self._loaded and compiled.compiler:
            check_driver(compiled.compiler)
        code = compiled.cubin or compiled.ptx.encode() + b"\0"  # PTX alone: the driver assembles it
        with self.current():
            module = checked(self._cu.cuModuleLoadData(code), f"loading {compiled.entry} for {compiled.arch}")
            function = checked(
                self._cu.cuModuleGetFunction(module, compiled.entry.encode()), f"finding {compiled.entry}"
            )
        loaded = LoadedCubin(function, module, compiled.resources.static_smem)
        self._loaded[compiled.key, compiled.entry] = loaded
        return loaded

    def symbol(self, loaded: LoadedCubin, name: str) -> tuple[int, int]:
        """Address and bytes of a variable of the module."""
        with self.current():
            found = checked(self._cu.cuModuleGetGlobal(loaded.module, name.encode()), f"finding the variable {name}")
        return int(found[0]), int(found[1])

    def launch(self, loaded: LoadedCubin, launch: Launch, stream: int = 0) -> None:
        """Start a kernel on ``stream`` without waiting for it."""
        geometry = launch.geometry
        self._admit(loaded, geometry)
        # The driver copies the arguments during the call, so their memory need not outlive it.
        pointers, _memory = _packed(launch.arguments)
        start, call = self._call(loaded, geometry, stream, pointers)
        with self.current():
            checked(start(*call), f"launching a grid of {geometry.grid} blocks of {geometry.block}")

    def _call(self, loaded: LoadedCubin, geometry: Geometry, stream: int,
              arguments: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:  # fmt: skip
        """The driver function that starts this launch, and its arguments."""
        if geometry.cooperative:
            return self._cu.cuLaunchCooperativeKernel, (loaded.function, *geometry.grid, *geometry.block, geometry.smem,
                                                        stream, arguments)  # fmt: skip
        if geometry.cluster_at_launch or self._has_pdl(geometry):
            return self._cu.cuLaunchKernelEx, (self._config(geometry, stream), loaded.function, arguments, 0)
        plain = (loaded.function, *geometry.grid, *geometry.block, geometry.smem, stream, arguments, 0)
        return self._cu.cuLaunchKernel, plain

    def _has_pdl(self, geometry: Geometry) -> bool:
        return geometry.pdl and int(self.arch.removeprefix("sm_")) >= 90  # no PDL before sm_90

    def _config(self, geometry: Geometry, stream: int) -> Any:
        """The configuration of a launch; cached, since the driver reads it at every launch."""
        known = self._configs.get((geometry, stream))
        if known is None:
            known = _launch_config(self._cu, geometry)
            known.hStream = stream
            attributes = []
            if geometry.cluster_at_launch:
                attributes.append(self._cluster_attribute(geometry))
            elif self._has_pdl(geometry):
                attributes.append(self._pdl_attribute())
            if attributes:
                known.attrs, known.numAttrs = attributes, len(attributes)
            if len(self._configs) >= _MOST_CONFIGS:
                self._configs.clear()
            self._configs[geometry, stream] = known
        return known

    def _pdl_attribute(self) -> Any:
        """Of a programmatic dependent launch, which may overlap the kernel before it."""
        attribute = self._cu.CUlaunchAttribute()
        attribute.id = self._cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        attribute.value.programmaticStreamSerializationAllowed = 1
        return attribute

    def _cluster_attribute(self, geometry: Geometry) -> Any:
        attribute = self._cu.CUlaunchAttribute()
        attribute.id = self._cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        dims = attribute.value.clusterDim
        dims.x, dims.y, dims.z = geometry.cluster
        return attribute

    def _admit(self, loaded: LoadedCubin, geometry: Geometry) -> None:
        """Refuse a launch that cannot run, and opt in to more than the default shared memory."""
        if geometry.cluster != (1, 1, 1):
            self._admit_cluster(geometry)
        total = loaded.static_smem + geometry.smem
        if total > self.smem_limit:
            raise LaunchError(f"{total} bytes of shared memory a block exceed the {self.smem_limit} of {self.name}")
        if geometry.smem > max(cuda_limits().static_smem - loaded.static_smem, self._opted_in.get(loaded, 0)):
            attribute = self._cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            with self.current():
                checked(
                    self._cu.cuFuncSetAttribute(loaded.function, attribute, geometry.smem), "asking for shared memory"
                )
            self._opted_in[loaded] = geometry.smem

    def _admit_cluster(self, geometry: Geometry) -> None:
        """The cluster size is compiled into a kernel; the grid must be a multiple of it."""
        size = "x".join(map(str, geometry.cluster))
        if int(self.arch.removeprefix("sm_")) < 90:
            raise LaunchError(f"clusters of blocks need sm_90 or newer, and {self.name} is {self.arch}")
        if math.prod(geometry.cluster) > (most := cuda_limits().cluster_blocks):
            raise LaunchError(f"a cluster of {size} blocks; {most} blocks are the most")
        if any(blocks % side for blocks, side in zip(geometry.grid, geometry.cluster, strict=True)):
            raise LaunchError(f"a grid of {geometry.grid} blocks does not consist of clusters of {size}")

    def launcher(self, products: Sequence[Sequence[Step]], stream: int) -> Callable[[int], None]:
        """A function that starts the product with a given index on ``stream``; everything else is done here.

        It checks only the driver's status, and this GPU must be current when it is called.
        """
        packed = []
        calls: list[list[Callable[[], int]]] = []
        for steps in products:
            calls.append([])
            for step in steps:
                geometry = step.launch.geometry
                self._admit(step.loaded, geometry)
                pointers, memory = _packed(step.launch.arguments)
                packed.append(memory)
                calls[-1].append(self._starter(step.loaded, geometry, stream, pointers))

        # ``packed`` as a default value keeps the arguments alive as long as the function.
        def enqueue(index: int, _keep: object = packed) -> None:
            for start in calls[index]:
                status = start()
                if status:
                    self._refused(status)

        return enqueue

    def armed(self, steps: Sequence[PatchedStep]) -> Callable[[tuple[int, ...], int], None]:
        """A function that starts the steps with these addresses (in the order of ``Slot``) on a stream.

        It checks only the driver's status, this GPU must be current, and it is for one thread.
        """
        written: list[tuple[memoryview, int, int, int]] = []
        kernels: list[tuple[LoadedCubin, Geometry, int]] = []
        for each in steps:
            self._admit(each.step.loaded, each.step.launch.geometry)
            pointers, memory = _packed(each.step.launch.arguments)
            words, starts = memoryview(memory).cast("B").cast("Q"), _argument_starts(each.step.launch.arguments)
            for patch in each.patches:
                at, beside = divmod(starts[patch.argument] + patch.position, _POINTER_BYTES)
                if beside:
                    raise LaunchError("an address stands between two words of an argument")
                written.append((words, at, patch.slot, patch.offset))
            kernels.append((each.step.loaded, each.step.launch.geometry, pointers))
        known: dict[int, list[Callable[[], int]]] = {}

        def start(addresses: tuple[int, ...], stream: int) -> None:
            for words, at, slot, offset in written:
                words[at] = addresses[slot] + offset
            launches = known.get(stream)
            if launches is None:
                if len(known) >= _MOST_STREAMS:
                    known.clear()
                launches = known[stream] = [self._starter(*each[:2], stream, each[2]) for each in kernels]
            for launch in launches:
                status = launch()
                if status:
                    self._refused(status)

        return start

    def _starter(self, loaded: LoadedCubin, geometry: Geometry, stream: int, arguments: int) -> Callable[[], int]:
        """A function that starts this launch and returns the driver's status.

        Through ctypes, which costs less than the bindings' conversion of every argument.
        """
        if geometry.cooperative:
            function, call = self._call(loaded, geometry, stream, arguments)
            return lambda: int(function(*call)[0])
        config = self._config(geometry, stream)
        start: Any = partial(self._launch_function(), config.getPtr(), int(loaded.function), arguments, None)
        start.keep = config, loaded
        started: Callable[[], int] = start
        return started

    def _launch_function(self) -> Callable[..., int]:
        """The driver's cuLaunchKernelEx."""
        if self._launch_ex is None:
            found = self._cu.cuGetProcAddress(b"cuLaunchKernelEx", _CUDA_OF_TENSOR_MAPS, 0)
            address = int(checked(found, "finding cuLaunchKernelEx in the driver")[0])
            if not address:
                raise LaunchError(f"the driver of {self.name} has no cuLaunchKernelEx", "install one for CUDA 12")
            pointer = ctypes.c_void_p
            self._launch_ex = ctypes.CFUNCTYPE(ctypes.c_int, pointer, pointer, pointer, pointer)(address)
        return self._launch_ex

    def _refused(self, status: int) -> None:
        checked((self._cu.CUresult(status),), "launching the kernel")

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
        with self.current():
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
        config = _launch_config(self._cu, replace(geometry, grid=geometry.cluster))
        config.attrs, config.numAttrs = [self._cluster_attribute(geometry)], 1
        with self.current():
            answer = self._cu.cuOccupancyMaxActiveClusters(loaded.function, config)
            return int(checked(answer, "asking how many clusters fit"))

    def synchronize(self) -> None:
        with self.current():
            checked(self._cu.cuCtxSynchronize(), "running the kernel")


def _launch_config(driver: Any, geometry: Geometry) -> Any:
    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = geometry.grid
    config.blockDimX, config.blockDimY, config.blockDimZ = geometry.block
    config.sharedMemBytes = geometry.smem
    return config


def _packed(arguments: tuple[bytes, ...]) -> tuple[int, Any]:
    """The address of the array of argument pointers that the driver takes, and the memory that holds it.

    One allocation holds all arguments and the array behind them.
    """
    *starts, size = edges = _argument_starts(arguments)
    rooms = (end - start for start, end in pairwise(edges))
    padded = [value.ljust(room, b"\0") for value, room in zip(arguments, rooms, strict=True)]
    memory = ctypes.create_string_buffer(b"".join(padded), size + _POINTER_BYTES * len(starts))
    base = ctypes.addressof(memory)
    struct.pack_into(f"{len(starts)}P", memory, size, *[base + start for start in starts])
    return base + size, memory


def _argument_starts(arguments: tuple[bytes, ...]) -> list[int]:
    """Where each argument begins in the memory of ``_packed``, and where the last one ends."""
    starts = [0]
    for value in arguments:
        starts.append(starts[-1] + ceil_div(len(value), _ARGUMENT_ALIGNMENT) * _ARGUMENT_ALIGNMENT)
    return starts


@cache
def cuda_device(ordinal: int = 0) -> CudaDevice:
    """The device object of a GPU; one per process."""
    return CudaDevice(ordinal)
