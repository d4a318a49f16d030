"""``torch.ops.gemmsmith``: mm, bmm, addmm, linear and gemm as operators of torch.

Each has kernels for GPUs and (on the simulator, where it is asked for) the CPU, a fake kernel for tracing, gradients,
and rules for autocast (autocast.py) and vmap (batching.py). While a graph is traced or a mode is active, gemmsmith
calls these; in plain eager mode it calls the same kernels directly (products.py), which costs the host less.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from gemmsmith.frameworks.torch.gradients import (
    before_activation,
    linear_gradients,
    product_gradients,
    reduced,
)
from gemmsmith.frameworks.torch.kernels import addmm, bmm, gemm, linear, mm
from gemmsmith.frameworks.torch.types import result_type

NAMESPACE = "gemmsmith"
_OPTIONS = 'ScalarType? out_dtype=None, str precision="", bool deterministic=True, str device=""'
SCHEMAS = {
    "mm": f"mm(Tensor a, Tensor b, {_OPTIONS}) -> Tensor",
    "bmm": f"bmm(Tensor a, Tensor b, {_OPTIONS}) -> Tensor",
    "addmm": f"addmm(Tensor input, Tensor a, Tensor b, Scalar beta=1, Scalar alpha=1, {_OPTIONS}) -> Tensor",
    "linear": f"linear(Tensor input, Tensor weight, Tensor? bias=None, {_OPTIONS}) -> Tensor",
    "gemm": f'gemm(Tensor a, Tensor b, Tensor? c=None, Scalar alpha=1, Scalar beta=0, Tensor? bias=None, '
            f'str activation="", {_OPTIONS}) -> Tensor',
}  # fmt: skip
KERNELS = {"mm": mm, "bmm": bmm, "addmm": addmm, "linear": linear, "gemm": gemm}


def define(library: torch.library.Library) -> None:
    """Schemas, kernels, fake kernels and gradients. torch itself adds the rest of an operator's tables."""
    # Kernels choose by strides, so the compiler must not change them; before torch 2.7 it keeps their order.
    exact = getattr(torch.Tag, "needs_exact_strides", torch.Tag.needs_fixed_stride_order)
    for name, schema in SCHEMAS.items():
        library.define(schema, tags=(torch.Tag.pt2_compliant_tag, exact))
        for key in ("CUDA", "CPU"):
            library.impl(name, KERNELS[name], key)
        qualified = f"{NAMESPACE}::{name}"
        torch.library.register_fake(qualified, FAKES[name], lib=library)
        backward, setup = GRADIENTS[name]
        torch.library.register_autograd(qualified, backward, setup_context=setup, lib=library)


# --- fake kernels: shape and type of the result


def _fake_mm(a: Tensor, b: Tensor, out_dtype: torch.dtype | None = None, *_options: Any) -> Tensor:
    torch._check(a.dim() == 2 and b.dim() == 2, lambda: "mm takes matrices")
    _check_depth(a, b)
    return a.new_empty((a.shape[0], b.shape[1]), dtype=result_type(a.dtype, out_dtype))


def _fake_bmm(a: Tensor, b: Tensor, out_dtype: torch.dtype | None = None, *_options: Any) -> Tensor:
    torch._check(a.dim() == 3 and b.dim() == 3, lambda: "bmm takes batches of rank 3")
    torch._check(a.shape[0] == b.shape[0], lambda: "the batches differ")
    _check_depth(a, b)
    return a.new_empty((a.shape[0], a.shape[1], b.shape[2]), dtype=result_type(a.dtype, out_dtype))


def _fake_addmm(input: Tensor, a: Tensor, b: Tensor, beta: Any = 1, alpha: Any = 1,  # noqa: A002
                out_dtype: torch.dtype | None = None, *_options: Any) -> Tensor:  # fmt: skip
    del input, beta, alpha
    return _fake_mm(a, b, out_dtype)


def _fake_linear(input: Tensor, weight: Tensor, bias: Tensor | None = None,  # noqa: A002
                 out_dtype: torch.dtype | None = None, *_options: Any) -> Tensor:  # fmt: skip
    del bias
    torch._check(weight.dim() == 2, lambda: "the weight of linear is a matrix")
    torch._check(input.shape[-1] == weight.shape[1], lambda: "the inner extents differ")
    return input.new_empty((*input.shape[:-1], weight.shape[0]), dtype=result_type(input.dtype, out_dtype))


def _fake_gemm(a: Tensor, b: Tensor, c: Tensor | None = None, alpha: Any = 1, beta: Any = 0,
               bias: Tensor | None = None, activation: str = "", out_dtype: torch.dtype | None = None,
               *_options: Any) -> Tensor:  # fmt: skip
    del c, alpha, beta, bias, activation
    _check_depth(a, b)
    batch = (a if a.dim() == 3 else b).shape[:-2]
    return a.new_empty((*batch, a.shape[-2], b.shape[-1]), dtype=out_dtype or torch.float32)


def _check_depth(a: Tensor, b: Tensor) -> None:
    torch._check(a.dtype == b.dtype, lambda: f"a is {a.dtype} and b is {b.dtype}")
    torch._check(a.shape[-1] == b.shape[-2], lambda: f"the inner extents {a.shape[-1]} and {b.shape[-2]} differ")


FAKES = {"mm": _fake_mm, "bmm": _fake_bmm, "addmm": _fake_addmm, "linear": _fake_linear, "gemm": _fake_gemm}


# --- gradients


def _keep_two(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    del output
    a, b, _, *options = inputs
    ctx.save_for_backward(a, b)
    ctx.options = options


def _needs(ctx: Any, count: int) -> tuple[bool, ...]:
    """Which of the first inputs need a gradient; torch leaves out arguments that have their default."""
    return (*ctx.needs_input_grad, *[False] * count)[:count]


def _mm_backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    a, b = ctx.saved_tensors
    op = torch.ops.gemmsmith.mm
    pair = product_gradients(grad, a, b, _needs(ctx, 2), lambda x, y: op(x, y, None, *ctx.options))
    return (*pair, None, None, None, None)


def _bmm_backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    a, b = ctx.saved_tensors
    op = torch.ops.gemmsmith.bmm
    pair = product_gradients(grad, a, b, _needs(ctx, 2), lambda x, y: op(x, y, None, *ctx.options))
    return (*pair, None, None, None, None)


def _keep_addmm(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    del output
    addend, a, b, ctx.beta, ctx.alpha, _, *ctx.options = inputs
    ctx.addend_shape, ctx.addend_type = addend.shape, addend.dtype
    ctx.save_for_backward(a, b)


def _addmm_backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    a, b = ctx.saved_tensors
    op = torch.ops.gemmsmith.mm
    addend = None
    if ctx.needs_input_grad[0]:
        addend = reduced(grad if ctx.beta == 1 else grad * ctx.beta, ctx.addend_shape).to(ctx.addend_type)
    scaled = grad if ctx.alpha == 1 else grad * ctx.alpha
    pair = product_gradients(scaled, a, b, _needs(ctx, 3)[1:], lambda x, y: op(x, y, None, *ctx.options))
    return (addend, *pair, None, None, None, None, None, None)


def _keep_linear(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    del output
    x, weight, _, _, *ctx.options = inputs
    ctx.save_for_backward(x, weight)


def _linear_backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    x, weight = ctx.saved_tensors
    op = torch.ops.gemmsmith.mm
    found = linear_gradients(grad, x, weight, _needs(ctx, 3), lambda p, q: op(p, q, None, *ctx.options))
    return (*found, None, None, None, None)


def _keep_gemm(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    a, b, c, ctx.alpha, ctx.beta, bias, ctx.activation, _, *ctx.options = inputs
    ctx.save_for_backward(a, b, c, bias, output if ctx.activation == "relu" else None)


def gemm_gradients(ctx: Any, grad: Tensor, matmul: Any, again: Any) -> tuple[Any, ...]:
    """Of act(alpha · a · b + beta · c + bias), for a, b, c and bias; ``again`` computes it without the activation."""
    a, b, c, bias, result = ctx.saved_tensors
    needs = _needs(ctx, 6)
    grad = before_activation(grad, ctx.activation, result,
                             lambda: again(a, b, c, ctx.alpha, ctx.beta, bias, "", torch.float32))  # fmt: skip
    by_c = (grad * ctx.beta).to(c.dtype) if needs[2] and c is not None else None
    by_bias = None
    if needs[5] and bias is not None:
        whole = grad.reshape(-1, *grad.shape[-2:]).sum(0)
        by_bias = (whole.sum(0) if bias.dim() == 1 else reduced(whole, bias.shape)).reshape(bias.shape).to(bias.dtype)
    scaled = (grad if ctx.alpha == 1 else grad * ctx.alpha).to(a.dtype)
    by_a = reduced(matmul(scaled, b.mT), a.shape) if needs[0] else None
    by_b = reduced(matmul(a.mT, scaled), b.shape) if needs[1] else None
    return by_a, by_b, by_c, by_bias


def _gemm_backward(ctx: Any, grad: Tensor) -> tuple[Any, ...]:
    from gemmsmith.frameworks.torch.composed import composed

    ops, options = torch.ops.gemmsmith, ctx.options

    def matmul(x: Tensor, y: Tensor) -> Tensor:
        return composed(x, y, lambda p, q: ops.mm(p, q, None, *options), lambda p, q: ops.bmm(p, q, None, *options))

    by_a, by_b, by_c, by_bias = gemm_gradients(ctx, grad, matmul, lambda *given: ops.gemm(*given, *options))
    return by_a, by_b, by_c, None, None, by_bias, None, None, None, None, None


GRADIENTS = {"mm": (_mm_backward, _keep_two), "bmm": (_bmm_backward, _keep_two),
             "addmm": (_addmm_backward, _keep_addmm), "linear": (_linear_backward, _keep_linear),
             "gemm": (_gemm_backward, _keep_gemm)}  # fmt: skip
