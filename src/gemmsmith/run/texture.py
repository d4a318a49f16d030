"""Textures and surfaces as both devices know them: what memory they read, and how a coordinate becomes a value.

The words are CUDA's: ``cudaTextureDesc`` and ``cudaResourceDesc``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Dtype = np.dtype[Any]
ADDRESS_MODES = ("wrap", "clamp", "mirror", "border")
FILTERS = ("point", "linear")
RESOURCES = ("array", "linear", "pitch2d")
# Element types of CUDA arrays, with the driver's name of each.
FORMATS = {
    "uint8": "UNSIGNED_INT8", "int8": "SIGNED_INT8", "uint16": "UNSIGNED_INT16", "int16": "SIGNED_INT16",
    "uint32": "UNSIGNED_INT32", "int32": "SIGNED_INT32", "float16": "HALF", "float32": "FLOAT",
}  # fmt: skip


@dataclass(frozen=True)
class Texels:
    """The memory behind a texture or a surface.

    resource  'array': a CUDA array; 'linear': plain memory, read by tex1Dfetch; 'pitch2d': rows of plain memory
    extent    width, height, depth; 0 for what it does not have
    layers    of a layered array, 0 for others
    pitch     bytes from row to row, of 'pitch2d'
    """

    dtype: Dtype
    channels: int
    extent: tuple[int, int, int]
    layers: int = 0
    resource: str = "array"
    pitch: int = 0

    @property
    def texel_bytes(self) -> int:
        return self.dtype.itemsize * self.channels

    @property
    def dimensions(self) -> int:
        return sum(1 for extent in self.extent if extent)

    @property
    def row_bytes(self) -> int:
        """Bytes from row to row in plain memory."""
        return self.pitch or self.extent[0] * self.texel_bytes

    @property
    def rows(self) -> int:
        return max(1, self.extent[1])

    @property
    def slices(self) -> int:
        """Slices of a 3-D array, or layers."""
        return self.layers or max(1, self.extent[2])

    @property
    def nbytes(self) -> int:
        return self.row_bytes * self.rows * self.slices


@dataclass(frozen=True)
class Sampling:
    """How a texture is read. ``address`` has a mode for each coordinate.

    ``normalized_coordinates``: 0 to 1 spans the texture. ``normalized_values``: integers are read as fractions, 0 to 1
    or -1 to 1. ``border`` is the value beyond the edge under 'border'.
    """

    filter: str = "point"
    address: tuple[str, str, str] = ("clamp", "clamp", "clamp")
    normalized_coordinates: bool = False
    normalized_values: bool = False
    border: tuple[float, float, float, float] = (0.0, 0.0, 0.0, 0.0)
