"""Sizes for a kernel whose parameters' meanings are not known.

A race in shared memory counts if it is there with two sets of sizes in which every number differs that is made up:

    what bounds a loop over tiles    four tiles or more
    what bounds a loop over items    a few
    what the grid has tiles of       whole tiles
    everything else                  small, and smaller: a rank or a group, which an array in shared memory may limit

A tile is a multiple of the kernel's own constants. Numbers that host code passes keep their values, and conditions of
host code are met.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from gemmsmith.userfile.kernels.tile_loops import TileLoops, tile_loops, waiting_functions
from gemmsmith.userfile.launches.made_up_launch import MadeUpLaunch

_LEAST_TILE, _LARGEST_TILE = 64, 192
_LEAST_SIDE = 16  # of a tile: smaller constants count stages, warps or elements of a vector
_OF_SIDES = 8  # which divides the sides of tiles
_LARGEST_TOLD = 1024  # a number that host code passes and that the simulator can afford
_MOST_CONDITIONS = 8
_ALLOWED = (1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256, 320, 384, 512, 640, 768, 1024)

Sizes = dict[str, int]


@dataclass(frozen=True)
class _Level:
    """How large numbers are: as many tiles, what bounds loops over ``tiles`` and what the ``grid`` has tiles of; else
    as they are."""

    tiles: int
    items: int
    grid: int
    others: int


# The first set, and the second ones: the first of them that does something counts.
_LEVELS = (
    (_Level(4, 8, 2, 16), (_Level(5, 12, 1, 2), _Level(3, 6, 1, 2), _Level(5, 12, 1, 8))),
    (_Level(4, 8, 2, 64), (_Level(5, 12, 1, 16), _Level(3, 6, 1, 16), _Level(5, 12, 1, 32))),
    (_Level(2, 4, 1, 16), (_Level(3, 6, 2, 2), _Level(3, 6, 2, 8))),
)


@dataclass(frozen=True)
class SizeSets:
    """The sets of sizes of a launch; ``integers`` are the names of its numbers."""

    launch: MadeUpLaunch
    integers: tuple[str, ...]

    def pairs(self) -> Iterator[tuple[Sizes, tuple[Sizes, ...]]]:
        """A first set, and the second ones that go with it."""
        for first, others in _LEVELS:
            if (sizes := self._sizes(first)) is not None:
                seconds = [self._unlike(sizes, each) for level in others if (each := self._sizes(level)) is not None]
                yield sizes, tuple(each for i, each in enumerate(seconds) if each not in seconds[:i])

    @property
    def all_told(self) -> bool:
        """Whether host code passes every number."""
        return bool(self.integers) and all(name in self._told for name in self.integers)

    @cached_property
    def tile(self) -> int:
        """A multiple of the sides of tiles that the kernel's text and constants show."""
        text, tile = self.launch.facts.reached, 1
        words = set(re.findall(r"[A-Za-z_]\w*", text))
        values = {int(value) for name, value in self.launch.constants.items() if name in words}
        values |= {int(number) for number in re.findall(r"(?:[*/%]|\+=)\s*(\d+)\b", text)}
        for value in sorted(values):
            if not _LEAST_SIDE <= value <= _LARGEST_TILE or value % _OF_SIDES:
                continue
            if math.lcm(tile, value) <= _LARGEST_TILE:
                tile = math.lcm(tile, value)
        return tile * -(-_LEAST_TILE // tile)

    @cached_property
    def _told(self) -> Mapping[str, int]:
        told = {name: self.launch.told(name) for name in self.integers}
        return {
            name: int(value)
            for name, value in told.items()
            if value is not None and -_LARGEST_TOLD <= value <= _LARGEST_TOLD
        }

    @cached_property
    def _loops(self) -> TileLoops:
        facts = self.launch.facts
        functions = (each for source in facts.sources for each in source.functions)
        return tile_loops(facts.reached, waiting_functions(functions))

    @cached_property
    def _in_tiles(self) -> frozenset[str]:
        sizes = dict.fromkeys(self.integers, self.tile)
        return frozenset(name for name in self.integers if self.launch.in_tiles(name, sizes))

    def _sizes(self, level: _Level) -> Sizes | None:
        """The sizes of a level; None where host code's conditions are not met by any like them."""
        sizes = {name: self._size(name, level) for name in self.integers}
        first = self.launch.same_value(sizes)
        for name, size in list(sizes.items()):  # the largest of those that one variable is passed for
            sizes[first[name]] = max(sizes[first[name]], size)
        sizes = {name: sizes[first[name]] for name in sizes} | dict(self._told)
        return self._allowed(sizes, first)

    def _size(self, name: str, level: _Level) -> int:
        if self._loops.walks_tiles(name):
            return level.tiles * self.tile
        if self._loops.walks_items(name):
            return level.items
        return level.grid * self.tile if name in self._in_tiles else level.others

    def _allowed(self, sizes: Sizes, first: Mapping[str, str]) -> Sizes | None:
        """The same sizes, with the nearest others where a condition of host code excludes them; None: none is found."""
        for _ in range(_MOST_CONDITIONS):
            condition = self.launch.excludes(sizes)
            if not condition:
                return sizes
            changed = self._meeting(condition, sizes, first)
            if changed is None:
                return None
            sizes = changed
        return None

    def _meeting(self, condition: str, sizes: Sizes, first: Mapping[str, str]) -> Sizes | None:
        words = set(re.findall(r"[A-Za-z_]\w*", condition))
        named = {first[name] for name in sizes if name not in self._told and words & self._called(name)}
        for changed in sorted(named, key=lambda name: (self._loops.walks_tiles(name), name)):
            own = sizes[changed]
            for _, value in sorted((abs(value - own), value) for value in _ALLOWED):
                tried = {name: value if first[name] == changed else size for name, size in sizes.items()}
                if self.launch.excludes(tried) != condition:
                    return tried
        return None

    def _unlike(self, first: Sizes, second: Sizes) -> Sizes:
        """The second sizes, with others in place of those that conditions of host code made the same as in the
        first."""
        same = self.launch.same_value(second)
        for name in second:
            if second[name] != first[name] or name in self._told:
                continue
            for _, value in sorted((abs(value - first[name]), value) for value in _ALLOWED if value != first[name]):
                tried = {each: value if same[each] == same[name] else size for each, size in second.items()}
                if not self.launch.excludes(tried):
                    second = tried
                    break
        return second

    def _called(self, name: str) -> set[str]:
        """What a number is called by the kernel and by host code."""
        return {name.rpartition(".")[2], *re.findall(r"[A-Za-z_]\w*", self.launch.arguments.get(name, ""))}
