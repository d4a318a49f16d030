"""The box of a tensor that TMA moves: where its elements are in global memory, and where in shared memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from gemmsmith.kernel.geometry import Im2col, TensorMap
from gemmsmith.run.tensor_map import decode_simulated
from gemmsmith.sim.ptx.types import Array

CHUNK = 16  # bytes that a swizzle moves as one
SECTOR = 32  # bytes of global memory that are fetched or written as one
_SWIZZLES = {0: 0, 32: 0x10, 64: 0x30, 128: 0x70}  # the bits of an address that a swizzle of so many bytes may flip

# NaN of elements outside a tensor, as an H200 writes it
_NAN = {"fp16": 0x7FF7, "bf16": 0x7FFF, "fp32": 0x7FFFFFFF, "fp32_ftz": 0x7FFFFFFF, "tf32": 0x7FFFFFFF,
        "tf32_ftz": 0x7FFFFFFF, "fp64": 0x7FF77FF77FF77FF7}  # fmt: skip


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
        """Bytes that are moved as one: an element, or a chunk of a pixel of an interleaved tensor."""
        return CHUNK if self.map.interleave else self.map.dtype.itemsize

    @property
    def rank(self) -> int:
        return len(self.map.extents)

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """Elements that a copy moves along each dimension of its box."""
        if self.map.im2col is not None:
            return self.map.box
        if self.map.interleave:
            return self._pixel_counts
        return tuple(-(-side // step) for side, step in zip(self.map.box, self.map.every, strict=True))

    @cached_property
    def nbytes(self) -> int:
        return math.prod(self.counts) * self.itemsize

    @cached_property
    def outside(self) -> int:
        """The bits of an element outside the tensor."""
        return _NAN.get(self.map.dtype.name, 0) if self.map.nan_fill else 0

    def fill(self, inside: Array) -> int:
        """The bits of an element outside the tensor; a box wholly outside gets NaN of 16 bits, as on an H200."""
        if self.outside and self.itemsize == 4 and not inside.any():
            return _NAN["fp16"] << 16 | _NAN["fp16"]
        return self.outside

    def loaded(self, values: Array) -> Array:
        """Elements as they arrive in shared memory: of tf32, rounded to its upper 19 bits, ties to even."""
        if not self.map.dtype.name.startswith("tf32"):
            return values
        bits = values.view(np.uint32)
        even = np.uint32(0xFFF) + (bits >> np.uint32(13) & np.uint32(1))
        rounded = (bits + even) & np.uint32(0xFFFFE000)
        special = bits & np.uint32(0x7FFFFFFF)
        infinite = np.uint32(0x7F800000)
        rounded = np.where(special == infinite, bits, np.where(special > infinite, np.uint32(0x7FFFE000), rounded))
        return rounded.view(values.dtype)

    def elements(self, at: tuple[int, ...], offsets: tuple[int, ...] = ()) -> tuple[Array, Array]:
        """(global addresses, whether they are in the tensor) of the elements of the box at ``at``, innermost first.

        ``offsets``: of an im2col map, what is added to the position of each pixel.
        """
        if self.map.im2col is not None:
            return self._pixels(self.map.im2col, at, offsets)
        if self.map.interleave:
            return self._interleaved(at)
        address = np.full(1, self.address, np.int64)
        inside = np.ones(1, bool)
        strides = (self.itemsize, *self.map.strides)
        along = zip(self.counts, self.map.every, at, self.map.extents, strides, strict=True)
        for count, step, start, extent, stride in along:
            places = start + np.arange(count) * step
            address = (places[:, None] * stride + address[None]).reshape(-1)
            inside = (((places >= 0) & (places < extent))[:, None] & inside[None]).reshape(-1)
        return address.astype(np.uint64), inside

    @property
    def _pixel_counts(self) -> tuple[int, ...]:
        """Of an interleaved tensor: chunks along W, then pixels; of the slices of channels, the last dimension but one,
        a copy moves one, whatever its box says."""
        sides = [-(-side // step) for side, step in zip(self.map.box, self.map.every, strict=True)]
        sides[0] *= self.map.interleave // CHUNK
        sides[-2] = 1
        return tuple(sides)

    def _interleaved(self, at: tuple[int, ...]) -> tuple[Array, Array]:
        """An element along each dimension is a pixel of one slice of channels, of 16 or 32 bytes, as on an H200."""
        each = self.map.interleave // CHUNK
        address = self.address + np.arange(each, dtype=np.int64) * CHUNK
        inside = np.ones(each, bool)
        counts = (self.counts[0] // each, *self.counts[1:])
        along = zip(counts, self.map.every, at, self.map.extents, (self.map.interleave, *self.map.strides), strict=True)
        for count, step, start, extent, stride in along:
            places = start + np.arange(count) * step
            address = (places[:, None] * stride + address[None]).reshape(-1)
            inside = (((places >= 0) & (places < extent))[:, None] & inside[None]).reshape(-1)
        return address.astype(np.uint64), inside

    def written(self, address: Array, inside: Array, at: tuple[int, ...]) -> tuple[Array, Array]:
        """What a store writes: as ``elements``, but of 8-byte elements never a lone one at the end of a row.

        An H200 writes the element behind it, too, in the padding of the row.
        """
        if self.itemsize != 8 or self.map.im2col is not None or self.counts[0] < 2 or at[0] != self.map.extents[0] - 1:
            return address, inside
        rows = inside.reshape(-1, self.counts[0]).copy()
        rows[:, 1] = rows[:, 0]
        return address, rows.reshape(-1)

    def _pixels(self, how: Im2col, at: tuple[int, ...], offsets: tuple[int, ...]) -> tuple[Array, Array]:
        """Pixels of the bounding box one after the other, W fastest, then H, D and N; channels of each."""
        every, spatial = self.map.every, self.rank - 2
        numbers = np.arange(how.pixels)
        places = []
        carry = numbers
        for d in range(spatial):
            low = how.lower[d]
            high = self.map.extents[d + 1] - 1 + how.upper[d]
            span = max(1, (high - low) // every[d + 1] + 1)
            first = (at[d + 1] - low) // every[d + 1]
            position = first + carry
            places.append(low + position % span * every[d + 1])
            carry = position // span
        places.append(at[-1] + carry)
        for d in range(min(spatial, len(offsets))):
            places[d] = places[d] + offsets[d]
        address, inside = np.full(how.pixels, self.address, np.int64), np.ones(how.pixels, bool)
        for place, extent, stride in zip(places, self.map.extents[1:], self.map.strides, strict=True):
            address = address + place * stride
            inside &= (place >= 0) & (place < extent)
        channels = at[0] + np.arange(how.channels)
        there = (channels >= 0) & (channels < self.map.extents[0])
        address = address[:, None] + channels[None] * self.itemsize
        return address.reshape(-1).astype(np.uint64), (inside[:, None] & there[None]).reshape(-1)

    def sectors(self, at: tuple[int, ...], offsets: tuple[int, ...] = ()) -> int:
        """Sectors of global memory that hold elements of the box; those that two rows share count twice."""
        if self.map.im2col is None and self.map.every[0] == 1 and not self.map.interleave:
            return self._row_sectors(at)
        address, inside = self.elements(at, offsets)
        rows, there = address.reshape(-1, self.counts[0]) // np.uint64(SECTOR), inside.reshape(-1, self.counts[0])
        found = np.where(there[:, 1:] & there[:, :-1], rows[:, 1:] != rows[:, :-1], there[:, 1:])
        return int(np.count_nonzero(found) + np.count_nonzero(there[:, 0]))

    def _row_sectors(self, at: tuple[int, ...]) -> int:
        """The same, where the elements of a row are contiguous."""
        low, high = max(0, at[0]), min(self.map.extents[0], at[0] + self.counts[0])
        if high <= low:
            return 0
        others = zip(self.counts[1:], self.map.every[1:], at[1:], self.map.extents[1:], strict=True)
        if self._rows_on_sectors:
            count = math.prod(max(0, min(n, -((start - extent) // step)) - max(0, -(start // step)))
                              for n, step, start, extent in others)  # fmt: skip
            return count * ((high * self.itemsize - 1) // SECTOR - low * self.itemsize // SECTOR + 1)
        rows = np.full(1, self.address, np.int64)
        for count, step, start, extent, stride in zip(self.counts[1:], self.map.every[1:], at[1:], self.map.extents[1:],
                                                      self.map.strides, strict=True):  # fmt: skip
            places = start + np.arange(count) * step
            places = places[(places >= 0) & (places < extent)]
            rows = (places[:, None] * stride + rows[None]).reshape(-1)
        first, last = rows + low * self.itemsize, rows + high * self.itemsize - 1
        return int((last // SECTOR - first // SECTOR + 1).sum())

    @cached_property
    def _rows_on_sectors(self) -> bool:
        """Whether every row begins on a sector, so that rows are alike."""
        return all(value % SECTOR == 0 for value in (self.address, *self.map.strides))

    def chunks(self, start: int) -> Array:
        """Shared addresses of the 16-byte chunks of a box that begins at ``start``, in the order of its elements."""
        row = self.counts[0] * self.itemsize
        # A row shorter than its swizzle leaves the rest of the span unused.
        pitch = max(row, self.map.swizzle) if self.map.swizzle and not self.map.interleave else row
        rows = np.arange(self.nbytes // row) * pitch
        plain = start + (rows[:, None] + np.arange(0, row, CHUNK)[None]).reshape(-1)
        return swizzled(plain, self.map.swizzle)


@cache
def decoded(data: bytes) -> Box:
    """The box of a tensor map's 128 bytes."""
    return Box(*decode_simulated(data))
