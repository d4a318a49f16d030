"""A profile: what one launch of one kernel did, in the profiler's words, with where each number comes from.

On the simulator the counts come from the real addresses of every block, or of a sample of blocks scaled up.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmsmith.compile.compiled import CompiledKernel, Resources
from gemmsmith.compile.sass import disassemble
from gemmsmith.explain.crosscheck import Check, cross_check
from gemmsmith.explain.metrics import METRICS, contributions, simulated
from gemmsmith.fills import operands
from gemmsmith.kernels.spec import Config, Geometry, KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.run.device import Launch
from gemmsmith.sim.counters import Counters
from gemmsmith.sim.device import SimDevice

# Instruction classes of the mix, by PTX opcode; anything else is 'integer and moves'.
_CLASSES = {
    "fma": "multiply-add", "mul": "multiply", "add": "add", "ld": "load", "st": "store", "cp": "asynchronous copy",
    "bra": "branch", "bar": "barrier", "setp": "compare", "cvt": "convert", "mma": "tensor", "ldmatrix": "load",
}  # fmt: skip


@dataclass(frozen=True)
class Line:
    """What one source line contributed."""

    file: str
    number: int
    text: str
    executed: int
    metrics: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Profile:
    """A launch's counters. ``origin`` is 'simulated' or 'measured'; ``scaled`` is 1 unless blocks were sampled."""

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
    active_lanes: float = math.nan
    branch_efficiency: float = math.nan
    checks: tuple[Check, ...] = ()
    sampled_blocks: int = 0
    sampling_error: float = 0.0

    def value(self, name: str) -> float:
        """A metric's value; NaN where it is absent."""
        return dict(self.metrics).get(name, math.nan)

    @property
    def absent(self) -> tuple[str, ...]:
        """Metrics that this device cannot know."""
        have = {name for name, _ in self.metrics}
        return tuple(m.name for m in METRICS if m.name not in have)

    @property
    def bytes_per_sector(self) -> tuple[float, float]:
        """Bytes used of the 32 in each sector, for global loads and stores."""
        return self._ratio("used_load_bytes", "ld"), self._ratio("used_store_bytes", "st")

    def _ratio(self, used: str, op: str) -> float:
        sectors = self.value(f"l1tex__t_sectors_pipe_lsu_mem_global_op_{op}.sum")
        return self.value(used) / sectors if sectors else math.nan


def simulate(
    spec: KernelSpec, config: Config, problem: Problem, compiled: CompiledKernel, *, sample: int = 0
) -> Profile:
    """Profile a launch on the simulator; ``sample`` > 0 runs that many blocks, spread evenly, and scales up."""
    geometry = spec.geometry(problem, config)
    if 0 < sample < geometry.blocks:
        return _sampled(spec, config, problem, compiled, geometry, sample)
    return _profile(spec, config, problem, compiled, _run(spec, problem, compiled, geometry, None))


def _run(spec: KernelSpec, problem: Problem, compiled: CompiledKernel, geometry: Geometry,
         blocks: list[int] | None) -> Counters:  # fmt: skip
    device = SimDevice(compiled.arch, count=True)
    data = operands(problem, "normal", seed=0)
    addresses = []
    for values in (data.a, data.b, data.c):
        raw = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        addresses.append(device.allocate(raw.nbytes))
        device.write(addresses[-1], raw)
    launch = Launch(geometry, spec.signature.pack(problem, *addresses))
    device.launch(device.load(compiled), launch, blocks)
    assert device.counters is not None
    return device.counters


def _sampled(spec: KernelSpec, config: Config, problem: Problem, compiled: CompiledKernel, geometry: Geometry,
             sample: int) -> Profile:  # fmt: skip
    """Two halves of the sample, each scaled up: their difference is the error shown."""
    chosen = np.unique(np.linspace(0, geometry.blocks - 1, sample).astype(int))
    halves = [
        _profile(spec, config, problem, compiled, _run(spec, problem, compiled, geometry, part.tolist()), len(part))
        for part in (chosen[::2], chosen[1::2])
        if len(part)
    ]
    sizes = [half.sampled_blocks for half in halves]
    scale = geometry.blocks / sum(sizes)
    names = [name for name, _ in halves[0].metrics]
    metrics, error = [], 0.0
    for name in names:
        per_block = [half.value(name) / size for half, size in zip(halves, sizes, strict=True)]
        total = sum(half.value(name) for half in halves) * scale
        if name == "smsp__warps_launched.sum":
            total = halves[0].value(name)
        elif len(per_block) == 2 and max(per_block) > 0:
            error = max(error, abs(per_block[0] - per_block[1]) / max(per_block))
        metrics.append((name, total))
    first = halves[0]
    return Profile(first.kernel, first.config, problem, first.device, first.origin, first.arch, geometry,
                   first.resources, tuple(metrics), (), first.mix, first.active_lanes, first.branch_efficiency,
                   first.checks, sum(sizes), error)  # fmt: skip


def _profile(spec: KernelSpec, config: Config, problem: Problem, compiled: CompiledKernel, counters: Counters,
             sampled: int = 0) -> Profile:  # fmt: skip
    metrics: dict[str, float] = {**simulated(counters)}
    metrics["used_load_bytes"] = _used(counters, "load") + _used(counters, "copy")
    metrics["used_store_bytes"] = _used(counters, "store")
    executed = sum(c.executed for c in counters.by_operation.values())
    threads = sum(c.threads for c in counters.by_operation.values())
    branches = [c for key, c in counters.by_operation.items() if counters.operations[key].kind == "branch"]
    taken, divergent = sum(c.executed for c in branches), sum(c.divergent for c in branches)
    mix: Counter[str] = Counter()
    for key, count in counters.by_operation.items():
        mix[_CLASSES.get(counters.operations[key].instruction.opcode, "integer and moves")] += count.executed
    return Profile(
        kernel=spec.name, config=str(config), problem=problem, device=f"simulator ({compiled.arch})",
        origin="simulated", arch=compiled.arch, geometry=counters.geometry, resources=compiled.resources,
        metrics=tuple(metrics.items()), lines=_lines(spec, counters), mix=tuple(mix.most_common()),
        active_lanes=threads / executed if executed else math.nan,
        branch_efficiency=100 * (1 - divergent / taken) if taken else 100.0,
        checks=cross_check(counters, disassemble(compiled)), sampled_blocks=sampled,
    )  # fmt: skip


def _used(counters: Counters, kind: str) -> int:
    """Bytes that lanes asked of (or gave to) global memory."""
    found = ((counters.operations[key], count) for key, count in counters.by_operation.items())
    return sum(count.bytes for operation, count in found if operation.kind == kind and count.sectors)


def _lines(spec: KernelSpec, counters: Counters) -> tuple[Line, ...]:
    """Counts by source line, in the order of the file; lines of headers come after it."""
    texts = spec.code.splitlines()
    executed: Counter[tuple[str, int]] = Counter()
    totals: dict[tuple[str, int], Counter[str]] = {}
    for key, count in counters.by_operation.items():
        operation = counters.operations[key]
        where = operation.instruction.file, operation.instruction.line
        executed[where] += count.executed
        totals.setdefault(where, Counter()).update(contributions(counters, operation, count))
    lines = []
    for file, number in sorted(executed, key=lambda w: (w[0] != spec.source.name, w)):
        own = file == spec.source.name and 0 < number <= len(texts)
        values = tuple((name, value) for name, value in totals[file, number].items() if value)
        lines.append(Line(file, number, texts[number - 1].strip() if own else "", executed[file, number], values))
    return tuple(lines)


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
        "bytes_used_per_sector": {"load": _plain(loads), "store": _plain(stores)},
        "instruction_mix": dict(profile.mix), "active_lanes": _plain(profile.active_lanes),
        "branch_efficiency_pct": _plain(profile.branch_efficiency),
        "absent": list(profile.absent),
        "cross_check": [vars(check) if hasattr(check, "__dict__") else check for check in profile.checks],
        "sampled_blocks": profile.sampled_blocks, "sampling_error": profile.sampling_error,
        "lines": [{"file": line.file, "line": line.number, "text": line.text, "executed": line.executed,
                   **dict(line.metrics)} for line in profile.lines],
    }  # fmt: skip


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None
