"""The cuBLASLt baseline: all candidates of its heuristic are timed, and the fastest is used."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import ExitStack

from gemmsmith.errors import LaunchError, UnsupportedError
from gemmsmith.problem import Problem
from gemmsmith.run.baselines.lt_calls import Candidate, LtProduct
from gemmsmith.run.baselines.supported import precision, supported
from gemmsmith.run.baselines.trials import device_of, seconds, trial_sets
from gemmsmith.run.contender import Enqueue, Identity, OperandSet
from gemmsmith.run.cuda import CudaDevice


class CublasLt:
    """C = alpha·op(A)·op(B) + beta·C by cuBLASLt, in IEEE fp32 or in TF32 for fp32 inputs."""

    def __init__(self, *, tf32: bool = False) -> None:
        self._tf32 = tf32
        self._held = ExitStack()
        self._device: CudaDevice | None = None
        name = "cublaslt-tf32" if tf32 else "cublaslt"
        self._identity = Identity(name, "baseline", precision="tf32" if tf32 else "fp32")

    @property
    def identity(self) -> Identity:
        return self._identity

    def prepare(self, problem: Problem, sets: Sequence[OperandSet], stream: int) -> Enqueue:
        name = self._identity.name
        problem = supported(name, problem, tf32=self._tf32)
        self.close()
        device = device_of(sets)
        with device.current(), ExitStack() as held:
            product = LtProduct(device, problem, sets, held, tf32=self._tf32)
            candidates = product.candidates()
            best = _fastest(device, product, candidates, problem, sets, stream)
            if best is None:
                raise UnsupportedError(f"none of cuBLASLt's {len(candidates)} candidates computes {problem}")
            self._device, self._held = device, held.pop_all()
        config = f"{best}, best of {len(candidates)} candidates, {problem.out_dtype} output"
        version = f"cuBLASLt {product.version}"
        self._identity = Identity(name, "baseline", config, precision(problem, tf32=self._tf32), version)
        return _enqueue(device, product, best, sets, stream)

    def close(self) -> None:
        if self._device is not None:
            with self._device.current():
                self._held.close()


def _fastest(device: CudaDevice, product: LtProduct, candidates: Sequence[Candidate], problem: Problem,
             sets: Sequence[OperandSet], stream: int) -> Candidate | None:  # fmt: skip
    """The candidate with the shortest median time; candidates that cuBLASLt refuses to run are skipped."""
    best, best_time = None, float("inf")
    with trial_sets(device, problem, sets) as trial:
        for candidate in candidates:
            enqueue = _enqueue(device, product, candidate, trial, stream)
            try:
                enqueue(0)
                time = seconds(enqueue, len(trial), stream, best_time)
            except LaunchError:
                continue
            if time < best_time:
                best, best_time = candidate, time
        device.synchronize()
    return best


def _enqueue(device: CudaDevice, product: LtProduct, candidate: Candidate, sets: Sequence[OperandSet],
             stream: int) -> Enqueue:  # fmt: skip
    operands, algorithm = tuple(sets), ctypes.byref(candidate.algorithm)

    def enqueue(index: int) -> None:
        with device.current():
            product.launch(operands[index], algorithm, stream)

    return enqueue
