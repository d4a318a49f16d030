"""The public functions: one product, on the device that holds its operands."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gemmsmith.choose.default import choose
from gemmsmith.compile.compiler import compile_kernel
from gemmsmith.errors import ConfigError, DTypeError, ProblemError, UnknownKernelError, UsageError
from gemmsmith.kernels.registry import rung_named, rungs
from gemmsmith.kernels.spec import Config, KernelSpec
from gemmsmith.problem import FP32, Problem
from gemmsmith.run.cuda import cuda_device
from gemmsmith.run.device import Launch
from gemmsmith.run.memory import upload
from gemmsmith.run.tensors import Matrix, current_stream, empty_like, matrix
from gemmsmith.sim.device import SimDevice


def kernels() -> tuple[KernelSpec, ...]:
    """The rungs of the ladder, in order."""
    return rungs()


def matmul(a: Any, b: Any) -> Any:
    """The matrix product of ``a`` and ``b``: NumPy arrays on the simulator, GPU tensors on their GPU.

    The result is fp32, of the operands' library and on their device.
    """
    return gemm(a, b)


def gemm(
    a: Any,
    b: Any,
    c: Any = None,
    *,
    alpha: float = 1,
    beta: float = 0,
    kernel: str | KernelSpec | None = None,
    config: Mapping[str, int] | Config | None = None,
    out: Any = None,
) -> Any:
    """alpha · a · b + beta · c.

    ``a`` and ``b`` may be stored row by row or column by column (a transposed view). ``c`` is read only if
    beta is not 0 and is not changed, unless it is also ``out``. On a GPU the kernel is launched on the
    caller's current stream and not waited for. Returns ``out``, or a new matrix.
    """
    left, right = matrix("a", a), matrix("b", b)
    problem = _problem(left, right, alpha, beta)
    addend = _addend(problem, c)
    target = matrix("out", out) if out is not None else None
    _check_operands([m for m in (left, right, addend, target) if m is not None])
    if target is not None:
        _check_output(problem, target, left, right, addend)
        problem = problem.with_(lda=problem.lda, ldb=problem.ldb, ldc=target.leading)
    spec = choose(problem) if kernel is None else _spec(kernel)
    spec.accepts(problem)
    chosen = spec.config(_changes(config))
    if left.on_gpu:
        return _on_gpu(problem, spec, chosen, left, right, addend, target)
    return _on_simulator(problem, spec, chosen, left, right, addend, target)


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


def _problem(a: Matrix, b: Matrix, alpha: float, beta: float) -> Problem:
    if a.cols != b.rows:
        raise ProblemError(
            f"a is {a.rows}x{a.cols} and b is {b.rows}x{b.cols}: the inner extents {a.cols} and {b.rows} differ"
        )
    if a.dtype != b.dtype:
        raise DTypeError(f"a is {a.dtype} and b is {b.dtype}", "convert one of them")
    return Problem(a.rows, b.cols, a.cols, dtype=a.dtype, alpha=alpha, beta=beta, lda=a.leading, ldb=b.leading,
                   trans_a=a.transposed, trans_b=b.transposed)  # fmt: skip


def _addend(problem: Problem, c: Any) -> Matrix | None:
    if problem.beta == 0:
        return None
    if c is None:
        raise UsageError(f"beta={problem.beta:g} needs a matrix c", "pass c, or leave beta at 0")
    addend = matrix("c", c)
    if (addend.rows, addend.cols) != problem.c_shape:
        raise ProblemError(f"c is {addend.rows}x{addend.cols}, but the product is {problem.m}x{problem.n}")
    if addend.dtype != FP32:
        raise DTypeError(f"c is {addend.dtype}; it must be fp32")
    if addend.transposed:
        raise ProblemError("c is stored column by column", "pass a row-major matrix")
    return addend


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


def _check_output(problem: Problem, out: Matrix, a: Matrix, b: Matrix, c: Matrix | None) -> None:
    if (out.rows, out.cols) != problem.c_shape:
        raise ProblemError(f"out is {out.rows}x{out.cols}, but the product is {problem.m}x{problem.n}")
    if out.dtype != FP32:
        raise DTypeError(f"out is {out.dtype}; the rungs write fp32")
    if out.transposed:
        raise ProblemError("out is stored column by column", "pass a row-major matrix")
    if isinstance(out.owner, np.ndarray) and not out.owner.flags.writeable:
        raise ProblemError("out is read-only", "pass a writeable matrix")
    for other in (a, b, c):
        same = other is c and c is not None and (c.address, c.leading) == (out.address, out.leading)
        if other is not None and not same and _overlap(out, other):
            raise ProblemError(f"out overlaps {other.name}", "write to a matrix of its own")


def _overlap(x: Matrix, y: Matrix) -> bool:
    if not (x.nbytes and y.nbytes and x.address < y.address + y.nbytes and y.address < x.address + x.nbytes):
        return False
    pitch = x.leading * x.dtype.itemsize
    if pitch != y.leading * y.dtype.itemsize:
        return True
    # Two slices of one larger matrix: apart if neither's lines reach into the other's.
    shift = (y.address - x.address) % pitch
    return shift < _line_bytes(x) or shift + _line_bytes(y) > pitch


def _line_bytes(operand: Matrix) -> int:
    return (operand.rows if operand.transposed else operand.cols) * operand.dtype.itemsize


def _on_gpu(problem: Problem, spec: KernelSpec, config: Config, a: Matrix, b: Matrix, c: Matrix | None,
            out: Matrix | None) -> Any:  # fmt: skip
    result = out if out is not None else matrix("out", empty_like(a.owner, problem.m, problem.n))
    problem = problem.with_(lda=problem.lda, ldb=problem.ldb, ldc=result.leading)
    if problem.m == 0 or problem.n == 0:
        return result.owner
    device = cuda_device(a.ordinal)
    stream = current_stream(a.owner, a.ordinal)
    compiled = compile_kernel(spec, config, dtype=problem.dtype, trans_a=problem.trans_a, trans_b=problem.trans_b,
                              arch=device.arch)  # fmt: skip
    loaded = device.load(compiled)
    arguments = spec.signature.pack(problem, a.address, b.address, result.address)
    # Nothing is written before all that can be refused has been.
    if c is not None and (c.address, c.leading) != (result.address, result.leading):
        device.copy_rows(result.address, result.leading * 4, c.address, c.leading * 4, problem.n * 4, problem.m, stream)
    device.launch(loaded, Launch(spec.geometry(problem, config), arguments), stream)
    return result.owner


def _on_simulator(problem: Problem, spec: KernelSpec, config: Config, a: Matrix, b: Matrix, c: Matrix | None,
                  out: Matrix | None) -> Any:  # fmt: skip
    """Copies the operands into simulated memory, runs, and copies the result back."""
    result = out.owner if out is not None else np.empty(problem.c_shape, np.float32)
    problem = problem.with_()  # simulated copies are tight
    if problem.m == 0 or problem.n == 0:
        return result
    device = SimDevice()
    addresses = []
    for operand in (a, b):
        stored = operand.owner.T if operand.transposed else operand.owner
        addresses.append(upload(device, stored))
    start = c.owner if c is not None else np.full(problem.c_shape, np.nan, np.float32)
    addresses.append(upload(device, start))
    compiled = compile_kernel(spec, config, dtype=problem.dtype, trans_a=problem.trans_a, trans_b=problem.trans_b,
                              arch=device.arch)  # fmt: skip
    arguments = spec.signature.pack(problem, *addresses)
    device.launch(device.load(compiled), Launch(spec.geometry(problem, config), arguments))
    nbytes = problem.m * problem.n * 4
    result[...] = device.read(addresses[2], nbytes).view(np.float32).reshape(problem.c_shape)
    return result
