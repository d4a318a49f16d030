"""The lanes of a wave: which thread of which block each one is, and its registers.

A *lane* is one thread of one block. Registers are rows of four arrays, by width; a set of lanes is a slice or an array
of lane numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.sim.bundle import Operand
from gemmsmith.sim.lower import FILE_DTYPES, Lowered
from gemmsmith.sim.wavefronts import WARP, warp_rows

Array = NDArray[Any]
Lanes = Array | slice
ALL = slice(None)
# What a register holds before it is written: a NaN in every floating type, so that a sum which starts from it shows.
_UNSET = {"p": False, "h": 0x7ECD, "w": 0x7FCDCDCD, "d": 0x7FFCCDCDCDCDCDCD}


@dataclass(frozen=True)
class Wave:
    """Which blocks run together, and the launch they belong to."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    blocks: Array
    shared_size: int
    parameters: bytes

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def lanes(self) -> int:
        return self.threads * len(self.blocks)


class WaveState:
    """Registers and numbering of one wave's lanes."""

    def __init__(self, lowered: Lowered, wave: Wave) -> None:
        self.lowered, self.wave = lowered, wave
        self.files = {f: np.full((h, wave.lanes), _UNSET[f], FILE_DTYPES[f]) for f, h in lowered.heights.items()}
        self.thread = np.tile(np.arange(wave.threads), len(wave.blocks))
        self.block = np.repeat(np.arange(len(wave.blocks)), wave.threads)
        self.warps_per_block = -(-wave.threads // WARP)
        self.warp = self.block * self.warps_per_block + self.thread // WARP
        self._fill_special()

    def _fill_special(self) -> None:
        words, rows = self.files["w"], self.lowered.special
        for name, size, index in (("tid", self.wave.block, self.thread), ("ctaid", self.wave.grid, None)):
            linear = self.wave.blocks[self.block] if index is None else index
            words[rows[f"%{name}.x"]] = linear % size[0]
            words[rows[f"%{name}.y"]] = linear // size[0] % size[1]
            words[rows[f"%{name}.z"]] = linear // (size[0] * size[1])
            for axis, extent in zip("xyz", size, strict=True):
                words[rows[f"%n{name}.{axis}"]] = extent
        words[rows["%laneid"]] = self.thread % WARP
        words[rows["%warpid"]] = self.thread // WARP

    def indices(self, lanes: Lanes) -> Array:
        """Lane numbers of a set of lanes."""
        return np.arange(self.wave.lanes)[lanes] if isinstance(lanes, slice) else lanes

    def warps_of(self, lanes: Lanes) -> tuple[int, int]:
        """How many warps have a lane in this set, and how many lanes it has."""
        if isinstance(lanes, slice) and lanes == ALL:
            return self.warps_per_block * len(self.wave.blocks), self.wave.lanes
        warps = self.warp[lanes]
        return np.unique(warps).size, warps.size

    def whole_warps(self, lanes: Lanes) -> bool:
        """Whether this set of lanes has all 32 lanes of each of its warps."""
        if self.wave.threads % WARP:
            return bool((np.bincount(self.warp[lanes]) % WARP == 0).all())
        if isinstance(lanes, slice):
            start, stop, _ = lanes.indices(self.wave.lanes)
            return start % WARP == 0 and stop % WARP == 0
        if lanes.size % WARP:
            return False
        first = lanes[::WARP]  # lanes are in order
        return bool((first % WARP == 0).all() and (lanes[WARP - 1 :: WARP] - first == WARP - 1).all())

    def warp_rows(self, lanes: Lanes, values: Array) -> Array:
        """Values of these lanes, one row of 32 a warp, −1 where a lane is inactive."""
        warps = self.warps_per_block * len(self.wave.blocks)
        return warp_rows(self.warp[lanes], self.thread[lanes] % WARP, warps, values)

    def _compact(self, lanes: Array) -> Lanes:
        return ALL if lanes.size == self.wave.lanes else compact(lanes)

    def fetch(self, operand: Operand, lanes: Lanes) -> Any:
        """An operand's values: one row a lane, or one row an operation of the bundle."""
        if operand.constant is not None:
            return operand.constant
        rows, table = operand.rows, self.files[operand.file]
        narrow = operand.dtype.itemsize != table.dtype.itemsize
        if not narrow and operand.file != "p":
            table = table.view(operand.dtype)
        if isinstance(rows, np.ndarray) and isinstance(lanes, np.ndarray):
            values = table[rows[:, None], lanes]
        elif isinstance(rows, int):
            values = table[rows][lanes]
        else:
            values = table[rows, lanes]
        return values.astype(operand.dtype) if narrow and operand.file != "p" else values

    def put(self, operand: Operand, lanes: Lanes, values: Any) -> None:
        """Write results; a value narrower than its register is extended by its own sign."""
        rows, table = operand.rows, self.files[operand.file]
        if operand.file != "p":
            if operand.dtype.itemsize == table.dtype.itemsize:
                table = table.view(operand.dtype)
            else:
                values = np.asarray(values).astype(f"{operand.dtype.kind}{table.dtype.itemsize}").view(table.dtype)
        if isinstance(rows, np.ndarray) and isinstance(lanes, np.ndarray):
            table[rows[:, None], lanes] = values
        else:
            table[rows, lanes] = values


def compact(lanes: Array) -> Lanes:
    """A slice where the lanes are consecutive, which NumPy handles without copying."""
    if lanes.size and int(lanes[-1]) - int(lanes[0]) + 1 == lanes.size:
        return slice(int(lanes[0]), int(lanes[-1]) + 1)
    return lanes
