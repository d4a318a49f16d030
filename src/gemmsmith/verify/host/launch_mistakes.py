"""What is wrong with how host code launches a kernel that is right itself: the first mistake that is found.

The trials give a kernel the sizes, strides and factors that it needs, so that they cannot see these.
"""

from __future__ import annotations

from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.verify.host.batch_grids import too_many_products
from gemmsmith.verify.host.early_returns import early_return
from gemmsmith.verify.host.ignored_parameters import ignored_parameter
from gemmsmith.verify.host.passed_strides import overlapping_rows
from gemmsmith.verify.host.tensor_sizes import wrong_tensor_size
from gemmsmith.verify.host.too_many_threads import too_many_threads
from gemmsmith.verify.trials.trial import BATCHES, EXCHANGED, IGNORED, SCALED_ONLY, STRIDES, TENSORS
from gemmsmith.verify.verdict import Verdict

LAUNCH_MISTAKES = (EXCHANGED, STRIDES, BATCHES, TENSORS, SCALED_ONLY, IGNORED)


def launch_mistake(
    spec: KernelSpec, config: Config, problem: Problem, like: Verdict, base: Problem
) -> tuple[str, Verdict] | None:
    """The name of the check, and its verdict with the facts of ``like``; None if nothing is wrong. ``problem`` has M, N
    and K all different; host code launches the kernel for ``base``."""
    for label, found in ((EXCHANGED, too_many_threads(spec, config, problem, like)),
                         (STRIDES, overlapping_rows(spec, problem, like)),
                         (BATCHES, too_many_products(spec, problem, like)),
                         (TENSORS, wrong_tensor_size(spec, problem, like)),
                         (SCALED_ONLY, early_return(spec, problem, like)),
                         (IGNORED, ignored_parameter(spec, base, like))):  # fmt: skip
        if found is not None:
            return label, found
    return None
