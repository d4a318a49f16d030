"""torch: operators, gradients, layers and modes (docs/torch.md). Importing it registers ``torch.ops.gemmsmith``."""

from __future__ import annotations

import torch

from gemmsmith.frameworks.torch import autocast, batching, flops
from gemmsmith.frameworks.torch.layers import Linear
from gemmsmith.frameworks.torch.ops import NAMESPACE, SCHEMAS, define
from gemmsmith.frameworks.torch.optimize_model import optimize, report, restore
from gemmsmith.frameworks.torch.products import linear
from gemmsmith.frameworks.torch.routes import Report, Route
from gemmsmith.frameworks.torch.use_mode import Use, use

__all__ = ["Linear", "Report", "Route", "Use", "linear", "ops", "optimize", "report", "restore", "use"]


def _registered() -> torch.library.Library:
    library = torch.library.Library(NAMESPACE, "DEF")
    define(library)
    batching.register(library)
    autocast.register(library, tuple(SCHEMAS))
    flops.register()
    return library


LIBRARY = _registered()  # the operators live as long as this object
ops = torch.ops.gemmsmith
