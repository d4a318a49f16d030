"""The first calls of shapes, with an empty cache: how long they wait, what they compile, and their bits."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gemmsmith.run.cuda import gpu_available

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not gpu_available(), reason="needs an NVIDIA GPU")]
MOST_KERNELS = 10
MOST_SECONDS = 0.3
SLOWER_HERE = 2  # two tests share a core

FORTY = """
import json, random, sys, time, torch, gemmsmith
random.seed(5)
shapes = [(m, n, k) for n, k in ((4096, 4096), (14336, 4096), (4096, 14336), (2304, 768), (768, 3072), (50257, 768),
                                 (5120, 5120), (8192, 1024)) for m in (1, 17, 300, 512, 2048)]
kind = getattr(torch, sys.argv[1])
if sys.argv[2] == "random":
    extents = (1, 8, 33, 64, 100, 256, 500, 784, 1000, 1024, 2000, 3000, 4096)
    shapes = [tuple(random.choice(extents) for _ in range(3)) for _ in range(40)]
torch.randn(64, 64, device="cuda") @ torch.randn(64, 64, device="cuda")
taken = []
for m, n, k in shapes:
    a, w = (torch.randn(*size, device="cuda").to(kind) for size in ((m, k), (n, k)))
    torch.cuda.synchronize()
    start = time.perf_counter(), time.process_time()
    gemmsmith.matmul(a, w.mT)
    torch.cuda.synchronize()
    # Beside other tests the clock counts their time, too; compiling is work of this process.
    taken.append(min(time.perf_counter() - start[0], time.process_time() - start[1]))
print(json.dumps(taken))
"""

SAME_BITS = """
import json, sys, torch, gemmsmith
different = []
kind = getattr(torch, sys.argv[1])
for m, n, k in ((300, 4096, 14336), (4096, 4096, 4096), (2048, 768, 3072), (5000, 1001, 777), (1000, 1000, 8200),
                (1, 4096, 4096), (33, 700, 5000), (64, 64, 64)):
    a, w = (torch.randn(*size, device="cuda").to(kind) for size in ((m, k), (n, k)))
    results = [gemmsmith.matmul(a, w.mT) for _ in range(4)]
    if not all(torch.equal(each, results[0]) for each in results):
        different.append((m, n, k))
print(json.dumps(different))
"""

CAPTURED = """
import json, torch, gemmsmith
a, b = (torch.randn(1024, 1024, device="cuda").bfloat16() for _ in range(2))
torch.mm(a, b)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    c = gemmsmith.matmul(a, b)
graph.replay()
torch.cuda.synchronize()
print(json.dumps(torch.equal(c, gemmsmith.matmul(a, b))))
"""


def run(script: str, cache: Path, *words: str) -> Any:
    pytest.importorskip("torch")
    cache.mkdir(mode=0o700)
    environment = {**os.environ, "GEMMSMITH_CACHE_DIR": str(cache)}
    environment.pop("GEMMSMITH_FIRST_CALL", None)
    done = subprocess.run([sys.executable, "-c", script, *words], env=environment, capture_output=True, text=True,
                          check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("shapes", ["usual", "random"])
@pytest.mark.parametrize("kind", ["bfloat16", "float32"])
def test_forty_new_shapes(kind: str, shapes: str, tmp_path: Path) -> None:
    taken = run(FORTY, tmp_path / "cache", kind, shapes)
    assert len(taken) == 40
    compiled = list((tmp_path / "cache").glob("*.kernel"))
    print(f"{len(compiled)} kernels; seconds of the slowest calls: {sorted(taken)[-12:]}")
    assert len(compiled) <= MOST_KERNELS
    assert max(taken[1:]) <= MOST_SECONDS * SLOWER_HERE


@pytest.mark.parametrize("kind", ["bfloat16", "float32"])
def test_all_calls_of_a_shape_give_the_same_bits(kind: str, tmp_path: Path) -> None:
    assert run(SAME_BITS, tmp_path / "cache", kind) == []


def test_a_first_call_can_be_captured(tmp_path: Path) -> None:
    assert run(CAPTURED, tmp_path / "cache") is True
