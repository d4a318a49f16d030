"""Captures of CUDA graphs by torch, in processes that other libraries share."""

from __future__ import annotations

import sys
from typing import Any


def capture(graph: Any) -> Any:
    """``torch.cuda.graph``; in the mode of threads where JAX is loaded.

    JAX frees arrays in threads of its own, at any time. The driver calls that it makes then end a capture of torch's
    default mode, with or without our products (docs/jax.md).
    """
    mode = "thread_local" if "jax" in sys.modules else "global"
    return sys.modules["torch"].cuda.graph(graph, capture_error_mode=mode)
