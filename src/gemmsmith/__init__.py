"""gemmsmith: a workbench for GPU matrix multiplication.

``matmul`` and ``gemm`` compute on the device that holds the operands: GPU tensors on their GPU, NumPy arrays on a
simulator that executes the same kernels from their PTX. ``plan`` prepares a product that is computed many times.
``kernels`` lists the ladder. ``check``, ``profile`` and ``compare`` look at one kernel, or two, on the simulator;
``view`` shows what a launch does. ``launch`` runs any kernel of your own, and ``Launch`` describes such a launch;
``texture``, ``surface`` and ``tensor_map`` make arguments of it. Each is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gemmsmith.errors import GemmsmithError

if TYPE_CHECKING:
    from gemmsmith.call.any_kernel.tensor_maps import tensor_map
    from gemmsmith.call.any_kernel.textures import surface, texture
    from gemmsmith.call.api import gemm, kernels, matmul, plan
    from gemmsmith.call.launch import Launch, launch
    from gemmsmith.call.plan import Plan
    from gemmsmith.explain.api import compare, profile
    from gemmsmith.report.view.notebook import view
    from gemmsmith.verify.api import check

__version__ = "0.2.0"
__all__ = ["GemmsmithError", "Launch", "Plan", "__version__", "check", "compare", "gemm", "kernels", "launch", "matmul",
           "plan", "profile", "surface", "tensor_map", "texture", "view"]  # fmt: skip

_HOMES = dict.fromkeys(("gemm", "kernels", "matmul", "plan"), "gemmsmith.call.api") | {
    "Plan": "gemmsmith.call.plan", **dict.fromkeys(("Launch", "launch"), "gemmsmith.call.launch"),
    **dict.fromkeys(("compare", "profile"), "gemmsmith.explain.api"), "check": "gemmsmith.verify.api",
    "tensor_map": "gemmsmith.call.any_kernel.tensor_maps",
    **dict.fromkeys(("surface", "texture"), "gemmsmith.call.any_kernel.textures"),
    "view": "gemmsmith.report.view.notebook",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
