"""What L2, DRAM and the way out give one SM, by what the blocks in flight read and how many SMs are at work."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from gemmsmith.call.launch_plan import PlannedLaunch
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
    """A launch of ``blocks`` blocks on ``sms`` SMs, ``together`` of them in a cluster."""

    launch: PlannedLaunch
    problem: Problem
    gpu: GPU
    model: GpuParameters
    blocks: int
    sms: int
    together: int

    def first_touch(self, size: int) -> float:
        """The share of k-tiles for which a block is the first to ask, among those that run at the same time."""
        return 1.0 if size == 1 and self.blocks <= self.sms else self.own(size)

    own_half: ClassVar[bool] = False
    unlimited: ClassVar[bool] = False
    far_loads: ClassVar[bool] = False
    bursts: ClassVar[bool] = False

    def first_readers(self, size: int) -> list[float]:
        """Of each round of blocks, the share that reads a row or a column of tiles which is not in L2.

        Blocks of a row or a column that run together stay together: the first waits for DRAM, and those behind catch
        up. What an earlier round read is in L2, unless more than L2 holds was read since.
        """
        spec, config, problem = self.launch.spec, self.launch.config, self.problem
        across = max(1, spec.geometry(problem.with_(m=min(1, problem.m)), config).blocks)
        group = int(dict(config.values).get("GROUP", 0) or 0)
        down = max(1, ceil_div(self.blocks, across))
        kept = 0.9 * self.gpu.l2_bytes / (problem.k * problem.dtype.itemsize)  # rows and columns that L2 holds
        found = []
        tile_rows, tile_columns = problem.m / down, problem.n / across
        read: dict[tuple[int, int], float] = {}  # when a row or column of tiles was read last, in rows and columns read
        total = 0.0
        for start in range(0, self.blocks, size * self.sms):
            end = min(self.blocks, start + size * self.sms)
            new = 0
            mine: set[tuple[int, int]] = set()
            before = total
            for b in range(start, end):
                row, column = divmod(b, across)
                if group:
                    band, inside = divmod(b, group * across)
                    rows = min(group, down - band * group) or 1
                    row, column = band * group + inside % rows, inside // rows
                keys = (0, row), (1, column)
                new += any(before - read.get(key, -1e18) > kept for key in keys)
                mine.update(keys)
            for key in mine:
                total += tile_columns if key[0] else tile_rows
            for key in mine:
                read[key] = total
            found.append(new / (end - start))
        return found

    def own(self, size: int) -> float:
        """The share of what the blocks in flight read that no other of them reads."""
        rows, columns = self.tiles_in_flight(size)
        if self.own_half:
            return min(1.0, (rows + columns) / 2 / max(1, min(self.blocks, size * self.sms)))
        return min(1.0, (rows + columns) / max(1, min(self.blocks, size * self.sms)))

    def tiles_in_flight(self, size: int, each: int = 1) -> tuple[int, int]:
        """Rows and columns of tiles that run at the same time; ``each``: blocks that share one."""
        spec, config, problem = self.launch.spec, self.launch.config, self.problem
        down = spec.geometry(problem.with_(n=min(1, problem.n)), config).blocks // each
        across = spec.geometry(problem.with_(m=min(1, problem.m)), config).blocks // each
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
        are ``apart``, what only SMs read that are no neighbours. Once blocks follow one another, what they share
        crosses the bus of DRAM once.
        """
        sm, own, gpu = self.model.sm, self.own(size), self.gpu
        l2 = 1 / (own / sm.l2_bytes_cycle + (1 - own) / sm.l2_same_bytes_cycle)
        dram = sm.dram_sm_bytes_cycle
        if self.unlimited:
            dram = 1e9
        elif self.bursts:
            dram = 37.0
            if self.blocks <= size * self.sms:
                bus = gpu.dram_gbs * self.model.dram_share * 1e3 / (gpu.sms * gpu.boost_mhz)
                dram = min(dram, 2 * bus / own * gpu.sms / min(busy or self.sms, self.blocks))
        elif self.first_touch(size) < 1:
            dram = gpu.dram_gbs * self.model.dram_share * 1e3 / (gpu.sms * gpu.boost_mhz) / own
        idle = gpu.sms / min(busy or self.sms, self.blocks)  # fewer SMs at work get more each
        if self.far_loads:
            l2 = min(sm.l2_same_bytes_cycle, self.far_apart(size) * idle)
        near = self.far_apart(size) * idle if apart else sm.l2_tma_bytes_cycle
        return replace(
            sm, l2_bytes_cycle=l2, dram_sm_bytes_cycle=dram, l2_tma_bytes_cycle=min(sm.tma_bytes_cycle, near),
            store_bytes_cycle=min(sm.store_bytes_cycle, sm.store_all_bytes_cycle * idle),
            tma_store_bytes_cycle=min(sm.tma_store_bytes_cycle, sm.tma_store_all_bytes_cycle * idle),
        )  # fmt: skip
