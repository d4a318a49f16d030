"""Random problems and configurations for the Hopper rungs, and what a launch makes of a problem."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from gemmsmith.call.binding import aligned_config
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.constraints import LARGEST_SMEM
from gemmsmith.kernel.renamed import DIRECT, THREADS, TMA
from gemmsmith.kernel.spec import Addresses, KernelSpec
from gemmsmith.ladder.registry import rung_named, rungs
from gemmsmith.problem import BF16, FP16, FP32, Problem

NAMES = [spec.name for spec in rungs() if spec.arch_specific == 90 and spec.align_copies]
STORING = [name for name in NAMES if "STORE_MODE" in dict(rung_named(name).config())]
CLUSTER = rung_named("wgmma_cluster")


def random_problem(dice: random.Random) -> tuple[Problem, Addresses]:
    """Any layout, sizes, paddings, strides and addresses; most cannot be described by a tensor map."""
    m, n, k = (dice.choice((1, 2, 7, 8, 63, 64, 65, 127, 256, 300, 1000, 4097)) for _ in range(3))
    dtype = dice.choice((FP16, BF16))
    batch = dice.choice((1, 1, 1, 2, 5))
    tight = Problem(m, n, k, dtype, dice.choice((dtype, FP32)), trans_a=dice.random() < 0.5,
                    trans_b=dice.random() < 0.5)  # fmt: skip
    pads = [dice.choice((0, 0, 1, 3, 8, 24)) for _ in range(3)]
    problem = tight.with_(alpha=dice.choice((1.0, 1.0, 1.0, 0.0)), batch=batch,
                          lda=tight.lda + pads[0], ldb=tight.ldb + pads[1], ldc=tight.ldc + pads[2],
                          stride_a=dice.choice((-1, 0)), stride_b=dice.choice((-1, 0)))  # fmt: skip
    size = problem.out_dtype.itemsize
    places = [base + dice.choice((0, 0, 1, 8)) * step
              for base, step in ((1 << 20, 2), (1 << 30, 2), (1 << 40, size))]  # fmt: skip
    return problem, Addresses(*places)


def random_config(spec: KernelSpec, dice: random.Random, fits: Problem | None = None) -> Config:
    """A legal configuration that fits the layout of that problem; parameters are drawn until one is found."""
    while True:
        drawn = Config(tuple((p.name, dice.choice(p.legal)) for p in spec.parameters))
        # Few other numbers of boxes divide a tile, and TMA stores few of the problems.
        drawn = drawn.with_(STORE_BOXES=dice.choice((1, 2, 4)), STORE_MODE=dice.choice((DIRECT, THREADS, TMA, TMA)))
        drawn = drawn.with_(SLICES=dice.choice((1, 1, 1, 2, 5, 16)))  # slices are never stored by TMA
        if spec.illegal(drawn):
            continue
        if fits is None or spec.geometry(fits, aligned_config(spec, drawn, fits)).smem <= LARGEST_SMEM:
            return drawn


def as_seen(problem: Problem) -> Problem:
    """A batch with one B is one product, if it can be; a vector along k with contiguous elements is taken as a row."""
    problem = problem.folded
    if problem.alpha == 0 or problem.k == 0:
        return problem
    if problem.m == 1 and problem.trans_a and problem.lda == 1:
        problem = replace(problem, trans_a=False, lda=problem.k)
    if problem.n == 1 and not problem.trans_b and problem.ldb == 1:
        problem = replace(problem, trans_b=True, ldb=problem.k)
    return problem


LAYOUTS = ("NN", "NT", "TN", "TT")


def of_layout(layout: str, m: int, n: int, k: int, **changes: Any) -> Problem:
    return Problem(m, n, k, BF16, BF16, trans_a=layout[0] == "T", trans_b=layout[1] == "T", **changes)
