"""Digests of what an H200 computes with every Hopper rung, and in configurations beside the default ones.

    python benchmarks/hopper_digests.py tests/data/hopper_digests.json

The simulator must give the same bits: tests/ladder/test_hopper_bits.py.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import json
import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from verify_on_gpu import SHAPES, variant

from gemmsmith.call.binding import bind, workspace_bytes
from gemmsmith.compile.compiler import compile_for
from gemmsmith.fills import operands
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import Addresses, KernelSpec
from gemmsmith.ladder.registry import rung_named, rungs
from gemmsmith.problem import Problem
from gemmsmith.run.cuda import cuda_device
from gemmsmith.run.device import Device
from gemmsmith.run.memory import upload

CLUSTER, IN_REGISTERS = "wgmma_cluster", "fp32_wgmma_registers"
_SMALL = {"BM": 64, "BN": 64, "STAGES": 2, "CONSUMERS": 1, "CLUSTER_M": 1}
# What a configuration changes, by the name that tests and the file have for it.
CONFIGURATIONS: dict[str, tuple[str, dict[str, int]]] = {
    "swap-24": (CLUSTER, _SMALL | {"SWAP": 1, "BN": 24}),
    "swap-8": (CLUSTER, _SMALL | {"SWAP": 1, "BN": 8}),
    "swap-200": (CLUSTER, {"SWAP": 1, "BM": 128, "BN": 200, "STAGES": 3, "CLUSTER_M": 2}),
    "swap-104-slices-3": (CLUSTER, _SMALL | {"SWAP": 1, "BN": 104, "SLICES": 3}),
    "slices-2": (CLUSTER, _SMALL | {"SLICES": 2, "CLUSTER_M": 2}),
    "slices-5": (CLUSTER, _SMALL | {"SLICES": 5, "BN": 48}),
    "slices-16": (CLUSTER, _SMALL | {"SLICES": 16, "BM": 128, "CONSUMERS": 2}),
    "cluster-2x2": (CLUSTER, _SMALL | {"CLUSTER_M": 2, "CLUSTER_N": 2}),
    "cluster-4x1": (CLUSTER, _SMALL | {"CLUSTER_M": 4, "BN": 128}),
    "cluster-1x4": (CLUSTER, _SMALL | {"CLUSTER_N": 4, "BM": 256, "CONSUMERS": 2}),
    "registers-split-2": (IN_REGISTERS, {"BM": 64, "BN": 16, "STAGES": 2, "SPLIT": 2}),
    "registers-split-8-swap": (IN_REGISTERS, {"BM": 64, "BN": 32, "STAGES": 2, "SPLIT": 8, "SWAP": 1}),
    "registers-swap-128": (IN_REGISTERS, {"BN": 128, "STAGES": 2, "SWAP": 1, "COMPENSATED": 0}),
    "registers-192": (IN_REGISTERS, {"BM": 192, "BN": 32, "STAGES": 2, "SPLIT": 4}),
}
OF_A_CONFIGURATION = (3, 5, 11, 12, 15, 18, 19, 20)  # shapes: indices of SHAPES


def product(device: Device, spec: KernelSpec, config: Config, problem: Problem, seed: int,
            compile_fn: Callable[..., Any] = compile_for) -> bytes:  # fmt: skip
    """C, from the same operands on every device."""
    data = operands(problem, "normal", seed)
    filled = [data.a, data.b, data.c, *([data.bias] if data.bias is not None else [])]
    places = Addresses(*(upload(device, values) for values in filled))
    workspace = device.allocate(workspace_bytes(spec, config, problem, places))
    for step in bind(device, spec, config, problem, places, workspace, compile_fn):
        device.launch(step.loaded, step.launch)
    device.synchronize()
    return device.read(places.c, problem.m * problem.n * problem.out_dtype.itemsize).tobytes()


def digest(device: Device, spec: KernelSpec, config: Config, number: int,
           compile_fn: Callable[..., Any] = compile_for) -> dict[str, str]:  # fmt: skip
    """The digest of the product number ``number`` of ``SHAPES``."""
    problem = variant(spec, number)
    computed = product(device, spec, config, problem, number, compile_fn)
    return {"problem": str(problem), "sha256": hashlib.sha256(computed).hexdigest()[:32]}


def configured(name: str) -> tuple[KernelSpec, Config]:
    """A rung in its default configuration, or one of ``CONFIGURATIONS``."""
    rung, changes = CONFIGURATIONS.get(name, (name, {}))
    spec = rung_named(rung)
    return spec, spec.config(changes)


def _recorded(work: tuple[str, int]) -> dict[str, str]:
    return digest(cuda_device(), *configured(work[0]), work[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--processes", type=int, default=8)
    given = parser.parse_args()
    hopper = [spec.name for spec in rungs() if spec.arch_specific]
    works = [(name, number) for name in hopper for number in range(len(SHAPES))]
    works += [(name, number) for name in CONFIGURATIONS for number in OF_A_CONFIGURATION]
    with ProcessPoolExecutor(given.processes, mp_context=multiprocessing.get_context("spawn")) as pool:
        digests = dict(zip(works, pool.map(_recorded, works), strict=True))
    found: dict[str, dict[str, dict[str, str]]] = {}
    for (name, number), its in digests.items():
        found.setdefault(name, {})[str(number)] = its
    record = {
        "what": "sha256 (first 32 digits) of C as an H200 computes it, for the shapes and variants of "
        "benchmarks/verify_on_gpu.py; configurations: those of benchmarks/hopper_digests.py",
        "origin": "measured",
        "gpu": cuda_device().name,
        "compiler": "NVRTC 13.0",
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "rungs": {name: found[name] for name in hopper},
        "configurations": {name: found[name] for name in CONFIGURATIONS},
    }
    given.path.write_text(json.dumps(record, indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
