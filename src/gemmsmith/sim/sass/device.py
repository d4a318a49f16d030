"""The simulator as a device that executes machine code: a kernel's cubin instead of its PTX."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.errors import SimulationError, UnsupportedError
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.run.device import Launch
from gemmsmith.sim.device import LoadedPtx, SimDevice, pack
from gemmsmith.sim.memory.global_memory import LOCAL_WINDOW, SHARED_WINDOW
from gemmsmith.sim.ptx.syntax import Entry, Variable
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.sass.image import Image, Parameter, read_image
from gemmsmith.sim.sass.program import EXECUTED, MachineProgram, lower_routine
from gemmsmith.sim.sass.reader import read_cubin

_RESERVED = 1024  # bytes of shared memory that CUDA keeps in each block, from sm_90 on
_STACK = 0x28  # of bank 0: where a thread's stack begins
_SHARED_WINDOW, _LOCAL_WINDOW = 0x18, 0x20
# From sm_90 on: whether there are clusters, their blocks along x, y and z, one over those along y and z, clusters along
# each axis, blocks of a cluster, and the address of the parameters, for tensor maps among them.
_EXPLICIT, _CLUSTER, _RECIPROCALS, _CLUSTERS, _RANKS, _PARAMETERS = 0x140, 0x144, 0x154, 0x15C, 0x188, 0x198


class MachineDevice(SimDevice):
    """Executes kernels from their machine code; all else is as for PTX."""

    def load(self, compiled: CompiledKernel) -> LoadedPtx:
        return self.load_cubin(compiled.cubin, compiled.entry, compiled.arch)

    def load_cubin(self, cubin: bytes, entry_name: str, arch: str) -> LoadedPtx:
        number = int("".join(c for c in arch if c.isdigit()))
        if number not in EXECUTED:
            raise UnsupportedError(f"machine code for {arch} is not executed",
                                   f"one of {', '.join(f'sm_{n}' for n in EXECUTED)}")  # fmt: skip
        key = cubin.hex(), entry_name, self.contracts
        if key in self.loads:
            return self.loads[key]
        image = read_image(cubin, entry_name)
        routine = read_cubin(cubin).get(entry_name)
        if routine is None:
            raise SimulationError(f"no machine code for {entry_name!r} in the cubin")
        banks = self._place(image, entry_name)
        reserved = _RESERVED if number >= 90 else 0
        shared = max(image.static_shared, reserved)
        lowered = lower_routine(routine, number, banks, shared, -(-image.local // 16) * 16,
                                image.first_parameter, self.mod32, image.parameters, image.clusters)  # fmt: skip
        lowered = replace(lowered, reserved_shared=reserved)
        loaded = LoadedPtx(_entry(image, self), lowered)
        if not image.data and set(banks) == {0}:
            self.loads[key] = loaded
        return loaded

    def _place(self, image: Image, entry_name: str) -> dict[int, tuple[int, Array]]:
        """Put variables and constant banks into global memory; fill in the addresses of variables."""
        starts: dict[str, int] = {}
        for name, data in image.data.items():
            starts[name] = self.allocate(len(data))
            self.write(starts[name], np.frombuffer(data, np.uint8))
        banks: dict[int, tuple[int, Array]] = {}
        for number, data in {0: b"", **image.constants}.items():
            address = self.allocate(max(len(data), 8))
            self.write(address, np.frombuffer(data or bytes(8), np.uint8))
            banks[number] = address, self.memory.view(address, max(len(data), 8))
            starts[f".nv.constant{number}"] = starts[f".nv.constant{number}.{entry_name}"] = address
        for place in image.relocations:
            if place.section in starts and place.symbol.section in starts:
                value = starts[place.symbol.section] + place.symbol.offset + place.addend
                self.write(starts[place.section] + place.offset, np.frombuffer(value.to_bytes(8, "little"), np.uint8))
        self.variables[entry_name] = {s.name: starts[s.section] + s.offset for s in image.symbols
                                      if s.section in starts and s.size}  # fmt: skip
        return banks

    def launch(self, loaded: LoadedPtx, launch: Launch, blocks: Sequence[int] | None = None) -> None:
        lowered = loaded.lowered
        assert isinstance(lowered, MachineProgram)
        if math.prod(launch.geometry.cluster) > 1 and lowered.for_clusters is not None:
            lowered = replace(lowered.for_clusters(), reserved_shared=lowered.reserved_shared)
            loaded = LoadedPtx(loaded.entry, lowered)
        _, bank = lowered.banks[0]
        header = bank[:0x30].view(np.uint32)
        header[:6] = (*launch.geometry.block, *launch.geometry.grid)
        header[_STACK // 4] = lowered.local_size
        for place, window in ((_SHARED_WINDOW, SHARED_WINDOW), (_LOCAL_WINDOW, LOCAL_WINDOW)):
            header[place // 4 : place // 4 + 2] = window & 0xFFFFFFFF, window >> 32
        pack(loaded.entry, launch.arguments)  # checks numbers and sizes; offsets are the cubin's
        first = lowered.first_parameter
        for parameter, value in zip(lowered.parameters, launch.arguments, strict=True):
            at = first + parameter.offset
            bank[at : at + parameter.size] = np.frombuffer(value, np.uint8)
        if first >= _PARAMETERS + 8:
            bank[_PARAMETERS : _PARAMETERS + 8].view(np.uint64)[0] = lowered.banks[0][0] + first
            _describe_clusters(bank, launch.geometry)
        super().launch(loaded, launch, blocks)


def _describe_clusters(bank: Array, geometry: Geometry) -> None:
    """What machine code reads of clusters, for a launch without them too: each block is then a cluster."""
    words, cluster = bank[:_PARAMETERS].view(np.uint32), geometry.cluster
    blocks = math.prod(cluster)
    words[_EXPLICIT // 4] = blocks > 1
    words[_RANKS // 4] = blocks
    words[_CLUSTER // 4 : _CLUSTER // 4 + 3] = cluster
    words[_CLUSTERS // 4 : _CLUSTERS // 4 + 3] = [g // c for g, c in zip(geometry.grid, cluster, strict=True)]
    words.view(np.float32)[_RECIPROCALS // 4 : _RECIPROCALS // 4 + 2] = [_reciprocal(c) for c in cluster[1:]]


def _reciprocal(number: int) -> np.float32:
    """Not below 1/number, so that the whole part of a product with a multiple of the number is right."""
    nearest = np.float32(1 / number)
    return nearest if float(nearest) * number >= 1 else np.nextafter(nearest, np.float32(1))


def _entry(image: Image, device: SimDevice) -> Entry:
    """The kernel's parameters and variables, as PTX would declare them."""
    known = device.variables[image.entry]
    variables = tuple([Variable(s.name, "global", 1, s.size, "b8") for s in image.symbols if s.name in known])
    parameters = tuple([_variable(n, parameter) for n, parameter in enumerate(image.parameters)])
    return Entry(image.entry, parameters, variables, (), (), ())


def _variable(number: int, parameter: Parameter) -> Variable:
    """A parameter, aligned so that it comes to lie at its offset."""
    lowest = parameter.offset & -parameter.offset
    return Variable(f"parameter {number}", "param", lowest or 1, parameter.size, "b8")
