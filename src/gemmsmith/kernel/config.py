"""The open constants of a kernel, and a value for each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class Parameter:
    """One open constant of a kernel, passed by name as ``-DNAME=value``.

    ``value_names`` are words for values that are choices rather than sizes: (2, 'tma').
    """

    name: str
    default: int
    legal: tuple[int, ...]
    meaning: str
    value_names: tuple[tuple[int, str], ...] = ()

    def value_named(self, word: str) -> int | None:
        """The value that has this name; None if none has."""
        return {name: value for value, name in self.value_names}.get(word)

    def shown(self, value: int) -> str:
        """The value for people: '2 (tma)' if it has a name, else '128'."""
        name = dict(self.value_names).get(value)
        return str(value) if name is None else f"{value} ({name})"


@dataclass(frozen=True)
class Config:
    """Values for all parameters of one kernel, in the order the kernel declares them."""

    values: tuple[tuple[str, int], ...] = ()

    @cached_property
    def by_name(self) -> dict[str, int]:
        """The values in a dictionary, which formulas are evaluated with."""
        return dict(self.values)

    def __getitem__(self, name: str) -> int:
        return self.by_name[name]

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return iter(self.values)

    def __str__(self) -> str:
        return ",".join(f"{name}={value}" for name, value in self.values)

    def get(self, name: str, default: int) -> int:
        """The value of ``name``, or ``default`` if the kernel has no such parameter."""
        return self.by_name.get(name, default)

    def with_(self, **changes: int) -> Config:
        """The same with other values; names that the kernel does not have are ignored."""
        return Config(tuple((name, changes.get(name, value)) for name, value in self.values))


@dataclass(frozen=True)
class Preset:
    """A configuration with a name and the place it was published."""

    name: str
    config: Config
    published: str
