"""Kinds of values that the operands of a product with scales are given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.verify.meaning.scaled_data import elements
from gemmsmith.verify.meaning.scaled_storage import Encoding

Array = NDArray[Any]
_FEW = 16  # one of so many elements is not 0 where the other operand's sums would be rounded


@dataclass(frozen=True)
class Data:
    """A kind of values. ``wide``: of the whole range; ``tiny``: the smallest that fp8 has, whose sums are exact."""

    wide: bool = False
    tiny: bool = False

    def filled(self, encoding: Encoding, rng: np.random.Generator, count: int, most: int, sparse: bool) -> Array:
        """The array of an operand; ``sparse``: exact sums need many zeros in this one."""
        if self.tiny and encoding.is_fp8:
            return encoding.tiny(rng, count)
        made = encoding.filled(rng, count, most if self.wide else 0)
        if sparse and not self.wide and not encoding.codes:
            made[rng.integers(0, _FEW, made.size) > 0] = 0
        return made

    def bias(self, rng: np.random.Generator, count: int, kind: np.dtype[Any]) -> Array:
        return elements(rng, count, kind, 0)


EXACT, WIDE_DATA, TINY_DATA = Data(), Data(wide=True), Data(tiny=True)
