"""Changes for warps with roles and for waits by parity that are proposed for a text, without running any."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from gemmsmith.cure.code import Code, Program
from gemmsmith.cure.edit import Candidate, applied
from gemmsmith.cure.parities import other_parity, wrong_parities
from gemmsmith.cure.roles import missing_ways_back

FILE = Path("kernel.cu")
NAMES = {name: name for name in ("A", "B", "C", "M", "N", "K")}
HELPERS = """__device__ void wait(unsigned long long* b, int p) { asm("mbarrier.try_wait.parity p, [%0], %1;"); }
__device__ void arrive(unsigned long long* b) { asm volatile("mbarrier.arrive.shared.b64 _, [%0];"); }
__device__ void meet(int id) { asm volatile("bar.sync %0, 64;" :: "r"(id)); }
__device__ void tell(int id) { asm volatile("bar.arrive %0, 64;" :: "r"(id)); }
"""
ROLES = """    __shared__ float tile[STAGES][64];
    __shared__ unsigned long long full[STAGES], empty[STAGES];
    if (warp == 0) {
        for (int t = 0; t < tiles; ++t) {
            const int s = t % STAGES;
            FIRST
            tile[s][lane] = A[t * 64 + lane];
            FILLED
        }
    } else {
        for (int i = 0; i < tiles; ++i) {
            const int q = i % STAGES;
            READY
            acc += tile[q][lane];
            LAST
        }
    }
"""


def program(body: str) -> Program:
    head = "__global__ void k(const float* A, const float* B, float* C, int M, int N, int K) {"
    return Program((Code(FILE, f"{HELPERS}{head}\n{body}}}\n"),), "k", NAMES)


def texts(made: Iterable[Candidate], of: Program) -> list[str]:
    return [dict(applied(each.edits, of.files, shown=True))[FILE] for each in made]


def ways_back(first: str, filled: str, ready: str, last: str) -> list[str]:
    parts = {"FIRST": first, "FILLED": filled, "READY": ready, "LAST": last}
    body = ROLES
    for name, text in parts.items():
        body = body.replace(name, text)
    of = program("".join(line for line in body.splitlines(keepends=True) if line.strip()))
    return texts(missing_ways_back(of), of)


READY, FILLED = "wait(&full[q], (i / STAGES) & 1);", "arrive(&full[s]);"
EMPTY = "wait(&empty[s], ((t / STAGES) & 1) ^ 1);"


def test_those_who_fill_wait_for_the_barrier_at_which_readers_arrive() -> None:
    mended, *_ = ways_back("", FILLED, READY, "arrive(&empty[q]);")
    assert f"const int s = t % STAGES;\n            {EMPTY}\n" in mended


def test_the_same_of_barrier_objects() -> None:
    mended, *_ = ways_back("", "(void)filled[s].arrive();", "filled[q].arrive_and_wait();", "(void)ready[q].arrive();")
    assert "const int s = t % STAGES;\n            ready[s].arrive_and_wait();\n" in mended


def test_readers_arrive_at_the_barrier_that_is_waited_for() -> None:
    mended, *_ = ways_back(EMPTY, FILLED, READY, "")
    assert "acc += tile[q][lane];\n            arrive(&empty[q]);\n" in mended


def test_named_barriers_get_as_many_more() -> None:
    mended, *_ = ways_back("", "tell(1 + s);", "meet(1 + q);", "")
    assert "if (t >= STAGES) meet(1 + s + STAGES);" in mended
    assert "if (i + STAGES < tiles) tell(1 + q + STAGES);" in mended


def test_or_all_threads_meet_at_the_end_of_both_loops() -> None:
    assert ways_back("", FILLED, READY, "")[-1].count("            __syncthreads();\n        }") == 2


def test_one_loop_for_all_has_no_roles() -> None:
    of = program(
        "__shared__ float tile[2][64];\nfor (int t = 0; t < K; ++t) { tile[t % 2][x] = A[t]; s += tile[t % 2][y]; }\n"
    )
    assert list(missing_ways_back(of)) == []


@pytest.mark.parametrize(
    ("parity", "other"),
    [("phase", "phase ^ 1"), ("phase ^ 1", "phase"), ("(t & 1) ^ 1", "t & 1"), ("t & 1", "(t & 1) ^ 1"),
     ("(t + 1) & 1", "t & 1"), ("0", "0 ^ 1")],
)  # fmt: skip
def test_the_other_parity(parity: str, other: str) -> None:
    assert other_parity(parity) == other


LOOP = """__shared__ unsigned long long full[3];
for (int t = 0; t < K; ++t) {
    wait(&full[t % 3], PARITY);MORE
}
"""


@pytest.mark.parametrize(
    ("parity", "more", "mended"),
    [
        ("t & 1", "", "wait(&full[t % 3], (t / 3) & 1);"),
        ("t % 2", "", "wait(&full[t % 3], (t / 3) & 1);"),
        ("0", "", "wait(&full[t % 3], (t / 3) & 1);"),
        ("phase", "", "    phase ^= 1;\n}"),
        ("phase", "\n    s = (s + 1) % 3;", "s = (s + 1) % 3;\n    if (s == 0) phase ^= 1;"),
        ("phase", "\n    s = (s + 1) % 3;\n    phase ^= 1;", "if (s == 0) phase ^= 1;"),
        ("phase", "\n    phase ^= 1;", "wait(&full[t % 3], phase ^ 1);"),
    ],
)
def test_parities_of_a_stage(parity: str, more: str, mended: str) -> None:
    of = program(LOOP.replace("PARITY", parity).replace("MORE", more))
    assert mended in texts(wrong_parities(of), of)[0]


def test_the_instruction_in_the_kernel_itself() -> None:
    of = program(
        'for (int t = 0; t < K; ++t) {\n asm("mbarrier.try_wait.parity p, [%0], %1;" :: "r"(f), "r"(t & 1));\n}\n'
    )
    assert '"r"((t & 1) ^ 1)' in texts(wrong_parities(of), of)[-1]
