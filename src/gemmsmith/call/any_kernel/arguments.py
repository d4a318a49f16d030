"""The arguments of a launch: matched with the kernel's parameters, checked, and packed once memory is allocated."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Any

import numpy as np

from gemmsmith.call.any_kernel.arrays import HostArray, host_array, is_array
from gemmsmith.call.any_kernel.kernel import LaunchKernel, Parameter
from gemmsmith.call.any_kernel.scalars import pack_scalar
from gemmsmith.call.any_kernel.structs import HeldField, holds_arrays, struct_template
from gemmsmith.call.any_kernel.tensor_maps import TensorMapOf
from gemmsmith.call.any_kernel.textures import Texture
from gemmsmith.call.any_kernel.types import OBJECTS, fits, is_tensor_map, with_article
from gemmsmith.errors import DTypeError, UsageError
from gemmsmith.kernel.signature import MAP_BYTES

Arguments = Sequence[Any] | Mapping[str, Any]


@dataclass(frozen=True)
class Argument:
    """One argument: bytes of a scalar, an array, a texture's array, or the arrays of a table of pointers (``float**``).

    ``name`` is the caller's, or else the parameter's. ``writable``: the parameter is no pointer to const.
    ``stores``: the kernel has TMA stores, so that it may write through a tensor map. ``held``: the
    fields of a struct that are arrays or tensor maps, one for each of ``arrays``; the others are in ``data``.
    """

    name: str
    parameter: Parameter
    value: Any
    data: bytes = b""
    arrays: tuple[HostArray, ...] = ()
    is_table: bool = False
    stores: bool = False
    held: tuple[HeldField, ...] = ()

    @property
    def tensor_map(self) -> TensorMapOf | None:
        """The tensor map that this argument is, if it is one."""
        return self.value if isinstance(self.value, TensorMapOf) else None

    @property
    def texture(self) -> Texture | None:
        """The texture or surface that this argument is, if it is one."""
        return self.value if isinstance(self.value, Texture) else None

    @property
    def writable(self) -> bool:
        if self.texture is not None:
            return self.texture.sampling is None
        if self.tensor_map is not None:
            return self.stores
        if self.held:
            return any(map(self.writes, range(len(self.held))))
        return bool(self.arrays) and not self.parameter.type.const

    @property
    def outputs(self) -> tuple[tuple[str, HostArray], ...]:
        """The arrays that the kernel may write, by their names in a result; not those of a table of pointers."""
        if not self.writable:
            return ()
        names = [each.name for each in self.held] or [self.name]
        return tuple(pair for i, pair in enumerate(zip(names, self.arrays, strict=False)) if self.writes(i))

    def writes(self, number: int) -> bool:
        """Whether the kernel may write array ``number`` of ``arrays``."""
        if not self.held:
            return self.writable
        return self.stores or not isinstance(self.held[number].value, TensorMapOf)


def match_arguments(kernel: LaunchKernel, given: Arguments) -> tuple[Argument, ...]:
    """Each argument with its parameter; raises for a wrong count, a wrong name or a wrong type."""
    names, values = _in_order(kernel, given)
    if len(values) != len(kernel.parameters):
        raise UsageError(
            f"{kernel.name} takes {len(kernel.parameters)} arguments, and {len(values)} were given", f"it is {kernel}"
        )
    return tuple(
        _argument(kernel, name or parameter.name, parameter, value)
        for name, parameter, value in zip(names, kernel.parameters, values, strict=True)
    )


def _in_order(kernel: LaunchKernel, given: Arguments) -> tuple[list[str], list[Any]]:
    """Names and values in the order of the parameters.

    The names of a mapping are those of the parameters, in any order; or else names of the caller's own, in the order of
    the parameters.
    """
    if isinstance(given, (str, bytes)) or is_array(given) or not isinstance(given, (Mapping, Sequence)):
        raise UsageError(
            f"args is a {type(given).__name__}", "pass a list with one value for each parameter, or a dict"
        )
    if not isinstance(given, Mapping):
        return [""] * len(given), list(given)
    wanted = [parameter.name for parameter in kernel.parameters]
    in_place = all(name == own or name not in wanted for name, own in zip(given, wanted, strict=False))
    if set(given) != set(wanted) and len(given) == len(wanted) and in_place:
        return list(given), list(given.values())
    lacking, unknown = [name for name in wanted if name not in given], [name for name in given if name not in wanted]
    if unknown:
        near = get_close_matches(unknown[0], lacking, 1, 0.5)
        raise UsageError(
            f"{kernel.name} has no parameter {unknown[0]}, and the arguments are not in its order",
            f"{f'did you mean {near[0]}? ' if near else ''}it is {kernel}",
        )
    if lacking:
        raise UsageError(f"{kernel.name} needs a value for {', '.join(lacking)}", f"it is {kernel}")
    return wanted, [given[name] for name in wanted]


def _argument(kernel: LaunchKernel, name: str, parameter: Parameter, value: Any) -> Argument:
    named = replace(parameter, name=name)
    if isinstance(value, Texture) or parameter.type.base in OBJECTS:
        return _texture(named, parameter, value)
    if isinstance(value, TensorMapOf) or is_tensor_map(parameter.type):
        return _tensor_map(kernel, named, parameter, value)
    by_value = not parameter.is_pointer and (value.ndim == 0 or parameter.type.lanes > 1) if is_array(value) else True
    if not by_value:
        return Argument(name, parameter, value, arrays=(_array(named, value),))
    by_struct = parameter.may_be_struct and isinstance(value, tuple)
    in_table = isinstance(value, (list, tuple)) and bool(value) and all(map(is_array, value))
    if parameter.is_pointer and in_table and not by_struct:
        return _table(named, parameter, value)
    if parameter.is_pointer and (value is None or (isinstance(value, int) and value == 0)):
        return Argument(name, parameter, None, data=bytes(8))
    if parameter.type.pointers:
        kind = "an address" if isinstance(value, (int, np.integer)) else with_article(type(value).__name__)
        raise DTypeError(
            f"{name} is {with_article(str(parameter.type))}, and {kind} was given",
            "pass a NumPy, torch or CuPy array, or None for a null pointer",
        )
    if parameter.address and isinstance(value, (int, float, np.number)):
        raise DTypeError(f"{name} is taken as an address (cvta.to.global), and {value!r} was given",
                         "pass an array: randn(1024,f32), or None for a null pointer")  # fmt: skip
    if holds_arrays(value):
        return _struct(kernel, named, parameter, value)
    if value is None:
        raise DTypeError(f"{name} is {with_article(str(parameter.type))}, and None was given", "None is a null pointer")
    return Argument(name, parameter, value, data=pack_scalar(named, value, parameter.type.base in kernel.enums))


def _struct(kernel: LaunchKernel, named: Parameter, parameter: Parameter, fields: tuple[Any, ...]) -> Argument:
    """A struct by value that holds pointers or tensor maps, given as the fields."""
    data, held = struct_template(named.name, fields, parameter.size)
    arrays = tuple(host_array(each.name, each.array) for each in held)
    return Argument(named.name, parameter, fields, data, arrays, stores=kernel.has_tensor_stores, held=held)


def _texture(named: Parameter, parameter: Parameter, value: Any) -> Argument:
    """A texture or surface, or the raw bytes of a handle."""
    wanted = OBJECTS.get(parameter.type.base, "")
    shown = f"{named.name} is {with_article(str(parameter.type))}"
    if not isinstance(value, Texture):
        if isinstance(value, bytes) and len(value) == parameter.size:
            return Argument(named.name, parameter, value, data=value)
        given = "an array" if is_array(value) else with_article(type(value).__name__)
        raise DTypeError(f"{shown}, and {given} was given", f"pass gemmsmith.{wanted}({named.name})")
    if parameter.type.pointers or parameter.size != 8:
        raise DTypeError(f"{shown}, and a {value.word} was given", "a texture or surface object has 8 bytes, by value")
    if wanted not in ("", value.word):
        raise DTypeError(f"{shown}, and a {value.word} was given", f"pass gemmsmith.{wanted}({named.name})")
    return Argument(named.name, parameter, value, arrays=(host_array(named.name, value.array),))


def _tensor_map(kernel: LaunchKernel, named: Parameter, parameter: Parameter, value: Any) -> Argument:
    """A tensor map, by value or by pointer; the raw bytes of one; a null pointer; or room for maps, as bytes."""
    shown = f"{named.name} is {with_article(str(parameter.type))}"
    if isinstance(value, TensorMapOf):
        if not parameter.is_pointer and parameter.size != MAP_BYTES:
            raise DTypeError(
                f"{shown}, and a tensor map was given", f"a tensor map has {MAP_BYTES} bytes, or is pointed to"
            )
        return Argument(named.name, parameter, value, arrays=(host_array(named.name, value.array),),
                        stores=kernel.has_tensor_stores)  # fmt: skip
    if isinstance(value, bytes) and len(value) == parameter.size:
        return Argument(named.name, parameter, value, data=value)
    if parameter.is_pointer and value is None:
        return Argument(named.name, parameter, None, data=bytes(8))
    if parameter.is_pointer and is_array(value):  # room for maps that the kernel makes
        host = host_array(named.name, value)
        if host.values.dtype == np.uint8 and host.values.size % MAP_BYTES == 0:
            return Argument(named.name, parameter, value, arrays=(host,))
    given = "an array" if is_array(value) else with_article(type(value).__name__)
    raise DTypeError(f"{shown}, and {given} was given", f"pass gemmsmith.tensor_map({named.name}, box=(…))")


def _array(parameter: Parameter, value: Any) -> HostArray:
    kind = parameter.type
    shown = f"{parameter.name} is {with_article(str(kind))}" if kind.known else str(parameter)
    if not parameter.is_pointer:
        raise DTypeError(f"{shown}, passed by value, and an array was given", "pass one value")
    if kind.pointers > 1:
        raise DTypeError(f"{shown}, and an array was given", "pass a list of arrays")
    host = host_array(parameter.name, value)
    if not fits(kind, host.values.dtype):
        raise DTypeError(
            f"{shown}, and an array of {host.values.dtype} was given",
            f"pass one of {kind.element}, for example {parameter.name}.astype({_numpy_name(kind.element)})",
        )
    return host


def _numpy_name(dtype: Any) -> str:
    return f"np.{dtype}" if hasattr(np, str(dtype)) else f"ml_dtypes.{dtype}"


def _table(named: Parameter, parameter: Parameter, values: Sequence[Any]) -> Argument:
    """A table of pointers, one to each array."""
    kind = parameter.type
    if kind.pointers == 1:
        raise DTypeError(
            f"{named.name} is {with_article(str(kind))}, and {len(values)} arrays were given", "pass one array"
        )
    inner = Parameter(named.name, type(kind)(kind.base, 1, kind.const, kind.known), 8)
    arrays = tuple(_array(Parameter(f"{named.name}[{i}]", inner.type, 8), each) for i, each in enumerate(values))
    return Argument(named.name, parameter, values, arrays=arrays, is_table=True)
