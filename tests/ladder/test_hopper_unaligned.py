"""Hopper rungs that read unaligned operands in place: which launches and maps there are, and the shared memory."""

from __future__ import annotations

import random
import struct
from itertools import product
from typing import Any, cast

import pytest
from hopper_device import Hopper
from hopper_problems import LAYOUTS, as_seen, of_layout, random_config
from mapped_kernel import fake_compile

from gemmsmith.call.binding import bind, workspace_bytes
from gemmsmith.errors import ConfigError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import Addresses
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import Problem, ceil_div
from gemmsmith.run.tensor_map import decode_simulated

SPLIT_K = rung_named("wgmma_split_k")
A, B, C, WORKSPACE = 1 << 20, 1 << 30, 1 << 40, 1 << 44
ROLES_OF = (("A", "lda", "mapA"), ("B", "ldb", "mapB"))


def unaligned_launches(swap: int, problem: Problem, places: Addresses, mode: int = 1) -> tuple[int, dict[str, bytes]]:
    """How many launches come before the kernel's own, and its arguments by their roles."""
    config = SPLIT_K.config({"BN": 16, "STAGES": 4, "SWAP": swap, "UNALIGNED_OPERANDS": mode})
    *before, own = bind(cast(Any, Hopper()), SPLIT_K, config, problem, places, WORKSPACE, fake_compile)
    roles = [argument.role for argument in SPLIT_K.signature.arguments]
    return len(before), dict(zip(roles, own.launch.arguments, strict=True))


@pytest.mark.parametrize("swap", [0, 1])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("own_skew", [0, 2])
@pytest.mark.parametrize("other_skew", [0, 2])
def test_an_unaligned_operand_is_read_in_place_and_the_other_is_copied_if_it_must_be(
    swap: int, layout: str, own_skew: int, other_skew: int
) -> None:
    own, other = ROLES_OF[swap], ROLES_OF[1 - swap]
    skews = (own_skew, other_skew) if swap == 0 else (other_skew, own_skew)
    places, problem = Addresses(A + skews[0], B + skews[1], C), of_layout(layout, 72, 80, 128, batch=2)
    config = SPLIT_K.config({"BN": 16, "STAGES": 4, "SWAP": swap, "UNALIGNED_OPERANDS": 1})
    launches, arguments = unaligned_launches(swap, problem, places)
    assert launches == (1 if other_skew else 0)
    assert not any(arguments[own[2]]), "it has no map"
    assert arguments[own[0]] == struct.pack("<Q", places[swap])
    assert arguments[own[1]] == struct.pack("<q", getattr(problem, own[1]))
    described, address = decode_simulated(arguments[other[2]])
    copied = described.strides[1] * problem.batch
    assert workspace_bytes(SPLIT_K, config, problem, places) == (ceil_div(copied, 256) * 256 if other_skew else 0)
    assert address == (WORKSPACE if other_skew else places[1 - swap])
    assert described.operand == other[0]
    plain = SPLIT_K.config({"BN": 16, "STAGES": 4, "SWAP": swap})
    steps = bind(cast(Any, Hopper()), SPLIT_K, plain, problem, places, WORKSPACE, fake_compile)
    assert len(steps) == 1 + bool(own_skew or other_skew), "by default, both are copied by one launch"


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("swap", [0, 1])
def test_an_unaligned_operand_keeps_its_leading_dimension_and_stride(swap: int, layout: str) -> None:
    problem = of_layout(layout, 16, 72, 61, batch=3)
    ld, stride = ("lda", "stride_a") if swap == 0 else ("ldb", "stride_b")
    given: dict[str, int] = {ld: getattr(problem, ld) + 3, stride: getattr(problem, stride) + 1234}
    problem = of_layout(layout, 16, 72, 61, batch=3, **given)
    launches, arguments = unaligned_launches(swap, problem, Addresses(A + 2, B + 6, C))
    assert launches == 1
    assert arguments[ld] == struct.pack("<q", given[ld])
    assert arguments["strideA" if swap == 0 else "strideB"] == struct.pack("<q", given[stride])
    described, address = decode_simulated(arguments["mapB" if swap == 0 else "mapA"])
    assert address == WORKSPACE
    assert all(step % 16 == 0 for step in described.strides)


@pytest.mark.parametrize("swap", [0, 1])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("skews", "pads"), [((0, 0), (0, 0)), ((2, 0), (0, 0)), ((0, 6), (0, 0)), ((2, 14), (3, 1))])
def test_of_two_unaligned_operands_neither_is_copied_or_has_a_map(
    swap: int, layout: str, skews: tuple[int, int], pads: tuple[int, int]
) -> None:
    tight, places = of_layout(layout, 24, 72, 61, batch=3), Addresses(A + skews[0], B + skews[1], C)
    given = {"lda": tight.lda + pads[0], "ldb": tight.ldb + pads[1]}
    given |= {"stride_a": tight.stride_a + 1000 + pads[0], "stride_b": tight.stride_b + 2000 + pads[1]}
    problem = of_layout(layout, 24, 72, 61, batch=3, **given)
    config = SPLIT_K.config({"BN": 16, "STAGES": 4, "SWAP": swap, "UNALIGNED_OPERANDS": 2})
    assert SPLIT_K.unaligned_operands is not None
    assert SPLIT_K.tensor_maps is not None
    assert (SPLIT_K.unaligned_operands(config), SPLIT_K.tensor_maps(problem, config)) == ("AB", {})
    assert workspace_bytes(SPLIT_K, config, problem, places) == 0
    launches, arguments = unaligned_launches(swap, problem, places, mode=2)
    assert launches == 0
    for number, (operand, ld, described) in enumerate(ROLES_OF):
        assert not any(arguments[described])
        assert arguments[operand] == struct.pack("<Q", places[number])
        assert arguments[ld] == struct.pack("<q", given[ld])
        assert arguments[f"stride{operand}"] == struct.pack("<q", given[f"stride_{operand.lower()}"])


def bytes_of_a_block(config: Config, a_k_major: bool, b_k_major: bool) -> int:
    """Shared memory of rung 20 as its source lays it out: stages, sums, barriers."""
    depth, k_major = 64 * config["DEPTH"], (b_k_major, a_k_major) if config["SWAP"] else (a_k_major, b_k_major)
    # A warpgroup multiplies 64 rows of the first operand: those beyond BM are zeros.
    boxed = [128 * config["DEPTH"] * (rows if k and i else ceil_div(rows, 64) * 64)
             for i, (rows, k) in enumerate(zip((config["BM"], config["BN"]), k_major, strict=True))]  # fmt: skip
    if config["UNALIGNED_OPERANDS"]:
        lines, length = (config["BM"], depth) if k_major[0] else (depth, config["BM"])
        boxed[0] = lines * (length // 8 + 1) * 16
    return config["STAGES"] * (sum(boxed) + 2 * 8) + 4 * config["BM"] * (config["BN"] + 4) + 8


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_launch_has_the_shared_memory_that_the_source_lays_out(layout: str) -> None:
    dice, seen = random.Random(f"smem {layout}"), set()
    for _ in range(300):
        problem = of_layout(layout, dice.randint(1, 300), dice.randint(1, 300), dice.randint(1, 300))
        config = random_config(SPLIT_K, dice)
        seen_as = as_seen(problem)
        needed = bytes_of_a_block(config, not seen_as.trans_a, seen_as.trans_b)
        places = Addresses(A + dice.choice((0, 2)), B + dice.choice((0, 2)), C)
        seen.add((config["UNALIGNED_OPERANDS"], config["SWAP"], needed <= 232_448))
        if needed > 232_448:
            with pytest.raises(ConfigError, match=f"it needs {needed:,} B of shared memory"):
                bind(cast(Any, Hopper()), SPLIT_K, config, problem, places, WORKSPACE, fake_compile)
            continue
        *_, own = bind(cast(Any, Hopper()), SPLIT_K, config, problem, places, WORKSPACE, fake_compile)
        assert own.launch.geometry.smem == needed, str(config)
    assert {(mode, swap, True) for mode, swap in product((0, 1, 2), (0, 1))} <= seen
