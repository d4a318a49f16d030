"""Arguments for a kernel whose parameters' meanings are not known: large arrays, and numbers by their sizes.

Real numbers are random. Integers that choose what a block does must be such as a meaningful array has:

    an array that the kernel writes  zeros: counters, flags and locks start so
    an array read at i and at i + 1  offsets, which rise by a few elements each time, or by whole tiles
    other arrays of integers         0, 1, 2, …: in order, small, and all different, as a permutation is
    structs of numbers               the same for each of their integers
    structs that point to arrays     all the same, their integers by their sizes
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.call.any_kernel.kernel import LaunchKernel, Parameter
from gemmsmith.call.any_kernel.structs import holds_arrays, struct_template
from gemmsmith.call.any_kernel.symbols import Symbol
from gemmsmith.call.any_kernel.types import CType, parse_type
from gemmsmith.errors import UnsupportedError
from gemmsmith.userfile.kernels.struct_parameters import StructField, struct_fields
from gemmsmith.userfile.launches.made_up_launch import MadeUpLaunch
from gemmsmith.userfile.text.source import read_text
from gemmsmith.verify.code.written import written_parameters

_ELEMENTS = 1 << 21  # of an array: three extents of 128
_TABLE = 64  # arrays of a table of pointers
_PERIOD = 4099  # elements after which random numbers repeat; a prime, so that rows differ
_LENGTHS = (5, 11, 3, 8, 13, 2, 7, 16)  # between offsets: some are whole tiles, most are not
_WHOLE = 64
_PADDED = re.compile(r"\bpad(?:s|ded|ding)?\b|\bmultiples?\b|\balign", re.I)
_CONSTANT_ARRAY = re.compile(r"\.const\s+\.align\s+\d+\s+\.b8\s+([\w$]+)\[(\d+)\];")  # without values
_NUMBER = 1.0  # for a real number that host code does not tell

Array = NDArray[Any]


Place = Callable[[Array], int]
"""Puts an array into the device's memory, and tells its address."""


@dataclass(frozen=True)
class ArgumentMaker:
    """Makes the arguments of ``kernel``; ``launch`` says how its parameters are called, and what host code passes."""

    kernel: LaunchKernel
    launch: MadeUpLaunch

    @cached_property
    def integers(self) -> tuple[str, ...]:
        """The numbers whose values are made up, "p.K" of a struct; also of structs in memory that describe arrays."""
        leaves = [(flat.type, flat.name) for flat in self.launch.parameters]
        for flat in self.launch.parameters:
            leaves += [leaf for field in self._pointed(flat.type) for leaf in field.leaves(flat.name)]
        return tuple(name for text, name in leaves if self._is_integer(self._type(text)))

    def values(self, sizes: Mapping[str, int], place: Place) -> list[Any]:
        """A value for each parameter; raises for what cannot be made up."""
        return [self._value(number, parameter, sizes, place) for number, parameter in enumerate(self.kernel.parameters)]

    @cached_property
    def constants(self) -> tuple[Symbol, ...]:
        """Arrays in constant memory that host code sets: integers as in other arrays."""
        found = _CONSTANT_ARRAY.findall(self.kernel.compiled.ptx)
        return tuple(Symbol(name, name, _counting(np.dtype(np.int32), int(size) // 4)) for name, size in found)

    def _is_integer(self, kind: CType) -> bool:
        return not kind.pointers and kind.element is not None and kind.element.kind in "iu" and kind.lanes == 1

    def _type(self, text: str) -> CType:
        aliases, kind = self._aliases, parse_type(text)
        for _ in range(8):  # an alias of an alias
            if kind.element is not None or kind.base not in aliases:
                break
            real = parse_type(aliases[kind.base])
            kind = CType(real.base, kind.pointers + real.pointers, kind.const or real.const)
        return kind

    @cached_property
    def _aliases(self) -> Mapping[str, str]:
        return self.launch.facts.aliases(self.launch.template)

    def _pointed(self, text: str) -> tuple[StructField, ...]:
        """The fields of the struct that a parameter points to, if it describes arrays: it has pointers and numbers."""
        kind = self._type(text)
        fields = struct_fields(kind.base, self.launch.facts.sources, self._aliases) if kind.pointers == 1 else ()
        return fields if any("*" in text for field in fields for text, _ in field.leaves("")) else ()

    def _value(self, number: int, parameter: Parameter, sizes: Mapping[str, int], place: Place) -> Any:
        declared = self.launch.facts.kernel.parameters[number]
        fields = struct_fields(declared.type, self.launch.facts.sources, self._aliases)
        if fields:
            made = self._struct(declared.name, fields, sizes)
            return made if holds_arrays(made) else struct_template(parameter.name, made, parameter.size)[0]
        kind = parameter.type if parameter.type.known else self._type(declared.type)
        if kind.pointers and (pointed := self._pointed(declared.type)):
            return self._described(declared.name, pointed, sizes, place)
        if parameter.size == 1 and not parameter.type.element:  # a function object without members
            return bytes(1)
        value = self._array(declared.name, kind) if kind.pointers else self._number(declared.name, kind, sizes)
        return [value] * _TABLE if kind.pointers > 1 else value

    def _struct(self, owner: str, fields: Sequence[StructField], sizes: Mapping[str, int]) -> tuple[Any, ...]:
        """A struct by value, field by field."""
        made: list[Any] = []
        for field in fields:
            name, kind = f"{owner}.{field.name}", self._type(field.type)
            if kind.pointers > 1:
                raise UnsupportedError(f"{name} is a table in a struct")
            if field.inside:
                made.append(self._struct(name, field.inside, sizes))
            else:
                made.append(self._array(name, kind) if kind.pointers else self._number(name, kind, sizes))
        return tuple(made)

    def _described(self, name: str, fields: Sequence[StructField], sizes: Mapping[str, int], place: Place) -> Array:
        """An array of structs in memory that are all the same, and point to arrays."""
        data, held = struct_template(name, self._struct(name, fields, sizes))
        one = bytearray(data)
        for each in held:
            one[each.at : each.at + 8] = place(each.array).to_bytes(8, "little")
        return np.frombuffer(bytes(one) * _TABLE, np.uint8).copy()

    def _number(self, name: str, kind: CType, sizes: Mapping[str, int]) -> Any:
        if kind.element is None:
            raise UnsupportedError(f"{name} is a {kind}")
        if kind.lanes > 1:
            return np.ones(kind.lanes, kind.element)
        if kind.element.kind in "iu":
            low, high = np.iinfo(kind.element).min, np.iinfo(kind.element).max
            return kind.element.type(min(max(int(self.launch.passed(name, sizes)), low), high))
        told = self.launch.told(name)
        return kind.element.type(float(told) if told is not None else _NUMBER)

    # --- arrays

    def _array(self, name: str, kind: CType) -> Array:
        element = kind.element
        if element is None:
            return self._structs(name, kind)
        if element.kind not in "iu":
            return _random(element, _ELEMENTS)
        if not kind.const and self._is_written(name):
            return np.zeros(_ELEMENTS, element)
        return self._offsets(element) if self._holds_offsets(name) else _counting(element, _ELEMENTS)

    @cached_property
    def _written(self) -> set[str]:
        compiled, parameters = self.kernel.compiled, self.launch.facts.kernel.parameters
        return {parameters[number].name for number in written_parameters(compiled.ptx, compiled.entry)}

    def _is_written(self, name: str) -> bool:
        """Whether the kernel may store to an array: a parameter's by its code, a struct's by its text."""
        if "." not in name:
            return name in self._written
        last = re.escape(name.rpartition(".")[2])
        text = self.launch.facts.reached
        stores = rf"\b{last}\s*\[[^;]*?\]\s*(?:[-+*|&^]?=(?!=)|\+\+|--)|\*\s*\(?[\w.>-]*\b{last}\b[^;]*?=(?!=)"
        shares = rf"\b(?:atomic\w+|volatile|ld_acquire\w*|st_release\w*)\b[^;]*\b{last}\b"
        return re.search(stores, text) is not None or re.search(shares, text) is not None

    def _holds_offsets(self, name: str) -> bool:
        """Whether the kernel reads the array at some place and at the next one: where a part begins and ends."""
        last = re.escape(name.rpartition(".")[2])
        return re.search(rf"\b{last}\s*\[[^\]]*\+\s*1\s*\]", self.launch.facts.reached) is not None

    def _offsets(self, element: np.dtype[Any]) -> Array:
        """Offsets that rise by ragged lengths; by whole tiles where the file has a word for that."""
        text = read_text(self.launch.facts.kernel.file)
        lengths = np.resize(np.array([_WHOLE] if _PADDED.search(text) else _LENGTHS), _ELEMENTS)
        return np.concatenate(([0], np.cumsum(lengths)[:-1])).astype(element)

    def _structs(self, name: str, kind: CType) -> Array:
        """An array of structs of numbers."""
        if kind.base == "void":
            return _random(np.dtype(np.uint8), 4 * _ELEMENTS)
        leaves = [leaf for field in struct_fields(kind.base, self.launch.facts.sources, self._aliases)
                  for leaf in field.leaves(name)]  # fmt: skip
        fields = [self._type(text) for text, _ in leaves]
        elements = [each.element for each in fields if not each.pointers and each.lanes == 1]
        if not fields or len(elements) < len(fields) or None in elements:
            raise UnsupportedError(f"{name} points to {kind.base}")
        layout = np.dtype([(f"f{i}", each) for i, each in enumerate(elements)], align=True)
        made = np.zeros(_ELEMENTS // 16, layout)
        for i, each in enumerate(elements):
            assert each is not None
            made[f"f{i}"] = _counting(each, made.size) if each.kind in "iu" else _random(each, made.size)
        return made.view(np.uint8)


def _random(element: np.dtype[Any], count: int) -> Array:
    """Random numbers between -1 and 1, or truth values."""
    generator = np.random.default_rng(0)
    if element.kind == "b" or element.itemsize == 1:
        period: Array = generator.integers(0, 2 if element.kind == "b" else 64, _PERIOD).astype(np.uint8)
        return np.resize(period, count).view(element)
    return np.resize(generator.uniform(-1, 1, _PERIOD).astype(element), count)


def _counting(element: np.dtype[Any], count: int) -> Array:
    return np.arange(count).astype(element)
