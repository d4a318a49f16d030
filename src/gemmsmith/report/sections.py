"""The overview's sections: each with its charts, or with one line that says how to get them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gemmsmith.report.charts.frame import Chart
from gemmsmith.report.figures import machine, memory, speed, sweeps
from gemmsmith.report.report_model import ReportModel
from gemmsmith.report.speeds import Speeds

_COUNTS = "No simulated counters. Run gemmsmith climb to add them."


@dataclass(frozen=True)
class Section:
    """A section of the overview; ``nav`` is its name in the top bar. Either ``charts`` or ``missing`` is empty."""

    key: str
    nav: str
    title: str
    words: str
    charts: tuple[Chart, ...]
    missing: str


def sections_of(model: ReportModel, speeds: Speeds, links: Mapping[str, str]) -> tuple[Section, ...]:
    """All sections in page order."""

    def section(key: str, nav: str, title: str, words: str, missing: str, *charts: Chart | None) -> Section:
        have = tuple(chart for chart in charts if chart is not None)
        return Section(key, nav, title, words, have, "" if have else missing)

    return (
        section(
            "sizes", "Sizes", "Speed over size", "TFLOPS of each rung and baseline as the matrices grow.",
            "No timings at several sizes. Run gemmsmith climb, or gemmsmith bench RUNG --shapes, on a GPU.",
            *speed.over_sizes(model, speeds),
        ),
        section(
            "roofline", "Roofline", "Roofline",
            "The GPU's limits, and where each rung stands below them.",
            "The roofline needs simulated counters. Run gemmsmith climb to add them.",
            machine.roofline(model, speeds),
        ),
        section(
            "occupancy", "Occupancy", "Occupancy",
            "How many warps of each rung fit on an SM, and which resource limits them.",
            "Occupancy needs each rung's resources. Run gemmsmith climb to add them.",
            machine.occupancies(model, speeds, links),
        ),
        section(
            "memory", "Memory", "Memory",
            "Bytes moved, the share of them that is used, and the cost of bank conflicts.", _COUNTS,
            memory.traffic(model, links), *memory.bank_conflicts(model, links), memory.sectors(model),
        ),
        section(
            "instructions", "Instructions", "Instructions", "How the issue slots are used.", _COUNTS,
            memory.instruction_mix(model, links),
        ),
        section(
            "sweeps", "Sweeps", "Sweeps", "The effect of one or two parameters.",
            "No sweeps. Run gemmsmith sweep RUNG --vary BK=8,16,32 --save FILE.json, then gemmsmith report --sweep "
            "FILE.json.",
            *(sweeps.sweep_chart(sweep, f"sweep-{at}") for at, sweep in enumerate(model.sweeps, start=1)),
        ),
        section(
            "published", "Published", "Published", "Results that other authors published for the same steps.",
            "No published figures. Run gemmsmith climb to add them.",
            speed.published(model, speeds),
        ),
    )  # fmt: skip
