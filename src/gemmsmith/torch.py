"""What is for torch alone: ``gemmsmith.torch.Linear``, ``optimize``, ``use`` and the operators (docs/torch.md).

Importing it imports torch and registers ``torch.ops.gemmsmith``. Without torch, using a name says how to install it.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from gemmsmith.frameworks import needed

__all__ = ["Linear", "Report", "Route", "Use", "linear", "ops", "optimize", "report", "restore", "use"]

if TYPE_CHECKING or find_spec("torch") is not None:
    from gemmsmith.frameworks.torch import (
        Linear,
        Report,
        Route,
        Use,
        linear,
        ops,
        optimize,
        report,
        restore,
        use,
    )


def __getattr__(name: str) -> Any:
    if name in __all__:
        needed("torch")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
