"""The Triton baseline: a Triton kernel of our own, whose tile is chosen by timing while it is prepared."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gemmsmith.errors import MissingDeviceError, UnsupportedError
from gemmsmith.problem import BF16, FP16, FP32, Problem, ceil_div
from gemmsmith.run.baselines.supported import precision, supported
from gemmsmith.run.baselines.torch_views import all_views, short_version, usable_torch
from gemmsmith.run.baselines.trials import device_of, run_all, seconds, trial_sets
from gemmsmith.run.contender import Enqueue, Identity, OperandSet
from gemmsmith.run.cuda import CudaDevice


@dataclass(frozen=True)
class Tile:
    """The tile of a block, its warps, and the stages of its pipeline."""

    bm: int
    bn: int
    bk: int
    warps: int
    stages: int
    group: int = 8

    def __str__(self) -> str:
        return f"BM={self.bm} BN={self.bn} BK={self.bk} warps={self.warps} stages={self.stages} group={self.group}"


# For tensor cores, from the tiles that read least to those that fill a GPU at small sizes. The last two are for outputs
# with few rows or columns.
TENSOR_TILES = (
    Tile(128, 256, 64, warps=8, stages=3),
    Tile(256, 128, 64, warps=8, stages=3),
    Tile(128, 256, 64, warps=8, stages=4),
    Tile(128, 128, 64, warps=8, stages=4),
    Tile(128, 128, 64, warps=4, stages=3),
    Tile(128, 64, 64, warps=4, stages=4),
    Tile(64, 128, 64, warps=4, stages=4),
    Tile(64, 64, 64, warps=4, stages=5),
    Tile(64, 32, 128, warps=4, stages=4),
    Tile(16, 128, 128, warps=4, stages=4),
)
# IEEE fp32 runs on CUDA cores, with smaller tiles whose accumulators fit into registers.
FP32_TILES = (
    Tile(128, 128, 16, warps=8, stages=3),
    Tile(128, 128, 32, warps=8, stages=2),
    Tile(128, 64, 16, warps=4, stages=3),
    Tile(64, 128, 16, warps=4, stages=3),
    Tile(64, 64, 16, warps=4, stages=4),
    Tile(64, 64, 32, warps=4, stages=3),
    Tile(32, 64, 32, warps=4, stages=3),
    Tile(32, 32, 32, warps=2, stages=4),
    Tile(16, 64, 64, warps=4, stages=3),
)
TILES = {FP32.name: FP32_TILES, FP16.name: TENSOR_TILES, BF16.name: TENSOR_TILES}


class TritonGemm:
    """C = alpha·op(A)·op(B) + beta·C by ``triton_kernel.gemm``; ``tiles`` replaces the default list."""

    def __init__(self, tiles: Sequence[Tile] = ()) -> None:
        self._tiles = tuple(tiles)
        self._identity = Identity("triton", "baseline")

    @property
    def identity(self) -> Identity:
        return self._identity

    def prepare(self, problem: Problem, sets: Sequence[OperandSet], stream: int) -> Enqueue:
        problem = supported("triton", problem)
        torch, triton = _imported()
        device = device_of(sets)
        tiles = self._tiles or TILES[problem.dtype.name]
        with device.current():
            best = _fastest(torch, triton, device, tiles, problem, sets, stream)
        if best is None:
            raise UnsupportedError(f"none of {len(tiles)} Triton tiles fits {device.name}")
        config = f"{best}, best of {len(tiles)} tiles, {problem.out_dtype} output"
        version = f"triton {triton.__version__}, torch {short_version(torch)}"
        self._identity = Identity("triton", "baseline", config, precision(problem, tf32=False), version, _digest(best))
        return _enqueue(torch, device, best, problem, sets, stream)

    def close(self) -> None:
        """Does nothing: Triton keeps the compiled kernels, and there is no workspace."""


def _imported() -> tuple[Any, Any]:
    """torch and triton; Triton needs torch for the current device and stream."""
    torch = usable_torch()
    if torch is None:
        raise MissingDeviceError("Triton launches through torch, and no torch with a GPU is installed", _HOW_TO_GET)
    try:
        import triton
    except (ImportError, OSError):
        raise MissingDeviceError("Triton is not installed", _HOW_TO_GET) from None
    return torch, triton


_HOW_TO_GET = "pip install '.[torch]' in gemmsmith's folder brings both"


def _fastest(torch: Any, triton: Any, device: CudaDevice, tiles: Sequence[Tile], problem: Problem,
             sets: Sequence[OperandSet], stream: int) -> Tile | None:  # fmt: skip
    """The tile with the shortest median time; tiles that do not fit this GPU are skipped.

    Every set is run once, because Triton compiles for the alignment of addresses.
    """
    too_much = (triton.runtime.errors.OutOfResources, triton.runtime.errors.PTXASError)
    best, best_time = None, float("inf")
    with trial_sets(device, problem, sets) as trial:
        for tile in tiles:
            enqueue = _enqueue(torch, device, tile, problem, trial, stream)
            try:
                run_all(enqueue, len(trial), device)
            except too_much:
                continue
            time = seconds(enqueue, len(trial), stream, best_time)
            if time < best_time:
                best, best_time = tile, time
        device.synchronize()
    return best


def _enqueue(torch: Any, device: CudaDevice, tile: Tile, problem: Problem, sets: Sequence[OperandSet],
             stream: int) -> Enqueue:  # fmt: skip
    from gemmsmith.run.baselines.triton_kernel import gemm

    operands = all_views(torch, device.ordinal, problem, sets)
    ours = torch.cuda.ExternalStream(stream, device=device.ordinal)
    grid = (ceil_div(problem.m, tile.bm) * ceil_div(problem.n, tile.bn),)
    # With alpha = 0 neither A nor B may be read: a K of 0 reads nothing.
    terms = problem.k if problem.alpha != 0 else 0
    even = not (problem.m % tile.bm or problem.n % tile.bn or terms % tile.bk)

    def enqueue(index: int) -> None:
        a, b, c = operands[index]
        with torch.cuda.stream(ours):
            gemm[grid](
                a, b, c, problem.m, problem.n, terms,
                a.stride(0), a.stride(1), b.stride(0), b.stride(1), c.stride(0), problem.alpha, problem.beta,
                BM=tile.bm, BN=tile.bn, BK=tile.bk, GROUP=tile.group, EVEN=even, READ_C=problem.beta != 0,
                num_warps=tile.warps, num_stages=tile.stages,
            )  # fmt: skip

    return enqueue


def _digest(tile: Tile) -> str:
    source = Path(__file__).with_name("triton_kernel.py").read_bytes()
    return hashlib.sha256(source + str(tile).encode()).hexdigest()
