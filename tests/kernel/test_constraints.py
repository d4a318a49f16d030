"""Constraints as text: a condition, and a message that shows the arithmetic."""

from __future__ import annotations

from fractions import Fraction

import pytest

from gemmsmith.kernel.config import Config, Parameter
from gemmsmith.kernel.constraints import (
    DYNAMIC_SMEM,
    LARGEST_SMEM,
    STATIC_SMEM,
    Requires,
    blocks_fit,
    divides,
    equal_loads,
    smem_fits,
    whole_warps,
)


def config(**values: int) -> Config:
    return Config(tuple(values.items()))


def test_a_condition_that_holds_has_no_words() -> None:
    assert Requires("BM % WM == 0", "{WM} does not divide {BM}")(config(BM=128, WM=64)) is None


@pytest.mark.parametrize(("message", "shown"), [
    ("{BM}", "BM=96"), ("{BM*2}", "BM·2 = 96·2 = 192"), ("{:BM*2}", "192"), ("{:BM/64}", str(Fraction(3, 2))),
    ("{BM} rows, {:BM*1000} B", "BM=96 rows, 96,000 B"), ("no names", "no names"),
])  # fmt: skip
def test_a_message_is_filled_in(message: str, shown: str) -> None:
    assert Requires("BM == 0", message)(config(BM=96)) == shown


@pytest.mark.parametrize(("constraint", "legal", "illegal", "words"), [
    (divides("WM", "BM"), {"BM": 128, "WM": 64}, {"BM": 128, "WM": 96}, "WM=96 does not divide BM=128"),
    (whole_warps("BM/TM"), {"BM": 256, "TM": 8}, {"BM": 256, "TM": 16}, "BM/TM = 256/16 = 16 threads, but a block"),
    (whole_warps("BM*TM"), {"BM": 128, "TM": 8}, {"BM": 128, "TM": 16}, "BM·TM = 128·16 = 2048 threads"),
    (whole_warps("BM/TM"), {"BM": 256, "TM": 8}, {"BM": 3, "TM": 2}, "BM/TM = 3/2 = 3/2 threads"),
    (smem_fits("4*BM", STATIC_SMEM), {"BM": 12288}, {"BM": 12289},
     "49,156 B of shared memory, but 49,152 B is the most a kernel can declare"),
    (smem_fits("4*BM", DYNAMIC_SMEM), {"BM": 25344}, {"BM": 25345},
     "but 101,376 B is the most a block can have on sm_86, sm_89 and sm_120"),
    (smem_fits("4*BM", LARGEST_SMEM), {"BM": 58112}, {"BM": 58113}, "but 232,448 B is the most a block can have on"),
    (blocks_fit("BM/TM"), {"BM": 512, "TM": 1, "MIN_BLOCKS": 3}, {"BM": 512, "TM": 1, "MIN_BLOCKS": 4},
     "MIN_BLOCKS=4 blocks of 512 threads are 2048 threads, but an SM of sm_86, sm_89 and sm_120 holds 1536"),
])  # fmt: skip
def test_the_common_constraints(
    constraint: Requires, legal: dict[str, int], illegal: dict[str, int], words: str
) -> None:
    assert constraint(config(**legal)) is None
    assert words in (constraint(config(**illegal)) or "")


def test_every_thread_loads_equally_much_of_both_operands() -> None:
    of_a, of_b = equal_loads("BM*BN/64", "VEC")
    even = config(BM=64, BN=64, BK=8, VEC=4)
    assert (of_a(even), of_b(even)) == (None, None)
    assert of_a(config(BM=32, BN=64, BK=8, VEC=8)) is None
    assert of_b(config(BM=64, BN=32, BK=8, VEC=16)) == (
        "a k-tile of B has BN·BK = 32·8 = 256 elements, "
        "which is not a multiple of 32 threads · 16 elements per load = 512"
    )


def test_a_value_may_have_a_name() -> None:
    mode = Parameter("STORE_MODE", 2, (0, 2), "", ((0, "direct"), (2, "tma")))
    assert [mode.value_named(word) for word in ("tma", "direct", "2", "threads", "")] == [2, 0, None, None, None]
    assert [mode.shown(value) for value in (0, 2, 5)] == ["0 (direct)", "2 (tma)", "5"]
    assert Parameter("BM", 64, (64,), "").shown(64) == "64"
