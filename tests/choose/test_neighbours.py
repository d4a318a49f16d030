"""Which configurations are one step away from a good one."""

from __future__ import annotations

import pytest

from gemmsmith.choose.neighbours import steps
from gemmsmith.kernel.renamed import DIRECT, TMA
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import BF16, FP32, DType, Problem


@pytest.mark.parametrize("out", [BF16, FP32])
def test_how_outputs_are_stored_varies_with_both_output_types(out: DType) -> None:
    config = rung_named("wgmma_cluster").config({"STORE_MODE": TMA, "STORE_BOXES": 1})
    changes = steps(dict(config), Problem(4096, 4096, 4096, BF16, out, trans_b=True))
    assert {"STORE_MODE": DIRECT, "STORE_BOXES": 0} in changes


def test_a_kernel_that_stores_32_bit_outputs_from_registers_only_has_no_other_way() -> None:
    values = {"BM": 128, "BN": 128, "STAGES": 4, "STORE_MODE": DIRECT, "STORE_BOXES": 0}
    changes = steps(values, Problem(4096, 4096, 4096, BF16, FP32, trans_b=True))
    assert not any("STORE_MODE" in change for change in changes)


@pytest.mark.parametrize(("group", "others"), [(8, [16, 4, 1]), (4, [8, 2, 1, 16]), (1, [2, 4, 16])])
def test_order_of_tiles_varies_by_a_factor_of_two_and_to_those_of_the_menu(group: int, others: list[int]) -> None:
    config = rung_named("wgmma_cluster").config({"GROUP": group})
    changes = steps(dict(config), Problem(4096, 4096, 4096, BF16, BF16, trans_b=True))
    assert [change["GROUP"] for change in changes if "GROUP" in change] == others


@pytest.mark.parametrize(("values", "orders"), [({}, [2]), ({"SLICE_ORDER": 2}, [0]), ({"SLICES": 2}, [1, 2])])
def test_tiles_go_by_gpc_or_not(values: dict[str, int], orders: list[int]) -> None:
    config = rung_named("wgmma_cluster").config(values)
    changes = steps(dict(config), Problem(1024, 1024, 8192, BF16, BF16, trans_b=True))
    assert [change["SLICE_ORDER"] for change in changes if "SLICE_ORDER" in change] == orders
