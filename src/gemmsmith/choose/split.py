"""fp32 products by 16-bit products on Hopper, both operands split beforehand: their time, and their tile.

Persistent blocks take one tile after another, so the time is that of the SM with the most tiles. A tile takes time in
proportion to its width; narrow ones slightly more, as they load more per product.
"""

from __future__ import annotations

from gemmsmith.choose.cost_data import measured_gpu, split_costs
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem, ceil_div

_DEPTH = 64  # of a k-tile
_ROW = 4  # floats of 16 bytes: rows of C that start on such are stored as vectors


def seconds(problem: Problem, arithmetic: str = "bf16x6") -> float:
    """Predicted time of splitting and multiplying."""
    p, c = problem, split_costs()
    waves = ceil_div(ceil_div(p.m, c.tile) * ceil_div(p.n, c.tile) * p.batch, measured_gpu().sms)
    step = c.step_of_fp16x3 if arithmetic == "fp16x3" else c.step
    products = ceil_div(p.k, _DEPTH) * _DEPTH * step
    end = c.unaligned_tile_end if p.n % _ROW else c.tile_end
    return c.launches + waves * (products + end) + _numbers(p) * c.split_bytes / c.bandwidth


def workspace_bytes(problem: Problem) -> int:
    """Of the parts that operands are split into."""
    return _numbers(problem) * split_costs().stored_bytes


def _numbers(problem: Problem) -> int:
    p = problem
    return (p.copies[0] * p.m + p.copies[1] * p.n) * p.k


def configuration_for(spec: KernelSpec, problem: Problem, sms: int) -> Config | None:
    """The configuration of ``spec`` for ``problem``; None for other rungs."""
    costs, plain = split_costs(), spec.config()
    widths = costs.widths.get(spec.arithmetic)
    if widths is None or "CLUSTER_M" not in dict(plain):  # the mma.sync rungs have other tiles
        return None
    rows, cluster = plain["BM"] * plain["CLUSTER_M"], plain["CLUSTER_M"] * plain["CLUSTER_N"]

    def cost(width: int) -> int:
        clusters = ceil_div(problem.m, rows) * ceil_div(problem.n, width * plain["CLUSTER_N"]) * problem.batch
        return ceil_div(clusters, max(1, sms // cluster)) * (width + costs.tile_overhead)

    best = min(widths, key=cost)
    return spec.config({"BN": best, "STAGES": widths[best]})
