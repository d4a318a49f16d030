"""Where the bytes of shared memory came from: which element of which tensor TMA wrote there.

wgmma reads an operand as a matrix of rows and k. If what it reads came from one tensor map, elements of one row must
have one coordinate across k, and elements of one k the same along all rows; the eight rows of a core matrix are
adjacent in the tensor. A descriptor whose swizzle, stride or start disagrees with what TMA wrote mixes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmsmith.sim.execution import Execution
from gemmsmith.sim.lowering.operation import Operation
from gemmsmith.sim.memory.tensor_box import CHUNK, Box
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.races.async_hazards import ProxyFences, side
from gemmsmith.sim.races.hazards import Hazard, HazardKind

_MOST_AXES = 3  # of a tensor whose planes are told apart
_CORE_ROWS = 8
_LOOKS = 64  # at each instruction of a wave: a wrong descriptor is wrong from the start


@dataclass(frozen=True)
class _Copy:
    """A box in shared memory: its map, the coordinates of its first element, and who copied it."""

    box: Box
    at: tuple[int, ...]
    operation: Operation[Any]
    lane: int


@dataclass(frozen=True)
class Read:
    """An operand of a wgmma: positions in shared memory (rows, k), and how many elements lie between columns."""

    name: str
    index: Array
    itemsize: int
    step: int


class TileOrigins:
    """For each 16 bytes of shared memory: the copy that wrote them, plus one, and which of its chunks they are."""

    def __init__(self, machine: Execution) -> None:
        self.machine = machine
        chunks = machine.shared.data.size // CHUNK
        self._owner = np.zeros(chunks, np.int32)
        self._chunk = np.zeros(chunks, np.int32)
        self._copies: list[_Copy] = []
        self._looks: dict[int, int] = {}
        machine.unit(ProxyFences).written.append(self.wrote)

    def landed(self, box: Box | None, at: tuple[int, ...], operation: Operation[Any], lane: int,
               targets: list[Array]) -> None:  # fmt: skip
        """A copy has written these positions, block by block; ``box`` is None for plain bytes."""
        number = 0
        if box is not None and box.map.im2col is None and not box.map.interleave and max(box.map.every) == 1:
            self._copies.append(_Copy(box, at, operation, lane))
            number = len(self._copies)
        for index in targets:
            self._owner[index // CHUNK] = number
            self._chunk[index // CHUNK] = np.arange(index.size)

    def wrote(self, index: Array, width: int) -> None:
        """Threads have written here."""
        self._owner[index.reshape(-1) // CHUNK] = 0
        if width > CHUNK:
            self._owner[(index.reshape(-1) + width - 1) // CHUNK] = 0

    def look(self, operation: Operation[Any], lane: int, reads: list[Read]) -> None:
        """A wgmma reads these operands."""
        looks = self._looks.get(operation.position, 0)
        if not self._copies or looks >= _LOOKS:
            return
        self._looks[operation.position] = looks + 1
        for read in reads:
            self._look(operation, lane, read)

    def _look(self, operation: Operation[Any], lane: int, read: Read) -> None:
        found = self._mismatch(read)
        if found is not None:
            (copy, place), machine = found, self.machine
            assert machine.log is not None
            machine.log.add((0, copy.operation.position, operation.position), Hazard(
                HazardKind.OTHER_ELEMENT, 0, machine.block_name(lane), side(machine, copy.operation, copy.lane),
                side(machine, operation, lane), across_warps=True, place=f"{place},",
                remedy=_remedy(copy)))  # fmt: skip

    def explanation(self, read: Read) -> str:
        """What an operand reads of other rows or columns, and what its descriptor must be; '' if it is a matrix."""
        found = self._mismatch(read)
        return "" if found is None else f"{found[1]}; {_remedy(found[0])}"

    def _mismatch(self, read: Read) -> tuple[_Copy, str] | None:
        """The copy whose elements an operand mixes, and the first of them; None if the operand is a matrix."""
        owners = self._owner[read.index // CHUNK]
        if not owners.size or not owners.all():
            return None
        copies = [self._copies[number - 1] for number in np.unique(owners).tolist()]
        if len({(c.box.address, c.box.map) for c in copies}) > 1:
            return None
        inner, outer, planes = self._coordinates(owners, read)
        pairs = [(inner, outer), (outer, inner)]
        if len(np.unique(planes)) > 1:
            if len(copies[0].at) > _MOST_AXES:
                return None
            # Rows, or columns, may go on in the next plane: a box of 64 columns, then the next 64.
            pairs = [pair for one, two in pairs for pair in ((_joined(one, planes), two), (one, _joined(two, planes)))]
        mixed = [_mixed(along, across) for along, across in pairs]
        wrong = min(mixed, key=np.count_nonzero)
        if not wrong.any():
            jumps = [_jumps(across[:, 0], planes[:, 0], owners[:, 0])
                     for (_, across), each in zip(pairs, mixed, strict=True) if not each.any()]  # fmt: skip
            wrong = min(jumps, key=np.count_nonzero)[:, None]
        if not wrong.any():
            return None
        row, k = (int(x) for x in np.argwhere(wrong)[0])
        tensor = copies[0].box.map.operand
        tensor = f"tensor {tensor}" if len(tensor) == 1 else tensor
        at = f"[{int(outer[row, k])}, {int(inner[row, k])}]"
        return copies[0], (f"operand {read.name}: its row {row} at k {k * read.step} reads bytes that belong to "
                           f"element {at} of {tensor}, among those of other rows or columns")  # fmt: skip

    def _coordinates(self, owners: Array, read: Read) -> tuple[Array, Array, Array]:
        """The innermost coordinate of what is read, the next one, and all others as one number."""
        inner, outer = np.zeros(owners.shape, np.int64), np.zeros(owners.shape, np.int64)
        planes = np.zeros(owners.shape, np.int64)
        for number in np.unique(owners).tolist():
            copy, here = self._copies[number - 1], owners == number
            counts, at = copy.box.counts, copy.at
            element = self._chunk[read.index[here] // CHUNK].astype(np.int64) * (CHUNK // copy.box.itemsize)
            element += read.index[here] % CHUNK // copy.box.itemsize
            inner[here] = at[0] + element % counts[0]
            rest = element // counts[0]
            if len(counts) > 1:
                outer[here] = at[1] + rest % counts[1]
                rest = rest // counts[1]
            place = 0
            for start, extent in zip(at[2:], copy.box.map.extents[2:], strict=True):
                place = place * (extent + 1) + start
            planes[here] = rest + place
        return inner, outer, planes


def _remedy(copy: _Copy) -> str:
    box = "x".join(map(str, reversed(copy.box.map.box)))
    return ("the descriptor's start, offsets and swizzle must describe what TMA wrote "
            f"(swizzle {copy.box.map.swizzle}, box {box})")  # fmt: skip


def _joined(coordinates: Array, planes: Array) -> Array:
    """Coordinates that count on through the planes."""
    return planes * (int(coordinates.max()) + 1) + coordinates


def _jumps(rows: Array, planes: Array, owners: Array) -> Array:
    """Which rows of an operand do not follow the one before, although one copy wrote both.

    The eight rows of a core matrix are adjacent in every layout.
    """
    found = np.zeros(rows.size, bool)
    found[1:] = (np.diff(rows) != 1) & (np.diff(planes) == 0) & (np.diff(owners) == 0)
    found[::_CORE_ROWS] = False
    return found


def _mixed(along: Array, across: Array) -> Array:
    """Where an operand is not a matrix with ``across`` by rows and ``along`` by columns.

    Rows have one coordinate each, all different; columns too.
    """
    wrong: Array = (across != across[:, :1]) | (along != along[:1])
    rows, columns = across[:, 0], along[0]
    found: Array = wrong | _repeated(rows)[:, None] | _repeated(columns)[None]
    return found


def _repeated(values: Array) -> Array:
    """Which values came before."""
    _, first = np.unique(values, return_index=True)
    found = np.ones(values.size, bool)
    found[first] = False
    return found
