"""The executor of the simulator: simulated memory for the operands, and the launches on it.

Each run copies the operands to simulated memory and the result back. ``gemm`` runs an executor once, a plan many times.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gemmsmith.call.binding import check_simulated, load_plan
from gemmsmith.call.launch_plan import plan_launches
from gemmsmith.call.request import Operands, Request, check_output, replaced
from gemmsmith.kernel.spec import Addresses, Fallback
from gemmsmith.problem import DType
from gemmsmith.run.tensors import Matrix, matrix
from gemmsmith.sim.device import SimDevice


class SimExecutor:
    """A request on the simulator, ready to run."""

    def __init__(self, request: Request) -> None:
        self._request, self._problem = request, request.problem.with_()  # simulated copies are tight
        out = request.out
        if out is None:
            out = matrix("out", np.empty(request.shape, self._problem.out_dtype.numpy))
        self._planned = Operands(request.a, request.b, request.c, request.bias, out)
        self.workspace_bytes, self.launches = 0, 0
        self.decision: Fallback | None = None
        if request.empty:
            return
        self._device = SimDevice()
        check_simulated(self._device, request.spec, request.problem)
        sizes = [_dense(each).nbytes for each in (request.a, request.b, out)]
        sizes += [_dense(request.bias).nbytes] if request.bias is not None else []
        self._places = Addresses(*(self._device.allocate(max(1, size)) for size in sizes))
        plan = plan_launches(request.spec, request.config, self._problem, self._places)
        self.workspace_bytes, self.decision = plan.workspace_bytes, plan.decision
        self._workspace = self._device.allocate(self.workspace_bytes)
        self._steps = load_plan(self._device, plan).steps(self._places, self._workspace)
        self.launches = len(self._steps)

    def again(self) -> Any:
        return self._run(self._planned)

    def with_others(self, a: Any, b: Any, c: Any, bias: Any, out: Any) -> Any:
        operands = replaced(self._request.problem, self._planned, (a, b, c, bias, out))
        check_output(self._request.problem, operands.out, operands.a, operands.b, operands.c, operands.bias)
        return self._run(operands)

    def read_workspace(self, nbytes: int) -> bytes:
        """Its first bytes."""
        return self._device.read(self._workspace, nbytes).tobytes()

    def _run(self, operands: Operands) -> Any:
        result = operands.out.owner
        if self._request.empty:
            return result
        device, problem = self._device, self._problem
        device.write(self._places.a, _dense(operands.a))
        device.write(self._places.b, _dense(operands.b))
        start = operands.c.owner if operands.c is not None else _unset(result.shape, problem.out_dtype)
        device.write(self._places.c, _bytes(start))
        if operands.bias is not None:
            device.write(self._places.bias, _dense(operands.bias))
        for step in self._steps:
            device.launch(step.loaded, step.launch)
        data = device.read(self._places.c, problem.batch * problem.m * problem.n * problem.out_dtype.itemsize)
        result[...] = data.view(problem.out_dtype.numpy).reshape(result.shape)
        return result


def _dense(operand: Matrix) -> np.ndarray[Any, Any]:
    """The bytes of an operand as it is stored, without gaps."""
    return _bytes(operand.owner.swapaxes(-1, -2) if operand.transposed else operand.owner)


def _bytes(values: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.ascontiguousarray(values).reshape(-1).view(np.uint8)


def _unset(shape: tuple[int, ...], dtype: DType) -> np.ndarray[Any, Any]:
    """What C holds where it is not read: NaN, or 0 for integers."""
    return np.zeros(shape, dtype.numpy) if dtype.numpy.kind == "i" else np.full(shape, np.nan, dtype.numpy)
