"""What tuning is given and gives: how long to search, the GPU with its candidates, and the result for a shape."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gemmsmith.bench.rig import Rig
from gemmsmith.choose.candidates import Candidate
from gemmsmith.choose.precision import DEFAULT
from gemmsmith.choose.table import Entry
from gemmsmith.choose.tuning_file import Tried
from gemmsmith.errors import UsageError
from gemmsmith.problem import Problem
from gemmsmith.run.contender import Contender
from gemmsmith.tune.search import Outlook


@dataclass(frozen=True)
class TuningPlan:
    """How to tune.

    per_shape  candidates per shape, at most
    budget     seconds in all; the last shape may exceed it slightly
    fresh      ignore earlier results
    precision  of fp32 products: 'fp32', 'fp32-fast' or 'ieee'
    """

    per_shape: int = 256
    budget: float = math.inf
    fresh: bool = False
    seed: int = 0
    precision: str = DEFAULT

    def __post_init__(self) -> None:
        if self.per_shape < 1:
            raise UsageError(f"{self.per_shape} candidates per shape are too few", "try at least 1")
        if not self.budget > 0:
            raise UsageError(f"a budget of {self.budget:g} seconds is not positive")


@dataclass(frozen=True)
class Workshop:
    """The GPU, and how candidates become contenders on it.

    candidates       all that are worth considering, in the order in which the first ones are timed
    begin_compiling  in the background: the next candidates, and those of the next shape
    is_compiled      whether a candidate can be timed without waiting for the compiler
    used_now         what calls use for a product without the search; None where that is not known
    """

    gpu: str
    rig: Rig
    candidates: Callable[[Problem], Sequence[Candidate]]
    neighbours: Callable[[Problem, Candidate], Sequence[Candidate]]
    digest: Callable[[Candidate, Problem], str]
    begin_compiling: Callable[[Problem, Sequence[Candidate]], None]
    compile_all: Callable[[Problem, Sequence[Candidate]], Mapping[tuple[str, str], str]]
    contender: Callable[[Candidate], Contender]
    baseline: Callable[[], Contender | None]
    is_compiled: Callable[[Problem, Candidate], bool] = lambda _problem, _candidate: True
    used_now: Callable[[Problem], Candidate | None] = lambda _problem: None


@dataclass(frozen=True)
class Tuned:
    """The result for a shape.

    state      'tuned'; 'known': finished earlier; 'unfinished': out of time, with the best so far where that is stored;
               'nothing': no candidate is correct
    tried      candidates with a result, from this run and earlier ones
    unusable   candidates that failed or are incorrect
    outlook    how many candidates are left, and what they can gain at most
    """

    problem: Problem
    state: str
    best: Entry | None = None
    tried: int = 0
    unusable: tuple[Tried, ...] = field(default=())
    outlook: Outlook = field(default=Outlook(0, 0, 0.0, 0.0))
