"""torch tensors that view our device memory, and torch's fp32 setting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from gemmsmith.errors import LaunchError
from gemmsmith.problem import BF16, FP16, FP32, DType, Problem
from gemmsmith.run.contender import OperandSet

# The array interface has no bfloat16, so its bits are passed as 16-bit integers and viewed as bfloat16.
_TYPESTR = {FP32.name: "<f4", FP16.name: "<f2", BF16.name: "<i2"}


def usable_torch() -> Any:
    """The torch module if it is installed and finds a GPU, else None."""
    try:
        import torch
    except (ImportError, OSError):
        return None
    return torch if torch.cuda.is_available() else None


def torch_dtype(torch: Any, dtype: DType) -> Any:
    return {FP32.name: torch.float32, FP16.name: torch.float16, BF16.name: torch.bfloat16}[dtype.name]


def short_version(torch: Any) -> str:
    """'2.11.0' for '2.11.0+cu130'."""
    return str(torch.__version__).split("+")[0]


def views(torch: Any, ordinal: int, problem: Problem, operands: OperandSet) -> tuple[Any, Any, Any]:
    """op(A) as M×K, op(B) as K×N and C as M×N, without copies."""
    a = _view(torch, ordinal, operands.a, problem.a_shape, problem.dtype)
    b = _view(torch, ordinal, operands.b, problem.b_shape, problem.dtype)
    c = _view(torch, ordinal, operands.c, problem.c_shape, problem.out_dtype)
    return (a.T if problem.trans_a else a), (b.T if problem.trans_b else b), c


def all_views(torch: Any, ordinal: int, problem: Problem, sets: Sequence[OperandSet]) -> list[tuple[Any, Any, Any]]:
    return [views(torch, ordinal, problem, operands) for operands in sets]


class _Holder:
    """Memory at an address, in the form that torch views."""

    def __init__(self, address: int, shape: tuple[int, int], dtype: DType) -> None:
        self.__cuda_array_interface__ = {
            "data": (address, False),
            "shape": shape,
            "typestr": _TYPESTR[dtype.name],
            "strides": None,
            "version": 3,
        }


def _view(torch: Any, ordinal: int, address: int, shape: tuple[int, int], dtype: DType) -> Any:
    tensor = torch.as_tensor(_Holder(address, shape, dtype), device=f"cuda:{ordinal}")
    if tensor.data_ptr() != address:
        raise LaunchError(f"torch copied the matrix at {address:#x} instead of viewing it")
    return tensor.view(torch_dtype(torch, dtype))


@contextmanager
def fp32_arithmetic(torch: Any, *, tf32: bool) -> Iterator[None]:
    """Allow TF32 or not inside the block; restores torch's setting afterwards.

    torch 2.9 has a new setting and rejects a mix with the old one, so only one of them is used. cuBLAS reads the mode
    when a product is enqueued, so a CUDA graph keeps the mode of its capture.
    """
    matmul = torch.backends.cuda.matmul
    if hasattr(matmul, "fp32_precision"):
        before = matmul.fp32_precision
        matmul.fp32_precision = "tf32" if tf32 else "ieee"
        try:
            yield
        finally:
            matmul.fp32_precision = before
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high" if tf32 else "highest")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)
