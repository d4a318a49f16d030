"""The one protocol that the GPU and the simulator both speak.

Addresses are plain integers in the device's own address space. A launch is described by a geometry
(grid, block, cluster, dynamic shared memory) and the raw bytes of each argument, tensor maps among them:
each device encodes those as its own kernels read them. A product is one launch or several in order.
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
    """A kernel launch: where, how large, and with which arguments (raw little-endian bytes)."""

    geometry: Geometry
    arguments: tuple[bytes, ...]


@dataclass(frozen=True)
class Step:
    """One launch of those that make up a product: what ``load`` gave, and how to launch it."""

    loaded: Any
    launch: Launch


class Device(Protocol):
    """Allocates, copies, loads a compiled kernel, launches, synchronises."""

    @property
    def kind(self) -> str:
        """'gpu' or 'sim'."""

    @property
    def name(self) -> str:
        """The GPU's name, or the simulator's with the architecture it stands for."""

    @property
    def arch(self) -> str:
        """The architecture to compile for, such as 'sm_90'."""

    def allocate(self, nbytes: int) -> int:
        """The address of ``nbytes`` fresh bytes, aligned to 256."""

    def free(self, address: int) -> None:
        """Give back an allocation; its address must come from ``allocate``."""

    def write(self, address: int, data: Bytes) -> None:
        """Copy host bytes to the device; done when it returns."""

    def read(self, address: int, nbytes: int) -> Bytes:
        """Copy device bytes to the host, after all launched work."""

    def forbid_reads(self, address: int, why: str) -> None:
        """From now on kernels must not read the allocation that holds ``address``.

        The simulator faults at such a read; a GPU cannot tell, and relies on what it holds being NaN.
        """

    def label(self, address: int, name: str) -> None:
        """Name the allocation that holds ``address``, for the simulator's messages; a GPU has no use for it."""

    def load(self, compiled: CompiledKernel) -> Any:
        """Make a compiled kernel ready to launch."""

    def encode_tensor_map(self, described: TensorMap, address: int) -> bytes:
        """The 128 bytes by which a kernel on this device moves boxes of a matrix at ``address``.

        Raises ``UnsupportedError`` for a matrix that TMA cannot move, ``ConfigError`` for such a box.
        """

    def blocks_at_once(self, loaded: Any, geometry: Geometry) -> int:
        """How many blocks of this launch, in whole clusters, the device runs side by side; 1 or more."""

    def launch(self, loaded: Any, launch: Launch) -> None:
        """Start a kernel; on the GPU this does not wait for it."""

    def synchronize(self) -> None:
        """Wait for all launched work and raise what went wrong in it."""
