"""The GPU as a device, through NVIDIA's own driver bindings.

Nothing here is imported or initialised before a GPU is asked for, so the package works without a driver.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.errors import LaunchError, MissingDeviceError
from gemmsmith.kernel.geometry import Dim3, Geometry, TensorMap
from gemmsmith.run.device import Bytes, Launch, Step
from gemmsmith.run.tensor_map import Encoder, check_tensor_map, driver_encoder

# More dynamic shared memory than this needs an explicit opt-in for each kernel.
_DEFAULT_SMEM = 48 * 1024
_LARGEST_CLUSTER = 8  # blocks, on every GPU that has clusters; more is an option of some
_MOST_CONFIGS = 4096  # launches whose description is kept
_CUDA_OF_TENSOR_MAPS = 12000  # the version whose cuTensorMapEncodeTiled is called


@dataclass(frozen=True, eq=False)  # one is itself, and a quick key
class LoadedCubin:
    """A kernel on the GPU; ``module`` keeps it loaded."""

    function: Any
    module: Any
    static_smem: int


def driver_bindings() -> Any:
    try:
        from cuda.bindings import driver
    except ImportError as error:
        raise MissingDeviceError(f"cuda.bindings cannot be imported: {error}", "pip install cuda-bindings") from None
    return driver


def checked(result: tuple[Any, ...], what: str) -> Any:
    """Unpack a driver call's result, or raise what went wrong."""
    status, *values = result
    if int(status) != 0:
        driver = driver_bindings()
        name = driver.cuGetErrorName(status)[1]
        text = driver.cuGetErrorString(status)[1]
        raise LaunchError(f"{what} failed: {_text(name)}: {_text(text)}")
    return values[0] if len(values) == 1 else tuple(values)


def _text(value: Any) -> str:
    return (value.decode() if isinstance(value, bytes) else str(value)).split("\0")[0]


@cache
def device_count() -> int:
    """How many GPUs the driver offers; raises ``MissingDeviceError`` when there is none to use."""
    driver = driver_bindings()
    try:
        status = driver.cuInit(0)[0]
    except Exception:  # the loader's own exception types vary between versions
        raise MissingDeviceError(
            "no NVIDIA driver on this machine",
            "use --device sim (or NumPy arrays) to run on the simulator",
        ) from None
    if int(status) != 0:
        name = _text(driver.cuGetErrorName(status)[1])
        raise MissingDeviceError(f"the NVIDIA driver does not start: {name}", "check nvidia-smi; or use --device sim")
    count = int(checked(driver.cuDeviceGetCount(), "counting GPUs"))
    if count == 0:
        raise MissingDeviceError("the NVIDIA driver finds no GPU", "use --device sim to run on the simulator")
    return count


def pointer_ordinal(address: int) -> int:
    """Which GPU a device address belongs to; 0 for the null pointer of an empty tensor."""
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


class CudaDevice:
    """One GPU, in its primary context: the one torch and CuPy use as well."""

    kind = "gpu"

    def __init__(self, ordinal: int = 0) -> None:
        count = device_count()
        if not 0 <= ordinal < count:
            raise MissingDeviceError(f"there is no GPU {ordinal}", f"this machine has {count}, numbered from 0")
        self._cu = driver_bindings()
        self.ordinal = ordinal
        self._device = checked(self._cu.cuDeviceGet(ordinal), "finding the GPU")
        self._context = checked(self._cu.cuDevicePrimaryCtxRetain(self._device), "opening the GPU")
        self.name = _text(checked(self._cu.cuDeviceGetName(256, self._device), "naming the GPU"))
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
        self._encoder: Encoder | None = None
        self._configs: dict[tuple[Geometry, int], Any] = {}

    def _attribute(self, which: Any) -> int:
        return int(checked(self._cu.cuDeviceGetAttribute(which, self._device), "asking for an attribute"))

    @property
    def driver_version(self) -> str:
        """The newest CUDA version this driver serves, such as '13.0'."""
        number = int(checked(self._cu.cuDriverGetVersion(), "asking for the driver's version"))
        return f"{number // 1000}.{number % 1000 // 10}"

    @property
    def pci_bus_id(self) -> str:
        """Where the GPU is plugged in, by which NVML knows it as well."""
        return _text(checked(self._cu.cuDeviceGetPCIBusId(32, self._device), "asking for the GPU's address"))

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make this GPU the calling thread's, and give the thread back the one it had."""
        checked(self._cu.cuCtxPushCurrent(self._context), "selecting the GPU")
        try:
            yield
        finally:
            self._cu.cuCtxPopCurrent()

    def allocate(self, nbytes: int) -> int:
        with self.current():
            return int(checked(self._cu.cuMemAlloc(max(1, nbytes)), f"allocating {nbytes} bytes"))

    def free(self, address: int) -> None:
        with self.current():
            checked(self._cu.cuMemFree(address), "freeing memory")

    def write(self, address: int, data: Bytes) -> None:
        if data.nbytes:
            data = np.ascontiguousarray(data)
            with self.current():
                checked(self._cu.cuMemcpyHtoD(address, data.ctypes.data, data.nbytes), "copying to the GPU")

    def read(self, address: int, nbytes: int) -> Bytes:
        data = np.empty(nbytes, np.uint8)
        if nbytes:
            with self.current():
                checked(self._cu.cuMemcpyDtoH(data.ctypes.data, address, nbytes), "copying from the GPU")
        return data

    def forbid_reads(self, address: int, why: str) -> None:
        """Nothing: the hardware cannot forbid reads."""

    def label(self, address: int, name: str) -> None:
        """Nothing: the hardware's messages name no memory."""

    def copy_rows(self, target: int, target_pitch: int, source: int, source_pitch: int, width: int, rows: int,
                  stream: int) -> None:  # fmt: skip
        """Copy ``rows`` rows of ``width`` bytes between two matrices on the GPU, in stream order."""
        copy = self._cu.CUDA_MEMCPY2D()
        copy.srcMemoryType = copy.dstMemoryType = self._cu.CUmemorytype.CU_MEMORYTYPE_DEVICE
        copy.srcDevice, copy.dstDevice = source, target
        copy.srcPitch, copy.dstPitch = source_pitch, target_pitch
        copy.WidthInBytes, copy.Height = width, rows
        with self.current():
            checked(self._cu.cuMemcpy2DAsync(copy, stream), "copying C")

    def copy(self, target: int, source: int, nbytes: int) -> None:
        """Copy within the GPU; not waited for, and ordered only with what else uses the default stream."""
        if nbytes:
            with self.current():
                checked(self._cu.cuMemcpyDtoD(target, source, nbytes), "copying within the GPU")

    def preset(self, address: int, word: int, count: int, itemsize: int) -> None:
        """Set ``count`` elements of two or four bytes to one pattern; not waited for, as ``copy``."""
        if count:
            fill = self._cu.cuMemsetD32 if itemsize == 4 else self._cu.cuMemsetD16
            with self.current():
                checked(fill(address, word, count), "presetting memory")

    def free_bytes(self) -> int:
        """Bytes that may be allocated."""
        with self.current():
            return int(checked(self._cu.cuMemGetInfo(), "asking for free memory")[0])

    def load(self, compiled: CompiledKernel) -> LoadedCubin:
        known = self._loaded.get((compiled.key, compiled.entry))
        if known is not None:
            return known
        with self.current():
            module = checked(self._cu.cuModuleLoadData(compiled.cubin), f"loading {compiled.entry} for {compiled.arch}")
            function = checked(
                self._cu.cuModuleGetFunction(module, compiled.entry.encode()), f"finding {compiled.entry}"
            )
        loaded = LoadedCubin(function, module, compiled.resources.static_smem)
        self._loaded[compiled.key, compiled.entry] = loaded
        return loaded

    def launch(self, loaded: LoadedCubin, launch: Launch, stream: int = 0) -> None:
        """Start a kernel on ``stream`` without waiting for it."""
        geometry = launch.geometry
        self._admit(loaded, geometry)
        # The driver copies the arguments during the call; these buffers need not outlive it.
        pointers, _buffers = _packed(launch.arguments)
        start, call = self._call(loaded, geometry, stream, ctypes.addressof(pointers))
        with self.current():
            checked(start(*call), f"launching a grid of {geometry.grid} blocks of {geometry.block}")

    def _call(self, loaded: LoadedCubin, geometry: Geometry, stream: int,
              arguments: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:  # fmt: skip
        """The driver's function that starts this launch, and what to call it with."""
        if not geometry.pdl or int(self.arch.removeprefix("sm_")) < 90:  # older ones launch one after another
            plain = (loaded.function, *geometry.grid, *geometry.block, geometry.smem, stream, arguments, 0)
            return self._cu.cuLaunchKernel, plain
        return self._cu.cuLaunchKernelEx, (self._early(geometry, stream), loaded.function, arguments, 0)

    def _early(self, geometry: Geometry, stream: int) -> Any:
        """A launch that may overlap with the one before it."""
        known = self._configs.get((geometry, stream))
        if known is None:
            known = _launch_config(self._cu, geometry)
            known.hStream = stream
            attribute = self._cu.CUlaunchAttribute()
            attribute.id = self._cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
            attribute.value.programmaticStreamSerializationAllowed = 1
            known.attrs, known.numAttrs = [attribute], 1
            if len(self._configs) >= _MOST_CONFIGS:
                self._configs.clear()
            self._configs[geometry, stream] = known
        return known

    def _admit(self, loaded: LoadedCubin, geometry: Geometry) -> None:
        """Refuse what cannot be launched, and opt in to more shared memory than a kernel gets by default."""
        if geometry.cluster != (1, 1, 1):
            self._admit_cluster(geometry)
        total = loaded.static_smem + geometry.smem
        if total > self.smem_limit:
            raise LaunchError(f"{total} bytes of shared memory a block exceed the {self.smem_limit} of {self.name}")
        if geometry.smem > max(_DEFAULT_SMEM - loaded.static_smem, self._opted_in.get(loaded, 0)):
            attribute = self._cu.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
            with self.current():
                checked(
                    self._cu.cuFuncSetAttribute(loaded.function, attribute, geometry.smem), "asking for shared memory"
                )
            self._opted_in[loaded] = geometry.smem

    def _admit_cluster(self, geometry: Geometry) -> None:
        """Clusters are compiled into a kernel; what is checked here is that the grid consists of them."""
        size = "x".join(map(str, geometry.cluster))
        if int(self.arch.removeprefix("sm_")) < 90:
            raise LaunchError(f"clusters of blocks need sm_90 or newer, and {self.name} is {self.arch}")
        if math.prod(geometry.cluster) > _LARGEST_CLUSTER:
            raise LaunchError(f"a cluster of {size} blocks; {_LARGEST_CLUSTER} blocks are the most")
        if any(blocks % side for blocks, side in zip(geometry.grid, geometry.cluster, strict=True)):
            raise LaunchError(f"a grid of {geometry.grid} blocks does not consist of clusters of {size}")

    def launcher(self, products: Sequence[Sequence[Step]], stream: int) -> Callable[[int], None]:
        """A function that starts the product of a given index on ``stream``, with all that can be done before done.

        It checks nothing but the driver's answer and expects this GPU to be current: for timing.
        """
        packed = []
        calls: list[list[tuple[Callable[..., Any], tuple[Any, ...]]]] = []
        for steps in products:
            calls.append([])
            for step in steps:
                geometry = step.launch.geometry
                self._admit(step.loaded, geometry)
                packed.append(_packed(step.launch.arguments))
                calls[-1].append(self._call(step.loaded, geometry, stream, ctypes.addressof(packed[-1][0])))
        success = self._cu.CUresult.CUDA_SUCCESS

        # ``packed`` as a default keeps the arguments' memory as long as the function itself.
        def enqueue(index: int, _keep: object = packed) -> None:
            for start, call in calls[index]:
                answer = start(*call)
                if answer[0] != success:
                    checked(answer, "launching the kernel")

        return enqueue

    def encode_tensor_map(self, described: TensorMap, address: int) -> bytes:
        check_tensor_map(described, address)
        if self._encoder is None:
            found = self._cu.cuGetProcAddress(b"cuTensorMapEncodeTiled", _CUDA_OF_TENSOR_MAPS, 0)
            function = checked(found, "finding cuTensorMapEncodeTiled in the driver")[0]
            if not int(function):
                raise LaunchError(f"the driver of {self.name} has no tensor maps", "install one for CUDA 12 or newer")
            self._encoder = driver_encoder(int(function))
        with self.current():
            status, data = self._encoder(described, address)
        checked((self._cu.CUresult(status),), f"describing {described.operand} by a tensor map")
        return data

    def allocate_in_order(self, nbytes: int, stream: int) -> int:
        """Memory for what ``stream`` does from here on."""
        with self.current():
            return int(checked(self._cu.cuMemAllocAsync(nbytes, stream), f"allocating {nbytes} bytes"))

    def free_in_order(self, address: int, stream: int) -> None:
        """Free such memory once ``stream`` has done what it was given before."""
        with self.current():
            checked(self._cu.cuMemFreeAsync(address, stream), "freeing memory")

    def resident_blocks(self, loaded: LoadedCubin, geometry: Geometry) -> int:
        """How many blocks of this launch an SM holds at once, as the driver computes it."""
        count = self._cu.cuOccupancyMaxActiveBlocksPerMultiprocessor
        with self.current():
            return int(checked(count(loaded.function, geometry.threads, geometry.smem), "asking for the occupancy"))

    def blocks_at_once(self, loaded: LoadedCubin, geometry: Geometry) -> int:
        """How many blocks of this launch, in whole clusters, the GPU runs side by side, as the driver computes it."""
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
        """Fewer than the SMs have room for, where the SMs of a GPC are no multiple of the cluster."""
        config = _launch_config(self._cu, replace(geometry, grid=geometry.cluster))
        attribute = self._cu.CUlaunchAttribute()
        attribute.id = self._cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        dims = attribute.value.clusterDim
        dims.x, dims.y, dims.z = geometry.cluster
        config.attrs, config.numAttrs = [attribute], 1
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


def _packed(arguments: tuple[bytes, ...]) -> tuple[Any, list[Any]]:
    """An array of pointers to each argument, as the driver takes them, and the buffers it points into."""
    buffers = [ctypes.create_string_buffer(value, len(value)) for value in arguments]
    return (ctypes.c_void_p * len(buffers))(*[ctypes.addressof(b) for b in buffers]), buffers


@cache
def cuda_device(ordinal: int = 0) -> CudaDevice:
    """The device object of a GPU, made once."""
    return CudaDevice(ordinal)
