"""The cuBLAS baseline: through torch where it is installed, otherwise by ctypes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from gemmsmith.problem import Problem
from gemmsmith.run.baselines.cublas_by_torch import CublasByTorch
from gemmsmith.run.baselines.cublas_by_wheel import CublasByWheel
from gemmsmith.run.baselines.supported import precision, supported
from gemmsmith.run.baselines.torch_views import usable_torch
from gemmsmith.run.contender import Enqueue, Identity, OperandSet


class Backend(Protocol):
    """A way to call cuBLAS."""

    config: str
    version: str

    def prepare(self, problem: Problem, sets: Sequence[OperandSet], stream: int) -> Enqueue: ...

    def close(self) -> None: ...


class Cublas:
    """C = alpha·op(A)·op(B) + beta·C by cuBLAS, in IEEE fp32 or in TF32 for fp32 inputs.

    ``without_torch`` is for tests that compare the two backends.
    """

    def __init__(self, *, tf32: bool = False, without_torch: bool = False) -> None:
        self._tf32, self._without_torch = tf32, without_torch
        self._backend: Backend | None = None
        self._identity = Identity("cublas-tf32" if tf32 else "cublas", "baseline", precision="tf32" if tf32 else "fp32")

    @property
    def identity(self) -> Identity:
        return self._identity

    def prepare(self, problem: Problem, sets: Sequence[OperandSet], stream: int) -> Enqueue:
        name = self._identity.name
        problem = supported(name, problem, tf32=self._tf32)
        self.close()
        backend = self._choose(problem)
        enqueue = backend.prepare(problem, sets, stream)
        self._backend = backend
        arithmetic = precision(problem, tf32=self._tf32)
        self._identity = Identity(name, "baseline", backend.config, arithmetic, backend.version)
        return enqueue

    def _choose(self, problem: Problem) -> Backend:
        torch = None if self._without_torch else usable_torch()
        if torch is not None and CublasByTorch.takes(torch, problem):
            return CublasByTorch(torch, tf32=self._tf32)
        return CublasByWheel(tf32=self._tf32)

    def close(self) -> None:
        backend, self._backend = self._backend, None
        if backend is not None:
            backend.close()
