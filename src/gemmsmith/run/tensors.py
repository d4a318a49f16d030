"""Matrices of any library, described without a copy: NumPy, torch, CuPy, DLPack, ``__cuda_array_interface__``.

A ``Matrix`` says where a matrix is and how it is laid out.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from gemmsmith.errors import DTypeError, MissingDeviceError, ProblemError
from gemmsmith.problem import BF16, DTYPES, DType, dtype_of
from gemmsmith.run.cuda import pointer_ordinal

# DLPack's numbers of a CUDA device and of streams.
_ON_A_GPU = 2
_LEGACY_STREAM, _NO_STREAM = 1, -1

HOST = -1


@dataclass(frozen=True)
class Matrix:
    """A matrix, or a batch of them: ``transposed`` means column-major.

    ``batch`` is None for a single matrix; the matrices of a batch are ``stride`` elements apart.
    """

    name: str
    owner: Any
    address: int
    rows: int
    cols: int
    leading: int
    transposed: bool
    dtype: DType
    ordinal: int
    batch: int | None = None
    stride: int = 0

    @property
    def on_gpu(self) -> bool:
        return self.ordinal != HOST

    @property
    def nbytes(self) -> int:
        """Bytes from the first element to the end of the last one."""
        lines, length = (self.cols, self.rows) if self.transposed else (self.rows, self.cols)
        if not (lines and length) or self.batch == 0:
            return 0
        further = (self.batch - 1) * self.stride if self.batch else 0
        return (further + (lines - 1) * self.leading + length) * self.dtype.itemsize


def matrix(name: str, value: Any) -> Matrix:
    """The description of an operand; raises with the reason if it cannot be one. A description stays as it is."""
    if isinstance(value, Matrix):
        return value
    if isinstance(value, np.ma.MaskedArray):
        raise DTypeError(f"{name} is a masked array, and its mask would be ignored", "fill it with .filled(0)")
    if isinstance(value, np.ndarray):
        dtype = _dtype(name, value.dtype, ", or use numpy.matmul")
        strides = tuple(s / dtype.itemsize for s in value.strides)
        return _describe(name, value, value.ctypes.data, value.shape, strides, dtype, HOST)
    if is_torch(value):
        return _torch(name, value)
    if hasattr(value, "__cuda_array_interface__"):
        return _interface(name, value)
    if hasattr(value, "__dlpack__"):
        return _exchange(name, value)
    raise DTypeError(
        f"{name} is a {type(value).__name__}, not a matrix",
        "pass a NumPy array (runs on the simulator), or a torch, CuPy or DLPack tensor on a GPU",
    )


def _dtype(name: str, numpy_dtype: np.dtype[Any], otherwise: str = "") -> DType:
    try:
        return dtype_of(numpy_dtype)
    except DTypeError as error:
        raise DTypeError(f"{name}: {error.message}", f"{error.hint}{otherwise}") from None


def is_torch(value: Any) -> bool:
    """Whether ``value`` is a torch tensor; imports nothing."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _torch(name: str, value: Any) -> Matrix:
    torch = sys.modules["torch"]
    names = {torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16", torch.int8: "int8",
             torch.int32: "int32"}  # fmt: skip
    if value.is_nested:  # its layout may be torch.strided, and it has neither sizes nor strides
        raise DTypeError(f"{name} is a nested tensor", "pass a dense CUDA tensor")
    if value.dtype not in names:
        raise DTypeError(f"{name} has elements of type {value.dtype}",
                         f"use one of {', '.join(map(str, names))}, or torch.matmul")  # fmt: skip
    if value.device.type not in ("cuda", "cpu") or value.layout != torch.strided:
        raise DTypeError(f"{name} is a {value.layout} tensor on {value.device}", "pass a dense CUDA (or CPU) tensor")
    if value.requires_grad and torch.is_grad_enabled():
        raise DTypeError(f"{name} requires grad, and gemmsmith does not record gradients", "pass it detached")
    if value.device.type == "cpu":
        raise DTypeError(
            f"{name} is a torch tensor on the CPU", "move it with .cuda(), or pass .numpy() to run on the simulator"
        )
    strides = tuple(float(s) for s in value.stride())
    return _describe(name, value, value.data_ptr(), tuple(value.shape), strides, DTYPES[names[value.dtype]],
                     value.device.index or 0)  # fmt: skip


def _interface(name: str, value: Any) -> Matrix:
    """Through the CUDA array interface of any version; its stream is read at the launch."""
    try:
        facts = value.__cuda_array_interface__
        address, _ = facts["data"]
        shape = tuple(int(extent) for extent in facts["shape"])
        kind = np.dtype(facts["typestr"])
        strides = facts.get("strides")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise DTypeError(f"{name} ({type(value).__name__}) has a broken __cuda_array_interface__: {error!r}") from None
    dtype = _dtype(name, kind)
    steps = tuple(s / kind.itemsize for s in strides) if strides is not None else tuple(map(float, _contiguous(shape)))
    return _describe(name, value, int(address or 0), shape, steps, dtype, pointer_ordinal(int(address or 0)))


def _exchange(name: str, value: Any) -> Matrix:
    """Through DLPack, by cuda.core.

    A producer on a GPU orders its work before the legacy default stream, which computes with such operands; a producer
    on the host has nothing to order.
    """
    from cuda.core.utils import StridedMemoryView
    from cuda.pathfinder import DynamicLibNotFoundError

    try:
        on_gpu = value.__dlpack_device__()[0] == _ON_A_GPU
        view = StridedMemoryView.from_dlpack(value, stream_ptr=_LEGACY_STREAM if on_gpu else _NO_STREAM)
    except DynamicLibNotFoundError:
        raise MissingDeviceError(
            f"{name} ({type(value).__name__}) is a GPU tensor, but no NVIDIA driver is installed",
            "pass a NumPy array to run on the simulator",
        ) from None
    except (BufferError, RuntimeError, NotImplementedError, TypeError) as error:
        raise DTypeError(f"{name} ({type(value).__name__}) cannot be shared: {error}") from None
    except Exception as error:  # the bindings raise their own exception types
        raise MissingDeviceError(f"{name} cannot be read as a GPU tensor: {error}") from None
    if not view.is_device_accessible:
        raise DTypeError(f"{name} ({type(value).__name__}) is not on a GPU", "pass a NumPy array for the simulator")
    shape = tuple(int(s) for s in view.shape)
    strides = view.strides or _contiguous(shape)
    return _describe(name, value, int(view.ptr), shape, tuple(float(s) for s in strides), _dtype(name, view.dtype),
                     int(view.device_id))  # fmt: skip


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(math.prod(shape[i + 1 :]) for i in range(len(shape)))


def _describe(name: str, owner: Any, address: int, shape: tuple[int, ...], strides: tuple[float, ...],
              dtype: DType, ordinal: int) -> Matrix:  # fmt: skip
    if len(shape) not in (2, 3):
        raise ProblemError(f"{name} has shape {shape}, rank {len(shape)}", "pass a matrix, or a batch of rank 3")
    *batch, rows, cols = shape
    if address % dtype.itemsize or any(s != int(s) for s in strides):
        raise ProblemError(f"{name} is not aligned to its {dtype.itemsize}-byte elements", "copy it first")
    steps = (int(strides[-2]), int(strides[-1]))
    # An empty array may have any strides; NumPy's are all 0.
    leading, transposed = _leading(name, (rows, cols), steps) if math.prod(shape) else (max(1, cols), False)
    if not batch:
        return Matrix(name, owner, address, rows, cols, leading, transposed, dtype, ordinal)
    apart = int(strides[0]) if batch[0] > 1 else 0
    if apart < 0:
        raise ProblemError(f"{name} runs backwards through its batch (stride {apart})", "copy it first")
    return Matrix(name, owner, address, rows, cols, leading, transposed, dtype, ordinal, batch[0], apart)


def _leading(name: str, shape: tuple[int, int], strides: tuple[int, int]) -> tuple[int, bool]:
    """The leading dimension, and whether the matrix is column-major."""
    found = _layout_of(shape, strides)
    if found is None:
        raise ProblemError(
            f"{name} has shape {shape} with strides {strides}: neither its rows nor its columns are contiguous",
            "pass a contiguous matrix or its transpose",
        )
    return found


def _layout_of(shape: tuple[int, int], strides: tuple[int, int]) -> tuple[int, bool] | None:
    """The same; None for strides that no kernel takes.

    The stride of an extent of 1 is never used, so it may have any value.
    """
    rows, cols = shape
    row_step, col_step = strides
    if (col_step == 1 or cols == 1) and (rows == 1 or row_step >= cols):
        return (row_step if rows > 1 else cols), False
    if (row_step == 1 or rows == 1) and (cols == 1 or col_step >= rows):
        return (col_step if cols > 1 else rows), True
    return None


def has_kernel_layout(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Whether kernels take a matrix, or a batch of rank 3, with these strides in elements; else it must be copied."""
    if 0 in shape:
        return True
    found = _layout_of((shape[-2], shape[-1]), (strides[-2], strides[-1]))
    if found is None or len(shape) == 2 or shape[0] == 1:
        return found is not None
    leading, transposed = found
    lines, length = (shape[-1], shape[-2]) if transposed else (shape[-2], shape[-1])
    return strides[0] == 0 or strides[0] >= (lines - 1) * leading + length


_NAMES = {"float32": "fp32", "float16": "fp16", "half": "fp16", "bfloat16": "bf16", "int8": "int8", "int32": "int32"}


def dtype_name(value: Any) -> str:
    """Our name of a type that any library spells its own way: torch.bfloat16, numpy.float16, jnp.float32, 'fp16'.

    A text that is no library's name is returned as it is, for the caller to judge; None is ''.
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return _NAMES.get(value) or _NAMES.get(_numpy_name(value), value)
    text = str(value)
    if text.startswith("torch."):
        found = _NAMES.get(text.removeprefix("torch."))
    else:
        try:
            found = _NAMES.get(np.dtype(value).name)
        except TypeError:
            found = None
    if found is None:
        raise DTypeError(f"{text} is no type of results", f"use one of {', '.join(sorted(set(_NAMES) - {'half'}))}")
    return found


def _numpy_name(text: str) -> str:
    """NumPy's name of a type that is written in its short forms: 'f4', '<f2', 'single'."""
    try:
        return np.dtype(text).name
    except TypeError:
        return ""


def stream_reader(value: Any, ordinal: int) -> Callable[[], int]:
    """A function that reads the current stream of the library of ``value``; for torch it does not hold ``value``."""
    if is_torch(value):
        torch = sys.modules["torch"]
        raw = getattr(torch._C, "_cuda_getCurrentRawStream", None)  # makes no stream object
        return partial(raw, ordinal) if raw is not None else lambda: int(torch.cuda.current_stream(ordinal).cuda_stream)
    return partial(_stream_of, value, ordinal)


def current_stream(value: Any, ordinal: int) -> int:
    """The current stream of the library of ``value``; 0 is the legacy default stream."""
    return stream_reader(value, ordinal)()


def _stream_of(value: Any, ordinal: int) -> int:
    if type(value).__module__.split(".")[0] == "cupy":
        cupy = sys.modules["cupy"]
        with cupy.cuda.Device(ordinal):
            return int(cupy.cuda.get_current_stream().ptr)
    interface = getattr(value, "__cuda_array_interface__", None)
    if isinstance(interface, dict) and interface.get("stream") is not None:
        # The array interface has 1 for the legacy default stream, which the driver accepts.
        return int(interface["stream"])
    return 0


def empty_like(value: Any, shape: tuple[int, ...], dtype: DType) -> Any:
    """A new array of ``dtype``, of the same library and on the same device as ``value``."""
    if is_torch(value):
        torch = sys.modules["torch"]
        types = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16, "int8": torch.int8,
                 "int32": torch.int32}  # fmt: skip
        return torch.empty(shape, dtype=types[dtype.name], device=value.device)
    if type(value).__module__.split(".")[0] == "cupy" and dtype != BF16:
        with value.device:
            return sys.modules["cupy"].empty(shape, dtype=dtype.numpy)
    raise DTypeError(f"cannot make an output like a {type(value).__name__}", "pass out= as well")
