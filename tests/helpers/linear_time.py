"""Whether work takes time linear in its amount, on a machine of any speed and load."""

from __future__ import annotations

from collections.abc import Callable

NOISE_S = 0.2


def assert_linear(seconds: Callable[[int], float]) -> None:
    """``seconds``: CPU seconds of so many times the work. Four times may take ten times as long; quadratic work takes
    sixteen times."""
    first, more = seconds(1), seconds(4)
    assert more < 10 * first + NOISE_S, f"{first:.2f} s, and {more:.2f} s for four times as much"
