"""Instructions are found wherever inline assembly puts them."""

from __future__ import annotations

import pytest

from gemmsmith.problem import BF16, FP32
from gemmsmith.verify.meaning.product_evidence import multiplies


@pytest.mark.parametrize("ptx", [
    "\twgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1}, %rd1, %rd2, p, 1, 1, 0, 0;",
    "\t{ .reg .pred p; setp.ne.b32 p, %r1, 0; wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1}, %rd1, p;}",
    "\t@%p1 fma.rn.f32 %f1, %f2, %f3, %f1;", "\t{ .reg .pred q; @q fma.rn.f32 %f1, %f2, %f3, %f1; }",
])  # fmt: skip
def test_a_product(ptx: str) -> None:
    assert multiplies(ptx, BF16)


@pytest.mark.parametrize("ptx", ["\tadd.f32 %f1, %f2, %f3; mov.b32 %r1, %r2;", '\t.b8 name[9] = "fma.rn.f32";'])
def test_no_product(ptx: str) -> None:
    assert not multiplies(ptx, FP32)
