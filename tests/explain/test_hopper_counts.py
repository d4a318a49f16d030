"""The counts of the Hopper rungs equal Nsight Compute's on an H200 (tests/data/hopper_counts.json).

Not compared: bank conflicts of stores and loads, which differ from run to run; loads of stream-K's flags, which blocks
poll; and multiplications that ptxas predicates where PTX selects.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gemmsmith.call.binding import aligned_code
from gemmsmith.compile.compiler import compile_for
from gemmsmith.explain.metrics import simulated
from gemmsmith.explain.sampling import Bench, count_launch
from gemmsmith.explain.simulated_profile import _bytes
from gemmsmith.ladder.registry import rung_named, rungs
from gemmsmith.problem import DTYPES, Problem

ROWS: list[dict[str, Any]] = json.loads((Path(__file__).parents[1] / "data" / "hopper_counts.json").read_text())["rows"]
SMALL = [row for row in ROWS if row["shape"][0] < 2048]
VARIES = ("data_bank_conflicts", "op_fmul_pred_on", "op_ffma_pred_on")


def problem_of(row: dict[str, Any]) -> Problem:
    layout = row["layout"]
    return Problem(*row["shape"], dtype=rung_named(row["rung"]).dtypes[0], out_dtype=DTYPES[row["out"]],
                   trans_a=layout[0] == "T", trans_b=layout[1] == "T")  # fmt: skip


@pytest.mark.parametrize(
    "row", SMALL, ids=lambda row: f"{row['rung']}-{'x'.join(map(str, row['shape']))}-{row['layout']}"
)
def test_counts_are_those_of_ncu(row: dict[str, Any]) -> None:
    spec, problem = rung_named(row["rung"]), problem_of(row)
    config, seen = aligned_code(spec, spec.config(), problem)
    found = simulated(count_launch(spec, config, problem, compile_for(spec, config, seen, "sm_90")).counters)
    left_out = (*VARIES, "mem_global_op_ld") if spec.name == "wgmma_stream_k" else VARIES
    assert {name: value for name, value in found.items() if value and not any(w in name for w in left_out)} == {
        name: value for name, value in row["metrics"].items() if not any(w in name for w in left_out)
    }


@pytest.mark.parametrize("name", [spec.name for spec in rungs() if spec.arch_specific or spec.prologue is not None])
def test_counts_do_not_depend_on_data(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting moves no data on Hopper and leaves the prologue out; with both, the counts are the same."""
    spec, problem = rung_named(name), Problem(72, 136, 192, dtype=rung_named(name).dtypes[0])
    config, seen = aligned_code(spec, spec.small_config(), problem)
    compiled = compile_for(spec, config, seen, "sm_90")
    quick = Bench(spec, config, problem, compiled)
    assert not quick.prepares
    assert quick.device.moves_data == (not spec.arch_specific)
    without = quick.count()
    monkeypatch.setattr("gemmsmith.explain.sampling._PERIOD", 1000)
    whole = Bench(spec, config, problem, compiled)
    assert whole.prepares
    assert whole.device.moves_data
    counted = whole.count()
    assert simulated(without) | _bytes(without) == simulated(counted) | _bytes(counted)
