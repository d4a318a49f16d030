"""The pages that the tests of the report read, rendered once."""

from __future__ import annotations

from functools import cache

from report_reading import Node, read
from report_sample import BOTH, GPU, bare, sample

from gemmsmith.problem import Problem
from gemmsmith.report import page
from gemmsmith.report.report_model import Made, ReportModel, Rung
from gemmsmith.store.results import Machine


@cache
def html(kind: str = "sample") -> str:
    return page({"sample": sample, "bare": bare, "both": lambda: sample(BOTH)}[kind]())


@cache
def tree(kind: str = "sample") -> Node:
    return read(html(kind))


def nothing() -> ReportModel:
    """A rung with nothing but its source."""
    rung = Rung(0, "mine", "my own kernel", "", "mine.cu", "__global__ void mine() {}\n", "", "fp32")
    made = Made("gemmsmith report", "2026-01-02", "0.1.0", Machine("h", "Linux", "cpu", "3.11"))
    return ReportModel(GPU, Problem(64, 64, 64), (rung,), made)


def section(kind: Node, key: str) -> Node:
    return next(n for n in kind.all("section") if n.attributes.get("id") == key)
