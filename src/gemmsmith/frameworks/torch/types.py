"""Which tensors gemmsmith multiplies, and torch's own rules for their types: checked before anything runs."""

from __future__ import annotations

from typing import Any

import torch

from gemmsmith.errors import DTypeError, TensorShapeError, TensorTypeError, UsageError
from gemmsmith.run.tensors import dtype_name

PLAIN = (torch.Tensor, torch.nn.Parameter)
COMPUTED = (torch.float32, torch.float16, torch.bfloat16, torch.int8)
OUR_TYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16, "int8": torch.int8,
             "int32": torch.int32}  # fmt: skip
# Operands of the functions that do not call them a and b.
_NAMES = {"torch.addmm": ("a", "b", "input"), "torch.nn.functional.linear": ("input", "weight", "bias")}
# torch's own subclasses, which trace operators: FakeTensor and FunctionalTensor
_TRACING = "torch._subclasses."


def check_operands(function: str, *operands: Any) -> None:
    """Raise unless all are tensors that are multiplied, of one type and on one device, as torch requires.

    ``function`` is torch's, for what is not computed here; its operands are called as torch calls them.
    """
    names = _NAMES.get(function, ("a", "b"))
    for name, value in zip(names, operands, strict=False):
        check_tensor(name, value, function)
    first = operands[0]
    for name, other in zip(names[1:], operands[1:], strict=False):
        if other.dtype != first.dtype:
            raise TensorTypeError(f"{names[0]} is {first.dtype} and {name} is {other.dtype}; torch requires one type",
                                  "convert one of them")  # fmt: skip
        if other.device != first.device:
            raise TensorTypeError(f"{names[0]} is on {_place(first)} and {name} on {_place(other)}",
                                  "move them to one device")  # fmt: skip


def _place(value: Any) -> str:
    return "the CPU" if value.device.type == "cpu" else str(value.device)


def check_tensor(name: str, value: Any, function: str) -> None:
    """Raise unless ``value`` is a dense tensor of a type that is computed."""
    check_dense(name, value, function)
    if value.dtype not in COMPUTED:
        raise DTypeError(
            f"{name} is {value.dtype}; gemmsmith computes {', '.join(map(str, COMPUTED))}",
            f"use {function}, or convert it",
        )


def check_dense(name: str, value: Any, function: str) -> None:
    """Raise unless ``value`` is a tensor whose elements lie in memory by strides."""
    kind = type(value)
    if kind not in PLAIN:
        if not isinstance(value, torch.Tensor):
            raise DTypeError(f"{name} is a {kind.__name__}, not a tensor", "pass a torch tensor")
        if not kind.__module__.startswith(_TRACING):
            raise DTypeError(
                f"{name} is a {kind.__name__}, a subclass of torch.Tensor with rules of its own",
                f"pass a plain tensor ({name}.as_subclass(torch.Tensor)), or use {function}",
            )
    if (layout := layout_beside_strided(value)) is not None:
        raise DTypeError(f"{name} is a {layout} tensor", f"pass a dense tensor, or use {function}")


def layout_beside_strided(value: torch.Tensor) -> str | None:
    """'torch.sparse_coo', 'nested' and so on; None for a plain tensor."""
    if value.is_nested:  # its layout may be torch.strided
        return "nested"
    return None if value.layout is torch.strided else str(value.layout)


def result_type(operands: torch.dtype, out_dtype: Any) -> torch.dtype:
    """torch's type of the result, that of the operands, or the one that was asked for."""
    if out_dtype is None or out_dtype == "":
        return operands
    if isinstance(out_dtype, torch.dtype):
        return out_dtype
    found = OUR_TYPES.get(dtype_name(out_dtype))
    if found is None:
        raise DTypeError(f"unknown data type {out_dtype!r}", f"use one of {', '.join(OUR_TYPES)}, or torch's own")
    return found


def check_device(value: Any, device: str) -> None:
    """Raise unless ``value`` is where it can be multiplied: on a GPU, or on the CPU with ``device="sim"``."""
    if device not in ("", "sim"):
        raise UsageError(f"unknown device {device!r}", "use 'sim' for the simulator, or leave it out")
    kind = value.device.type
    if kind == "cuda" and device == "sim":
        raise TensorTypeError("the simulator takes tensors of the CPU, and a is on a GPU", "pass a.cpu()")
    if kind == "cpu" and device == "":
        raise DTypeError("a is a torch tensor on the CPU",
                         'move it with .cuda(), or pass device="sim" to run on the simulator')  # fmt: skip
    if kind not in ("cuda", "cpu", "meta"):
        raise DTypeError(f"a is a tensor on {value.device}", "pass a CUDA tensor")


def shapes_differ(text: str) -> TensorShapeError:
    return TensorShapeError(text)
