"""JAX: ``matmul`` on arrays and while functions are traced: jit, grad, vmap (docs/jax.md)."""

from __future__ import annotations

from gemmsmith.frameworks.jax.products import matmul

__all__ = ["matmul"]
