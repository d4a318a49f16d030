"""A profile: what one launch of one kernel did, in the profiler's words, with where each number comes from.

On the simulator the counts come from the real addresses of every block, or of a sample of blocks scaled up.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gemmsmith.compile.compiled import CompiledKernel, Resources
from gemmsmith.compile.sass import Sass, disassemble
from gemmsmith.explain.crosscheck import Check, cross_check
from gemmsmith.explain.instruction_mix import machine_mix, simulated_mix
from gemmsmith.explain.metrics import METRICS, simulated
from gemmsmith.explain.sampling import Counted, count_launch
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.sim.counters import Counters
from gemmsmith.sim.traits import Effect, Flow, Space

SECTOR = 32
GLOBAL = "l1tex__t_{what}_pipe_lsu_mem_global_op_{op}.sum"
WAVEFRONTS = "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum"
# Requests and bank conflicts of shared memory, by operation: the profiler names them unevenly.
REQUESTS = {
    "ld": "smsp__sass_inst_executed_op_shared_ld.sum",
    "st": "smsp__sass_inst_executed_op_shared_st.sum",
    "ldgsts": "smsp__inst_executed_op_ldgsts.sum",
    "ldsm": "smsp__inst_executed_op_ldsm.sum",
}
# Those of ldmatrix are among the loads'.
CONFLICTS = {
    "ld": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "st": "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    "ldgsts": "smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ldgsts.sum",
}
TENSOR = "sm__inst_executed_pipe_tensor.sum"
FFMA = "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"
WARPS = "smsp__warps_launched.sum"
# What only lines measured on a GPU have, by ncu's names.
EXCESS = "derived__memory_l1_wavefronts_shared_excessive"
THEORETICAL_SECTORS = "memory_l2_theoretical_sectors_global"


@dataclass(frozen=True)
class Line:
    """What one source line contributed: PTX instructions executed on the simulator, SASS ones on a GPU.

    ``samples`` are how often the GPU found a warp there, ``stalls`` why it waited (ncu's words); None and empty where
    nobody looked, as on the simulator.
    """

    file: str
    number: int
    text: str
    executed: int
    metrics: tuple[tuple[str, int], ...]
    samples: int | None = None
    stalls: tuple[tuple[str, int], ...] = ()

    def total(self, word: str) -> int:
        """The sum of the line's metrics with ``word`` in their name."""
        # Sectors of cp.async are counted as global loads and once more for themselves; excess is part of wavefronts.
        return sum(v for name, v in self.metrics
                   if word in name and name != EXCESS and not ("sectors" in word and "ldgsts" in name))  # fmt: skip

    @property
    def excess(self) -> int:
        """Wavefronts of shared memory beyond what ncu holds for ideal."""
        return dict(self.metrics).get(EXCESS, 0)

    @property
    def top_stall(self) -> str:
        """What most samples waited for; '' where none waited. A warp that was 'selected' did not wait."""
        return max(((n, reason) for reason, n in self.stalls if reason != "selected"), default=(0, ""))[1]


@dataclass(frozen=True)
class LineSum:
    """A metric summed over lines, and the launch's own counter; these are two quantities if the names differ."""

    name: str
    lines: int
    total_name: str
    total: float

    @property
    def equal(self) -> bool:
        return self.lines == self.total


@dataclass(frozen=True)
class Traffic:
    """Bytes of one memory space: asked for (or given) by lanes, and moved."""

    space: str
    asked: float
    moved: float


@dataclass(frozen=True)
class Profile:
    """A launch's counters. ``origin`` is 'simulated' or 'measured'.

    ``mix`` counts warp instructions of PTX; ``machine_mix`` estimates those of the machine code, whose main loop ran
    ``loop_trips`` times. ``sampled_blocks`` is 0 where all blocks ran; ``sampled_depth`` is the K that was run, 0 if
    all of it. ``errors`` are the metrics' relative errors at 95 % confidence, NaN where the sample cannot tell.
    ``missing`` are names that are not among METRICS and that the profiler was asked for in vain. ``line_sums`` hold
    measured lines to the launch's own counters; the simulator's are made of the same counts.
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

    def value(self, name: str) -> float:
        """A metric's value; NaN where it is absent."""
        return dict(self.metrics).get(name, math.nan)

    def requests(self, op: str) -> float:
        """Global requests of 'ld' or 'st'."""
        return self.value(GLOBAL.format(what="requests", op=op))

    def sectors(self, op: str) -> float:
        return self.value(GLOBAL.format(what="sectors", op=op))

    def wavefronts(self, op: str) -> float:
        """Shared-memory wavefronts of 'ld', 'st' or 'ldgsts'."""
        return self.value(WAVEFRONTS.format(op=op))

    @property
    def absent(self) -> tuple[str, ...]:
        """Metrics that this device cannot know, or did not give."""
        have = {name for name, _ in self.metrics}
        return (*(m.name for m in METRICS if m.name not in have), *self.missing)

    @property
    def bytes_per_sector(self) -> tuple[float, float]:
        """Distinct bytes used of the 32 in each sector, for global loads and stores, as the profiler counts them."""
        return self._ratio("used_load_bytes", "ld"), self._ratio("used_store_bytes", "st")

    @property
    def packed_per_sector(self) -> tuple[float, float]:
        """How well lanes fill sectors: bytes asked for in each, at most 32. A broadcast is perfect, a stride is not."""
        return tuple(  # type: ignore[return-value]
            packed if not math.isnan(packed := self._ratio(f"packed_{word}_bytes", op)) else used
            for word, op, used in zip(("load", "store"), ("ld", "st"), self.bytes_per_sector, strict=True)
        )

    def _ratio(self, used: str, op: str) -> float:
        return self.value(used) / self.sectors(op) if self.sectors(op) else math.nan

    @property
    def traffic(self) -> tuple[Traffic, ...]:
        """Bytes by memory space. Global memory moves whole sectors, shared memory 128 bytes a wavefront."""
        moved = {
            "global load": SECTOR * self.sectors("ld"), "global store": SECTOR * self.sectors("st"),
            "shared load": 128 * (self.wavefronts("ld") + _or_zero(self.wavefronts("ldsm"))),
            "shared store": 128 * self.wavefronts("st"),
            "asynchronous copy": 128 * self.wavefronts("ldgsts"),
        }  # fmt: skip
        return tuple(
            Traffic(space, self.value(name), moved.get(space, self.value(name)))
            for space, name in _ASKED.items()
            if not math.isnan(self.value(name))
        )

    @property
    def barriers(self) -> float:
        """Barriers executed, counted once a warp."""
        return float(dict(self.mix).get("barrier", 0)) if self.mix else math.nan

    @property
    def sampling_error(self) -> float:
        """The largest relative error of any metric; 0 where nothing was sampled."""
        values = [error for _, error in self.errors]
        return math.nan if any(map(math.isnan, values)) else max(values, default=0.0)


def _or_zero(value: float) -> float:
    return 0.0 if math.isnan(value) else value


# Bytes that lanes asked for, by space; these are ours, not the profiler's.
_ASKED = {
    "global load": "asked_load_bytes", "global store": "asked_store_bytes", "shared load": "shared_load_bytes",
    "shared store": "shared_store_bytes", "asynchronous copy": "copied_bytes", "local load": "local_load_bytes",
    "local store": "local_store_bytes",
}  # fmt: skip


def simulate(
    spec: KernelSpec,
    config: Config,
    problem: Problem,
    compiled: CompiledKernel,
    *,
    sample: int = 0,
    depth: int = 0,
    sass: Sass | None = None,
) -> Profile:
    """Profile a launch on the simulator; ``sample`` and ``depth`` as for ``sampling.count_launch``.

    ``sass`` is the kernel's machine code where the caller has it already; reading it takes the better part of a second.
    """
    counted = count_launch(spec, config, problem, compiled, sample, depth)
    return _profile(spec, config, problem, compiled, counted, sass or disassemble(compiled))


def _profile(
    spec: KernelSpec, config: Config, problem: Problem, compiled: CompiledKernel, counted: Counted, sass: Sass
) -> Profile:
    counters = counted.counters
    machine, trips = machine_mix(counters, sass)
    executed = sum(c.executed for c in counters.by_position.values())
    threads = sum(c.threads for c in counters.by_position.values())
    branches = [c for operation, c in counters.items() if operation.traits.flow is Flow.BRANCH]
    taken, divergent = sum(c.executed for c in branches), sum(c.divergent for c in branches)
    return Profile(
        kernel=spec.name, config=str(config), problem=problem, device=f"simulator ({compiled.arch})",
        origin="simulated", arch=compiled.arch, geometry=counters.geometry, resources=compiled.resources,
        metrics=(*simulated(counters).items(), *_bytes(counters).items()), lines=_lines(spec, counters),
        mix=tuple(simulated_mix(counters).most_common()), machine_mix=tuple(machine.most_common()), loop_trips=trips,
        active_lanes=threads / executed if executed else math.nan,
        branch_efficiency=100 * (1 - divergent / taken) if taken else 100.0,
        checks=cross_check(counters, sass), sampled_blocks=counted.blocks, sampled_depth=counted.depth,
        errors=counted.errors,
    )  # fmt: skip


def _bytes(counters: Counters) -> dict[str, int]:
    """Bytes that lanes asked for by space; of global memory also the distinct ones, and those that sectors can hold."""
    kinds = (f"{what}_{op}_bytes" for what in ("used", "packed") for op in ("load", "store"))
    total = dict.fromkeys((*_ASKED.values(), *kinds), 0)
    for operation, count in counters.items():
        if (access := operation.access) is None:
            continue
        op = "store" if access.effect is Effect.WRITE else "load"
        if access.space is Space.LOCAL:
            total[f"local_{op}_bytes"] += count.threads * access.width
        elif count.groups:
            total[f"shared_{op}_bytes"] += count.bytes
        elif count.sectors:
            total[f"asked_{op}_bytes"] += count.bytes
            total[f"used_{op}_bytes"] += count.used
            total[f"packed_{op}_bytes"] += min(count.bytes, SECTOR * count.sectors)
            total["copied_bytes"] += count.bytes if access.effect is Effect.COPY else 0
    return total


def _lines(spec: KernelSpec, counters: Counters) -> tuple[Line, ...]:
    """Counts by source line, in the order of the file; lines of headers come after it."""
    executed: Counter[tuple[str, int]] = Counter()
    totals: dict[tuple[str, int], Counter[str]] = {}
    for operation, count in counters.items():
        where = operation.instruction.file, operation.instruction.line
        executed[where] += count.executed
        totals.setdefault(where, Counter()).update(counters.metrics(operation, count))
    texts = {file: source_lines(spec, file) for file, _ in executed}
    lines = []
    for file, number in sorted(executed, key=lambda w: (w[0] != spec.source.name, w)):
        text = texts[file][number - 1] if 0 < number <= len(texts[file]) else ""
        values = tuple((name, value) for name, value in totals[file, number].items() if value)
        lines.append(Line(file, number, text, executed[file, number], values))
    return tuple(lines)


def source_lines(spec: KernelSpec, file: str) -> list[str]:
    """The text of a kernel's source or of a header beside it; empty where there is none, as for CUDA's own."""
    folder = spec.source.parent
    for path in (spec.source, folder / file, folder / "include" / file):
        if path.name == Path(file).name and path.is_file():
            return [line.expandtabs(4).rstrip() for line in path.read_text(encoding="utf-8").splitlines()]
    return []


def to_json(profile: Profile) -> dict[str, Any]:
    """Plain types; absent metrics are named, never given a value."""
    problem, loads, stores = profile.problem, *profile.bytes_per_sector
    return {
        "kernel": profile.kernel, "config": profile.config, "origin": profile.origin, "device": profile.device,
        "arch": profile.arch, "problem": {"m": problem.m, "n": problem.n, "k": problem.k, "dtype": problem.dtype.name},
        "grid": list(profile.geometry.grid), "block": list(profile.geometry.block),
        "registers": profile.resources.registers,
        "metrics": {m.name: {"value": profile.value(m.name), "unit": m.unit}
                    for m in METRICS if m.name not in profile.absent},
        "bytes_used_per_sector": {"load": plain(loads), "store": plain(stores)},
        "bytes_by_space": {t.space: {"asked": plain(t.asked), "moved": plain(t.moved)} for t in profile.traffic},
        "instruction_mix": dict(profile.mix), "machine_mix_estimated": dict(profile.machine_mix),
        "barriers": plain(profile.barriers), "active_lanes": plain(profile.active_lanes),
        "branch_efficiency_pct": plain(profile.branch_efficiency),
        "absent": list(profile.absent),
        "cross_check": [dataclasses.asdict(check) for check in profile.checks],
        "sampled_blocks": profile.sampled_blocks, "sampled_depth": profile.sampled_depth,
        "sampling_error": plain(profile.sampling_error),
        "lines": [{"file": line.file, "line": line.number, "text": line.text, "executed": line.executed,
                   **dict(line.metrics), **_sampled(line)} for line in profile.lines],
        "line_sums": [dataclasses.asdict(made) | {"equal": made.equal} for made in profile.line_sums],
    }  # fmt: skip


def _sampled(line: Line) -> dict[str, Any]:
    return {} if line.samples is None else {"samples": line.samples, "stalls": dict(line.stalls)}


def plain(value: float) -> float | None:
    """A number that JSON can hold; None for NaN and infinities."""
    return value if math.isfinite(value) else None
