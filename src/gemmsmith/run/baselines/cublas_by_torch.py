"""cuBLAS through ``torch.mm``, into our C and on our stream."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from gemmsmith.errors import MissingDeviceError
from gemmsmith.problem import FP32, Problem
from gemmsmith.run.baselines.library import load
from gemmsmith.run.baselines.torch_views import all_views, fp32_arithmetic, short_version, torch_dtype
from gemmsmith.run.baselines.trials import device_of, run_all, trial_sets
from gemmsmith.run.contender import Enqueue, OperandSet


class HeldEnqueue:
    """Sets our stream and the TF32 setting around each call, or once around many calls with ``held``."""

    def __init__(self, held: Callable[[], AbstractContextManager[Enqueue]]) -> None:
        self.held = held

    def __call__(self, index: int) -> None:
        with self.held() as call:
            call(index)


class CublasByTorch:
    """Holds tensors that view the operands; it allocates nothing on the GPU."""

    def __init__(self, torch: Any, *, tf32: bool) -> None:
        self._torch, self._tf32 = torch, tf32
        self.config = ""
        self.version = ""

    @staticmethod
    def takes(torch: Any, problem: Problem) -> bool:
        """Whether torch can compute it: a wider output needs torch 2.8, alpha 1 and beta 0."""
        if problem.out_dtype == problem.dtype:
            return True
        return _is_plain(problem) and "dtype_out" in torch.ops.aten.mm.overloads()

    def prepare(self, problem: Problem, sets: Sequence[OperandSet], stream: int) -> Enqueue:
        torch, device = self._torch, device_of(sets)
        self.config = f"{'torch.mm' if _is_plain(problem) else 'torch.addmm'}, {problem.out_dtype} output"
        self.version = _version(torch)
        # torch allocates the workspace of cuBLAS at the first use of a stream, which would break a graph capture.
        with trial_sets(device, problem, sets) as trial:
            run_all(self._enqueue(problem, trial, stream, device.ordinal), len(trial), device)
        return self._enqueue(problem, sets, stream, device.ordinal)

    def _enqueue(self, problem: Problem, sets: Sequence[OperandSet], stream: int, ordinal: int) -> Enqueue:
        torch, tf32, fp32 = self._torch, self._tf32, problem.dtype == FP32
        operands = all_views(torch, ordinal, problem, sets)
        ours = torch.cuda.ExternalStream(stream, device=ordinal)
        wider = {} if problem.out_dtype == problem.dtype else {"out_dtype": torch_dtype(torch, problem.out_dtype)}
        plain, alpha, beta = _is_plain(problem), problem.alpha, problem.beta

        def call(index: int) -> None:
            a, b, c = operands[index]
            if plain:
                torch.mm(a, b, out=c, **wider)
            else:
                torch.addmm(c, a, b, beta=beta, alpha=alpha, out=c)

        @contextmanager
        def held() -> Iterator[Enqueue]:
            with torch.cuda.stream(ours), fp32_arithmetic(torch, tf32=tf32) if fp32 else nullcontext():
                yield call

        return HeldEnqueue(held)

    def close(self) -> None:
        """Does nothing: torch keeps its workspace."""


def _is_plain(problem: Problem) -> bool:
    return problem.alpha == 1 and problem.beta == 0


def _version(torch: Any) -> str:
    try:
        library = f"cuBLAS {load('cublas').version}, "
    except MissingDeviceError:  # torch was built with cuBLAS inside
        library = ""
    return f"{library}torch {short_version(torch)}"
