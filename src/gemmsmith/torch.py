"""What is for torch alone: ``gemmsmith.torch.Linear``, ``optimize``, ``use``, ``report`` and the operators.

The names are imported when they are first used, and torch with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gemmsmith.frameworks.torch import Linear, Report, Route, Use, linear, ops, optimize, report, use

__all__ = ["Linear", "Report", "Route", "Use", "linear", "ops", "optimize", "report", "use"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from gemmsmith.frameworks import needed

    needed("torch")
    from gemmsmith.frameworks import torch as home

    value = globals()[name] = getattr(home, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
