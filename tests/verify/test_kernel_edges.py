"""What a kernel's compiled code tells about sizes: strides of its loops, edges, guards."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gemmsmith.compile.compiler import compile_for
from gemmsmith.ladder.registry import rung_named
from gemmsmith.userfile.kernels.user_kernel import UserOptions, user_kernel
from gemmsmith.verify.code.edges import KernelEdges
from gemmsmith.verify.code.float_constants import adds_in_memory, compared_floats
from gemmsmith.verify.code.integer_ops import comparison, computation, read_as
from gemmsmith.verify.code.kernel_edges import kernel_edges, narrow_indices
from gemmsmith.verify.trials.check_shapes import check_shapes, tile_of_grid
from gemmsmith.verify.trials.edge_trials import edge_trials
from gemmsmith.verify.trials.trial import Size
from gemmsmith.verify.trials.trial_subject import Subject

TILED = """
#define TILE 16
__global__ void sgemm(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float As[TILE][TILE], Bs[TILE][TILE];
    int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
    float acc = 0.0f;
    for (int k0 = 0; k0 < K; k0 += TILE) {
        As[threadIdx.y][threadIdx.x] = LOAD_A;
        Bs[threadIdx.y][threadIdx.x] = LOAD_B;
        __syncthreads();
        for (int k = 0; k < TILE; ++k) acc += As[threadIdx.y][k] * Bs[k][threadIdx.x];
        __syncthreads();
    }
    EXTRA
    STORE C[row * N + col] = acc;
}
// gemmsmith: block=16,16 grid=ceil(N/16),ceil(M/16)
"""
A_LOAD, B_LOAD = "A[row * K + k0 + threadIdx.x]", "B[(k0 + threadIdx.y) * N + col]"
PLAIN = TILED.replace("LOAD_A", A_LOAD).replace("LOAD_B", B_LOAD).replace("STORE", "")
GUARDED = (
    TILED.replace("LOAD_A", f"row < M && k0 + threadIdx.x < K ? {A_LOAD} : 0.0f")
    .replace("LOAD_B", f"k0 + threadIdx.y < K && col < N ? {B_LOAD} : 0.0f")
    .replace("STORE", "if (row < M && col < N)")
)


def edges_of(folder: Path, source: str, extra: str = "") -> KernelEdges:
    path = folder / "mine.cu"
    path.write_text(source.replace("EXTRA", extra), encoding="utf-8")
    spec = user_kernel(path, UserOptions())
    base = spec.problem(*check_shapes(spec, spec.config()).base)
    return kernel_edges(spec, spec.config(), compile_for(spec, spec.config(), base, "sm_90"), base)


def test_the_stride_of_the_loop_is_the_k_tile(tmp_path: Path) -> None:
    assert edges_of(tmp_path, GUARDED).depths == (16,)


def test_guards_are_told_from_the_ends_of_loops(tmp_path: Path) -> None:
    assert edges_of(tmp_path, GUARDED).guards == {"M", "N", "K"}
    assert edges_of(tmp_path, PLAIN).guards == set()


def test_a_guard_beside_a_bound_on_lanes_is_seen(tmp_path: Path) -> None:
    """Half of the lanes write nothing: whole tiles part the threads at the same comparison."""
    stored = TILED.replace("blockIdx.x * TILE", "blockIdx.x * 8").replace("ceil(N/16)", "ceil(N/8)")
    stored = stored.replace("LOAD_A", A_LOAD).replace("LOAD_B", f"col < 8 * gridDim.x ? {B_LOAD} : 0.0f")
    assert edges_of(tmp_path, stored.replace("STORE", "if (threadIdx.x < 8 && col < N)")).guards == {"N"}
    assert edges_of(tmp_path, stored.replace("STORE", "if (threadIdx.x < 8)")).guards == set()


def test_guards_of_threads_that_cannot_be_followed_are_read_in_the_source(tmp_path: Path) -> None:
    taken = "while (atomicAdd((int*)&C[0], 1) < M) C[row] = acc;"
    found = edges_of(tmp_path, PLAIN.replace("EXTRA", taken))
    assert found.guards == set()
    found = edges_of(tmp_path, GUARDED.replace("EXTRA", taken))
    assert found.guards >= {"M", "N"}
    lines = GUARDED.splitlines()
    guarded = [n for n, text in enumerate(lines, 1) if "row < M" in text]
    assert [n for axis, n in found.guard_lines if axis == "M"] == guarded
    assert len(guarded) == 2


STRUCT = """
struct Arguments { int M, N, K; const float* A; const float* B; float* C; };
__global__ void sgemm(Arguments s) {
    __shared__ float a[16][16], b[16][16];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, col = blockIdx.x * 16 + x;
    float acc = 0.0f;
    int left = s.K;
    for (int k0 = 0; left > 0; k0 += 16, left -= 16) {
        a[y][x] = row < s.M && x < left ? s.A[row * s.K + k0 + x] : 0.0f;
        b[y][x] = y < left && col < s.N ? s.B[(k0 + y) * s.N + col] : 0.0f;
        __syncthreads();
        for (int k = 0; k < 16; ++k) acc += a[y][k] * b[k][x];
        __syncthreads();
    }
    if (row < s.M && col < s.N) s.C[row * s.N + col] = acc;
}
void run(const Arguments& s) {
    sgemm<<<dim3((s.N + 15) / 16, (s.M + 15) / 16), dim3(16, 16)>>>(s);
}
"""


def test_extents_that_are_loaded_in_pairs_are_followed(tmp_path: Path) -> None:
    """``ld.param.v2`` of a struct of arguments; the source does not compare with K."""
    assert edges_of(tmp_path, STRUCT).guards == {"M", "N", "K"}


def test_a_shifted_mask_is_an_index_of_16_bits(tmp_path: Path) -> None:
    """The compiler may mask with 65535 * 4 where an index of 16 bits is scaled."""
    assert narrow_indices([], ["and.b64  \t%rd85, %rd27, 262140"]) == (2**16,)
    assert narrow_indices([], ["and.b32  \t%r1, %r2, 65534", "and.b32 %r1, %r2, -8"]) == (2**15,)
    assert narrow_indices(["cvt.s64.s16 %rd1, %rs1"], []) == (2**15,)
    assert narrow_indices([], ["cvt.s32.s16 \t%r4, %r26"]) == (2**15,)  # (short)k
    assert narrow_indices([], ["cvt.s32.s16 \t%r4, %rs26"]) == ()
    walk = """
__global__ void sgemm(const float* A, const float* B, float* C, size_t M, size_t N, size_t K) {
    for (size_t i = threadIdx.y; i < M; i += 8)
        for (size_t j = threadIdx.x; j < N; j += 16) {
            float acc = 0.0f;
            for (size_t k = 0; k < K; ++k) acc += A[i * K + k] * B[k * N + (unsigned short)j];
            C[i * N + j] = acc;
        }
}
// gemmsmith: block=16,8 grid=1
"""
    edges = edges_of(tmp_path, walk)
    assert edges.narrow == (2**16,)
    spec = user_kernel(tmp_path / "mine.cu", UserOptions())
    base = spec.problem(64, 64, 64)
    labels = [t.label for t in edge_trials(Subject(spec, spec.config(), base, (16, 16), edges)) if "narrow" in t.group]
    assert labels == ["K = 65555", "N = 65552", "M = 65552"]  # of one output: the walk of a thread is short
    slow = replace(edges, long_steps=(2**20,))
    longer = [t.label for t in edge_trials(Subject(spec, spec.config(), base, (16, 16), slow)) if "narrow" in t.group]
    assert longer == ["N = 65552", "M = 65552"]
    assert not any(
        "16 bits" in t.group
        for t in edge_trials(Subject(spec, spec.config(), base, (16, 16), replace(edges, narrow=(), long_steps=())))
    )


def test_an_index_of_16_bits_gets_a_long_k(tmp_path: Path) -> None:
    narrow = GUARDED.replace("B[(k0 + threadIdx.y) * N", "B[(unsigned short)(k0 + threadIdx.y) * N")
    assert edges_of(tmp_path, narrow).narrow == (65536,)
    assert edges_of(tmp_path, GUARDED).narrow == ()
    spec = user_kernel(tmp_path / "mine.cu", UserOptions())
    subject = Subject(spec, spec.config(), spec.problem(64, 64, 64), (8, 8), KernelEdges((16,), narrow=(65536,)))
    longest = [max(trial.problem.k for trial in edge_trials(each))
               for each in (subject, replace(subject, edges=KernelEdges((16,))))]  # fmt: skip
    assert longest[0] > 65536 > longest[1]


ROUND = """
        As[threadIdx.y][threadIdx.x] = A[row * K + k0 + threadIdx.x];
        Bs[threadIdx.y][threadIdx.x] = B[(k0 + threadIdx.y) * N + col];
        __syncthreads();
        for (int k = 0; k < TILE; ++k) acc += As[threadIdx.y][k] * Bs[k][threadIdx.x];
        __syncthreads();"""
SWIZZLED = ROUND.replace("k0 + threadIdx.x]", "k0 + (threadIdx.x ^ (threadIdx.y & 8))]").replace(
    "As[threadIdx.y][threadIdx.x] =", "As[threadIdx.y][threadIdx.x ^ (threadIdx.y & 8)] ="
)
PAIRS = f"""int k0 = 0;
    for (; k0 + 2 * TILE <= K; k0 += TILE) {{ {ROUND} k0 += TILE; {ROUND} }}
    if (k0 + TILE <= K) {{ {SWIZZLED} }}
"""


def test_the_code_for_an_odd_number_of_k_tiles_guards_nothing(tmp_path: Path) -> None:
    start, end = TILED.index("for (int k0"), TILED.index("EXTRA")
    edges = edges_of(tmp_path, TILED[:start] + PAIRS + TILED[end:].replace("STORE", ""))
    assert edges.guards == {"K"}
    assert not edges.guarded("K", 16)
    assert edges_of(tmp_path, GUARDED).guarded("K", 16)


@pytest.mark.parametrize(
    ("extra", "axis", "value"),
    [
        ("if (K > 1500) acc += 1;", "K", 1501),
        ("if (K == 1500) acc += 1;", "K", 1500),
        ("if (M > 300) acc += 1;", "M", 301),
        ("if (N >= 5000) acc += 1;", "N", 5000),
        ("if (M == N) acc += 1;", "M", 64),
        ("if (blockIdx.y == 37) acc += 1;", "y", 37),
        ("if ((unsigned short)row != row) acc += 1;", "y", 4096),
        ("if (row > 9000) acc += 1;", "y", 562),
        ("if (K > 900 && M > 700) acc += 1;", "M", 701),
        ("if ((col & 4095) != col) acc += 1;", "x", 256),
    ],
)
def test_edges_are_where_the_code_changes(extra: str, axis: str, value: int, tmp_path: Path) -> None:
    assert value in edges_of(tmp_path, GUARDED, extra).along(axis)


def test_code_that_cannot_be_read_has_no_edges(tmp_path: Path) -> None:
    path = tmp_path / "mine.cu"
    path.write_text(PLAIN.replace("EXTRA", ""), encoding="utf-8")
    spec = user_kernel(path, UserOptions())
    base = spec.problem(64, 64, 64)
    compiled = compile_for(spec, spec.config(), base, "sm_90")
    assert not kernel_edges(spec, spec.config(), compiled.__class__(**{**vars(compiled), "ptx": ""}), base).was_read


def test_constants_that_floats_are_compared_with() -> None:
    ptx = "\tsetp.gt.f32 %p1, %f1, 0f447A0000;\n\tmax.f32 %f2, %f1, 0fC0000000;\n\tsetp.eq.f32 %p1, %f1, 0f00000000;\n"
    assert compared_floats(ptx) == (2.0, 1000.0)
    assert adds_in_memory("\tred.global.add.f32 [%rd1], %f1;\n")
    assert not adds_in_memory("\tatom.shared.add.f32 %f2, [%r1], %f1;\n")


@pytest.mark.parametrize(
    ("name", "operands", "result"),
    [
        ("add.s32", (3, -5), -2), ("mul.hi.u32", (1 << 31, 6), 3), ("mad.lo.s32", (3, 4, 5), 17),
        ("shr.s32", (-8, 1), -4), ("div.s32", (-7, 2), -3), ("rem.s32", (-7, 2), -1),
        ("bfe.u32", (0b110100, 2, 3), 0b101),
        ("min.s64", (2, 3), 2),
        ("lop3.b32", (0b1100, 0b1010, 0, 0xC0), 0b1000),
    ],
)  # fmt: skip
def test_integer_instructions(name: str, operands: tuple[int, ...], result: int) -> None:
    found = computation(name)
    assert found is not None
    assert found[0](*operands) & 0xFFFFFFFF == result & 0xFFFFFFFF


def test_comparisons_and_signs() -> None:
    below = comparison("setp.lt.s32")
    assert below is not None
    assert below(read_as(0xFFFFFFFF, "s", 32), 0)
    assert not below(read_as(0xFFFFFFFF, "u", 32), 0)
    assert computation("add.f32") is None


def test_a_launch_of_some_blocks_expects_no_more_outputs_than_there_are() -> None:
    """One ragged tile with a deep K is run as one block of a large product."""
    spec = rung_named("vectorized")
    config = spec.config()
    tile = tile_of_grid(spec, config)
    base = spec.problem(tile[0], tile[1], 64)
    subject = Subject(spec, config, base, tile, KernelEdges((16,), was_read=True), samples=True)
    sparse = [trial for trial in edge_trials(subject, full=True) if trial.size is Size.SPARSE]
    assert any(trial.problem.m < tile[0] for trial in sparse)
    assert all(trial.written <= trial.problem.m * trial.problem.n for trial in sparse)


@pytest.mark.parametrize(("until", "rounds_up"), [("k0 < K", True), ("k0 + 16 <= K", False)])
def test_a_round_for_the_rest_of_k_is_seen(until: str, rounds_up: bool, tmp_path: Path) -> None:
    assert "k0 < K" in GUARDED
    assert edges_of(tmp_path, GUARDED.replace("k0 < K", until)).rounds_up is rounds_up
