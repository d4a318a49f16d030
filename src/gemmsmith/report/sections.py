"""The overview's sections: each with its charts, or with the one line that says how to get them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gemmsmith.report.charts.frame import Chart
from gemmsmith.report.figures import machine, memory, speed, sweeps
from gemmsmith.report.report_model import Story
from gemmsmith.report.speeds import Speeds

_COUNTS = "Counters come from the simulator: gemmsmith climb fills them in."


@dataclass(frozen=True)
class Section:
    """A part of the overview; ``nav`` is its name in the bar. Either ``charts`` or ``missing`` is empty."""

    key: str
    nav: str
    title: str
    words: str
    charts: tuple[Chart, ...]
    missing: str


def sections_of(story: Story, speeds: Speeds, links: Mapping[str, str]) -> tuple[Section, ...]:
    """All sections in the order of the page."""

    def section(key: str, nav: str, title: str, words: str, missing: str, *charts: Chart | None) -> Section:
        have = tuple(chart for chart in charts if chart is not None)
        return Section(key, nav, title, words, have, "" if have else missing)

    return (
        section(
            "sizes", "Sizes", "Speed over size", "How each rung and each baseline does as the matrices grow.",
            "Speed over several sizes needs timings: gemmsmith climb on a machine with a GPU, or gemmsmith bench RUNG "
            "--shapes, fills this in.",
            *speed.over_sizes(story, speeds),
        ),
        section(
            "roofline", "Roofline", "Roofline",
            "What the GPU could do at most, and where each rung stands below it.",
            "The roofline needs each rung's simulated counters: gemmsmith climb fills them in.",
            machine.roofline(story, speeds),
        ),
        section(
            "occupancy", "Occupancy", "Occupancy",
            "How many warps of each rung an SM holds, and which resource says so.",
            "Occupancy needs each rung's resources: gemmsmith climb fills them in.",
            machine.occupancies(story, speeds, links),
        ),
        section(
            "memory", "Memory", "Memory",
            "What moves between memories, how much of it is used, and what bank conflicts add.", _COUNTS,
            memory.traffic(story, links), *memory.bank_conflicts(story, links), memory.sectors(story),
        ),
        section(
            "instructions", "Instructions", "Instructions", "What the issue slots are spent on.", _COUNTS,
            memory.instruction_mix(story, links),
        ),
        section(
            "sweeps", "Sweeps", "Sweeps", "One parameter changed at a time, or two.",
            "No sweep is part of this page: gemmsmith sweep RUNG --vary BK=8,16,32 runs one.",
            *(sweeps.sweep_chart(sweep, f"sweep-{at}") for at, sweep in enumerate(story.sweeps, start=1)),
        ),
        section(
            "published", "Published", "Published", "The documents that this ladder's rungs come from.",
            "No published figures are part of this page: gemmsmith climb brings them.",
            speed.published(story, speeds),
        ),
    )  # fmt: skip
