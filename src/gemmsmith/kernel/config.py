"""The open constants of a kernel, and a value for each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True)
class Parameter:
    """One open constant of a kernel, passed by name as ``-DNAME=value``."""

    name: str
    default: int
    legal: tuple[int, ...]
    meaning: str


@dataclass(frozen=True)
class Config:
    """Values for all parameters of one kernel, in the order the kernel declares them."""

    values: tuple[tuple[str, int], ...] = ()

    def __getitem__(self, name: str) -> int:
        for key, value in self.values:
            if key == name:
                return value
        raise KeyError(name)

    def __iter__(self) -> Iterator[tuple[str, int]]:
        return iter(self.values)

    def __str__(self) -> str:
        return ",".join(f"{name}={value}" for name, value in self.values)


@dataclass(frozen=True)
class Preset:
    """A configuration with a name and the place it was published."""

    name: str
    config: Config
    published: str
