"""Which end of a copy by TMA is meant, and what orders it: kernels that use TMA have roles for their warps."""

from __future__ import annotations

import pytest

from gemmsmith.sim.races.hazards import Hazard, HazardKind, Side
from gemmsmith.verify.faults.fault_words import does, race_title

TMA = "copy by TMA"


@pytest.mark.parametrize(("kind", "first", "second", "title"), [
    (HazardKind.READ_AFTER_WRITE, "write", TMA, "T1 writes c[3], and T0 copies from it without waiting for that"),
    (HazardKind.WRITE_AFTER_READ, TMA, "write", "T1 copies from c[3], and T0 overwrites it without waiting for that"),
    (HazardKind.READ_AFTER_WRITE, TMA, "read by wgmma",
     "T1 copies into c[3], and T0 multiplies (wgmma) it without waiting for that"),
    (HazardKind.IN_FLIGHT_COPY, TMA, "read",
     "T1 copies into c[3] in the background, and T0 reads it before that is done"),
])  # fmt: skip
def test_the_title_of_a_race(kind: HazardKind, first: str, second: str, title: str) -> None:
    assert race_title(kind, "T1", "T0", first, second, "c[3]") == title


def test_a_barrier_of_some_threads_is_enough() -> None:
    def hazard(verb: str) -> Hazard:
        first, second = Side("write", "k.cu:3", "st", "thread 1"), Side(verb, "k.cu:5", "cp", "thread 0")
        return Hazard(HazardKind.READ_AFTER_WRITE, 0, "(0,0,0)", first, second, across_warps=True)

    assert hazard(TMA).is_of_units
    assert not hazard("read").is_of_units
    assert "a barrier of both threads" in hazard(TMA).needed
    assert "__syncthreads()" in hazard("read").needed
    assert does("read by wgmma") == "multiplies (wgmma)"
