"""Host code that launches ``<<<block, grid>>>``: most sizes have no such launch.

A kernel that asks for ``blockDim`` is right all the same for small matrices, so that its trials may not see this.
"""

from __future__ import annotations

import math
from dataclasses import replace

from gemmsmith.gpus import cuda_limits
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.verify.verdict import Verdict

_LARGEST = 1 << 14  # rows and columns that are tried


def too_many_threads(spec: KernelSpec, config: Config, problem: Problem, like: Verdict) -> Verdict | None:
    """The verdict on a launch with grid and block swapped, with the facts of ``like``: the first square C that its
    block is too large for. None: they are not swapped, or host code has sizes of its own that have such a block."""
    place = "" if spec.is_rung else getattr(spec.geometry, "exchanged", "")
    most = cuda_limits().threads_per_block
    side = max(problem.m, problem.n)
    while place and side <= _LARGEST:
        larger = problem.with_(m=side, n=side)
        threads = math.prod(spec.geometry(larger, config).block)
        if threads > most:
            reason = (f"host code: the launch at {place} has grid and block swapped: blocks of {threads:,} threads, "
                      f"where a GPU allows {most:,}; the launch fails, and C keeps what it held")  # fmt: skip
            return replace(like, problem=larger, reasons=(reason,), repeat=like.repeat.partition(" --trial ")[0])
        side *= 2
    return None
