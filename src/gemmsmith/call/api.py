"""The public functions: one product, or a batch of them, on the device that holds the operands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from gemmsmith.call.cache import CACHE
from gemmsmith.call.first_call import runs_now, waits
from gemmsmith.call.gemm_gpu import launch, launch_cached
from gemmsmith.call.key import call_key, options_key, scalar_key
from gemmsmith.call.plan import Plan
from gemmsmith.call.request import (
    Request,
    addend_operand,
    bias_operand,
    check_bias,
    check_one_device,
    check_output,
)
from gemmsmith.call.sim_executor import SimExecutor
from gemmsmith.choose.choice import Choice, choose
from gemmsmith.choose.determinism import check_deterministic
from gemmsmith.choose.precision import DEFAULT, check_promise, input_dtype
from gemmsmith.errors import ConfigError, DTypeError, ProblemError, UnknownKernelError, UsageError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import Addresses, KernelSpec
from gemmsmith.ladder.registry import check_accepts, rung_named, rungs
from gemmsmith.problem import FP32, DType, Problem, dtype_named
from gemmsmith.run.cuda import cuda_device
from gemmsmith.run.tensors import Matrix, current_stream, dtype_name, matrix


def kernels() -> tuple[KernelSpec, ...]:
    """The rungs of the ladder, in order."""
    return rungs()


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
    """activation(alpha · a · b + beta · c + bias).

    ``a`` and ``b`` are row-major or column-major (transposed views), and may be batches of rank 3; an operand of rank 2
    is used for the whole batch. ``c`` is read only if beta is not 0, and is not changed unless it is also ``out``.
    ``bias`` has one value per column (rank 1, or 1×N) or per row (M×1), in the output's type; ``activation`` is 'relu',
    'gelu' (with erf) or 'silu'. ``dtype='tf32'`` multiplies fp32 operands as TF32. ``out_dtype`` defaults to fp32; fp16
    operands may give fp16, bf16 operands bf16, int8 operands int8 or int32. It is one of these names, or a library's
    own type, such as torch.bfloat16. On a GPU the kernel is launched on the caller's current stream, and the call does
    not wait for it. Returns ``out``, or a new array.

    ``precision`` sets how large errors may be (docs/precision.md). For fp32 operands it is 'ieee' (CUDA cores, every
    accumulation an fma), 'fp32' (the default: as accurate as cuBLAS in fp32, within a margin), 'fp32-fast' (within the
    error bound of fp32 products) or 'tf32'; for narrower operands 'fp32' or 'ieee'. A ``kernel`` that does not
    guarantee it is refused. Repeated calls give the same bits, unless ``deterministic=False`` allows the fastest
    kernel in any order of accumulation.
    """
    options = options_key(alpha, beta, activation, dtype, out_dtype, precision, deterministic, kernel, config)
    key, addresses = call_key((a, b, c, bias, out), options) if options is not None else ((), [])
    if key:
        result = launch_cached(key, addresses, out)
        if result is not None:
            return result
    request = _request(a, b, c, alpha, beta, bias, activation, dtype, out_dtype, kernel, config, out, precision,
                       deterministic, wait=waits())  # fmt: skip
    return launch(request, key) if request.a.on_gpu else SimExecutor(request).again()


def plan(
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
) -> Plan:
    """``gemm`` with the same arguments, prepared: calling the plan computes it, at little cost to the host.

    Choosing, compiling, loading and allocating is done here, and every argument is checked here.
    """
    return Plan(_request(a, b, c, alpha, beta, bias, activation, dtype, out_dtype, kernel, config, out, precision,
                         deterministic, wait=True))  # fmt: skip


def plan_request(a: Matrix, b: Matrix, out: Matrix, precision: str, deterministic: bool) -> Request:
    """The request of a product of operands that are described already, in the type of ``out``."""
    return _request(a, b, None, 1, 0, None, "", "", "", None, None, out, precision, deterministic, wait=True)


def check_options(operands: DType, precision: str, deterministic: bool, dtype: str = "") -> str:
    """The ``dtype`` that the options ask for together; raises where one is none, or does not fit the operands."""
    if not isinstance(deterministic, bool):
        raise UsageError(f"deterministic={deterministic!r} is neither True nor False")
    return input_dtype(precision, dtype, operands)


def _request(a: Any, b: Any, c: Any, alpha: float, beta: float, bias: Any, activation: str, dtype: str,
             out_dtype: Any, kernel: str | KernelSpec | None, config: Mapping[str, int] | Config | None,
             out: Any, precision: str, deterministic: bool, wait: bool) -> Request:  # fmt: skip
    left, right = matrix("a", a), matrix("b", b)
    dtype, out_dtype = check_options(left.dtype, precision, deterministic, dtype), dtype_name(out_dtype)
    target = matrix("out", out) if out is not None else None
    offset = bias_operand(bias)
    key = ("problem", *map(_metadata, (left, right, offset, target)), *scalar_key(alpha), *scalar_key(beta), activation,
           dtype, out_dtype)  # fmt: skip
    problem: Problem | None = CACHE.get(key)
    new = problem is None
    if problem is None:
        problem = _problem(left, right, alpha, beta, dtype, _out_dtype(out_dtype, target), activation)
        if offset is not None:
            check_bias(problem, offset, bias)
            problem = replace(problem, bias="column" if (offset.rows, offset.cols) == (1, problem.n) else "row")
    addend = addend_operand(problem, c)
    check_one_device([m for m in (left, right, addend, offset, target) if m is not None])
    if target is not None:
        check_output(problem, target, left, right, addend, offset)
        if new:
            problem = replace(problem, ldc=target.leading, stride_c=target.stride if problem.batch > 1 else -1)
    if new:
        CACHE.put(key, problem)
    chosen = _chosen(problem, kernel, config, left, right, target, precision, deterministic, wait)
    rank = 3 if left.batch is not None or right.batch is not None else 2
    return Request(problem, chosen.spec, chosen.config, chosen.source, left, right, addend, offset, target, rank)


def _metadata(operand: Matrix | None) -> tuple[object, ...] | None:
    """What a problem depends on."""
    if operand is None:
        return None
    return (operand.rows, operand.cols, operand.leading, operand.transposed, operand.dtype.name, operand.batch,
            operand.stride)  # fmt: skip


def _chosen(problem: Problem, kernel: str | KernelSpec | None, config: Mapping[str, int] | Config | None,
            a: Matrix, b: Matrix, out: Matrix | None, precision: str, deterministic: bool,
            wait: bool) -> Choice:  # fmt: skip
    """The kernel that was given, or the best known one; ``config`` changes the configuration of either."""
    if kernel is not None:
        spec = _spec(kernel)
        check_promise(spec, problem.dtype, precision)
        check_accepts(spec, problem)
        found = Choice(spec, spec.config(_changes(config)), "given")
    else:
        found = _best_known(problem, a, b, out, precision or DEFAULT, deterministic, wait or config is not None)
        check_accepts(found.spec, problem)
        if config is not None:
            changed = found.spec.config(dict(found.config) | _changes(config))
            found = replace(found, config=changed, source="given")
    if deterministic and found.source == "given":  # a choice is deterministic already
        check_deterministic(found.spec, found.config)
    return found


def _best_known(problem: Problem, a: Matrix, b: Matrix, out: Matrix | None, precision: str, deterministic: bool,
                wait: bool) -> Choice:  # fmt: skip
    if not a.on_gpu:
        return choose(problem, precision=precision, deterministic=deterministic)
    device = cuda_device(a.ordinal)
    addresses = (a.address, b.address, out.address if out is not None else 0)  # a new output is aligned
    found = choose(problem, device.name, addresses, sms=device.sms, arch=device.arch, precision=precision,
                   deterministic=deterministic)  # fmt: skip
    if wait:
        return found
    return runs_now(found, problem, device, Addresses(*addresses), deterministic,
                    lambda: device.is_capturing(current_stream(a.owner, a.ordinal)))  # fmt: skip


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
        raise ProblemError(
            f"a is a batch of {a.batch} and b one of {b.batch}", "pass equal batches, or one matrix for all"
        )
    batch = max(sizes, default=1) if 0 not in sizes else 0
    stride_a, stride_b = (-1 if batch <= 1 else m.stride if m.batch == batch else 0 for m in (a, b))
    return Problem(a.rows, b.cols, a.cols, dtype=kind, out_dtype=out_dtype, alpha=alpha, beta=beta, lda=a.leading,
                   ldb=b.leading, trans_a=a.transposed, trans_b=b.transposed, batch=batch, stride_a=stride_a,
                   stride_b=stride_b, activation=activation)  # fmt: skip
