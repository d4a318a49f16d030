"""The public functions: one product, or a batch of them, on the device that holds its operands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from gemmsmith.choose.default import choose
from gemmsmith.errors import ConfigError, DTypeError, ProblemError, UnknownKernelError, UsageError
from gemmsmith.kernels.registry import rung_named, rungs
from gemmsmith.kernels.spec import Config, KernelSpec
from gemmsmith.problem import FP32, INT8, DType, Problem, dtype_named
from gemmsmith.run.binding import Addresses, bind, workspace_bytes
from gemmsmith.run.cuda import CudaDevice, cuda_device
from gemmsmith.run.memory import upload
from gemmsmith.run.tensors import Matrix, current_stream, empty_like, matrix
from gemmsmith.sim.device import SimDevice


def kernels() -> tuple[KernelSpec, ...]:
    """The rungs of the ladder, in order."""
    return rungs()


def matmul(a: Any, b: Any) -> Any:
    """The matrix product of ``a`` and ``b``: NumPy arrays on the simulator, GPU tensors on their GPU.

    Operands of rank 3 are a batch; one of rank 2 serves all of it. The result is fp32, of the operands' library and on
    their device.
    """
    return gemm(a, b)


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
    out_dtype: str = "",
    kernel: str | KernelSpec | None = None,
    config: Mapping[str, int] | Config | None = None,
    out: Any = None,
) -> Any:
    """activation(alpha · a · b + beta · c + bias).

    ``a`` and ``b`` may be stored row by row or column by column (a transposed view), and be batches of rank 3; one of
    rank 2 serves the whole batch. ``c`` is read only if beta is not 0 and is not changed, unless it is also ``out``.
    ``bias`` has a value for each column (rank 1, or 1×N) or for each row (M×1), in the output's type; ``activation`` is
    'relu', 'gelu' (with erf) or 'silu'. ``dtype='tf32'`` multiplies fp32 operands as TF32. ``out_dtype`` is fp32 unless
    it is named: fp16 from fp16, bf16 from bf16, int8 or int32 from int8. On a GPU the kernel is launched on
    the caller's current stream and not waited for. Returns ``out``, or a new array.
    """
    left, right = matrix("a", a), matrix("b", b)
    target = matrix("out", out) if out is not None else None
    problem = _problem(left, right, alpha, beta, dtype, _out_dtype(out_dtype, target), activation)
    offset = _bias(problem, bias)
    if offset is not None:
        problem = replace(problem, bias="column" if (offset.rows, offset.cols) == (1, problem.n) else "row")
    addend = _addend(problem, c)
    _check_operands([m for m in (left, right, addend, offset, target) if m is not None])
    if target is not None:
        _check_output(problem, target, left, right, addend, offset)
        problem = replace(problem, ldc=target.leading, stride_c=target.stride if problem.batch > 1 else -1)
    spec = choose(problem) if kernel is None else _spec(kernel)
    spec.accepts(problem)
    chosen = spec.config(_changes(config))
    ranks = 3 if left.batch is not None or right.batch is not None else 2
    run = _on_gpu if left.on_gpu else _on_simulator
    return run(problem, spec, chosen, left, right, addend, offset, target, ranks)


def _spec(kernel: str | KernelSpec) -> KernelSpec:
    if isinstance(kernel, KernelSpec):
        return kernel
    if isinstance(kernel, str):
        return rung_named(kernel)
    raise UnknownKernelError(f"kernel is a {type(kernel).__name__}, not a rung", "pass a rung's name or its KernelSpec")


def _changes(config: Mapping[str, int] | Config | None) -> dict[str, int]:
    if config is None or isinstance(config, (Mapping, Config)):
        return dict(config or {})
    raise ConfigError(f"config is a {type(config).__name__}, not a mapping", "pass it as {'BM': 64, 'BN': 64}")


def _out_dtype(name: str, target: Matrix | None) -> DType:
    if name:
        return dtype_named(name)
    return target.dtype if target is not None else FP32


def _problem(a: Matrix, b: Matrix, alpha: float, beta: float, dtype: str, out_dtype: DType, activation: str) -> Problem:
    if a.cols != b.rows:
        raise ProblemError(
            f"a is {a.rows}x{a.cols} and b is {b.rows}x{b.cols}: the inner extents {a.cols} and {b.rows} differ"
        )
    if a.dtype != b.dtype:
        raise DTypeError(f"a is {a.dtype} and b is {b.dtype}", "convert one of them")
    kind = dtype_named(dtype) if dtype else a.dtype
    if kind.numpy != a.dtype.numpy:
        raise DTypeError(f"dtype is {kind}, but a and b are {a.dtype}", "convert them, or leave dtype out")
    sizes = {m.batch for m in (a, b) if m.batch is not None}
    if len(sizes - {1}) > 1:
        raise ProblemError(f"a is a batch of {a.batch} and b one of {b.batch}", "pass as many, or one matrix for all")
    batch = max(sizes, default=1) if 0 not in sizes else 0
    stride_a, stride_b = (-1 if batch <= 1 else m.stride if m.batch == batch else 0 for m in (a, b))
    return Problem(a.rows, b.cols, a.cols, dtype=kind, out_dtype=out_dtype, alpha=alpha, beta=beta, lda=a.leading,
                   ldb=b.leading, trans_a=a.transposed, trans_b=b.transposed, batch=batch, stride_a=stride_a,
                   stride_b=stride_b, activation=activation)  # fmt: skip


def _bias(problem: Problem, bias: Any) -> Matrix | None:
    if bias is None:
        return None
    shaped = bias.reshape(1, -1) if getattr(bias, "ndim", 0) == 1 else bias
    found = matrix("bias", shaped)
    if (found.rows, found.cols) not in ((1, problem.n), (problem.m, 1)) or found.batch is not None:
        shape = tuple(getattr(bias, "shape", ()))
        raise ProblemError(f"bias has shape {shape}", f"pass {problem.n} values for columns, or {problem.m}x1 for rows")
    if found.dtype != problem.out_dtype:
        raise DTypeError(f"bias is {found.dtype}; it must be {problem.out_dtype}, as the output")
    if found.leading != max(found.cols if not found.transposed else found.rows, 1):
        raise ProblemError("bias is not contiguous", "copy it first")
    return found


def _addend(problem: Problem, c: Any) -> Matrix | None:
    if problem.beta == 0:
        return None
    if c is None:
        raise UsageError(f"beta={problem.beta:g} needs a matrix c", "pass c, or leave beta at 0")
    addend = matrix("c", c)
    if (addend.rows, addend.cols) != problem.c_shape or _matrices(addend) != problem.batch:
        many = f"{addend.batch} of " if addend.batch is not None else ""
        raise ProblemError(f"c is {many}{addend.rows}x{addend.cols}, but the product is {_text(problem)}")
    if addend.dtype != problem.out_dtype:
        raise DTypeError(f"c is {addend.dtype}; it must be {problem.out_dtype}")
    if addend.transposed:
        raise ProblemError("c is stored column by column", "pass a row-major matrix")
    return addend


def _matrices(operand: Matrix) -> int:
    return 1 if operand.batch is None else operand.batch


def _text(problem: Problem) -> str:
    many = f"{problem.batch} of " if problem.batch != 1 else ""
    return f"{many}{problem.m}x{problem.n}"


def _check_operands(operands: list[Matrix]) -> None:
    first = operands[0]
    for other in operands[1:]:
        if other.ordinal != first.ordinal:
            raise DTypeError(
                f"{first.name} is on {_where(first)} and {other.name} on {_where(other)}",
                "move all operands to one device",
            )


def _where(operand: Matrix) -> str:
    return f"GPU {operand.ordinal}" if operand.on_gpu else "the host"


def _check_output(problem: Problem, out: Matrix, a: Matrix, b: Matrix, c: Matrix | None, bias: Matrix | None) -> None:
    if (out.rows, out.cols) != problem.c_shape or _matrices(out) != problem.batch:
        many = f"{out.batch} of " if out.batch is not None else ""
        raise ProblemError(f"out is {many}{out.rows}x{out.cols}, but the product is {_text(problem)}")
    if out.dtype != problem.out_dtype:
        raise DTypeError(f"out is {out.dtype}; the result is {problem.out_dtype}")
    if out.transposed:
        raise ProblemError("out is stored column by column", "pass a row-major matrix")
    if isinstance(out.owner, np.ndarray) and not out.owner.flags.writeable:
        raise ProblemError("out is read-only", "pass a writeable matrix")
    for other in (a, b, c, bias):
        same = other is c and c is not None and _place(c) == _place(out)
        if other is not None and not same and _overlap(out, other):
            raise ProblemError(f"out overlaps {other.name}", "write to a matrix of its own")


def _place(operand: Matrix) -> tuple[int, int, int]:
    return operand.address, operand.leading, operand.stride


def _overlap(x: Matrix, y: Matrix) -> bool:
    if not (x.nbytes and y.nbytes and x.address < y.address + y.nbytes and y.address < x.address + x.nbytes):
        return False
    pitch = x.leading * x.dtype.itemsize
    if pitch != y.leading * y.dtype.itemsize or x.batch is not None or y.batch is not None:
        return True
    # Two slices of one larger matrix: apart if neither's lines reach into the other's.
    shift = (y.address - x.address) % pitch
    return shift < _line_bytes(x) or shift + _line_bytes(y) > pitch


def _line_bytes(operand: Matrix) -> int:
    return (operand.rows if operand.transposed else operand.cols) * operand.dtype.itemsize


def _shape(problem: Problem, ranks: int) -> tuple[int, ...]:
    return problem.c_shape if ranks == 2 else (problem.batch, *problem.c_shape)


def _on_gpu(problem: Problem, spec: KernelSpec, config: Config, a: Matrix, b: Matrix, c: Matrix | None,
            bias: Matrix | None, out: Matrix | None, ranks: int) -> Any:  # fmt: skip
    result = out
    if result is None:
        result = matrix("out", empty_like(a.owner, _shape(problem, ranks), problem.out_dtype))
        problem = replace(problem, ldc=result.leading, stride_c=-1)
    if problem.m == 0 or problem.n == 0 or problem.batch == 0:
        return result.owner
    device = cuda_device(a.ordinal)
    stream = current_stream(a.owner, a.ordinal)
    addresses = Addresses(a.address, b.address, result.address, bias.address if bias else 0)
    with _workspace(device, workspace_bytes(spec, problem, addresses), a, stream) as workspace:
        steps = bind(device, spec, config, problem, addresses, workspace)
        # Nothing is written before all that can be refused has been.
        if c is not None and _place(c) != _place(result):
            _copy(device, problem, c, result, stream)
        for step in steps:
            device.launch(step.loaded, step.launch, stream)
    return result.owner


@contextmanager
def _workspace(device: CudaDevice, nbytes: int, like: Matrix, stream: int) -> Iterator[int]:
    """The address of memory that ``stream`` may use until what is launched inside has ended; 0 where none is needed.

    It comes from the operand's own library where that allocates: its pool gives the memory to later work of the same
    stream only. The driver does the same for others.
    """
    if nbytes == 0:
        yield 0
        return
    try:
        owned = matrix("workspace", empty_like(like.owner, (1, nbytes), INT8))
    except DTypeError:
        address = device.allocate_in_order(nbytes, stream)
        try:
            yield address
        finally:
            device.free_in_order(address, stream)
    else:
        yield owned.address


def _copy(device: CudaDevice, problem: Problem, source: Matrix, target: Matrix, stream: int) -> None:
    """C into the output, where the kernel will read it."""
    size = problem.out_dtype.itemsize
    for i in range(problem.batch):
        device.copy_rows(target.address + i * target.stride * size, target.leading * size,
                         source.address + i * source.stride * size, source.leading * size, problem.n * size,
                         problem.m, stream)  # fmt: skip


def _on_simulator(problem: Problem, spec: KernelSpec, config: Config, a: Matrix, b: Matrix, c: Matrix | None,
                  bias: Matrix | None, out: Matrix | None, ranks: int) -> Any:  # fmt: skip
    """Copies the operands into simulated memory, runs, and copies the result back."""
    shape = _shape(problem, ranks)
    result = out.owner if out is not None else np.empty(shape, problem.out_dtype.numpy)
    problem = problem.with_()  # simulated copies are tight
    if problem.m == 0 or problem.n == 0 or problem.batch == 0:
        return result
    device = SimDevice()
    addresses = [upload(device, operand.owner.swapaxes(-1, -2) if operand.transposed else operand.owner)
                 for operand in (a, b)]  # fmt: skip
    start = c.owner if c is not None else _unset(shape, problem.out_dtype)
    addresses.append(upload(device, start))
    if bias is not None:
        addresses.append(upload(device, bias.owner))
    places = Addresses(*addresses)
    workspace = device.allocate(workspace_bytes(spec, problem, places))
    for step in bind(device, spec, config, problem, places, workspace):
        device.launch(step.loaded, step.launch)
    nbytes = problem.batch * problem.m * problem.n * problem.out_dtype.itemsize
    result[...] = device.read(addresses[2], nbytes).view(problem.out_dtype.numpy).reshape(shape)
    return result


def _unset(shape: tuple[int, ...], dtype: DType) -> np.ndarray[Any, Any]:
    """What C holds where it is not read: NaN, where there is one."""
    return np.zeros(shape, dtype.numpy) if dtype.numpy.kind == "i" else np.full(shape, np.nan, dtype.numpy)
