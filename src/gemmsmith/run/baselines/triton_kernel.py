"""The Triton baseline's kernel: one block a tile of C, tiles in groups that share the L2, fp32 accumulators.

Imports triton, so nothing but ``triton_contender`` imports this, and only when it is asked for.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit  # type: ignore[untyped-decorator]
def gemm(
    a_ptr: tl.tensor,
    b_ptr: tl.tensor,
    c_ptr: tl.tensor,
    M: tl.tensor,
    N: tl.tensor,
    K: tl.tensor,
    stride_am: tl.tensor,
    stride_ak: tl.tensor,
    stride_bk: tl.tensor,
    stride_bn: tl.tensor,
    stride_cm: tl.tensor,
    alpha: tl.tensor,
    beta: tl.tensor,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    GROUP: tl.constexpr,
    EVEN: tl.constexpr,
    READ_C: tl.constexpr,
) -> None:
    """EVEN: tiles divide M, N and K, so no load needs a mask. READ_C: beta is not 0."""
    # GROUP rows of tiles are walked column by column: blocks that run together share tiles of A and of B.
    tile = tl.program_id(0)
    rows = tl.cdiv(M, BM)
    cols = tl.cdiv(N, BN)
    group = tile // (GROUP * cols)
    within = tile % (GROUP * cols)
    height = tl.minimum(rows - group * GROUP, GROUP)
    row = group * GROUP + within % height
    col = within // height

    # 64-bit indices: a matrix may have more than 2^31 elements.
    m = (row * BM + tl.arange(0, BM)).to(tl.int64)
    n = (col * BN + tl.arange(0, BN)).to(tl.int64)
    k = tl.arange(0, BK).to(tl.int64)
    a_at = a_ptr + m[:, None] * stride_am + k[None, :] * stride_ak
    b_at = b_ptr + k[:, None] * stride_bk + n[None, :] * stride_bn
    a_step = tl.cast(BK, tl.int64) * stride_ak
    b_step = tl.cast(BK, tl.int64) * stride_bk

    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for done in range(0, K, BK):
        if EVEN:
            a = tl.load(a_at)
            b = tl.load(b_at)
        else:
            a = tl.load(a_at, mask=(m[:, None] < M) & (k[None, :] < K - done), other=0.0)
            b = tl.load(b_at, mask=(k[:, None] < K - done) & (n[None, :] < N), other=0.0)
        acc = tl.dot(a, b, acc, input_precision="ieee")
        a_at += a_step
        b_at += b_step

    c_at = c_ptr + m[:, None] * stride_cm + n[None, :]
    inside = (m[:, None] < M) & (n[None, :] < N)
    result = alpha * acc
    if READ_C:
        result += beta * tl.load(c_at, mask=inside, other=0.0).to(tl.float32)
    tl.store(c_at, result.to(c_ptr.dtype.element_ty), mask=inside)
