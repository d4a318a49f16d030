"""Changes for barriers that stand between two accesses and do not order them, without running any."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.cure.atomics import atomics
from gemmsmith.cure.barriers import barriers
from gemmsmith.cure.code import Code, Program
from gemmsmith.cure.edit import applied
from gemmsmith.cure.fault import Access, Fault, Race
from gemmsmith.cure.weak_barriers import weak_barriers

FILE = Path("kernel.cu")
NAMES = {name: name for name in ("A", "B", "C", "M", "N", "K")}
KERNEL = """__device__ void tell(int id) { asm volatile("bar.arrive %0, 64;" :: "r"(id)); }
__device__ void meet(int id) { asm volatile("bar.sync %0, 64;" :: "r"(id)); }
__global__ void k(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float s[64];
    for (int k = 0; k < K; ++k) {
        s[threadIdx.x] = A[k];
        FIRST
        acc += s[63 - threadIdx.x] * B[k];
        SECOND
    }
    meet(3);
}
"""


def changes(first: str, second: str = "", *, across_warps: bool = True, line: int = 8) -> list[str]:
    """The kernel after each change for a race of its write and its read."""
    program = Program((Code(FILE, KERNEL.replace("FIRST", first).replace("SECOND", second)),), "k", NAMES)
    race = Race(Access("write", (FILE.name, 6)), Access("read", (FILE.name, line)), across_warps, False, False, False)
    made = weak_barriers(program, Fault("race", (race,)))
    return [dict(applied(each.edits, program.files, shown=True))[FILE] for each in made]


@pytest.mark.parametrize(
    ("barrier", "across_warps", "mended"),
    [
        ("__syncwarp(half);", False, "__syncwarp();"),
        ("__syncwarp(half);", True, "__syncthreads();"),
        ("__syncwarp();", True, "__syncthreads();"),
        ('asm volatile("bar.sync %0, 32;" :: "r"(id) : "memory");', True, "__syncthreads();"),
        ("__syncwarp();", False, ""),
        ("__syncwarp(0xffffffff);", False, ""),
        ("__syncthreads();", True, ""),
    ],
)
def test_a_narrow_barrier_is_widened_everywhere(barrier: str, across_warps: bool, mended: str) -> None:
    made = changes(barrier, barrier, across_warps=across_warps)
    assert [text.count(mended) for text in made] == [2] * bool(mended)


def test_without_a_barrier_there_is_nothing_to_widen() -> None:
    assert changes("", "") == []


def test_threads_that_arrive_wait_instead() -> None:
    (inside,) = changes('asm volatile("bar.arrive 1, 64;");')
    assert 'asm volatile("bar.sync 1, 64;");' in inside
    (called,) = changes("tell(1);")
    assert "meet(1);" in called


def test_a_token_is_waited_for() -> None:
    (mended,) = changes("auto token = ready.arrive();")
    assert "ready.arrive();\n        ready.wait(cuda::std::move(token));\n" in mended
    assert changes("auto token = ready.arrive();", "ready.wait(std::move(token));") == []


def test_a_loop_without_braces_gets_them_with_its_barrier() -> None:
    text = """__global__ void k(const float* A, const float* B, float* C, int M, int N, int K) {
    for (int d = 16; d > 0; d /= 2)
        if (lane < d) s[lane] += s[lane + d];
}
"""
    program = Program((Code(FILE, text),), "k", NAMES)
    sides = (Access("write", (FILE.name, 3)), Access("read", (FILE.name, 3)))
    fault = Fault("race", (Race(*sides, False, False, False, False),))
    made = [dict(applied(each.edits, program.files, shown=True))[FILE] for each in barriers(program, fault)]
    assert "{ if (lane < d) s[lane] += s[lane + d]; __syncwarp(); }" in made[0]
    added = [dict(applied(each.edits, program.files, shown=True))[FILE] for each in atomics(program, fault)]
    assert "if (lane < d) atomicAdd(&s[lane], s[lane + d]);" in added[0]
