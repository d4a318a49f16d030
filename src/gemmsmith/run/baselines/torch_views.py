"""torch over memory that is ours: tensors that view device addresses, and torch's work put on our stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from gemmsmith.errors import LaunchError
from gemmsmith.problem import BF16, FP16, FP32, DType, Problem
from gemmsmith.run.contender import OperandSet

# The array interface has no name for bfloat16: its bits travel as 16-bit integers and are viewed afterwards.
_TYPESTR = {FP32.name: "<f4", FP16.name: "<f2", BF16.name: "<i2"}


def usable_torch() -> Any:
    """torch where it is installed and reaches a GPU, else None."""
    try:
        import torch
    except (ImportError, OSError):
        return None
    return torch if torch.cuda.is_available() else None


def torch_dtype(torch: Any, dtype: DType) -> Any:
    return {FP32.name: torch.float32, FP16.name: torch.float16, BF16.name: torch.bfloat16}[dtype.name]


def short_version(torch: Any) -> str:
    """'2.11.0' of '2.11.0+cu130'."""
    return str(torch.__version__).split("+")[0]


def views(torch: Any, ordinal: int, problem: Problem, operands: OperandSet) -> tuple[Any, Any, Any]:
    """op(A) as M×K, op(B) as K×N and C as M×N, all without a copy."""
    a = _view(torch, ordinal, operands.a, problem.a_shape, problem.dtype)
    b = _view(torch, ordinal, operands.b, problem.b_shape, problem.dtype)
    c = _view(torch, ordinal, operands.c, problem.c_shape, problem.out_dtype)
    return (a.T if problem.trans_a else a), (b.T if problem.trans_b else b), c


def all_views(torch: Any, ordinal: int, problem: Problem, sets: Sequence[OperandSet]) -> list[tuple[Any, Any, Any]]:
    return [views(torch, ordinal, problem, operands) for operands in sets]


class _Holder:
    """What torch asks for the memory behind an address."""

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
    """TF32 allowed or not while the block runs; torch's own setting is put back whatever happens.

    From torch 2.9 on the new setting alone is used: to mix it with the old one is an error there. cuBLAS's mode is
    chosen when a product is enqueued, so a CUDA graph keeps what held while it was captured.
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
