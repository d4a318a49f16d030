"""cuBLAS without torch, by the call that torch makes: ``cublasGemmEx`` with its default algorithm."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import ExitStack

from gemmsmith.problem import Problem
from gemmsmith.run.baselines.column_major import column_major
from gemmsmith.run.baselines.library import (
    COMPUTE_32F,
    COMPUTE_32F_FAST_TF32,
    CUDA_TYPE,
    OPERATION,
    Library,
    load,
)
from gemmsmith.run.baselines.trials import device_of, run_all, trial_sets
from gemmsmith.run.contender import Enqueue, OperandSet
from gemmsmith.run.cuda import CudaDevice

# NVIDIA's recommendation for Hopper, which torch follows.
WORKSPACE_BYTES = 32 * 2**20
_DEFAULT_MATH, _TF32_MATH = 0, 3
_DEFAULT_ALGORITHM = -1


class CublasByWheel:
    """Holds a cuBLAS handle and a workspace."""

    def __init__(self, *, tf32: bool) -> None:
        self._tf32 = tf32
        self._held = ExitStack()
        self._device: CudaDevice | None = None
        self.config = ""
        self.version = ""

    def prepare(self, problem: Problem, sets: Sequence[OperandSet], stream: int) -> Enqueue:
        library, device = load("cublas"), device_of(sets)
        self.config, self.version = f"cublasGemmEx, {problem.out_dtype} output", f"cuBLAS {library.version}"
        with device.current(), ExitStack() as held:
            handle = ctypes.c_void_p()
            library.call("cublasCreate_v2", ctypes.byref(handle))
            held.callback(library.call, "cublasDestroy_v2", handle)
            workspace = device.allocate(WORKSPACE_BYTES)
            held.callback(device.free, workspace)
            # The order matters: setting the stream resets the workspace.
            library.call("cublasSetStream_v2", handle, stream)
            library.call("cublasSetWorkspace_v2", handle, workspace, WORKSPACE_BYTES)
            library.call("cublasSetMathMode", handle, _TF32_MATH if self._tf32 else _DEFAULT_MATH)
            # cuBLAS loads kernels at their first use, which could break a graph capture.
            with trial_sets(device, problem, sets) as trial:
                run_all(self._enqueue(library, device, handle, problem, trial), len(trial), device)
            self._device, self._held = device, held.pop_all()
        return self._enqueue(library, device, handle, problem, sets)

    def _enqueue(self, library: Library, device: CudaDevice, handle: ctypes.c_void_p, problem: Problem,
                 sets: Sequence[OperandSet]) -> Enqueue:  # fmt: skip
        p, operands = column_major(problem), tuple(sets)
        in_type, out_type = CUDA_TYPE[problem.dtype.name], CUDA_TYPE[problem.out_dtype.name]
        compute = COMPUTE_32F_FAST_TF32 if self._tf32 else COMPUTE_32F
        alpha, beta = ctypes.c_float(problem.alpha), ctypes.c_float(problem.beta)
        first_op, second_op = OPERATION[p.first.transposed], OPERATION[p.second.transposed]

        def enqueue(index: int) -> None:
            chosen = operands[index]
            with device.current():
                library.call(
                    "cublasGemmEx", handle, first_op, second_op, p.m, p.n, p.k,
                    ctypes.byref(alpha), chosen.b, in_type, p.first.ld, chosen.a, in_type, p.second.ld,
                    ctypes.byref(beta), chosen.c, out_type, p.out.ld, compute, _DEFAULT_ALGORITHM,
                )  # fmt: skip

        return enqueue

    def close(self) -> None:
        if self._device is not None:
            with self._device.current():
                self._held.close()
