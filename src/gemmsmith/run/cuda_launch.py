"""Launches on a GPU: through the bindings once, and through ctypes where a launch is repeated."""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

from gemmsmith.errors import LaunchError
from gemmsmith.gpus import cuda_limits
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.problem import ceil_div
from gemmsmith.run.device import Launch, PatchedStep, Step
from gemmsmith.run.driver_calls import checked

_MOST_CONFIGS = 4096  # launch configurations that are kept
_MOST_STREAMS = 256  # that one armed launch remembers
_ARGUMENT_ALIGNMENT = 16  # bytes
_POINTER_BYTES = 8
_SLOTS = 5  # addresses of a call: A, B, C, bias, workspace
_Place = tuple[memoryview, int, int, int]
"""Words of memory, which of them holds an address, of which slot, and the offset that is added to it."""
_CUDA_OF_LAUNCHES = 12000  # the CUDA version of the cuLaunchKernelEx that is called


@dataclass(frozen=True, eq=False)  # compared by identity, so that it is a fast key
class LoadedCubin:
    """A kernel on the GPU; ``module`` keeps it loaded."""

    function: Any
    module: Any
    static_smem: int


class CudaLaunch:
    """Launching kernels, as a part of ``CudaDevice``."""

    _cu: Any
    name: str
    arch: str
    smem_limit: int
    _opted_in: dict[LoadedCubin, int]
    _configs: dict[tuple[Geometry, int], Any]
    _launch_ex: Callable[..., int] | None

    def current(self) -> AbstractContextManager[None]:
        """Makes this GPU current in the calling thread."""
        raise NotImplementedError

    def allowed_in_captures(self) -> AbstractContextManager[None]:
        """Calls that would end the capture of a graph, of this thread or another, though they add nothing to it."""
        raise NotImplementedError

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
        if geometry.cluster_at_launch or geometry.resident or self._has_pdl(geometry):
            return self._cu.cuLaunchKernelEx, (self._config(geometry, stream), loaded.function, arguments, 0)
        plain = (loaded.function, *geometry.grid, *geometry.block, geometry.smem, stream, arguments, 0)
        return self._cu.cuLaunchKernel, plain

    def _has_pdl(self, geometry: Geometry) -> bool:
        return geometry.pdl and int(self.arch.removeprefix("sm_")) >= 90  # no PDL before sm_90

    def _config(self, geometry: Geometry, stream: int) -> Any:
        """The configuration of a launch; cached, since the driver reads it at every launch."""
        known = self._configs.get((geometry, stream))
        if known is None:
            known = launch_config(self._cu, geometry)
            known.hStream = stream
            attributes = []
            if geometry.cluster_at_launch:
                attributes.append(self._cluster_attribute(geometry))
            if geometry.resident:
                attributes.append(self._cooperative_attribute())
            elif self._has_pdl(geometry) and not geometry.cluster_at_launch:
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

    def _cooperative_attribute(self) -> Any:
        """Of a launch whose blocks start together."""
        attribute = self._cu.CUlaunchAttribute()
        attribute.id = self._cu.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
        attribute.value.cooperative = 1
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
            with self.current(), self.allowed_in_captures():
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

    def armed(self, steps: Sequence[PatchedStep]) -> Callable[[int, int, int, int, int, int], None]:
        """A function that starts the steps with the addresses of A, B, C, bias and workspace, on a stream.

        It checks only the driver's status, this GPU must be current, and it is for one thread.
        """
        slots = ctypes.create_string_buffer(_POINTER_BYTES * _SLOTS)
        places: list[_Place] = []
        kernels: list[tuple[LoadedCubin, Geometry, int, object]] = []
        for each in steps:
            self._admit(each.step.loaded, each.step.launch.geometry)
            pointers, memory = _packed(each.step.launch.arguments)
            places += _places(each, memory, ctypes.addressof(slots))
            kernels.append((each.step.loaded, each.step.launch.geometry, pointers, memory))
        known: dict[int, list[Callable[[], int]]] = {}

        def launches(stream: int) -> list[Callable[[], int]]:
            if len(known) >= _MOST_STREAMS:
                known.clear()
            found = known[stream] = [self._starter(*each[:2], stream, each[2]) for each in kernels]
            return found

        return _armed_function(memoryview(slots).cast("B").cast("Q"), places, known, launches, self._refused)

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
            found = self._cu.cuGetProcAddress(b"cuLaunchKernelEx", _CUDA_OF_LAUNCHES, 0)
            address = int(checked(found, "finding cuLaunchKernelEx in the driver")[0])
            if not address:
                raise LaunchError(f"the driver of {self.name} has no cuLaunchKernelEx", "install one for CUDA 12")
            pointer = ctypes.c_void_p
            self._launch_ex = ctypes.CFUNCTYPE(ctypes.c_int, pointer, pointer, pointer, pointer)(address)
        return self._launch_ex

    def _refused(self, status: int) -> None:
        checked((self._cu.CUresult(status),), "launching the kernel")


def _places(step: PatchedStep, memory: Any, slots: int) -> list[_Place]:
    """Where addresses are written in the arguments of a step, whose memory this is.

    An argument that is an address and nothing else stands in the array of addresses at ``slots``: all of these are
    written once, for all arguments.
    """
    arguments = step.step.launch.arguments
    starts = _argument_starts(arguments)
    words = memoryview(memory).cast("B").cast("Q")
    found = []
    for patch in step.patches:
        if len(arguments[patch.argument]) == _POINTER_BYTES and not patch.offset and not patch.position:
            struct.pack_into("P", memory, starts[-1] + _POINTER_BYTES * patch.argument,
                             slots + _POINTER_BYTES * patch.slot)  # fmt: skip
            continue
        at, beside = divmod(starts[patch.argument] + patch.position, _POINTER_BYTES)
        if beside:
            raise LaunchError("an address stands between two words of an argument")
        found.append((words, at, patch.slot, patch.offset))
    return found


def _armed_function(slots: memoryview, places: list[_Place], known: dict[int, list[Callable[[], int]]],
                    launches: Callable[[int], list[Callable[[], int]]],
                    refused: Callable[[int], None]) -> Callable[[int, int, int, int, int, int], None]:  # fmt: skip
    """The function of ``armed``: ``known`` are the launches of a stream, ``launches`` makes them for another.

    Most kernels have one tensor map of A and one of B, or one of C as well. Their writes are written out, and the
    launches are not in a function of their own: a loop over writes, or one more call, costs as much as all else.
    """

    def write(a: int, b: int, c: int, bias: int, workspace: int, stream: int) -> None:
        slots[0], slots[1], slots[2], slots[3], slots[4] = given = a, b, c, bias, workspace
        for words, at, slot, offset in places:
            words[at] = given[slot] + offset
        for launch in known.get(stream) or launches(stream):
            status = launch()
            if status:
                refused(status)

    if [place[2:] for place in places] == [(0, 0), (1, 0)]:
        (of_a, at_a, *_), (of_b, at_b, *_) = places

        def write_two(a: int, b: int, c: int, bias: int, workspace: int, stream: int) -> None:
            slots[0], slots[1], slots[2], slots[3], slots[4] = a, b, c, bias, workspace
            of_a[at_a], of_b[at_b] = a, b
            for launch in known.get(stream) or launches(stream):
                status = launch()
                if status:
                    refused(status)

        return write_two
    if [place[2:] for place in places] == [(0, 0), (1, 0), (2, 0)]:
        (of_a, at_a, *_), (of_b, at_b, *_), (of_c, at_c, *_) = places

        def write_three(a: int, b: int, c: int, bias: int, workspace: int, stream: int) -> None:
            slots[0], slots[1], slots[2], slots[3], slots[4] = a, b, c, bias, workspace
            of_a[at_a], of_b[at_b], of_c[at_c] = a, b, c
            for launch in known.get(stream) or launches(stream):
                status = launch()
                if status:
                    refused(status)

        return write_three
    return write


def launch_config(driver: Any, geometry: Geometry) -> Any:
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
