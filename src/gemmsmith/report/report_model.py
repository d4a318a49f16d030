"""What the page tells: one tree of frozen records, filled by a command, with the origin of every figure.

Story ── GPU, Problem (the size of the ladder's chart)
  ├── Rung …       what it is, its profile, diagnosis and comparison with the rung before
  ├── Run …        timings, measured here or recorded elsewhere (measure/results.py)
  ├── Published …  figures by others (measure/published.py)
  ├── Sweep …      one experiment each
  └── Made         the command, date and machine that made the page

Whatever is absent is left out of the page, with one line that says how to get it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from gemmsmith.compile.compiled import Resources
from gemmsmith.explain.comparison import Row
from gemmsmith.explain.diagnosis import Diagnosis
from gemmsmith.explain.occupancy import Occupancy
from gemmsmith.explain.profile import Profile
from gemmsmith.gpus import GPU
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.problem import Problem
from gemmsmith.store.published import Published
from gemmsmith.store.results import Machine, Run

__all__ = ["Made", "Published", "Rung", "Story", "Sweep", "SweepPoint"]
MEASURED, RECORDED, SIMULATED, PREDICTED, PUBLISHED, COMPILER = (
    "measured", "recorded", "simulated", "predicted", "published", "compiler"
)  # fmt: skip


@dataclass(frozen=True)
class Rung:
    """One kernel: a rung of the ladder, or a file of the reader's own (number 0).

    ``trusted`` is None where nothing was verified; ``verified`` says what was, or what failed. ``profile`` gives the
    counters and source lines, ``diagnosis`` the model's answers on the story's GPU (its own profile may be of a larger
    problem); a rung that is not ``simulated`` has neither. ``changes`` and ``why`` compare with the rung before: rows
    as ``explain.comparison`` makes them, and sentences of which the first is the headline.
    """

    number: int
    name: str
    summary: str
    teaches: str
    file: str
    source: str
    config: str
    dtype: str
    resources: Resources | None = None
    geometry: Geometry | None = None
    occupancy: Occupancy | None = None
    profile: Profile | None = None
    diagnosis: Diagnosis | None = None
    trusted: bool | None = None
    verified: str = ""
    before: str = ""
    changes: tuple[Row, ...] = ()
    why: tuple[str, ...] = ()
    loop: tuple[str, ...] = ()
    tensor_cores: bool = False
    simulated: bool = True


@dataclass(frozen=True)
class SweepPoint:
    """One configuration: its parameters in the sweep's order, and what came out; ``illegal`` says why nothing did."""

    values: tuple[str, ...]
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    note: str = ""
    illegal: str = ""


@dataclass(frozen=True)
class Sweep:
    """An experiment: parameters varied, one quantity out. ``more_is_better`` says which end of the scale is good."""

    title: str
    parameters: tuple[str, ...]
    quantity: str
    points: tuple[SweepPoint, ...]
    origin: str
    command: str = ""
    where: str = ""
    more_is_better: bool = True


@dataclass(frozen=True)
class Made:
    """How the page came to be. ``date`` is ISO 8601."""

    command: str
    date: str
    gemmsmith: str
    machine: Machine


@dataclass(frozen=True)
class Story:
    """Everything on the page. ``baseline`` is the contender that '% of' refers to, by its identity's name."""

    gpu: GPU
    problem: Problem
    rungs: tuple[Rung, ...]
    made: Made
    measured: tuple[Run, ...] = ()
    recorded: tuple[Run, ...] = ()
    published: tuple[Published, ...] = ()
    sweeps: tuple[Sweep, ...] = ()
    baseline: str = "cublas"
