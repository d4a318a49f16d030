"""Stand-ins of first calls on a GPU: the bits of the rungs they stand in for, in many configurations."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import gemmsmith
from gemmsmith.call.api import _request
from gemmsmith.errors import ConfigError
from gemmsmith.ladder.registry import rung_named
from gemmsmith.ladder.stand_in import stand_in
from gemmsmith.run.cuda import cuda_device, gpu_available

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not gpu_available() or cuda_device().arch != "sm_90", reason="needs a Hopper GPU"),
]

CASES = {
    "wgmma_split_k": [{"SPLIT": 1}, {"SPLIT": 4, "DEPTH": 2, "SWAP": 1, "BN": 16}, {"SPLIT": 8, "BN": 32},
                      {"SPLIT": 2, "BN": 16, "SWAP": 1, "UNALIGNED_OPERANDS": 1}],
    "wgmma_cluster": [{}, {"BM": 64, "BN": 64, "CONSUMERS": 1, "CLUSTER_M": 1, "CLUSTER_K": 2},
                      {"BM": 64, "BN": 64, "CONSUMERS": 1, "CLUSTER_M": 1, "SLICES": 3}],
    "fp32_wgmma_bf16x6": [{}, {"BN": 192, "STAGES": 5, "BLOCKED_SUMS": 0}],
    "fp32_wgmma_registers": [{"SPLIT": 2, "SWAP": 1, "BN": 16}, {"SPLIT": 8, "BM": 64, "BN": 32},
                             {"BN": 128, "STAGES": 2, "COMPENSATED": 0}, {"BM": 192, "BN": 32, "SPLIT": 4, "SWAP": 1}],
    "simt_best": [{}, {"SHARERS": 132},
                  {"BM": 16, "BN": 128, "BK": 32, "WM": 16, "WN": 64, "TM": 4, "TN": 8, "TEAMS": 4},
                  {"BM": 32, "BN": 32, "BK": 64, "WM": 32, "WN": 32, "TM": 8, "TN": 4, "TEAMS": 8, "CLUSTER_K": 4}],
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_it_has_the_bits_of_the_rung(name: str) -> None:
    torch: Any = pytest.importorskip("torch")
    torch.manual_seed(1)
    dice, spec = Random(name), rung_named(name)
    kind = torch.float32 if "bf16" not in [each.name for each in spec.dtypes] else torch.bfloat16

    def operand(rows: int, cols: int, pad: int) -> Any:
        """Stored by rows or by columns; numbers of many magnitudes, some of them infinite."""
        transposed = dice.random() < 0.5
        rows, cols = (cols, rows) if transposed else (rows, cols)
        wide = torch.randn(rows, cols + pad, device="cuda") * torch.randint(-8, 8, (rows, 1), device="cuda").exp2()
        found = wide[:, :cols].to(kind) if pad == 0 else wide.to(kind)[:, :cols]
        if dice.random() < 0.2:
            found[0, 0] = float("inf")
        return found.mT if transposed else found

    compared = 0
    for changes in CASES[name] * 3:
        m, n, k = (dice.choice((1, 5, 33, 64, 100, 257, 700, 1300)) for _ in range(3))
        pad = dice.choice((0, 0, 1, 8))
        a, b = operand(m, k, pad), operand(k, n, pad)
        options = {"bias": torch.randn(n, device="cuda")} if dice.random() < 0.3 else {}
        options |= {"alpha": 0.7} if dice.random() < 0.3 else {}
        try:
            config = spec.config(changes)
            expected = gemmsmith.gemm(a, b, kernel=spec, config=dict(config), out_dtype="fp32", **options)
        except ConfigError:  # too much shared memory in this layout
            continue
        request = _request(a, b, None, options.get("alpha", 1), 0, options.get("bias"), "", "", "fp32", spec,
                           dict(config), None, "", True, wait=True)  # fmt: skip
        other = stand_in(spec, request.config, request.problem, resident=cuda_device().sms)
        if other is None and changes.get("SLICES", 1) > 1:  # too many blocks: the kernel may have no slices
            continue
        assert other is not None
        found = gemmsmith.gemm(a, b, kernel=other, out_dtype="fp32", **options)
        assert torch.equal(found.nan_to_num(nan=7.25), expected.nan_to_num(nan=7.25)), (changes, m, n, k, pad)
        compared += 1
    assert compared >= len(CASES[name])
