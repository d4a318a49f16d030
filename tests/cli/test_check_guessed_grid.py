"""A launch that is not understood: outputs that the guessed grid leaves as they are say nothing against the kernel."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from gemmsmith.cli.check_run import refuse_guessed_grid
from gemmsmith.cli.render.check_report import Report
from gemmsmith.errors import UsageError
from gemmsmith.problem import Problem


def _report(misread: str, **verdict: Any) -> Report:
    problem = Problem(223, 23, 1)
    failed = {"problem": problem, "unwritten": 0, "wrong": 0, "total": 5129, "faulted": False, "hazards": (),
              "reasons": (), "faults": (), "damage": ()} | verdict  # fmt: skip
    found = SimpleNamespace(
        spec=SimpleNamespace(geometry=SimpleNamespace(misread=misread)), entry="mine", own=str,
        failed=[(SimpleNamespace(label="many rows of tiles"), SimpleNamespace(**failed))],
        only_warns=lambda *_: False,
    )  # fmt: skip
    return cast("Report", found)


def test_outputs_that_a_guess_leaves_out() -> None:
    with pytest.raises(UsageError, match=r"its launch at mine.cu:42 is not understood.*2185 of the 5129 outputs"):
        refuse_guessed_grid(_report("mine.cu:42", unwritten=2185, wrong=2185))


@pytest.mark.parametrize(
    ("misread", "verdict"),
    [
        ("", {"unwritten": 2185, "wrong": 2185}),  # host code says so
        ("mine.cu:42", {"wrong": 7}),
        ("mine.cu:42", {"unwritten": 5, "wrong": 12}),
        ("mine.cu:42", {"unwritten": 5, "faulted": True}),
    ],
)
def test_other_failures_are_the_kernel_s(misread: str, verdict: dict[str, Any]) -> None:
    refuse_guessed_grid(_report(misread, **verdict))
