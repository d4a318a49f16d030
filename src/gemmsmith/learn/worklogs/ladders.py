"""Each published ladder beside ours: what its author published, what we predict for our rung on the author's GPU, and
what our rung measured on an H200. Three origins, three columns: no figure of one is computed from another.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from gemmsmith.kernel.config import Preset
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import rung_named
from gemmsmith.store.published import Published, Source, published, sources_of
from gemmsmith.store.recorded import recorded_runs
from gemmsmith.store.results import Measurement

BASELINE = "baseline"


@dataclass(frozen=True)
class Prediction:
    """By the time model, on the author's GPU."""

    gpu: str
    kernel: str
    preset: str
    size: int
    tflops: float
    bound: str


@dataclass(frozen=True)
class Step:
    """One published figure. ``preset`` is ours; empty for a baseline, which is no kernel of ours.

    ``measured`` and ``measured_config`` are of an H200, NaN where it was not timed at that size.
    """

    published: Published
    preset: str
    predicted: Prediction | None
    measured: float = math.nan
    measured_config: str = ""
    own_config: str = ""

    @property
    def other_config(self) -> bool:
        """Whether the measured configuration is another than the published one."""
        return bool(self.measured_config) and self.measured_config != self.own_config


@dataclass(frozen=True)
class Worklog:
    """A document, its ladder, and how many more figures it has from sweeps."""

    source: Source
    titles: tuple[tuple[str, str], ...]
    steps: tuple[Step, ...]
    sweeps: int

    @property
    def name(self) -> str:
        return self.source.name


def worklogs() -> tuple[Worklog, ...]:
    """Every document with figures, in the order of the file."""
    found = published()
    return tuple(
        _worklog(name, [p for p in found if p.source == name]) for name in dict.fromkeys(p.source for p in found)
    )


def _worklog(name: str, figures: list[Published]) -> Worklog:
    documents = [source for source in sources_of(figures) if source.name == name]
    ladder = [p for p in figures if p.baseline != "sweep"]
    return Worklog(documents[0], tuple((source.title, source.link) for source in documents),
                   tuple(map(_step, ladder)), len(figures) - len(ladder))  # fmt: skip


def _step(figure: Published) -> Step:
    if figure.kernel == BASELINE:
        return Step(figure, "", None)
    spec = rung_named(figure.kernel)
    preset = preset_of(spec, figure)
    config = str(spec.config(None, preset.name))
    measured = _measured(figure)
    return Step(figure, preset.name, predictions().get((figure.gpu, figure.kernel, preset.name, figure.size)),
                measured.tflops if measured else math.nan, measured.identity.config if measured else "",
                config)  # fmt: skip


def preset_of(spec: KernelSpec, figure: Published) -> Preset:
    """Our preset for a published configuration: the one that names the document and whose numbers stand in it."""
    named = [preset for preset in spec.presets if figure.source in preset.published]
    wanted = Counter(re.findall(r"\d+", figure.config))
    return next((preset for preset in named if Counter(re.findall(r"\d+", preset.name)) <= wanted), named[0])


def wanted_predictions() -> Iterator[tuple[str, str, str, int]]:
    """GPU, rung, preset and size of every prediction that the tables show."""
    for figure in published():
        if figure.kernel != BASELINE and figure.baseline != "sweep":
            yield figure.gpu, figure.kernel, preset_of(rung_named(figure.kernel), figure).name, figure.size


def _measured(figure: Published) -> Measurement | None:
    for run in recorded_runs():
        for one in run.measurements:
            at = (one.problem.m, one.problem.n, one.problem.k)
            if one.identity.name == figure.kernel and at == (figure.size,) * 3 and one.verified and one.best:
                return one
    return None


@cache
def record(name: str) -> dict[str, Any]:
    """A record that comes with the package; benchmarks/update_docs.py writes it."""
    text = files("gemmsmith").joinpath("learn", "worklogs", "data", name).read_text(encoding="utf-8")
    data: dict[str, Any] = json.loads(text)
    return data


@cache
def predictions() -> dict[tuple[str, str, str, int], Prediction]:
    rows = (Prediction(**row) for row in record("predicted.json")["rows"])
    return {(row.gpu, row.kernel, row.preset, row.size): row for row in rows}
