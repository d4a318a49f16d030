"""fp32 on Hopper: the operand that is split in registers is the large one, and every choice is legal."""

from __future__ import annotations

import pytest

from gemmsmith.choose.choice import choose
from gemmsmith.choose.registers import NAME, fastest, predicted_seconds
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import FP32, Problem


def chosen(m: int, n: int, k: int, layout: str = "NN", precision: str = "fp32") -> tuple[str, dict[str, int]]:
    problem = Problem(m, n, k, trans_a=layout[0] == "T", trans_b=layout[1] == "T")
    found = choose(problem, "NVIDIA H200", sms=132, arch="sm_90", precision=precision)
    return found.spec.name, dict(found.config)


@pytest.mark.parametrize(("m", "n", "k", "swap"), [(64, 8192, 8192, 1), (10000, 100, 1000, 0), (128, 14336, 4096, 1)])
def test_few_rows_or_columns_are_split_in_registers(m: int, n: int, k: int, swap: int) -> None:
    for layout in ("NN", "NT", "TN", "TT"):
        name, config = chosen(m, n, k, layout)
        assert (name, config["SWAP"]) == (NAME, swap)


def test_large_and_small_products_and_other_precisions_are_not() -> None:
    assert chosen(8192, 8192, 8192)[0] == "fp32_wgmma_bf16x6"
    assert chosen(1, 1, 1)[0] == "simt_best"
    assert chosen(64, 8192, 8192, precision="ieee")[0] == "simt_best"
    assert chosen(4096, 4096, 4096, precision="fp32-fast")[0] == "fp32_wgmma_fp16x3"


def test_every_choice_is_legal() -> None:
    spec = rung_named(NAME)
    for m, n, k, batch in ((1, 1, 1, 1), (7, 5000, 64, 1), (300, 300, 100_000, 1), (1000, 16, 513, 7)):
        for sms in (132, 114, 78, 1):
            problem = Problem(m, n, k, FP32, batch=batch)
            found = fastest(problem, "fp32", sms, 0)
            assert found is not None
            assert not spec.illegal(found[0])
            assert found[1] == predicted_seconds(problem, found[0], sms)
