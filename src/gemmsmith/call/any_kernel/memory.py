"""Array arguments in device memory: the caller's strides, and guards where a device has no hard edges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.call.any_kernel.arrays import HostArray
from gemmsmith.run.device import Bytes, Device

_FILL = 0xFF  # NaN in every floating-point type; what lies between and around the elements
GUARD_BYTES = 4096


@dataclass(frozen=True)
class PlacedArray:
    """An array on a device, between guards; ``start`` is the offset of its first element in the allocation."""

    name: str
    host: HostArray
    base: int
    start: int
    nbytes: int

    @property
    def address(self) -> int:
        return self.base + self.start

    def view(self, image: Bytes) -> NDArray[Any]:
        """The elements in the bytes of the whole allocation."""
        values = self.host.values
        return np.ndarray(values.shape, values.dtype, image.data, self.start, self.host.strides)

    def read(self, device: Device) -> tuple[NDArray[Any], str]:
        """A contiguous copy of the elements, and what was written beside them; '' if nothing was."""
        image = device.read(self.base, self.nbytes)
        values = np.array(self.view(image))
        if values.nbytes == self.nbytes:
            return values, ""  # nothing lies beside the elements
        outside = np.flatnonzero((image != _FILL) & ~self._inside())
        return values, self._damage(outside) if outside.size else ""

    def _inside(self) -> NDArray[np.bool_]:
        """Which bytes of the allocation belong to elements."""
        inside = np.zeros(self.nbytes, bool)
        values = self.host.values
        if values.size:
            size = values.dtype.itemsize
            shape, strides = (*values.shape, size), (*self.host.strides, 1)
            np.ndarray(shape, bool, inside.data, self.start, strides)[...] = True
        return inside

    def _damage(self, outside: NDArray[Any]) -> str:
        size = max(1, self.host.values.dtype.itemsize)
        index = (int(outside[0]) - self.start) // size
        many = f"{outside.size} byte{'s' if outside.size > 1 else ''}"
        return f"{self.name}: {many} outside its elements were written, the first at {self.name}[{index}]"


def place(device: Device, name: str, host: HostArray) -> PlacedArray:
    """Copy an array to the device.

    The simulator faults at accesses beyond an allocation. On a GPU guards on both sides show writes there.
    """
    values, strides = host.values, host.strides
    steps = [(extent - 1) * stride for extent, stride in zip(values.shape, strides, strict=True)]
    before = -sum(step for step in steps if step < 0) if values.size else 0
    after = sum(step for step in steps if step > 0) + values.dtype.itemsize if values.size else 0
    guard = GUARD_BYTES if device.kind == "gpu" else 0
    image = np.full(guard + before + after + guard, _FILL, np.uint8)
    placed = PlacedArray(name, host, device.allocate(max(1, image.size) if guard else image.size), guard + before,
                         image.size)  # fmt: skip
    if values.size:
        placed.view(image)[...] = values
    device.label(placed.base, name, max(1, values.dtype.itemsize))
    if image.size:
        device.write(placed.base, image)
    return placed
