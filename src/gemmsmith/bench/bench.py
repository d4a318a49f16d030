"""Time contenders against baselines on one GPU, shape by shape.

    upload ─► verify everybody ─► warm up ─► rounds in turn (graph and stream, cold and hot) ─► verify again ─► judge

Nobody is timed who is not right; who is wrong afterwards, or faster than the GPU can be, is rejected.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from gemmsmith.bench.rig import Plan, Rig
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
    plan: Plan | None = None,
) -> Iterator[Measurement]:
    """Measurements as each shape is finished, baselines first. Who could not take part is noted and not yielded."""
    for problem in problems:
        if problem.beta != 0 or problem != problem.with_():
            raise UsageError(f"{problem} cannot be timed: C would drift, or rows are not contiguous", "use beta = 0")
        if 0 in (problem.m, problem.n, problem.k):
            raise UsageError(f"{problem} has nothing to multiply, so there is nothing to time")
    distinct = named_apart([*baselines, *contenders])
    first, others = distinct[: len(baselines)], distinct[len(baselines) :]
    for problem in problems:
        # The GPU is current only while a shape is measured, never while the caller has the floor.
        with rig.stopwatch.active():
            found = measure_shape(rig, plan or Plan(), problem, others, first)
        yield from found


def named_apart(contenders: Sequence[Contender]) -> list[Contender]:
    """The same contenders; who has the name of one before it is called 'name (again)'."""
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
