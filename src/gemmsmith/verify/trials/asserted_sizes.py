"""The smallest sizes that a kernel's asserts allow, where its grid does not tell its tile.

A persistent kernel has one grid for every M, N and K, and often asserts multiples of several tiles. Its first cluster
alone shows whether an assert fails; from the sizes that pass, the smallest are found by halving.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from gemmsmith.call.binding import CompileFn
from gemmsmith.errors import UsageError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.run.device import Device
from gemmsmith.shapes import Shape
from gemmsmith.sim.memory.access_faults import ASSERTION_FAILED
from gemmsmith.userfile.text.names_derived import derived_names
from gemmsmith.verify.harness import verify_launch
from gemmsmith.verify.verdict import Verdict

_INDEX = r"\b(?:threadIdx|blockIdx)\b"
_TIMES = (2, 4, 8, 16, 32, 64)
_MOST_OUTPUTS = 1 << 24


def asserted_sizes(
    open_device: Callable[[], Device], spec: KernelSpec, config: Config, shape: Shape, compile_fn: CompileFn
) -> Shape | None:
    """Multiples of ``shape`` at which no assert of the first cluster fails; None if none fails there, or all do."""

    def fails(tried: Shape) -> bool:
        problem: Problem = spec.problem(*tried)
        verdict = verify_launch(open_device(), spec, config, problem, fill="integers", mode="exact", c="set",
                                compile_fn=compile_fn, blocks=(0,))  # fmt: skip
        return any(ASSERTION_FAILED in reason for reason in verdict.reasons)

    if not fails(shape):
        return None
    m, n, k = shape
    allowed = ((m * times, n * times, k) for times in _TIMES if m * n * times * times <= _MOST_OUTPUTS)
    found = next((tried for tried in allowed if not fails(tried)), None)
    if found is None:
        return None
    for axis in (0, 1):
        while found[axis] > shape[axis]:
            smaller = found[0] // (2 if axis == 0 else 1), found[1] // (2 if axis == 1 else 1), k
            if fails(smaller):
                break
            found = smaller
    return found


def refuse_asserted(spec: KernelSpec, verdict: Verdict) -> None:
    """Raise where an assert ended the launch that looks at sizes alone: no size that was tried is one of the kernel's.
    One that looks at a thread's own index may show a mistake."""
    failed = next((reason for reason in verdict.reasons if ASSERTION_FAILED in reason), "")
    facts = getattr(spec.geometry, "facts", None)
    if not failed or facts is None:
        return
    text = failed.partition(ASSERTION_FAILED)[2].partition("\n")[0].split(": thread")[0].lstrip(": ")
    condition = text.rpartition(" (")[0] or text
    own = derived_names(facts.reached, _INDEX) | {"threadIdx", "blockIdx"}
    if own.isdisjoint(re.findall(r"[A-Za-z_]\w*", condition)):
        problem = verdict.problem
        raise UsageError(
            f"{spec.signature.entry}: its assert `{condition}` refuses {problem.m}x{problem.n}x{problem.k} and every "
            "other size that was tried",
            "give a size that it allows with --m, --n and --k",
        )
