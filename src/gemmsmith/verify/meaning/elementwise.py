"""Kernels that multiply element by element, ``y[i] = x[i] * w[i] + r[i]``, and their kin.

Such a kernel may take three matrices, M, N and K, as a product does. It adds up nothing over K, and it writes as many
elements as it reads of one operand. Two others take K and never ask for it: the outer product of two vectors, and the
dot products of rows with rows. To call one of them a wrong product would be a false verdict, so they are refused.
"""

from __future__ import annotations

import math
import re

import numpy as np

from gemmsmith.errors import SignatureError
from gemmsmith.kernel.signature import Signature
from gemmsmith.problem import DType
from gemmsmith.shapes import Shape
from gemmsmith.verify.code.kernel_body import kernel_body
from gemmsmith.verify.meaning.launch_probe import LaunchProbe
from gemmsmith.verify.meaning.meaning_search import MeaningSearch, fitting

_SMALL = (20, 24, 28)  # all products of two or three of them differ
_PRODUCT = re.compile(r"gemm|mat_?mul|mat_?mat|matrix_?mul|(?<![a-z])mm(?![a-z])|dense|linear", re.I)
_ELEMENTWISE = re.compile(r"element|hadamard|pointwise|(?<![a-z])ew(?![a-z])|ewise", re.I)
LAUNCH_OTHERS = ("to run it on arrays of your own: gemmsmith.launch in Python, or --grid … --block … --args … "
                 "--expect FILE.py:FUNCTION, which computes what is expected")  # fmt: skip


def refuse_elementwise(search: MeaningSearch) -> None:
    """Raise for such a kernel, unless its name says that a product is meant."""
    spec, first = search.spec, search.first
    fixed = first.unknown or first.fixed
    if spec.declared_signature or search.rejected or not search.whole or fixed or _says_product(first.entry):
        return
    shapes = _SMALL, search.shapes[0]
    if any(is_elementwise(search.probe(), first, fitting(first, shape)) for shape in shapes):
        raise SignatureError(f"{first.entry} is not a matrix product: each result uses one element of "
                             f"{first.named('A')} and one of {first.named('B')}, and none adds up over K",
                             LAUNCH_OTHERS)  # fmt: skip
    if _ignores_k(first, kernel_body(spec)) and (made := made_of_vectors(search.probe(), first, _SMALL)):
        raise SignatureError(f"{first.entry} is not a matrix product: it computes {made} of {first.named('A')} and "
                             f"{first.named('B')}, and never asks for {first.named('K')}", LAUNCH_OTHERS)  # fmt: skip


def is_elementwise(probe: LaunchProbe, meant: Signature, shape: Shape) -> bool:
    """Whether results of ones are the same for all sizes, one for each element that is read of A or of B."""
    dtype = probe.spec.read_as(meant, "NN").problem(*shape).dtype
    values = []
    for times in (1, 2):
        m, n, k = (times * extent for extent in shape)
        ones = _ones((m, n, k), dtype)
        launched = probe.launched(meant, (m, n, k), (ones, ones), 0)
        if launched is None:
            return False
        result, touched = launched
        if touched.c < max(m, n, k) or touched.c not in (touched.a, touched.b):
            return False
        values.append(set(np.unique(result[result != 0]).tolist()))
    return values[0] == values[1] and len(values[0]) == 1


def made_of_vectors(probe: LaunchProbe, meant: Signature, shape: Shape) -> str:
    """ "the outer product" or "dot products of rows", by the results of ones and by what is read; else empty."""
    dtype = probe.spec.read_as(meant, "NN").problem(*shape).dtype
    ones, (m, n, _) = _ones(shape, dtype), shape
    launched = probe.launched(meant, shape, (ones, ones), 0)
    if launched is None:
        return ""
    result, touched = launched
    values = set(np.unique(result[result != 0]).tolist())
    reads, front = (touched.a, touched.b), int(np.count_nonzero(result[: touched.c]))
    if front != touched.c or len(values) != 1:
        return ""
    if reads in ((m, n), (n, m)) and touched.c == m * n and _reads_fronts(probe, meant, shape, reads):
        return "the outer product"
    rows = {(m * n, m * n, m): n, (m * n, m * n, n): m}.get((*reads, touched.c))
    return "dot products of rows" if rows is not None and values == {float(rows)} else ""


def _reads_fronts(probe: LaunchProbe, meant: Signature, shape: Shape, reads: tuple[int, int]) -> bool:
    """Whether only the first elements are read, as of vectors: results are the same where all others are 0."""
    dtype = probe.spec.read_as(meant, "NN").problem(*shape).dtype
    a, b = (_ones(shape, dtype) for _ in reads)
    a[reads[0] :], b[reads[1] :] = 0, 0
    launched = probe.launched(meant, shape, (a, b), 0)
    return launched is not None and launched[1].c == math.prod(reads)


def _ignores_k(meant: Signature, body: str) -> bool:
    """Whether the kernel takes K, M and N, and does not ask for K."""
    names = {arg.role: arg.name for arg in meant.arguments}
    has_all = all(role in names for role in ("M", "N", "K"))
    return has_all and bool(body) and re.search(rf"\b{re.escape(names['K'])}\b", body) is None


def _ones(shape: Shape, dtype: DType) -> np.ndarray:
    """As many as an index of all three extents reaches."""
    count = max(math.prod(shape), 2 * max(shape) ** 2)
    return np.ones(count, np.float32).astype(dtype.numpy)


def _says_product(entry: str) -> bool:
    return _PRODUCT.search(entry) is not None and _ELEMENTWISE.search(entry) is None
