"""Texture and surface objects of the simulator: handles, the memory behind them, and what an access reached.

A CUDA array is plain memory here, x fastest. Its accesses are watched for races as those of global memory are.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np

from gemmsmith.run.device import Bytes
from gemmsmith.run.texture import Sampling, Texels
from gemmsmith.sim.execution import Execution
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.lowering.traits import Space
from gemmsmith.sim.memory.access_faults import LaneFault
from gemmsmith.sim.memory.global_memory import GlobalMemory, TextureObject
from gemmsmith.sim.ptx.types import Array

# Handles are no addresses: a kernel that reads through one as a pointer faults.
_FIRST_HANDLE = 0x0000_5000_0000_0000


class _Device(Protocol):
    memory: GlobalMemory

    def allocate(self, nbytes: int) -> int: ...

    def free(self, address: int) -> None: ...

    def write(self, address: int, data: Bytes) -> None: ...

    def read(self, address: int, nbytes: int) -> Bytes: ...

    def label(self, address: int, name: str, itemsize: int = 0) -> None: ...


class SimTextures:
    """The CUDA arrays, texture objects and surface objects of one launch; ``free`` destroys them all."""

    def __init__(self, device: _Device) -> None:
        self.device = device
        self._handles: list[int] = []
        self._arrays: list[int] = []

    def array(self, texels: Texels, data: Bytes, name: str = "") -> int:
        """A CUDA array with these bytes, x fastest; returns its address."""
        address = self.device.allocate(texels.nbytes)
        self._arrays.append(address)
        self.device.write(address, np.ascontiguousarray(data))
        self.device.label(address, name, texels.texel_bytes)
        return address

    def read(self, texels: Texels, array: int) -> Bytes:
        """The bytes of a CUDA array."""
        return self.device.read(array, texels.nbytes)

    def texture(self, texels: Texels, sampling: Sampling, memory: int, name: str = "") -> int:
        """The handle of a texture over memory at an address."""
        return self._add(TextureObject(texels, sampling, memory, name))

    def surface(self, texels: Texels, array: int, name: str = "") -> int:
        """The handle of a surface."""
        return self._add(TextureObject(texels, None, array, name))

    def free(self) -> None:
        for handle in self._handles:
            del self.device.memory.textures[handle]
        for address in self._arrays:
            self.device.free(address)
        self._handles, self._arrays = [], []

    def _add(self, made: TextureObject) -> int:
        known = self.device.memory.textures
        handle = max(known, default=_FIRST_HANDLE) + 1
        known[handle] = made
        self._handles.append(handle)
        return handle


class TextureUnit:
    """What the last texture or surface instruction of a wave reached: lanes, and an address for each."""

    def __init__(self, machine: Execution) -> None:
        self.machine = machine
        self.reached: list[tuple[Array, Array]] = []

    def objects(self, handles: Array, lanes: Lanes, *, surface: bool) -> Iterator[tuple[TextureObject, Array]]:
        """Each object that these lanes name, with the positions of its lanes among them."""
        self.reached, self.machine.reached = [], (Space.GLOBAL, np.zeros(0, np.uint64))
        handles = self.machine.spread(handles, lanes)
        for handle in np.unique(handles):
            here = np.flatnonzero(handles == handle)
            found = self.machine.memory.textures.get(int(handle))
            wanted = "surface" if surface else "texture"
            if found is None:
                raise LaneFault(int(here[0]), f"{int(handle):#x} is no {wanted} object: pass gemmsmith.{wanted}(array) "
                                "for this parameter")  # fmt: skip
            if (found.sampling is None) != surface:
                other = "texture" if surface else "surface"
                raise LaneFault(int(here[0]), f"{found.name or 'the argument'} is a {other}, and the kernel accesses "
                                f"it as a {wanted}: pass gemmsmith.{wanted}(array)")  # fmt: skip
            yield found, here

    def note(self, lanes: Array, addresses: Array, inside: Array) -> None:
        """Remember which lanes reached which addresses, for the race detector."""
        if self.machine.look is not None:
            self.reached.append((lanes[inside], addresses[inside].astype(np.uint64)))


def touched(machine: Any) -> list[tuple[Array, Array]]:
    """Lanes and addresses of the texture or surface access that just ran."""
    found: list[tuple[Array, Array]] = machine.unit(TextureUnit).reached
    return found
