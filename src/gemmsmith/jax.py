"""What is for JAX alone: ``gemmsmith.jax.matmul``, which works under ``jax.jit``, ``grad`` and ``vmap``.

The names are imported when they are first used, and JAX with them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gemmsmith.frameworks.jax import matmul

__all__ = ["matmul"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from gemmsmith.frameworks import needed

    needed("jax")
    from gemmsmith.frameworks import jax as home

    value = globals()[name] = getattr(home, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
