"""``with gemmsmith.torch.use():`` torch's products go to us inside the block; what we do not take goes to torch.

A function mode of torch: it sees calls of Python code, in eager mode and while torch.compile traces. The products'
gradients are ours too, also where ``backward`` is called after the block.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from gemmsmith.frameworks.torch.judge import expected
from gemmsmith.frameworks.torch.layers import autocast_type
from gemmsmith.frameworks.torch.products import linear, matmul
from gemmsmith.frameworks.torch.routes import Report, Route
from gemmsmith.frameworks.torch.types import COMPUTED, PLAIN, layout_beside_strided

_Mode: Any = TorchFunctionMode
_F = torch.nn.functional
_RIGHT = torch.Tensor.__rmatmul__
# torch's functions by the operator that stands for them
_NAMES: dict[Any, str] = {
    torch.mm: "mm", torch.Tensor.mm: "mm", torch.bmm: "bmm", torch.Tensor.bmm: "bmm", torch.addmm: "addmm",
    torch.Tensor.addmm: "addmm", torch.matmul: "matmul", torch.Tensor.matmul: "matmul",
    torch.Tensor.__matmul__: "matmul", _RIGHT: "matmul", torch.linalg.matmul: "matmul", _F.linear: "linear",
}  # fmt: skip
# Other products: they go to torch, and the report says so.
_OTHERS: dict[Any, str] = {
    **{getattr(torch, name): name for name in ("mv", "dot", "vdot", "inner", "baddbmm", "addbmm", "addmv", "einsum",
                                               "tensordot", "chain_matmul", "bilinear")},
    **{getattr(torch.Tensor, name): name for name in ("mv", "dot", "vdot", "inner", "baddbmm", "baddbmm_", "addbmm",
                                                      "addbmm_", "addmv", "addmv_", "addmm_")},
    torch.linalg.multi_dot: "multi_dot", torch.linalg.vecdot: "vecdot",
    _F.bilinear: "bilinear", _F.scaled_dot_product_attention: "scaled_dot_product_attention",
}  # fmt: skip
# The operands' names, in order.
_OPERANDS = {"mm": ("input", "mat2"), "bmm": ("input", "mat2"), "addmm": ("input", "mat1", "mat2"),
             "matmul": ("input", "other"), "linear": ("input", "weight", "bias")}  # fmt: skip


def use(*, device: str = "", precision: str = "", deterministic: bool = True, faster_only: bool = False) -> Use:
    """A context manager in which ``torch.mm``, ``bmm``, ``addmm``, ``matmul``, ``@`` and ``linear`` are ours.

        with gemmsmith.torch.use() as used:
            loss = model(x)
        print(used.report())

    With ``faster_only`` calls that the rules of ``optimize`` do not expect to be faster are forwarded. The others are
    arguments of ``gemmsmith.matmul``; ``device="sim"`` takes tensors of the CPU.
    """
    return Use(device, precision, deterministic, faster_only)


class Use(_Mode):  # type: ignore[misc]
    """The mode of ``use``; ``report`` says what went where."""

    def __init__(self, device: str, precision: str, deterministic: bool, faster_only: bool) -> None:
        super().__init__()
        self._named = {"precision": precision, "deterministic": deterministic, "device": device}
        self._device, self._faster_only = device, faster_only
        self._routes: dict[tuple[str, str, bool, str], Route] = {}

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """As a decorator: the function runs inside the block."""

        @wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return inside

    def report(self) -> Report:
        """What was computed by us, and what was forwarded and why; calls within compiled graphs are not counted."""
        return Report(tuple(self._routes.values()))

    def __torch_function__(self, function: Any, types: Any, args: tuple[Any, ...] = (),
                           kwargs: dict[str, Any] | None = None) -> Any:  # fmt: skip
        del types
        kwargs = kwargs or {}
        name = _NAMES.get(function)
        if name is None:
            if function in _OTHERS and not torch.compiler.is_compiling():
                self._note(_OTHERS[function], _flat(args), f"use() does not take {_OTHERS[function]}")
            return function(*args, **kwargs)
        given, kwargs_given = args, kwargs
        args, kwargs = _by_position(name, args, kwargs)
        why = self._refusal(name, args, kwargs)
        if not torch.compiler.is_compiling():
            self._note(name, args, why)
        if why:
            return function(*given, **kwargs_given)
        if function is _RIGHT:
            args = (args[1], args[0])
        return _CALLS[name](self._named, *args, **kwargs)

    def _refusal(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """Why torch must compute it; '' where we can."""
        operands = [each for each in (*args, *kwargs.values()) if isinstance(each, torch.Tensor)]
        for each in operands:
            if type(each) not in PLAIN and not type(each).__module__.startswith("torch._"):
                return f"{type(each).__name__} is a subclass of torch.Tensor"
            if (layout := layout_beside_strided(each)) is not None:
                return f"a {layout} tensor"
            if autocast_type(each) not in COMPUTED:
                return f"{each.dtype} is not computed by gemmsmith"
            if each.device.type not in ("cuda", "meta") and not (self._device == "sim" and each.device.type == "cpu"):
                return f"a tensor on {each.device}"
        others = [key for key in kwargs if key not in _TAKEN[name]]
        if others:
            return f"{name} with {', '.join(others)}="
        if len(operands) < 2:
            return "fewer than two tensors"
        if name == "linear" and len(operands[1].shape) != 2:
            return "a weight that is no matrix"
        if any(autocast_type(each) is not autocast_type(operands[0]) for each in operands):
            return "operands of several types"
        if self._faster_only:
            m, n, k = _sizes(name, operands)
            verdict = expected(m, n, k, autocast_type(operands[0]), operands[0].device)
            return "" if verdict.faster else verdict.why
        return ""

    def _note(self, name: str, args: tuple[Any, ...], why: str) -> None:
        tensors = [each for each in args if isinstance(each, torch.Tensor)]
        what = " ".join(_shape(each) for each in tensors[:3])
        if tensors:
            what += f" {autocast_type(tensors[0])}".replace("torch.", "")
        key = (name, what, not why, why)
        known = self._routes.get(key) or Route(name, what, not why, why or "taken")
        self._routes[key] = replace(known, calls=known.calls + 1)


def _by_position(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The call with its operands by position: the leading ones that were passed by name."""
    rest = dict(kwargs)
    for operand in _OPERANDS[name][len(args) :]:
        if operand not in rest:
            break
        args = (*args, rest.pop(operand))
    return args, rest


def _shape(value: Tensor) -> str:
    return "nested" if value.is_nested else "x".join(map(str, value.shape)) or "()"


def _flat(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments, with the members of lists in their place."""
    return tuple(member for each in args for member in (each if isinstance(each, (list, tuple)) else (each,)))


def _sizes(name: str, operands: list[Tensor]) -> tuple[int, int, int]:
    a, b = operands[1:3] if name == "addmm" else operands[:2]
    k = a.shape[-1]
    n = b.shape[0] if name == "linear" else b.shape[-1]
    return (a.numel() // k if k else 0), n, k


def _matmul(named: dict[str, Any], a: Tensor, b: Tensor) -> Tensor:
    found: Tensor = matmul(a, b, None, None, **named)
    return found


def _linear(named: dict[str, Any], input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:  # noqa: A002
    return linear(input, weight, bias, **named)


def _operator(name: str) -> Callable[..., Tensor]:
    """mm, bmm and addmm, which refuse other ranks as torch does."""

    def call(named: dict[str, Any], *operands: Tensor, beta: Any = 1, alpha: Any = 1) -> Tensor:
        if name == "addmm":
            found: Tensor = torch.ops.gemmsmith.addmm(*operands, beta, alpha, None, *named.values())
            return found
        if any(each.dim() != {"mm": 2, "bmm": 3}[name] for each in operands):
            return getattr(torch, name)(*operands)  # raises what torch raises
        return _matmul(named, *operands)

    return call


_CALLS: dict[str, Callable[..., Tensor]] = {"mm": _operator("mm"), "bmm": _operator("bmm"),
                                            "addmm": _operator("addmm"), "matmul": _matmul,
                                            "linear": _linear}  # fmt: skip
_TAKEN: dict[str, set[str]] = {"mm": set(), "bmm": set(), "addmm": {"beta", "alpha"}, "matmul": set(),
                               "linear": {"bias"}}  # fmt: skip
