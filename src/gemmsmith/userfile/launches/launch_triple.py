"""The grid or block of a launch as three numbers, and a grid that is rounded down to nothing."""

from __future__ import annotations

import math

from gemmsmith.errors import UsageError
from gemmsmith.kernel.geometry import Dim3
from gemmsmith.userfile.host.values import Value, number


class NoBlocksError(UsageError):
    """A grid or block that is rounded down to nothing."""


def triple(value: Value) -> Dim3:
    """One to three extents of a grid or block, as numbers."""
    parts = list(value) if isinstance(value, tuple) else [value]
    numbers = [math.trunc(number(part)) for part in parts[:3]] + [1] * (3 - len(parts))
    if min(numbers) < 1:
        raise NoBlocksError("a launch of nothing")
    return numbers[0], numbers[1], numbers[2]
