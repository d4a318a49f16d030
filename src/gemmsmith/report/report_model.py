"""The page's content: one tree of frozen records, filled by a command. Every figure carries its origin.

ReportModel ── GPU, Problem (the size of the ladder's chart)
  ├── Rung …         what it is, its profile, its diagnosis, its comparison with the rung before
  ├── Run …          timings, measured here or recorded elsewhere (store/results.py)
  ├── ChoiceRecord   what gemmsmith.matmul chose, recorded elsewhere (store/tuned_choice.py)
  ├── Published …    figures by other authors (store/published.py)
  ├── Sweep …        one experiment each
  └── Made           the command, date and machine that made the page

A missing part is omitted from the page, with one line that says how to get it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from markupsafe import Markup

from gemmsmith.compile.compiled import Resources
from gemmsmith.explain.comparison_rows import Row
from gemmsmith.explain.diagnosis import Diagnosis
from gemmsmith.explain.occupancy import Occupancy
from gemmsmith.explain.profile import Profile
from gemmsmith.explain.timing.summary import TimeSummary
from gemmsmith.gpus import GPU
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.problem import Problem
from gemmsmith.report.owners import Owners
from gemmsmith.store.made_for import MadeFor
from gemmsmith.store.published import Published
from gemmsmith.store.results import Machine, Run
from gemmsmith.store.tuned_choice import ChoiceRecord

__all__ = ["Made", "Published", "ReportModel", "Rung", "Sweep", "SweepPoint"]
MEASURED, RECORDED, SIMULATED, PREDICTED, PUBLISHED, COMPILER = (
    "measured", "recorded", "simulated", "predicted", "published", "compiler"
)  # fmt: skip


@dataclass(frozen=True)
class Rung:
    """One kernel: a rung of the ladder, or a user's file (number 0).

    trusted    whether verification passed; None if nothing was verified
    verified   what was verified, or what failed
    profile    counters by metric and source line; None if the rung is not ``simulated``
    diagnosis  what bounds the rung on the report's GPU; None if the rung is not ``simulated``
    before     the rung it is compared with
    changes    rows of that comparison (``explain.comparison``)
    why        sentences of that comparison, the headline first
    loop       the main loop's machine code
    arithmetic how fp32 inputs are multiplied on tensor cores ('bf16x6'); '' for the input type's own arithmetic
    named      the rung that its file says it changes; the code is compared with that one
    owners     which thread writes which outputs of block 0; None if the simulator does not run it
    animation  the step's idea as a small animation: HTML that the page shows between the idea and the drawings
    time       the cycle model's time and reasons, predicted in this run or recorded; None where there are none
    made_for   it and the rung before at shapes that it is made for, timed on another machine
    wgmma      whether it uses instructions of one architecture alone, as Hopper's wgmma
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
    arithmetic: str = ""
    named: str = ""
    owners: Owners | None = None
    wgmma: bool = False
    time: TimeSummary | None = None
    made_for: tuple[MadeFor, ...] = ()
    animation: Markup = Markup("")  # noqa: RUF009


@dataclass(frozen=True)
class SweepPoint:
    """One configuration: its values in the sweep's order, and the result; ``illegal`` says why there is none."""

    values: tuple[str, ...]
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    note: str = ""
    illegal: str = ""


@dataclass(frozen=True)
class Sweep:
    """An experiment that varies parameters and reports one quantity; ``more_is_better`` gives its direction."""

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
    """What made the page. ``date`` is ISO 8601."""

    command: str
    date: str
    gemmsmith: str
    machine: Machine


@dataclass(frozen=True)
class ReportModel:
    """Everything on the page. ``baseline`` is the identity name of the contender that '% of' refers to."""

    gpu: GPU
    problem: Problem
    rungs: tuple[Rung, ...]
    made: Made
    measured: tuple[Run, ...] = ()
    recorded: tuple[Run, ...] = ()
    published: tuple[Published, ...] = ()
    sweeps: tuple[Sweep, ...] = ()
    choice: ChoiceRecord = field(default_factory=ChoiceRecord)
    baseline: str = "cublas"
