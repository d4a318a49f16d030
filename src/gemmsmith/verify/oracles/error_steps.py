"""The relative error of one operation, by its type, as the GPU computes it.

A rounding to nearest of a type with unit roundoff u errs by at most u of its result, a directed one by 2u. A tensor
core aligns the terms of a block to the largest exponent among them, cuts each a few bits below fp32's last place, and
cuts their sum to fp32 (``sim/arithmetic/tensor_core.py``).
"""

from __future__ import annotations

from gemmsmith.sim.arithmetic.tensor_core import HOPPER

_UNITS = {"f32": 2.0**-24, "f64": 2.0**-53, "f16": 2.0**-11, "bf16": 2.0**-8, "tf32": 2.0**-11}
_FRACTION = 23  # bits of fp32


def relative_error(kind: str, products: int) -> float:
    """Of an operation such as 'f32', 'f32.rz' or 'f16>f32' (a tensor core with fp16 factors and fp32 sums)."""
    if ">" in kind:
        factors, total = kind.split(">")
        if factors not in HOPPER:
            return 0.0  # integers
        cut = (products + 1) * 2.0 ** -(_FRACTION + HOPPER[factors].extra)
        return cut + (2.0**-_FRACTION if total == "f32" else _UNITS[total])
    name = kind.removesuffix(".rz")
    return _UNITS.get(name, 0.0) * (2 if kind.endswith(".rz") else 1)
