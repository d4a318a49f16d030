"""Launch any kernel on the simulator or the GPU: ``gemmsmith.launch`` and ``gemmsmith.Launch``."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gemmsmith.call.any_kernel.arguments import Argument, Arguments, match_arguments
from gemmsmith.call.any_kernel.cooperative import check_cooperative
from gemmsmith.call.any_kernel.geometry import GridLike, check_block, launch_geometry, with_cluster
from gemmsmith.call.any_kernel.kernel import LaunchKernel, Source, compile_launch
from gemmsmith.call.any_kernel.memory import PlacedArray, place
from gemmsmith.call.any_kernel.ptx_file import largest_block, required_block
from gemmsmith.call.any_kernel.result import LaunchCounters, LaunchResult, read_only
from gemmsmith.call.any_kernel.spec import ArgumentList, parse_arguments
from gemmsmith.call.any_kernel.symbols import Symbol, match_symbols, read_symbols, set_symbols
from gemmsmith.call.any_kernel.tensor_maps import TensorMapOf
from gemmsmith.call.any_kernel.textures import PlacedTextures
from gemmsmith.compile.cache import CompileCache
from gemmsmith.errors import GemmsmithError, UsageError
from gemmsmith.kernel.geometry import Geometry, TensorMap
from gemmsmith.run.cuda import CudaDevice, cuda_device
from gemmsmith.run.device import Launch as DeviceLaunch
from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.races.hazards import HazardError
from gemmsmith.sim.schedule import Schedule, schedule_named

DEFAULT_ARCH = "sm_90"
Includes = Source | Sequence[Source]


def launch(
    source: Source,
    kernel: str = "",
    *,
    grid: GridLike,
    block: GridLike,
    args: Arguments | str = (),
    smem: int = 0,
    defines: Mapping[str, object] | None = None,
    include: Includes = (),
    symbols: Mapping[str, Any] | None = None,
    cooperative: bool = False,
    cluster: GridLike = 1,
    device: str = "sim",
    arch: str = "",
    inplace: bool = False,
    check: bool = False,
    schedule: str | Schedule = "lockstep",
    hazards: bool = True,
    count: bool = True,
    timeout: float = math.inf,
) -> LaunchResult:
    """Launch ``kernel`` of ``source`` (a path, or CUDA C++ text) and return what it did.

    ``kernel`` has its template arguments: 'reduce<256>', 'ns::scan<float>'. It may be left out where the source has one
    kernel. ``grid`` and ``block`` are a number or up to three. ``args`` has one value per parameter, in order or by
    name: arrays of NumPy, torch or CuPy, numbers, None (a null pointer), bytes (a struct). They are not changed unless
    ``inplace``; ``texture``, ``surface`` and ``tensor_map`` make arguments for textures, surfaces and TMA. ``symbols``
    sets ``__constant__`` and ``__device__`` variables by name. ``cooperative`` runs all blocks at the same time, as
    ``grid.sync()`` needs. ``cluster`` is the blocks of a cluster, where the kernel has no ``__cluster_dims__``.
    ``check`` raises where races are found; otherwise ``hazards`` of the result has them.

    On the simulator ``schedule`` is an order of warps (docs/simulator.md), and a launch that takes longer than
    ``timeout`` seconds is a fault. An access outside an array is one as well, and raises ``SimulationError``.
    """
    made = Launch(source, kernel, grid, block, args, smem, defines or {}, include, symbols=symbols or {},
                  cooperative=cooperative, cluster=cluster)  # fmt: skip
    return made.run(device, arch=arch, inplace=inplace, check=check, schedule=schedule, hazards=hazards, count=count,
                    timeout=timeout)  # fmt: skip


@dataclass(frozen=True)
class Launch:
    """A launch that is described once and run as often as needed; commands take it from a Python file.

    ``args`` may also be a text such as 'x=randn(1024, f32), out=zeros(4, f32), n=1024' (docs/any-kernel.md). ``expect``
    is given the arguments by name and returns the arrays that the kernel must write; ``rtol`` and ``atol`` say how
    closely. ``name`` is what commands call the launch.
    """

    source: Source
    kernel: str = ""
    grid: GridLike = 1
    block: GridLike = 1
    args: Arguments | str = ()
    smem: int = 0
    defines: Mapping[str, object] = field(default_factory=dict)
    include: Includes = ()
    expect: Callable[..., Any] | None = None
    rtol: float | None = None
    atol: float | None = None
    name: str = ""
    symbols: Mapping[str, Any] = field(default_factory=dict)
    cooperative: bool = False
    cluster: GridLike = 1

    @property
    def geometry(self) -> Geometry:
        return launch_geometry(self.grid, self.block, self.smem, self.cooperative, self.cluster)

    @property
    def arguments(self) -> ArgumentList | None:
        """The arguments as they are described in words; None where they are values."""
        return parse_arguments(self.args) if isinstance(self.args, str) else None

    def compile(self, arch: str = DEFAULT_ARCH, cache: CompileCache | None = None) -> LaunchKernel:
        folders = (self.include,) if isinstance(self.include, (str, os.PathLike)) else tuple(self.include)
        return compile_launch(self.source, self.kernel, self.defines, folders, arch, cache)

    def run(
        self,
        device: str = "sim",
        *,
        arch: str = "",
        inplace: bool = False,
        check: bool = False,
        schedule: str | Schedule = "lockstep",
        hazards: bool = True,
        count: bool = True,
        timeout: float = math.inf,
        cache: CompileCache | None = None,
    ) -> LaunchResult:
        """Run it; the parameters are those of ``launch``."""
        geometry = self.geometry
        where = open_device(device, arch, schedule, hazards, count, timeout)
        kernel = self.compile(arch or where.arch, cache)
        given = self.arguments
        values = self.args if given is None else given.values()
        assert not isinstance(values, str)
        return run_kernel(kernel, geometry, match_arguments(kernel, values), where, match_symbols(kernel, self.symbols),
                          inplace=inplace, check=check)  # fmt: skip

    def with_args(self, args: Arguments) -> Launch:
        """The same launch with other arguments."""
        return replace(self, args=args)


def open_device(
    device: str, arch: str, schedule: str | Schedule, hazards: bool, count: bool, timeout: float
) -> SimDevice | CudaDevice:
    """The device of a launch; all but the first parameter are the simulator's."""
    if device == "gpu":
        return cuda_device()
    if device != "sim":
        raise UsageError(f"unknown device {device!r}", "use 'sim' (the simulator) or 'gpu'")
    if not timeout > 0 or math.isnan(timeout):
        raise UsageError(f"timeout={timeout:g} is not a number of seconds", "give more than 0")
    order = schedule_named(schedule) if isinstance(schedule, str) else schedule
    return SimDevice(arch or DEFAULT_ARCH, order, hazards=hazards, count=count, timeout=timeout)


def run_kernel(
    kernel: LaunchKernel, geometry: Geometry, arguments: Sequence[Argument], device: SimDevice | CudaDevice,
    symbols: tuple[Symbol, ...] = (), *, inplace: bool = False, check: bool = False,
    blocks: Sequence[int] | None = None,
) -> LaunchResult:  # fmt: skip
    """Copy the arguments to the device, launch, and copy back what the kernel may have written. ``blocks``: the only
    ones that the simulator runs; None: all."""
    geometry = with_cluster(geometry, kernel.name, kernel.cluster)
    compiled = kernel.compiled.ptx, kernel.compiled.entry
    check_block(geometry, kernel.name, required_block(*compiled), largest_block(*compiled))
    loaded: Any = device.load(kernel.compiled)
    if geometry.cooperative:
        check_cooperative(kernel, geometry, device if isinstance(device, CudaDevice) else None, loaded)
    set_symbols(device, loaded, symbols)
    with _placed(device, arguments) as (places, textures, packed):
        start = time.perf_counter()
        launch = DeviceLaunch(geometry, packed)
        if blocks is not None and isinstance(device, SimDevice):
            device.launch(loaded, launch, blocks)
        else:
            device.launch(loaded, launch)
        notes = tuple(getattr(device, "notes", ()))
        found = _finish(device, check)
        seconds = time.perf_counter() - start
        written, damage = _read_back(device, arguments, places, textures, inplace)
        after = read_symbols(device, loaded, symbols)
    counters = getattr(device, "counters", None)
    return LaunchResult(
        kernel=kernel.name, written=tuple(written.values()), by_name=read_only(written), hazards=found,
        damage=tuple(damage), counters=LaunchCounters(counters) if counters is not None else None,
        prints=tuple(map(str, getattr(device, "prints", None) or ())), seconds=seconds, device=device.name,
        geometry=geometry, launched=kernel, symbols=read_only(after), notes=notes,
    )  # fmt: skip


def _finish(device: SimDevice | CudaDevice, check: bool) -> tuple[Any, ...]:
    """Wait for the launch; returns its races, or raises them if ``check``."""
    try:
        device.synchronize()
    except HazardError as error:
        if check:
            raise
        return error.hazards
    return ()


@contextmanager
def _placed(
    device: SimDevice | CudaDevice, arguments: Sequence[Argument]
) -> Iterator[tuple[dict[int, PlacedArray], PlacedTextures, tuple[bytes, ...]]]:
    """The arrays on the device by the identity of their owner, textures, every argument's bytes; frees the memory.

    An array that is passed twice is one array on the device as well.
    """
    places: dict[int, PlacedArray] = {}
    textures = PlacedTextures(device)
    allocated: list[int] = []
    failed = True
    try:
        packed = []
        for argument in arguments:
            if argument.texture is not None:
                packed.append(b"")  # pointers first: a texture may read the memory of one
                continue
            addresses = []
            made = argument.tensor_map
            for name, owner, host in _owned(argument):
                if id(owner) not in places:
                    places[id(owner)] = place(device, name, host)
                    allocated.append(places[id(owner)].base)
                addresses.append(places[id(owner)].address)
            table = np.array(addresses, np.uint64)
            if argument.is_table:
                base = device.allocate(table.nbytes)
                allocated.append(base)
                device.label(base, argument.name, table.itemsize)
                device.write(base, table.view(np.uint8))
                table = np.array([base], np.uint64)
            if made is not None:
                packed.append(_map_bytes(device, argument, made.named(argument.name), addresses[0], allocated))
                continue
            if argument.held:
                packed.append(_struct_bytes(device, argument, addresses))
                continue
            packed.append(table.tobytes() if argument.arrays else argument.data)
        for number, argument in enumerate(arguments):
            if (texture := argument.texture) is not None:
                known = places.get(id(texture.array))
                handle = textures.handle(argument.name, texture, argument.arrays[0], known.address if known else None)
                packed[number] = handle.to_bytes(8, "little")
        yield places, textures, tuple(packed)
        failed = False
    finally:
        textures.free()
        for base in allocated:
            try:
                device.free(base)
            except GemmsmithError:  # after a fault the driver refuses this too; the first error names the cause
                if not failed:
                    raise


def _struct_bytes(device: SimDevice | CudaDevice, argument: Argument, addresses: Sequence[int]) -> bytes:
    """A struct's bytes with the addresses of its arrays, and its tensor maps."""
    data = bytearray(argument.data)
    for held, address in zip(argument.held, addresses, strict=True):
        packed = address.to_bytes(8, "little")
        if isinstance(held.value, TensorMapOf):
            packed = device.encode_tensor_map(held.value.named(held.name), address)
        data[held.at : held.at + len(packed)] = packed
    return bytes(data)


def _map_bytes(
    device: SimDevice | CudaDevice, argument: Argument, described: TensorMap, address: int, allocated: list[int]
) -> bytes:
    """A tensor map's bytes; or the address of a copy in device memory, for a pointer to it."""
    data = device.encode_tensor_map(described, address)
    if not argument.parameter.is_pointer:
        return data
    base = device.allocate(len(data))
    allocated.append(base)
    device.label(base, argument.name, len(data))
    device.write(base, np.frombuffer(data, np.uint8))
    return base.to_bytes(8, "little")


def _owned(argument: Argument) -> Iterator[tuple[str, Any, Any]]:
    """Name, owner and values of each array of an argument."""
    if argument.held:
        yield from ((held.name, held.array, host) for held, host in zip(argument.held, argument.arrays, strict=True))
        return
    owners = argument.value if argument.is_table else [argument.value]
    owners = [argument.tensor_map.array] if argument.tensor_map is not None else owners
    for number, (owner, host) in enumerate(zip(owners, argument.arrays, strict=False)):
        yield (f"{argument.name}[{number}]" if argument.is_table else argument.name), owner, host


def _read_back(
    device: SimDevice | CudaDevice, arguments: Sequence[Argument], places: Mapping[int, PlacedArray],
    textures: PlacedTextures, inplace: bool,
) -> tuple[dict[str, Any], list[str]]:  # fmt: skip
    """The arrays that may have been written, by name, and what was written beside them."""
    written: dict[str, Any] = {}
    damage: list[str] = []
    for argument in arguments:
        made = {}
        for number, (name, owner, host) in enumerate(_owned(argument)):
            if not argument.writable and device.kind == "sim":
                continue
            if argument.texture is not None:
                if argument.texture.sampling is not None:
                    continue
                owner, beside, values = argument.texture.array, "", textures.read(argument.texture, host)
            else:
                values, beside = places[id(owner)].read(device)
            damage += [beside] if beside and beside not in damage else []
            if not argument.writes(number):
                continue
            if inplace:
                host.put(values)
            made[name] = owner if inplace else host.give(values)
        written.update({argument.name: list(made.values())} if argument.is_table and made else made)
    return written, damage
