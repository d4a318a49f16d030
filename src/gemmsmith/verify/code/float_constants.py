"""Constants that a kernel compares floating-point numbers with, or clamps them to, as its PTX has them."""

from __future__ import annotations

import math
import re

from gemmsmith.verify.code.instruction_start import START
from gemmsmith.verify.code.integer_ops import float_of

_LINE = re.compile(rf"{START}(?:setp|set|min|max|slct|testp)\b[\w.]*\.(?:f32|f64|f16x?2?|bf16x?2?)\b[^;]*;", re.M)
_NUMBER = re.compile(r"\b0[fF]([0-9a-fA-F]{8})\b|\b0[dD]([0-9a-fA-F]{16})\b")
_MOVED = re.compile(r"^\s*mov\.(?:f32|b32|f64|b64)\s+(%\w+),\s*(0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16});", re.M)
_REGISTER = re.compile(r"%\w+")
_ADDS = re.compile(rf"{START}(?:red|atom)\.(?!shared)[\w.]*add[\w.]*\.(?:f32|f16|bf16)", re.M)
_ATOMICS = re.compile(rf"{START}(?:red|atom)\.(?!\w*\.?shared)", re.M)
_SATURATES = re.compile(r"\.sat\.(?:f32|f16|bf16)|\.relu\b")
_MOST = 4


def compared_floats(ptx: str) -> tuple[float, ...]:
    """Magnitudes other than 0 and infinity, the smallest first; at most four."""
    found: set[float] = {1.0} if _SATURATES.search(ptx) else set()
    moved = dict(_MOVED.findall(ptx))  # a compiler may bring a constant in a register
    for line in _LINE.findall(ptx):
        line = _REGISTER.sub(lambda register: moved.get(register[0], register[0]), line)
        for single, double in _NUMBER.findall(line):
            value = abs(float_of(int(single or double, 16), 32 if single else 64))
            if math.isfinite(value) and value > 0:
                found.add(value)
    return tuple(sorted(found))[:_MOST]


def adds_in_memory(ptx: str) -> bool:
    """Whether it adds floats in global memory: hardware flushes subnormal sums there."""
    return _ADDS.search(ptx) is not None


def has_atomics(ptx: str) -> bool:
    """Whether it changes memory other than shared memory by atomics."""
    return _ATOMICS.search(ptx) is not None
