"""The box of a tensor that TMA moves: where its elements are in global memory, and where in shared memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from gemmsmith.kernel.geometry import TensorMap
from gemmsmith.run.tensor_map import decode_simulated
from gemmsmith.sim.types import Array

CHUNK = 16  # bytes that a swizzle moves as one
_SWIZZLES = {0: 0, 32: 0x10, 64: 0x30, 128: 0x70}  # the bits of an address that a swizzle of so many bytes may flip


def swizzled(addresses: Array, span: int) -> Array:
    """Where in shared memory the bytes at these addresses are, in a swizzle of ``span`` bytes; 0 is none."""
    kind = addresses.dtype.type
    found: Array = addresses ^ (addresses >> kind(3) & kind(_SWIZZLES[span]))
    return found


@dataclass(frozen=True)
class Box:
    """A tensor map and the address it was made for."""

    map: TensorMap
    address: int

    @property
    def itemsize(self) -> int:
        return self.map.dtype.itemsize

    @property
    def rank(self) -> int:
        return len(self.map.extents)

    @cached_property
    def nbytes(self) -> int:
        return math.prod(self.map.box) * self.itemsize

    def elements(self, at: tuple[int, ...]) -> tuple[Array, Array]:
        """(global addresses, whether they are in the tensor) of the elements of the box at ``at``, innermost first."""
        address = np.full(1, self.address, np.int64)
        inside = np.ones(1, bool)
        strides = (self.itemsize, *self.map.strides)
        for side, start, extent, stride in zip(self.map.box, at, self.map.extents, strides, strict=True):
            places = start + np.arange(side)
            address = (places[:, None] * stride + address[None]).reshape(-1)
            inside = (((places >= 0) & (places < extent))[:, None] & inside[None]).reshape(-1)
        return address.astype(np.uint64), inside

    def chunks(self, start: int) -> Array:
        """Shared addresses of the 16-byte chunks of a box that begins at ``start``, in the order of its elements."""
        row = self.map.box[0] * self.itemsize
        # A row shorter than its swizzle leaves the rest of the span unused.
        pitch = max(row, self.map.swizzle) if self.map.swizzle else row
        rows = np.arange(self.nbytes // row) * pitch
        plain = start + (rows[:, None] + np.arange(0, row, CHUNK)[None]).reshape(-1)
        return swizzled(plain, self.map.swizzle)


@cache
def decoded(data: bytes) -> Box:
    """The box of a tensor map's 128 bytes."""
    return Box(*decode_simulated(data))
