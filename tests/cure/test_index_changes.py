"""Changes of the arithmetic of indices that are proposed for a text, without running any."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from gemmsmith.cure import (
    accumulators,
    block_shapes,
    counters,
    fragments,
    index_arithmetic,
    launches,
    reductions,
    scales,
    tails,
)
from gemmsmith.cure.candidates import candidates
from gemmsmith.cure.code import Code, Program
from gemmsmith.cure.edit import Candidate, applied
from gemmsmith.cure.fault import Fault
from gemmsmith.cure.unrolled_tails import missing_tails

FILE = Path("kernel.cu")
NAMES = {name: name for name in ("A", "B", "C", "M", "N", "K")}


def program(body: str, host: str = "", scale: str = "") -> Program:
    text = f"__global__ void k(const float* A, const float* B, float* C, int M, int N, int K) {{\n{body}\n}}\n{host}"
    return Program((Code(FILE, text),), "k", NAMES, scales=(scale,) if scale else ())


def texts(made: Iterable[Candidate], of: Program) -> list[str]:
    return [dict(applied(each.edits, of.files, shown=True))[FILE] for each in made]


@pytest.mark.parametrize(
    ("body", "mended"),
    [
        (
            "int r = id / tilesM, c = id % tilesM; int tilesM = M / 8, tilesN = N / 8;",
            "r = id / tilesN, c = id % tilesN",
        ),
        ("int down = M / 8, over = N / 8, r = id / down, c = id % down;", "r = id / over, c = id % over"),
        ("int r = t / (BM / TM), c = t % (BM / TM), n = BN / TN;", "r = t / (BN / TN), c = t % (BN / TN)"),
        ("int r = id / tilesM, c = other % tilesM, tilesN = N;", ""),
        ("int r = id / 16, c = id % 16;", ""),
    ],
)
def test_divisors_of_the_other_extent(body: str, mended: str) -> None:
    of = program(body)
    made = texts(index_arithmetic.counterpart_divisors(of), of)
    assert any(mended in text for text in made) if mended else made == []


def test_numbers_that_take_a_lane_apart() -> None:
    of = program("int lane = threadIdx.x; float x = A[(lane >> 2) * K + (lane & 3)]; x += B[lane % 8]; C[K % 8] = x;")
    made = texts(index_arithmetic.other_numbers(of), of)
    assert any("(lane >> 3) * K + (lane & 7)" in text for text in made), "a shift and its mask belong together"
    assert any("B[lane % 16]" in text for text in made)
    assert not any("K % 16" in text or "K % 4" in text for text in made), "K is no thread's number"


def test_a_factor_changes_in_all_indices_of_an_array() -> None:
    of = program("int t = threadIdx.x % 4; C[t] = A[t * 2 + 1] + A[t * 2] + B[t];")
    made = texts(index_arithmetic.other_factors(of), of)
    assert any("C[t * 2] = A[t * 2 + 1]" in text for text in made)
    assert any("A[t * 4 + 1] + A[t * 4]" in text for text in made)
    assert any("A[t + 1] + A[t] + B[t]" in text for text in made)


def test_strides_of_the_arrays_own_sizes_come_first() -> None:
    of = program("__shared__ float As[BM * BK], Bs[BK * BN]; C[i] = As[y * BM + j] * Bs[j * BK + x];")
    made = texts(index_arithmetic.other_strides(of), of)
    assert "As[y * BK + j]" in made[0]
    assert "Bs[j * BN + x]" in made[1]


FRAGMENT = """int l = threadIdx.x, g = l >> 2, t = l & 3;
  asm("mma.sync.aligned.m16n8k16.row.col");
  C[(g) * N + t * 2] = c[0];
  C[(g) * N + t * 2 + 1] = c[1];
  C[(g + 8) * N + t * 2] = c[2];
  C[(g + 8) * N + t * 2 + 1] = c[3];"""


def test_fragments_are_laid_out_as_ptx_says() -> None:
    assert list(fragments.wrong_fragments(program(FRAGMENT))) == [], "they are"
    of = program(FRAGMENT.replace("g + 8) * N + t * 2]", "g + 4) * N + t * 2]"))
    (mended,) = texts(fragments.wrong_fragments(of), of)
    assert FRAGMENT in mended
    assert list(fragments.wrong_fragments(program(FRAGMENT.replace("m16n8k16", "m8n8k4")))) == [], "another layout"


def test_ldmatrix_with_and_without_a_transpose() -> None:
    of = program(
        'asm("ldmatrix.sync.aligned.m8n8.x2.shared.b16"); asm("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16");'
    )
    made = texts(fragments.transposed_loads(of), of)
    assert ["m8n8.x2.trans.shared" in text for text in made] == [True, False]
    assert ["m8n8.x4.shared" in text for text in made] == [False, True]


def test_indices_of_scales() -> None:
    of = program("int row, col; C[row * N + col] = A[row * K + k] * s[(k % G) * K + row];", scale="s")
    made = texts(scales.wrong_scales(of), of)
    for wanted in ("s[(k / G) * K + row]", "s[(k % G) * K + col]", "s[(k % G) * N + row]"):
        assert any(wanted in text for text in made)
    assert list(scales.wrong_scales(program("C[0] = s[k % 4];"))) == [], "s is no scale"


def test_bytes_and_threads_of_the_launch() -> None:
    of = program("", "void f() { dim3 b(16, 8); size_t n = T * 4; k<<<1, b, n>>>(A); k2<<<1, 64, 5>>>(); }")
    assert [text.split("n = ")[1].split(";")[0] for text in texts(launches.more_shared_memory(of), of)] == [
        "2 * T * 4", "3 * T * 4", "4 * T * 4", "8 * T * 4"]  # fmt: skip
    assert any("b(16, 16)" in text for text in texts(block_shapes.other_blocks(of), of))
    assert not any("k2<<<1, 32" in text for text in texts(block_shapes.other_blocks(of), of))
    of = program("", "void f() { k<<<1, 64, T - 4>>>(A); }")
    assert "k<<<1, 64, 2 * (T - 4)>>>" in texts(launches.more_shared_memory(of), of)[0]


def test_changes_that_do_nothing_in_the_failing_trial_come_last() -> None:
    of = program("int row = threadIdx.y, col = threadIdx.x; C[row * M + col] = A[row * K + 1];")
    square = [each.change for each in candidates(of, Fault("value", extents={"M": 64, "N": 64, "K": 192}))]
    apart = [each.change for each in candidates(of, Fault("value", extents={"M": 64, "N": 128, "K": 192}))]
    wanted = next(change for change in apart if "write `N` for `M`" in change)
    assert sorted(square) == sorted(apart)
    assert square.index(wanted) > apart.index(wanted)
    assert square.index(wanted) >= len(square) - 2


@pytest.mark.parametrize(
    "zeroed",
    ["acc[0] = 0.f;", "for (int i = 0; i < 4; ++i) acc[i] = 0;", "for (int i = 0; i < 4; ++i) { acc[i] = 0.0f; }"],
)
def test_sums_that_are_set_before_a_loop_over_outputs(zeroed: str) -> None:
    loop = "for (int b = 0; b < batch; ++b) { for (int k = 0; k < K; ++k) acc[0] += A[k]; C[b] = acc[0]; }"
    of = program(f"float acc[4]; {zeroed} {loop}")
    assert any(f"++b) {{ {zeroed} for" in text for text in texts(accumulators.not_reset(of), of))
    alone = program(f"float acc[4]; {zeroed} for (int k = 0; k < K; ++k) {{ acc[0] += A[k]; }} C[0] = acc[0];")
    assert texts(accumulators.not_reset(alone), alone) == [], "the loop that sums"


def test_steps_of_a_loop_over_tiles_and_over_elements() -> None:
    of = program(
        "for (int t = blockIdx.y; t < M; t += blockDim.x) C[t] = 0; for (int i = tid; i < N; i += 256) C[i] = 0;"
    )
    made = texts(tails.wrong_steps(of, computed=False), of)
    assert any("t += gridDim.y" in text for text in made)
    assert any("i += blockDim.x)" in text for text in made)


@pytest.mark.parametrize(
    ("body", "mended"),
    [
        ("for (int i = 0; i < 4; i++) for (int j = 0; j < 4; ++j) c[i][j] += a[i] * b[i];", "a[i] * b[j]"),
        ("for (int i = 0; i < 4; i++) for (int k = 0; k < 4; ++k) a[i] = As[k][k];", "As[i][k]"),
        ("for (int i = 0; i < 4; i++) for (int j = 0; j < 4; ++j) c[i][j] += a[i] * b[j];", ""),
        ("for (int i = 0; i < 4; i++) for (int j = 0; j < 4; ++j) c[i][j] = 0;", ""),
    ],
)
def test_the_counter_that_the_right_side_lacks(body: str, mended: str) -> None:
    of = program(body)
    made = texts(counters.missing_counters(of), of)
    assert any(mended in text for text in made) if mended else made == []


def test_numbers_that_an_index_adds() -> None:
    of = program("unsigned x = A[t + 8], y = B[row * K + 3];")
    assert [text.split("\n")[1] for text in texts(index_arithmetic.other_offsets(of), of)] == [
        "unsigned x = A[t + 4], y = B[row * K + 3];",
        "unsigned x = A[t + 16], y = B[row * K + 3];",
    ]


@pytest.mark.parametrize(
    ("loop", "first"),
    [
        ("int d = 16; d > 1; d /= 2", "int d = 16; d > 0; d /= 2"),
        ("int d = 16; d >= 2; d >>= 1", "int d = 16; d >= 1; d >>= 1"),
        ("int d = 16; d > 0; d >>= 2", "int d = 16; d > 0; d >>= 1"),
        ("int d = 8; d > 0; d >>= 1", "int d = 16; d > 0; d >>= 1"),
    ],
)
def test_distances_of_shuffles(loop: str, first: str) -> None:
    of = program(f"for ({loop}) v += __shfl_down_sync(0xffffffff, v, d);")
    assert first in texts(reductions.wrong_distances(of), of)[0]


def test_strides_unlike_those_of_the_other_accesses() -> None:
    of = program("__shared__ float Bs[BK * BN]; Bs[r * BN + c] = B[r]; s += Bs[k * BK + x];")
    assert "s += Bs[k * BN + x];" in texts(index_arithmetic.unlike_strides(of), of)[1]
    alike = program("__shared__ float Bs[BK * BN]; Bs[r * BN + c] = B[r]; s += Bs[k * BN + x];")
    assert list(index_arithmetic.unlike_strides(alike)) == []


def test_numbers_that_an_index_multiplies_by() -> None:
    of = program("*(float4*)&Bs[y * BN + (t % 16) * 2] = v;")
    assert "Bs[y * BN + (t % 16) * 4]" in texts(index_arithmetic.numbered_factors(of), of)[0]


@pytest.mark.parametrize(
    ("block", "made"), [("dim3(32, 32)", 1), ("dim3(16, 16)", 0), ("dim3(32, 8)", 0), ("dim3(TB, TB)", 1)]
)
def test_tiles_of_another_side_than_the_block(block: str, made: int) -> None:
    host = f"#define TILE 16\nvoid f() {{ const int TB = 32; k<<<g, {block}>>>(A, B, C, M, N, K); }}"
    of = program("__shared__ float a[TILE][TILE];", host)
    found = texts(block_shapes.other_tiles(of), of)
    assert len(found) == made
    assert all("#define TILE 32" in text for text in found)


@pytest.mark.parametrize(
    ("loop", "tail"),
    [
        ("int i = 0;\nfor (; i + 3 < K; i += 4) { s += A[i]; s += A[i + 1]; }", "for (; i < K; ++i) s += A[i];"),
        (
            "for (int i = 0; i < K - 1; i += 2) { s += A[i]; t += A[i + 1]; }",
            "for (int i = K / 2 * 2; i < K; ++i) s += A[i];",
        ),
        ("for (int i = 0; i < K; ++i) { s += A[i]; t += B[i]; }", ""),
        ("for (int i = 0; i < K; i += T) { s += A[i]; __syncthreads(); }", ""),
    ],
)
def test_tails_of_unrolled_loops(loop: str, tail: str) -> None:
    of = program(loop)
    made = texts(missing_tails(of), of)
    assert tail in made[0] if tail else made == []
