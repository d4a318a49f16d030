"""``gemmsmith.torch.Linear``: ``torch.nn.Linear`` on our kernels, and what ``optimize`` turns layers into."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear as torch_linear

from gemmsmith.frameworks.torch.products import linear
from gemmsmith.frameworks.torch.types import COMPUTED

_Linear: Any = torch.nn.Linear
_EVERY_ROW_COUNT = (0, 1 << 62)


class Linear(_Linear):  # type: ignore[misc]
    """``torch.nn.Linear`` with the same parameters, state and initialization, computed by gemmsmith."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        return linear(input, self.weight, self.bias)


class OptimizedLinear(_Linear):  # type: ignore[misc]
    """A layer that ``optimize`` chose: ours for the row counts where it is faster, torch's for the others.

    ``gemmsmith_rows`` are the smallest and largest count; ``gemmsmith_calls`` counts what was computed by us and what
    was forwarded, outside of compiled graphs. In these, 16-bit products are torch's: its compiler pads unaligned rows
    and fuses what stands around a product.
    """

    gemmsmith_rows = _EVERY_ROW_COUNT

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002
        taken = takes(input, self.gemmsmith_rows)
        if torch.compiler.is_compiling():
            taken = taken and autocast_type(input) is torch.float32
        else:
            count(self, taken)
        function = linear if taken else torch_linear
        return function(input, self.weight, self.bias)


def optimized_conv1d(kind: type) -> type:
    """The class of a layer named Conv1D, whose weight is stored transposed, with our product in its place."""

    def forward(self: Any, x: Tensor) -> Tensor:
        taken = takes(x, self.gemmsmith_rows)
        if torch.compiler.is_compiling():
            taken = taken and autocast_type(x) is torch.float32
        else:
            count(self, taken)
        function = linear if taken else torch_linear
        return function(x, self.weight.mT, self.bias)

    return type(f"Optimized{kind.__name__}", (kind,), {"forward": forward, "gemmsmith_rows": _EVERY_ROW_COUNT})


def takes(x: Tensor, rows: tuple[int, int]) -> bool:
    """Whether an input is ours: on a GPU, of a type that is computed there, with such a number of rows."""
    if not x.is_cuda or autocast_type(x) not in COMPUTED:
        return False
    count = x.numel() // x.shape[-1] if x.shape[-1] else 0
    return rows[0] <= count <= rows[1]


def autocast_type(x: Tensor) -> torch.dtype:
    """The type that a product of ``x`` is computed in."""
    kind = x.device.type
    if torch.is_autocast_enabled(kind) and x.is_floating_point() and x.dtype is not torch.float64:
        return torch.get_autocast_dtype(kind)
    return x.dtype


def count(module: Any, taken: bool) -> None:
    ours, forwarded = getattr(module, "gemmsmith_calls", (0, 0))
    # Not by setattr: a module's looks for parameters first, which takes 4 µs.
    module.__dict__["gemmsmith_calls"] = (ours + taken, forwarded + (not taken))
