"""Configurations of the Hopper rungs whose machine code is read: each side of each choice at least once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import count
from typing import Any

import pytest

from gemmsmith.call.binding import aligned_config
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.compile.compiler import compile_for
from gemmsmith.compile.sass import Sass, disassemble
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.families.hopper import BOX, BOX_ROW
from gemmsmith.ladder.families.hopper_store import box_width
from gemmsmith.ladder.registry import rung_named, rungs
from gemmsmith.problem import BF16, FP16, FP32, DType, Problem, ceil_div

REGISTERS = 65_536  # of an SM
WARPGROUP = 128
NAMES = [spec.name for spec in rungs() if spec.arch_specific == 90 and spec.align_copies]  # others: test_fp32_wgmma.py
SPECIALIZED = [name for name in NAMES if name not in ("wgmma_tma", "wgmma_split_k")]
STORING = [name for name in NAMES if "STORE_MODE" in dict(rung_named(name).config())]
# Pairs that cover both layouts of each operand, both input types, and outputs of 16 and of 32 bits.
COMBINATIONS = (
    (("NN", BF16, BF16), ("TT", FP16, FP32)),
    (("NT", FP16, FP16), ("TN", BF16, FP32)),
)


@dataclass(frozen=True)
class Case:
    """A rung in a configuration that was specialized for a problem."""

    name: str
    config: Config
    problem: Problem

    @property
    def spec(self) -> KernelSpec:
        return rung_named(self.name)

    def __str__(self) -> str:
        p = self.problem
        return f"{self.name}-{self.config}-{p.layout}-{p.dtype.name}-{p.out_dtype.name}-{p.bias}{p.activation}"

    def value(self, name: str, otherwise: int = 1) -> int:
        return dict(self.config).get(name, otherwise)

    @property
    def consumers(self) -> int:
        """Consumer warpgroups; in rung 16 all warpgroups, with 64 rows each."""
        return self.value("CONSUMERS", self.config["BM"] // 64)

    @property
    def widths(self) -> list[int]:
        """Columns of a tile, and of a tail tile if there are any."""
        return [self.config["BN"], *([self.config["TAIL_BN"]] if self.value("TAIL_BN", 0) else [])]

    @property
    def accumulators(self) -> int:
        """Of a consumer thread."""
        return self.config["BM"] * self.config["BN"] // (WARPGROUP * self.consumers)

    @property
    def in_two_parts(self) -> bool:
        """A consumer's two 64-row tiles have products of their own (two_parts.cuh): the first k-tile is no turn of the
        loop, since what was computed before is stored beside it."""
        plain = {"TAIL_BN": 0, "CLUSTER_K": 1, "SLICES": 1, "DEPTH": 1}
        return (self.name == "wgmma_cluster" and self.config["BM"] == 128 * self.consumers and self.config["BN"] >= 128
                and all(self.config[name] == value for name, value in plain.items()))  # fmt: skip

    @property
    def threads(self) -> int:
        return WARPGROUP * (self.consumers + (self.name != "wgmma_tma"))

    @property
    def swapped(self) -> bool:
        return bool(self.value("SWAP", 0))

    @property
    def unaligned(self) -> int | None:
        """The operand, 0 for A and 1 for B, that is loaded by cp.async and multiplied from registers."""
        return int(self.swapped) if self.value("UNALIGNED_OPERANDS", 0) else None

    @property
    def shifted(self) -> int | None:
        """The operand that producer threads load through registers and write in the layout of TMA."""
        return int(not self.swapped) if self.value("UNALIGNED_OPERANDS", 0) == 2 else None

    @property
    def mapped(self) -> list[int]:
        """The operands that TMA loads."""
        return [n for n in (0, 1) if n not in (self.unaligned, self.shifted)]

    @property
    def shifted_chunks(self) -> int:
        """16-byte chunks of a stage that each producer thread shifts."""
        return 0 if self.shifted is None else self.config["BN"] * 64 * self.value("DEPTH") // 8 // WARPGROUP

    @property
    def sides(self) -> tuple[tuple[int, bool, int], tuple[int, bool, int]]:
        return self.sides_of(self.config["BN"])

    def sides_of(self, width: int) -> tuple[tuple[int, bool, int], tuple[int, bool, int]]:
        """Of A and of B: rows or columns of a k-tile, whether it is K-major, how many blocks share it."""
        of_a, of_b = self.config["BM"], width
        if self.swapped:
            of_a, of_b = of_b, of_a
        return ((of_a, not self.problem.trans_a, self.value("CLUSTER_N")),
                (of_b, self.problem.trans_b, self.value("CLUSTER_M")))  # fmt: skip

    @property
    def boxes(self) -> tuple[int, int]:
        return self.boxes_of(self.config["BN"])

    def boxes_of(self, width: int) -> tuple[int, int]:
        """How many TMA copies a k-tile of A, and of B, takes, if it has a map. A K-major k-tile is one box, except for
        B with tail tiles, where a box is 64 columns."""
        whole = (True, len(self.widths) == 1)
        one, other = (0 if n not in self.mapped else 1 if k_major and whole[n] else ceil_div(rows, BOX)
                      for n, (rows, k_major, _) in enumerate(self.sides_of(width)))  # fmt: skip
        return one, other

    @property
    def k_tile_bytes(self) -> int:
        return self.k_tile_bytes_of(self.config["BN"])

    def k_tile_bytes_of(self, width: int) -> int:
        """Bytes of a k-tile that lie in boxes."""
        return sum(BOX_ROW * (rows if k_major else BOX * ceil_div(rows, BOX))
                   for n, (rows, k_major, _) in enumerate(self.sides_of(width)) if n != self.unaligned)  # fmt: skip

    @property
    def unaligned_bytes(self) -> int:
        """Bytes of a stage of the unaligned operand: each line has as many 16-byte chunks as it could touch."""
        if self.unaligned is None:
            return 0
        rows, k_major, _ = self.sides[self.unaligned]
        lines, length = (rows, 64 * self.value("DEPTH")) if k_major else (64 * self.value("DEPTH"), rows)
        return lines * 16 * (ceil_div(2 * length, 16) + 1)

    @property
    def padding(self) -> int:
        """Bytes of a k-tile after the loaded rows: wgmma reads 64 at a time. Boxes across k have all of them."""
        rows, k_major, _ = self.sides[int(self.swapped)]
        return BOX_ROW * (-rows % BOX) if k_major and self.unaligned is None else 0

    @property
    def stage_bytes(self) -> int:
        return self.value("DEPTH") * (self.k_tile_bytes + self.padding) + self.unaligned_bytes

    @property
    def before_barriers(self) -> int:
        """Bytes of shared memory in front of the barriers, as each header comment says."""
        used = self.config["STAGES"] * self.stage_bytes
        used += self.consumers * self.value("STORE_BOXES", 0) * 64 * box_width(self.config) * 2
        return used + (4 * self.config["BM"] * (self.config["BN"] + 4) if self.name == "wgmma_split_k" else 0)


def problem_of(layout: str, dtype: DType, out: DType, **changes: Any) -> Problem:
    return Problem(512, 512, 512, dtype, out, trans_a=layout[0] == "T", trans_b=layout[1] == "T", **changes)


def case(name: str, config: Config, problem: Problem) -> Case:
    """With aligned operands."""
    return Case(name, aligned_config(rung_named(name), config, problem), problem)


def skewed(name: str, layout: str, dtype: DType, changes: dict[str, int] | None = None, out: DType | None = None,
           **epilogue: Any) -> Case:  # fmt: skip
    """With a C whose rows are unaligned."""
    spec, problem = rung_named(name), problem_of(layout, dtype, out or dtype, ldc=513, **epilogue)
    return Case(name, spec.specialize(spec.config(changes), problem, (256, 256, 256)), problem)


def configurations(name: str) -> list[Config]:
    spec = rung_named(name)
    return list(dict.fromkeys((spec.config(), *(preset.config for preset in spec.presets))))


def compiled_cases() -> Iterator[Case]:
    """Every default and preset; the small kernels of rung 20, which compile fast, in all four layouts."""
    turn = count()
    for name in NAMES:
        for config in configurations(name):
            pairs = COMBINATIONS if name == "wgmma_split_k" else (COMBINATIONS[next(turn) % 2],)
            for layout, dtype, out in (combination for pair in pairs for combination in pair):
                yield case(name, config, problem_of(layout, dtype, out))
    deep = rung_named("wgmma_split_k").config({"STAGES": 4, "DEPTH": 2, "CONSUMERS": 1})
    yield case("wgmma_split_k", deep, problem_of("NN", BF16, BF16))
    unaligned = {"BM": 128, "BN": 48, "STAGES": 3, "UNALIGNED_OPERANDS": 1}
    for layout, changes in (("NT", {"CONSUMERS": 2}), ("TN", {"CONSUMERS": 1, "DEPTH": 4, "STAGES": 2})):
        config = rung_named("wgmma_split_k").config({**unaligned, **changes})
        yield case("wgmma_split_k", config, problem_of(layout, BF16, BF16))
    for layout, changes in (
        ("NN", {"BM": 128, "BN": 128, "CONSUMERS": 2, "SPLIT": 1}),
        ("NT", {"BM": 128, "BN": 32, "CONSUMERS": 2, "DEPTH": 2, "SWAP": 1}),
        ("TN", {"BN": 16, "DEPTH": 4, "SWAP": 1}),
    ):
        config = rung_named("wgmma_split_k").config({"STAGES": 2, "UNALIGNED_OPERANDS": 2, **changes})
        yield case("wgmma_split_k", config, problem_of(layout, BF16, BF16))
    both = rung_named("wgmma_cluster").config({"BM": 128, "BN": 128, "CLUSTER_M": 2, "CLUSTER_N": 2, "CONSUMERS": 2})
    yield case("wgmma_cluster", both, problem_of("NN", FP16, FP16))
    tall = {"BM": 256, "BN": 192, "STAGES": 3, "CLUSTER_M": 1, "CLUSTER_N": 2, "TAIL_BN": 128}
    for layout, changes in (
        ("NT", {"TAIL_BN": 192}),
        ("NT", tall),
        ("TN", tall),
    ):  # 192 beside 256, whose blocks share B
        config = rung_named("wgmma_cluster").config(changes)
        yield case("wgmma_cluster", config, problem_of(layout, BF16, BF16))
    yield skewed("wgmma_persistent", "NT", BF16)
    yield skewed("wgmma_persistent", "TN", FP16, {"BM": 64, "BN": 48, "CONSUMERS": 1})  # boxes of 16 columns
    yield skewed("wgmma_cluster", "NN", BF16, {"BM": 256, "BN": 192, "STAGES": 3, "CLUSTER_M": 1, "CLUSTER_N": 2})
    yield skewed("wgmma_cluster", "NT", FP16, out=FP32)  # neither TMA nor a stage for rows: stored directly
    yield skewed("wgmma_stream_k", "TT", FP16)


CASES = list(compiled_cases())
EPILOGUES = [
    case("wgmma_tma", rung_named("wgmma_tma").config(), problem_of("NN", BF16, BF16, bias="row", activation="relu")),
    case("wgmma_specialized", rung_named("wgmma_specialized").config(),
         problem_of("NT", FP16, FP32, bias="column", activation="gelu")),
    case("wgmma_persistent", rung_named("wgmma_persistent").config(),
         problem_of("TN", BF16, BF16, bias="column", activation="silu")),
    case("wgmma_cluster", rung_named("wgmma_cluster").config(),
         problem_of("NT", BF16, BF16, bias="row", activation="gelu")),
    case("wgmma_split_k", rung_named("wgmma_split_k").config(preset="skinny"),
         problem_of("NT", FP16, FP16, bias="column", activation="relu")),
    case("wgmma_stream_k", rung_named("wgmma_stream_k").config(),
         problem_of("TT", FP16, FP16, bias="row", activation="silu")),
    skewed("wgmma_cluster", "NT", BF16, bias="row", activation="relu"),
]  # fmt: skip
each_case = pytest.mark.parametrize("it", CASES, ids=str)
each_split = pytest.mark.parametrize("it", [it for it in CASES if it.name == "wgmma_split_k"], ids=str)
each_unaligned = pytest.mark.parametrize("it", [it for it in CASES if it.unaligned is not None], ids=str)
each_shifted = pytest.mark.parametrize("it", [it for it in CASES if it.shifted is not None], ids=str)


@cache
def built(it: Case) -> CompiledKernel:
    return compile_for(it.spec, it.config, it.problem, "sm_90")


@cache
def code(it: Case) -> Sass:
    return disassemble(built(it))
