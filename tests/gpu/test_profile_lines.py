"""On a GPU with ncu: counts by source line add up to the launch's own, and are the simulator's."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from typing import Any

import pytest

from gemmsmith.cli.main import run_command
from gemmsmith.explain.profile import REQUESTS, WAVEFRONTS
from gemmsmith.run.cuda import cuda_device, gpu_available

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not gpu_available(), reason="needs an NVIDIA GPU"),
    pytest.mark.skipif(shutil.which("ncu") is None, reason="needs Nsight Compute's ncu on PATH"),
]

SIZE = ["--m", "256", "--n", "256", "--k", "256"]
_WAVES = "_wavefronts_mem_shared_op_"
_REQUESTS = "l1tex__t_requests_pipe_lsu_mem_global_op_"
_TAGGED = "l1tex__t_sectors_pipe_lsu_mem_global_op_"
_THEORETICAL = "memory_l2_theoretical_sectors_global"


def profile(capsys: pytest.CaptureFixture[str], kernel: str, *options: str) -> dict[str, Any]:
    assert run_command(["profile", kernel, *SIZE, *options, "--json"]) == 0, capsys.readouterr().err
    facts: dict[str, Any] = json.loads(capsys.readouterr().out)
    return facts


def measured(capsys: pytest.CaptureFixture[str], kernel: str) -> dict[str, Any]:
    return profile(capsys, kernel, "--device", "gpu", "--lines")


def simulated(capsys: pytest.CaptureFixture[str], kernel: str) -> dict[str, Any]:
    return profile(capsys, kernel, "--device", "sim", "--full", "--arch", cuda_device().arch)


def by_line(facts: dict[str, Any], *words: str) -> Counter[tuple[str, int]]:
    """Sums of the metrics with one of ``words`` in their names; lines that have none are left out."""
    found: Counter[tuple[str, int]] = Counter()
    for line in facts["lines"]:
        count = sum(value for name, value in line.items() if any(word in name for word in words))
        if count:
            found[line["file"], line["line"]] += count
    return found


@pytest.mark.parametrize("kernel", ["warp_tile", "async_copy"])
def test_lines_add_up_to_the_launch(kernel: str, capsys: pytest.CaptureFixture[str]) -> None:
    facts = measured(capsys, kernel)
    same = [made for made in facts["line_sums"] if made["name"] == made["total_name"]]
    assert {"smsp__inst_executed.sum", *REQUESTS.values(), *(WAVEFRONTS.format(op=op) for op in REQUESTS)} <= {
        made["name"] for made in same
    }
    assert [made for made in same if not made["equal"]] == []
    assert all(line["samples"] == sum(line["stalls"].values()) for line in facts["lines"])


@pytest.mark.parametrize("kernel", ["shared_tile", "warp_tile", "async_copy"])
def test_shared_wavefronts_are_the_simulators_line_by_line(kernel: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = by_line(measured(capsys, kernel), _WAVES)
    assert found == by_line(simulated(capsys, kernel), _WAVES)
    assert found


@pytest.mark.parametrize("kernel", ["naive", "shared_tile", "warp_tile"])
def test_sectors_are_the_simulators_where_lines_make_the_same_requests(
    kernel: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """ptxas gives some loads the line of what uses them (one of warp_tile's), so not every line has the same."""
    gpu, simulator = measured(capsys, kernel), simulated(capsys, kernel)
    sectors, expected = by_line(gpu, _THEORETICAL), by_line(simulator, _TAGGED)
    assert sectors.total() == expected.total()
    requests, asked = by_line(gpu, _REQUESTS), by_line(simulator, _REQUESTS)
    assert requests.total() == asked.total()
    comparable = {where for where in asked if requests[where] == asked[where]}
    assert comparable
    assert {where: sectors[where] for where in comparable} == {where: expected[where] for where in comparable}
