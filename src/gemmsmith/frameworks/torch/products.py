"""torch's conventions: ``torch.matmul``, ``torch.nn.functional.linear`` and ``gemm``, on our kernels.

What is active, and what was computed before, decides who computes:

    compiling, tracing, a mode           ─► torch.ops.gemmsmith (ops.py)
    vmap, torch.func, forward AD         ─► autograd functions over them (transforms.py)
    computed before                      ─► fast.py, by a hint or a key
    else, with and without gradients     ─► eager.py, kernels.py
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from gemmsmith.call.api import gemm as plain_gemm
from gemmsmith.call.key import call_key, options_key
from gemmsmith.errors import DTypeError, TensorShapeError, TensorTypeError
from gemmsmith.frameworks.torch import eager, fast, transforms
from gemmsmith.frameworks.torch.autocast import cast
from gemmsmith.frameworks.torch.composed import check_shapes, composed
from gemmsmith.frameworks.torch.fast import LOW
from gemmsmith.frameworks.torch.launch import product
from gemmsmith.frameworks.torch.types import PLAIN, check_dense, check_operands, result_type

# Export without dynamo traces with tensors of its own, which no hint fits: asking for dynamo alone costs half as much.
_is_compiling, _is_traced = torch.compiler.is_compiling, torch.compiler.is_dynamo_compiling
_dispatch_modes, _transforms = torch._C._len_torch_dispatch_stack, torch._C._functorch.peek_interpreter_stack
_autocast: Any = getattr(torch._C, "_is_any_autocast_enabled", torch.is_autocast_enabled)
_tracing, _grad_enabled = torch._C._get_tracing_state, torch.is_grad_enabled
_FUNCTIONALIZE = torch._C._functorch.TransformType.Functionalize
_Parameter = torch.nn.Parameter
_PLAIN_PAIRS = frozenset((x, y) for x in PLAIN for y in PLAIN)
_hints, _run = fast.hints, fast.run


def matmul(a: Any, b: Any, out: Any, out_dtype: Any, precision: str, deterministic: bool, device: str) -> Any:
    """``torch.matmul``."""
    if _is_traced():
        return _by_operators(a, b, _options(a, out_dtype, precision, deterministic, device))
    name: Any = id(b) if _grad_enabled() else ~id(b)
    if out_dtype is not None or deterministic is not True or precision or device:
        name = name, out_dtype, precision, deterministic, device
    if out is None and forward_ad._current_level < 0:
        try:
            for hint in _hints(name):
                if not (a.is_nested or b.is_nested) and hint.check(a, b):
                    first, second = a.data_ptr(), b.data_ptr()
                    if first & LOW == hint.a_low and second & LOW == hint.b_low:
                        if hint.recorded is None:
                            return _run(hint.call, first, second)
                        return hint.recorded(a, b, hint.call)
        except (AttributeError, TypeError):  # no tensors, or options without a hash: said below
            pass
    options = (out_dtype, precision, deterministic, device)
    given: tuple[Any, ...] = ()
    if _autocast():
        name, given = (_autocast_type(b), name), (a, b)
        again = None if out is not None else _again_in_autocast(name, given)
        if again is not None:
            return again
        a, b = cast(a), cast(b)
    kinds = type(a), type(b)
    if out is not None or kinds not in _PLAIN_PAIRS or _any_mode():
        return _other_matmul(a, b, out, out_dtype, precision, deterministic, device)
    a, b = resolved(a), resolved(b)
    try:
        key = fast.product_key(a, b, options)
    except RuntimeError:  # a layout without strides or memory
        return _other_matmul(a, b, out, out_dtype, precision, deterministic, device)
    call = fast.found(key)
    if call is not None:
        recorded = eager.recorded_product(options, call) if _records(a, b) else None
        fast.remember(name, call, recorded, a, b, given=given)
        return _run(call, a.data_ptr(), b.data_ptr()) if recorded is None else recorded(a, b, call)
    result = _other_matmul(a, b, None, out_dtype, precision, deterministic, device)
    fast.keep(key, a, b, options, None, result)
    return result


def _autocast_type(value: Any) -> torch.dtype | None:
    return torch.get_autocast_dtype(value.device.type) if isinstance(value, Tensor) else None


def _again_in_autocast(name: Any, given: tuple[Any, ...], no_bias: tuple[None, ...] = ()) -> Tensor | None:
    """What was computed before for operands that autocast converts, by a hint; None if there is none. The name begins
    with the type that they are converted to."""
    if forward_ad._current_level >= 0:
        return None
    kind = name[0]
    try:
        fitting = [hint for hint in _hints(name) if not any(each.is_nested for each in given) and hint.check(*given)]
        if not fitting:
            return None
        operands = [each if each.dtype is kind else each.to(kind) for each in given]
        at = [each.data_ptr() for each in operands]
        first, second, third = at[0] & LOW, at[1] & LOW, at[2] & LOW if len(at) == 3 else 0
        for hint in fitting:
            if first == hint.a_low and second == hint.b_low and third == hint.other_low:
                return _run(hint.call, *at) if hint.recorded is None else hint.recorded(*operands, *no_bias, hint.call)
    except (AttributeError, TypeError):  # no tensors, or options without a hash
        pass
    return None


def _other_matmul(a: Any, b: Any, out: Any, out_dtype: Any, precision: str, deterministic: bool, device: str) -> Any:
    """The same for what was not computed before, and for everything special."""
    check_operands("torch.matmul", a, b)
    if out is not None:
        return _into(out, a, b, out_dtype, precision, deterministic, device)
    options = _options(a, out_dtype, precision, deterministic, device)
    if special_mode(a, b):
        home = transforms if _transformed() else torch.ops.gemmsmith
        return composed(a, b, lambda x, y: home.mm(x, y, *options), lambda x, y: home.bmm(x, y, *options))
    if a.dim() == 2 and b.dim() == 2:
        check_shapes(a, b)
        return eager.mm(a, b, *options)
    return composed(a, b, lambda x, y: eager.mm(x, y, *options), lambda x, y: eager.bmm(x, y, *options))


def linear(x: Tensor, weight: Tensor, bias: Tensor | None = None, *, out_dtype: Any = None, precision: str = "",
           deterministic: bool = True, device: str = "") -> Tensor:  # fmt: skip
    """``torch.nn.functional.linear``: x · weightᵀ + bias, on our kernels, with gradients.

    The arguments after ``bias`` are those of ``gemmsmith.matmul``.
    """
    if _is_traced():
        if weight.dim() == 1:
            return _one_output(x, weight, bias, (out_dtype, precision, deterministic, device))
        apart, bias = (bias, None) if _is_broadcast(bias, weight) else (None, bias)
        found: Tensor = torch.ops.gemmsmith.linear(x, weight, bias, *_options(x, out_dtype, precision, deterministic,
                                                                              device))  # fmt: skip
        return found if apart is None else _plus(found, apart)
    options = (out_dtype, precision, deterministic, device)
    name: tuple[Any, ...] = "linear", id(weight), _grad_enabled(), options
    if forward_ad._current_level < 0:
        try:
            for hint in _hints(name):
                if x.is_nested or weight.is_nested or (bias is not None and bias.is_nested):
                    break
                if hint.check(x, weight) if bias is None else hint.check(x, weight, bias):
                    first, second, third = x.data_ptr(), weight.data_ptr(), 0 if bias is None else bias.data_ptr()
                    if first & LOW == hint.a_low and second & LOW == hint.b_low and third & LOW == hint.other_low:
                        if hint.recorded is None:
                            return _run(hint.call, first, second, third)
                        return hint.recorded(x, weight, bias, hint.call)
        except (AttributeError, TypeError):
            pass
    if isinstance(weight, Tensor) and weight.dim() == 1:
        return _one_output(x, weight, bias, options)
    before: tuple[Any, ...] = ()
    if _autocast():
        name = _autocast_type(weight), *name
        before = (x, weight) if bias is None else (x, weight, bias)
        again = _again_in_autocast(name, before, () if bias is not None else (None,))
        if again is not None:
            return again
        x, weight, bias = cast(x), cast(weight), cast(bias)
    if _is_broadcast(bias, weight):
        return _plus(linear(x, weight, None, out_dtype=out_dtype, precision=precision, deterministic=deterministic,
                            device=device), bias)  # fmt: skip
    kinds = type(x), type(weight)
    if kinds not in _PLAIN_PAIRS or (bias is not None and type(bias) not in PLAIN) or _any_mode():
        return _other_linear(x, weight, bias, _options(x, out_dtype, precision, deterministic, device))
    x, weight, bias = resolved(x), resolved(weight), bias if bias is None else resolved(bias)
    given = (x, weight) if bias is None else (x, weight, bias)
    try:
        key = fast.linear_key(x, weight, bias, options)
    except RuntimeError:
        return _other_linear(x, weight, bias, _options(x, out_dtype, precision, deterministic, device))
    call = fast.found(key)
    if call is not None:
        recorded = eager.recorded_linear(options) if _records(*given) else None
        fast.remember(name, call, recorded, *given, given=before)
        if recorded is not None:
            return recorded(x, weight, bias, call)
        return _run(call, *(each.data_ptr() for each in given))
    result = _other_linear(x, weight, bias, _options(x, out_dtype, precision, deterministic, device))
    fast.keep(key, x, weight.mT, options, bias, result)
    return result


def _one_output(x: Tensor, weight: Tensor, bias: Tensor | None, options: tuple[Any, ...]) -> Tensor:
    """A linear layer whose weight is a vector: its output has no dimension of its own."""
    found: Tensor = matmul(x, weight, None, *options)
    return found if bias is None else _plus(found, bias)


def _is_broadcast(bias: Any, weight: Any) -> bool:
    """Whether a bias has another shape than one value per column: torch takes whatever fits the result."""
    both = isinstance(bias, Tensor) and isinstance(weight, Tensor) and weight.dim() == 2
    # A statement, not bool(…): while torch 2.6 traces dynamic shapes the comparison is a symbol.
    return False if not both or (bias.dim() == 1 and bias.shape[0] == weight.shape[0]) else True  # noqa: SIM211


def _plus(result: Tensor, bias: Tensor | None) -> Tensor:
    """The sum, in the shape and type of ``result``."""
    assert bias is not None
    try:
        return result + bias.to(result.dtype).expand(result.shape)
    except RuntimeError:
        raise TensorShapeError(f"bias has shape {tuple(bias.shape)}, and the result {tuple(result.shape)}") from None


def _other_linear(x: Tensor, weight: Tensor, bias: Tensor | None, options: tuple[Any, ...]) -> Tensor:
    if special_mode(x, weight, *(() if bias is None else (bias,))):
        home = transforms if _transformed() else torch.ops.gemmsmith
        return home.linear(x, weight, bias, *options)
    return eager.linear(x, weight, bias, *options)


def gemm(a: Any, b: Any, c: Any, alpha: float, beta: float, bias: Any, activation: str, dtype: str, out_dtype: Any,
         kernel: Any, config: Any, out: Any, precision: str, deterministic: bool) -> Any:  # fmt: skip
    """``gemmsmith.gemm`` of tensors that need more than a launch: gradients, or an operator."""
    for name, value in (("kernel", kernel), ("config", config), ("out", out), ("dtype", dtype or None)):
        if value is not None:
            raise DTypeError(f"a, b, c or bias requires grad or is traced, and gemm with {name}= does not record "
                             "gradients", f"pass it detached, or leave out {name}")  # fmt: skip
    check_operands("torch.matmul", a, b)
    if not _is_compiling():
        a, b, c, bias = (each if each is None else resolved(each) for each in (a, b, c, bias))
    given = (a, b, *(() if c is None else (c,)))
    kind = torch.float32 if out_dtype in (None, "") else result_type(a.dtype, out_dtype)
    options = (kind, precision, deterministic, "")
    of_two = c is None and bias is None and not activation and alpha == 1 and a.dim() == 2 and b.dim() == 2
    if of_two and kind is not torch.int8 and not _is_compiling() and not _autocast():
        result = matmul(a, b, None, kind, precision, deterministic, "")
        if (type(a), type(b)) in _PLAIN_PAIRS and not _any_mode():
            found = fast.found(fast.product_key(a, b, options))
            _remember_gemm(a, b, _gemm_options(out_dtype, precision, deterministic), found)
        return result
    if _is_compiling() or _autocast() or special_mode(*given):
        return torch.ops.gemmsmith.gemm(a, b, c, alpha, beta, bias, activation, *options)
    return eager.gemm(a, b, c, alpha, beta, bias, activation, *options)


def gemm_of_two(a: Any, b: Any, out: Any, out_dtype: Any, precision: str, deterministic: bool) -> Any:
    """``gemmsmith.gemm`` of two tensors, maybe into ``out``, and nothing else, if it was computed before; else None."""
    if _is_traced() or forward_ad._current_level >= 0:
        return None
    # The name of _gemm_name, written out: a call costs a twentieth of a launch.
    name: Any = id(b) if _grad_enabled() else ~id(b), out_dtype
    if deterministic is not True or precision:
        name = *name, precision, deterministic
    try:
        for hint in _hints(name):
            if out is None:
                if not (a.is_nested or b.is_nested) and hint.check(a, b):
                    first, second = a.data_ptr(), b.data_ptr()
                    if first & LOW == hint.a_low and second & LOW == hint.b_low:
                        if hint.recorded is None:
                            return _run(hint.call, first, second)
                        return hint.recorded(a, b, hint.call)
            elif not (a.is_nested or b.is_nested) and hint.check(a, b, out):
                first, second, third = a.data_ptr(), b.data_ptr(), out.data_ptr()
                if first & LOW == hint.a_low and second & LOW == hint.b_low and third & LOW == hint.other_low:
                    return fast.run_into(hint.call, first, second, third, out)
        return None if out is not None else _gemm_by_key(a, b, name, out_dtype, precision, deterministic)
    except (RuntimeError, AttributeError, TypeError):  # no plain tensors, or options without a hash
        return None


def _gemm_name(b: Any, out_dtype: Any, precision: str, deterministic: bool) -> Any:
    """The name of hints of ``gemm``: whether gradients are enabled, and all options."""
    operand = id(b) if _grad_enabled() else ~id(b)
    if deterministic is True and not precision:
        return operand, out_dtype
    return operand, out_dtype, precision, deterministic


def _gemm_by_key(a: Any, b: Any, name: Any, out_dtype: Any, precision: str, deterministic: bool) -> Any:
    if (type(a), type(b)) not in _PLAIN_PAIRS or _autocast() or _any_mode() or a.is_neg() or b.is_neg():
        return None
    call = fast.found(fast.product_key(a, b, _gemm_options(out_dtype, precision, deterministic)))
    if call is None:
        return None
    recorded = None
    if _records(a, b):
        if len(call.shape) != 2:
            return None
        recorded = eager.recorded_product((None, precision, deterministic, ""), call)
    fast.remember(name, call, recorded, a, b)
    return _run(call, a.data_ptr(), b.data_ptr()) if recorded is None else recorded(a, b, call)


def first_gemm_of_two(a: Any, b: Any, out: Any, out_dtype: Any, precision: str, deterministic: bool) -> Any:
    """The same, without gradients, for what was not computed before."""
    result = plain_gemm(a, b, out=out, out_dtype=out_dtype, precision=precision, deterministic=deterministic)
    known, _ = call_key((a, b, None, None, out),
                        options_key(1, 0, "", "", out_dtype, precision, deterministic, None, None) or ())  # fmt: skip
    call = fast.found(known) if known else None
    if out is None:
        _remember_gemm(a, b, _gemm_options(out_dtype, precision, deterministic), call)
    elif call is not None:
        with suppress(RuntimeError, AttributeError, TypeError):
            fast.remember(_gemm_name(b, out_dtype, precision, deterministic), call, None, a, b, out)
    return result


def _gemm_options(out_dtype: Any, precision: str, deterministic: bool) -> tuple[Any, ...]:
    return "gemm", out_dtype, precision, deterministic, type(deterministic)


def _remember_gemm(a: Any, b: Any, options: tuple[Any, ...], call: Any) -> None:
    if call is None:
        return
    with suppress(RuntimeError, AttributeError, TypeError):
        fast.put(fast.product_key(a, b, options), call)


def needs_operator(a: Any, b: Any, c: Any, bias: Any) -> bool:
    """Whether ``gemm`` of these must record gradients, or be an operator."""
    if _is_compiling() or _any_mode() or _autocast():
        return True
    grad = torch.is_grad_enabled()
    for each in (a, b, c, bias):
        if each is None:
            continue
        kind = type(each)
        if kind is not Tensor and kind is not _Parameter and isinstance(each, Tensor):
            return True
        if grad and getattr(each, "requires_grad", False):
            return True
        if isinstance(each, Tensor) and each.is_neg():
            return True
    return False


def _records(*operands: Tensor) -> bool:
    """Whether a product of these records gradients."""
    return _grad_enabled() and any(each.requires_grad for each in operands)


def resolved(value: Tensor) -> Tensor:
    """The tensor with its elements in memory as they are: a negated view has its sign as a bit of the tensor."""
    return value.resolve_neg() if value.is_neg() else value


def special_mode(*operands: Any) -> bool:
    """Whether an operator is needed: something is active that must see one, or a tensor that is traced."""
    return _any_mode() or any(type(each) not in PLAIN or each.is_meta for each in operands)


def _any_mode() -> bool:
    """Whether a dispatch mode, a transform, tracing or forward AD is active."""
    return (
        _dispatch_modes() != 0 or _transforms() is not None or _tracing() is not None or forward_ad._current_level >= 0
    )


def _transformed() -> bool:
    """Whether torch.func or forward AD is active, which differentiate through autograd functions only."""
    innermost = _transforms()
    if innermost is None:
        return bool(forward_ad._current_level >= 0)
    return bool(innermost.key() != _FUNCTIONALIZE)  # which takes operators, and no autograd functions


def _options(a: Any, out_dtype: Any, precision: str, deterministic: bool, device: str) -> tuple[Any, ...]:
    kind = out_dtype if out_dtype is None else result_type(a.dtype, out_dtype)
    return kind, precision, deterministic, device


def _by_operators(a: Tensor, b: Tensor, options: tuple[Any, ...]) -> Tensor:
    ops = torch.ops.gemmsmith
    return composed(a, b, lambda x, y: ops.mm(x, y, *options), lambda x, y: ops.bmm(x, y, *options))


def _into(out: Any, a: Tensor, b: Tensor, out_dtype: Any, precision: str, deterministic: bool, device: str) -> Tensor:
    """With torch's rules for ``out``: its type must be the result's, and it is resized where its shape is another."""
    check_dense("out", out, "torch.matmul")
    if torch.is_grad_enabled() and any(each.requires_grad for each in (a, b, out)):
        raise TensorTypeError("out= does not support automatic differentiation, but an argument requires grad",
                              "use torch.no_grad(), or leave out= away")  # fmt: skip
    found = result_type(a.dtype, out_dtype)
    if out.dtype is not found:
        raise TensorTypeError(f"out is {out.dtype}, and the result {found}")
    if out.device != a.device:
        raise TensorTypeError(f"a is on {a.device} and out on {out.device}", "move them to one device")
    if a.dim() == 2 and b.dim() == 2 and out.shape == (a.shape[0], b.shape[1]) and _takes(out, a, b):
        if a.shape[1] != b.shape[0]:
            raise TensorShapeError(f"mm has no product of shapes {tuple(a.shape)} and {tuple(b.shape)}")
        return product(a, b, found, precision, deterministic, device, out)
    result = matmul(a, b, None, out_dtype, precision, deterministic, device)
    if out.shape != result.shape:
        if out.numel():
            warnings.warn(f"out has shape {tuple(out.shape)} and is resized to {tuple(result.shape)}", stacklevel=4)
        out.resize_(result.shape)
    return out.copy_(result)


def _takes(out: Tensor, a: Tensor, b: Tensor) -> bool:
    """Whether a kernel can write to ``out``: row-major, and not over an operand."""
    if out.dtype is torch.int8 or out.stride(-1) != 1 or (out.shape[0] > 1 and out.stride(0) < out.shape[1]):
        return False
    own = out.untyped_storage().data_ptr()
    return own not in (a.untyped_storage().data_ptr(), b.untyped_storage().data_ptr())
