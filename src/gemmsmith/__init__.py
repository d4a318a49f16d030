"""gemmsmith: a workbench for GPU matrix multiplication.

``matmul`` and ``gemm`` compute on the device that holds the operands: GPU tensors on their GPU, NumPy arrays on a
simulator that executes the same kernels from their PTX. ``plan`` prepares a product that is computed many times.
``torch`` and ``jax`` hold what is for one library: operators, layers, ``optimize`` and ``use``. ``kernels`` lists the
ladder. ``check``, ``profile`` and ``compare`` look at one kernel, or two, on the simulator; ``view`` shows what a
launch does. ``launch`` runs any kernel of your own, and ``Launch`` describes such a launch; ``texture``, ``surface``
and ``tensor_map`` make arguments of it. Each is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gemmsmith.errors import GemmsmithError

if TYPE_CHECKING:
    from gemmsmith import jax, torch
    from gemmsmith.call.any_kernel.tensor_maps import tensor_map
    from gemmsmith.call.any_kernel.textures import surface, texture
    from gemmsmith.call.api import kernels, plan
    from gemmsmith.call.launch import Launch, launch
    from gemmsmith.call.plan import Plan
    from gemmsmith.explain.api import compare, profile
    from gemmsmith.frameworks.products import gemm, matmul
    from gemmsmith.report.view.notebook import view
    from gemmsmith.verify.api import check

__version__ = "0.2.0"
__all__ = ["GemmsmithError", "Launch", "Plan", "__version__", "check", "compare", "gemm", "jax", "kernels", "launch",
           "matmul", "plan", "profile", "surface", "tensor_map", "texture", "torch", "view"]  # fmt: skip

_HOMES = dict.fromkeys(("kernels", "plan"), "gemmsmith.call.api") | {
    **dict.fromkeys(("gemm", "matmul"), "gemmsmith.frameworks.products"),
    "Plan": "gemmsmith.call.plan", **dict.fromkeys(("Launch", "launch"), "gemmsmith.call.launch"),
    **dict.fromkeys(("compare", "profile"), "gemmsmith.explain.api"), "check": "gemmsmith.verify.api",
    "tensor_map": "gemmsmith.call.any_kernel.tensor_maps",
    **dict.fromkeys(("surface", "texture"), "gemmsmith.call.any_kernel.textures"),
    "view": "gemmsmith.report.view.notebook",
}  # fmt: skip


_MODULES = ("jax", "torch")


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"gemmsmith.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
