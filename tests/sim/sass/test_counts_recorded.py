"""Counts of executed machine code equal those of Nsight Compute on an H200, for the same cubins.

tests/data/machine_counts.json.gz: five kernels with ragged edges, made by benchmarks/record_machine_counts.py.
"""

from __future__ import annotations

import base64
import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gemmsmith.explain.machine_profile import EXECUTED, instruction_rows, program_of
from gemmsmith.explain.metrics import simulated
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.run.device import Launch
from gemmsmith.sim.counters import Counters
from gemmsmith.sim.sass.device import MachineDevice

DATA = Path(__file__).parents[2] / "data" / "machine_counts.json.gz"


@cache
def cases() -> dict[str, Any]:
    found = json.loads(gzip.decompress(DATA.read_bytes()))["cases"]
    return {case["title"]: case for case in found}


def counted(case: dict[str, Any]) -> Counters:
    device = MachineDevice(case["arch"], count=True)
    arguments = []
    for argument in case["arguments"]:
        if isinstance(argument, str):
            arguments.append(bytes.fromhex(argument))
            continue
        address = device.allocate(argument["bytes"])
        device.write(address, np.zeros(argument["bytes"], np.uint8))
        arguments.append(address.to_bytes(8, "little"))
    loaded = device.load_cubin(base64.b64decode(case["cubin"]), case["entry"], case["arch"])
    geometry = Geometry(tuple(case["grid"]), tuple(case["block"]), smem=case["smem"])
    device.launch(loaded, Launch(geometry, tuple(arguments)))
    assert device.counters is not None
    return device.counters


@pytest.mark.parametrize("name", ["block_tile_1d fp32", "mma_swizzled fp16"])
def test_every_counter_and_every_instruction(name: str) -> None:
    check(name)


@pytest.mark.parametrize("name", ["naive fp32", "shared_tile fp32", "async_copy fp32"])
def test_more_kernels(name: str) -> None:
    check(name)


def check(name: str) -> None:
    case = cases()[f"{name} 131x197x75"]
    counters = counted(case)
    program = program_of(counters)
    assert program is not None
    rows = instruction_rows(counters, program)
    found = {**simulated(counters), EXECUTED: sum(row.executed for row in rows)}
    assert len(case["metrics"]) > 20
    assert {metric: found[metric] for metric in case["metrics"]} == case["metrics"]
    assert [row.executed for row in rows] == case["executed"]
    assert [row.threads for row in rows] == case["threads"]
