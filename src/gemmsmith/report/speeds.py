"""How fast each kernel is, by size, from every run the story holds; measured here goes before recorded elsewhere."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from gemmsmith.gpus import GPU
from gemmsmith.problem import Problem
from gemmsmith.report.charts.words import seconds, size_of, tflops
from gemmsmith.report.report_model import MEASURED, PREDICTED, RECORDED, Rung, Story
from gemmsmith.store.results import Measurement, Run


@dataclass(frozen=True)
class Speed:
    """One kernel on one problem: TFLOPS with the interval it is known to, and where that comes from."""

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
    """All that may be believed: rejected and unverified measurements are kept apart, with the reason.

    ``others`` are good timings that no bar or curve shows, with their speed: of a rung with another type, layout,
    output or configuration than the ladder's, or of a library on such a problem.
    """

    known: tuple[Speed, ...]
    rejected: tuple[tuple[str, str], ...]
    baselines: tuple[str, ...]
    others: tuple[tuple[str, str], ...] = ()

    def of(self, name: str) -> tuple[Speed, ...]:
        """By size, one origin a size."""
        mine = (s for s in self.known if s.name == name)
        return tuple(sorted(mine, key=lambda s: s.problem.flops))

    def at(self, name: str, problem: Problem) -> Speed | None:
        return next((s for s in self.of(name) if _shape(s.problem) == _shape(problem)), None)


def speeds_of(story: Story) -> Speeds:
    """Collect from measured runs first; recorded ones fill what is left. The fastest timing of a name stands."""
    best: dict[tuple[str, tuple[int, int, int]], Speed] = {}
    rejected: list[tuple[str, str]] = []
    baselines: dict[str, None] = {}
    others: list[tuple[str, str]] = []
    rungs = {rung.name: rung for rung in story.rungs}
    for origin, run, one in _all(story):
        reason = one.rejected or ("" if one.verified else "it was not verified")
        if reason:
            rejected.append((f"{one.identity.name} at {one.problem}", reason))
            continue
        if not one.tflops > 0:
            continue
        rung = rungs.get(one.identity.name)
        if not (as_laddered(one, rung.dtype, rung.config) if rung is not None else _plain(one.problem)):
            words = f"{tflops(one.tflops)} TFLOPS, {origin} on {plain_gpu(run.machine.gpu)}, {one.identity.config}"
            others.append((f"{one.identity.name} at {one.problem}", words))
            continue
        name = _name(one, story)
        if one.identity.kind == "baseline":
            baselines.setdefault(name)
        made = _speed(name, origin, run, one, story.baseline)
        key = made.name, _shape(made.problem)
        old = best.get(key)
        if old is None or (old.origin == made.origin and made.tflops > old.tflops):
            best[key] = made
    here = {s.name for s in best.values() if s.origin == MEASURED}  # a curve of two machines would be none
    best = {key: s for key, s in best.items() if s.origin == MEASURED or s.name not in here}
    known = [
        _against(s, best.get((_of_type(story.baseline, s.problem, story), _shape(s.problem)))) for s in best.values()
    ]
    return Speeds(tuple(known), tuple(rejected), tuple(baselines), tuple(others))


def as_laddered(one: Measurement, dtype: str, config: str) -> bool:
    """Whether a rung was timed as the ladder has it: inputs of its own type, its configuration, and C = AB to fp32."""
    return one.problem.dtype.name == dtype and _is_of(one.identity.config, config) and _plain(one.problem)


def _is_of(recorded: str, config: str) -> bool:
    """Whether a record may be older than some of a rung's parameters, and has its values of all others."""
    return recorded == config or set(recorded.split(",")) < set(config.split(","))


def _plain(problem: Problem) -> bool:
    """One product of tight, row-major matrices to fp32, without an epilogue."""
    return problem == Problem(problem.m, problem.n, problem.k, dtype=problem.dtype)


def _all(story: Story) -> Iterator[tuple[str, Run, Measurement]]:
    for origin, runs in ((MEASURED, story.measured), (RECORDED, story.recorded)):
        for run in runs:
            for one in run.measurements:
                if one.origin == MEASURED:
                    yield origin, run, one


def _name(one: Measurement, story: Story) -> str:
    """A library is one contender a type: its fp16 speed is no fp32 baseline's."""
    own = one.identity
    return _of_type(own.name, one.problem, story) if own.kind == "baseline" else own.name


def _of_type(name: str, problem: Problem, story: Story) -> str:
    return name if problem.dtype == story.problem.dtype else f"{name}:{problem.dtype.name}"


def _speed(name: str, origin: str, run: Run, one: Measurement, baseline: str) -> Speed:
    best, flops = one.best, one.problem.flops
    low, high, wide = (best.high, best.low, best.spread) if best else (math.nan,) * 3
    return Speed(
        name, one.problem, one.tflops, origin, plain_gpu(run.machine.gpu),
        low=flops / low / 1e12 if low > 0 else math.nan, high=flops / high / 1e12 if high > 0 else math.nan,
        seconds=one.seconds, spread=wide, of_baseline=one.ratio(baseline), precision=one.identity.precision,
    )  # fmt: skip


def _against(speed: Speed, baseline: Speed | None) -> Speed:
    """With its share of the baseline: from interleaved rounds where there were, else of the same GPU and origin."""
    if not math.isnan(speed.of_baseline) or baseline is None:
        return speed
    if (baseline.origin, baseline.gpu) != (speed.origin, speed.gpu):
        return speed
    return replace(speed, of_baseline=speed.tflops / baseline.tflops)


def predicted(rung: Rung, story: Story) -> Speed | None:
    """The model's answer for the story's GPU; NaN's place is None."""
    if rung.diagnosis is None:
        return None
    case = rung.diagnosis.case
    return Speed(rung.name, case.profile.problem, case.estimate.tflops, PREDICTED, story.gpu.name,
                 seconds=case.estimate.seconds)  # fmt: skip


def headline(rung: Rung, story: Story, speeds: Speeds) -> Speed | None:
    """The figure that stands for a rung: timed at the story's size, or else predicted for that size.

    A rung whose results are wrong has none.
    """
    if rung.trusted is False:
        return None
    timed = speeds.at(rung.name, story.problem)
    if timed is not None:
        return timed
    guess = predicted(rung, story)
    return guess if guess is not None and _shape(guess.problem) == _shape(story.problem) else None


def plain_gpu(name: str) -> str:
    """'NVIDIA H200' as people say it."""
    return name.removeprefix("NVIDIA ").removeprefix("GeForce ").strip() or "a GPU"


def same_gpu(name: str, gpu: GPU) -> bool:
    return gpu.name.lower() in name.lower()


def _shape(problem: Problem) -> tuple[int, int, int]:
    return problem.m, problem.n, problem.k
