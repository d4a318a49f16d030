"""A step between two kernels in words: times in the unit that fits, small parts as fractions, the gain of a copy."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gemmsmith.cli.render.short_answer import short_answer
from gemmsmith.explain.findings import Finding
from gemmsmith.explain.timing.step import step_of
from gemmsmith.explain.timing.summary import TimeSummary
from gemmsmith.explain.timing.timed import Timed

SLOW = TimeSummary("H200", 140_000.0, 1.0, 2.0, 1.0, "L1 tags", (), (),
                   (("lines looked up in L1", 5000.0), ("bytes", 4.0)))  # fmt: skip
FAST = replace(SLOW, us=700.0, bound="issue", amounts=(("lines looked up in L1", 10.0), ("bytes", 2.0)))


def test_times_and_parts_are_readable() -> None:
    step = step_of(("x.cu", SLOW), ("y.cu", FAST))
    assert step is not None
    said = " ".join(step.sentences)
    assert "200.00 times as fast as x.cu on H200: 140 ms and 700 µs" in said
    assert "y.cu needs 1/500 of the lines looked up in L1 that x.cu needs." in said
    assert "y.cu needs 0.50 times the bytes that x.cu needs." in said


FOUND = Finding("bank conflicts", "They cost.", (), 1.5, "Pad the rows:", 1.0, without="bank conflicts")


@pytest.mark.parametrize(
    ("finding", "gain"),
    [
        (FOUND, "up to 1.50 times as fast, predicted without bank conflicts; the change was not tried."),
        (replace(FOUND, confirmed=True, diff="-a\n+b"),
         "up to 1.50 times as fast, predicted without bank conflicts; a copy with the change is right. The patch is "
         "below."),
        (replace(FOUND, confirmed=True, copy_gain=1.31),
         "1.31 times as fast, predicted for a copy with this change; its result is right."),
    ],
)  # fmt: skip
def test_the_gain_is_that_of_the_copy_or_at_most_that_of_the_cost(finding: Finding, gain: str) -> None:
    class Found:
        bound = "shared memory"

    lines = dict(short_answer(Found(), Timed(None), finding))  # type: ignore[arg-type]
    assert lines["Bound: "] == "shared memory, through bank conflicts."
    assert lines["Change:"] == "Pad the rows."
    assert lines["Gain:  "] == gain
