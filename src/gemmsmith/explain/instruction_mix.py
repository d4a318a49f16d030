"""Executed instructions by class: PTX as simulated, SASS as estimated.

The simulator executes PTX; an SM issues SASS. SASS counts are estimated: the main loop's instructions times its trip
count (derived from the arithmetic), plus the PTX instructions executed outside that loop. Source lines that no block
reached are left out.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from gemmsmith.compile.sass import MATH, Loop, Sass
from gemmsmith.sim.counters import Counters
from gemmsmith.sim.lowering.operation import Operation
from gemmsmith.sim.lowering.traits import Mix

MULTIPLY_ADD = Mix.MULTIPLY_ADD.value
TENSOR = Mix.TENSOR.value
_SASS = {
    "LDG": "global load", "LD": "global load", "STG": "global store", "ST": "global store", "LDS": "shared load",
    "LDSM": "shared load", "STS": "shared store", "LDGSTS": "asynchronous copy", "LDL": "local load",
    "STL": "local store", "BAR": "barrier", "BRA": "branch", "BSSY": "branch", "BSYNC": "branch", "EXIT": "branch",
    "ISETP": "compare", "UISETP": "compare", "FSETP": "compare", "PLOP3": "compare", "FMUL": "other fp32",
    "FADD": "other fp32", "F2F": "convert", "I2F": "convert", "F2I": "convert", "HADD2": "convert",
    "HMMA": TENSOR, "IMMA": TENSOR, "HGMMA": TENSOR, "DMMA": TENSOR, "STSM": "shared store",
}  # fmt: skip
_REST = Mix.INTEGER.value
_ANCHORS = {"BAR": "barrier", "LDG": "global load", "STS": "shared store", "LDGSTS": "asynchronous copy"}


def ptx_class(operation: Operation[Any]) -> str:
    """The class of a PTX instruction; '' if it becomes no machine instruction."""
    return operation.profiled.mix.value


def sass_class(base: str) -> str:
    """The class of a SASS opcode without modifiers."""
    if base in _SASS:
        return _SASS[base]
    return MULTIPLY_ADD if base in MATH and base != "HFMA2" else _REST


def simulated_mix(counters: Counters, first: int = 0, last: int | None = None) -> Counter[str]:
    """Warp instructions executed, by class, for positions in [first, last]; fused loads count once."""
    mix: Counter[str] = Counter()
    for operation in counters.lowered.operations[first : None if last is None else last + 1]:
        count = counters.by_position.get(operation.position)
        if count is not None and counters.widths.get(operation.position, 1) and (name := ptx_class(operation)):
            mix[name] += count.executed
    return mix


def machine_mix(counters: Counters, sass: Sass) -> tuple[Counter[str], float]:
    """Estimated SASS instructions by class, and the warps' total trips through the main loop (0: no loop)."""
    everything = simulated_mix(counters)
    loop = sass.main_loop()
    span = _ptx_loop(counters, loop) if loop is not None else None
    if loop is None or span is None:
        return everything, 0.0
    inside = simulated_mix(counters, *span)
    dead = _dead_lines(counters)
    hot = Counter(sass_class(i.base) for i in loop.instructions if (i.file, i.line) not in dead)
    work = TENSOR if inside[TENSOR] else MULTIPLY_ADD
    if not hot[work] or not inside[work]:
        return everything, 0.0
    trips = inside[work] / hot[work]
    mix: Counter[str] = Counter()
    for name in {*everything, *hot}:
        mix[name] = round(trips * hot[name]) + everything[name] - inside[name]
    return mix, trips


def _ptx_loop(counters: Counters, loop: Loop) -> tuple[int, int] | None:
    """The PTX loop behind ``loop``: the one with the most arithmetic, or an enclosing one if ptxas unrolled that."""
    spans = counters.lowered.loops()
    if not spans:
        return None

    def own(span: tuple[int, int]) -> int:
        inner = [s for s in spans if s != span and span[0] <= s[0] and s[1] <= span[1]]
        return _arithmetic(counters, span) - max((_arithmetic(counters, s) for s in inner), default=0)

    best = max(spans, key=lambda s: (own(s), s[0] - s[1]))
    wanted = {name for base, name in _ANCHORS.items() if loop.counts[base]}
    around = sorted((s for s in spans if s[0] <= best[0] and best[1] <= s[1]), key=lambda s: s[1] - s[0])
    for span in around:
        if wanted <= {ptx_class(o) for o in counters.lowered.operations[span[0] : span[1] + 1]}:
            return span
    return best


def _arithmetic(counters: Counters, span: tuple[int, int]) -> int:
    """Multiply-adds and tensor instructions executed in a span; a main loop has one or the other."""
    mix = simulated_mix(counters, *span)
    return mix[MULTIPLY_ADD] + mix[TENSOR]


def _dead_lines(counters: Counters) -> set[tuple[str | None, int | None]]:
    """Source lines with PTX instructions of which none executed."""
    executed: Counter[tuple[str | None, int | None]] = Counter()
    for operation in counters.lowered.operations:
        count = counters.by_position.get(operation.position)
        executed[operation.instruction.file, operation.instruction.line] += count.executed if count else 0
    return {place for place, times in executed.items() if times == 0}
