"""Rungs at shapes that they are made for, timed on an H200 beside the rung before them, and shipped with the package.

A cube says little about a kernel for few rows, a deep K or an uneven last wave (``KernelSpec.made_for``). The full
records are in ``benchmarks/results/``. ``python benchmarks/update_docs.py`` writes ``store/data/h200_made_for.json``,
and its ``--check`` compares.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

FILE = "h200_made_for.json"


@dataclass(frozen=True)
class MadeFor:
    """A rung and the rung before it at one shape, each in the configuration that it was timed in; microseconds."""

    rung: str
    before: str
    m: int
    n: int
    k: int
    us: float
    before_us: float
    config: str
    before_config: str
    gpu: str
    record: str

    @property
    def ratio(self) -> float:
        """How many times as fast as the rung before."""
        return self.before_us / self.us


@cache
def made_for(rung: str) -> tuple[MadeFor, ...]:
    """A rung at the shapes that it is made for, as recorded; empty for most rungs."""
    text = files("gemmsmith").joinpath("store", "data", FILE).read_text(encoding="utf-8")
    return tuple(each for row in json.loads(text)["rows"] if (each := MadeFor(**row)).rung == rung)
