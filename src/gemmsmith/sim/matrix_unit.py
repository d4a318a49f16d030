"""Execute the instructions that a warp executes as one: ldmatrix, stmatrix, movmatrix, mma.sync.

All 32 lanes of a warp take part, or the instruction is a fault. For faults and races the lane that gives a row's
address is the one that reads or writes that row.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.sim.bundle import Bundle, Operand
from gemmsmith.sim.fragments import a_matrices, b_matrices, c_matrices, d_registers, matrix_registers, matrix_rows
from gemmsmith.sim.memory import RAW, AccessFault, LaneFault
from gemmsmith.sim.wavefronts import WARP

if TYPE_CHECKING:
    from gemmsmith.sim.execute import Execution
    from gemmsmith.sim.lanes import Lanes

Array = NDArray[Any]

_ROW = 16  # bytes of a row of an 8×8 matrix


class MatrixUnit:
    """The matrix instructions of one wave."""

    def __init__(self, machine: Execution) -> None:
        self.machine = machine

    def load(self, step: Bundle, lanes: Lanes) -> None:
        """ldmatrix: lanes 8j to 8j + 7 give the rows of matrix j, which becomes register j of every lane."""
        machine, given = self.machine, 8 * len(step.targets)
        mine, addresses = self._rows(step, lanes, given)
        with _position_of(given):
            index = machine.shared.index(addresses, machine.shared_base[mine], _ROW)
            raw = machine.shared.gather(index, _ROW)
        if machine.shadow is not None:
            for operation, row in zip(step.operations, index, strict=True):
                machine.shadow.read(operation, mine, row)
        rows = raw.view(np.uint16).reshape(step.count, -1, len(step.targets), 8, 8)
        found = matrix_registers(rows, transposed=bool(step.first.number))
        for j, target in enumerate(step.targets):
            self._put(target, lanes, found[:, :, j], step.count)

    def store(self, step: Bundle, lanes: Lanes) -> None:
        """stmatrix: the reverse."""
        machine, given = self.machine, 8 * (len(step.sources) - 1)
        mine, addresses = self._rows(step, lanes, given)
        words = np.stack([self._words(s, lanes, step.count) for s in step.sources[1:]], axis=2)
        rows = matrix_rows(words, transposed=bool(step.first.number))
        values = np.ascontiguousarray(rows).reshape(step.count, -1).view(RAW[_ROW])
        with _position_of(given):
            index = machine.shared.index(addresses, machine.shared_base[mine], _ROW)
        machine.shared.scatter(index, _ROW, values)
        if machine.shadow is not None:
            for operation, row, written in zip(step.operations, index, values, strict=True):
                machine.shadow.write(operation, mine, row, written)

    def transpose(self, step: Bundle, lanes: Lanes) -> None:
        """movmatrix: the matrix that a warp holds in one register, transposed."""
        self._check_whole(step, lanes)
        rows = matrix_rows(self._words(step.sources[0], lanes, step.count), transposed=False)
        self._put(step.targets[0], lanes, matrix_registers(rows, transposed=True), step.count)

    def multiply(self, step: Bundle, lanes: Lanes) -> None:
        """mma.sync: D = A·B + C in every warp."""
        self._check_whole(step, lanes)
        function, size = step.first.function, step.first.width
        assert function is not None
        words = np.stack([self._words(s, lanes, step.count) for s in step.sources])
        words = words.reshape(len(step.sources), -1, WARP)
        first = (len(words) - 4) * 2 // 3  # A has twice the registers of B, and C has four
        a, b, c = a_matrices(words[:first], size), b_matrices(words[first:-4], size), c_matrices(words[-4:])
        found = d_registers(function(a, b, c))
        for target, registers in zip(step.targets, found, strict=True):
            self._put(target, lanes, registers, step.count)

    def _rows(self, step: Bundle, lanes: Lanes, given: int) -> tuple[Array, Array]:
        """(lanes that give an address, addresses (operations, those lanes)): the first ``given`` of each warp."""
        machine = self.machine
        self._check_whole(step, lanes)
        every = machine.addresses(step.sources[0], step.offsets[0], lanes, step.count)
        addresses = every.reshape(step.count, -1, WARP)[:, :, :given].reshape(step.count, -1)
        mine = machine.indices(lanes).reshape(-1, WARP)[:, :given].reshape(-1)
        if machine.counters is not None:
            for operation, row in zip(step.operations, addresses, strict=True):
                machine.counters.matrix_access(operation, row.reshape(-1, given))
        return mine, addresses

    def _check_whole(self, step: Bundle, lanes: Lanes) -> None:
        if not self.machine.whole_warps(lanes):
            name = step.first.instruction.opcode
            raise LaneFault(0, f"{name}.sync.aligned by a part of a warp: all 32 lanes must execute it")

    def _words(self, source: Operand, lanes: Lanes, count: int) -> Array:
        """A register's words as (operations, warps, 32)."""
        machine = self.machine
        values = np.asarray(machine.fetch(source, lanes))
        return np.broadcast_to(values, (count, machine.indices(lanes).size)).reshape(count, -1, WARP)

    def _put(self, target: Operand, lanes: Lanes, words: Array, count: int) -> None:
        self.machine.put(target, lanes, words.reshape(-1) if count == 1 else words.reshape(count, -1))


@contextmanager
def _position_of(given: int) -> Iterator[None]:
    """Faults name a position among the lanes that give addresses; make it one among all lanes."""
    try:
        yield
    except AccessFault as fault:
        fault.position = fault.position // given * WARP + fault.position % given
        raise
