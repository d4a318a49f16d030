"""Products of wgmma_cluster by the simulator, beside float64: what the tests of its forms share."""

from __future__ import annotations

import numpy as np
from ptx_only import compile_to_ptx

from gemmsmith.call.binding import bind, workspace_bytes
from gemmsmith.fills import operands
from gemmsmith.kernel.spec import Addresses, KernelSpec
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import BF16, FP16, DType, Problem
from gemmsmith.run.memory import upload
from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.schedule import schedule_named

SPEC = rung_named("wgmma_cluster")
SMALL = {"BM": 64, "STAGES": 2, "CONSUMERS": 1, "GROUP": 2, "CLUSTER_M": 1, "CLUSTER_N": 1}


def product(config: dict[str, int], problem: Problem, schedule: str = "lockstep", spec: KernelSpec = SPEC
            ) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """C by the simulator, and by float64."""
    device, data = SimDevice("sm_90", schedule=schedule_named(schedule)), operands(problem, "normal", 7)
    places = Addresses(*(upload(device, values) for values in (data.a, data.b, data.c)))
    chosen = spec.config(SMALL | config)
    workspace = device.allocate(max(256, workspace_bytes(spec, chosen, problem, places)))
    for step in bind(device, spec, chosen, problem, places, workspace, compile_to_ptx):
        device.launch(step.loaded, step.launch)
    raw = device.read(places.c, problem.m * problem.n * problem.out_dtype.itemsize)
    found = np.asarray(raw).view(data.c.dtype).reshape(problem.m, problem.n).astype(np.float64)
    a, b = data.a.astype(np.float64), data.b.astype(np.float64)
    return found, (a.T if problem.trans_a else a) @ (b.T if problem.trans_b else b)


def problem_of(m: int, n: int, k: int, layout: str = "NT", out: DType = BF16, dtype: DType = BF16) -> Problem:
    return Problem(m, n, k, dtype, out, trans_a=layout[0] == "T", trans_b=layout[1] == "T")


def assert_close(found: np.ndarray, expected: np.ndarray, out: DType) -> None:
    unit = 2.0**-8 if out == BF16 else 2.0**-11 if out == FP16 else 2.0**-20
    scale = np.abs(expected).max()
    assert np.abs(found - expected).max() <= 2 * unit * scale
