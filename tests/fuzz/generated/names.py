"""What authors call their parameters and constants."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Names:
    kernel: str
    a: str
    b: str
    c: str
    m: str
    n: str
    k: str
    lda: str
    ldb: str
    ldc: str
    bm: str
    bn: str
    bk: str
    tm: str
    tn: str
    a_shared: str
    b_shared: str
    acc: str
    d: str  # a separate output


NAMES: dict[str, Names] = {
    "blas": Names("gemm_tiled", "A", "B", "C", "M", "N", "K", "lda", "ldb", "ldc", "BM", "BN", "BK", "TM", "TN", "As",
                  "Bs", "acc", "D"),
    "lower": Names("matmul_kernel", "a", "b", "c", "m", "n", "k", "lda", "ldb", "ldc", "TILE_M", "TILE_N", "TILE_K",
                   "THREAD_M", "THREAD_N", "s_a", "s_b", "sum", "d"),
    "device": Names("sgemm_v3", "d_A", "d_B", "d_C", "M", "N", "K", "ldA", "ldB", "ldC", "BLOCK_SIZE_M",
                    "BLOCK_SIZE_N", "BLOCK_SIZE_K", "THREAD_SIZE_M", "THREAD_SIZE_N", "tileA", "tileB",
                    "Cvalue", "d_D"),
    "layers": Names("linear_forward", "x", "w", "out", "rows", "cols", "inner", "ldx", "ldw", "ldo", "kBlockM",
                    "kBlockN", "kBlockK", "kThreadM", "kThreadN", "smem_x", "smem_w", "accum", ""),
    "sides": Names("MatMulKernel", "lhs", "rhs", "result", "numRows", "numCols", "depth", "lda", "ldb", "ldc", "BLKM",
                   "BLKN", "BLKK", "WPTM", "WPTN", "Asub", "Bsub", "frag", ""),
}  # fmt: skip
