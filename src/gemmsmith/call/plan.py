"""``gemm`` prepared once and called many times, at little cost to the host.

    request ─► executor: launches planned, compiled, loaded ─► output, workspace ─► plan()  plan()  plan() …

``gemm`` finds the same executor through its cache; a plan holds it, together with an output and a workspace.
"""

from __future__ import annotations

from typing import Any, Protocol

from gemmsmith.call.gpu_plan import GpuPlan
from gemmsmith.call.request import Request
from gemmsmith.call.sim_executor import SimExecutor
from gemmsmith.errors import UsageError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import Fallback
from gemmsmith.notebook_html import card, facts
from gemmsmith.problem import Problem, arithmetic_of

_CHOSEN = {"given": "by the caller", "tuned": "by tuning on this machine", "shipped": "by the shipped tuning table",
           "model": "by the cost model", "default": "by default, untuned"}  # fmt: skip


class PlannedCall(Protocol):
    """A call that is ready to run, on a GPU or the simulator."""

    workspace_bytes: int
    launches: int
    decision: Fallback | None

    def again(self) -> Any:
        """Compute with the operands it was planned with."""

    def with_others(self, a: Any, b: Any, c: Any, bias: Any, out: Any) -> Any:
        """Compute with others in place of some; None keeps the planned one."""

    def read_workspace(self, nbytes: int) -> bytes:
        """The first bytes of the workspace, after all launched work."""


class Plan:
    """``gemm`` with everything prepared. Call it to compute; on a GPU it launches on the caller's current stream.

    ``plan()`` computes with the operands it was made with, as they are now, and returns the output: the same array
    every time. ``plan(a, b, c, bias=…, out=…)`` replaces some or all of them for this call, if the others have the same
    shape, type, strides, device and alignment; operand sets that it has seen before cost little. Anything else is
    refused, and nothing is changed.

    On a GPU a call allocates nothing, waits for nothing and queries nothing, so it can be captured into a CUDA graph.
    A plan owns its output, unless one was passed, and its workspace. So it is for one stream at a time, and must live
    as long as a graph that captured it. It keeps alive the operands it was made with and those of the last call.
    """

    def __init__(self, request: Request) -> None:
        self._request = request
        self._call: PlannedCall = GpuPlan(request) if request.a.on_gpu else SimExecutor(request)
        self._again = self._call.again
        self._called = False
        self.workspace_bytes = self._call.workspace_bytes
        self.launches = self._call.launches

    def __call__(self, a: Any = None, b: Any = None, c: Any = None, *, bias: Any = None, out: Any = None) -> Any:
        if a is None and b is None and out is None and c is None and bias is None:
            result = self._again()
        else:
            result = self._call.with_others(a, b, c, bias, out)
        self._called = True
        return result

    @property
    def kernel(self) -> str:
        """The name of the kernel."""
        return self._request.spec.name

    @property
    def config(self) -> Config:
        """The configuration that was chosen; it is specialized for the alignment of the operands."""
        return self._request.config

    @property
    def source(self) -> str:
        """Where the choice comes from: 'given', 'tuned', 'shipped', 'rows', 'model' or 'default'."""
        return self._request.source

    @property
    def problem(self) -> Problem:
        return self._request.problem

    def method(self) -> str:
        """The arithmetic of the latest product: 'fp32', 'tf32', 'bf16x6', 'fp16x3' …

        Kernels with a fallback, such as fp32_tensor_fp16x3, leave a verdict on the device. Reading it waits for all
        work on the device, so this must not be called while a graph is captured. A replay of a graph counts as a
        product.
        """
        spec, decision = self._request.spec, self._call.decision
        if decision is not None:
            if not self._called:
                raise UsageError("this plan has not computed anything yet", "call it first: its data decide the method")
            if not decision.accepts(self._call.read_workspace(decision.verdict_bytes)):
                spec = decision.spec
        return spec.arithmetic or arithmetic_of(self.problem.dtype, spec.tensor_cores)

    def _repr_html_(self) -> str:
        """Its form in a notebook."""
        rows = (("kernel", self.kernel), ("configuration", str(self.config).replace(",", ", ")),
                ("chosen", _CHOSEN.get(self.source, "")), ("launches", str(self.launches)),
                ("workspace", f"{self.workspace_bytes:,} bytes"))  # fmt: skip
        return card(f"Plan for {self.problem}", [facts(rows)])

    def __repr__(self) -> str:
        text = f"<gemmsmith.Plan {self.problem}: {self.kernel} {self.config}".rstrip()
        text += f" ({self.source}), {self.launches} launch{'' if self.launches == 1 else 'es'}"
        return text + (f", workspace of {self.workspace_bytes:,} bytes>" if self.workspace_bytes else ">")
