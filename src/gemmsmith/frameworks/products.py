"""``gemmsmith.matmul`` and ``gemmsmith.gemm``: each library's own conventions, chosen by the type of the operands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gemmsmith.call.api import gemm as plain_gemm
from gemmsmith.errors import UsageError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec

_NUMPY, _TORCH, _JAX, _CUPY, _EXCHANGE = "numpy", "torch", "jax", "cupy", "exchange"
_BY_MODULE = {"torch": _TORCH, "jax": _JAX, "jaxlib": _JAX, "cupy": _CUPY}
_LIBRARIES: dict[type, str] = {}  # of types seen before; only ever added to
_MODULES: dict[str, Any] = {}  # likewise
_TORCH_MATMUL: dict[type, Any] = {}  # torch's matmul for the types of its tensors; likewise
DEVICES = ("", "sim")
_ONE, _ZERO = 1, 0  # the defaults of alpha and beta, which are compared by identity: 1.0 and True are others


def matmul(a: Any, b: Any, *, out: Any = None, out_dtype: Any = None, precision: str = "",
           deterministic: bool = True, device: str = "") -> Any:  # fmt: skip
    """The matrix product of ``a`` and ``b``, by the rules of their library's own ``matmul``.

    Result type, promotion, broadcasting, ranks and the kind of exception are those of ``torch.matmul``,
    ``numpy.matmul``, ``jax.numpy.matmul`` or ``cupy.matmul``; any strides are taken, and copied only where no kernel
    takes them. Types that are computed: float32, float16, bfloat16 and int8; others raise a TypeError. ``out_dtype``
    sets the type of the result, as one of ours or the library's: fp32 for 16-bit operands, fp32 or int32 for int8.

    GPU tensors are multiplied on their GPU, NumPy arrays on the simulator; ``device="sim"`` runs CPU tensors of torch
    and JAX there too. ``precision`` and ``deterministic`` are those of ``gemm``.
    """
    by_torch = _TORCH_MATMUL.get(type(a))
    if by_torch is not None:
        return by_torch(a, b, out, out_dtype, precision, deterministic, device)
    library = _library_of(a, b)
    if library == _TORCH:
        if _LIBRARIES.get(type(a)) == _TORCH:
            _TORCH_MATMUL[type(a)] = torch_products().matmul
        return torch_products().matmul(a, b, out, out_dtype, precision, deterministic, device)
    if device not in DEVICES:
        raise unknown_device(device)
    return _matmul_of(library)(a, b, out=out, out_dtype=out_dtype, precision=precision, deterministic=deterministic,
                            device=device)  # fmt: skip


def torch_products() -> Any:
    """The module of torch's products, imported once: an import statement in every call would cost a microsecond."""
    home = _MODULES.get(_TORCH)
    if home is None:
        from gemmsmith.frameworks.torch import products as home

        _MODULES[_TORCH] = home
    return home


def _matmul_of(library: str) -> Any:
    if library == _JAX:
        from gemmsmith.frameworks.jax.products import matmul as by_jax

        return by_jax
    if library == _EXCHANGE:
        return _exchanged
    if library == _CUPY:
        from gemmsmith.frameworks.cupy_arrays import matmul as by_cupy

        return by_cupy
    from gemmsmith.frameworks.numpy_arrays import matmul as by_numpy

    return by_numpy


def gemm(
    a: Any,
    b: Any,
    c: Any = None,
    *,
    alpha: float = 1,
    beta: float = 0,
    bias: Any = None,
    activation: str = "",
    dtype: str = "",
    out_dtype: Any = "",
    kernel: str | KernelSpec | None = None,
    config: Mapping[str, int] | Config | None = None,
    out: Any = None,
    precision: str = "",
    deterministic: bool = True,
) -> Any:
    """The docstring of call.api.gemm, which this calls."""
    library = _LIBRARIES.get(type(a))
    if library is None:
        library = _library_of(a, b)
    if library == _TORCH:
        home = _MODULES.get(_TORCH) or torch_products()
        of_two = c is None and bias is None and kernel is None and config is None and (
            alpha is _ONE and beta is _ZERO and not activation and not dtype
        )  # fmt: skip
        if of_two:
            result = home.gemm_of_two(a, b, out, out_dtype, precision, deterministic)
            if result is not None:
                return result
        if home.needs_operator(a, b, c, bias):
            return home.gemm(a, b, c, alpha, beta, bias, activation, dtype, out_dtype, kernel, config, out,
                             precision, deterministic)  # fmt: skip
        if of_two:
            return home.first_gemm_of_two(a, b, out, out_dtype, precision, deterministic)
    return plain_gemm(a, b, c, alpha=alpha, beta=beta, bias=bias, activation=activation, dtype=dtype,
                      out_dtype=out_dtype, kernel=kernel, config=config, out=out, precision=precision,
                      deterministic=deterministic)  # fmt: skip


gemm.__doc__ = plain_gemm.__doc__


def _library_of(*operands: Any) -> str:
    """The library whose rules apply: that of the first operand that is not NumPy's or a plain Python object."""
    for each in operands:
        kind = type(each)
        found = _LIBRARIES.get(kind)
        if found is None:
            found = _LIBRARIES[kind] = library_named(kind)
        if found == _NUMPY and not isinstance(each, np.ndarray) and hasattr(each, "__cuda_array_interface__"):
            return _EXCHANGE  # an attribute of the object, not of its type
        if found != _NUMPY:
            return found
    return _NUMPY


def library_named(kind: type) -> str:
    """The library of a type, by the module that defines it or a base of it; imports nothing."""
    for base in kind.__mro__:
        found = _BY_MODULE.get(base.__module__.partition(".")[0])
        if found is not None:
            return found
    if issubclass(kind, (np.ndarray, np.generic)):
        return _NUMPY
    shared = hasattr(kind, "__cuda_array_interface__") or hasattr(kind, "__dlpack__")
    return _EXCHANGE if shared else _NUMPY


def _exchanged(a: Any, b: Any, *, out: Any, out_dtype: Any, precision: str, deterministic: bool, device: str) -> Any:
    """Tensors of a library that is known by DLPack or the CUDA array interface alone: matrices, into ``out``."""
    del device
    return plain_gemm(a, b, out=out, out_dtype=out_dtype or "", precision=precision, deterministic=deterministic)


def unknown_device(device: object) -> UsageError:
    return UsageError(f"unknown device {device!r}", "use 'sim' for the simulator, or leave it out")
