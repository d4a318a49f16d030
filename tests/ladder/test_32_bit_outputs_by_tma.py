"""wgmma_cluster stages 32-bit outputs in shared memory, and TMA stores them: right at edges, in every layout, with
old values of C, tail tiles and several rounds of staging."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_only import compile_to_ptx

from gemmsmith.call.binding import bind, specialized_config
from gemmsmith.fills import operands
from gemmsmith.kernel.renamed import DIRECT, THREADS, TMA
from gemmsmith.kernel.spec import Addresses
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import BF16, FP32, Problem
from gemmsmith.run.memory import upload
from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.schedule import schedule_named

SPEC = rung_named("wgmma_cluster")
SMALL = {"BM": 64, "BN": 64, "STAGES": 2, "CONSUMERS": 1, "GROUP": 2, "CLUSTER_M": 1, "CLUSTER_N": 1}
ALIGNED = Addresses(256, 256, 256)


def product(config: dict[str, int], problem: Problem, schedule: str = "lockstep") -> tuple[np.ndarray, np.ndarray]:
    """C by the simulator, and by float64."""
    device, data = SimDevice("sm_90", schedule=schedule_named(schedule)), operands(problem, "normal", 7)
    places = Addresses(*(upload(device, values) for values in (data.a, data.b, data.c)))
    for step in bind(device, SPEC, SPEC.config(SMALL | config), problem, places, device.allocate(256), compile_to_ptx):
        device.launch(step.loaded, step.launch)
    raw = device.read(places.c, problem.m * problem.n * 4)
    a, b = data.a.astype(np.float64), data.b.astype(np.float64)
    old = data.c.astype(np.float64) if problem.beta else 0.0
    expected = problem.alpha * (a.T if problem.trans_a else a) @ (b.T if problem.trans_b else b) + problem.beta * old
    return np.asarray(raw).view(np.float32).reshape(problem.m, problem.n).astype(np.float64), expected


def problem_of(m: int, n: int, k: int, layout: str = "NT", **more: float) -> Problem:
    return Problem(m, n, k, BF16, FP32, trans_a=layout[0] == "T", trans_b=layout[1] == "T", **more)  # type: ignore[arg-type]


def mode_of(config: dict[str, int], problem: Problem) -> int:
    return specialized_config(SPEC, SPEC.config(SMALL | config), problem, ALIGNED)["STORE_MODE"]


@pytest.mark.parametrize(
    ("m", "n", "layout", "config"),
    [
        (100, 132, "NT", {}), (64, 64, "NN", {}), (72, 36, "TT", {"BN": 16}), (136, 200, "TN", {"BN": 96}),
        (130, 300, "NT", {"BM": 128, "BN": 128, "STAGES": 6}),  # few boxes fit, so several rounds
        (200, 304, "NT", {"BM": 128, "BN": 160, "STAGES": 6, "CONSUMERS": 1}),  # two boxes for five, two times
        (200, 152, "NT", {"BM": 128, "BN": 144, "CLUSTER_M": 2}), (70, 392, "NN", {"BN": 192, "CLUSTER_N": 2}),
        (150, 100, "NT", {"BM": 128, "BN": 48, "CONSUMERS": 2}),
    ],
)  # fmt: skip
def test_outputs_are_right_at_every_edge(m: int, n: int, layout: str, config: dict[str, int]) -> None:
    problem = problem_of(m, n if layout[1] == "T" else -(-n // 8) * 8, 136, layout)
    found, expected = product(config, problem)
    assert mode_of(config, problem) == TMA
    assert np.abs(found - expected).max() <= 2.0**-19 * np.abs(expected).max()


def test_old_values_of_c_are_added() -> None:
    found, expected = product({}, problem_of(70, 100, 72, alpha=0.5, beta=-2.0))
    assert np.abs(found - expected).max() <= 2.0**-19 * np.abs(expected).max()


def test_tail_tiles_have_32_bit_outputs_too() -> None:
    problem = problem_of(64 * 132, 300, 8)  # two waves of 128 columns would be longer than wide and tail tiles
    config = {"BN": 128, "TAIL_BN": 64}
    assert specialized_config(SPEC, SPEC.config(SMALL | config), problem, ALIGNED)["TAIL_BN"] == 64
    small = problem_of(130, 300, 40)
    found, expected = product(config, small)
    assert np.abs(found - expected).max() <= 2.0**-19 * np.abs(expected).max()


def test_the_result_does_not_depend_on_the_schedule() -> None:
    config, problem = {"BM": 128, "BN": 128, "STAGES": 6}, problem_of(130, 260, 200)
    first, _ = product(config, problem)
    for schedule in ("reversed", "random"):
        again, _ = product(config, problem, schedule)
        assert np.array_equal(first, again), schedule


@pytest.mark.parametrize(("n", "address"), [(66, 256), (64, 264)])
def test_rows_that_do_not_start_on_16_bytes_are_stored_from_registers(n: int, address: int) -> None:
    config = SPEC.config(SMALL | {"TAIL_BN": 0})
    fitted = specialized_config(SPEC, config, problem_of(64, n, 64), Addresses(256, 256, address))
    assert (fitted["STORE_MODE"], fitted["STORE_BOXES"]) == (DIRECT, 0)


def test_threads_store_no_32_bit_outputs() -> None:
    assert mode_of({"STORE_MODE": THREADS}, problem_of(64, 64, 64)) == DIRECT
