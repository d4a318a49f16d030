"""Changes of how tiles are numbered, loaded ahead and counted, without running any."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from gemmsmith.cure import accumulators, like_expressions, prefetches, registers, tails, tile_orders
from gemmsmith.cure.code import Code, Program
from gemmsmith.cure.edit import Candidate, applied

FILE = Path("kernel.cu")
NAMES = {name: name for name in ("A", "B", "C", "M", "N", "K")}


def program(body: str) -> Program:
    text = f"__global__ void k(const float* A, const float* B, float* C, int M, int N, int K) {{\n{body}\n}}\n"
    return Program((Code(FILE, text),), "k", NAMES)


def texts(made: Iterable[Candidate], of: Program) -> list[str]:
    return [dict(applied(each.edits, of.files, shown=True))[FILE] for each in made]


@pytest.mark.parametrize(
    ("body", "mended"),
    [
        ("int wm = warp / 4 * 32, wn = warp / 4 * 32;", "wn = warp % 4 * 32"),
        ("int r = id % across; int c = id % across;", "r = id / across"),
        ("int r = id / across, c = id % across, again = id / across;", ""),
        ("int a = BN / TN, b = BN / TN, c = M / 4, d = M / 4;", ""),
        ("for (int i = id / 4; i < id / 4 + 3; ++i) C[i / 4] = A[i / 4];", ""),
    ],
)
def test_a_quotient_for_a_remainder(body: str, mended: str) -> None:
    of = program(body)
    made = texts(tile_orders.repeated_quotients(of), of)
    assert mended in made[0] if mended else made == []


def test_the_last_group_of_tiles_has_fewer() -> None:
    of = program("int down = M / 16, first = group * GROUP, size = min(down - first, GROUP);\n"
                 "int row = first + blockIdx.x % GROUP, col = blockIdx.x % width / size;")  # fmt: skip
    made = texts(tile_orders.group_sizes(of), of)
    assert len(made) == 1
    assert "first + blockIdx.x % size" in made[0]


def test_a_group_whose_size_nothing_computes() -> None:
    of = program("int down = (M + 15) / 16, group = blockIdx.x / width, first = group * GROUP;\n"
                 "int row = first + place % GROUP, col = place / GROUP;")  # fmt: skip
    made = texts(tile_orders.group_sizes(of), of)
    assert "place % min(down - first, GROUP), col = place / min(down - first, GROUP)" in made[0]


LOOP = (
    "for (int k = {start}; {test}; k += BK) {{ s[t] = next; __syncthreads(); next = A[k + t]; for (;;) sum += s[t]; }}"
)


@pytest.mark.parametrize(
    ("start", "test", "mended"),
    [("BK", "k < K", "k < K + BK"), ("0", "k + BK < K", "k < K"), ("0", "k < K", "")],
)
def test_the_last_tile_that_was_loaded_is_used(start: str, test: str, mended: str) -> None:
    of = program(LOOP.format(start=start, test=test))
    made = texts(prefetches.unused_tiles(of), of)
    assert any(f"; {mended};" in text for text in made) == bool(mended)
    # Then the loop's work once more after it, without its loads.
    assert made[-1].count("s[t] = next; __syncthreads();\n") <= made[-1].count("s[t] = next;")
    assert made[-1].count("for (;;) sum += s[t];") == 2


def test_a_loop_that_loads_no_operand_is_left_alone() -> None:
    of = program("for (int k = BK; k < K; k += BK) { __syncthreads(); s[t] = k; }")
    assert texts(prefetches.unused_tiles(of), of) == []


def test_registers_that_are_interchanged() -> None:
    of = program("a[0] = s[g][t]; a[1] = s[g][t + 4]; a[2] = s[g + 8][t]; a[3] = s[g + 8][t + 4]; acc[0] = 0;")
    made = texts(registers.interchanged(of), of)
    assert "a[1] = s[g + 8][t]; a[2] = s[g][t + 4];" in made[0]
    assert len(made) == 6


@pytest.mark.parametrize(
    ("body", "first", "count"),
    [
        ("for (int w = 0; w < K / 4; w += 4) sum = __dp4a(a[w], b[w], sum);", "; ++w)", 3),
        ("for (int k = 0; k < K; ++k) sum = __dp4a(*(const int*)&A[k], b[k], sum);", "; k += 4)", 4),
        ("for (int k = 0; k < K; ++k) sum += A[k] * B[k];", "", 0),
        ("for (int i = threadIdx.x; i < 64; i += 32) s[i] = A[i];", "", 0),
    ],
)
def test_steps_over_words(body: str, first: str, count: int) -> None:
    of = program(body)
    made = texts(tails.numbered_steps(of), of)
    assert len(made) == count
    assert count == 0 or first in made[0]


def test_a_loop_over_words_counts_elements() -> None:
    of = program("for (int w = 0; w < K; ++w) sum = __dp4a(a[w], b[w], sum);")
    assert "w < K / 4;" in texts(tails.counted_words(of), of)[0]


def test_declared_sums_are_compared() -> None:
    of = program("for (;;) { int from = col + c * TILE; x += B[from]; }\n for (;;) { int to = col + c; C[to] = x; }")
    assert any("int to = col + c * TILE;" in text for text in texts(like_expressions.unlike_expressions(of), of))


def test_one_tile_too_few() -> None:
    of = program("const int tiles = (K + BK - 1) / BK - 1; int last = K - 1;")
    assert [("/ BK;" in text, "K - 1;" in text) for text in texts(tails.fewer_tiles(of), of)] == [(True, True)]


def test_accumulators_that_mma_adds_to() -> None:
    of = program("float acc[2][4]; mma_m16n8k8(acc[i], a, b); float other[4]; store(other);")
    assert ["acc[2][4] = {};" in text for text in texts(accumulators.unset(of), of)] == [True]
