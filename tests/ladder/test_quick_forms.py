"""Stand-ins of fp32 kernels for first calls: on the simulator they give the bits of those kernels."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

import gemmsmith
from gemmsmith.ladder.quick_forms import quick_form
from gemmsmith.ladder.registry import rung_named

REGISTERS = "fp32_wgmma_registers"
# In order: four and two steps of k in the tensor core, with and without compensation, and every cluster.
CASES = [
    (REGISTERS, {"BM": 64, "BN": 32, "STAGES": 2, "SPLIT": 2, "SWAP": 1, "COMPENSATED": 1}, 4),
    (REGISTERS, {"BM": 64, "BN": 96, "STAGES": 2, "SPLIT": 1, "SWAP": 0, "COMPENSATED": 0}, 2),
    (REGISTERS, {"BM": 64, "BN": 48, "STAGES": 2, "SPLIT": 4, "SWAP": 0, "COMPENSATED": 0}, 4),
    (REGISTERS, {"BM": 192, "BN": 32, "STAGES": 2, "SPLIT": 1, "SWAP": 1, "COMPENSATED": 1}, 2),
    ("fp32_wgmma_bf16x6", {"BM": 64, "BN": 64, "STAGES": 3, "CONSUMERS": 1, "CLUSTER_M": 1, "COMPENSATED": 1}, 0),
]  # fmt: skip


@pytest.mark.parametrize(("name", "changes", "steps"), CASES)
def test_the_same_bits(name: str, changes: Mapping[str, int], steps: int) -> None:
    spec = rung_named(name)
    config = spec.config(changes)
    quick = quick_form(spec, config)
    assert quick is not None
    assert dict(quick[1]).get("K_STEPS", 0) == steps
    rng = np.random.default_rng(3)
    a, b = ((rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 4, shape)).astype(np.float32)
            for shape in ((19, 261), (261, 40)))  # fmt: skip
    a[2, 3], b[4, 5] = np.inf, 3e38
    with np.errstate(all="ignore"):
        found = gemmsmith.gemm(a, b, kernel=quick[0], config=quick[1], deterministic=True)
        expected = gemmsmith.gemm(a, b, kernel=spec, config=config)
    assert np.array_equal(found.view(np.uint32), expected.view(np.uint32))


def test_other_kernels_have_none() -> None:
    spec = rung_named("wgmma_cluster")
    assert quick_form(spec, spec.config()) is None
