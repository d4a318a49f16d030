"""What is for JAX alone: ``gemmsmith.jax.matmul``, which works under ``jax.jit``, ``grad`` and ``vmap`` (docs/jax.md).

Importing it imports JAX. Without JAX, using a name says how to install it.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from gemmsmith.frameworks import needed

__all__ = ["matmul"]

if TYPE_CHECKING or find_spec("jax") is not None:
    from gemmsmith.frameworks.jax import matmul


def __getattr__(name: str) -> Any:
    if name in __all__:
        needed("jax")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
