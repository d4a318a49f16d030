"""The tile of an fp32 product by 16-bit products on Hopper: the one predicted to be fastest.

Persistent blocks take one tile after another, so the time is that of the SM with the most tiles. A tile takes time in
proportion to its width; narrow ones slightly more, as they load more per product.
"""

from __future__ import annotations

from gemmsmith.choose.cost_data import split_costs
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem, ceil_div


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
