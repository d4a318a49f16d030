"""Matrices that a warp moves as one: ldmatrix, stmatrix, movmatrix.

All 32 lanes of a warp take part, or the instruction is a fault. For faults and races, the lane that gives a row's
address is the one that reads or writes that row.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.execution import Execution
from gemmsmith.sim.instructions.memory import CONFLICTS, WAVEFRONTS
from gemmsmith.sim.instructions.pattern import Modifiers
from gemmsmith.sim.instructions.record import Draft, Record, no_form
from gemmsmith.sim.instructions.warp_registers import check_whole, put, words
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.lowering.places import Lowering, items, operands
from gemmsmith.sim.lowering.traits import Access, Counted, Effect, Mix, Profiled, Quantity, Space, Wait
from gemmsmith.sim.memory.access_faults import AccessFault, LaneFault
from gemmsmith.sim.memory.fragments import matrix_registers, matrix_rows
from gemmsmith.sim.memory.global_memory import RAW, resolve_generic
from gemmsmith.sim.ptx.syntax import Instruction
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.wave import WARP

_ROW = 16  # bytes of a row of an 8×8 matrix

# -- ldmatrix, stmatrix, movmatrix --------------------------------------------------------------------


@dataclass(frozen=True)
class Tiles:
    """How many 8×8 matrices of 16-bit elements are moved, and whether they are transposed.

    ``generic``: their rows are given by generic addresses, which must lie in shared memory.
    """

    count: int
    transposed: bool
    generic: bool

    def access(self, effect: Effect) -> Access:
        return Access(Space.SHARED, effect, _ROW, 4, 4 * self.count)


def _decode_tiles(m: Modifiers) -> Tiles:
    return Tiles(int(m["count"][1:]), "trans" in m, "space" not in m)


def _lower_load(code: Lowering, i: Instruction, tiles: Tiles) -> Draft[Tiles]:
    into, at = operands(i, 2)
    targets = tuple([code.slot(target, "b32") for target in items(into, tiles.count)])
    return Draft(tiles, targets, pointers=(code.pointer(at),), access=tiles.access(Effect.READ))


def _load(machine: Execution, step: Bundle[Tiles], lanes: Lanes) -> None:
    """Lanes 8j to 8j + 7 give the rows of matrix j, which becomes register j of every lane."""
    given = 8 * step.detail.count
    mine, addresses = _rows(machine, step, lanes, given)
    with _position_of(given):
        index = machine.shared.index(addresses, machine.shared_base[mine], _ROW)
        raw = machine.shared.gather(index, _ROW)
    if machine.shadow is not None:
        machine.shadow.read_all(step.operations, mine, index)
    rows = raw.view(np.uint16).reshape(step.count, -1, step.detail.count, 8, 8)
    found = matrix_registers(rows, transposed=step.detail.transposed)
    for j, target in enumerate(step.targets):
        put(machine, target, lanes, found[:, :, j], step.count)


def _lower_store(code: Lowering, i: Instruction, tiles: Tiles) -> Draft[Tiles]:
    at, values = operands(i, 2)
    sources = tuple([code.source(source, "b32") for source in items(values, tiles.count)])
    return Draft(tiles, (), sources, (code.pointer(at),), tiles.access(Effect.WRITE))


def _store(machine: Execution, step: Bundle[Tiles], lanes: Lanes) -> None:
    """The reverse of a load."""
    given = 8 * step.detail.count
    mine, addresses = _rows(machine, step, lanes, given)
    registers = np.stack([words(machine, s, lanes, step.count) for s in step.sources], axis=2)
    rows = matrix_rows(registers, transposed=step.detail.transposed)
    values = np.ascontiguousarray(rows).reshape(step.count, -1).view(RAW[_ROW])
    with _position_of(given):
        index = machine.shared.index(addresses, machine.shared_base[mine], _ROW)
    machine.shared.scatter(index, _ROW, values)
    if machine.shadow is not None:
        for operation, row, written in zip(step.operations, index, values, strict=True):
            machine.shadow.write(operation, mine, row, written)


def _lower_transpose(code: Lowering, i: Instruction, _: None) -> Draft[None]:
    target, source = operands(i, 2)
    return Draft(None, (code.slot(target, "b32"),), (code.source(source, "b32"),))


def _transpose(machine: Execution, step: Bundle[None], lanes: Lanes) -> None:
    """The matrix that a warp holds in one register, transposed."""
    check_whole(machine, step, lanes)
    rows = matrix_rows(words(machine, step.sources[0], lanes, step.count), transposed=False)
    put(machine, step.targets[0], lanes, matrix_registers(rows, transposed=True), step.count)


# -- warps --------------------------------------------------------------------------------------------


def _rows(machine: Execution, step: Bundle[Tiles], lanes: Lanes, given: int) -> tuple[Array, Array]:
    """(lanes that give an address, addresses (operations, those lanes)): the first ``given`` of each warp."""
    check_whole(machine, step, lanes)
    every = machine.addresses(step.pointers[0], lanes, step.count)
    addresses = every.reshape(step.count, -1, WARP)[:, :, :given].reshape(step.count, -1)
    if step.detail.generic:
        space, addresses = resolve_generic(addresses)
        if space is not Space.SHARED:
            raise LaneFault(0, f"{step.traits.called} of {space} memory: its rows must be in shared memory")
    mine = machine.indices(lanes).reshape(-1, WARP)[:, :given].reshape(-1)
    if machine.counters is not None:
        for operation, row in zip(step.operations, addresses, strict=True):
            machine.counters.matrix_access(operation, row.reshape(-1, given))
    return mine, addresses


@contextmanager
def _position_of(given: int) -> Iterator[None]:
    """Faults name a position among the lanes that give addresses; make it one among all lanes."""
    try:
        yield
    except AccessFault as fault:
        fault.position = fault.position // given * WARP + fault.position % given
        raise


# -- records ------------------------------------------------------------------------------------------

# ncu counts the requests and wavefronts of ldmatrix apart from those of other loads, but its conflicts among theirs.
_LDSM = Counted(Profiled(Mix.SHARED_LOAD, "LDSM", (
    ("smsp__inst_executed_op_ldsm.sum", Quantity.REQUESTS), (WAVEFRONTS.format("ldsm"), Quantity.WAVEFRONTS),
    ("smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ldsm.sum", Quantity.CONFLICTS),
    (CONFLICTS.format("ld"), Quantity.CONFLICTS),
)))  # fmt: skip
# ncu has no name for the requests of stmatrix.
_STSM = Counted(Profiled(Mix.SHARED_STORE, "STSM", ((CONFLICTS.format("st"), Quantity.CONFLICTS),)))
_TILES = {"count": "x1 x2 x4", "space": "shared shared::cta"}

RECORDS = (
    Record("ldmatrix.sync!.aligned!.m8n8!.count!.trans?.space?.b16!", where=_TILES, decode=_decode_tiles,
           lower=_lower_load, execute=_load, called="ldmatrix.sync.aligned", verb="read", waits_on=Wait.WARP,
           counts=_LDSM),
    Record("stmatrix.sync!.aligned!.m8n8!.count!.trans?.space?.b16!", where=_TILES, decode=_decode_tiles,
           lower=_lower_store, execute=_store, called="stmatrix.sync.aligned", verb="write", waits_on=Wait.WARP,
           counts=_STSM),
    Record("movmatrix.sync!.aligned!.m8n8!.trans!.b16!", decode=no_form, lower=_lower_transpose, execute=_transpose,
           called="movmatrix.sync.aligned", waits_on=Wait.WARP),
)  # fmt: skip
