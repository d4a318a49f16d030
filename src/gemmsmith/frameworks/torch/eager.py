"""Products of eager mode with gradients: autograd functions over the operators' kernels.

They cost the host a fraction of what an operator with Python gradients does. A gradient is computed by the same
functions, so that it can be differentiated again.
"""

from __future__ import annotations

from functools import partial
from inspect import getattr_static
from threading import get_ident
from typing import Any

import torch
from torch import Tensor

from gemmsmith.call.gemm_gpu import CachedCall
from gemmsmith.errors import LaunchError
from gemmsmith.frameworks.torch import fast, kernels
from gemmsmith.frameworks.torch.composed import composed
from gemmsmith.frameworks.torch.gradients import linear_gradients, product_gradients
from gemmsmith.frameworks.torch.ops import gemm_gradients

Options = tuple[Any, ...]
"""out_dtype, precision, deterministic, device: the last arguments of every operator."""
DEFAULT: Options = (None, "", True, "")
_Function: Any = torch.autograd.Function
_dispatch_modes, _transforms = torch._C._len_torch_dispatch_stack, torch._C._functorch.peek_interpreter_stack
_is_batched_gradient: Any = getattr(torch._C._functorch, "is_legacy_batchedtensor", lambda _value: False)


def mm(a: Tensor, b: Tensor, *options: Any) -> Tensor:
    if _needs_operator(a, b):
        found: Tensor = torch.ops.gemmsmith.mm(a, b, *options)
        return found
    if torch.is_grad_enabled() and (a.requires_grad or b.requires_grad):
        return _apply_mm(a, b, options)
    return kernels.mm(a, b, *options)


def bmm(a: Tensor, b: Tensor, *options: Any) -> Tensor:
    if _needs_operator(a, b):
        found: Tensor = torch.ops.gemmsmith.bmm(a, b, *options)
        return found
    if torch.is_grad_enabled() and (a.requires_grad or b.requires_grad):
        return _apply_bmm(a, b, options)
    return kernels.bmm(a, b, *options)


def _needs_operator(a: Tensor, b: Tensor) -> bool:
    """Whether a gradient is computed inside a mode or a transform that began after its product: a counter of flops,
    ``vmap``, or ``autograd.grad`` with batched gradients, which has a vmap of its own."""
    return (
        _dispatch_modes() != 0
        or _transforms() is not None
        or _is_batched_gradient(a)
        or _is_batched_gradient(b)
    )  # fmt: skip


def linear(x: Tensor, weight: Tensor, bias: Tensor | None, *options: Any) -> Tensor:
    if torch.is_grad_enabled() and (
        x.requires_grad or weight.requires_grad or (bias is not None and bias.requires_grad)
    ):
        return _apply_linear(x, weight, bias, options)
    return kernels.linear(x, weight, bias, *options)


def addmm(addend: Tensor, a: Tensor, b: Tensor, beta: Any, alpha: Any, *options: Any) -> Tensor:
    """The operator: a program adds more to a product than gradients cost the host."""
    return torch.ops.gemmsmith.addmm(addend, a, b, beta, alpha, *options)


def gemm(a: Tensor, b: Tensor, c: Tensor | None, alpha: Any, beta: Any, bias: Tensor | None, activation: str,
         *options: Any) -> Tensor:  # fmt: skip
    return _apply_gemm(a, b, c, alpha, beta, bias, activation, options)


def recorded_product(options: Options, call: CachedCall) -> fast.Recorded:
    """What computes a product that fast.py found, with its gradients, from the operands and ``call``."""
    if len(call.shape) == 2:
        return _apply_default_mm if options == DEFAULT else partial(_with_options, _apply_found_mm, options)
    return partial(_composed, options)


def recorded_linear(options: Options) -> fast.Recorded:
    """The same for a linear layer, from x, weight, bias and ``call``."""
    return _apply_default_linear if options == DEFAULT else partial(_with_options, _apply_found_linear, options)


def _with_options(apply: Any, options: Options, *given: Any) -> Tensor:
    found: Tensor = apply(*given, options)
    return found


def _composed(options: Options, a: Tensor, b: Tensor, _call: CachedCall) -> Tensor:
    return composed(a, b, lambda x, y: mm(x, y, *options), lambda x, y: bmm(x, y, *options))


class _Mm(_Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, options: Options) -> Tensor:
        ctx.save_for_backward(a, b)
        ctx.options = options
        return kernels.mm(a, b, *options)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        a, b = ctx.saved_tensors
        later = _later(ctx)
        return (*product_gradients(grad, a, b, ctx.needs_input_grad[:2], lambda x, y: mm(x, y, *later)), None, None)


class _Bmm(_Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, options: Options) -> Tensor:
        ctx.save_for_backward(a, b)
        ctx.options = options
        return kernels.bmm(a, b, *options)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        a, b = ctx.saved_tensors
        later = (None, *ctx.options[1:])
        return (*product_gradients(grad, a, b, ctx.needs_input_grad[:2], lambda x, y: bmm(x, y, *later)), None)


class _Linear(_Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, options: Options) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.options = options
        return kernels.linear(x, weight, bias, *options)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        x, weight = ctx.saved_tensors
        later = _later(ctx)
        found = linear_gradients(grad, x, weight, ctx.needs_input_grad[:3], lambda p, q: mm(p, q, *later))
        return (*found, None, None)


class _Gemm(_Function):  # type: ignore[misc]
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, c: Tensor | None, alpha: Any, beta: Any, bias: Tensor | None,
                activation: str, options: Options) -> Tensor:  # fmt: skip
        result = kernels.gemm(a, b, c, alpha, beta, bias, activation, *options)
        ctx.save_for_backward(a, b, c, bias, result if activation == "relu" else None)
        ctx.alpha, ctx.beta, ctx.activation, ctx.options = alpha, beta, activation, options
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Any:
        later = (None, *ctx.options[1:])

        def matmul(x: Tensor, y: Tensor) -> Tensor:
            return composed(x, y, lambda p, q: mm(p, q, *later), lambda p, q: bmm(p, q, *later))

        by_a, by_b, by_c, by_bias = gemm_gradients(ctx, grad, matmul, lambda *given: gemm(*given, *later[1:]))
        return by_a, by_b, by_c, None, None, by_bias, None, None


def _later(ctx: Any) -> Options:
    """The options of gradients, in their operands' type; calls with default options leave none."""
    return (None, *getattr(ctx, "options", DEFAULT)[1:])


def _default_mm(ctx: Any, a: Tensor, b: Tensor, call: CachedCall) -> Tensor:
    """``fast.run``, and in the usual case its lines: one call less."""
    ctx.to_save = (a, b)
    start = call.armed.get(get_ident())
    if start is None or call.new_workspace is not None:
        return fast.run(call, a.data_ptr(), b.data_ptr())
    out: Tensor = call.new_output()
    try:
        start(a.data_ptr(), b.data_ptr(), out.data_ptr(), 0, 0, call.stream())
    except LaunchError:  # this thread has not used the GPU yet
        return fast.run(call, a.data_ptr(), b.data_ptr())
    return out


def _default_linear(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, call: CachedCall) -> Tensor:
    ctx.to_save = (x, weight)
    return fast.run(call, x.data_ptr(), weight.data_ptr(), 0 if bias is None else bias.data_ptr())


def _found_mm(ctx: Any, a: Tensor, b: Tensor, call: CachedCall, options: Options) -> Tensor:
    ctx.options = options
    return _default_mm(ctx, a, b, call)


def _found_linear(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, call: CachedCall,
                  options: Options) -> Tensor:  # fmt: skip
    ctx.options = options
    return _default_linear(ctx, x, weight, bias, call)


def _light(kind: Any, forward: Any) -> Any:
    """``apply`` of a function with another ``forward``, at less cost to the host.

    torch asks the class for several attributes at every call, by names that Python does not cache. In a class of one
    base and one metaclass they are found at once. The node in the graph is that of ``kind``.
    """
    base: Any = torch._C._FunctionBase
    known = set(dir(base))
    names = (name for name in dir(kind) if not name.startswith("__") and name not in known)
    members = {name: getattr_static(kind, name) for name in names}
    found: Any = type(kind.__name__, (base,), {**members, "forward": staticmethod(forward), "__slots__": ()})
    return found.apply


# Function.apply first looks for functorch transforms and dead wrappers, which products.py has done already.
_apply_mm, _apply_bmm, _apply_linear, _apply_gemm = (
    super(_Function, each).apply for each in (_Mm, _Bmm, _Linear, _Gemm)
)
_apply_found_mm, _apply_found_linear = _light(_Mm, _found_mm), _light(_Linear, _found_linear)
_apply_default_mm, _apply_default_linear = _light(_Mm, _default_mm), _light(_Linear, _default_linear)
