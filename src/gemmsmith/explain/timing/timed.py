"""The time of a kernel in words and as JSON: how long, bound by what, waiting for what, and what would help."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gemmsmith.errors import SimulationError, UnknownInstructionError, UnsupportedError
from gemmsmith.explain.timing.predict import Predictor
from gemmsmith.explain.timing.prediction import Predicted
from gemmsmith.explain.timing.stalls import StallRow, by_instruction, by_line, reasons_of
from gemmsmith.explain.timing.whatif import WhatIf, what_ifs
from gemmsmith.gpus import GPU
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem

TIME_MODEL = (
    "Predicted, not measured: machine code of the blocks of one SM, executed for a short K and timed by a cycle model; "
    "gains are of that model, run without the cost (docs/time-model.md)."
)
_MOST_REASONS, _MOST_LINES, _MOST_WHAT_IFS = 3, 5, 4


@dataclass(frozen=True)
class Timed:
    """A prediction with its reasons. ``missing`` says why there is none; then the others are empty.

    counts_only  on this GPU no time is told at all, the older estimate's neither
    """

    predicted: Predicted | None
    what_ifs: tuple[WhatIf, ...] = ()
    reasons: tuple[tuple[str, float], ...] = ()
    lines: tuple[StallRow, ...] = ()
    instructions: tuple[StallRow, ...] = ()
    missing: str = ""
    flops: float = 0.0
    counts_only: bool = False

    @property
    def sentences(self) -> tuple[str, ...]:
        """The time, what bounds it, what warps wait for, and what-ifs."""
        found = self.predicted
        if found is None:
            return (f"No time is predicted: {self.missing}.",)
        made = [f"Predicted on {found.gpu}: {time_text(found.us)} ({self.flops / found.us / 1e6:.3g} TFLOPS at "
                f"{found.mhz:.0f} MHz; nine in ten such kernels took {time_text(found.low_us)} to "
                f"{time_text(found.high_us)}), bound by {found.bound}."]  # fmt: skip
        waits = [f"{name.replace('_', ' ')} {value:.1f}" for name, value in self.reasons if name != "selected"]
        made.append(f"Cycles that a warp waits for each instruction: {', '.join(waits[:_MOST_REASONS])}.")
        made += [f"{str(each)[0].upper()}{str(each)[1:]}." for each in self.what_ifs[:_MOST_WHAT_IFS]]
        return tuple(made)


def timed(spec: KernelSpec, config: Config, problem: Problem, gpu: GPU) -> Timed:
    """Predict a kernel's time; where its machine code is not executed or not timed, say why."""
    try:
        predictor = Predictor(spec, config, problem, gpu)
        now = predictor.predict()
    except (UnsupportedError, UnknownInstructionError, SimulationError) as error:
        return Timed(None, missing=error.message)
    return timed_by(predictor, now)


def timed_by(predictor: Predictor, now: Predicted) -> Timed:
    """A prediction with its reasons: stalls and what-ifs."""
    outcome, program = now.outcome, predictor.program
    return Timed(now, what_ifs(predictor, now), tuple(reasons_of(outcome)), tuple(by_line(outcome, program)),
                 tuple(by_instruction(outcome, program)), flops=float(predictor.problem.flops))  # fmt: skip


def to_json(found: Timed) -> dict[str, Any]:
    """As JSON types."""
    now = found.predicted
    if now is None:
        return {"origin": "predicted", "us": None, "missing": found.missing}
    return {
        "origin": "predicted", "model": TIME_MODEL, "gpu": now.gpu, "us": now.us, "low_us": now.low_us,
        "high_us": now.high_us, "mhz": now.mhz, "tflops": found.flops / now.us / 1e6, "bound": now.bound,
        "busy": dict(now.busy),
        "launches": [{"kernel": e.kernel, "blocks": e.blocks, "resident": e.resident, "cycles": e.cycles, "us": e.us,
                      "rounds": [{"times": times, "blocks": each.blocks, "cycles": each.cycles}
                                 for times, each in e.rounds]} for e in now.launches],
        "stalls_per_instruction": dict(found.reasons),
        "what_ifs": [{"without": w.cost, "gain": w.gain, "then_bound_by": w.bound, "us": w.us} for w in found.what_ifs],
        "lines": [_row(row) for row in found.lines], "instructions": [_row(row) for row in found.instructions],
    }  # fmt: skip


def _row(row: StallRow) -> dict[str, Any]:
    made: dict[str, Any] = {"file": row.file, "line": row.line, "issued": row.issued, "stalls": dict(row.stalls)}
    return made | ({"instruction": row.text} if row.text else {})


def time_text(us: float) -> str:
    """Microseconds with three digits, in the unit that fits."""
    return f"{us:.3g} µs" if us < 1000 else f"{us / 1000:.3g} ms"
