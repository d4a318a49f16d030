"""gemmsmith: a workbench for GPU matrix multiplication.

``matmul`` and ``gemm`` compute on the device that holds the operands: GPU tensors on their GPU, NumPy arrays on a
simulator that executes the same kernels from their PTX. ``plan`` prepares a product that is computed many times.
``kernels`` lists the ladder.
"""

from gemmsmith.call.api import gemm, kernels, matmul, plan
from gemmsmith.call.plan import Plan
from gemmsmith.errors import GemmsmithError

__version__ = "0.2.0"
__all__ = ["GemmsmithError", "Plan", "__version__", "gemm", "kernels", "matmul", "plan"]
