"""Number formatting for the page: short, uniform, never 'nan'."""

from __future__ import annotations

import math

ABSENT = "–"
NBSP = "\u00a0"  # between a number and its unit, to keep them on one line


def short(value: float, digits: int = 3) -> str:
    """About ``digits`` significant digits: 0.503, 8.3, 46, 1,234; '–' if not finite."""
    if not math.isfinite(value):
        return ABSENT
    if value == 0:
        return "0"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    made = f"{value:,.{places}f}"
    return made.rstrip("0").rstrip(".") if "." in made else made


def tflops(value: float) -> str:
    """TFLOPS for a label: 0.50, 8.30, 46.0."""
    if not math.isfinite(value):
        return ABSENT
    return f"{value:.2f}" if value < 10 else f"{value:,.1f}"


def percent(fraction: float) -> str:
    """A share: one decimal below 10 %, none above."""
    if not math.isfinite(fraction):
        return ABSENT
    digits = 1 if fraction < 0.0995 and fraction else 0
    return f"{fraction * 100:.{digits}f}{NBSP}%"


def times(ratio: float) -> str:
    """A factor: ×1.02, ×16."""
    if not math.isfinite(ratio):
        return ABSENT
    return f"×{ratio:.2f}" if ratio < 10 else f"×{ratio:,.0f}"


def compact(value: float) -> str:
    """A count in a narrow column: 512, 65.5k, 4.19M."""
    if not math.isfinite(value):
        return ABSENT
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size * 0.9995:
            return f"{short(value / size)}{letter}"
    return short(value)


def seconds(value: float) -> str:
    """A duration in s, ms, µs or ns."""
    if not math.isfinite(value):
        return ABSENT
    for size, unit in ((1, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if value >= size:
            return f"{short(value / size)} {unit}"
    return f"{short(value * 1e9)} ns"


def sentence(words: str) -> str:
    """Capitalize the first letter and end with a full stop; a name such as fp16 or cp.async is not capitalized."""
    first = words.split(" ", 1)[0]
    if first.isalpha():
        words = words[:1].upper() + words[1:]
    return words if not words or words[-1] in ".!?" else f"{words}."


def size_of(m: int, n: int, k: int) -> str:
    return f"{m}³" if m == n == k else f"{m}×{n}×{k}"
