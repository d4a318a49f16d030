"""Verify the whole ladder on a GPU and record it: edge matrix, 4096³, bit-identity with the simulator, sanitizers.

    python benchmarks/verify_on_gpu.py benchmarks/results/gpu_verification.json

Writes one JSON file with what was run, on what, and how it ended; exits 1 if anything failed.
"""

from __future__ import annotations

import argparse
import datetime
import json
import platform
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from gemmsmith import __version__
from gemmsmith.compile.compiler import compile_kernel
from gemmsmith.fills import operands
from gemmsmith.kernels.registry import rungs
from gemmsmith.kernels.spec import Config, KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.run.cuda import cuda_device
from gemmsmith.run.device import Device, Launch
from gemmsmith.run.memory import upload
from gemmsmith.sim.device import SimDevice
from gemmsmith.verify.cases import edge_cases
from gemmsmith.verify.harness import verify_launch

# Ragged, aligned, thin, deep and tiny; alpha and beta vary with the index.
SHAPES = [
    (1, 1, 1), (1, 17, 3), (31, 1, 64), (33, 31, 32), (64, 64, 64), (65, 63, 66), (128, 128, 16), (127, 129, 15),
    (129, 127, 17), (200, 72, 40), (72, 200, 33), (5, 300, 100), (300, 5, 100), (96, 96, 1), (96, 96, 0),
    (160, 160, 160), (130, 258, 64), (258, 130, 24), (16, 16, 777), (191, 193, 131), (256, 256, 256), (100, 100, 100),
]  # fmt: skip


def compile_for(spec: KernelSpec, config: Config, problem: Problem, arch: str) -> Any:
    return compile_kernel(
        spec, config, dtype=problem.dtype, trans_a=problem.trans_a, trans_b=problem.trans_b, arch=arch
    )


def edge_matrix(device: Device, spec: KernelSpec) -> dict[str, Any]:
    passed, failures = 0, []
    for config in {p.config for p in spec.presets} | {spec.config()}:
        for case in edge_cases(spec, config, "full"):
            if case.skip:
                continue
            verdict = verify_launch(device, spec, config, case.problem, compile_fn=compile_for, fill=case.fill,
                                    seed=case.seed, offsets=case.offsets, mode=case.mode)  # fmt: skip
            passed += verdict.ok
            if not verdict.ok:
                failures.append(str(verdict))
    return {"passed": passed, "failures": failures}


def large(device: Device, spec: KernelSpec, size: int) -> dict[str, Any]:
    problem = Problem(size, size, size, dtype=spec.dtypes[0])
    verdict = verify_launch(device, spec, spec.config(), problem, compile_fn=compile_for, mode="projection")
    return {
        "size": size,
        "ok": verdict.trusted,
        "rho": verdict.rho,
        "gate": verdict.gate,
        "reasons": list(verdict.reasons),
    }


def product(device: Device, spec: KernelSpec, problem: Problem, seed: int) -> np.ndarray[Any, Any]:
    """C as the device computes it, from the very same PTX or the cubin made with it."""
    data = operands(problem, "normal", seed)
    compiled = compile_for(spec, spec.config(), problem, "sm_90")
    addresses = [upload(device, values) for values in (data.a, data.b, data.c)]
    launch = Launch(spec.geometry(problem, spec.config()), spec.signature.pack(problem, *addresses))
    device.launch(device.load(compiled), launch)
    device.synchronize()
    result = device.read(addresses[2], problem.m * problem.n * 4).view(np.uint32)
    for address in addresses:
        device.free(address)
    return result


def bit_identity(gpu: Device, spec: KernelSpec) -> dict[str, Any]:
    different = []
    for i, (m, n, k) in enumerate(SHAPES):
        alpha, beta = (1.0, 0.7)[i % 2], (0.0, -1.3)[i // 2 % 2]
        problem = Problem(m, n, k, dtype=spec.dtypes[i % len(spec.dtypes)], alpha=alpha, beta=beta)
        if not np.array_equal(product(gpu, spec, problem, i), product(SimDevice(), spec, problem, i)):
            different.append(str(problem))
    return {"shapes": len(SHAPES), "different": different}


def sanitize(spec: KernelSpec, tool: str) -> dict[str, Any]:
    """compute-sanitizer over one ragged and one aligned launch."""
    program = shutil.which("compute-sanitizer")
    if program is None:
        return {"ok": False, "summary": "compute-sanitizer is not installed"}
    summaries = []
    for m, n, k in ((129, 131, 37), (128, 128, 64)):
        command = [program, "--tool", tool, "--error-exitcode", "9", sys.executable, "-m", "gemmsmith", "run"]
        command += [spec.name, "--m", str(m), "--n", str(n), "--k", str(k), "--beta", "0.5", "--device", "gpu"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        lines = [line for line in done.stdout.splitlines() if "SUMMARY" in line]
        summaries.append(lines[-1].strip("= ") if lines else f"no summary: {done.stdout[-200:]}{done.stderr[-300:]}")
        if done.returncode != 0:
            return {"ok": False, "summary": "; ".join(summaries), "output": done.stdout[-2000:]}
    return {"ok": True, "summary": summaries[-1]}


def is_fine(result: dict[str, Any]) -> bool:
    return (
        not result["edge_matrix"]["failures"]
        and result["large"]["ok"]
        and not result["bit_identity"]["different"]
        and all(tool["ok"] for tool in result["sanitizer"].values())
    )


def summary(name: str, result: dict[str, Any]) -> str:
    edges, bits, large_run = result["edge_matrix"], result["bit_identity"], result["large"]
    unclean = [tool for tool, outcome in result["sanitizer"].items() if not outcome["ok"]]
    text = (
        f"{name:16} {'ok' if is_fine(result) else 'FAILED'}: {edges['passed']} edge cases passed, "
        f"{len(edges['failures'])} failed; rho {large_run['rho']:.2f} at {large_run['size']}; "
        f"{bits['shapes'] - len(bits['different'])}/{bits['shapes']} bit-identical; sanitizer {unclean or 'clean'}"
    )
    return text if is_fine(result) else text + "\n" + json.dumps(result, indent=1)[:3000]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--jobs", type=int, default=6, help="sanitizer runs at a time")
    parser.add_argument("--tools", default="memcheck,racecheck,initcheck,synccheck")
    options = parser.parse_args()
    gpu = cuda_device()
    started = time.time()
    compiler = compile_for(rungs()[0], rungs()[0].config(), Problem(1, 1, 1), gpu.arch).compiler
    record: dict[str, Any] = {
        "what": "verification of the ladder on a GPU", "origin": "measured", "gpu": gpu.name, "arch": gpu.arch,
        "driver_cuda": gpu.driver_version, "compiler": compiler, "gemmsmith": __version__,
        "python": platform.python_version(), "machine": platform.machine(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(), "size": options.size,
        "command": "python benchmarks/verify_on_gpu.py OUTPUT.json",
        "rungs": {},
    }  # fmt: skip
    with ThreadPoolExecutor(options.jobs) as pool:
        tools = [tool for tool in options.tools.split(",") if tool]
        checks = {(s.name, tool): pool.submit(sanitize, s, tool) for s in rungs() for tool in tools}
        for spec in rungs():
            result: dict[str, Any] = {
                "edge_matrix": edge_matrix(gpu, spec), "large": large(gpu, spec, options.size),
                "bit_identity": bit_identity(gpu, spec),
                "sanitizer": {tool: checks[spec.name, tool].result() for tool in tools},
            }  # fmt: skip
            record["rungs"][spec.name] = {"ok": is_fine(result), **result}
            print(summary(spec.name, result), flush=True)
    good = all(result["ok"] for result in record["rungs"].values())
    record["ok"], record["seconds"] = good, round(time.time() - started, 1)
    options.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
