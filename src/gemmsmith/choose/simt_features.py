"""What the correcting trees of simt_best's model may ask: the configuration, how its blocks fill the GPU, the layout,
and the predicted time. benchmarks/fit_simt.py fits the trees; trees.py says what they are."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import cache
from importlib.resources import files

import numpy as np

from gemmsmith.choose.columns import Column
from gemmsmith.choose.trees import Trees, trees_from_fields
from gemmsmith.kernel.config import Config
from gemmsmith.ladder.simt_best import threads, tiles_of
from gemmsmith.problem import Problem, ceil_div

_MOST_WAVES = 8.0  # more are alike
_ROW = 4  # floats of 16 bytes


@cache
def simt_trees() -> Trees:
    """The shipped trees."""
    file = files("gemmsmith.choose").joinpath("tables", "h200_simt_trees.json")
    return trees_from_fields(json.loads(file.read_text(encoding="utf-8")))


def features(problem: Problem, configs: Sequence[tuple[Config, float]], sms: int, unaligned: int) -> dict[str, Column]:
    """By name, one value for each configuration; with each comes its predicted time in seconds."""
    rows = [_features(problem, config, seconds, sms, unaligned) for config, seconds in configs]
    return {name: np.array([row[name] for row in rows], np.float64) for name in rows[0]}


def _features(problem: Problem, config: Config, seconds: float, sms: int, unaligned: int) -> dict[str, float]:
    p, c = problem, config
    tiles, k_tiles = tiles_of(p, c) * p.batch, ceil_div(p.k, c["BK"])
    sharers = c["SHARERS"] * p.batch
    blocks = sharers or tiles * c["CLUSTER_K"]
    waves = blocks / (sms * c["MIN_BLOCKS"])
    steps = tiles * k_tiles / sharers if sharers else k_tiles / c["CLUSTER_K"]
    covered = ceil_div(p.m, c["BM"]) * c["BM"] * ceil_div(p.n, c["BN"]) * c["BN"]
    return {
        "rows": c["BM"], "columns": c["BN"], "outputs": math.log2(c["BM"] * c["BN"]), "depth": c["BK"],
        "teams": c["TEAMS"], "stages": c["STAGES"], "thread_outputs": c["TM"] * c["TN"], "resident": c["MIN_BLOCKS"],
        "threads": threads(c), "cluster": c["CLUSTER_K"], "shared": float(c["SHARERS"] > 0),
        "transposed": c["TRANSPOSED_COPY"], "waves": min(waves, _MOST_WAVES), "fill": waves / math.ceil(waves),
        "busy": min(1.0, blocks / sms), "log_steps": math.log2(max(1.0, steps)), "waste": covered / (p.m * p.n),
        "trans_a": float(p.trans_a), "trans_b": float(p.trans_b), "unaligned_a": float(unaligned & 1),
        "unaligned_b": float(unaligned >> 1 & 1), "unaligned_c": float(p.ldc % _ROW > 0),
        "log_seconds": math.log(seconds), "log_wave": math.log(seconds / max(1, math.ceil(waves))),
        "ratio": c["BM"] / c["BN"],
    }  # fmt: skip
