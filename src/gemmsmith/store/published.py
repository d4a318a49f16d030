"""Figures that other people published for the kernels of this ladder, each with its source: title, author, link.

They were taken on the authors' GPUs and have not been repeated here.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_DATA = files("gemmsmith").joinpath("store", "data", "published.csv")


@dataclass(frozen=True)
class Published:
    """One figure for M = N = K = ``size``; NaN where the author gave none.

    ``source`` is the short name used in charts. ``title``, ``author`` and ``link`` say where it was published;
    ``link`` and ``author`` are empty where they are not known.
    """

    source: str
    gpu: str
    size: int
    dtype: str
    kernel: str
    config: str
    ms: float
    gflops: float
    pct_of_baseline: float
    baseline: str
    title: str = ""
    link: str = ""
    author: str = ""

    @property
    def tflops(self) -> float:
        """As reported, or computed from the reported time."""
        if not math.isnan(self.gflops):
            return self.gflops / 1e3
        return 2 * self.size**3 / self.ms / 1e9


@dataclass(frozen=True)
class Source:
    """A document that figures come from."""

    name: str
    gpu: str
    title: str
    author: str
    link: str


# Documents whose ideas the ladder follows; none of their figures are in the file.
IDEAS = (
    Source("common ancestor of the worklogs", "",
           "How to Optimize a CUDA Matmul Kernel for cuBLAS-like Performance: a Worklog", "Simon Boehm",
           "https://siboehm.com/articles/22/CUDA-MMM"),
    Source("Hopper worklog", "H100", "Outperforming cuBLAS on H100: a Worklog", "pranjalssh",
           "https://github.com/pranjalssh/fast.cu"),
)  # fmt: skip


@cache
def published() -> tuple[Published, ...]:
    """Every published figure, in the order of the file."""
    rows = csv.DictReader(_DATA.read_text(encoding="utf-8").splitlines())
    return tuple(
        Published(row["source"], row["gpu"], int(row["M=N=K"]), row["dtype"], row["kernel"], row["config"],
                  _number(row["ms"]), _number(row["gflops"]), _number(row["pct_of_baseline"]), row["baseline"],
                  row["title"], row["link"], row["author"])
        for row in rows
    )  # fmt: skip


def published_for(kernel: str) -> tuple[Published, ...]:
    """What was published for one rung, without the authors' sweeps."""
    return tuple(p for p in published() if p.kernel == kernel and p.baseline != "sweep")


def sources_of(figures: Iterable[Published]) -> tuple[Source, ...]:
    """The documents behind some figures, each once, in the order of the figures; then those whose ideas they follow."""
    found = dict.fromkeys(Source(p.source, p.gpu, p.title, p.author, p.link) for p in figures if p.title)
    return (*found, *IDEAS) if found else ()


def _number(text: str) -> float:
    return float(text) if text else math.nan
