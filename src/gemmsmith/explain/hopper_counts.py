"""What TMA moved and what tensor cores multiplied, from the counts of a simulated launch. The names are ours."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from gemmsmith.sim.counters import Counters
from gemmsmith.sim.lowering.traits import Effect, Mix

TMA = tuple(f"tma_{op}_{what}" for op in ("load", "store") for what in ("requests", "sectors", "bytes"))
TMA_SHARED = "tma_shared_bytes"  # written to shared memory by loads; more than were fetched where they were multicast
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")
_TYPES = {"f16": "fp16", "bf16": "bf16", "tf32": "tf32", "e4m3": "fp8", "e5m2": "fp8", "s8": "int8", "u8": "int8",
          "f64": "fp64"}  # fmt: skip
_WARPS = 4  # that share one wgmma


@dataclass(frozen=True)
class TensorWork:
    """Multiply-adds of tensor cores in the type that most of them have, and whether wgmma does them."""

    dtype: str
    multiply_adds: float
    wgmma: bool


def tensor_work(counters: Counters) -> TensorWork | None:
    """What tensor cores multiplied, padding of tiles included; None if nothing, or of a type without a peak."""
    found: Counter[tuple[str, bool]] = Counter()
    for operation, count in counters.items():
        name = operation.instruction.name
        if operation.profiled.mix is not Mix.TENSOR or (shape := _SHAPE.search(name)) is None:
            continue
        kinds = [_TYPES[part] for part in name.split(".") if part in _TYPES and part != "f32"]
        if not kinds:
            continue
        m, n, k = map(int, shape.groups())
        wgmma = name.startswith("wgmma")
        found[kinds[-1], wgmma] += count.executed * m * n * k // (_WARPS if wgmma else 1)
    if not found:
        return None
    (kind, wgmma), most = found.most_common(1)[0]
    return TensorWork(kind, float(most), wgmma)


def tma_counts(counters: Counters) -> dict[str, int]:
    """Requests, sectors of global memory and bytes of copies by TMA; all 0 where there are none."""
    total = dict.fromkeys((*TMA, TMA_SHARED), 0)
    for operation, count in counters.items():
        if not is_tma(counters, operation.position) or operation.access is None:
            continue
        loads = operation.access.effect is Effect.WRITE  # to shared memory
        op = "load" if loads else "store"
        total[f"tma_{op}_requests"] += count.requests
        total[f"tma_{op}_sectors"] += count.sectors
        total[f"tma_{op}_bytes"] += count.bytes
        if loads:
            total[TMA_SHARED] += counters.copies[operation.position].bytes
    return total


def is_tma(counters: Counters, position: int) -> bool:
    """Whether an operation is a copy by TMA, whose access is that of shared memory."""
    access = counters.lowered.operations[position].access
    return position in counters.copies and access is not None and access.effect is not Effect.COPY
