"""Kernels whose blocks wait for one another, on two streams at once: each needs all of its blocks on the GPU."""

from __future__ import annotations

import subprocess
import sys

import pytest

from gemmsmith.run.cuda import gpu_available

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not gpu_available(), reason="needs an NVIDIA GPU")]

SLICES = {"BM": 128, "BN": 128, "CONSUMERS": 2, "SLICES": 8, "CLUSTER_M": 1, "CLUSTER_N": 1}
PROGRAM = """
import sys
import torch
import gemmsmith

name, config = sys.argv[1], {config}
a = torch.randn(512, 4096, device="cuda").bfloat16()
b = torch.randn(4096, 512, device="cuda").bfloat16()
first = gemmsmith.gemm(a, b, kernel=name, config=config or None)
torch.cuda.synchronize()
streams = [torch.cuda.Stream() for _ in range(3)]
results = []
for _ in range(300):
    for stream in streams:
        with torch.cuda.stream(stream):
            results.append(gemmsmith.gemm(a, b, kernel=name, config=config or None))
torch.cuda.synchronize()
assert all(torch.equal(result, first) for result in results)
print("all", len(results), "equal")
"""


@pytest.mark.parametrize(("name", "config"), [("wgmma_cluster", SLICES), ("wgmma_stream_k", {})])
def test_several_streams(name: str, config: dict[str, int]) -> None:
    program = PROGRAM.replace("{config}", repr(config))
    done = subprocess.run(
        [sys.executable, "-c", program, name], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "all 900 equal"
