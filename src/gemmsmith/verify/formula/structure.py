"""Kernels whose names say that one operand is symmetric or triangular: data under which a mistake does not show."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.userfile.kernels.formula_kernel import FormulaKernel
from gemmsmith.verify.formula.formula import Formula

Array = NDArray[Any]
_SYMMETRIC = re.compile(r"(?:^|_)[sdh]?symm|symmetric_?m(?:at)?_?m", re.I)
_TRIANGULAR = re.compile(r"(?:^|_)[sdh]?trmm|triangular_?m(?:at)?_?m", re.I)
_HALF = re.compile(r"lower|upper", re.I)


@dataclass(frozen=True)
class Structure:
    """``mirrored``: symmetric, else triangular; ``half``: which one is stored."""

    mirrored: bool
    half: str

    def fits(self, formula: Formula) -> bool:
        triangle = formula.triangle
        return triangle is not None and (triangle.mirrored, triangle.half) == (self.mirrored, self.half)

    def befriend(self, arrays: Mapping[str, Array], formula: Formula, sizes: Mapping[str, int]) -> None:
        """Fill the other half of the operand as it counts: with the mirror image, or with zeros."""
        assert formula.triangle is not None
        operand = formula.structured
        for number in range(sizes["batch"]):
            matrix = operand.of(arrays[operand.member], sizes, number)
            matrix[:] = formula.triangle.applied(matrix.astype(np.float64)).astype(matrix.dtype)


def structure_by_name(kernel: FormulaKernel) -> Structure | None:
    """What the kernel's name says; the half that it, or else the file, names first."""
    mirrored = _SYMMETRIC.search(kernel.name) is not None
    if not mirrored and _TRIANGULAR.search(kernel.name) is None:
        return None
    half = _HALF.search(kernel.name) or _HALF.search(kernel.text)
    return Structure(mirrored, half[0].lower()) if half is not None else None
