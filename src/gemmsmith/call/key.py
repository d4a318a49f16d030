"""The call key: everything that the launches of a call depend on, but for the addresses themselves.

``gemm`` looks up calls by it, and a plan the operand sets it is called with. It is read from torch tensors alone, whose
metadata cost little to read; other arrays are described at every call (run/tensors.py).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from gemmsmith.kernel.config import Config
from gemmsmith.kernel.slots import ALIGNMENT_CLASS
from gemmsmith.kernel.spec import KernelSpec

Key = tuple[Any, ...]
WHOLE_ADDRESS = 1 << 64  # as a modulus: the key holds addresses, not their alignment


def call_key(operands: tuple[Any, ...], options: Key = (), modulus: int = ALIGNMENT_CLASS) -> tuple[Key, list[int]]:
    """The key of torch tensors and ``options``, and the tensors' addresses, 0 for None; an empty key for anything else.

    Tensors that require grad have a key only while torch records no gradients: gemmsmith refuses them otherwise.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return (), []
    key: list[Any] = [*options]
    addresses: list[int] = []
    for value in operands:
        if value is None:
            key.append(None)
            addresses.append(0)
            continue
        kind = type(value)
        if kind is not torch.Tensor and kind is not torch.nn.Parameter:
            return (), []
        if value.layout is not torch.strided or value.is_nested or (value.requires_grad and torch.is_grad_enabled()):
            return (), []
        address = value.data_ptr()
        addresses.append(address)
        key += (value.dtype, value.shape, value.stride(), value.device, address % modulus)
    return tuple(key), addresses


def scalar_key(value: Any) -> Key:
    """Tells apart what Python holds equal: 1 from True, which is refused as a number, and 0.0 from -0.0."""
    return value, type(value), isinstance(value, (float, np.floating)) and not value and str(value)


def options_key(alpha: float, beta: float, activation: str, dtype: str, out_dtype: Any, precision: str,
                deterministic: bool, kernel: str | KernelSpec | None,
                config: Mapping[str, int] | Config | None) -> Key | None:  # fmt: skip
    """All other arguments of ``gemm``; None where they cannot be cached: a user's file may change between two calls."""
    key = ("gemm", alpha if type(alpha) is int else scalar_key(alpha), beta if type(beta) is int else scalar_key(beta),
           activation, dtype, out_dtype, precision, deterministic, type(deterministic))  # fmt: skip
    if kernel is None and config is None:
        return key
    if not (kernel is None or isinstance(kernel, str) or (isinstance(kernel, KernelSpec) and kernel.is_rung)):
        return None
    if not (config is None or isinstance(config, (Mapping, Config))):
        return None
    changes = () if config is None else tuple((name, value, type(value)) for name, value in dict(config).items())
    return (*key, kernel, changes)
