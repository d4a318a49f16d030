"""The quantities of a sweep: each with a heading, a format and a meaning.

Counts are per thousand multiply-adds of a warp, so that points of different sizes can be compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gemmsmith.errors import UsageError
from gemmsmith.store.results import Measurement


@dataclass(frozen=True)
class Quantity:
    """``read`` takes it from a measurement (NaN if absent); ``write`` formats it for a table."""

    name: str
    heading: str
    meaning: str
    write: Callable[[float], str]
    read: Callable[[Measurement], float]
    more_is_better: bool = False

    @property
    def unit(self) -> str:
        return "%" if self.write is _percent else "B" if self.write is _bytes else ""


def _counter(
    name: str, heading: str, meaning: str, write: Callable[[float], str], more_is_better: bool = False
) -> Quantity:
    return Quantity(name, heading, meaning, write, lambda m: m.counter(name), more_is_better)


def _whole(value: float) -> str:
    return f"{value:,.0f}"


def _bytes(value: float) -> str:
    return f"{value / 1024:,.1f} KB" if value >= 1024 else f"{value:,.0f} B"


def _percent(value: float) -> str:
    return f"{100 * value:.3g}%"


def _three(value: float) -> str:
    """Three digits."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _fixed(value: float) -> str:
    return f"{value:.2f}"


def _time(value: float) -> str:
    return f"{value * 1e3:.3f} ms" if value >= 1e-3 else f"{value * 1e6:.1f} µs"


QUANTITIES = {
    quantity.name: quantity
    for quantity in (
        _counter("threads", "threads", "threads per block", _whole),
        _counter("registers", "regs", "registers per thread", _whole),
        _counter("spill_bytes", "spilled", "bytes of registers spilled per thread, stored and loaded", _bytes),
        _counter("smem_bytes", "shared", "shared memory per block, static and dynamic", _bytes),
        _counter("blocks_per_sm", "blocks/SM", "blocks that an SM holds at once", _whole, True),
        _counter("occupancy", "occ.", "warps that an SM holds, of the most it can", _percent, True),
        _counter("grid_blocks", "blocks", "blocks of the grid", _whole),
        _counter("waves", "waves", "times the GPU is filled to run the grid", _fixed),
        _counter("wave_efficiency", "slots used", "block slots used over all waves, the last one included", _percent,
                 True),
        _counter("instructions_per_ffma", "instr/FFMA", "estimated machine instructions for each multiply-add",
                 lambda v: f"{v:.3f}"),
        _counter("wavefronts_per_kffma", "wavefr./k", "wavefronts of shared memory per 1000 FFMA", _three),
        _counter("load_conflicts", "ld confl.", "bank conflicts among the wavefronts of shared loads", _percent),
        _counter("store_conflicts", "st confl.", "bank conflicts among the wavefronts of shared stores", _percent),
        _counter("sectors_per_kffma", "sectors/k", "sectors of global memory per 1000 FFMA", _three),
        _counter("global_requests_per_kffma", "requests/k", "requests to global memory per 1000 FFMA", _three),
        _counter("barriers_per_kffma", "barriers/k", "barriers of a warp per 1000 FFMA", _three),
        Quantity("seconds", "time", "median of one launch", _time, lambda m: m.seconds),
        Quantity("tflops", "TFLOPS", "useful arithmetic per second", _fixed, lambda m: m.tflops, True),
        Quantity("of_limit", "of limit", "speed against the GPU's roofline", _percent, lambda m: m.of_limit, True),
        Quantity("spread", "±", "interquartile range over the median", _percent,
                 lambda m: m.best.spread if m.best else math.nan),
    )
}  # fmt: skip

RESOURCES = ("registers", "spill_bytes", "smem_bytes", "occupancy")
COUNTED = (*RESOURCES, "instructions_per_ffma", "wavefronts_per_kffma", "load_conflicts", "store_conflicts",
           "sectors_per_kffma")  # fmt: skip
TIMED = (*RESOURCES, "seconds", "spread", "of_limit", "tflops")
PREDICTED = ("registers", "threads", "smem_bytes", "blocks_per_sm", "occupancy")
# The quantity to look at first on the simulator when a parameter of this name varies; the first match decides.
_TELLING = {
    "PAD": "store_conflicts", "VEC": "global_requests_per_kffma", "BK": "barriers_per_kffma", "MIN_BLOCKS": "occupancy",
    "SIZE": "wave_efficiency", "M": "wave_efficiency", "N": "wave_efficiency", "WAVES": "wave_efficiency",
    "TILE": "sectors_per_kffma", "BM": "sectors_per_kffma", "BN": "sectors_per_kffma",
}  # fmt: skip


def quantity_named(name: str) -> Quantity:
    """The quantity called ``name``; an unknown name is refused with all of them."""
    if name not in QUANTITIES:
        raise UsageError(f"there is no quantity called {name!r}", f"use one of {', '.join(QUANTITIES)}")
    return QUANTITIES[name]


def telling(names: Sequence[str], origin: str) -> str:
    """The quantity to look at first when ``names`` vary."""
    if origin == "measured":
        return "tflops"
    if origin == "predicted":
        return "occupancy"
    return next((quantity for name, quantity in _TELLING.items() if name in names), "instructions_per_ffma")


def columns(main: str, origin: str) -> tuple[str, ...]:
    """The quantities of a table, the main one last."""
    usual = {"measured": TIMED, "predicted": PREDICTED}.get(origin, COUNTED)
    around = ("grid_blocks", "waves") if main in ("wave_efficiency", "waves", "grid_blocks") else ()
    return (*(name for name in dict.fromkeys((*usual, *around)) if name != main), main)
