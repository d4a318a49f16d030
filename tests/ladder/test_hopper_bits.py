"""Every Hopper rung gives the bits that an H200 gave: shapes, types, layouts, outputs and epilogues of the edge matrix.

tests/data/hopper_digests.json has the digests of the outputs; benchmarks/hopper_digests.py recorded them.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from ptx_only import compile_to_ptx

from gemmsmith.ladder.registry import rungs
from gemmsmith.sim.device import SimDevice

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from hopper_digests import CONFIGURATIONS, OF_A_CONFIGURATION, configured, digest
from verify_on_gpu import SHAPES

RECORD: dict[str, Any] = json.loads((Path(__file__).parents[1] / "data" / "hopper_digests.json").read_text())
DIGESTS, CONFIGURED = RECORD["rungs"], RECORD["configurations"]
CASES = [(name, number) for its in (DIGESTS, CONFIGURED) for name, cases in its.items() for number in map(int, cases)]


@pytest.mark.parametrize(("name", "number"), CASES)
def test_the_same_bits_as_an_h200(name: str, number: int) -> None:
    recorded = (DIGESTS.get(name) or CONFIGURED[name])[str(number)]
    assert digest(SimDevice("sm_90"), *configured(name), number, compile_to_ptx) == recorded


def test_all_rungs_shapes_and_configurations_are_recorded() -> None:
    assert set(DIGESTS) == {spec.name for spec in rungs() if spec.arch_specific}
    assert set(CONFIGURED) == set(CONFIGURATIONS)
    assert len(CASES) == len(DIGESTS) * len(SHAPES) + len(CONFIGURED) * len(OF_A_CONFIGURATION)
