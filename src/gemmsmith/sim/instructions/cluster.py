"""Clusters: addresses in other blocks' shared memory, and the barrier of all threads of a cluster.

The address of another block's shared memory is its offset there, with the block's rank, plus one, in the bits above.
An address without a rank is in the thread's own block.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmsmith.sim.bundle import Bundle
from gemmsmith.sim.execution import Execution
from gemmsmith.sim.instructions.pattern import Modifiers
from gemmsmith.sim.instructions.record import Draft, Record
from gemmsmith.sim.lanes import Lanes
from gemmsmith.sim.lowering.places import Lowering, operands
from gemmsmith.sim.lowering.traits import Bundling, Counted, Mix, Profiled, Wait
from gemmsmith.sim.memory.access_faults import LaneFault
from gemmsmith.sim.memory.global_memory import PEER_SHIFT
from gemmsmith.sim.ptx.syntax import Instruction
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.waits.cluster_barriers import ClusterBarriers

_RANKS = 0xFF << PEER_SHIFT
_RANK = "%cluster_ctarank"


def _map(address: Array, rank: Array) -> Array:
    kind = np.asarray(address).dtype.type
    mapped: Array = address & ~kind(_RANKS) | (np.asarray(rank).astype(kind) + kind(1)) << kind(PEER_SHIFT)
    return mapped


def _type(m: Modifiers) -> str:
    return m["type"]


def _lower_map(code: Lowering, i: Instruction, kind: str) -> Draft[None]:
    target, address, rank = operands(i, 3)
    return Draft(None, (code.slot(target, kind),), (code.source(address, kind), code.source(rank, "u32")))


def _mapa(machine: Execution, step: Bundle[None], lanes: Lanes) -> None:
    address, rank = (machine.fetch(source, lanes) for source in step.sources)
    ranks, blocks = np.asarray(rank).reshape(-1), machine.wave.cluster_blocks
    beyond = ranks >= blocks
    if beyond.any():
        at = int(np.argmax(beyond))
        raise LaneFault(at, f"mapa to block {int(ranks[at])} of a cluster of {blocks}")
    machine.put(step.targets[0], lanes, _map(address, rank))


def _lower_rank(code: Lowering, i: Instruction, kind: str) -> Draft[None]:
    """The register of a block's own rank is read for addresses without one."""
    target, address = operands(i, 2)
    return Draft(None, (code.slot(target, "u32"),), (code.source(address, kind), code.special_source(_RANK)))


def _getctarank(machine: Execution, step: Bundle[None], lanes: Lanes) -> None:
    address, own = (machine.fetch(source, lanes) for source in step.sources)
    rank = (np.asarray(address, np.uint64) >> np.uint64(PEER_SHIFT) & np.uint64(0xFF)).astype(np.int64)
    machine.put(step.targets[0], lanes, np.where(rank > 0, rank - 1, own).astype(np.uint32))


# -- barrier.cluster ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class ClusterWait:
    """A wait for all live threads of the cluster."""

    polls: bool = False

    def arrive(self, machine: Execution, step: Bundle[Any], lanes: Lanes) -> None:
        """Waiting changes nothing: barrier.cluster.arrive has."""

    def ready(self, machine: Execution, step: Bundle[Any], lanes: Lanes) -> Array:
        del step
        return machine.unit(ClusterBarriers).ready(machine.indices(lanes))

    def describe(self, machine: Execution, step: Bundle[Any], lane: int) -> str:
        missing = machine.unit(ClusterBarriers).lacking(lane)
        return f"{step.traits.called} never completes: {missing} threads of the cluster have not arrived"


def _lower_wait(code: Lowering, i: Instruction, _: bool) -> Draft[ClusterWait]:
    del code
    operands(i, 0)
    return Draft(ClusterWait())


def _wait(machine: Execution, step: Bundle[ClusterWait], lanes: Lanes) -> None:
    del step
    machine.unit(ClusterBarriers).passed(machine.indices(lanes))


def _releases(m: Modifiers) -> bool:
    return m.get("order", "release") == "release"


def _lower_arrive(code: Lowering, i: Instruction, releases: bool) -> Draft[bool]:
    del code
    operands(i, 0)
    return Draft(releases)


def _arrive(machine: Execution, step: Bundle[bool], lanes: Lanes) -> None:
    machine.unit(ClusterBarriers).arrive(machine.indices(lanes), step.detail)


# -- records ------------------------------------------------------------------------------------------

_BARRIER: dict[str, Any] = {
    "bundling": Bundling.BOUNDARY, "counts": Counted(Profiled(Mix.BARRIER)), "partial_order": True,
}  # fmt: skip

RECORDS = (
    Record("mapa.space?.type", where={"space": "shared::cluster", "type": "u32 u64"}, decode=_type, lower=_lower_map,
           execute=_mapa, bundling=Bundling.ALONE),
    Record("getctarank.space?.type", where={"space": "shared::cluster", "type": "u32 u64"}, decode=_type,
           lower=_lower_rank, execute=_getctarank, bundling=Bundling.ALONE),
    Record("barrier.cluster.arrive.order?.aligned?", where={"order": "release relaxed"}, decode=_releases,
           lower=_lower_arrive, execute=_arrive, called="barrier.cluster.arrive", **_BARRIER),
    Record("barrier.cluster.wait.order?.aligned?", where={"order": "acquire"}, decode=_releases, lower=_lower_wait,
           execute=_wait, called="barrier.cluster.wait", waits_on=Wait.EVENT, **_BARRIER),
)  # fmt: skip
