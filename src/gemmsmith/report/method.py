"""The method section: each run's machine, conditions and timings, as tables."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gemmsmith.problem import Problem
from gemmsmith.report.charts.frame import Table
from gemmsmith.report.charts.words import ABSENT, percent, seconds, short, size_of, tflops
from gemmsmith.report.figures.names import contender
from gemmsmith.report.report_model import MEASURED, RECORDED, ReportModel
from gemmsmith.store.results import Measurement, Run


@dataclass(frozen=True)
class RunFacts:
    """One run: its facts and its timings."""

    origin: str
    facts: tuple[tuple[str, str], ...]
    table: Table


def runs_of(model: ReportModel) -> tuple[RunFacts, ...]:
    every = [(MEASURED, run) for run in model.measured] + [(RECORDED, run) for run in model.recorded]
    return tuple(_facts(origin, run) for origin, run in every)


def _facts(origin: str, run: Run) -> RunFacts:
    machine = run.machine
    pairs = (
        ("command", run.command), ("started", run.started), ("run", run.id), ("GPU", machine.gpu),
        ("architecture", machine.arch), ("driver", machine.driver), ("CUDA", machine.cuda),
        ("compiler", machine.compiler), ("gemmsmith", run.gemmsmith), ("Python", machine.python),
        ("packages", ", ".join(f"{name} {version}" for name, version in machine.packages)),
        ("system", machine.system), ("processor", machine.cpu), ("conditions", _conditions(run)),
    )  # fmt: skip
    columns = ("kernel", "problem", "time", "95 % interval", "spread", "samples × launches", "mode", "TFLOPS",
               "of limit", "SM clock", "power", "°C", "throttled")  # fmt: skip
    return RunFacts(origin, tuple(p for p in pairs if p[1]), Table(columns, tuple(map(_row, run.measurements))))


def _row(one: Measurement) -> tuple[str, ...]:
    problem, timing, state = one.problem, one.best, one.conditions
    how = (f"{seconds(timing.low)} – {seconds(timing.high)}", percent(timing.spread),
           f"{timing.samples} × {timing.launches}" + ("" if timing.converged else ", stopped at the time budget"),
           f"{timing.mode}, {timing.cache} L2") if timing else (ABSENT,) * 4  # fmt: skip
    return (contender(one.identity.name, one.identity.precision if one.identity.kind == "baseline" else ""),
            _problem(problem), seconds(one.seconds), *how, tflops(one.tflops),
            percent(one.of_limit), _unit(state.sm_mhz, "MHz"), _unit(state.power_w, "W"),
            _unit(state.temperature_c, ""), ", ".join(state.throttled) or "no")  # fmt: skip


def _problem(problem: Problem) -> str:
    """The size, the type, and any non-default option: '4096³ tf32 NT'."""
    cube = size_of(problem.m, problem.n, problem.k)
    return str(problem).replace(f"{problem.m}x{problem.n}x{problem.k}", cube, 1)


def _unit(value: float, unit: str) -> str:
    return f"{value:,.0f} {unit}".rstrip() if math.isfinite(value) else ABSENT


def _conditions(run: Run) -> str:
    """The range of clocks and power over the run, and whether the GPU throttled."""
    states = [m.conditions for m in run.measurements if m.conditions.samples]
    clocks = [mhz for c in states for mhz in (c.sm_mhz_min, c.sm_mhz, c.sm_mhz_max) if math.isfinite(mhz)]
    powers = [watts for c in states for watts in (c.power_w, c.power_w_max) if math.isfinite(watts)]
    reasons = sorted({reason for c in states for reason in c.throttled})
    words = []
    if clocks:
        words.append(f"SM clock {short(min(clocks), 4)} to {short(max(clocks), 4)} MHz")
    if powers:
        words.append(f"power {short(min(powers))} to {short(max(powers))} W")
    if states:
        words.append(f"throttled by {', '.join(reasons)} at times" if reasons else "not throttled")
    return "; ".join(words)
