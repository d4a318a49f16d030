"""How close correct kernels come to the gates of verification, by type, distribution and K.

    python benchmarks/calibrate_gates.py benchmarks/results/h200_gate_calibration.json --device gpu
    python benchmarks/calibrate_gates.py benchmarks/results/sim_gate_calibration.json --device sim --largest-k 256

Every rung multiplies 64×K by K×64 in each of its types (TF32 rounded and truncated). Recorded is the largest ρ as a
fraction of the gate (src/gemmsmith/verify/oracles/bounds.py). A gate must also be able to fail: one term of every sum
is dropped from the kernel's result, and the share of outputs where that exceeds the gate is recorded too. On a GPU this
needs torch, for operands. The file is written after each rung; exits 1 if a gate was exceeded.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import platform
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gemmsmith import __version__, gemm
from gemmsmith.compile.compiler import compile_for
from gemmsmith.errors import GemmsmithError
from gemmsmith.fills import Array, Operands, operands
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import rung_named, rungs
from gemmsmith.problem import FP32, INT8, TF32, DType, Problem, arithmetic_of
from gemmsmith.run.cuda import cuda_device
from gemmsmith.sim.device import SimDevice
from gemmsmith.verify.oracles.compare import Arithmetic, compare

DEPTHS = (16, 64, 256, 1024, 4096, 16384)
SIZE = 64
SIMULATED_DEPTH = 1024  # beyond it the simulator takes minutes per rung
# Each with the fill it is made from, which decides whether errors grow with the partial sums.
DISTRIBUTIONS = {"normal": "normal", "uniform": "uniform", "wide": "wide", "cancelling": "uniform"}


@dataclass(frozen=True)
class Variant:
    """One rung in one type; ``type`` is its name in the table."""

    spec: KernelSpec
    dtype: DType
    type: str
    changes: tuple[tuple[str, int], ...] = ()

    def problem(self, k: int) -> Problem:
        layout = "NN" if "NN" in self.spec.layouts else self.spec.layouts[0]
        return Problem(SIZE, SIZE, k, self.dtype, trans_a=layout[0] == "T", trans_b=layout[1] == "T")


def variants(spec: KernelSpec) -> Iterator[Variant]:
    for dtype in spec.dtypes:
        arithmetic = arithmetic_of(dtype, spec.tensor_cores)
        if dtype == TF32 and any(p.name == "ROUND" for p in spec.parameters):
            yield Variant(spec, dtype, "tf32, rounded", (("ROUND", 1),))
            yield Variant(spec, dtype, "tf32, cut off", (("ROUND", 0),))
        else:
            yield Variant(spec, dtype, arithmetic if arithmetic == dtype.name else f"{dtype}, summed in {arithmetic}")


def data_of(problem: Problem, distribution: str, seed: int) -> Operands:
    """Operands as stored. 'cancelling' is positive terms, then as many negative ones: the sum is small, but the
    partial sums are as large as those of 'uniform'."""
    # Fills of TF32 may hold TF32 numbers; fp32 ones, which are multiplied as TF32, have bits to lose.
    full = replace(problem, dtype=FP32) if problem.dtype == TF32 else problem
    data = operands(full, DISTRIBUTIONS[distribution], seed)
    if distribution != "cancelling":
        return data
    b = data.b.copy()
    last = np.s_[:, problem.k // 2 :] if problem.trans_b else np.s_[problem.k // 2 :]
    b[last] = -b[last]
    return replace(data, b=b)


def product(variant: Variant, problem: Problem, data: Operands, on_gpu: bool) -> Array:
    """C, as a caller gets it."""
    left, right = (_on_gpu(data.a), _on_gpu(data.b)) if on_gpu else (data.a, data.b)
    result = gemm(
        left.T if problem.trans_a else left, right.T if problem.trans_b else right, kernel=variant.spec,
        config=dict(variant.changes), dtype=problem.dtype.name,
    )  # fmt: skip
    found: Array = result.cpu().numpy() if on_gpu else result
    return found


def _on_gpu(values: Array) -> Any:
    import torch

    if values.dtype.name == "bfloat16":  # torch does not know NumPy's
        return torch.from_numpy(values.view(np.int16)).view(torch.bfloat16).cuda()
    return torch.from_numpy(values).cuda()


def measure(variant: Variant, distribution: str, k: int, seeds: int, on_gpu: bool) -> dict[str, Any]:
    """The largest ρ over all outputs and seeds, and in how many outputs a dropped term would be seen."""
    problem = variant.problem(k)
    fill, how = DISTRIBUTIONS[distribution], Arithmetic(variant.spec.tensor_cores)
    worst, gate, caught = 0.0, 0.0, []
    for seed in range(seeds):
        data = data_of(problem, distribution, seed)
        got = product(variant, problem, data, on_gpu)
        found = compare("float", problem, variant.spec.signature, data, got, fill, seed, how)
        # NaN counts as the worst: np.max and np.maximum keep it.
        worst, gate = float(np.maximum(worst, np.max(found.ratios))), found.gate
        less = (got.astype(np.float64) - one_term(problem, data, seed)).astype(np.float32)
        caught.append(compare("float", problem, variant.spec.signature, data, less, fill, seed, how).wrong.mean())
    return {
        "rung": variant.spec.name, "type": variant.type, "distribution": distribution, "k": k, "seeds": seeds,
        "rho": _plain(worst), "gate": gate, "fraction": _plain(worst / gate), "caught": float(np.mean(caught)),
    }  # fmt: skip


def one_term(problem: Problem, data: Operands, seed: int) -> Array:
    """One random term of each output's sum."""
    a = (data.a.T if problem.trans_a else data.a).astype(np.float64)
    b = (data.b.T if problem.trans_b else data.b).astype(np.float64)
    rows, columns = np.indices(problem.c_shape)
    chosen = np.random.default_rng(seed).integers(0, problem.k, problem.c_shape)
    terms: Array = a[rows, chosen] * b[chosen, columns]
    return terms


def _plain(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def within(row: dict[str, Any]) -> bool:
    return isinstance(row["fraction"], float) and row["fraction"] <= 1


def table(rows: list[dict[str, Any]]) -> str:
    """The largest fraction of the gate by type and distribution."""
    lines = [f"{'type':24}" + "".join(f"{name:>12}" for name in DISTRIBUTIONS)]
    for kind in dict.fromkeys(row["type"] for row in rows):
        mine = [row for row in rows if row["type"] == kind]
        cells = []
        for name in DISTRIBUTIONS:
            found = [float(row["fraction"]) for row in mine if row["distribution"] == name]
            cells.append(f"{np.max(found):>12.3f}" if found else f"{'':12}")
        lines.append(f"{kind:24}{''.join(cells)}")
    return "\n".join(lines)


def header(options: argparse.Namespace) -> dict[str, Any]:
    device = cuda_device() if options.device == "gpu" else SimDevice()
    compiler = compile_for(rungs()[0], rungs()[0].config(), Problem(1, 1, 1), device.arch).compiler
    facts: dict[str, Any] = {
        "what": "errors of honest kernels as fractions of verification's gates",
        "origin": "measured" if options.device == "gpu" else "simulated", "device": device.name, "arch": device.arch,
        "compiler": compiler, "gemmsmith": __version__, "python": platform.python_version(), "numpy": np.__version__,
        "machine": platform.machine(), "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": f"python benchmarks/calibrate_gates.py OUTPUT.json --device {options.device} "
        f"--largest-k {options.largest_k} --seeds {options.seeds}",
        "m": SIZE, "n": SIZE, "seeds": options.seeds,
    }  # fmt: skip
    if options.device == "gpu":
        facts["driver_cuda"] = cuda_device().driver_version
    return facts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--device", choices=("sim", "gpu"), required=True)
    parser.add_argument("--largest-k", type=int, default=0, help="default: 16384 on a GPU, 1024 on the simulator")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rungs", default="", help="names, separated by commas; default: all")
    options = parser.parse_args()
    most = DEPTHS[-1] if options.device == "gpu" else SIMULATED_DEPTH
    options.largest_k = min(options.largest_k or most, most)
    wanted = [rung_named(name) for name in options.rungs.split(",")] if options.rungs else rungs()
    started = time.time()
    record: dict[str, Any] = {**header(options), "rows": [], "refused": []}
    for spec in wanted:
        for variant in variants(spec):
            try:
                record["rows"] += [
                    measure(variant, distribution, k, options.seeds, options.device == "gpu")
                    for distribution in DISTRIBUTIONS if distribution != "wide" or variant.dtype != INT8
                    for k in DEPTHS if k <= options.largest_k
                ]  # fmt: skip
            except GemmsmithError as error:  # a rung for another GPU, or one that is not simulated
                record["refused"].append({"rung": spec.name, "type": variant.type, "why": error.message})
        record["seconds"] = round(time.time() - started, 1)
        options.output.write_text(json.dumps(record, indent=1, allow_nan=False) + "\n", encoding="utf-8")
        print(f"{spec.name:20} {time.time() - started:6.0f} s", flush=True)
    print(table(record["rows"]))
    for refused in record["refused"]:
        print(f"{refused['rung']} in {refused['type']}: {refused['why']}")
    beyond = [row for row in record["rows"] if not within(row)]
    for row in beyond:
        print(f"beyond its gate: {row}")
    return 1 if beyond else 0


if __name__ == "__main__":
    sys.exit(main())
