"""The lanes of a wave: which thread of which block each one is, and its registers.

A *lane* is one thread of one block. Registers are rows of four arrays, by width. A set of lanes is a slice or an array
of lane numbers in ascending order.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gemmsmith.sim.bundle import Operand, Pointers
from gemmsmith.sim.lowering.operation import FILE_DTYPES, Lowered
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.races.lane_runs import RunsOfLanes
from gemmsmith.sim.special import Place
from gemmsmith.sim.wave import WARP, Size, Wave, coordinates
from gemmsmith.sim.wavefronts import warp_rows

Lanes = Array | slice
ALL = slice(None)
_SETS_KEPT = 256
# A register's content before it is written: a NaN in every floating type, so that using it shows in the result.
_UNSET = {"p": False, "h": 0x7ECD, "w": 0x7FCDCDCD, "d": 0x7FFCCDCDCDCDCDCD}


_View = tuple[Operand, Lanes, Array, tuple[int, ...] | None]
"""Registers as an operand has them for some lanes; of lanes that are runs, with the form that their values have."""


class WaveState:
    """Registers and numbering of one wave's lanes."""

    def __init__(self, lowered: Lowered, wave: Wave) -> None:
        self.lowered, self.wave = lowered, wave
        self.files = {f: _rows(h, wave, f) for f, h in lowered.heights.items()}
        self.every = np.arange(wave.lanes)
        self.alive = np.ones(wave.lanes, bool)
        self.time = 0  # steps that the running lanes have taken
        self.trail: list[Any] = []  # ends of loops that lanes came to, a spots.BackEdge each
        self._counted: tuple[Lanes, tuple[int, int]] = ALL, (0, 0)  # the lanes that ``warps_of`` counted last
        self._whole: tuple[Lanes, bool] = slice(0), True  # and those that ``whole_warps`` looked at
        self._sets: dict[Any, Lanes] = {}
        self._runs = RunsOfLanes(wave.lanes, wave.threads)
        # Registers as seen last by an operand, and predicates by their row: the lanes and a view. Loops see them again.
        self._views: dict[int, _View] = {}
        self._predicates: dict[int, tuple[slice, Array]] = {}
        self.thread = np.tile(np.arange(wave.threads), len(wave.blocks))
        self.block = np.repeat(np.arange(len(wave.blocks)), wave.threads)
        self.warps_per_block = -(-wave.threads // WARP)
        self.warp = self.block * self.warps_per_block + self.thread // WARP
        place = Place(wave, self.thread, wave.blocks[self.block])
        for name, slot in lowered.special.items():
            self.files[slot.file][slot.row] = lowered.special_value(name)(place)

    # -- sets of lanes ----------------------------------------------------------------------------

    def indices(self, lanes: Lanes) -> Array:
        """Lane numbers of a set of lanes."""
        return self.every[lanes] if isinstance(lanes, slice) else lanes

    def same_lanes(self, lanes: Lanes) -> Lanes:
        """The set of these lanes as one object, however often they part and meet: what is kept by set is found."""
        key = (lanes.start, lanes.stop) if isinstance(lanes, slice) else lanes.tobytes()
        if len(self._sets) >= _SETS_KEPT:
            self._sets.clear()
        return self._sets.setdefault(key, lanes)

    def warps_of(self, lanes: Lanes) -> tuple[int, int]:
        """How many warps have a lane in this set, and how many lanes it has."""
        if isinstance(lanes, slice) and lanes == ALL:
            return self.warps_per_block * len(self.wave.blocks), self.wave.lanes
        if lanes is not self._counted[0]:  # lanes that go together stay one object until they part or meet others
            warps = self.warp[lanes]  # in ascending order
            count = int(np.count_nonzero(warps[1:] != warps[:-1])) + 1 if warps.size else 0
            self._counted = lanes, (count, warps.size)
        return self._counted[1]

    def whole_warps(self, lanes: Lanes) -> bool:
        """Whether this set of lanes has all 32 lanes of each of its warps."""
        if self.wave.threads % WARP:
            return bool((np.bincount(self.warp[lanes]) % WARP == 0).all())
        if isinstance(lanes, slice):
            start, stop, _ = lanes.indices(self.wave.lanes)
            return start % WARP == 0 and stop % WARP == 0
        if lanes is not self._whole[0]:
            first = lanes[::WARP]
            found = lanes.size % WARP == 0 and (first % WARP == 0).all()
            self._whole = lanes, bool(found and (lanes[WARP - 1 :: WARP] - first == WARP - 1).all())
        return self._whole[1]

    def warp_rows(self, lanes: Lanes, values: Array) -> Array:
        """Values of these lanes, one row of 32 for each warp, −1 where a lane is inactive."""
        if self.wave.threads % WARP == 0 and self.whole_warps(lanes):
            return np.asarray(values, np.int64).reshape(-1, WARP)
        warps = self.warps_per_block * len(self.wave.blocks)
        return warp_rows(self.warp[lanes], self.thread[lanes] % WARP, warps, values)

    def compact(self, lanes: Array) -> Lanes:
        """The set of these lanes; all of them are ``ALL``."""
        return ALL if lanes.size == self.wave.lanes else compact(lanes)

    def lane_count(self, lanes: Lanes) -> int:
        """How many they are."""
        if isinstance(lanes, slice):
            return len(range(*lanes.indices(self.wave.lanes)))
        return int(lanes.size)

    # -- names ------------------------------------------------------------------------------------

    def block_name(self, lane: int) -> str:
        """'(1,0,0)', the block of a lane."""
        return _triple(int(self.wave.blocks[self.block[lane]]), self.wave.grid)

    def thread_name(self, lane: int) -> str:
        """'(3,2,0)', the thread of a lane within its block."""
        return _triple(int(self.thread[lane]), self.wave.block)

    def place(self, lane: int) -> str:
        """'block (1,0,0), thread (3,2,0)' of a lane."""
        return f"block {self.block_name(lane)}, thread {self.thread_name(lane)}"

    # -- registers --------------------------------------------------------------------------------

    def replace_files(self, files: dict[str, Array]) -> None:
        """Keep the registers in other arrays from now on."""
        self.files, self._views, self._predicates = files, {}, {}

    def _seen(self, operand: Operand, lanes: Lanes) -> _View | None:
        """A view of an operand's registers; None where NumPy would copy them."""
        table = self.files[operand.file]
        if isinstance(operand.rows, np.ndarray):
            return None
        if operand.file != "p":
            if operand.dtype.itemsize != table.dtype.itemsize:
                return None
            table = table.view(operand.dtype)
        view: Array
        if isinstance(lanes, slice):
            view, shape = table[operand.rows, lanes], None
        else:
            runs = self._runs.of(lanes)
            if runs is None or not isinstance(runs.which, slice):
                return None
            view = runs.seen(table, operand.rows)
            shape = (*view.shape[:-2], lanes.size)
        made = self._views[id(operand)] = operand, lanes, view, shape
        return made

    def predicate(self, row: int, lanes: Lanes) -> Array:
        """A predicate register's values."""
        if not isinstance(lanes, slice):
            found: Array = self.files["p"][row][lanes]
            return found
        known = self._predicates.get(row)
        if known is None or known[0] is not lanes:
            known = self._predicates[row] = lanes, self.files["p"][row][lanes]
        return known[1]

    def fetch(self, operand: Operand, lanes: Lanes) -> Any:
        """An operand's values: one row of lanes, or one row for each operation of the bundle."""
        if operand.constant is not None:
            return operand.constant
        known = self._views.get(id(operand))
        if known is None or known[1] is not lanes or known[0] is not operand:
            known = self._seen(operand, lanes)
        if known is not None:
            return known[2] if known[3] is None else known[2].reshape(known[3])
        rows, table = operand.rows, self.files[operand.file]
        narrow = operand.dtype.itemsize != table.dtype.itemsize
        if not narrow and operand.file != "p":
            table = table.view(operand.dtype)
        if isinstance(lanes, slice):
            values = table[rows, lanes]
        elif (runs := self._runs.of(lanes)) is not None:
            values = runs.get(table, rows)
        elif isinstance(rows, np.ndarray):
            values = table[rows[:, None], lanes]
        else:
            values = table[rows][lanes] if isinstance(rows, int) else table[rows, lanes]
        return values.astype(operand.dtype) if narrow and operand.file != "p" else values

    def put(self, operand: Operand, lanes: Lanes, values: Any) -> None:
        """Write results; a value narrower than its register is extended by its own sign."""
        known = self._views.get(id(operand))
        if known is None or known[1] is not lanes or known[0] is not operand:
            known = self._seen(operand, lanes)
        if known is not None:
            view = known[2]
            if known[3] is not None and isinstance(values, np.ndarray) and values.ndim:
                form = view.shape[-2:] if values.shape[-1] > 1 else (1, 1)
                values = values.reshape(*values.shape[:-1], *form)
            view[...] = values
            return
        rows, table = operand.rows, self.files[operand.file]
        if operand.file != "p":
            if operand.dtype.itemsize == table.dtype.itemsize:
                table = table.view(operand.dtype)
            else:
                values = np.asarray(values).astype(f"{operand.dtype.kind}{table.dtype.itemsize}").view(table.dtype)
        if isinstance(lanes, slice):
            table[rows, lanes] = values
        elif (runs := self._runs.of(lanes)) is not None and runs.put(table, rows, values):
            return
        elif isinstance(rows, np.ndarray):
            table[rows[:, None], lanes] = values
        elif isinstance(rows, int):
            table[rows][lanes] = values
        else:
            table[rows, lanes] = values

    def addresses(self, pointers: Pointers, lanes: Lanes, count: int) -> Array:
        """Byte addresses of every lane, and with ``count`` above one, of every operation of the bundle."""
        values = self.fetch(pointers.base, lanes)
        shape = self.indices(lanes).shape
        offset = pointers.offset
        if isinstance(offset, int):
            if offset:
                values = values + values.dtype.type(offset % (1 << (8 * values.dtype.itemsize)))
        else:
            values = values + offset.astype(values.dtype)
        whole = shape if count == 1 else (count, *shape)
        return values if values.shape == whole else np.broadcast_to(values, whole)  # which costs more than all else


def _rows(height: int, wave: Wave, file: str) -> Array:
    """A register file. Of a dry wave most rows are never written: those of zeros take no time until they are used."""
    if wave.dry:
        return np.zeros((height, wave.lanes), FILE_DTYPES[file])
    return np.full((height, wave.lanes), _UNSET[file], FILE_DTYPES[file])


def compact(lanes: Array) -> Lanes:
    """A slice where the lanes are consecutive, which NumPy handles without copying."""
    if lanes.size and int(lanes[-1]) - int(lanes[0]) + 1 == lanes.size:
        return slice(int(lanes[0]), int(lanes[-1]) + 1)
    return lanes


def _triple(linear: int, size: Size) -> str:
    x, y, z = coordinates(linear, size)
    return f"({x},{y},{z})"
