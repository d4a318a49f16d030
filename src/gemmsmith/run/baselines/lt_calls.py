"""cuBLASLt's objects for one product: descriptors, layouts, candidates, and the call that runs a candidate.

NVIDIA's nvmath-python is not used: it gets its candidates from the same function, and takes tensors where a contender
has addresses and a stream.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from gemmsmith.problem import Problem
from gemmsmith.run.baselines.column_major import Stored, column_major
from gemmsmith.run.baselines.library import (
    COMPUTE_32F,
    COMPUTE_32F_FAST_TF32,
    CUDA_TYPE,
    NOT_SUPPORTED,
    OPERATION,
    SUCCESS,
    load,
)
from gemmsmith.run.baselines.trials import ALIGNMENT
from gemmsmith.run.contender import OperandSet
from gemmsmith.run.cuda import CudaDevice

MOST_CANDIDATES = 32
# Twice what torch allows, so that split-K candidates that need more can be timed.
WORKSPACE_BYTES = 64 * 2**20

# Attribute numbers of cublasLt.h.
_TRANSPOSE_A, _TRANSPOSE_B = 3, 4
_MAX_WORKSPACE = 1
_MIN_ALIGNMENT = {"a": 5, "b": 6, "c": 7, "d": 8}
_ALGORITHM_ID, _TILE_ID, _SPLIT_K, _STAGES_ID = 0, 1, 2, 6


class _Algorithm(ctypes.Structure):
    _fields_ = (("data", ctypes.c_uint64 * 8),)


class _HeuristicResult(ctypes.Structure):
    _fields_ = (
        ("algorithm", _Algorithm),
        ("workspace", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


@dataclass(frozen=True)
class Candidate:
    """A candidate of the heuristic; the numbers are those of the enumerations in cublasLt.h."""

    algorithm: Any
    rank: int
    algorithm_id: int
    tile_id: int
    stages_id: int
    split_k: int

    def __str__(self) -> str:
        return (
            f"algorithm {self.algorithm_id}, tile #{self.tile_id}, stages #{self.stages_id}, split-K {self.split_k}, "
            f"heuristic's no. {self.rank}"
        )


class LtProduct:
    """A product described to cuBLASLt. ``held`` frees what is made here when its owner closes it."""

    def __init__(self, device: CudaDevice, problem: Problem, sets: Sequence[OperandSet], held: ExitStack, *,
                 tf32: bool) -> None:  # fmt: skip
        self._library, self._held = load("cublasLt"), held
        self.version = self._library.version
        self._handle = self._make("cublasLtCreate", "cublasLtDestroy")
        self._workspace = device.allocate(WORKSPACE_BYTES)
        held.callback(device.free, self._workspace)
        p = column_major(problem)
        compute = COMPUTE_32F_FAST_TF32 if tf32 else COMPUTE_32F
        self._product = self._make("cublasLtMatmulDescCreate", "cublasLtMatmulDescDestroy", compute, CUDA_TYPE["fp32"])
        for attribute, stored in ((_TRANSPOSE_A, p.first), (_TRANSPOSE_B, p.second)):
            value = ctypes.c_int32(OPERATION[stored.transposed])
            self._set("cublasLtMatmulDescSetAttribute", self._product, attribute, value)
        self._first = self._layout(p.first, problem.dtype.name)
        self._second = self._layout(p.second, problem.dtype.name)
        self._out = self._layout(p.out, problem.out_dtype.name)
        self._alpha, self._beta = ctypes.c_float(problem.alpha), ctypes.c_float(problem.beta)
        self._preference = self._make("cublasLtMatmulPreferenceCreate", "cublasLtMatmulPreferenceDestroy")
        self._prefer(sets)

    def _prefer(self, sets: Sequence[OperandSet]) -> None:
        set_ = "cublasLtMatmulPreferenceSetAttribute"
        self._set(set_, self._preference, _MAX_WORKSPACE, ctypes.c_uint64(WORKSPACE_BYTES))
        # B is the first operand: see column_major.py.
        addresses = {
            "a": [s.b for s in sets],
            "b": [s.a for s in sets],
            "c": [s.c for s in sets],
            "d": [s.c for s in sets],
        }
        for operand, attribute in _MIN_ALIGNMENT.items():
            self._set(set_, self._preference, attribute, ctypes.c_uint32(common_alignment(addresses[operand])))

    def candidates(self) -> list[Candidate]:
        """The candidates of the heuristic, in its order; empty where it has none."""
        results = (_HeuristicResult * MOST_CANDIDATES)()
        count = ctypes.c_int()
        status = self._library.call(
            "cublasLtMatmulAlgoGetHeuristic", self._handle, self._product, self._first, self._second, self._out,
            self._out, self._preference, MOST_CANDIDATES, ctypes.byref(results), ctypes.byref(count),
            accepted=(SUCCESS, NOT_SUPPORTED),
        )  # fmt: skip
        found = range(count.value) if status == SUCCESS else ()
        return [self._candidate(results[i], i + 1) for i in found if results[i].state == SUCCESS]

    def launch(self, operands: OperandSet, algorithm: Any, stream: int) -> None:
        """Enqueue the product with a candidate's algorithm; C is read if beta is not 0, and written in place."""
        self._library.call(
            "cublasLtMatmul", self._handle, self._product, ctypes.byref(self._alpha), operands.b, self._first,
            operands.a, self._second, ctypes.byref(self._beta), operands.c, self._out, operands.c, self._out,
            algorithm, self._workspace, WORKSPACE_BYTES, stream,
        )  # fmt: skip

    def _candidate(self, result: Any, rank: int) -> Candidate:
        return Candidate(
            result.algorithm,
            rank,
            algorithm_id=self._attribute(result.algorithm, _ALGORITHM_ID),
            tile_id=self._attribute(result.algorithm, _TILE_ID),
            stages_id=self._attribute(result.algorithm, _STAGES_ID),
            split_k=self._attribute(result.algorithm, _SPLIT_K),
        )

    def _attribute(self, algorithm: Any, attribute: int) -> int:
        value, written = ctypes.c_int32(), ctypes.c_size_t()
        self._library.call(
            "cublasLtMatmulAlgoConfigGetAttribute", ctypes.byref(algorithm), attribute, ctypes.byref(value),
            ctypes.sizeof(value), ctypes.byref(written),
        )  # fmt: skip
        return value.value

    def _layout(self, stored: Stored, dtype: str) -> ctypes.c_void_p:
        return self._make(
            "cublasLtMatrixLayoutCreate", "cublasLtMatrixLayoutDestroy",
            CUDA_TYPE[dtype], stored.rows, stored.cols, stored.ld,
        )  # fmt: skip

    def _make(self, create: str, destroy: str, *arguments: int) -> ctypes.c_void_p:
        made = ctypes.c_void_p()
        self._library.call(create, ctypes.byref(made), *arguments)
        self._held.callback(self._library.call, destroy, made)
        return made

    def _set(self, function: str, target: ctypes.c_void_p, attribute: int, value: Any) -> None:
        self._library.call(function, target, attribute, ctypes.byref(value), ctypes.sizeof(value))


def common_alignment(addresses: Sequence[int]) -> int:
    """The largest power of two, up to 256, that divides every address."""
    alignment = ALIGNMENT
    while any(address % alignment for address in addresses):
        alignment //= 2
    return alignment
