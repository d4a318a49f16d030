"""Time contenders against baselines on one GPU, shape by shape.

    upload ─► verify ─► warm up ─► interleaved rounds (graph and stream, cold and hot) ─► verify again ─► judge

An incorrect contender is not timed. One that is incorrect afterwards, or faster than the GPU's limit, is rejected.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gemmsmith.bench.rig import Rig, TimingPolicy
from gemmsmith.bench.shape import measure_shape
from gemmsmith.errors import UsageError
from gemmsmith.problem import Problem
from gemmsmith.run.contender import Contender, Enqueue, Identity, MethodReader, OperandSet, method_reader
from gemmsmith.store.results import Measurement, Pairs


def bench(
    contenders: Sequence[Contender],
    baselines: Sequence[Contender],
    problems: Sequence[Problem],
    rig: Rig,
    policy: TimingPolicy | None = None,
) -> Iterator[Measurement]:
    """Yield each shape's measurements when it is done, baselines first; skipped contenders are noted, not yielded."""
    for problem in problems:
        if problem.beta != 0 or problem != problem.with_():
            raise UsageError(f"{problem} cannot be timed: beta must be 0 and rows contiguous", "use beta = 0")
        if 0 in (problem.m, problem.n, problem.k):
            raise UsageError(f"{problem} has nothing to multiply or to time")
    distinct = with_distinct_names([*baselines, *contenders])
    first, others = distinct[: len(baselines)], distinct[len(baselines) :]
    for problem in problems:
        # The CUDA context is current only while a shape is measured, not while the caller runs.
        with rig.stopwatch.active():
            found = measure_shape(rig, policy or TimingPolicy(), problem, others, first)
        yield from found


def with_distinct_names(contenders: Sequence[Contender]) -> list[Contender]:
    """The same contenders; a duplicate name becomes 'name (again)'."""
    taken: set[str] = set()
    result: list[Contender] = []
    for contender in contenders:
        name = plain = contender.identity.name
        while name in taken:
            name = f"{plain} (again)" if name == plain else f"{name[:-1]} and again)"
        taken.add(name)
        result.append(contender if name == plain else Renamed(contender, name))
    return result


class Renamed:
    """A contender under another name."""

    def __init__(self, contender: Contender, name: str) -> None:
        self._contender, self._name = contender, name

    @property
    def identity(self) -> Identity:
        return replace(self._contender.identity, name=self._name)

    @property
    def resources(self) -> Pairs:
        found: Pairs = getattr(self._contender, "resources", ())
        return found

    @property
    def method(self) -> MethodReader | None:
        return method_reader(self._contender)

    def prepare(self, problem: Problem, sets: Sequence[OperandSet], stream: int) -> Enqueue:
        return self._contender.prepare(problem, sets, stream)

    def close(self) -> None:
        self._contender.close()
