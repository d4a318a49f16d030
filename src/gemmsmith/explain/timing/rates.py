"""What L2, DRAM and the way out give one SM, by what the blocks in flight read and how many SMs are at work."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

from gemmsmith.call.launch_plan import PlannedLaunch
from gemmsmith.errors import UsageError
from gemmsmith.explain.timing.first_reads import L2_SHARE, FirstReads, first_readers
from gemmsmith.gpus import GPU
from gemmsmith.problem import Problem, ceil_div
from gemmsmith.sim.timing.parameters import GpuParameters, SmParameters

_LARGE_CLUSTER = 4  # blocks
# SMs that read the same (h200_l2_sharing.json, h200_tma_boxes.json): up to the first, each as if alone.
_FEW_SHARE, _MANY_SHARE = 8, 33


def usable_sms(gpu: GPU, model: GpuParameters, together: int) -> int:
    """SMs that blocks can run on, so many of them in a cluster."""
    sms = min(gpu.sms, model.large_cluster_sms or gpu.sms) if together >= _LARGE_CLUSTER else gpu.sms
    return sms // together * together


@dataclass(frozen=True)
class Rates:
    """A launch of ``blocks`` blocks on ``sms`` SMs, ``together`` of them in a cluster.

    ``rounded``: the grid has blocks without a tile, which are not among ``blocks``. ``alone``: an SM holds one block at
    a time, and they follow one another in the order of the grid.
    """

    launch: PlannedLaunch
    problem: Problem
    gpu: GPU
    model: GpuParameters
    blocks: int
    sms: int
    together: int
    rounded: bool = False
    alone: bool = False

    def first_touch(self, size: int) -> float:
        """The share of k-tiles for which a block is the first to ask, among those that run at the same time.

        All wait where all blocks start together: nobody has fetched anything before them.
        """
        return 1.0 if self.blocks <= self.sms * size else self.own(size)

    @cached_property
    def first_readers(self) -> list[FirstReads]:
        """Of each round, with one block on an SM, what waits for DRAM; empty for launches that are not ``alone``."""
        if not self.alone:
            return []
        config, problem = self.launch.config, self.problem
        across = max(1, self._tiles()[1])
        kept = L2_SHARE * self.gpu.l2_bytes / max(1, problem.k * problem.dtype.itemsize)
        group = int(dict(config.values).get("GROUP", 0) or 0)
        return first_readers(self.blocks, self.sms, across, group, self._tile(), kept)

    def _tile(self) -> tuple[float, float]:
        """Rows and columns of C that a block has."""
        across = max(1, self._tiles()[1])
        return self.problem.m / max(1, ceil_div(self.blocks, across)), self.problem.n / across

    def own(self, size: int) -> float:
        """The share of what the blocks in flight read that no other of them reads."""
        rows, columns = self.tiles_in_flight(size)
        return min(1.0, (rows + columns) / max(1, min(self.blocks, size * self.sms)))

    def read_bytes(self) -> float:
        """Bytes that DRAM gives where blocks go by ``first_readers``, those that L2 does not keep more than once."""
        each = sum(self._tile()) * self.problem.k * self.problem.dtype.itemsize
        rounds = ceil_div(self.blocks, self.sms)
        return sum(reads.data for reads in self.first_readers) / rounds * self.blocks * each

    @property
    def kept_bytes(self) -> float:
        """Bytes that stay in L2 while others are read."""
        return self.model.l2_kept * self.gpu.l2_bytes

    def evicted_bytes(self, size: int) -> float:
        """Bytes that come from DRAM again, with ``size`` blocks on an SM, since L2 no longer has them.

        Blocks that follow one another drift apart, several on an SM more than one. A block and the one below it, which
        reads the same columns, are then as far apart in K as one starts after the other; if more than L2 keeps is read
        meanwhile, each reads the columns anew.
        """
        problem, width = self.problem, self.problem.dtype.itemsize
        flying, across = size * self.sms, max(1, self._tiles()[1])
        if size == 1 or self.blocks <= flying or dict(self.launch.config.values).get("GROUP"):
            return 0.0
        row, column = problem.m / max(1, self.blocks / across), problem.n / across
        read = min(1.0, across / flying) * (flying / across * row + across * column) * problem.k * width
        return self.blocks * column * problem.k * width if read > self.kept_bytes else 0.0

    def _tiles(self) -> tuple[int, int]:
        """Rows and columns of tiles; of those that a rounded grid may have, the ones whose tiles are nearly square."""
        down, across = self._blocks_of_one("n"), self._blocks_of_one("m")
        if not self.rounded:
            return down, across
        one = max(1, self._blocks_of_one("m", "n"))
        down, across = ceil_div(down, one), ceil_div(across, one)
        choices = (down, ceil_div(self.blocks, down)), (ceil_div(self.blocks, across), across)
        sides = self.problem.m / self.problem.n
        return min(choices, key=lambda each: abs(math.log(sides * each[1] / each[0])))

    def _blocks_of_one(self, *extents: str) -> int:
        """The blocks of a product with one row ("m") or column ("n") of tiles, or both.

        Host code may round its grid down, and launch nothing for less than a tile: the least that it launches then.
        """
        whole = max(int(getattr(self.problem, extent)) for extent in extents)
        for least in (*(1 << n for n in range(whole.bit_length()) if 1 << n < whole), whole):
            few = {extent: min(least, int(getattr(self.problem, extent))) for extent in extents}
            try:
                return self.launch.spec.geometry(self.problem.with_(**few), self.launch.config).blocks
            except UsageError:
                if least == whole:
                    raise
        return 0

    def tiles_in_flight(self, size: int, each: int = 1) -> tuple[int, int]:
        """Rows and columns of tiles that run at the same time; ``each``: blocks that share one."""
        config = self.launch.config
        down, across = (tiles // each for tiles in self._tiles())
        flying = min(self.blocks, size * self.sms) // each
        group = dict(config.values).get("GROUP", 0)
        rows = min(down, int(group)) if group else ceil_div(flying, max(1, across))
        return rows, min(across, ceil_div(flying, max(1, rows)))

    def far_apart(self, size: int) -> float:
        """Bytes a cycle that L2 gives an SM, by TMA, whose neighbours read other data: by who else reads the same.

        A few SMs that are far apart gain nothing from reading the same; when many do, some of them are neighbours.
        """
        shares = [(n - _FEW_SHARE) / (_MANY_SHARE - _FEW_SHARE) for n in self.tiles_in_flight(size, self.together)]
        shared = sum(min(1.0, max(0.0, share)) for share in shares) / 2
        return 1 / ((1 - shared) / self.model.sm.l2_bytes_cycle + shared / self.model.sm.l2_same_bytes_cycle)

    def sm(self, size: int, apart: bool, busy: int = 0) -> SmParameters:
        """The SM's parameters with the rates for what these blocks read; ``busy``: SMs at work, 0 for all with blocks.

        What only one block reads comes from L2 more slowly than what other SMs read too; by TMA, if blocks of a cluster
        are ``apart``, what only SMs read that are no neighbours. The bus of DRAM, which all share, bounds the launch as
        a whole: SMs that wait for it get out of step, and do not wait again unless it is full.
        """
        sm, own, gpu = self.model.sm, self.own(size), self.gpu
        l2 = 1 / (own / sm.l2_bytes_cycle + (1 - own) / sm.l2_same_bytes_cycle)
        idle = gpu.sms / min(busy or self.sms, self.blocks)  # fewer SMs at work get more each
        l2 = max(l2, min(l2 * idle, sm.l2_alone_bytes_cycle))
        near = self.far_apart(size) * idle if apart else sm.l2_tma_bytes_cycle
        return replace(
            sm, l2_bytes_cycle=l2, l2_tma_bytes_cycle=min(sm.tma_bytes_cycle, near),
            store_bytes_cycle=min(sm.store_bytes_cycle, sm.store_all_bytes_cycle * idle),
            store_line=max(sm.store_line, sm.store_all_line / idle),
            tma_store_bytes_cycle=min(sm.tma_store_bytes_cycle, sm.tma_store_all_bytes_cycle * idle),
        )  # fmt: skip
