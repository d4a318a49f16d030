"""Changes for races between blocks, without running any: orders, scopes, fences and barriers of clusters."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.cure.barriers import barriers
from gemmsmith.cure.code import Code, Program
from gemmsmith.cure.edit import applied
from gemmsmith.cure.fault import Access, Fault, Race
from gemmsmith.cure.memory_orders import memory_orders

FILE = Path("kernel.cu")
NAMES = {name: name for name in ("A", "B", "C", "M", "N", "K")}


def program(body: str) -> Program:
    text = f"__global__ void k(const float* A, const float* B, float* C, int M, int N, int K) {{\n{body}\n}}\n"
    return Program((Code(FILE, text),), "k", NAMES)


def race(first: int, second: int, *, is_global: bool = True, across_blocks: bool = True) -> Fault:
    sides = Access("write", (FILE.name, first)), Access("read", (FILE.name, second))
    return Fault("race", (Race(*sides, True, False, is_global, across_blocks),))


def changes(body: str, fault: Fault) -> list[str]:
    of = program(body)
    return [dict(applied(each.edits, of.files, shown=True))[FILE] for each in memory_orders(of, fault)]


@pytest.mark.parametrize(
    ("weak", "strong"),
    [
        ("t.load(cuda::memory_order_relaxed);", "t.load(cuda::memory_order_acquire);"),
        ("t.store(1, cuda::memory_order_relaxed);", "t.store(1, cuda::memory_order_release);"),
        ("t.fetch_add(1, cuda::memory_order_relaxed);", "t.fetch_add(1, cuda::memory_order_acq_rel);"),
        ('asm("st.relaxed.gpu.u32 [%0], 1;");', "st.release.gpu"),
        ('asm("ld.relaxed.cluster.u32 %0, [%1];");', "ld.acquire.cluster"),
        ('asm("red.relaxed.gpu.add.u32 [%0], 1;");', "red.release.gpu"),
        ('asm("mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [%0];");', "mbarrier.arrive.release.cluster"),
        ('asm("mbarrier.try_wait.parity.relaxed.cta.shared.b64 p, [%0], 0;");', "try_wait.parity.acquire.cta"),
        ('asm("barrier.cluster.arrive.relaxed.aligned;");', "barrier.cluster.arrive.release.aligned"),
        ("cuda::atomic_ref<int, cuda::thread_scope_block> t(x);", "cuda::thread_scope_device"),
        ('asm("st.release.cta.u32 [%0], 1;");', "st.release.gpu"),
    ],
)
def test_a_stronger_order_or_a_wider_scope(weak: str, strong: str) -> None:
    made = changes(f"  C[0] = 1;\n  {weak}\n  A[0];", race(2, 4))
    assert strong in made[0]
    assert changes(f"  C[0] = 1;\n  {weak}\n  A[0];", race(2, 4, across_blocks=False)) == []


def test_a_fence_before_the_atomic() -> None:
    (mended,) = changes("  parts[i] = s;\n  __syncthreads();\n  last = atomicInc(&n, 1);\n  s = parts[j];", race(2, 5))
    assert "  parts[i] = s;\n  __threadfence();\n  __syncthreads();" in mended


def test_a_fence_behind_the_wait_for_a_flag() -> None:
    body = "  if (b) part[i] = s;\n  if (x == 0) while (atomicAdd(&up, 0) == 0) {}\n  s += part[j];"
    first, both, after = changes(body, race(2, 4))[:3]
    assert "part[i] = s;\n  __threadfence();" in first
    assert "part[i] = s;\n  __threadfence();" in both
    for text in (both, after):
        assert "{ while (atomicAdd(&up, 0) == 0) {} __threadfence(); }" in text


def test_threads_meet_before_one_of_them_raises_a_flag() -> None:
    body = "  part[i] = s;\n  __threadfence();\n  if (threadIdx.x == 0) atomicExch(&up, 1);\n  s += part[j];"
    meets = "  __threadfence();\n  __syncthreads();\n  if (threadIdx.x == 0)"
    assert any(meets in text for text in changes(body, race(2, 5)))
    assert not any(
        text.count("__syncthreads") > 1
        for text in changes(body.replace("  if", "  __syncthreads();\n  if"), race(2, 6))
    )


def test_a_barrier_of_the_grid() -> None:
    body = "  auto everyone = cooperative_groups::this_grid();\n  w[i] = s;\n  __syncthreads();\n  C[0] = w[j];"
    assert any("w[i] = s;\n  everyone.sync();\n  C[0]" in text for text in changes(body, race(3, 5)))


def test_a_barrier_of_the_cluster() -> None:
    body = "  auto team = cg::this_cluster();\n  *there = s;\n  __syncthreads();\n  C[0] = total[0];"
    made = changes(body, race(3, 5, is_global=False))
    assert "*there = s;\n  team.sync();\n  C[0]" in made[0]
    assert any("*there = s;\n  team.sync();\n  __syncthreads();" in text for text in made[1:])


def test_one_barrier_in_a_loop_parts_what_is_loaded_before_it_and_in_it() -> None:
    of = program("""  load(0);
  for (int k = 0; k < K; ++k) {
    wait();
    load(k + 1);
    acc += s[k];
  }""")
    before, inside, read = (Access(verb, (FILE.name, line)) for verb, line in (("write", 2), ("write", 5), ("read", 6)))
    races = tuple(Race(*pair, True, False, False, False) for pair in ((before, read), (inside, read), (read, inside)))
    singles = [each.change for each in barriers(of, Fault("race", races)) if len(each.edits) == 1]
    assert "insert `__syncthreads();` after line 4" in singles[:2]


def test_accesses_that_happen_once_are_parted_in_the_order_of_the_text() -> None:
    of = program("  if (x == 0) last = atomicInc(&n, 1) == 1;\n  if (last) C[0] = 1;")
    read, write = Access("read", (FILE.name, 3)), Access("write", (FILE.name, 2))
    first = next(barriers(of, Fault("race", (Race(read, write, True, False, False, False),))))
    assert first.change == "insert `__syncthreads();` after line 2"
    assert first.cause == "no barrier between the write in line 2 and the read in line 3"
