"""Profiles of launches of any kernel: simulated counts, against what ncu counted on an H200 for the same launches."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gemmsmith.call.launch import Launch
from gemmsmith.compile.sass import disassemble
from gemmsmith.errors import UsageError
from gemmsmith.explain.launch_comparison import compare_launches, comparison_json
from gemmsmith.explain.launch_profile import diagnose_launch, diagnosis_json, launch_json, launch_profile
from gemmsmith.gpus import gpu_named

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples" / "any_kernel"
TRANSPOSE = Launch(
    EXAMPLES / "transpose.cu",
    grid=(4, 3),
    block=(32, 8),
    args="width=100, height=70, in=randn(height, width, f32), out=empty(width, height, f32)",
)
REDUCE = Launch(
    EXAMPLES / "reduce.cu", "reduce<256>", grid=8, block=256, args="x=randn(10000,f32), out=zeros(8,f32), n=10000"
)
GLOBAL = "l1tex__t_{}_pipe_lsu_mem_global_op_{}.sum"
# Measured by ncu on an H200, with `gemmsmith profile --device gpu` of these two launches.
MEASURED = {
    "transpose": {GLOBAL.format("requests", "ld"): 280, GLOBAL.format("sectors", "ld"): 1015,
                  GLOBAL.format("requests", "st"): 300, GLOBAL.format("sectors", "st"): 1100,
                  "smsp__sass_inst_executed_op_shared_ld.sum": 300, "smsp__sass_inst_executed_op_shared_st.sum": 280,
                  "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": 300,
                  "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_st.sum": 280,
                  "smsp__warps_launched.sum": 96},
    "reduce": {GLOBAL.format("requests", "ld"): 313, GLOBAL.format("sectors", "ld"): 1250,
               GLOBAL.format("requests", "st"): 8, GLOBAL.format("sectors", "st"): 8,
               "smsp__sass_inst_executed_op_shared_ld.sum": 8, "smsp__sass_inst_executed_op_shared_st.sum": 64,
               "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ld.sum": 8,
               "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_st.sum": 64, "smsp__warps_launched.sum": 64},
}  # fmt: skip


@pytest.mark.parametrize(("name", "launch"), [("transpose", TRANSPOSE), ("reduce", REDUCE)])
def test_simulated_counts_are_those_of_the_gpu(name: str, launch: Launch) -> None:
    profile = launch_profile(launch.run(hazards=False))
    assert {metric: profile.value(metric) for metric in MEASURED[name]} == MEASURED[name]


def test_a_launch_that_was_not_counted_has_no_profile() -> None:
    with pytest.raises(UsageError, match="was not counted"):
        launch_profile(REDUCE.run(count=False))


def test_the_counters_of_a_result_are_those_of_its_profile() -> None:
    result = REDUCE.run()
    profile = launch_profile(result)
    assert result.counters is not None
    assert result.counters
    assert all(profile.value(name) == value for name, value in result.counters.items())


def test_few_blocks_are_the_first_finding_and_every_figure_is_json() -> None:
    gpu = gpu_named("H200")
    seen = []
    for launch in (TRANSPOSE, REDUCE):
        result = launch.run(hazards=False)
        sass = disassemble(result.launched.compiled)
        found = diagnose_launch(launch_profile(result, sass), sass, gpu, 40000)
        assert found.findings[0].kind == "too few blocks"
        json.dumps([launch_json(found.case.profile), diagnosis_json(found)], allow_nan=False)
        seen.append((found, sass))
    compared = compare_launches(seen[0], seen[1], gpu)
    assert "Shared-memory wavefronts: X has 580, Y 72." in compared.sentences
    assert not [row for row in compared.rows if row.section == "roofline"]
    json.dumps(comparison_json(compared), allow_nan=False)
