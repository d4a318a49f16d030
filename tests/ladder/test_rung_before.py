"""Which rung another is compared with: the one it says it changed, where that has the same input type."""

from __future__ import annotations

from gemmsmith.ladder.registry import rungs
from gemmsmith.report.collect import rung_before
from gemmsmith.report.header_comment import changed_from

NAMES = [spec.name for spec in rungs()]


def test_each_rung_has_the_one_that_its_file_names() -> None:
    found = {name: rung_before(name, NAMES[:at]) for at, name in enumerate(NAMES) if at}
    plain = dict(zip(NAMES[1:10], NAMES[:9], strict=True))
    assert found == plain | {
        "async_copy": "rectangular", "warp_tile_mixed": "async_copy", "wmma": "warp_tile_mixed",
        "mma_swizzled": "wmma", "mma_pipelined": "mma_swizzled", "wgmma_tma": "mma_pipelined",
        "wgmma_specialized": "wgmma_tma", "wgmma_persistent": "wgmma_specialized",
        "wgmma_cluster": "wgmma_persistent", "wgmma_split_k": "wgmma_specialized", "wgmma_stream_k": "wgmma_cluster",
        "fp32_tensor_bf16x6": "async_copy", "simt_best": "async_copy", "fp32_tensor_fp16x3": "fp32_tensor_bf16x6",
        "fp32_wgmma_bf16x6": "fp32_tensor_fp16x3", "fp32_wgmma_fp16x3": "fp32_wgmma_bf16x6",
    }  # fmt: skip


def test_where_that_is_missing_it_is_the_last_of_its_type_or_of_all() -> None:
    assert rung_before("simt_best", ["naive", "wmma", "vectorized", "mma_pipelined"]) == "vectorized"
    assert rung_before("wmma", ["naive", "coalesced"]) == "coalesced"


def test_a_file_that_names_none() -> None:
    assert changed_from("// 01 x: y\n//\n// Changed   Nothing. From 7 on it would be another.\n") == 0
    assert changed_from("// 09 x: y\n//\n// Changed   From 07: all\n//           of it.\nint x;") == 7
    assert changed_from("int x;") == 0
