"""The products that record_hopper.py times, in groups with the same sampling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gemmsmith.problem import DTYPES, Problem, ceil_div
from gemmsmith.shapes import suite_named


@dataclass(frozen=True)
class Case:
    """One product, computed by both contenders."""

    group: str
    dtype: str
    layout: str
    m: int
    n: int
    k: int
    precision: str = ""  # of fp32 products

    @property
    def problem(self) -> Problem:
        kind = DTYPES[self.dtype]
        return Problem(self.m, self.n, self.k, kind, kind, trans_a=self.layout[0] == "T", trans_b=self.layout[1] == "T")

    @property
    def aligned(self) -> Case:
        """The next shape whose rows of A, B and C all start on 16 bytes, or this one."""
        step = 16 // self.problem.dtype.itemsize
        if self.precision:  # fp32 operands are copied or split at any alignment
            return self

        def up(extent: int, is_row: bool) -> int:
            return ceil_div(extent, step) * step if is_row else extent

        a, b = self.layout
        return replace(self, m=up(self.m, a == "T"), n=up(self.n, True), k=up(self.k, a == "N" or b == "T"))

    def __str__(self) -> str:
        return f"{self.group:6} {self.dtype} {self.layout} {self.m}x{self.n}x{self.k}"


@dataclass(frozen=True)
class Group:
    """Cases with the same sampling: ``sample`` seconds at a time, ``share`` of the budget in total."""

    share: float
    sample: float
    cases: tuple[Case, ...]


def _cases(group: str, dtype: str, layout: str, shapes: Sequence[tuple[int, int, int]]) -> list[Case]:
    return [Case(group, dtype, layout, *shape) for shape in shapes]


def _fp32(precision: str, layout: str, shapes: Sequence[tuple[int, int, int]]) -> list[Case]:
    return [Case(precision, "fp32", layout, *shape, precision) for shape in shapes]


def _cubes(*sizes: int) -> list[tuple[int, int, int]]:
    return [(size, size, size) for size in sizes]


LLM = [(16, 4096, 4096), (64, 4096, 4096), (128, 128, 16384), (64, 7168, 18432), (4096, 14336, 4096),
       (8192, 28672, 8192)]  # fmt: skip
ODD = [(4097, 4095, 4093), (2049, 2047, 2045), (1023, 1021, 1019), (8191, 8189, 8187), (4096, 4096, 4095),
       (3000, 5001, 2999), (513, 4099, 4097), (6145, 1537, 3071), (255, 8193, 4099), (4095, 4097, 1025)]  # fmt: skip
ODD_FEW = [(16, 4096, 4095), (64, 4096, 4095), (64, 7168, 18431), (128, 128, 16385)]
EDGES = [shape for name in ("smoke", "edges") for shape in suite_named(name).shapes]
# Shapes that were not tuned: multiples of 1000, whose rows start on 16 bytes but not on 32, and common ones.
OTHERS = [*_cubes(1000, 1500, 2000, 3000, 5000, 7000, 4104, 1536, 5120, 6144), (512, 4096, 4096), (128, 4096, 4096),
          (256, 11008, 4096), (4096, 11008, 4096), (2048, 5632, 2048), (520, 4104, 4104)]  # fmt: skip
OTHERS_NN = [*_cubes(2000, 3584, 4000), (768, 3072, 768), (300, 2304, 768), (8192, 1024, 1024)]
SKINNY = [(m, size, size) for size in (4096, 8192) for m in (1, 4, 16, 32, 64)]

GROUPS = {
    "large": Group(0.42, 0.11, tuple(case for dtype in ("bf16", "fp16") for layout in ("NN", "NT")
                                     for case in _cases("large", dtype, layout, _cubes(4096, 8192, 16384)))),
    "llm": Group(0.17, 0.04, (*_cases("llm", "bf16", "NN", _cubes(1024, 2048)), *_cases("llm", "fp16", "NN",
                 _cubes(1024, 2048)), *_cases("llm", "bf16", "NT", _cubes(1024, 2048)),
                 *_cases("llm", "bf16", "NT", LLM))),
    "odd": Group(0.13, 0.04, tuple(_cases("odd", "bf16", "NT", ODD))),
    "odd few": Group(0.06, 0.02, (*_cases("odd few", "bf16", "NT", ODD_FEW),
                                  *_cases("odd few", "bf16", "NN", [(32, 8191, 8192), (4096, 16, 4095)]))),
    "edges": Group(0.06, 0.01, tuple(case for layout in ("NN", "NT")
                                     for case in _cases("edges", "bf16", layout, EDGES))),
    "others": Group(0.1, 0.04, (*_cases("others", "bf16", "NT", OTHERS), *_cases("others", "bf16", "NN", OTHERS_NN))),
    "skinny": Group(0.1, 0.02, tuple(_cases("skinny", "bf16", "NT", SKINNY))),
    "fp32": Group(0.25, 0.08, (*_fp32("fp32", "NN", _cubes(2048, 4096, 8192)), *_fp32("fp32", "NT", _cubes(4096)))),
    "fp32-fast": Group(0.25, 0.08, (*_fp32("fp32-fast", "NN", _cubes(2048, 4096, 8192)),
                                    *_fp32("fp32-fast", "NT", _cubes(4096)))),
    "ieee": Group(0.4, 0.08, tuple(_fp32("ieee", "NN", [*_cubes(1024, 2048, 4096, 8192), *LLM, (4097, 4095, 4093)]))),
}  # fmt: skip
SIXTEEN_BIT = ("large", "llm", "odd", "odd few", "edges", "skinny", "others")
HOST_SHAPES = ((128, 128, 128), (16, 4096, 4096))
HOST_SHARE = 0.03
