"""matmul with NumPy arrays: numpy.matmul's result type, shape and exceptions, for thousands of random signatures.

A reference computes in place of the simulator; test_numpy_on_simulator.py runs a few products there.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import gemmsmith
from gemmsmith.frameworks import numpy_arrays
from gemmsmith.problem import dtype_named
from gemmsmith.run.tensors import dtype_name, matrix

TYPES = (np.float32, np.float16, ml_dtypes.bfloat16, np.int8)
OUTS = (*TYPES, np.float64, np.int32, np.uint8, np.complex64)
extents = st.sampled_from((0, 1, 1, 2, 3, 3, 4))
shapes = st.lists(extents, min_size=0, max_size=4).map(tuple)


@st.composite
def signatures(draw: Any) -> tuple[Any, ...]:
    """Two operands, mostly with a product, and sometimes an output; any strides."""
    a, b = draw(shapes), draw(shapes)
    if draw(st.integers(0, 4)) and a and b:
        b = (a[-1],) if len(b) == 1 else (*b[:-2], a[-1], b[-1])
        if draw(st.booleans()) and len(a) > 2 and len(b) > 2:
            rank = min(len(a), len(b)) - 2
            b = (
                *b[: len(b) - 2 - rank],
                *(x if draw(st.booleans()) else 1 for x in a[len(a) - 2 - rank : -2]),
                *b[-2:],
            )
    left, right = (_array(draw, shape, draw(st.sampled_from(TYPES))) for shape in (a, b))
    out = None
    if draw(st.integers(0, 2)) == 0:
        try:
            shape = np.matmul(np.ones(a, np.int8), np.ones(b, np.int8)).shape
        except ValueError:
            shape = draw(shapes)
        if draw(st.integers(0, 3)) == 0:
            shape = draw(st.sampled_from([(2, *shape), shape[1:], (*shape, 1), shape]))
        # Where an output lacks a core dimension, numpy drops that of the operands too and reads them as vectors.
        assume(len(shape) >= (len(a) > 1) + (len(b) > 1))
        out = np.zeros(shape, draw(st.sampled_from(OUTS)))
        if draw(st.booleans()) and out.ndim:
            out = np.zeros((*shape[:-1], 2 * shape[-1] + 1), out.dtype)[..., 1::2]
        if draw(st.integers(0, 9)) == 0:
            out.flags.writeable = False
    return left, right, out


def _array(draw: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    if not shape:
        return np.array(2, dtype)
    how = draw(st.sampled_from(("plain", "transposed", "backwards", "every second", "broadcast", "offset")))
    if how == "transposed":
        return rng.integers(-9, 9, shape[::-1]).astype(dtype).T
    if how == "backwards":
        return rng.integers(-9, 9, shape).astype(dtype)[..., ::-1]
    if how == "every second":
        return rng.integers(-9, 9, (*shape[:-1], 2 * shape[-1])).astype(dtype)[..., ::2]
    if how == "broadcast":
        return np.broadcast_to(rng.integers(-9, 9, shape[1:]).astype(dtype), shape)
    if how == "offset":
        return rng.integers(-9, 9, (*shape[:-1], shape[-1] + 1)).astype(dtype)[..., 1:]
    return rng.integers(-9, 9, shape).astype(dtype)


def reference(a: Any, b: Any, *, out_dtype: Any, **_options: Any) -> Any:
    """``gemm``, which raises for operands that kernels do not take."""
    for name, each in (("a", a), ("b", b)):
        matrix(name, each)
    assert a.dtype == b.dtype
    assert a.ndim in (2, 3)
    wide = np.matmul(a.astype(np.float64), b.astype(np.float64))
    kind = dtype_named(dtype_name(out_dtype)).numpy
    with np.errstate(over="ignore"):
        return wide.astype(np.int64).astype(kind) if kind.kind == "i" else wide.astype(kind)


def each_as_numpy(signature: tuple[Any, ...]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numpy_arrays, "gemm", reference)
        compare(*signature)


def _examples(count: int) -> settings:
    return settings(max_examples=count, deadline=None, database=None, derandomize=True)


def test_type_shape_and_exception_are_numpys() -> None:
    _examples(500)(given(signatures())(each_as_numpy))()


def test_type_shape_and_exception_are_numpys_of_many_more() -> None:
    _examples(2000)(given(signatures())(each_as_numpy))()


def compare(a: Any, b: Any, out: Any) -> None:
    named = {} if out is None else {"out": out.copy() if out.flags.writeable else out}
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            expected = np.matmul(a, b, **named)
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        with pytest.raises(kind):
            gemmsmith.matmul(a, b, **({} if out is None else {"out": out}))
        return
    found = gemmsmith.matmul(a, b, **({} if out is None else {"out": out}))
    assert type(found) is type(expected)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert out is None or found is out
    exact = np.array_equal(np.asarray(found, np.complex128), np.asarray(expected, np.complex128))
    assert exact or found.dtype in (np.float16, ml_dtypes.bfloat16)


@pytest.fixture(name="by_reference")
def _by_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numpy_arrays, "gemm", reference)


@pytest.mark.usefixtures("by_reference")
def test_half_gives_half_and_fp32_on_request() -> None:
    a = np.full((2, 300), 1, np.float16)
    assert gemmsmith.matmul(a, a.T).dtype == np.float16
    assert gemmsmith.matmul(a, a.T, out_dtype=np.float32).dtype == np.float32
    assert gemmsmith.matmul(a, a.T.astype(np.float32)).dtype == np.float32  # promoted, as numpy does


@pytest.mark.usefixtures("by_reference")
def test_a_matrix_stays_a_matrix() -> None:
    a = np.ones((3, 3), np.float32).view(np.matrix)
    assert type(gemmsmith.matmul(a, np.ones((3, 2), np.float32))) is np.matrix


@pytest.mark.usefixtures("by_reference")
def test_big_endian_operands() -> None:
    a = np.arange(6, dtype=">f4").reshape(2, 3)
    assert np.array_equal(gemmsmith.matmul(a, a.T), a @ a.T)


@pytest.mark.parametrize("kind", [np.float64, np.complex64, np.int32, np.uint8, np.bool_, object])
def test_other_types_name_numpys_own_function(kind: Any) -> None:
    a, b = np.ones((2, 3), kind), np.ones((3, 2), np.float32)
    for x, y in ((a, b), (b, a)):
        with pytest.raises(TypeError, match=r"numpy\.matmul"):
            gemmsmith.matmul(x, y)
    with pytest.raises(TypeError, match=r"numpy\.matmul"):
        gemmsmith.matmul([[1.0]], b)


class Subclass(np.ndarray[Any, Any]):
    """Any subclass without rules of its own."""


# What people pass that is no plain array of a type that is computed.
FORMS: dict[str, Any] = {
    "array": lambda x: x,
    "list": lambda x: x.tolist(),
    "tuple of rows": lambda x: tuple(x) if x.ndim else x,
    "float64": lambda x: x.astype(np.float64),
    "int32": lambda x: x.astype(np.int32),
    "bool": lambda x: x.astype(np.bool_),
    "complex": lambda x: x.astype(np.complex64),
    "object": lambda x: x.astype(object),
    "text": lambda x: np.full(x.shape, "x"),
    "fields": lambda x: np.zeros(x.shape, [("x", "f4"), ("y", "f4")]),
    "one field": lambda x: _one_field(x),
    "numpy scalar": lambda x: x.reshape(-1)[0] if x.size else x,
    "python scalar": lambda _x: 2.0,
    "0-d": lambda x: np.array(2, x.dtype),
    "subclass": lambda x: x.view(Subclass),
    "matrix": lambda x: x.view(np.matrix) if x.ndim == 2 else x,
    "read-only": lambda x: np.broadcast_to(x, x.shape),
    "big-endian": lambda x: x.astype(x.dtype.newbyteorder(">")) if x.dtype != ml_dtypes.bfloat16 else x,
    "not aligned": lambda x: _not_aligned(x),
    "with __array__": lambda x: type("Wrapped", (), {"__array__": lambda _self, *_dtype, **_copy: x})(),
    "masked": lambda x: np.ma.masked_array(x, mask=np.zeros(x.shape, bool)),
}


def _one_field(x: Any) -> Any:
    found = np.zeros(x.shape, [("x", x.dtype), ("y", "i1")])
    found["x"] = x
    return found["x"]


def _not_aligned(x: Any) -> Any:
    found = np.zeros(x.nbytes + 1, np.uint8)[1:].view(x.dtype).reshape(x.shape)
    found[...] = x
    return found


def each_form_as_numpy(signature: tuple[Any, ...], left: str, right: str) -> None:
    """Operands of types that are computed behave as numpy's; others raise a TypeError that names numpy's function."""
    a, b, _ = signature
    a, b = FORMS[left](a), FORMS[right](b)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numpy_arrays, "gemm", reference)
        if all(is_computed(each) for each in (a, b)):
            compare(a, b, None)
        else:
            with pytest.raises(TypeError, match=r"numpy\.matmul"):
                gemmsmith.matmul(a, b)


_FORMS = st.sampled_from(list(FORMS))


def test_whatever_numpy_takes() -> None:
    _examples(200)(given(signatures(), _FORMS, _FORMS)(each_form_as_numpy))()


def test_whatever_numpy_takes_of_many_more() -> None:
    _examples(800)(given(signatures(), _FORMS, _FORMS)(each_form_as_numpy))()


def is_computed(value: Any) -> bool:
    kind = np.asarray(value).dtype.newbyteorder("=")
    return kind in [np.dtype(each) for each in TYPES] and not isinstance(value, np.ma.MaskedArray)


@pytest.mark.usefixtures("by_reference")
def test_an_unknown_device() -> None:
    a = np.ones((2, 2), np.float32)
    assert np.array_equal(gemmsmith.matmul(a, a, device="sim"), a @ a)
    with pytest.raises(gemmsmith.GemmsmithError, match="unknown device 'tpu'"):
        gemmsmith.matmul(a, a, device="tpu")


@pytest.mark.usefixtures("by_reference")
def test_an_output_over_an_operand() -> None:
    a = np.arange(9, dtype=np.float32).reshape(3, 3)
    expected = a @ a
    assert gemmsmith.matmul(a, a, out=a) is a
    assert np.array_equal(a, expected)


@pytest.mark.usefixtures("by_reference")
@pytest.mark.parametrize(
    "name", ["f4", "<f4", "single", "float32", "fp32", np.float32, np.dtype("f4"), np.dtype(">f4")]
)
def test_any_way_to_write_a_type_of_results(name: Any) -> None:
    a = np.ones((2, 3), np.float16)
    assert gemmsmith.matmul(a, a.T, out_dtype=name).dtype == np.float32
    with pytest.raises(TypeError, match="unknown data type 'float33'"):
        gemmsmith.matmul(a, a.T, out_dtype="float33")


def test_gemm_names_numpys_own_function_for_other_types() -> None:
    a = np.ones((2, 2))
    with pytest.raises(TypeError, match=r"numpy\.matmul"):
        gemmsmith.gemm(a, a)


@pytest.mark.parametrize("function", [gemmsmith.matmul, gemmsmith.gemm, gemmsmith.plan])
@pytest.mark.parametrize("given", [(), (np.ones((2, 2), np.float32),)])
def test_missing_operands(function: Any, given: tuple[Any, ...]) -> None:
    """As numpy.matmul(): a TypeError that says what is missing."""
    with pytest.raises(TypeError, match=r"missing .* 'b'"):
        function(*given)


@pytest.mark.usefixtures("by_reference")
@pytest.mark.parametrize(
    ("a", "b", "out"),
    [((3,), (1, 3, 2), (2,)), ((1, 1, 2, 3), (3, 4), (2, 4)), ((1, 1, 2, 3), (3, 4), (1, 2, 4)),
     ((1, 2, 3), (3,), (2,)), ((1, 5, 2, 3), (3, 4), (5, 2, 4)), ((1, 2, 3), (3, 4), (6, 2, 4)),
     ((2, 1, 3), (3,), (1,)), ((5, 1, 2, 3), (3, 4), (5, 2, 4)), ((5, 2, 3), (3, 4), (2, 4))],
)  # fmt: skip
def test_outputs_without_leading_extents_of_one(a: Any, b: Any, out: Any) -> None:
    """numpy takes them; the last three lack an extent that is not 1."""
    compare(np.ones(a, np.float32), np.arange(np.prod(b), dtype=np.float32).reshape(b), np.zeros(out, np.float32))
