"""Mutants of the arithmetic: scalars, sums, indices within a tile, precision; reads that BLAS forbids."""

from __future__ import annotations

from mutant import Edit, Mutant, Trial

STORE = "beta == 0.0f ? value : __fmaf_rn(beta, *c, value)"
SCALED = "__fmul_rn(alpha, acc)"
FMA_2D = "acc[i][j] = __fmaf_rn(a_k[i], b_k[j], acc[i][j]);"
HALF_INCLUDED = '#include "tile/half_to_float.cuh"\n#include "tile/window.cuh"'
FMA_MIXED = "__fmaf_rn(a_k[u][i], b_k[v][j], acc[u][i][v][j])"

SCALARS = (
    Mutant(
        name="C multiplied by a beta of zero",
        rung="shared_tile",
        what="beta * C is added even for beta = 0, so NaN in an uninitialised C propagates",
        edits=(Edit("linear_combination.cuh", STORE, "__fmaf_rn(beta, *c, value)"),),
        trial=Trial((8, 8, 8)),
        detector="forbidden read",
        words=("C must not be read when beta = 0",),
        lines=(("linear_combination.cuh", "*c = __fmaf_rn"),),
    ),
    Mutant(
        name="C read at beta = 0 and discarded",
        rung="naive",
        what="the value is not used, so no result reveals it; but C may be uninitialised memory",
        edits=(Edit("linear_combination.cuh", "*c = beta", "(void)*const_cast<volatile float*>(c);\n    *c = beta"),),
        trial=Trial((8, 8, 8)),
        detector="forbidden read",
        words=("C must not be read when beta = 0",),
    ),
    Mutant(
        name="vectors of C read at beta = 0",
        rung="vectorized",
        what="the vector store reads C without checking beta",
        edits=(Edit("linear_combination.cuh", "if (beta != 0.0f) {", "if (alpha != 0.0f) {"),),
        trial=Trial((32, 64, 8)),
        detector="forbidden read",
        words=("C must not be read when beta = 0", "of 16 bytes"),
    ),
    Mutant(
        name="A and B read at alpha = 0",
        rung="shared_tile",
        what="the product is computed although it is multiplied by zero",
        edits=(Edit("linear_combination.cuh", "alpha == 0.0f || K == 0", "K == 0"),),
        trial=Trial((8, 8, 8), alpha=0.0, beta=0.7),
        detector="forbidden read",
        words=("A must not be read when alpha = 0",),
    ),
    Mutant(
        name="infinite alpha times an empty sum",
        rung="block_tile_1d",
        what="for K = 0 the result is beta * C, whatever alpha is; infinity times an empty sum is NaN",
        edits=(Edit("linear_combination.cuh", "alpha = 0.0f;", ""),),
        trial=Trial((20, 24, 0), alpha=float("inf"), beta=0.7, fill="integers"),
        detector="wrong result",
        words=("outputs are NaN and should not be",),
    ),
    Mutant(
        name="alpha applied to C",
        rung="coalesced",
        what="computes sum + alpha * C",
        edits=(
            Edit("linear_combination.cuh", SCALED, "acc"),
            Edit("linear_combination.cuh", "__fmaf_rn(beta, *c", "__fmaf_rn(alpha, *c"),
        ),
        trial=Trial((8, 8, 8), alpha=0.7, beta=-1.5),
        detector="wrong result",
    ),
    Mutant(
        name="beta ignored",
        rung="register_block",
        what="C is overwritten",
        edits=(Edit("linear_combination.cuh", STORE, "value"),),
        trial=Trial((16, 16, 16), beta=0.5),
        detector="wrong result",
    ),
    Mutant(
        name="tile stored twice",
        rung="block_tile_2d",
        what="the second store adds beta times the result of the first",
        edits=(
            Edit(
                "06_block_tile_2d.cu",
                "    if (c.holds(BM, BN))\n",
                "    store_tile<true>(c, m0, n0, acc, alpha, beta);\n    if (c.holds(BM, BN))\n",
            ),
        ),
        trial=Trial((32, 32, 8), beta=0.5),
        detector="wrong result",
    ),
)

SUMS = (
    Mutant(
        name="last step of each k-tile skipped",
        rung="shared_tile",
        what="the loop over a k-tile ends one step early",
        edits=(Edit("03_shared_tile.cu", "k < TILE", "k < TILE - 1"),),
        trial=Trial((8, 8, 16)),
        detector="wrong result",
    ),
    Mutant(
        name="last k-tile skipped",
        rung="rectangular",
        what="the loop ends before a k-tile that is not full",
        edits=(Edit("09_rectangular.cu", "a.cols > 0", "a.cols >= BK"),),
        trial=Trial((32, 64, 21)),
        detector="wrong result",
    ),
    Mutant(
        name="one term of one output dropped",
        rung="block_tile_2d",
        what="one of 200 terms, in one of 1024 outputs: within the textbook bound of K roundings",
        edits=(Edit("06_block_tile_2d.cu", FMA_2D, f"if (i + j + k + threadIdx.x != 0 || a.cols != K) {FMA_2D}"),),
        trial=Trial((32, 32, 200)),
        detector="wrong result",
        words=("1 of 1024 outputs wrong",),
    ),
    Mutant(
        name="accumulators in registers not initialised",
        rung="register_block",
        what="the accumulators start from whatever their registers contain",
        edits=(Edit("04_register_block.cu", "acc[SIDE][SIDE] = {};", "acc[SIDE][SIDE];"),),
        trial=Trial((16, 16, 16)),
        detector="wrong result",
        words=("outputs are NaN and should not be",),
    ),
    Mutant(
        name="accumulator in memory not initialised",
        rung="coalesced",
        what="the accumulator starts from whatever is in memory",
        edits=(Edit("02_coalesced.cu", "float acc = 0.0f;", "volatile float acc;"),),
        trial=Trial((8, 8, 8)),
        detector="uninitialised local",
        lines=(("02_coalesced.cu", "acc = __fmaf_rn(a, b, acc);"),),
    ),
    Mutant(
        name="products rounded before they are added",
        rung="naive",
        what="multiply and add instead of fma: within every error bound, but not bit-identical",
        edits=(Edit("01_naive.cu", "__fmaf_rn(a, b, acc)", "__fadd_rn(__fmul_rn(a, b), acc)"),),
        trial=Trial((8, 8, 40), mode="bits"),
        detector="wrong result",
        words=("not equal",),
    ),
    Mutant(
        name="k summed in descending order",
        rung="coalesced",
        what="another order of the same terms: within every error bound, but not bit-identical",
        edits=(Edit("02_coalesced.cu", "int k = 0; k < K; ++k", "int k = K - 1; k >= 0; --k"),),
        trial=Trial((8, 8, 40), mode="bits"),
        detector="wrong result",
        words=("not equal",),
    ),
    Mutant(
        name="subnormals flushed to zero",
        rung="coalesced",
        what="values below the smallest normal number become zero",
        edits=(
            Edit(
                "02_coalesced.cu",
                "acc = __fmaf_rn(a, b, acc);",
                "acc = __fmaf_rn(a, b, acc);\n        if (fabsf(acc) < 1.17549435e-38f) acc = 0.0f;",
            ),
        ),
        trial=Trial((8, 8, 8), fill="subnormal"),
        detector="wrong result",
    ),
    Mutant(
        name="accumulators in fp16",
        rung="warp_tile_mixed",
        what="accumulators are rounded to fp16, like the inputs",
        edits=(Edit("12_warp_tile_mixed.cu", FMA_MIXED, f"__half2float(__float2half({FMA_MIXED}))"),),
        trial=Trial((32, 32, 64)),
        detector="wrong result",
    ),
    Mutant(
        name="result rounded to fp16",
        rung="warp_tile_mixed",
        what="fp32 accumulators are converted to fp16 and back when they are stored",
        edits=(
            Edit("linear_combination.cuh", '#include "tile/window.cuh"', HALF_INCLUDED),
            Edit("linear_combination.cuh", SCALED, "__half2float(__float2half(__fmul_rn(alpha, acc)))"),
        ),
        trial=Trial((31, 31, 32)),
        detector="wrong result",
    ),
)

INDICES = (
    Mutant(
        name="k-tile of B read transposed",
        rung="shared_tile",
        what="rows and columns of a square tile are exchanged: correct for constant and for symmetric matrices",
        edits=(Edit("03_shared_tile.cu", "k_tile.B[k][n]", "k_tile.B[n][k]"),),
        trial=Trial((8, 8, 8)),
        detector="wrong result",
    ),
    Mutant(
        name="tile of C stored transposed",
        rung="block_tile_2d",
        what="a thread's rows and columns are exchanged in the store",
        edits=(Edit("06_block_tile_2d.cu", "store_tile<false>(c, m0, n0, acc", "store_tile<false>(c, n0, m0, acc"),),
        trial=Trial((64, 64, 8)),
        detector="wrong result",
    ),
    Mutant(
        name="adjacent k exchanged in the store",
        rung="padded",
        what="A is stored at k ^ 1 and read from k",
        edits=(Edit("08_padded.cu", "k_tile.A[k + j][m] = ", "k_tile.A[k + (j ^ 1)][m] = "),),
        trial=Trial((32, 32, 8)),
        detector="wrong result",
    ),
    Mutant(
        name="padding missing in the stride",
        rung="padded",
        what="rows of A are written BM + PAD apart and read BM apart",
        edits=(Edit("08_padded.cu", "&k_tile.A[k][m0]", "&k_tile.A[0][k * BM + m0]"),),
        trial=Trial((32, 32, 8)),
        detector="uninitialised shared",
        lines=(("vector.cuh", "*reinterpret_cast<const Vec<T, Width>*>(shared + i)"),),
    ),
    Mutant(
        name="wrong fragment column stored",
        rung="rectangular",
        what="a thread's two groups of four columns are exchanged in the store",
        edits=(Edit("09_rectangular.cu", "acc[i][g], alpha, beta", "acc[i][TN / 4 - 1 - g], alpha, beta"),),
        trial=Trial((32, 64, 8)),
        detector="wrong result",
    ),
    Mutant(
        name="two lanes own the same columns",
        rung="warp_tile",
        what="lanes of a warp overlap: some outputs are stored twice, others never",
        edits=(Edit("10_warp_tile.cu", "lane % (SUB_N / TN) * TN", "lane % (SUB_N / TN) / 2 * TN"),),
        trial=Trial((64, 32, 8)),
        detector="unwritten",
    ),
    Mutant(
        name="a row of A scaled in place",
        rung="coalesced",
        what="the kernel modifies one of its inputs; the result of this run is correct",
        edits=(
            Edit(
                "02_coalesced.cu",
                "    store(C",
                "    if (col == 0) const_cast<float*>(A)[row * lda] = acc;\n    store(C",
            ),
        ),
        trial=Trial((8, 8, 8)),
        detector="changed input",
        words=("A: an input was changed",),
    ),
)

MUTANTS = (*SCALARS, *SUMS, *INDICES)
