"""The products of a model's linear layers, from one run on sample inputs: what ``gemmsmith warm --model`` compiles."""

from __future__ import annotations

from typing import Any

import torch

from gemmsmith.frameworks.torch.optimize_model import sample_run, sizes_of
from gemmsmith.frameworks.torch.types import COMPUTED
from gemmsmith.problem import Problem, dtype_named
from gemmsmith.run.tensors import dtype_name


def products_of(model: Any, sample: Any, training: bool) -> list[Problem]:
    """Forward products, and with ``training`` both gradients' of each layer."""
    found: dict[Problem, None] = {}
    modules = dict(model.named_modules())
    for name, products in sample_run(model, sample).items():
        k, n, transposed = sizes_of(modules[name])
        for each in products:
            if each.dtype not in COMPUTED or each.dtype is torch.int8 or not each.rows:
                continue
            kind = dtype_named(dtype_name(each.dtype))
            bias = "column" if modules[name].bias is not None else ""
            types: dict[str, Any] = {"dtype": kind, "out_dtype": kind}
            found[Problem(each.rows, n, k, trans_b=transposed, bias=bias, **types)] = None
            if training:
                found[Problem(each.rows, k, n, trans_b=not transposed, **types)] = None
                found[Problem(*((n, k) if transposed else (k, n)), each.rows, trans_a=True, **types)] = None
    return list(found)
