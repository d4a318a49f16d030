"""Arrays of NumPy, torch and CuPy as host values with the strides that a kernel sees, and the way back."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from gemmsmith.errors import DTypeError, UsageError
from gemmsmith.run.tensors import is_torch

Array = NDArray[Any]
# torch's types that NumPy does not have: the type of the same bits that both have, and ml_dtypes' type.
_TORCH_BITS = {"bfloat16": ("int16", ml_dtypes.bfloat16), "float8_e4m3fn": ("uint8", ml_dtypes.float8_e4m3fn),
               "float8_e5m2": ("uint8", ml_dtypes.float8_e5m2)}  # fmt: skip


@dataclass(frozen=True)
class HostArray:
    """The values of an argument on the host.

    values   the elements, in the caller's shape
    strides  bytes from element to element where the caller keeps them: the kernel sees the same layout
    give     makes an array of the caller's library, on the caller's device, of new values
    put      writes new values into the caller's own array
    """

    values: Array
    strides: tuple[int, ...]
    give: Callable[[Array], Any]
    put: Callable[[Array], None]


def is_array(value: Any) -> bool:
    """Whether ``value`` is an array that a pointer can be given."""
    return isinstance(value, np.ndarray) or is_torch(value) or _is_cupy(value)


def host_array(name: str, value: Any) -> HostArray:
    """The values of an array argument; raises with ``name`` for what cannot be passed."""
    if is_torch(value):
        return _torch(name, value)
    if _is_cupy(value):
        return _cupy(value)
    if isinstance(value, np.ma.MaskedArray):
        raise DTypeError(f"{name} is a masked array, and its mask would be ignored", "fill it with .filled(0)")
    if value.dtype.hasobject:
        raise DTypeError(f"{name} holds Python objects, not numbers", "pass an array of numbers")
    if not value.dtype.isnative:
        raise DTypeError(f"{name} has big-endian elements", "convert it with .astype(array.dtype.newbyteorder('='))")
    return HostArray(value, value.strides, lambda new: new, _numpy_put(name, value))


def _numpy_put(name: str, value: Array) -> Callable[[Array], None]:
    def put(new: Array) -> None:
        if not value.flags.writeable:
            raise UsageError(f"{name} cannot be written to", "pass a writable array, or leave inplace out")
        value[...] = new

    return put


def _torch(name: str, value: Any) -> HostArray:
    torch = sys.modules["torch"]
    if value.layout != torch.strided or value.is_quantized:
        raise DTypeError(f"{name} is a {value.layout} tensor", "pass a dense one")
    value = value.detach()
    bits, special = _TORCH_BITS.get(str(value.dtype).removeprefix("torch."), ("", None))
    plain = value.view(getattr(torch, bits)) if bits else value
    on_host = torch.empty_strided(plain.size(), plain.stride(), dtype=plain.dtype)
    on_host.copy_(plain)
    values = on_host.resolve_conj().resolve_neg().numpy()
    values = values.view(special) if special is not None else values

    def give(new: Array) -> Any:
        made = torch.from_numpy(
            np.ascontiguousarray(new).view(getattr(np, bits)) if bits else np.ascontiguousarray(new)
        )
        return made.reshape(value.shape).view(value.dtype).to(value.device)

    return HostArray(values, values.strides, give, lambda new: value.copy_(give(new)))


def _is_cupy(value: Any) -> bool:
    cupy = sys.modules.get("cupy")
    return cupy is not None and isinstance(value, cupy.ndarray)


def _cupy(value: Any) -> HostArray:
    cupy = sys.modules["cupy"]

    def give(new: Array) -> Any:
        with value.device:
            return cupy.asarray(new)

    def put(new: Array) -> None:
        value[...] = give(new)

    return HostArray(cupy.asnumpy(value), tuple(value.strides), give, put)
