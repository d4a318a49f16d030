"""What four worklogs reported, whose rungs the ladder follows: their authors' figures, on their GPUs, not ours."""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

_DATA = files("gemmsmith").joinpath("store", "data", "published.csv")


@dataclass(frozen=True)
class Published:
    """One figure: who reported it, on which GPU, for M = N = K = ``size``; NaN where it was not given."""

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

    @property
    def tflops(self) -> float:
        """As reported, or from the reported time."""
        if not math.isnan(self.gflops):
            return self.gflops / 1e3
        return 2 * self.size**3 / self.ms / 1e9


@cache
def published() -> tuple[Published, ...]:
    """Every published figure, in the order of the file."""
    rows = csv.DictReader(_DATA.read_text(encoding="utf-8").splitlines())
    return tuple(
        Published(row["source"], row["gpu"], int(row["M=N=K"]), row["dtype"], row["kernel"], row["config"],
                  _number(row["ms"]), _number(row["gflops"]), _number(row["pct_of_baseline"]), row["baseline"])
        for row in rows
    )  # fmt: skip


def published_for(kernel: str) -> tuple[Published, ...]:
    """What was published for one rung, sweeps left out."""
    return tuple(p for p in published() if p.kernel == kernel and p.baseline != "sweep")


def _number(text: str) -> float:
    return float(text) if text else math.nan
