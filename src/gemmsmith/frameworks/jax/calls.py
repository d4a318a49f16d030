"""Where a product of JAX arrays runs: three ways, by what is installed and asked for.

    device="sim"            jax.pure_callback: NumPy arrays, on the simulator
    jax-tvm-ffi installed   a typed custom call that XLA runs on its own stream, calling into Python for the launch
    otherwise               arrays that exist, outside of jit: their memory is used directly, and the call waits

A custom call needs a compiled entry; jax-tvm-ffi brings one, so this package ships none. docs/jax.md has the
costs.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from gemmsmith.call.api import gemm as plain_gemm
from gemmsmith.errors import DTypeError, MissingDeviceError, UsageError
from gemmsmith.frameworks.jax.pointers import Operand, launch

_TARGET = "gemmsmith_product"


def check_place(operands: tuple[Any, ...], device: str) -> None:
    """Raise unless the operands are where they can be multiplied."""
    platforms = set()
    for each in operands:
        if isinstance(each, jax.core.Tracer):
            continue
        if len(each.devices()) != 1:
            raise UsageError(f"an operand is spread over {len(each.devices())} devices", "use jax.numpy.matmul")
        platforms |= {next(iter(each.devices())).platform}
    platform = next(iter(platforms), jax.default_backend())
    if platform not in ("cpu", "gpu", "cuda"):
        raise DTypeError(f"an operand is on {platform}", "gemmsmith runs on NVIDIA GPUs and on the simulator")
    if platform == "cpu" and device != "sim":
        raise DTypeError("the operands are JAX arrays on the CPU",
                         'put them on a GPU, or pass device="sim" to run on the simulator')  # fmt: skip
    if platform != "cpu" and device == "sim":
        raise DTypeError("the simulator takes arrays of the CPU, and an operand is on a GPU",
                         "put it there with jax.device_put")  # fmt: skip


def call(a: Any, b: Any, result: Any, trans_a: bool, trans_b: bool, precision: str, deterministic: bool,
         device: str) -> Any:  # fmt: skip
    """op(a) · op(b) of rank 2 or 3, as an array like ``result``."""
    if device == "sim":

        def simulated(x: Any, y: Any) -> Any:
            return _simulated(np.asarray(x), np.asarray(y), result.dtype, trans_a, trans_b, precision, deterministic)

        return jax.pure_callback(simulated, result, a, b, vmap_method="broadcast_all")
    if _registered():
        return jax.ffi.ffi_call(_TARGET, result, vmap_method="broadcast_all")(
            a, b, trans_a=int(trans_a), trans_b=int(trans_b), precision=precision, deterministic=int(deterministic)
        )
    if isinstance(a, jax.core.Tracer) or isinstance(b, jax.core.Tracer):
        raise MissingDeviceError("gemmsmith inside jax.jit, grad or vmap needs jax-tvm-ffi", "pip install jax-tvm-ffi")
    return _in_place(a, b, result, trans_a, trans_b, precision, deterministic)


def _simulated(a: Any, b: Any, kind: Any, trans_a: bool, trans_b: bool, precision: str, deterministic: bool) -> Any:
    """Operands of any rank, since vmap adds dimensions in front."""
    x = a.reshape(-1, *a.shape[-2:]) if a.ndim > 2 else a
    y = b.reshape(-1, *b.shape[-2:]) if b.ndim > 2 else b
    x, y = (x.swapaxes(-1, -2) if trans_a else x), (y.swapaxes(-1, -2) if trans_b else y)
    found = plain_gemm(x, y, out_dtype=kind, precision=precision, deterministic=deterministic)
    return found.reshape(*a.shape[:-2], *found.shape[-2:])


def _in_place(a: Any, b: Any, result: Any, trans_a: bool, trans_b: bool, precision: str, deterministic: bool) -> Any:
    """Into the memory of a new array, between two waits: JAX's streams know nothing of ours."""
    (device,) = a.devices()
    out = jax.device_put(jnp.zeros(result.shape, result.dtype), device)
    jax.block_until_ready((a, b, out))
    left, right, target = (Operand(each.unsafe_buffer_pointer(), tuple(each.shape), each.dtype.name)
                           for each in (a, b, out))  # fmt: skip
    ordinal = device.local_hardware_id if device.local_hardware_id is not None else 0
    launch(left, right, target, trans_a, trans_b, precision, deterministic, ordinal, 0, wait=True)
    return out


@cache
def _registered() -> bool:
    """Whether the custom call exists; registered on first use."""
    if find_spec("jax_tvm_ffi") is None:
        return False
    import jax_tvm_ffi
    import tvm_ffi

    def product(a: Any, b: Any, out: Any, trans_a: int, trans_b: int, precision: str, deterministic: int) -> None:
        left, right, target = (Operand(int(each.data_ptr()), tuple(each.shape), str(each.dtype))
                               for each in (a, b, out))  # fmt: skip
        launch(left, right, target, bool(trans_a), bool(trans_b), str(precision), bool(deterministic),
               out.device.index, int(tvm_ffi.get_raw_stream(out.device)))  # fmt: skip

    spec = ["args", "rets", "attrs.trans_a", "attrs.trans_b", "attrs.precision", "attrs.deterministic"]
    jax_tvm_ffi.register_ffi_target(_TARGET, tvm_ffi.convert(product), spec, platform="gpu")
    return True
