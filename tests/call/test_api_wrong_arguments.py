"""Wrong arguments: the right exception, a message that names the argument, and nothing changed."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import gemmsmith
from gemmsmith.errors import (
    ConfigError,
    DTypeError,
    GemmsmithError,
    MissingDeviceError,
    ProblemError,
    UnknownKernelError,
    UnsupportedError,
    UsageError,
)
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import FP32
from gemmsmith.run.cuda import gpu_available
from gemmsmith.run.tensors import Matrix, matrix

F32 = np.float32


class Operands:
    """New operands of 4x3 · 3x5 + 4x5, and a check whether they changed."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        self.memory = rng.standard_normal(400).astype(F32)
        self.a, self.b = self.memory[:12].reshape(4, 3), self.memory[20:35].reshape(3, 5)
        self.c, self.out = self.memory[40:60].reshape(4, 5), self.memory[80:100].reshape(4, 5)


Call = Callable[[Operands], Any]
gemm = gemmsmith.gemm


def read_only(values: Any) -> Any:
    view = values.view()
    view.flags.writeable = False
    return view


def misaligned() -> Any:
    return np.frombuffer(bytearray(49), np.uint8)[1:].view(F32).reshape(4, 3)


WRONG: dict[str, tuple[Call, type[GemmsmithError], str]] = {
    # what is not a matrix
    "a list": (lambda o: gemm([[1.0]], o.b, out=o.out), DTypeError, "a is a list, not a matrix"),
    "none": (lambda o: gemm(None, o.b), DTypeError, "a is a NoneType"),
    "text": (lambda o: gemm(o.a, "b"), DTypeError, "b is a str"),
    "a number": (lambda o: gemm(3, o.b), DTypeError, "a is a int"),
    "a numpy scalar": (lambda o: gemm(F32(1), o.b), DTypeError, "a is a float32"),
    "out is a list": (lambda o: gemm(o.a, o.b, out=[[0.0] * 5] * 4), DTypeError, "out is a list"),
    "c is a number": (lambda o: gemm(o.a, o.b, 2.0, beta=1), DTypeError, "c is a float"),
    "a masked array": (lambda o: gemm(np.ma.masked_less(o.a, 0), o.b), DTypeError, "a is a masked array"),
    # rank
    "rank 1": (lambda o: gemm(o.a[0], o.b), ProblemError, r"a has shape \(3,\), rank 1"),
    "rank 4": (lambda o: gemm(o.a, o.b[None, None]), ProblemError, r"b has shape \(1, 1, 3, 5\), rank 4"),
    "rank 0": (lambda o: gemm(np.array(1, F32), o.b), ProblemError, "rank 0"),
    "out of rank 1": (lambda o: gemm(o.a, o.b, out=o.out[0]), ProblemError, "out has shape"),
    "c of rank 1": (lambda o: gemm(o.a, o.b, o.c[0], beta=1), ProblemError, "c has shape"),
    # shape
    "inner extents": (lambda o: gemm(o.a, o.c), ProblemError, "inner extents 3 and 4 differ"),
    "b transposed": (lambda o: gemm(o.a, o.b.T), ProblemError, "a is 4x3 and b is 5x3"),
    "out's shape": (lambda o: gemm(o.a, o.b, out=o.out.reshape(5, 4)), ProblemError, "out is 5x4.*product is 4x5"),
    "c's shape": (lambda o: gemm(o.a, o.b, o.c[:3], beta=1), ProblemError, "c is 3x5.*product is 4x5"),
    "c broadcast": (lambda o: gemm(o.a, o.b, o.c[:1], beta=1), ProblemError, "c is 1x5"),
    # element types
    "float64": (lambda o: gemm(o.a.astype(float), o.b.astype(float)), DTypeError, "a: .*float64"),
    "b float64": (lambda o: gemm(o.a, o.b.astype(float)), DTypeError, "b: .*float64"),
    "integers": (lambda o: gemm(o.a.astype(int), o.b.astype(int)), DTypeError, "int64"),
    "complex": (lambda o: gemm(o.a.astype(complex), o.b), DTypeError, "complex128"),
    "booleans": (lambda o: gemm(o.a > 0, o.b), DTypeError, "bool"),
    "objects": (lambda o: gemm(o.a.astype(object), o.b), DTypeError, "object"),
    "text elements": (lambda o: gemm(o.a.astype(str), o.b), DTypeError, "<U"),
    "big-endian": (lambda o: gemm(o.a.astype(">f4"), o.b), DTypeError, ">f4"),
    "two types": (lambda o: gemm(o.a.astype(np.float16), o.b), DTypeError, "a is fp16 and b is fp32"),
    "out fp16": (lambda o: gemm(o.a, o.b, out=o.out.astype(np.float16)), DTypeError, "fp32 inputs give fp32, not fp16"),
    "out float64": (lambda o: gemm(o.a, o.b, out=o.out.astype(float)), DTypeError, "out: .*float64"),
    "c fp16": (lambda o: gemm(o.a, o.b, o.c.astype(np.float16), beta=1), DTypeError, "c is fp16; it must be fp32"),
    # memory
    "every second element": (lambda o: gemm(np.ones((8, 6), F32)[::2, ::2], o.b), ProblemError, "neither its rows"),
    "rows backwards": (lambda o: gemm(o.a[::-1], o.b), ProblemError, "neither its rows nor its columns"),
    "columns backwards": (lambda o: gemm(o.a, o.b[:, ::-1]), ProblemError, "b has shape"),
    "broadcast": (lambda o: gemm(np.broadcast_to(o.a[0], (4, 3)), o.b), ProblemError, r"strides \(0, 1\)"),
    "misaligned": (lambda o: gemm(misaligned(), o.b), ProblemError, "not aligned to its 4-byte"),
    "a field of records": (
        lambda o: gemm(np.zeros((4, 3), [("x", "f4"), ("y", "u1")])["x"], o.b), ProblemError, "not aligned"),
    "out by columns": (lambda o: gemm(o.a, o.b, out=o.out.reshape(5, 4).T), ProblemError, "out is stored column"),
    "c by columns": (lambda o: gemm(o.a, o.b, o.c.reshape(5, 4).T, beta=1), ProblemError, "c is stored column"),
    "out read-only": (lambda o: gemm(o.a, o.b, out=read_only(o.out)), ProblemError, "out is read-only"),
    "out in bytes": (
        lambda o: gemm(o.a, o.b, out=np.frombuffer(bytes(80), F32).reshape(4, 5)), ProblemError, "out is read-only"),
    "out is a": (lambda o: gemm(o.memory[:9].reshape(3, 3), o.b, out=o.memory[:15].reshape(3, 5)), ProblemError,
                 "out overlaps a"),
    "out in b": (lambda o: gemm(o.a, o.b, out=o.memory[30:50].reshape(4, 5)), ProblemError, "out overlaps b"),
    "out in c": (lambda o: gemm(o.a, o.b, o.c, beta=1, out=o.memory[45:65].reshape(4, 5)), ProblemError,
                 "out overlaps c"),
    # scalars
    "beta without c": (lambda o: gemm(o.a, o.b, beta=1), UsageError, "beta=1 needs a matrix c"),
    "NaN beta without c": (lambda o: gemm(o.a, o.b, beta=float("nan")), UsageError, "needs a matrix c"),
    "alpha is text": (lambda o: gemm(o.a, o.b, alpha="2"), ProblemError, "alpha must be a real number, not '2'"),
    "alpha is None": (lambda o: gemm(o.a, o.b, alpha=None), ProblemError, "alpha must be a real number"),
    "alpha is complex": (lambda o: gemm(o.a, o.b, alpha=1j), ProblemError, "alpha must be a real number"),
    "alpha is a bool": (lambda o: gemm(o.a, o.b, alpha=True), ProblemError, "not True"),
    "alpha is an array": (lambda o: gemm(o.a, o.b, alpha=np.ones(2)), ProblemError, "alpha must be"),
    "alpha is a fraction": (lambda o: gemm(o.a, o.b, alpha=Fraction(1, 2)), ProblemError, "alpha must be"),
    "alpha is 10**400": (lambda o: gemm(o.a, o.b, alpha=10**400), ProblemError, "alpha is an integer too large"),
    "beta is a list": (lambda o: gemm(o.a, o.b, o.c, beta=[1]), ProblemError, "beta must be a real number"),
    # kernels and configurations
    "a near miss": (lambda o: gemm(o.a, o.b, kernel="warptile"), UnknownKernelError, "did you mean warp_tile?"),
    "no such kernel": (lambda o: gemm(o.a, o.b, kernel="cublas"), UnknownKernelError, "the rungs: naive, "),
    "an empty name": (lambda o: gemm(o.a, o.b, kernel=""), UnknownKernelError, "no rung called ''"),
    "kernel is a number": (lambda o: gemm(o.a, o.b, kernel=3), UnknownKernelError, "kernel is a int"),
    "unknown parameter": (
        lambda o: gemm(o.a, o.b, kernel="naive", config={"BM": 64}), ConfigError, "naive has no parameter BM"),
    "illegal value": (
        lambda o: gemm(o.a, o.b, kernel="naive", config={"TILE": 7}), ConfigError, "TILE=7 is not one of 8, 16, 32"),
    "illegal together": (
        lambda o: gemm(o.a, o.b, kernel="padded", config={"BM": 256, "BN": 256, "TM": 4, "TN": 4}), ConfigError,
        "256·256/.* = 4096 threads"),
    "a value as text": (lambda o: gemm(o.a, o.b, kernel="naive", config={"TILE": "8"}), ConfigError, "not '8'"),
    "a value as float": (lambda o: gemm(o.a, o.b, kernel="naive", config={"TILE": 8.0}), ConfigError, "not 8.0"),
    "config as text": (lambda o: gemm(o.a, o.b, kernel="naive", config="TILE=8"), ConfigError, "config is a str"),
    "config as number": (lambda o: gemm(o.a, o.b, kernel="naive", config=8), ConfigError, "config is a int"),
    "another's config": (
        lambda o: gemm(o.a, o.b, kernel="naive", config=rung_named("padded").config()), ConfigError, "no parameter BM"),
    "config of the chosen": (lambda o: gemm(o.a, o.b, config={"TILE": 8}), ConfigError, "warp_tile has no parameter"),
    "a type it has not": (
        lambda o: gemm(o.a.astype(np.float16), o.b.astype(np.float16), kernel="naive"), UnsupportedError,
        "naive takes fp32 inputs, not fp16\nuse warp_tile_mixed"),
    "a layout it has not": (
        lambda o: gemm(o.a.copy(order="F"), o.b, kernel="padded"), UnsupportedError,
        "padded takes layout NN, not TN\nuse naive or coalesced"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_wrong_arguments(what: str) -> None:
    call, kind, message = WRONG[what]
    operands = Operands()
    before = operands.memory.tobytes()
    with pytest.raises(kind, match=message) as caught:
        call(operands)
    assert type(caught.value) is kind
    assert caught.value.exit_code == 2
    assert len(str(caught.value).splitlines()) <= 2
    assert operands.memory.tobytes() == before


def test_there_are_enough_cases() -> None:
    assert len(WRONG) >= 60


@pytest.mark.parametrize(("function", "arguments"), [(gemmsmith.matmul, 1), (gemmsmith.matmul, 3), (gemm, 4)])
def test_wrong_numbers_of_arguments(function: Callable[..., Any], arguments: int) -> None:
    operands = Operands()
    with pytest.raises(TypeError):
        function(*[operands.a] * arguments)


# --- tensors of other libraries


class OnAGpu:
    """An array with the interface of CuPy, Numba and others."""

    __cuda_array_interface__ = {  # noqa: RUF012 - it is the protocol's own form
        "shape": (4, 3), "typestr": "<f4", "data": (0x7F00_0000_0000, False), "version": 3, "strides": None,
    }  # fmt: skip


class Malformed:
    __cuda_array_interface__ = 5


class OnTheHost:
    """DLPack on the CPU."""

    def __dlpack__(self, **_: Any) -> Any:
        return np.ones((4, 3), F32).__dlpack__()

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


class Unwilling:
    def __dlpack__(self, **_: Any) -> Any:
        raise BufferError("it is in use")

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0


@pytest.mark.skipif(gpu_available(), reason="with a driver the made-up address is looked at")
@pytest.mark.parametrize("place", ["a", "b", "c", "out"])
def test_a_gpu_tensor_without_a_driver(place: str) -> None:
    operands = Operands()
    arguments: dict[str, Any] = {"a": operands.a, "b": operands.b, "c": operands.c, "beta": 1, place: OnAGpu()}
    with pytest.raises(MissingDeviceError, match="no NVIDIA driver") as caught:
        gemm(**arguments)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (Malformed(), "a .Malformed. has a broken __cuda_array_interface__"),
        (OnTheHost(), "is not on a GPU"),
        (Unwilling(), "it is in use"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_tensors_that_cannot_be_read(value: Any, message: str) -> None:
    with pytest.raises(DTypeError, match=message):
        gemm(value, Operands().b)


@pytest.mark.parametrize(("ordinals", "message"), [
    ({"a": 0}, "a is on GPU 0 and b on the host"), ({"b": 1}, "a is on the host and b on GPU 1"),
    ({"a": 0, "b": 1}, "a is on GPU 0 and b on GPU 1"), ({"out": 0}, "a is on the host and out on GPU 0"),
    ({"a": 0, "b": 0, "c": 0}, "a is on GPU 0 and out on the host"),
])  # fmt: skip
def test_operands_on_different_devices(monkeypatch: pytest.MonkeyPatch, ordinals: dict[str, int], message: str) -> None:
    """This is refused without a GPU."""
    operands = Operands()
    shapes = {"a": (4, 3), "b": (3, 5), "c": (4, 5), "out": (4, 5)}

    def described(name: str, value: Any) -> Matrix:
        if not isinstance(value, OnAGpu):
            return matrix(name, value)
        rows, cols = shapes[name]
        return Matrix(name, value, 4096, rows, cols, cols, False, FP32, ordinals[name])

    monkeypatch.setattr("gemmsmith.call.api.matrix", described)
    monkeypatch.setattr("gemmsmith.call.request.matrix", described)
    arguments = {name: OnAGpu() if name in ordinals else getattr(operands, name) for name in shapes}
    before = operands.memory.tobytes()
    with pytest.raises(DTypeError, match=message) as caught:
        gemm(beta=1, **arguments)
    assert "move all operands to one device" in caught.value.hint
    assert operands.memory.tobytes() == before
