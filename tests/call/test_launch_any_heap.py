"""malloc and free, new and delete in a kernel: results, leaks, and what goes wrong with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gemmsmith
from gemmsmith.errors import CompileError, SimulationError

CODE = """
struct Node { Node* next; int value; };
__global__ void lists(int* out, int n) {
    Node* head = nullptr;
    for (int i = 0; i < n; i++) head = new Node{head, i};
    int sum = 0;
    while (head) { sum += head->value; Node* next = head->next; delete head; head = next; }
    out[threadIdx.x] = sum;
}
__global__ void leak(int* out) { int* p = (int*)malloc(16); *p = threadIdx.x; out[threadIdx.x] = *p; }
__global__ void twice(int* out) {
    int* p = (int*)malloc(16);
    out[0] = p != nullptr;
    free(p);
    free(p);
}
__global__ void past(int* out, int at) { int* p = (int*)malloc(16); p[at] = 7; out[0] = p[at]; free(p); }
__global__ void late(int* out) { int* p = (int*)malloc(16); *p = 1; free(p); out[0] = *p; }
__global__ void inside(int* out) { int* p = (int*)malloc(16); *p = 1; out[0] = *p; free(p + 1); }
__global__ void other(int* out) { free(out); }
__global__ void large(int* out) { int* p = (int*)malloc(9 << 20); out[0] = p == nullptr; free(p); }
__global__ void empty(int* out) { void* p = malloc(0); out[0] = p != nullptr; out[1] = (size_t)p % 16; free(p); }
__global__ void churn(int* out, int n) {
    for (int i = 0; i < n; i++) {
        int* p = (int*)malloc(1 << 20);
        if (!p) return;
        *p = i;
        out[0] = *p;
        free(p);
    }
}
__global__ void shared_block(int* out) {
    __shared__ int* p;
    if (threadIdx.x == 0) p = (int*)malloc(64 * sizeof(int));
    __syncthreads();
    p[threadIdx.x] = threadIdx.x;
    #ifdef SAFE
    __syncthreads();
    #endif
    out[threadIdx.x] = p[63 - threadIdx.x];
    __syncthreads();
    if (threadIdx.x == 0) free(p);
}
"""


def run(kernel: str, *args: Any, block: int = 64, grid: int = 1, **more: Any) -> Any:
    return gemmsmith.launch(CODE, kernel, grid=grid, block=block, args=[np.zeros(64, np.int32), *args], **more)


def test_lists_of_each_thread() -> None:
    result = run("lists", 10)
    assert result["out"].tolist() == [45] * 64
    assert result.ok
    assert not result.notes


def test_memory_that_is_never_freed_is_a_note() -> None:
    result = run("leak")
    assert result.ok
    (note,) = result.notes
    assert "memory leak: 64 blocks (1,024 bytes) that malloc gave at kernel.cu:10 are never freed" in note


@pytest.mark.parametrize(
    ("kernel", "args", "words"),
    [
        ("twice", [], r"double free of the 16 bytes .* at kernel.cu:12, which was freed at kernel.cu:14 before"),
        ("past", [4], "out-of-bounds .* 0 bytes past the end of the 16 bytes that malloc gave thread"),
        ("past", [100], "384 bytes past the end of the 16 bytes"),
        ("past", [-1], "out-of-bounds"),
        ("late", [], "use-after-free .* 0 bytes inside the 16 bytes .* freed at kernel.cu:18"),
        ("inside", [], "free of 0x[0-9a-f]+, 4 bytes inside the 16 bytes"),
        ("other", [], "which malloc never gave"),
    ],
)
def test_faults_name_the_block_and_its_lines(kernel: str, args: list[Any], words: str) -> None:
    with pytest.raises(SimulationError, match=words):
        run(kernel, *args)


def test_what_a_gpu_does_at_the_limits() -> None:
    """Recorded on an H200: 9 MiB are too much for the default heap; malloc(0) is a pointer on 16 bytes."""
    large = run("large", block=1)
    assert large["out"][0] == 1
    assert "returned null" in large.notes[0]
    assert run("empty", block=1)["out"][:2].tolist() == [1, 0]


def test_freed_memory_comes_back_when_there_is_no_other() -> None:
    assert run("churn", 300, block=1, hazards=False)["out"][0] == 299


@pytest.mark.parametrize("schedule", ["lockstep", "in_order", "reversed", "random", "starved"])
def test_races_on_the_heap_are_found_under_every_schedule(schedule: str) -> None:
    racy = run("shared_block", schedule=schedule)
    assert any("the device heap" in str(hazard) for hazard in racy.hazards)
    safe = run("shared_block", schedule=schedule, defines={"SAFE": 1})
    assert safe.ok
    assert safe["out"].tolist() == list(range(63, -1, -1))
    assert not safe.notes, "the second look starts from an empty heap"


def test_kernels_that_launch_kernels_are_refused_by_name() -> None:
    source = "__global__ void child(int* x) { *x = 1; }\n__global__ void parent(int* x) {\n    child<<<1, 1>>>(x);\n}\n"
    with pytest.raises(CompileError) as raised:
        gemmsmith.launch(source, "parent", grid=1, block=1, args=[np.zeros(1, np.int32)])
    assert "kernel.cu(3)" in raised.value.message
    assert "dynamic parallelism" in raised.value.hint
    assert "gemmsmith.launch" in raised.value.hint
