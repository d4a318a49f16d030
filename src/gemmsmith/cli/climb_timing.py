"""How ``climb`` times rungs on a GPU, in its own process or in tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gemmsmith.bench.bench import bench
from gemmsmith.bench.kernel_contender import KernelContender
from gemmsmith.bench.rig import Rig, TimingPolicy
from gemmsmith.cli.compiler import Compiler
from gemmsmith.errors import MissingDeviceError
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import DType, Problem
from gemmsmith.run.baselines import baseline_named
from gemmsmith.run.contender import Contender
from gemmsmith.run.cuda import CudaDevice
from gemmsmith.store.results import Measurement

# Baselines for fp32 rungs, and for the others.
_BASELINES = {"fp32": ("cublas", "cublas-tf32", "cublaslt")}
_OTHERS = ("cublas", "cublaslt")


def groups_of(specs: Sequence[KernelSpec]) -> dict[DType, list[KernelSpec]]:
    """Rungs by the type of their inputs: those of one type are compared."""
    dtypes = dict.fromkeys(spec.dtypes[0] for spec in specs)
    return {dtype: [spec for spec in specs if spec.dtypes[0] == dtype] for dtype in dtypes}


def rivals_of(dtype: str, notes: list[str]) -> list[Contender]:
    """The baselines of a type; notes say which are not installed."""
    found = []
    for name in _BASELINES.get(dtype, _OTHERS):
        try:
            found.append(baseline_named(name))
        except MissingDeviceError as error:
            notes.append(f"{name} left out: {error.message}; {error.hint}")
    return found


def timed_at(
    specs: Sequence[KernelSpec], rivals: Sequence[Contender], extent: int, device: CudaDevice, compiler: Compiler,
    rig: Rig, policy: TimingPolicy,
) -> Iterator[Measurement]:  # fmt: skip
    """Rungs of one type and their baselines at ``extent``³."""
    kernels: list[Contender] = [KernelContender(spec, spec.config(), device, compiler) for spec in specs]
    problem = Problem(extent, extent, extent, dtype=specs[0].dtypes[0])
    yield from bench(kernels, rivals, [problem], rig, policy)
