"""Each kernel's speed by size, from all runs of the report. Runs measured here take precedence over recorded ones."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from gemmsmith.gpus import GPU
from gemmsmith.problem import Problem
from gemmsmith.report.charts.words import seconds, size_of, tflops
from gemmsmith.report.report_model import MEASURED, PREDICTED, RECORDED, ReportModel, Rung
from gemmsmith.store.results import Measurement, Run


@dataclass(frozen=True)
class Speed:
    """One kernel on one problem: TFLOPS with its 95 % interval, and where it comes from."""

    name: str
    problem: Problem
    tflops: float
    origin: str
    gpu: str
    low: float = math.nan
    high: float = math.nan
    seconds: float = math.nan
    spread: float = math.nan
    of_baseline: float = math.nan
    precision: str = "fp32"

    @property
    def words(self) -> str:
        size = size_of(self.problem.m, self.problem.n, self.problem.k)
        return f"{tflops(self.tflops)} TFLOPS at {size}, {seconds(self.seconds)}, {self.origin} on {self.gpu}"


@dataclass(frozen=True)
class Speeds:
    """Valid speeds; rejected and unverified measurements are listed apart, with the reason.

    ``others`` are valid timings that no bar or curve shows: their type, layout, output or configuration is not the
    ladder's.
    """

    known: tuple[Speed, ...]
    rejected: tuple[tuple[str, str], ...]
    baselines: tuple[str, ...]
    others: tuple[tuple[str, str], ...] = ()

    def of(self, name: str) -> tuple[Speed, ...]:
        """Ordered by size, one origin per size."""
        mine = (s for s in self.known if s.name == name)
        return tuple(sorted(mine, key=lambda s: s.problem.flops))

    def at(self, name: str, problem: Problem) -> Speed | None:
        return next((s for s in self.of(name) if _shape(s.problem) == _shape(problem)), None)


def speeds_of(model: ReportModel) -> Speeds:
    """The fastest valid timing per name and size: from measured runs, and from recorded runs where those have none."""
    best: dict[tuple[str, tuple[int, int, int]], Speed] = {}
    rejected: list[tuple[str, str]] = []
    baselines: dict[str, None] = {}
    others: list[tuple[str, str]] = []
    rungs = {rung.name: rung for rung in model.rungs}
    for origin, run, one in _all(model):
        reason = one.rejected or ("" if one.verified else "not verified")
        if reason:
            rejected.append((f"{one.identity.name} at {one.problem}", reason))
            continue
        if not one.tflops > 0:
            continue
        rung = rungs.get(one.identity.name)
        if not (is_ladder_timing(one, rung.dtype, rung.config) if rung is not None else _plain(one.problem)):
            words = f"{tflops(one.tflops)} TFLOPS, {origin} on {short_gpu_name(run.machine.gpu)}, {one.identity.config}"
            others.append((f"{one.identity.name} at {one.problem}", words))
            continue
        name = _name(one, model)
        if one.identity.kind == "baseline":
            baselines.setdefault(name)
        made = _speed(name, origin, run, one, model.baseline)
        key = made.name, _shape(made.problem)
        old = best.get(key)
        if old is None or (old.origin == made.origin and made.tflops > old.tflops):
            best[key] = made
    here = {s.name for s in best.values() if s.origin == MEASURED}  # a curve must not mix two machines
    best = {key: s for key, s in best.items() if s.origin == MEASURED or s.name not in here}
    known = [
        _against(s, best.get((_of_type(model.baseline, s.problem, model), _shape(s.problem)))) for s in best.values()
    ]
    return Speeds(tuple(known), tuple(rejected), tuple(baselines), tuple(others))


def is_ladder_timing(one: Measurement, dtype: str, config: str) -> bool:
    """Whether a rung was timed as the ladder shows it: its input type and configuration, C = AB, fp32 outputs."""
    return one.problem.dtype.name == dtype and _agrees(one.identity.config, config) and _plain(one.problem)


def _agrees(recorded: str, config: str) -> bool:
    """Whether a recorded configuration agrees with ``config``. It may lack parameters that were added later, and have
    some that the rung has no more; that its source has changed is said beside the figure."""
    names = {item.partition("=")[0] for item in config.split(",")}
    return {item for item in recorded.split(",") if item.partition("=")[0] in names} <= set(config.split(","))


def _plain(problem: Problem) -> bool:
    """C = AB of contiguous, row-major matrices with fp32 outputs, without batch or epilogue."""
    return problem == Problem(problem.m, problem.n, problem.k, dtype=problem.dtype)


def _all(model: ReportModel) -> Iterator[tuple[str, Run, Measurement]]:
    for origin, runs in ((MEASURED, model.measured), (RECORDED, model.recorded)):
        for run in runs:
            for one in run.measurements:
                if one.origin == MEASURED:
                    yield origin, run, one


def _name(one: Measurement, model: ReportModel) -> str:
    """A library is a separate contender per input type, so that fp16 is never compared with an fp32 baseline."""
    own = one.identity
    return _of_type(own.name, one.problem, model) if own.kind == "baseline" else own.name


def _of_type(name: str, problem: Problem, model: ReportModel) -> str:
    return name if problem.dtype == model.problem.dtype else f"{name}:{problem.dtype.name}"


def _speed(name: str, origin: str, run: Run, one: Measurement, baseline: str) -> Speed:
    best, flops = one.best, one.problem.flops
    low, high, wide = (best.high, best.low, best.spread) if best else (math.nan,) * 3
    return Speed(
        name, one.problem, one.tflops, origin, short_gpu_name(run.machine.gpu),
        low=flops / low / 1e12 if low > 0 else math.nan, high=flops / high / 1e12 if high > 0 else math.nan,
        seconds=one.seconds, spread=wide, of_baseline=one.ratio(baseline), precision=one.identity.precision,
    )  # fmt: skip


def _against(speed: Speed, baseline: Speed | None) -> Speed:
    """Add the share of the baseline: from interleaved rounds if there are any, else from the same GPU and origin."""
    if not math.isnan(speed.of_baseline) or baseline is None:
        return speed
    if (baseline.origin, baseline.gpu) != (speed.origin, speed.gpu):
        return speed
    return replace(speed, of_baseline=speed.tflops / baseline.tflops)


def predicted(rung: Rung, model: ReportModel) -> Speed | None:
    """The predicted speed on the report's GPU: the cycle model's, else by counts; None without counts."""
    if rung.diagnosis is None:
        return None
    case = rung.diagnosis.case
    if rung.time is not None:
        return Speed(rung.name, case.profile.problem, rung.time.tflops, PREDICTED, model.gpu.name,
                     seconds=rung.time.us / 1e6)  # fmt: skip
    return Speed(rung.name, case.profile.problem, case.estimate.tflops, PREDICTED, model.gpu.name,
                 seconds=case.estimate.seconds)  # fmt: skip


def headline(rung: Rung, model: ReportModel, speeds: Speeds) -> Speed | None:
    """A rung's speed at the report's size: timed, or else predicted. A rung with wrong results has none."""
    if rung.trusted is False:
        return None
    timed = speeds.at(rung.name, model.problem)
    if timed is not None:
        return timed
    guess = predicted(rung, model)
    return guess if guess is not None and _shape(guess.problem) == _shape(model.problem) else None


def short_gpu_name(name: str) -> str:
    """The GPU's name without the vendor: 'H200'."""
    return name.removeprefix("NVIDIA ").removeprefix("GeForce ").strip() or "a GPU"


def same_gpu(name: str, gpu: GPU) -> bool:
    return gpu.name.lower() in name.lower()


def _shape(problem: Problem) -> tuple[int, int, int]:
    return problem.m, problem.n, problem.k
