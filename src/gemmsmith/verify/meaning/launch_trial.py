"""What judges of launches share: the names of trials and verdicts, one trial, and the roundings of a kernel."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gemmsmith.shapes import Shape
from gemmsmith.verify.launch_check import LaunchCheck

DISTINCT, WIDE, RAGGED, VECTORS, DEEPER = (
    "M, N and K all different", "values of the whole range", "a shape that is no multiple of the tile",
    "rows of whole vectors", "a longer K",
)  # fmt: skip
RIGHT, WRONG, RACY, WHOLE_TILES, ALIGNED = "right", "wrong", "racy", "whole_tiles", "aligned_rows"
# The unit roundoff of what PTX computes in, the widest first that is found; sums of fp8 products keep about 14 bits.
_COARSE = (
    (re.compile(r"\b(?:fma|add|mul|sub|cvt)\.[\w.]*\bbf16"), 2.0**-8),
    (re.compile(r"\b(?:fma|add|mul|sub|cvt)\.[\w.]*\bf16|mma\.[\w.]*\.f16|\btf32\b"), 2.0**-11),
    (re.compile(r"mma\.[\w.]*\.e[45]m[32]\b"), 2.0**-13),
)
UNITS = {"float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8, "float64": 2.0**-53}


@dataclass(frozen=True)
class LaunchTrial:
    """One shape and its data, with what was found."""

    label: str
    shape: Shape
    check: LaunchCheck

    @property
    def ok(self) -> bool:
        return self.check.ok

    @property
    def hazards(self) -> bool:
        """Whether it failed for races alone."""
        failed = [outcome for outcome in self.check.outcomes if not outcome.ok]
        return bool(failed) and all(len(outcome.hazards) == len(outcome.reasons) for outcome in failed)


def roundoff(ptx: str) -> float:
    """The unit roundoff of what a kernel computes in."""
    return next((unit for pattern, unit in _COARSE if pattern.search(ptx)), UNITS["float32"])
