"""``optimize(model)``: our kernels in the layers where they are faster, and a report of which and why.

    layers ─► sizes and types, from a run on sample inputs ─► measured, or by rule (judge.py) ─► replaced or left alone

A replaced layer keeps its object, parameters, hooks and state: only its class changes.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear as torch_linear

from gemmsmith.errors import UsageError
from gemmsmith.frameworks.torch.judge import FASTER, Verdict, expected, measured
from gemmsmith.frameworks.torch.layers import OptimizedLinear, autocast_type, optimized_conv1d
from gemmsmith.frameworks.torch.products import linear
from gemmsmith.frameworks.torch.routes import Report, Route
from gemmsmith.frameworks.torch.types import COMPUTED

_ANY_ROWS = 1 << 62
_REPORT = "gemmsmith_report"


@dataclass(frozen=True)
class Seen:
    """A layer's product in the sample run."""

    rows: int
    dtype: torch.dtype
    needs_input_grad: bool


def optimize(model: Any, sample: Any = None, *, rows: int | Iterable[int] = (), training: bool | None = None,
             verbose: bool = True) -> Any:  # fmt: skip
    """Replace the linear layers of ``model`` in which gemmsmith is faster; returns the model.

    ``sample`` is an input of the model, or a tuple or dict of them: the model is run on it once, and each layer is
    measured at the sizes it had there, with its gradients' products if the model is in training mode (or ``training``
    says so). Without a sample nothing is measured: the layers are judged by rule, for the ``rows`` that are given
    (512 if none are). Run it inside the autocast region in which the model is used. With ``verbose`` the report is
    printed to stderr; ``report(model)`` returns it.
    """
    if not isinstance(model, torch.nn.Module):
        raise UsageError(f"model is a {type(model).__name__}, not a torch.nn.Module")
    training = model.training if training is None else training
    counts = (rows,) if isinstance(rows, int) else tuple(rows)
    seen = sample_run(model, sample) if sample is not None else {}
    routes, known = [], dict[Any, Verdict]()
    for name, module in model.named_modules():
        kind = _kind(module)
        if kind == "":
            continue
        if kind not in ("linear", "conv1d"):
            routes.append(Route(name, _sizes(module), False, kind))
            continue
        products = seen.get(name, []) if sample is not None else [
            Seen(each, _weight_type(module), True) for each in (counts or (512,))]  # fmt: skip
        routes.append(_decide(name, module, products, kind, sample is not None, training, known))
    found = Report(tuple(routes))
    setattr(model, _REPORT, found)
    if verbose:
        print(f"gemmsmith.torch.optimize: {found}", file=sys.stderr)
    return model


def report(model: Any) -> Report:
    """The report of ``optimize``, with the calls that each layer has had since, outside of compiled graphs."""
    found: Report | None = getattr(model, _REPORT, None)
    if found is None:
        raise UsageError("this model has no report", "gemmsmith.torch.optimize(model) makes one")
    modules = dict(model.named_modules())
    routes = []
    for each in found.routes:
        ours, forwarded = getattr(modules.get(each.name), "gemmsmith_calls", (0, 0))
        routes.append(replace(each, calls=ours) if each.ours else each)
        if forwarded:
            routes.append(Route(each.name, each.what, False, "outside the sizes where ours is faster", calls=forwarded))
    return Report(tuple(routes))


def restore(model: Any) -> Any:
    """Undo ``optimize``."""
    for module in model.modules():
        if isinstance(module, OptimizedLinear):
            module.__class__ = torch.nn.Linear
        elif type(module).__name__ == "OptimizedConv1D":
            module.__class__ = type(module).__bases__[0]
    return model


def _kind(module: Any) -> str:
    """'linear', 'conv1d', '' for what is no linear layer, or why it is left alone."""
    if type(module) in (torch.nn.Linear, OptimizedLinear):
        return "linear"
    if type(module).__name__ in ("Conv1D", "OptimizedConv1D") and getattr(module, "weight", torch.empty(0)).dim() == 2:
        return "conv1d"
    if isinstance(module, torch.nn.Linear):
        return f"{type(module).__name__} is a subclass of Linear, which may compute something else"
    return ""


def sample_run(model: Any, sample: Any) -> dict[str, list[Seen]]:
    """The products of each layer in a run on ``sample``, without gradients; the model is not changed."""
    seen: dict[str, list[Seen]] = {}

    def hook(name: str) -> Any:
        def note(_module: Any, given: tuple[Any, ...]) -> None:
            x = given[0]
            if isinstance(x, torch.Tensor) and x.dim():
                rows = math.prod(x.shape[:-1])
                each = Seen(rows, autocast_type(x), x.is_floating_point())
                if each not in seen.setdefault(name, []):
                    seen[name].append(each)

        return note

    hooks = [module.register_forward_pre_hook(hook(name)) for name, module in model.named_modules()
             if _kind(module) in ("linear", "conv1d")]  # fmt: skip
    try:
        with torch.no_grad():
            if isinstance(sample, dict):
                model(**sample)
            else:
                model(*(sample if isinstance(sample, tuple) else (sample,)))
    finally:
        for each in hooks:
            each.remove()
    return seen


def _decide(name: str, module: Any, products: list[Seen], kind: str, measure: bool, training: bool,
            known: dict[Any, Verdict]) -> Route:  # fmt: skip
    k, n = _extents(module)
    what = f"{'/'.join(str(each.rows) for each in products) or '?'}x{n}x{k} {_weight_type(module)}".replace(
        "torch.", ""
    )
    if not products:
        return Route(name, what, False, "the sample run did not call it")
    verdicts = []
    for each in products:
        signature = (each, n, k, kind, training, module.bias is not None, module.weight.dtype)
        if signature not in known:
            known[signature] = _verdict(module, each, n, k, kind, measure, training)
        verdicts.append((each.rows, known[signature]))
    chosen = [rows for rows, verdict in verdicts if verdict.faster]
    if not chosen:
        return Route(name, what, False, verdicts[0][1].why, verdicts[0][1].ratio)
    # Between the measured sizes, and a little beyond, but not over one where torch was faster.
    slower = [rows for rows, verdict in verdicts if not verdict.faster]
    low = max([min(chosen) // 2, *(rows + 1 for rows in slower if rows < min(chosen))])
    high = min([2 * max(chosen) if measure else _ANY_ROWS, *(rows - 1 for rows in slower if rows > max(chosen))])
    module.__class__ = OptimizedLinear if kind == "linear" else optimized_conv1d(type(module))
    module.gemmsmith_rows = (low, high)
    best = next(verdict for rows, verdict in verdicts if verdict.faster)
    return Route(name, what, True, best.why, best.ratio)


def _verdict(module: Any, seen: Seen, n: int, k: int, kind: str, measure: bool, training: bool) -> Verdict:
    rule = expected(seen.rows, n, k, seen.dtype, module.weight.device)
    if not measure or seen.dtype not in COMPUTED or not module.weight.is_cuda or seen.dtype is torch.int8:
        return rule
    if 0 in (seen.rows, n, k):
        return Verdict(False, "an empty product")
    device, own = module.weight.device, module.weight.dtype  # which autocast converts at every call
    x = torch.randn(seen.rows, k, device=device).to(seen.dtype)
    weight = (
        torch.randn(k, n, device=device).to(own).mT if kind == "conv1d" else torch.randn(n, k, device=device).to(own)
    )
    bias = None if module.bias is None else torch.randn(n, device=device).to(own)
    with torch.no_grad(), _region(device, seen.dtype, own):
        forward = measured(lambda: linear(x, weight, bias), lambda: torch_linear(x, weight, bias))
    return _with_gradients(x, weight, bias, forward) if training else forward


def _region(device: torch.device, computed: torch.dtype, own: torch.dtype) -> Any:
    """Where a layer is timed: with autocast if that converts its weight, but without torch's cache of converted
    weights, because a model calls a layer once in a region; else without autocast."""
    if computed is own:
        return torch.autocast(device.type, enabled=False)
    return torch.autocast(device.type, computed, cache_enabled=False)


def _with_gradients(x: Tensor, weight: Tensor, bias: Tensor | None, forward: Verdict) -> Verdict:
    """The layer's forward product and both gradients', as autograd runs them."""
    leaves = [each.detach().requires_grad_() for each in (x, weight, *(() if bias is None else (bias,)))]
    grad = torch.randn(x.shape[0], weight.shape[0], device=x.device).to(x.dtype)

    def step(function: Any) -> Tensor:
        result: Tensor = function(*leaves)
        return torch.autograd.grad(result, leaves, grad)[0]

    with torch.enable_grad(), _region(x.device, x.dtype, weight.dtype):
        whole = measured(lambda: step(linear), lambda: step(torch_linear))
    text = f"forward and gradients {whole.why} (forward alone {forward.ratio:.2f} of torch's speed)"
    return Verdict(whole.faster and forward.ratio > 1 / FASTER / 1.1, text, whole.ratio)


def _weight_type(module: Any) -> torch.dtype:
    kind: torch.dtype = autocast_type(module.weight)
    return kind


def _extents(module: Any) -> tuple[int, int]:
    """Inputs and outputs."""
    rows, columns = module.weight.shape
    return (columns, rows) if isinstance(module, torch.nn.Linear) else (rows, columns)


def sizes_of(module: Any) -> tuple[int, int, bool]:
    """Inputs, outputs, and whether the weight is stored with one row per output."""
    return (*_extents(module), isinstance(module, torch.nn.Linear))


def _sizes(module: Any) -> str:
    k, n = _extents(module)
    return f"?x{n}x{k} {module.weight.dtype}".replace("torch.", "")
