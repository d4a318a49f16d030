"""Frozen dataclasses as JSON and back, by their declared types.

Only the types that a dataclass declares are made of what is read, so that a result from another machine can hold data
but no code. Floating-point numbers keep all their bits; NaN and infinities are strings.
"""

from __future__ import annotations

import base64
import math
import types
import typing
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from gemmsmith.errors import GemmsmithError
from gemmsmith.problem import DType, stored_dtype

_T = TypeVar("_T")
_NUMBERS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


class CodecError(GemmsmithError):
    """A value that has no place in its declared type: of another version, or damaged."""


def encode(value: Any) -> Any:
    """``value`` as JSON types."""
    if isinstance(value, Enum):
        return encode(value.value)
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else str(float(value))
    if isinstance(value, (bytes, np.ndarray)):
        return _encode_bytes(value)
    if isinstance(value, DType):
        return value.name
    if isinstance(value, Path):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: encode(getattr(value, field.name)) for field in fields(value) if field.init}
    if isinstance(value, Mapping):
        return [[encode(key), encode(each)] for key, each in value.items()]
    if isinstance(value, (Sequence, set, frozenset)):
        return [encode(each) for each in value]
    if isinstance(value, np.generic):
        return encode(value.item())
    raise CodecError(f"a {type(value).__name__} cannot be sent between machines")


def _encode_bytes(value: bytes | np.ndarray[Any, Any]) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    data = base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()
    return {"dtype": value.dtype.str, "shape": list(value.shape), "data": data}


def decode(kind: type[_T], data: Any) -> _T:
    """The value of type ``kind`` that ``encode`` made ``data`` of; raises ``CodecError`` for anything else."""
    try:
        return typing.cast(_T, _decode(kind, data))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CodecError(f"this is no {getattr(kind, '__name__', kind)}: {error}",
                         "use the same version of gemmsmith on all machines") from None  # fmt: skip


def _decode(kind: Any, data: Any) -> Any:
    if kind is Any:
        return data
    origin = typing.get_origin(kind)
    for alias in (kind, origin):  # "type X = …" of Python 3.12, as newer NumPy has NDArray
        if type(alias).__name__ == "TypeAliasType":
            return _decode(alias.__value__, data)
    if origin in (typing.Union, types.UnionType):
        return _decode_union(typing.get_args(kind), data)
    if origin is not None:
        return _decode_container(origin, typing.get_args(kind), data)
    if kind is types.NoneType:
        return None
    if kind is float:
        return _number(data)
    if kind in (bool, int):
        return _of_type(data, kind)
    if kind is DType:
        return stored_dtype(_of_type(data, str))
    if kind is bytes:
        return base64.b64decode(data, validate=True)
    if kind is np.ndarray:
        flat = np.frombuffer(base64.b64decode(data["data"], validate=True), np.dtype(data["dtype"]))
        return flat.reshape(data["shape"]).copy()
    if is_dataclass(kind):
        hints = _hints(typing.cast(type, kind))
        return typing.cast(Any, kind)(**{name: _decode(hints[name], value) for name, value in data.items()})
    if issubclass(kind, (Enum, str, Path)):
        return kind(_of_type(data, str) if not issubclass(kind, Enum) else data)
    raise TypeError(f"no way to read a {kind}")


def _number(data: Any) -> float:
    """A whole number stays one: counts are declared as float and printed as they are."""
    if isinstance(data, str):
        return _NUMBERS[data]
    if isinstance(data, bool) or not isinstance(data, (int, float)):
        raise TypeError(f"{data!r} is not a number")
    return data


def _of_type(data: Any, kind: type) -> Any:
    if type(data) is not kind:
        raise TypeError(f"{data!r} is not {kind.__name__}")
    return data


def _decode_union(kinds: tuple[Any, ...], data: Any) -> Any:
    if data is None and types.NoneType in kinds:
        return None
    rest = [kind for kind in kinds if kind is not types.NoneType]
    for kind in rest[:-1]:
        try:
            return _decode(kind, data)
        except (AttributeError, KeyError, TypeError, ValueError):
            continue
    return _decode(rest[-1], data)


def _decode_container(origin: Any, kinds: tuple[Any, ...], data: Any) -> Any:
    if origin is np.ndarray:
        return _decode(np.ndarray, data)
    if issubclass(origin, Counter):
        return Counter({_decode(kinds[0], key): value for key, value in data})
    if issubclass(origin, Mapping) or origin in (dict,):
        return {_decode(kinds[0], key): _decode(kinds[1], value) for key, value in data}
    if origin is tuple and kinds[-1:] != (...,):
        return tuple(_decode(kind, value) for kind, value in zip(kinds, data, strict=True))
    items = [_decode(kinds[0], value) for value in data]
    return items if origin in (list, Sequence) or not issubclass(origin, (tuple, set, frozenset)) else origin(items)


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)
