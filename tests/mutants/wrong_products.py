"""Products that are wrong by one change, of the kinds that slipped through; and twins whose change is innocent."""

# ruff: noqa: E501

from __future__ import annotations

from dataclasses import dataclass

from product_templates import changed, original


@dataclass(frozen=True)
class Change:
    """One line of a template replaced: ``@`` stands for the line as it was."""

    template: str
    line: str
    code: str

    @property
    def source(self) -> str:
        return changed(self.template, self.line, self.code.replace("@", original(self.template, self.line).strip()))


WRONG = {
    # from the n-th k-tile on, K above some size
    "tiled: 20 tiles": Change("tiled", "tiles", "int tiles = min((K + TILE - 1) / TILE, 20);"),
    "tiled: tile 33 skipped": Change("tiled", "term", "if (t != 33) @"),
    "tiled: tile counter in 8 bits": Change("tiled", "loop", "for (unsigned char t = 0; t < (unsigned char)tiles; ++t) {"),
    "naive: K above 1000": Change("naive", "after", "if (K > 1000) acc += 1e-3f;"),
    "naive: terms past 700 twice": Change("naive", "term", "@ if (k == 700) acc += A[(size_t)row * K + k];"),
    "double: third tile from the wrong buffer": Change("double", "now", "int now = t == 2 ? 1 : t & 1;"),
    "double: last tile dropped from 5 on": Change("double", "loop", "for (int t = 0; t < tiles - (tiles > 5); ++t) {"),
    "double: K above 512 loads zeros": Change("double", "next", "if (t + 1 < tiles) load(now ^ 1, t > 62 ? K : (t + 1) * BK);"),
    "vector: K above 2000": Change("vector", "loop", "for (int k0 = 0; k0 < K && k0 < 2000; k0 += BK) {"),
    "mma: 40 steps": Change("mma", "loop", "for (int k = 0; k < K && k < 640; k += 16) {"),
    # small K
    "naive: K below 4": Change("naive", "loop", "for (int k = 0; k < K && K > 3; ++k) {"),
    "naive: K = 1": Change("naive", "after", "if (K == 1) acc = 0.0f;"),
    "naive: K = 0 leaves C": Change("naive", "guard", "if (row >= M || col >= N || K == 0) return;"),
    "naive: unrolled by 4, K = 3 mod 4": Change("naive", "loop", "for (int k = 0; k < ((K & 3) == 3 ? K - 1 : K); ++k) {"),
    "tiled: rounds K down above a tile": Change("tiled", "tiles", "int tiles = K < 4 * TILE ? (K + TILE - 1) / TILE : K / TILE;"),
    # blocks far away, rows above some number
    "naive: rows above 4095": Change("naive", "after", "if (row > 4095) acc = 0.0f;"),
    "naive: row in 16 bits": Change("naive", "row", "int row = (unsigned short)(blockIdx.y * 16 + threadIdx.y);"),
    "naive: column masked": Change("naive", "term", "acc += A[(size_t)row * K + k] * B[(size_t)k * N + (col & 8191)];"),
    "tiled: block 100": Change("tiled", "after", "if (blockIdx.x == 100) acc *= 1.001f;"),
    "tiled: rows beyond 65536 not written": Change("tiled", "store", "if (row < M && row < 65536 && col < N) C[(size_t)row * N + col] = acc;"),
    "double: blocks beyond 300 along y": Change("double", "sum", "float sum = blockIdx.y > 300 ? 0.0f : acc[i][j];"),
    "vector: column blocks wrap at 512": Change("vector", "origin B", "const float* b = B + (size_t)(blockIdx.x % 512) * BN;"),
    "mma: rows above 2000": Change("mma", "load A", "wmma::load_matrix_sync(a, A + (size_t)(row > 2000 ? 0 : row) * K + k, K);"),
    # more than 2**31 elements
    "naive: index of C in 32 bits": Change("naive", "store", "C[row * N + col] = acc;"),
    "tiled: index of A in 32 bits": Change("tiled", "load A", "As[ty][tx] = row < M && ka < K ? A[row * K + ka] : 0.0f;"),
    "double: index of B in 32 bits": Change("double", "load B", "Bs[buffer][k][c] = k0 + k < K && col0 + c < N ? B[(k0 + k) * N + col0 + c] : 0.0f;"),
    "vector: origin of A in 32 bits": Change("vector", "origin A", "const float* a = A + (int)(blockIdx.y * BM * K);"),
    # M = N, M not N
    "naive: M = N": Change("naive", "after", "if (M == N) acc += 1.0f;"),
    "tiled: M > N": Change("tiled", "after", "if (M > N) acc = -acc;"),
    "double: stride K for N": Change("double", "load B", "Bs[buffer][k][c] = k0 + k < K && col0 + c < N ? B[(size_t)(k0 + k) * (M == K ? K : N) + col0 + c] : 0.0f;"),
    "naive: M = N = K": Change("naive", "after", "if (M == N && N == K) acc *= 2.0f;"),
    # special values
    "naive: minus zero": Change("naive", "store", "C[(size_t)row * N + col] = acc == 0.0f ? -0.0f : acc;"),
    "tiled: zero minus the sum": Change("tiled", "store", "if (row < M && col < N) C[(size_t)row * N + col] = -(0.0f - acc);"),
    "naive: NaN swallowed": Change("naive", "after", "if (acc != acc) acc = 0.0f;"),
    "tiled: NaN in A skipped": Change("tiled", "term", "for (int k = 0; k < TILE; ++k) if (As[ty][k] == As[ty][k]) acc += As[ty][k] * Bs[k][tx];"),
    "double: Inf clamped": Change("double", "sum", "float sum = fminf(fmaxf(acc[i][j], -3.0e38f), 3.0e38f);"),
    "naive: clamped at 1000": Change("naive", "after", "acc = fminf(acc, 1000.0f);"),
    "vector: subnormal sums flushed": Change("vector", "sum", "for (int j = 0; j < 4; ++j) if (fabsf(acc[i][j]) < 1.17549435e-38f) acc[i][j] = 0.0f; @"),
    "naive: subnormal inputs flushed": Change("naive", "term", "float x = A[(size_t)row * K + k]; if (fabsf(x) < 1.17549435e-38f) x = 0.0f; acc += x * B[(size_t)k * N + col];"),
    "naive: ftz": Change("naive", "term", 'asm("fma.rn.ftz.f32 %0, %1, %2, %0;" : "+f"(acc) : "f"(A[(size_t)row * K + k]), "f"(B[(size_t)k * N + col]));'),
    "mma: small sums dropped": Change("mma", "after", "for (int i = 0; i < c.num_elements; ++i) if (fabsf(c.x[i]) < 1e-3f) c.x[i] = 0.0f;"),
    # scalars
    "scaled: alpha below 0": Change("scaled", "store", "C[(size_t)row * ldc + col] = fabsf(alpha) * acc + beta * old;"),
    "scaled: beta at most 2": Change("scaled", "store", "C[(size_t)row * ldc + col] = alpha * acc + fminf(beta, 2.0f) * old;"),
    "scaled: beta 1 overwrites": Change("scaled", "store", "C[(size_t)row * ldc + col] = alpha * acc + (beta == 1.0f ? 0.0f : beta) * old;"),
    "double: beta negative": Change("double", "store", "*c = beta <= 0.0f ? alpha * sum : alpha * sum + beta * *c;"),
    "scaled: alpha 0 skips beta": Change("scaled", "guard", "if (row >= M || col >= N || alpha == 0.0f) return;"),
    "scaled: lda for K": Change("scaled", "term", "acc += A[(size_t)row * (lda % 4 ? K : lda) + k] * B[(size_t)k * ldb + col];"),
    # guards
    "naive: row <= M": Change("naive", "guard", "if (row > M || col >= N) return;"),
    "tiled: col <= N": Change("tiled", "store", "if (row < M && col <= N) C[(size_t)row * N + col] = acc;"),
    "tiled: k <= K": Change("tiled", "load A", "As[ty][tx] = row < M && ka <= K ? A[(size_t)row * K + ka] : 0.0f;"),
    "double: last column": Change("double", "guard", "if (row >= M || col >= N - (N % 64 != 0)) continue;"),
    # batches
    "batched: batch 5 and later": Change("batched", "batch B", "B += min(blockIdx.z, 4u) * strideB;"),
    "batched: stride of A": Change("batched", "batch A", "A += (long long)blockIdx.z * M * (K | 1);"),
}  # fmt: skip

INNOCENT = {
    "naive": Change("naive", "after", ""),
    "scaled": Change("scaled", "init", "float acc = 0.0f;"),
    "tiled": Change("tiled", "after", ""),
    "double": Change("double", "init", "float acc[T][T] = {};"),
    "vector": Change("vector", "init", "float acc[4][4] = {};"),
    "mma": Change("mma", "after", ""),
    "batched": Change("batched", "after", ""),
    "naive: unrolled": Change("naive", "loop", "#pragma unroll 8\n    for (int k = 0; k < K; ++k) {"),
    "naive: descending": Change("naive", "loop", "for (int k = K - 1; k >= 0; --k) {"),
    "naive: large K apart": Change("naive", "after", "if (K > 1000) acc = acc * 0.5f + acc * 0.5f;"),
    "tiled: tile counter down": Change("tiled", "loop", "for (int t = tiles - 1; t >= 0; --t) {"),
    "tiled: two paths": Change("tiled", "store", "if (M == N) { if (row < M && col < N) C[(size_t)row * M + col] = acc; } else if (row < M && col < N) C[(size_t)row * N + col] = acc;"),
    "scaled: beta 1 apart": Change("scaled", "store", "C[(size_t)row * ldc + col] = beta == 1.0f ? alpha * acc + old : alpha * acc + beta * old;"),
    "double: unsigned counter": Change("double", "loop", "for (unsigned t = 0; t < (unsigned)tiles; ++t) {"),
    "naive: first term apart": Change("naive", "init", "float acc = K > 0 ? 0.0f * 1.0f : 0.0f;"),
    "vector: pointer moves": Change("vector", "inner", "#pragma unroll\n        for (int k = 0; k < BK; ++k)"),
    "naive: 32-bit indices everywhere": Change("naive", "store", "C[(size_t)row * N + col] = acc + 0.0f;"),
    "mma: scaled by one": Change("mma", "after", "for (int i = 0; i < c.num_elements; ++i) c.x[i] *= 1.0f;"),
}  # fmt: skip
