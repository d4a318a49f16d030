"""First calls of a process while torch captures a graph, with another thread that frees memory at the same time.

torch captures in the global mode: a driver call of any thread that might wait for the GPU ends the capture, unless that
thread allows it. JAX's threads do not, so beside JAX a capture must be of the thread's own mode (docs/jax.md).
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from typing import Any

import pytest

from gemmsmith.run.cuda import gpu_available

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not gpu_available(), reason="needs an NVIDIA GPU")]

CAPTURED = """
import json, math, os, sys, threading, time
os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"
import torch, gemmsmith
from gemmsmith.run.cuda import cuda_device

def normal(*shape, kind=torch.bfloat16):
    return torch.randn(*shape, device="cuda").to(kind)

f32 = torch.float32
square, odd = (normal(512, 512), normal(512, 512)), (normal(257, 131), normal(131, 203))
single = normal(384, 256, kind=f32), normal(256, 320, kind=f32)
odd_single = normal(77, 501, kind=f32), normal(501, 333, kind=f32)
deep, deep_single = (normal(64, 16384), normal(16384, 64)), (normal(48, 9000, kind=f32), normal(9000, 40, kind=f32))
batch = normal(6, 96, 80), normal(6, 80, 112)
rows, weight, bias = normal(33, 768), normal(1000, 768), normal(1000)
addend = normal(512, 512, kind=f32)
every_other = normal(300, 400)[::3, ::2]
CALLS = {
    "bf16": lambda: gemmsmith.matmul(*square),
    "unaligned": lambda: gemmsmith.matmul(*odd),
    "fp32": lambda: gemmsmith.matmul(*single),
    "unaligned fp32": lambda: gemmsmith.matmul(*odd_single),
    "split-K": lambda: gemmsmith.matmul(*deep),
    "split-K fp32": lambda: gemmsmith.matmul(*deep_single),
    "batch": lambda: gemmsmith.matmul(*batch),
    "linear": lambda: gemmsmith.torch.linear(rows, weight, bias),
    "addend": lambda: gemmsmith.gemm(*square, addend, alpha=0.5, beta=2),
    "copied": lambda: gemmsmith.matmul(every_other, normal_b),
}
normal_b = normal(200, 64)
torch.mm(normal_b, normal_b.mT)  # what torch does at its own first product

device, stop, stream = cuda_device(), threading.Event(), torch.cuda.Stream().cuda_stream
held, kept = [device.allocate(1 << 16) for _ in range(64)], []
if sys.argv[1] == "jax":
    import jax, jax.numpy as jnp
    if jax.default_backend() != "gpu":
        print("null")
        sys.exit()
    kept = [jnp.ones((300 + i, 200)) for i in range(64)]
    kept[-1].block_until_ready()

def free():
    while not stop.is_set():
        if held:
            device.free(held.pop())
        device.free(device.allocate(1 << 16))
        device.free_in_order(device.allocate_in_order(1 << 16, stream), stream)
        device.wait_for(stream)
        if kept:
            kept.pop()
        time.sleep(0.01)  # a thread that never waits would slow down the other

thread = threading.Thread(target=free, daemon=True)  # it must not outlive an error of the capture
graph, results = torch.cuda.CUDAGraph(), {}
torch.cuda.synchronize()
ended = {}
with torch.cuda.graph(graph, capture_error_mode=sys.argv[2]):
    thread.start()
    for name, call in CALLS.items():
        results[name] = call()
        if torch.cuda.is_current_stream_capturing() is False:
            ended[name] = "the capture ended"
stop.set()
thread.join()
different = []
for seed in range(2):
    torch.manual_seed(seed)
    square[0].copy_(normal(512, 512))
    for each in results.values():
        each.fill_(math.nan)
    graph.replay()
    found = {name: each.clone() for name, each in results.items()}
    different += [name for name, call in CALLS.items() if not torch.equal(found[name], call())]
print(json.dumps([len(CALLS), different, ended]))
"""


@pytest.mark.parametrize(("beside", "mode"), [("driver", "global"), ("jax", "thread_local")])
def test_first_calls_inside_a_capture(beside: str, mode: str) -> None:
    pytest.importorskip("torch")
    if beside == "jax" and find_spec("jax") is None:
        pytest.skip("JAX is not installed")
    command = [sys.executable, "-W", "ignore", "-c", CAPTURED, beside, mode]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    answer: Any = json.loads(done.stdout.splitlines()[-1])
    if answer is None:
        pytest.skip("JAX has no GPU")
    assert answer == [10, [], {}]
