"""fp32_wgmma_registers, which splits one operand in registers: its configuration, and whether it is faster than others.

The predicted time is that of the SM with the most k-tiles, at the slowest of tensor cores, splitting and DRAM; or the
time in which the L2 delivers everything. Constants are an H200's (tables/h200.toml).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from gemmsmith.choose.cost_data import measured_gpu, register_costs, split_costs, wgmma_costs
from gemmsmith.choose.precision import promises
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.constraints import LARGEST_SMEM
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import Problem, ceil_div

NAME = "fp32_wgmma_registers"
_DEPTH = 64  # of a k-tile
# Beyond, operands are read so often from L2 that splitting them once is worth it; at 4096 cubed both are as fast.
_FEW, _MOST_FLOPS = 512, 1e11
_WIDTHS = tuple(range(16, 129, 16))
_WIDE = 64  # columns from which products take longer than splitting
_MOST_COMPENSATED = 32  # columns; with more, compensating sums takes longer than it is worth (docs/precision.md)
_COMPENSATED_ADDS = 4  # additions per sum


def fastest(problem: Problem, precision: str, sms: int, unaligned: int) -> tuple[Config, float] | None:
    """The configuration predicted to be fastest, and its seconds; None where the kernel does not compute ``problem``.

    ``unaligned`` has bit 0 set where rows of A do not start on 16 bytes, bit 1 for B.
    """
    spec = rung_named(NAME)
    if not problem.flops or not spec.takes(problem) or precision not in promises(spec, problem.dtype):
        return None
    if min(problem.m, problem.n) > _FEW and problem.flops > _MOST_FLOPS:
        return None
    every = ((predicted_seconds(problem, config, sms, unaligned), config) for config in configurations(problem, sms))
    seconds, config = min(every, key=lambda pair: pair[0])
    return config, seconds


def configurations(problem: Problem, sms: int) -> Iterator[Config]:
    """Legal configurations with as many stages as fit, for either operand as the tall one."""
    k_tiles = ceil_div(problem.k, _DEPTH)
    for swap in (0, 1):
        tall, short = (problem.n, problem.m) if swap else (problem.m, problem.n)
        k_major = not problem.trans_a if swap else problem.trans_b
        narrow = ceil_div(short, 16) * 16
        # Narrower tiles than the short operand, or than 64, only where they are needed for enough blocks.
        few = ceil_div(tall, 64) * ceil_div(short, _WIDE) * problem.batch * min(8, k_tiles) < sms
        least = 16 if few else min(narrow, _WIDE)
        for (_, bn, split), config in _menu(swap, k_major).items():
            if split <= k_tiles and (least <= bn <= narrow or bn == least):
                yield config


@cache
def _menu(swap: int, short_k_major: bool) -> dict[tuple[int, int, int], Config]:
    spec = rung_named(NAME)
    found = {}
    for bm in (64, 128, 192):
        for bn in _WIDTHS:
            for split in (1, 2, 4, 8):
                rows = bn if short_k_major else ceil_div(bn, 64) * 64
                partials = 4 * bm * (bn + 4) if split > 1 else 0
                stages = min(8, (LARGEST_SMEM - 8 - partials) // (256 * bm + 384 * rows + 16))
                compensated = int(bn <= _MOST_COMPENSATED)
                values = {"BM": bm, "BN": bn, "STAGES": stages, "SPLIT": split, "SWAP": swap,
                          "COMPENSATED": compensated}  # fmt: skip
                config = Config(tuple({**dict(spec.config()), **values}.items()))
                if stages >= 2 and not spec.illegal(config):
                    found[bm, bn, split] = config
    return found


def predicted_seconds(problem: Problem, config: Config, sms: int, unaligned: int = 0) -> float:
    """Predicted time of the product."""
    p, c = problem, register_costs()
    swap, bm, bn, split = (config[name] for name in ("SWAP", "BM", "BN", "SPLIT"))
    tall, short = (p.n, p.m) if swap else (p.m, p.n)
    down, across = ceil_div(tall, bm), ceil_div(short, bn)
    in_large_clusters = sms * wgmma_costs().sms_in_large_clusters // measured_gpu().sms
    usable = max(1, (in_large_clusters if split > 2 else sms) // split) * split
    waves = ceil_div(down * across * p.batch * split, usable)
    k_tiles = ceil_div(ceil_div(p.k, _DEPTH), split)
    copies_tall, copies_short = (p.copies[1], p.copies[0]) if swap else p.copies[:2]
    tall_bytes, short_numbers = copies_tall * tall * p.k * 4, copies_short * short * p.k
    fixed = c.launches + (c.cluster if split > 1 else 0.0) + short_numbers * c.split_bytes / split_costs().bandwidth
    step = _step(config, bool(unaligned & (2 if swap else 1)))
    on_sms = waves * (k_tiles * step + c.tile + bm * bn * c.output)
    from_l2 = (p.batch * tall * p.k * 4 * across + p.batch * short * p.k * 6 * down) / c.l2
    from_dram = (tall_bytes + short_numbers * c.split_bytes + p.batch * p.m * p.n * 4) / c.dram
    return fixed + max(on_sms, from_l2, from_dram)


def _step(config: Config, unaligned: bool) -> float:
    """One k-tile of a block: the slowest of all consumers' products, one consumer's work and DRAM."""
    c, bm, bn = register_costs(), config["BM"], config["BN"]
    products = c.products * max(bn / 2, c.least_clocks)
    adding = bn / 2 * (_COMPENSATED_ADDS if config["COMPENSATED"] else 1)
    clocks = max(bm // 64 * (products + c.add_shared * adding), products + c.split_clocks + c.add_clocks * adding)
    loaded = bm * _DEPTH * 4
    rate = min(c.unaligned_ingress if unaligned else c.ingress, config["STAGES"] * loaded / c.latency)
    seconds = max(clocks / c.clock, loaded / rate)
    return seconds * c.three_consumers if bm > 128 else seconds
