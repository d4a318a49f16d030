"""wgmma_split_k with UNALIGNED_OPERANDS = 3: three warps copy the small operand, TMA loads the other one."""

from __future__ import annotations

import pytest
from ptx_only import compile_to_ptx
from rung_launch import verified

from gemmsmith.kernel.geometry import TensorMap
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import BF16, FP16, Problem
from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.schedule import schedule_named

SPEC = rung_named("wgmma_split_k")
SMALL = {"BM": 40, "BN": 16, "STAGES": 2, "SPLIT": 2, "UNALIGNED_OPERANDS": 3}


@pytest.mark.parametrize(("m", "n", "k", "layout", "changes"), [
    (8, 72, 488, "TT", {"SWAP": 1}), (80, 8, 264, "NN", {"SWAP": 0, "DEPTH": 2}), (5, 48, 200, "TN", {"SWAP": 1}),
    (13, 40, 136, "NT", {"SWAP": 1, "SPLIT": 1}),
], ids=str)  # fmt: skip
def test_a_small_operand_in_rows_of_few_bytes(m: int, n: int, k: int, layout: str, changes: dict[str, int]) -> None:
    """More stages than the ring has; a small operand whose rows are unaligned; one that is stored along k."""
    problem = Problem(m, n, k, BF16, BF16, trans_a=layout[0] == "T", trans_b=layout[1] == "T", alpha=0.7)
    device = SimDevice("sm_90", schedule=schedule_named("reversed", 0, late_copies=True), hazards=True)
    verified(SPEC, SPEC.config(SMALL | changes), problem, device=device, mode="float", compile_fn=compile_to_ptx)


@pytest.mark.parametrize("swap", [0, 1])
def test_only_the_other_operand_has_a_map(swap: int) -> None:
    config = SPEC.config(SMALL | {"SWAP": swap})
    assert SPEC.unaligned_operands is not None
    assert SPEC.tensor_maps is not None
    maps = SPEC.tensor_maps(Problem(64, 64, 64, FP16, FP16), config)
    assert SPEC.unaligned_operands(config) == "BA"[swap]
    assert [its.operand for its in maps.values() if isinstance(its, TensorMap)] == ["AB"[swap]]
