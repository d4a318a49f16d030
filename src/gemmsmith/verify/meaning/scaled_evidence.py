"""Whether a product with scales that no meaning explains is a wrong product, or one of a kind that is not known.

With scales of 1 and zero points of 0 every such kernel gives A·B. One that gives no product even then, and is linear in
A and in B, has a mistake in its indices or its loop. Operands that are not what their type says (packed numbers, bytes
that hold fp8) are not linear: such a kernel is not judged.

Where it gives A·B, a scale or zero point that is named after an operand must count, and for whole rows of A or whole
columns of B, that lie side by side. Of weights that are unpacked the sums of two are not known: only this is seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.shapes import Shape
from gemmsmith.userfile.kernels.scaled_parameters import ScaledParameter
from gemmsmith.verify.meaning.launch_probe import Operands
from gemmsmith.verify.meaning.linearity import PLAIN, not_linear, probes, stored_products

Array = NDArray[Any]
_LARGEST_INTEGER = 10  # the sum of two has a fifth bit, which a packed number of four bits has not
_LARGEST_REAL = 4  # the sum of two is exact in fp8
_ERROR = 2.0**-7  # of the largest result: outputs may be bf16
_ROUNDED = {"float16": 2.0**-10, "bfloat16": 2.0**-8}  # of one result
_EXACT = 2.0**-14
_NEARLY_ALL = 0.9  # of the results
_MOST = 7 / 8  # of a row or column: a result may be equal by chance

Run = Callable[..., Array]  # of operands, a name and the place of the value that differs


def is_almost(equal: Array, expected: Array) -> bool:
    """Whether nearly all results are those of a meaning bit for bit, and the others are not just the largest, which a
    kernel may clip: it is that product with a mistake."""
    if equal.mean() < _NEARLY_ALL:
        return False
    size = np.abs(expected)
    return bool((size[~equal] < np.median(size)).any())


def is_wrong_product(run: Run, kinds: tuple[Any, Any], shape: Shape, parameters: Sequence[ScaledParameter]) -> bool:
    """Whether a kernel is a product with a mistake. ``run`` gives its result for flat A and B of these ``kinds``; all
    scales and zero points are neutral, but for one value of the parameter that it is told, or none."""
    m, n, k = shape
    one, two = ((_filled(kinds[0], m * k, seed), _filled(kinds[1], k * n, seed + 2)) for seed in (1, 2))
    results = [run(each, "").reshape(m, n) for each in probes(one, two)]
    if not_linear([each.astype(np.float64) for each in results], _ERROR, m * n, k / 2):
        return False
    written = results[PLAIN]
    error = _ROUNDED.get(str(written.dtype), _EXACT)
    products = list(stored_products(written.astype(np.float64).reshape(-1), one, shape))
    if not any(_is_near(c, product, error) for _, product, c in products):
        return True
    # No meaning has a column-major C.
    rounded = [(c, product.astype(written.dtype)) for layout, product, c in products if not layout.stored[2]]
    if not any(np.array_equal(c, product) for c, product in rounded):
        return False
    if all(kind.kind == "i" and kind.itemsize == 1 for kind in kinds) and _lacks_signs(run, one, written):
        return True
    return has_misplaced_scale(run, one, shape, parameters)


def has_misplaced_scale(run: Run, values: Operands, shape: Shape, parameters: Sequence[ScaledParameter]) -> bool:
    """Whether a scale or zero point does not count for whole rows or columns, as its name says; or whether one of its
    values counts for columns that do not lie side by side."""
    m, n, _ = shape
    written = run(values, "").reshape(m, n)
    for each in parameters:
        if each.role not in ("scale", "zero") or each.operand == "C":
            continue
        if each.operand and _is_misplaced(run(values, each.name).reshape(m, n) != written, each.operand):
            return True
        if each.pointer and each.operand != "A":
            counts = (run(values, each.name, at).reshape(m, n) != written for at in {min(m, n) // 2, min(m, n)})
            if any(_are_apart(np.flatnonzero(changed.any(axis=0)), n) for changed in counts):
                return True
    return False


def _is_misplaced(changed: Array, operand: str) -> bool:
    """Whether a value of A's changes no result, or a part of a row; of B's, of a column."""
    shares = changed.mean(axis=1 if operand == "A" else 0)
    if not changed.any() or bool(((shares > 0) & (shares < _MOST)).any()):
        return True
    return _are_apart(np.flatnonzero(shares), shares.size)


def _are_apart(lines: Array, of: int) -> bool:
    """Whether the rows or columns that one value counts for lie apart: those of a block lie side by side; of a row or
    column there is one."""
    return bool(0 < lines.size < of and lines[-1] - lines[0] >= lines.size)


def _lacks_signs(run: Run, values: Operands, written: Array) -> bool:
    """Whether a kernel that gives the product of int8 numbers from 0 on gives no product of negative ones."""
    negative = tuple(-each for each in values)
    return any(
        not np.array_equal(run(pair, "").reshape(written.shape), -written)
        for pair in ((negative[0], values[1]), (values[0], negative[1]))
    )


def _filled(kind: Any, count: int, seed: int) -> Array:
    largest = _LARGEST_INTEGER if kind.kind in "iu" else _LARGEST_REAL
    values = np.random.Generator(np.random.PCG64(seed)).integers(0, largest, count)
    return values.astype(np.float32).astype(kind)


def _is_near(got: Array, product: Array, error: float) -> bool:
    """Whether most results are those of a product, or a multiple of them."""
    factor = float(np.median(got / np.maximum(product, 1)))
    return bool((np.abs(got - factor * product) <= error * np.abs(factor * product)).mean() > 1 / 2) and factor != 0
