"""Textures and surfaces as arguments of a launch: ``gemmsmith.texture`` and ``gemmsmith.surface``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmsmith.call.any_kernel.arrays import HostArray, host_array, is_array
from gemmsmith.errors import DTypeError, UsageError
from gemmsmith.run.cuda import CudaDevice
from gemmsmith.run.cuda_textures import CudaTextures
from gemmsmith.run.texture import ADDRESS_MODES, FILTERS, FORMATS, RESOURCES, Sampling, Texels
from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.memory.textures import SimTextures

_ROW_ALIGNMENT = 32  # bytes: rows of a texture over plain memory start on a multiple of it, on every GPU
_BASE_ALIGNMENT = 512


@dataclass(frozen=True, eq=False)
class Texture:
    """An array that a kernel reads through a texture; ``sampling`` is None for a surface."""

    array: Any
    channels: int
    layered: bool
    resource: str
    sampling: Sampling | None

    @property
    def word(self) -> str:
        return "surface" if self.sampling is None else "texture"

    def with_array(self, array: Any) -> Texture:
        """The same texture of another array."""
        return Texture(array, self.channels, self.layered, self.resource, self.sampling)


def texture(
    array: Any,
    *,
    filter: str = "point",  # noqa: A002 - CUDA's word
    address: str | Sequence[str] = "clamp",
    normalized: bool = False,
    read: str = "element",
    border: float | Sequence[float] = 0.0,
    channels: int = 1,
    layered: bool = False,
    resource: str = "array",
) -> Texture:
    """An array for a ``cudaTextureObject_t`` parameter of ``gemmsmith.launch``.

    The array's shape is (width), (height, width) or (depth, height, width), with the channels of a texel last if
    ``channels`` is 2 or 4 (float4: ``channels=4``). With ``layered`` the first axis counts layers.

    filter      'point' or 'linear'
    address     beyond the edge: 'clamp', 'border', 'wrap' or 'mirror'; one word, or one for each of x, y, z
    normalized  coordinates from 0 to 1 span the texture; 'wrap' and 'mirror' need it
    read        'element', or 'normalized': integers of 8 and 16 bits are read as fractions
    border      the value beyond the edge under 'border', one number or four
    resource    'array' (a CUDA array), 'linear' (plain memory, for tex1Dfetch) or 'pitch2d' (rows of plain memory)
    """
    modes = (address,) * 3 if isinstance(address, str) else (*address, *["clamp"] * (3 - len(address)))
    for mode in modes:
        _one_of("address", mode, ADDRESS_MODES)
    _one_of("filter", filter, FILTERS)
    _one_of("resource", resource, RESOURCES)
    _one_of("read", read, ("element", "normalized"))
    edge = (float(border),) * 4 if isinstance(border, (int, float)) else (*map(float, border), 0.0, 0.0, 0.0, 0.0)
    how = Sampling(filter, (modes[0], modes[1], modes[2]), bool(normalized), read == "normalized",
                   (edge[0], edge[1], edge[2], edge[3]))  # fmt: skip
    made = Texture(array, channels, bool(layered), resource, how)
    _check(made)
    return made


def surface(array: Any, *, channels: int = 1, layered: bool = False) -> Texture:
    """An array for a ``cudaSurfaceObject_t`` parameter of ``gemmsmith.launch``; the result has what was written."""
    made = Texture(array, channels, bool(layered), "array", None)
    _check(made)
    return made


def _one_of(what: str, given: str, known: Sequence[str]) -> None:
    if given not in known:
        raise UsageError(f"{what}={given!r} is not known", f"use one of {', '.join(map(repr, known))}")


def _check(made: Texture) -> None:
    """Refuse what no GPU can make a texture of."""
    if not is_array(made.array):
        raise DTypeError(f"gemmsmith.{made.word} takes an array, and a {type(made.array).__name__} was given")
    texels = texels_of(made, host_array("the array", made.array))
    how = made.sampling
    if how is None:
        return
    modes = how.address[: texels.dimensions]
    if not how.normalized_coordinates and ("wrap" in modes or "mirror" in modes):
        raise UsageError("address='wrap' and 'mirror' work on normalized coordinates only (CUDA clamps others)",
                         "add normalized=True, and give coordinates from 0 to 1")  # fmt: skip
    integers = texels.dtype.kind in "iu"
    if how.normalized_values and (not integers or texels.dtype.itemsize > 2):
        raise UsageError(f"read='normalized' is for integers of 8 and 16 bits, and the array has {texels.dtype}",
                         "leave read out")  # fmt: skip
    if how.filter == "linear" and integers and not how.normalized_values:
        raise UsageError(f"filter='linear' gives floats, and the array has {texels.dtype}",
                         "add read='normalized', or pass floats")  # fmt: skip
    if made.resource == "linear" and (how.filter == "linear" or how.normalized_coordinates):
        raise UsageError("linear memory is read by tex1Dfetch, which neither filters nor normalizes coordinates",
                         "leave filter and normalized out, or use resource='array'")  # fmt: skip


def texels_of(made: Texture, host: HostArray) -> Texels:
    """The memory that the texture needs, from the array's shape and type."""
    values = host.values
    if values.dtype.name not in FORMATS:
        raise DTypeError(f"a {made.word} cannot hold {values.dtype}", f"use one of {', '.join(FORMATS)}")
    if made.channels not in (1, 2, 4):
        raise UsageError(f"channels={made.channels}", "a texel has 1, 2 or 4 channels")
    shape = list(values.shape)
    if made.channels > 1 and (not shape or shape.pop() != made.channels):
        raise UsageError(f"channels={made.channels}, and the array's shape is {values.shape}",
                         f"the last axis must have {made.channels} elements")  # fmt: skip
    layers = shape.pop(0) if made.layered and shape else 0
    most = 2 if made.layered else 3
    if not 1 <= len(shape) <= most or 0 in shape:
        raise UsageError(f"the array's shape {values.shape} makes no {'layered ' if made.layered else ''}{made.word}",
                         "use (width), (height, width) or (depth, height, width), then the channels")  # fmt: skip
    wanted = {"linear": 1, "pitch2d": 2}.get(made.resource, len(shape))
    if len(shape) != wanted or (made.resource != "array" and made.layered):
        raise UsageError(f"resource={made.resource!r} has {wanted} dimension{'s' if wanted > 1 else ''}, and the "
                         f"array has {len(shape)}", "use resource='array'")  # fmt: skip
    extent = (*reversed(shape), 0, 0)
    texels = Texels(values.dtype, made.channels, (extent[0], extent[1], extent[2]), layers, made.resource)
    if made.resource != "pitch2d":
        return texels
    pitch = -(-texels.row_bytes // _ROW_ALIGNMENT) * _ROW_ALIGNMENT
    return Texels(values.dtype, made.channels, texels.extent, 0, made.resource, pitch)


class PlacedTextures:
    """The textures and surfaces of one launch on a device. Those of one CUDA array share it."""

    def __init__(self, device: SimDevice | CudaDevice) -> None:
        self.device = device
        self._unit: Any = CudaTextures(device) if isinstance(device, CudaDevice) else SimTextures(device)
        self._arrays: dict[tuple[int, str], Any] = {}
        self._allocated: list[int] = []

    def handle(self, name: str, made: Texture, host: HostArray, address: int | None = None) -> int:
        """The object's handle; ``address`` is where the array lies already, if it is also passed as a pointer."""
        texels = texels_of(made, host)
        memory = (
            address if address is not None and made.resource == "linear" else self._memory(name, made, host, texels)
        )
        named = {} if isinstance(self.device, CudaDevice) else {"name": name}
        if made.sampling is None:
            return int(self._unit.surface(texels, memory, **named))
        return int(self._unit.texture(texels, made.sampling, memory, **named))

    def _memory(self, name: str, made: Texture, host: HostArray, texels: Texels) -> Any:
        key = (id(made.array), made.resource)
        if key not in self._arrays:
            image = _image(host, texels)
            if texels.resource == "array":
                named = {} if isinstance(self.device, CudaDevice) else {"name": name}
                self._arrays[key] = self._unit.array(texels, image, **named)
            else:
                base = self.device.allocate(image.nbytes + _BASE_ALIGNMENT)
                self._allocated.append(base)
                start = -(-base // _BASE_ALIGNMENT) * _BASE_ALIGNMENT
                self.device.write(start, image)
                self.device.label(base, name, texels.texel_bytes)
                self._arrays[key] = start
        return self._arrays[key]

    def read(self, made: Texture, host: HostArray) -> Any:
        """The elements of a surface after the launch, in the caller's shape."""
        data = self._unit.read(texels_of(made, host), self._arrays[id(made.array), made.resource])
        return data.view(host.values.dtype).reshape(host.values.shape)

    def free(self) -> None:
        self._unit.free()
        for base in self._allocated:
            self.device.free(base)


def _image(host: HostArray, texels: Texels) -> Any:
    """The texels as they lie in memory, rows on their pitch."""
    rows = np.ascontiguousarray(host.values).reshape(texels.slices * texels.rows, -1).view(np.uint8)
    if rows.shape[1] == texels.row_bytes:
        return rows.reshape(-1)
    image = np.zeros((rows.shape[0], texels.row_bytes), np.uint8)
    image[:, : rows.shape[1]] = rows
    return image.reshape(-1)
