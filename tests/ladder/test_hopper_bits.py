"""Every Hopper rung gives the bits that an H200 gave: shapes, types, layouts, outputs and epilogues of the edge matrix.

tests/data/hopper_digests.json has the digests of the outputs; benchmarks/verify_on_gpu.py has the shapes and variants.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from ptx_only import compile_to_ptx

from gemmsmith.call.binding import bind, workspace_bytes
from gemmsmith.fills import operands
from gemmsmith.kernel.spec import Addresses, KernelSpec
from gemmsmith.ladder.registry import rung_named, rungs
from gemmsmith.problem import Problem
from gemmsmith.run.memory import upload
from gemmsmith.sim.device import SimDevice

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))

from verify_on_gpu import SHAPES, variant

DIGESTS: dict[str, Any] = json.loads((Path(__file__).parents[1] / "data" / "hopper_digests.json").read_text())["rungs"]
CASES = [(name, number) for name, cases in DIGESTS.items() for number in map(int, cases)]


def product(spec: KernelSpec, problem: Problem, seed: int) -> bytes:
    """C, from the operands that the GPU had."""
    device, data = SimDevice("sm_90"), operands(problem, "normal", seed)
    filled = [data.a, data.b, data.c, *([data.bias] if data.bias is not None else [])]
    places = Addresses(*(upload(device, values) for values in filled))
    workspace = device.allocate(workspace_bytes(spec, spec.config(), problem, places))
    for step in bind(device, spec, spec.config(), problem, places, workspace, compile_to_ptx):
        device.launch(step.loaded, step.launch)
    return device.read(places.c, problem.m * problem.n * problem.out_dtype.itemsize).tobytes()


@pytest.mark.parametrize(("name", "number"), CASES)
def test_the_same_bits_as_an_h200(name: str, number: int) -> None:
    spec, recorded = rung_named(name), DIGESTS[name][str(number)]
    problem = variant(spec, number)
    assert str(problem) == recorded["problem"]
    digest = hashlib.sha256(product(spec, problem, number)).hexdigest()
    assert digest.startswith(recorded["sha256"]), f"{name} {problem}"


def test_all_rungs_and_shapes_are_recorded() -> None:
    assert set(DIGESTS) == {spec.name for spec in rungs() if spec.arch_specific}
    assert len(CASES) == len(DIGESTS) * len(SHAPES)
