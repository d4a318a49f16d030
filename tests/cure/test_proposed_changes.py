"""Each kind of mistake has its change proposed, for a text and without running it; a text without it gets none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from gemmsmith.cure import (
    accumulators,
    block_shapes,
    block_steps,
    bounds,
    branches,
    copies,
    counterparts,
    counters,
    guards,
    index_arithmetic,
    indices,
    launches,
    pointer_steps,
    scalars,
    stages,
    sum_types,
    tails,
    warp_functions,
    zero_fill,
)
from gemmsmith.cure.cleared_outputs import cleared_before
from gemmsmith.cure.code import Code, Program
from gemmsmith.cure.edit import Candidate, applied
from gemmsmith.cure.fault import Access, Fault, Race
from gemmsmith.cure.host_arguments import passed_arguments
from gemmsmith.cure.shared_overlap import overlapping_arrays

FILE = Path("kernel.cu")
NAMES = {name: name for name in ("A", "B", "C", "M", "N", "K")}
SCALED = NAMES | {"alpha": "alpha", "beta": "beta"}
HEAD = "__global__ void k(const float* A, const float* B, float* C, int M, int N, int K, float alpha, float beta) {\n"
PLACE = "int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;\n"
STORE = "C[row * N + col] = acc;"
VALUE = Fault("value")
EXITED = Fault("barrier", exited=(("kernel.cu", 4),))


def program(text: str) -> Program:
    """A body, and host code behind `---`."""
    body, _, host = text.partition("---")
    names = SCALED if "beta" in body else NAMES
    source = f"{HEAD}{body}\n}}\n{host}"
    line = next((i for i, each in enumerate(source.split("\n"), 1) if "<<<" in each), 0)
    return Program((Code(FILE, source),), "k", names, (FILE, line) if line else None)


def changed(made: Iterable[Candidate], of: Program) -> list[str]:
    return [" ".join(dict(applied(each.edits, of.files, shown=True))[FILE].split()) for each in made]


def racing(first: int, second: int, *, copy: bool = False, blocks: bool = False) -> Fault:
    pair = Access("write", (FILE.name, first)), Access("read", (FILE.name, second))
    return Fault("race", (Race(*pair, across_warps=True, is_copy=copy, is_global=blocks, across_blocks=blocks),))


def launch(grid: str = "dim3(N / 16, M / 16)", block: str = "dim3(16, 16)", given: str = "A, B, C, M, N, K") -> str:
    return f"---void run(float* A, float* B, float* C, int M, int N, int K) {{\n k<<<{grid}, {block}>>>({given});\n}}"


Proposing = Callable[[Program], Iterable[Candidate]]
# What proposes, a text with the mistake, what the mended one has, and a text that is left alone.
CASES: dict[str, tuple[Proposing, str, str, str]] = {
    "fragments that nothing fills": (
        accumulators.unfilled_fragments,
        "wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;\nwmma::mma_sync(c, a, b, c);",
        "float> c; wmma::fill_fragment(c, 0.0f); wmma::mma_sync",
        "wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;\nfill_fragment(c, 0);\nwmma::mma_sync(c, a, b, c);"),
    "blocks along x alone": (
        block_shapes.flat_blocks, PLACE + launch(block="256"), ">>>".join(("M / 16), dim3(16, 16)", "(A, B")),
        "int i = threadIdx.x;" + launch(block="256")),
    "blocks that are too large": (
        block_shapes.smaller_blocks, PLACE + "---const int T = 64;\nvoid run() { k<<<g, dim3(T, T)>>>(A, B, C); }",
        "const int T = 32;", PLACE + launch()),
    "threads with one number": (
        block_steps.thread_numbers, "int i = blockIdx.x + blockDim.x * threadIdx.x;",
        "int i = blockIdx.x * blockDim.x + threadIdx.x;", "int i = blockIdx.x * blockDim.x + threadIdx.x;"),
    "a grid that counts threads for warps": (
        block_steps.warp_grids,
        "int w = (blockIdx.x * blockDim.x + threadIdx.x) / 32;\nint row = w * 16;"
        + launch("dim3(M / 128, N / 16)", "128"),
        "dim3(M / (16 * 128 / 32), N / 16)", PLACE + launch()),
    "a guard with <=": (
        lambda of: bounds.comparisons(of, VALUE, tighter=True), "if (row <= M) " + STORE, "if (row < M)",
        "if (row < M) " + STORE),
    "a guard with < for <=": (
        lambda of: bounds.comparisons(of, VALUE, tighter=False), "for (k = 0; k < K; ++k) acc += A[k];", "k <= K",
        "for (k = 0; k <= K; ++k) acc += A[k];"),
    "a loop over another extent": (
        bounds.loop_extents, "for (int k = 0; k < N; ++k) acc += A[k];", "k < K;",
        "for (int k = 0; k < 16; ++k) acc += A[k];"),
    "a guard with M for N": (
        bounds.swapped_guards, "if (row < N && col < M) " + STORE, "if (row < M && col < N)",
        "if (row < 16) " + STORE),
    "a return before a barrier": (
        lambda of: branches.early_returns(of, EXITED),
        PLACE + "if (row >= M || col >= N) return;\n__syncthreads();\nfloat acc = A[row * K];\nC[row * N + col] = acc;",
        "threadIdx.x; __syncthreads(); float acc = (row < M && 0 < K ? A[row * K] : 0); if (row < M && col < N) C",
        PLACE + "\n__syncthreads();\n" + STORE),
    "a return that belongs behind the barriers": (
        branches.late_returns, "if (row >= M) return;\na[t] = 0;\n__syncthreads();\n" + STORE,
        "__syncthreads(); if (row >= M) return; C[row", "a[t] = 0;\n__syncthreads();\nif (row >= M) return;"),
    "a barrier that is all of a branch": (
        lambda of: branches.moved_barriers(of, VALUE), "a[t] = 0;\nif (t < 8) __syncthreads();", "a[t] = 0; __sync",
        "a[t] = 0;\n__syncthreads();"),
    "a barrier within a branch": (
        lambda of: branches.opened_branches(of, VALUE), "if (t < 8) {\n a[t] = 0;\n __syncthreads();\n b[t] = 1;\n}",
        "a[t] = 0; } __syncthreads(); if (t < 8) { b[t] = 1;", "if (t < 8) a[t] = 0;\n__syncthreads();"),
    "outputs that a block clears": (
        lambda of: cleared_before(of, racing(2, 3, blocks=True)),
        "if (blockIdx.z == 0) C[i] = 0;\natomicAdd(&C[i], acc);" + launch(),
        "cudaMemset(C, 0, sizeof(*C) * M * N); k<<<", "C[i] = 1;\natomicAdd(&C[i], acc);" + launch()),
    "a copy that nothing waits for": (
        lambda of: copies.waits(of, racing(2, 4, copy=True)),
        "__pipeline_memcpy_async(&a[t], &A[t], 4);\n__pipeline_commit();\nacc = a[31 - t];",
        "__pipeline_commit(); __pipeline_wait_prior(0); __syncthreads(); acc", ""),
    "a copy of no group": (
        lambda of: copies.waits(of, racing(2, 4, copy=True)),
        "__pipeline_memcpy_async(&a[t], &A[t], 4);\n__pipeline_wait_prior(0);\nacc = a[31 - t];",
        "4); __pipeline_commit(); __pipeline_wait_prior(0);", ""),
    "axes that do not match": (
        counterparts.mismatched_axes, "int row = blockIdx.y * 16 + threadIdx.x;", "blockIdx.y * 16 + threadIdx.y",
        PLACE),
    "the same half twice": (
        counterparts.other_halves, "acc += __low2float(a) * __low2float(b) + __high2float(a) * __low2float(b);",
        "__high2float(a) * __high2float(b)", "acc += a * b;"),
    "a fragment of the other layout": (
        counterparts.other_layouts, "wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::col_major> b;",
        "half, wmma::row_major> b;", "wmma::fragment<wmma::accumulator, 16, 16, 16, float> c;"),
    "the other axis of a thread": (
        counterparts.other_threads, "int tx = threadIdx.x, ty = threadIdx.y;\nacc += B[(k + tx) * N + col];",
        "B[(k + ty) * N + col]", "acc += B[k * N + col];"),
    "a component twice": (
        counterparts.repeated_components, "float4 a;\nacc = a.x + a.y + a.z + a.z;", "a.z + a.w;",
        "float4 a;\nacc = a.x + a.y + a.z + a.w;"),
    "another loop's counter": (
        counters.other_counters, "for (int i = 0; i < 4; ++i) for (int j = 0; j < 4; ++j) acc += a[i] * b[i];",
        "a[i] * b[j];", "for (int i = 0; i < 4; ++i) acc += a[i] * b[i];"),
    "no guard at all": (
        guards.missing_guards, PLACE + "float acc = 0;\n" + STORE, "if (row < M && col < N) C[row",
        PLACE + "if (row < M && col < N) " + STORE),
    "the other axis of a tensor": (
        passed_arguments, "---void run(Tensor b) { int n = b.size(0); k<<<1, 2>>>(A, B, C, M, n, K); }",
        "int n = b.size(1);", launch()),
    "one argument twice": (passed_arguments, launch(given="A, B, C, M, M, K"), "(A, B, C, M, K, K)", launch()),
    "a remainder for a quotient": (
        index_arithmetic.other_operators, "acc += a[t % 16];", "a[t / 16]", "acc += a[t];"),
    "arrays that are swapped": (
        indices.swapped_arrays, "acc += b[y][k] * a[k][x];", "a[y][k] * b[k][x]", "acc += x * y;"),
    "a grid with x for y": (
        launches.swapped_axes, PLACE + launch("dim3(M / 16, N / 16)"), "dim3(N / 16, M / 16)", "acc += 1;"),
    "grid and block swapped": (
        launches.swapped_configurations, PLACE + launch("dim3(16, 16)", "dim3(N / 16, M / 16)"),
        "<<<dim3(N / 16, M / 16), dim3(16, 16)>>>", PLACE + launch()),
    "a pointer that every block starts with": (
        pointer_steps.missing_block_terms,
        "A += blockIdx.y * 16 * K;\nB += blockIdx.x * 16;\nC += blockIdx.y * 16 * N;",
        "C += blockIdx.y * 16 * N + blockIdx.x * 16;", "int i = threadIdx.x;"),
    "a pointer that steps along a row": (
        pointer_steps.steps_of_loops, "for (int k = 0; k < K; k += 16) {\nacc += B[t];\nB += 16;\n}", "B += 16 * N;",
        "for (int k = 0; k < K; k += 16) acc += B[t];"),
    "alpha twice": (
        scalars.repeated_scalars, "float v = alpha * acc;\nC[row * N + col] = alpha * v + beta * C[row * N + col];",
        "C[row * N + col] = v + beta", "C[row * N + col] = alpha * acc + beta * C[row * N + col];"),
    "alpha nowhere": (
        scalars.unused_scalars, "C[row * N + col] = acc + beta * C[row * N + col];", "= alpha * acc + beta", STORE),
    "arrays that overlap": (
        overlapping_arrays,
        "extern __shared__ float buffer[];\nfloat* a = buffer;\nfloat* b = buffer + 16 * 16 - 16;",
        "b = buffer + 16 * 16;", "__shared__ float a[16], b[16];"),
    "another stage": (
        stages.other_stages,
        "__shared__ float a[2][16][16];\nint s = 0, other = 1;\na[s][y][x] = A[t];\nacc += a[other][y][x];",
        "a[other][y][x] = A[t]", "__shared__ float a[16];\nacc += a[t];"),
    "a sum in an int": (
        sum_types.narrow_sums, "int acc = 0;\nfor (;;) acc += A[i] * B[i];", "float acc = 0;",
        "float acc = 0;\nfor (;;) acc += A[i] * B[i];"),
    "tiles that are rounded down": (
        tails.short_loops, "for (int t = 0; t < K / 16; ++t) acc += A[t];", "t < (K + 16 - 1) / 16",
        "for (int t = 0; t < 16; ++t) acc += A[t];"),
    "a mask without half of the lanes": (
        warp_functions.masks, "acc += __shfl_down_sync(0xffff, acc, 8);", "__shfl_down_sync(0xffffffff, acc",
        "acc += __shfl_down_sync(0xffffffff, acc, 8);"),
    "a tile that keeps old values": (
        zero_fill.unfilled_tiles, "__shared__ float a[16];\nif (t < K) a[t] = A[t];", "a[t] = A[t]; else a[t] = 0;",
        "__shared__ float a[16];\nif (t < K) a[t] = A[t]; else a[t] = 0;"),
}  # fmt: skip


@pytest.mark.parametrize("what", CASES)
def test_the_change_is_proposed(what: str) -> None:
    proposing, text, mended, _ = CASES[what]
    of = program(text)
    made = changed(proposing(of), of)
    assert any(mended in each for each in made), made


@pytest.mark.parametrize("what", [what for what, case in CASES.items() if case[3]])
def test_a_text_without_the_mistake_is_left_alone(what: str) -> None:
    proposing, _, _, right = CASES[what]
    of = program(right)
    assert changed(proposing(of), of) == []
