"""The protocol of the GPU and the simulator.

Addresses are integers in the device's address space. A launch is a geometry (grid, block, cluster, dynamic shared
memory) and the raw bytes of each argument. Each device has its own encoding of tensor maps. A product is one or more
launches in order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.kernel.geometry import Geometry, TensorMap

Bytes = NDArray[np.uint8]


@dataclass(frozen=True)
class Launch:
    """The geometry and the arguments (raw little-endian bytes) of a kernel launch."""

    geometry: Geometry
    arguments: tuple[bytes, ...]


@dataclass(frozen=True)
class Step:
    """One launch of a product: the loaded kernel, and how to launch it."""

    loaded: Any
    launch: Launch


@dataclass(frozen=True)
class ArgumentPatch:
    """Where an address stands in the arguments of a launch.

    Byte ``position`` of argument ``argument`` holds the address of ``slot`` (kernel.slots.Slot) plus ``offset`` bytes.
    """

    argument: int
    position: int
    slot: int
    offset: int


@dataclass(frozen=True)
class PatchedStep:
    """A step whose addresses are filled in at every launch."""

    step: Step
    patches: tuple[ArgumentPatch, ...]


class Device(Protocol):
    """Allocates and copies memory, loads and launches kernels, synchronizes."""

    @property
    def kind(self) -> str:
        """'gpu' or 'sim'."""

    @property
    def name(self) -> str:
        """The name of the GPU, or of the simulator with the architecture it simulates."""

    @property
    def arch(self) -> str:
        """The architecture to compile for, such as 'sm_90'."""

    def allocate(self, nbytes: int) -> int:
        """The address of ``nbytes`` new bytes, aligned to 256."""

    def free(self, address: int) -> None:
        """Free an allocation; the address must come from ``allocate``."""

    def write(self, address: int, data: Bytes) -> None:
        """Copy host bytes to the device; complete on return."""

    def read(self, address: int, nbytes: int) -> Bytes:
        """Copy device bytes to the host, after all launched work."""

    def forbid_reads(self, address: int, why: str) -> None:
        """Forbid kernels to read the allocation that holds ``address``.

        The simulator faults at such a read. A GPU cannot detect it; there the allocation holds NaN.
        """

    def label(self, address: int, name: str, itemsize: int = 0) -> None:
        """Name the allocation that holds ``address`` in the simulator's messages; a GPU ignores it.

        With ``itemsize`` messages count elements instead of bytes: x[1024], 1 past its end.
        """

    def load(self, compiled: CompiledKernel) -> Any:
        """Load a compiled kernel, so that it can be launched."""

    def encode_tensor_map(self, described: TensorMap, address: int) -> bytes:
        """The 128-byte tensor map of a matrix at ``address``, in this device's encoding.

        Raises ``UnsupportedError`` for a matrix that TMA cannot copy, ``ConfigError`` for such a box.
        """

    def blocks_at_once(self, loaded: Any, geometry: Geometry) -> int:
        """How many blocks of this launch, in whole clusters, the device runs at the same time; at least 1."""

    def launch(self, loaded: Any, launch: Launch) -> None:
        """Start a kernel; on the GPU this does not wait for it."""

    def synchronize(self) -> None:
        """Wait for all launched work; raises if any of it failed."""
