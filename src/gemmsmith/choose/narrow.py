"""wgmma_split_k for few rows or columns: the time is that of reading the large operand, so equal parts for all SMs win.

An SM receives only so much from DRAM, however much it asks for. So the tile is what gives every SM the same number of
rows of the large operand, in steps of 8 where they run along k and of 64 otherwise; blocks of a cluster divide K where
that is too coarse. The predicted time is that of the SM with the most rows, or of DRAM. Constants are an H200's
(tables/h200.toml).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import islice

from gemmsmith.choose.candidates import Candidate, smem_limit
from gemmsmith.choose.cost_data import measured_gpu, narrow_costs, wgmma_costs
from gemmsmith.choose.key import is_16_bit
from gemmsmith.choose.waves import Chip
from gemmsmith.gpus import architecture
from gemmsmith.kernel.config import Config
from gemmsmith.ladder.families.hopper import BOX, BOX_ROW
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import Problem, ceil_div

NAME = "wgmma_split_k"
# Rows or columns. From 65 on, only where rows of both operands run along k, and without dividing K: on an H200 the best
# such configuration was faster than the best other one at 4 of 6 products of 72 to 80 rows, and at 3 of 9 of 96 to 160.
_FEW, _MOST_FEW = 64, 80
_MOST_ROWS = 256  # of a tile
_LOW = 32  # rows of a tile: at 1x4096x12288 it takes 29.6 µs, with 64 and two parts of K 25.9
_MOST_RESIDENT = 6  # blocks on an SM
# By k-tiles per stage. With fewer, loads wait for products: 20 % slower with two stages, 2 % with three.
_LEAST_STAGES: Mapping[int, int] = {1: 4, 2: 3, 4: 5}
_UNALIGNED = 3  # of ``key.alignment``: A, B


def streaming(problem: Problem, chip: Chip, alignment: int) -> Candidate | None:
    """The configuration predicted to be fastest; None where reading one operand is not most of the work."""
    return next(iter(fastest(problem, chip, alignment)), None)


def fastest(problem: Problem, chip: Chip, alignment: int, count: int = 1) -> list[Candidate]:
    """The configurations predicted to be fastest; none where reading one operand is not most of the work."""
    p = problem
    if not is_16_bit(p) or p.batch != 1 or alignment & _UNALIGNED or not rung_named(NAME).takes(p):
        return []
    if min(p.m, p.n) > (_MOST_FEW if _both_along_k(p) else _FEW):
        return []
    spec = rung_named(NAME)
    every = (Candidate(spec, config, predicted_seconds(p, config, chip, resident, alignment))
             for config, resident in _candidates(p, chip))  # fmt: skip
    fastest_first = sorted(every, key=lambda candidate: candidate.seconds)
    legal = (each for each in fastest_first if not spec.illegal(each.config))  # legality is slow to ask
    return list(islice(legal, count))


def _both_along_k(problem: Problem) -> bool:
    return not problem.trans_a and problem.trans_b


def configurations(problem: Problem, chip: Chip) -> Iterator[tuple[Config, int]]:
    """Legal configurations worth considering, and how many blocks of each run on an SM at once."""
    return ((config, count) for config, count in _candidates(problem, chip) if not rung_named(NAME).illegal(config))


def _candidates(problem: Problem, chip: Chip) -> Iterator[tuple[Config, int]]:
    p = problem
    few, many = sorted((p.m, p.n))
    swap = int(p.m < p.n)
    along_k, short_k_major = (p.trans_b, not p.trans_a) if swap else (not p.trans_a, p.trans_b)
    width, parts = ceil_div(few, 16) * 16, ceil_div(p.k, BOX) if few <= _FEW else 1
    found = _configs(many, width, swap, along_k, short_k_major, parts, chip.sms)
    return found if few <= _FEW else (each for each in found if each[0]["BM"] >= width // 2)  # lower ones: not timed


def predicted_seconds(problem: Problem, config: Config, chip: Chip, resident: int, alignment: int = 0) -> float:
    """Predicted time; ``resident`` blocks run on an SM at once. ``alignment`` as ``key.alignment`` gives it."""
    c, p = narrow_costs(), problem
    swap, bm, split = config["SWAP"], config["BM"], config["SPLIT"]
    many, along_k = (p.n, p.trans_b) if swap else (p.m, not p.trans_a)
    short_k_major = not p.trans_a if swap else p.trans_b
    of_large, of_short = (16, 8) if swap else (8, 16)
    in_large_clusters = chip.sms * wgmma_costs().sms_in_large_clusters // measured_gpu().sms
    usable = max(1, in_large_clusters if split > 2 else chip.sms)
    blocks = ceil_div(many, bm) * split
    busiest = ceil_div(blocks, usable)
    in_flight = min(busiest, resident) * config["STAGES"] * config["DEPTH"] * bm * BOX_ROW
    rate = min(c.ingress if along_k else c.ingress_across, in_flight / c.latency)
    rows = bm + config["BN"] * c.short_row
    k_tile = c.k_tile + rows * BOX_ROW / rate
    slow = bm if alignment & of_large and along_k else 0
    slow += config["BN"] if alignment & of_short and short_k_major else 0
    k_tile = _soft_maximum(k_tile, slow * wgmma_costs().half_aligned_row)
    if not short_k_major:
        k_tile = max(k_tile, BOX * c.short_row_across / min(p.m, p.n))
    on_sms = busiest * ceil_div(ceil_div(p.k, BOX), split) * k_tile
    waves = ceil_div(blocks, usable * resident)
    fixed = c.launch + (waves - 1) * c.wave + (c.cluster if split > 1 else 0.0)
    more = c.more_rows if min(p.m, p.n) > _FEW else 1.0
    more *= c.low_tile if bm <= _LOW and split == 1 else 1.0
    return more * (fixed + max(on_sms, many * p.k * p.dtype.itemsize / c.dram))


def _soft_maximum(one: float, other: float) -> float:
    """Two limits of a k-tile: 28 times of 10 products with half-aligned rows are within 6 % (root mean square) of it,
    32 % faster than the sum in the mean (2026-11-18)."""
    sharpness = wgmma_costs().overlap_sharpness
    return float((one**sharpness + other**sharpness) ** (1 / sharpness))


def _configs(many: int, width: int, swap: int, along_k: bool, short_k_major: bool, most_parts: int,
             sms: int) -> Iterator[tuple[Config, int]]:  # fmt: skip
    """Configurations, and how many blocks of each run on an SM at once."""
    seen = set()
    for split in (1, 2, 4, 8):
        if split > most_parts:
            continue
        if along_k:
            fewest = ceil_div(many * split, sms * _MOST_ROWS)  # blocks of an SM
            sizes = [ceil_div(ceil_div(many * split, sms * blocks), 8) * 8 for blocks in range(fewest, fewest + 4)]
        else:
            sizes = [64, 128, 192]
        for bm in sizes:
            most = min(_MOST_RESIDENT, ceil_div(ceil_div(many, bm) * split, sms))
            for resident in range(most, 0, -1):
                for depth in (4, 1, 2):
                    config = _config(bm, width, swap, split, depth, resident, short_k_major)
                    if config is not None and config not in seen:
                        seen.add(config)
                        yield config, resident


@cache
def _config(
    bm: int, width: int, swap: int, split: int, depth: int, resident: int, short_k_major: bool
) -> Config | None:
    """With as many stages as let ``resident`` blocks share an SM; None if those are too few."""
    hopper = architecture(90)
    limit = smem_limit() if resident == 1 else hopper.smem_per_sm // resident - hopper.reserved_smem_per_block
    defaults, stages = _defaults()
    short = width if short_k_major else ceil_div(width, BOX) * BOX
    stage = depth * (ceil_div(bm, BOX) * BOX + short) * BOX_ROW + 16
    fits = [n for n in stages if n * stage + 4 * bm * (width + 4) + 8 <= limit]
    values: Mapping[str, int] = {"BM": bm, "BN": width, "STAGES": max(fits, default=0), "CONSUMERS": 1, "SPLIT": split,
                                 "SWAP": swap, "DEPTH": depth, "UNALIGNED_OPERANDS": 0}  # fmt: skip
    return Config(tuple({**defaults, **values}.items())) if values["STAGES"] >= _LEAST_STAGES[depth] else None


@cache
def _defaults() -> tuple[Mapping[str, int], tuple[int, ...]]:
    """The kernel's default values, and those of STAGES that it allows."""
    spec = rung_named(NAME)
    return {p.name: p.default for p in spec.parameters}, next(p.legal for p in spec.parameters if p.name == "STAGES")
