"""Which tile for an fp32 product by 16-bit parts on Hopper, on a GPU with so many SMs: the one predicted to be fastest.

Blocks have one tile after another, so that the time is that of the SM with most tiles, each taking as long as it is
wide, measured on an H200; narrow ones a little more, as they load more for a product.
"""

from __future__ import annotations

from collections.abc import Mapping

from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem, ceil_div

# Widths of tiles, widest first, with the stages that fit: those whose products were verified on a GPU. Of three parts,
# with what sums lost, the widest that there is room for.
_WIDTHS: Mapping[str, Mapping[int, int]] = {"fp16x3": {192: 5, 176: 5, 128: 6}, "bf16x6": {128: 6}}
_NARROW = 24  # columns' worth of time that every tile takes besides


def configuration_for(spec: KernelSpec, problem: Problem, sms: int) -> Config | None:
    """The configuration of ``spec`` for ``problem``; None if ``spec`` is no such rung."""
    widths, plain = _WIDTHS.get(spec.arithmetic), spec.config()
    if widths is None or "CLUSTER_M" not in dict(plain):  # mma.sync has other tiles
        return None
    rows, cluster = plain["BM"] * plain["CLUSTER_M"], plain["CLUSTER_M"] * plain["CLUSTER_N"]

    def cost(width: int) -> int:
        clusters = ceil_div(problem.m, rows) * ceil_div(problem.n, width * plain["CLUSTER_N"]) * problem.batch
        return ceil_div(clusters, max(1, sms // cluster)) * (width + _NARROW)

    best = min(widths, key=cost)
    return spec.config({"BN": best, "STAGES": widths[best]})
