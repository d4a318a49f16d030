"""A profile: the counters of one launch of one kernel, with Nsight Compute's names and each number's origin."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

from gemmsmith.compile.compiled import Resources
from gemmsmith.explain.access_pattern import AccessPattern
from gemmsmith.explain.crosscheck import Check
from gemmsmith.explain.hopper_counts import TMA_SHARED, TensorWork
from gemmsmith.explain.metrics import METRICS
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.notebook_html import card, facts, folded, paragraph, table
from gemmsmith.problem import Problem

SECTOR = 32
PTX, MACHINE = "PTX", "machine code"
GLOBAL = "l1tex__t_{what}_pipe_lsu_mem_global_op_{op}.sum"
WAVEFRONTS = "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum"
# Shared-memory requests and bank conflicts by operation; Nsight Compute's names follow no single pattern.
REQUESTS = {
    "ld": "smsp__sass_inst_executed_op_shared_ld.sum",
    "st": "smsp__sass_inst_executed_op_shared_st.sum",
    "ldgsts": "smsp__inst_executed_op_ldgsts.sum",
    "ldsm": "smsp__inst_executed_op_ldsm.sum",
}
# The load conflicts include those of ldmatrix.
CONFLICTS = {
    "ld": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "st": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "ldgsts": "smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ldgsts.sum",
}
GMMA_WAVEFRONTS = "sm__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_gmma.sum"
# The simulator's steps between asynchronous copies and the waits for them, summed over requests. The name is ours.
FLIGHT = "copy_flight_steps"
TENSOR = "sm__inst_executed_pipe_tensor.sum"
FFMA = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"
WARPS = "smsp__warps_launched.sum"
# Only lines measured on a GPU have these; the names are ncu's.
EXCESS = "derived__memory_l1_wavefronts_shared_excessive"
THEORETICAL_SECTORS = "memory_l2_theoretical_sectors_global"


@dataclass(frozen=True)
class Line:
    """One source line's counts: executed PTX instructions on the simulator, SASS instructions on a GPU.

    ``samples`` is how often the GPU's sampler found a warp there, ``stalls`` the stall reasons (ncu's terms). On the
    simulator they are None and empty. ``called_at`` are the lines of the kernel's file that call a line of a header.
    """

    file: str
    number: int
    text: str
    executed: int
    metrics: tuple[tuple[str, int], ...]
    samples: int | None = None
    stalls: tuple[tuple[str, int], ...] = ()
    called_at: tuple[str, ...] = ()

    def total(self, word: str) -> int:
        """The sum of the line's metrics with ``word`` in their name."""
        # cp.async sectors also count as global-load sectors; excess wavefronts are part of the wavefronts.
        return sum(v for name, v in self.metrics
                   if word in name and name != EXCESS and not ("sectors" in word and "ldgsts" in name))  # fmt: skip

    @property
    def excess(self) -> int:
        """Shared-memory wavefronts beyond ncu's ideal count."""
        return dict(self.metrics).get(EXCESS, 0)

    @property
    def top_stall(self) -> str:
        """The most frequent stall reason; '' if there is none. A 'selected' warp was not stalled."""
        return max(((n, reason) for reason, n in self.stalls if reason != "selected"), default=(0, ""))[1]


@dataclass(frozen=True)
class InstructionRow:
    """One machine instruction: where it is, what it did, and what its control bits say.

    ``executed`` counts warps, ``threads`` the lanes whose guard held. ``pipe`` is the unit that executes it.
    """

    offset: int
    text: str
    file: str
    line: int
    executed: int
    threads: int
    metrics: tuple[tuple[str, int], ...]
    pipe: str
    stall: int
    waits: tuple[int, ...]
    sets: tuple[int, ...]

    @property
    def opcode(self) -> str:
        words = self.text.split()
        return words[1 if words[0].startswith("@") else 0].partition(".")[0]


@dataclass(frozen=True)
class LineSum:
    """A metric summed over lines, and the launch's own counter; different names mean different quantities."""

    name: str
    lines: int
    total_name: str
    total: float

    @property
    def equal(self) -> bool:
        return self.lines == self.total


@dataclass(frozen=True)
class Traffic:
    """Bytes of one memory space: requested by lanes, and moved."""

    space: str
    requested: float
    moved: float


@dataclass(frozen=True)
class Profile:
    """A launch's counters.

    origin          'simulated' or 'measured'
    mix             executed PTX warp instructions by class
    machine_mix     estimated SASS warp instructions by class
    loop_trips      the warps' total trips through the main loop of the machine code
    sampled_blocks  blocks that were simulated; 0: all
    sampled_depth   the K that was simulated; 0: all of it
    errors          relative errors of the metrics at 95 % confidence; NaN if the sample is too small
    missing         names outside METRICS that the profiler did not report
    line_sums       measured lines summed, next to the launch's own counters
    patterns        simulated accesses with bank conflicts or unused bytes of sectors, the costliest first
    level           what was executed and counted: PTX or MACHINE; ``mix`` and ``machine_mix`` are then the same
    level_reason    why the PTX was executed although machine code was asked for
    instructions    of MACHINE: every machine instruction with its counts
    tensor_work     what tensor cores multiplied; None if nothing, or on a GPU
    pieces          of work that the blocks of a persistent kernel share; 0 if it is none
    """

    kernel: str
    config: str
    problem: Problem
    device: str
    origin: str
    arch: str
    geometry: Geometry
    resources: Resources
    metrics: tuple[tuple[str, float], ...]
    lines: tuple[Line, ...] = ()
    mix: tuple[tuple[str, int], ...] = ()
    machine_mix: tuple[tuple[str, int], ...] = ()
    loop_trips: float = 0.0
    active_lanes: float = math.nan
    branch_efficiency: float = math.nan
    checks: tuple[Check, ...] = ()
    sampled_blocks: int = 0
    sampled_depth: int = 0
    errors: tuple[tuple[str, float], ...] = ()
    missing: tuple[str, ...] = ()
    line_sums: tuple[LineSum, ...] = ()
    patterns: tuple[AccessPattern, ...] = ()
    level: str = PTX
    level_reason: str = ""
    instructions: tuple[InstructionRow, ...] = ()
    tensor_work: TensorWork | None = None
    pieces: int = 0

    def _repr_html_(self) -> str:
        """Its form in a notebook."""
        used, geometry = self.resources, self.geometry
        grid, block = ("×".join(map(str, each)) for each in (geometry.grid, geometry.block))
        sampled = f"Counted from {self.sampled_blocks} simulated blocks, and scaled up." if self.sampled_blocks else ""
        waves = [(name, self.wavefronts(op), self.value(CONFLICTS[op])) for name, op in _SHARED.items()]
        parts = [
            paragraph(f"{self.origin} on {self.device}" + (f", {self.problem}" if self.problem.flops else "")),
            facts((("launch", f"grid {grid}, block {block}"),
                   ("resources", f"{used.registers} registers, {used.static_smem + geometry.smem:,} B of shared "
                                 f"memory, {used.spill_loads + used.spill_stores} B spilled"))),
            table(("global memory", "requests", "sectors", "bytes used of 32"),
                  [(name, _shown(self.requests(op)), _shown(self.sectors(op)), _shown(share, ".1f"))
                   for name, op, share in zip(("loads", "stores"), ("ld", "st"), self.bytes_per_sector, strict=True)]),
            table(("shared memory", "wavefronts", "bank conflicts"),
                  [(name, _shown(count), _shown(conflicts)) for name, count, conflicts in waves if count > 0]),
            folded("all counters", table((), [(m.title, _shown(self.value(m.name), ",.6g"), m.unit) for m in METRICS
                                              if self.value(m.name) > 0])),
            paragraph(sampled, small=True),
        ]  # fmt: skip
        return card(f"{self.kernel} {self.config.replace(',', ', ')}".rstrip(), parts)

    def value(self, name: str) -> float:
        """A metric's value; NaN if absent."""
        return dict(self.metrics).get(name, math.nan)

    def requests(self, op: str) -> float:
        """Global requests of 'ld' or 'st'."""
        return self.value(GLOBAL.format(what="requests", op=op))

    def sectors(self, op: str) -> float:
        return self.value(GLOBAL.format(what="sectors", op=op))

    def tma(self, op: str, what: str) -> float:
        """'requests', 'sectors' of global memory or 'bytes' of TMA's 'load' or 'store'; 0 if there are none."""
        return _or_zero(self.value(f"tma_{op}_{what}"))

    @property
    def multicast(self) -> float:
        """Bytes that TMA's loads write to shared memory for each byte fetched from L2; 1 without multicast."""
        fetched = self.tma("load", "bytes")
        return self.value(TMA_SHARED) / fetched if fetched else 1.0

    def wavefronts(self, op: str) -> float:
        """Shared-memory wavefronts of 'ld', 'st' or 'ldgsts'."""
        return self.value(WAVEFRONTS.format(op=op))

    @property
    def absent(self) -> tuple[str, ...]:
        """Metrics that this device cannot provide or did not report."""
        have = {name for name, _ in self.metrics}
        return (*(m.name for m in METRICS if m.name not in have), *self.missing)

    @property
    def bytes_per_sector(self) -> tuple[float, float]:
        """Distinct bytes used per 32-byte sector, for global loads and stores, as Nsight Compute counts them."""
        return self._ratio("used_load_bytes", "ld"), self._ratio("used_store_bytes", "st")

    @property
    def packed_per_sector(self) -> tuple[float, float]:
        """Bytes requested per sector, at most 32, for loads and stores; a broadcast counts as full, a stride not."""
        return tuple(  # type: ignore[return-value]
            packed if not math.isnan(packed := self._ratio(f"packed_{word}_bytes", op)) else used
            for word, op, used in zip(("load", "store"), ("ld", "st"), self.bytes_per_sector, strict=True)
        )

    def _ratio(self, used: str, op: str) -> float:
        return self.value(used) / self.sectors(op) if self.sectors(op) else math.nan

    @property
    def traffic(self) -> tuple[Traffic, ...]:
        """Bytes by memory space. Global memory moves whole sectors, shared memory 128 bytes per wavefront."""
        moved = {
            "global load": SECTOR * self.sectors("ld"), "global store": SECTOR * self.sectors("st"),
            "shared load": 128 * (self.wavefronts("ld") + _or_zero(self.wavefronts("ldsm"))),
            "shared store": 128 * self.wavefronts("st"),
            "asynchronous copy": 128 * self.wavefronts("ldgsts"),
            "TMA load": SECTOR * self.tma("load", "sectors"), "TMA store": SECTOR * self.tma("store", "sectors"),
        }  # fmt: skip
        return tuple(
            Traffic(space, self.value(name), moved.get(space, self.value(name)))
            for space, name in REQUESTED.items()
            if not math.isnan(self.value(name)) and (self.value(name) or not space.startswith("TMA"))
        )

    @property
    def barriers(self) -> float:
        """Barriers executed, counted once per warp."""
        return float(dict(self.mix).get("barrier", 0)) if self.mix else math.nan

    @property
    def sampling_error(self) -> float:
        """The largest relative error of any metric; 0 without sampling."""
        values = [error for _, error in self.errors]
        return math.nan if any(map(math.isnan, values)) else max(values, default=0.0)


_SHARED = {"loads": "ld", "stores": "st", "cp.async": "ldgsts"}


def _shown(value: float, form: str = ",.0f") -> str:
    return "–" if math.isnan(value) else f"{value:{form}}"


def _or_zero(value: float) -> float:
    return 0.0 if math.isnan(value) else value


# Bytes requested by lanes, per space. These names are ours, not Nsight Compute's.
REQUESTED = {
    "global load": "requested_load_bytes", "global store": "requested_store_bytes", "shared load": "shared_load_bytes",
    "shared store": "shared_store_bytes", "asynchronous copy": "copied_bytes", "local load": "local_load_bytes",
    "local store": "local_store_bytes", "TMA load": TMA_SHARED, "TMA store": "tma_store_bytes",
}  # fmt: skip


def to_json(profile: Profile) -> dict[str, Any]:
    """The profile as JSON types; absent metrics are listed by name and have no value."""
    problem, loads, stores = profile.problem, *profile.bytes_per_sector
    return {
        "kernel": profile.kernel, "config": profile.config, "origin": profile.origin, "device": profile.device,
        "level": profile.level, "level_reason": profile.level_reason,
        "arch": profile.arch, "problem": {"m": problem.m, "n": problem.n, "k": problem.k, "dtype": problem.dtype.name},
        "grid": list(profile.geometry.grid), "block": list(profile.geometry.block),
        "registers": profile.resources.registers,
        "metrics": {m.name: {"value": profile.value(m.name), "unit": m.unit}
                    for m in METRICS if m.name not in profile.absent},
        "bytes_used_per_sector": {"load": plain(loads), "store": plain(stores)},
        "bytes_by_space": {
            t.space: {"requested": plain(t.requested), "moved": plain(t.moved)} for t in profile.traffic
        },
        "instruction_mix": dict(profile.mix), "machine_mix_estimated": dict(profile.machine_mix),
        "barriers": plain(profile.barriers), "active_lanes": plain(profile.active_lanes),
        "branch_efficiency_pct": plain(profile.branch_efficiency),
        "absent": list(profile.absent),
        "cross_check": [dataclasses.asdict(check) for check in profile.checks],
        "sampled_blocks": profile.sampled_blocks, "sampled_depth": profile.sampled_depth,
        "sampling_error": plain(profile.sampling_error),
        "lines": [{"file": line.file, "line": line.number, "text": line.text, "executed": line.executed,
                   **dict(line.metrics), **_sampled(line), **_called(line)} for line in profile.lines],
        "line_sums": [dataclasses.asdict(made) | {"equal": made.equal} for made in profile.line_sums],
        "opcodes": opcodes(profile),
        "instructions": [dataclasses.asdict(row) | {"metrics": dict(row.metrics)} for row in profile.instructions],
    }  # fmt: skip


def opcodes(profile: Profile) -> dict[str, int]:
    """Executed machine instructions by opcode, most often first; empty where PTX was executed."""
    found: Counter[str] = Counter()
    for row in profile.instructions:
        found[row.opcode] += row.executed
    return {name: count for name, count in found.most_common() if count}


def _called(line: Line) -> dict[str, Any]:
    return {"called_at": list(line.called_at)} if line.called_at else {}


def _sampled(line: Line) -> dict[str, Any]:
    return {} if line.samples is None else {"samples": line.samples, "stalls": dict(line.stalls)}


def plain(value: float) -> float | None:
    """The number, or None if JSON cannot represent it (NaN, infinity)."""
    return value if math.isfinite(value) else None
