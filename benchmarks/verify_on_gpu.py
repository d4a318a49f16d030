"""Verify the whole ladder on a GPU and record it: edge matrix, 4096³, bit-identity with the simulator, sanitizers.

    python benchmarks/verify_on_gpu.py benchmarks/results/gpu_verification.json

Writes one JSON file with cases, machine and outcome; exits 1 if anything failed. `--rungs NAMES --append
RECORD` verifies some rungs and writes RECORD with their results replacing older ones.
"""

from __future__ import annotations

import argparse
import datetime
import json
import multiprocessing
import platform
import shutil
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from gemmsmith import __version__
from gemmsmith.call.binding import bind, workspace_bytes
from gemmsmith.compile.compiler import compile_for
from gemmsmith.fills import operands
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import Addresses, KernelSpec
from gemmsmith.ladder.registry import rung_named, rungs
from gemmsmith.problem import ACTIVATIONS, BIASES, INT32, OUTPUTS, Problem
from gemmsmith.run.cuda import cuda_device
from gemmsmith.run.device import Device
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


def configurations(spec: KernelSpec) -> list[Config]:
    return list(dict.fromkeys([spec.config(), *(preset.config for preset in spec.presets)]))


def edge_part(name: str, index: int, part: int, parts: int) -> dict[str, Any]:
    """Every ``parts``-th case of a configuration's edge matrix: compilation dominates, so processes share it."""
    spec = rung_named(name)
    config = configurations(spec)[index]
    device = cuda_device()
    passed, failures = 0, []
    for number, case in enumerate(edge_cases(spec, config, "full")):
        if case.skip or number % parts != part:
            continue
        verdict = verify_launch(device, spec, config, case.problem, compile_fn=compile_for, fill=case.fill,
                                seed=case.seed, offsets=case.offsets, mode=case.mode)  # fmt: skip
        passed += verdict.ok
        if not verdict.ok:
            failures.append(str(verdict))
    return {"passed": passed, "failures": failures}


def large(name: str, size: int) -> dict[str, Any]:
    spec = rung_named(name)
    problem = Problem(size, size, size, dtype=spec.dtypes[0])
    verdict = verify_launch(cuda_device(), spec, spec.config(), problem, compile_fn=compile_for, mode="projection")
    return {
        "size": size,
        "ok": verdict.trusted,
        "rho": verdict.rho,
        "gate": verdict.gate,
        "reasons": list(verdict.reasons),
    }


def product(device: Device, spec: KernelSpec, problem: Problem, seed: int) -> np.ndarray[Any, Any]:
    """C as the device computes it, from the same PTX or the cubin made from it."""
    data = operands(problem, "normal", seed)
    filled = [data.a, data.b, data.c, *([data.bias] if data.bias is not None else [])]
    addresses = [upload(device, values) for values in filled]
    places = Addresses(*addresses)
    workspace = device.allocate(workspace_bytes(spec, spec.config(), problem, places))
    for step in bind(device, spec, spec.config(), problem, places, workspace):
        device.launch(step.loaded, step.launch)
    device.synchronize()
    result = device.read(addresses[2], problem.m * problem.n * problem.out_dtype.itemsize)
    for address in (*addresses, workspace):
        device.free(address)
    return result


def variant(spec: KernelSpec, i: int) -> Problem:
    """The i-th shape, with a different type, layout, output and epilogue each time, as far as the rung takes them."""
    m, n, k = SHAPES[i]
    alpha, beta = (1.0, 0.7)[i % 2], (0.0, -1.3)[i // 2 % 2]
    dtype = spec.dtypes[i % len(spec.dtypes)]
    layout = spec.layouts[i // len(spec.dtypes) % len(spec.layouts)]
    outputs = [out for out in OUTPUTS[dtype] if out in spec.out_dtypes]
    out = outputs[i // 3 % len(outputs)]
    bias, activation = (BIASES[i % 3], ACTIVATIONS[i % 4]) if spec.epilogue and i % 2 else ("", "")
    if out == INT32:
        alpha, beta, activation = 1.0, 0.0, ""
    return Problem(m, n, k, dtype, out, alpha, beta, trans_a=layout[0] == "T", trans_b=layout[1] == "T", bias=bias,
                   activation=activation)  # fmt: skip


def bit_identity(name: str) -> dict[str, Any]:
    spec, gpu = rung_named(name), cuda_device()
    if not spec.simulated:
        return {"shapes": 0, "different": [], "note": "the simulator does not run it"}
    different = []
    for i in range(len(SHAPES)):
        problem = variant(spec, i)
        if not np.array_equal(product(gpu, spec, problem, i), product(SimDevice(gpu.arch), spec, problem, i)):
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
    parser.add_argument("--jobs", type=int, default=6, help="processes, and as many sanitizer runs, at a time")
    parser.add_argument("--tools", default="memcheck,racecheck,initcheck,synccheck")
    parser.add_argument("--rungs", default="", help="names, separated by commas; default: all")
    parser.add_argument("--append", type=Path, help="a record to which the results are added")
    options = parser.parse_args()
    chosen = [rung_named(name) for name in options.rungs.split(",") if name] or list(rungs())
    gpu = cuda_device()
    started = time.time()
    compiler = compile_for(rungs()[0], rungs()[0].config(), Problem(1, 1, 1), gpu.arch).compiler
    record: dict[str, Any] = {
        "what": "verification of the ladder on a GPU", "origin": "measured", "gpu": gpu.name, "arch": gpu.arch,
        "driver_cuda": gpu.driver_version, "compiler": compiler, "gemmsmith": __version__,
        "python": platform.python_version(), "machine": platform.machine(),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(), "size": options.size,
        "command": " ".join(["python benchmarks/verify_on_gpu.py OUTPUT.json",
                             *(word for word in sys.argv[1:] if word != str(options.output))]),
        "rungs": {},
    }  # fmt: skip
    if options.append is not None:
        older = json.loads(options.append.read_text(encoding="utf-8"))
        if other := [fact for fact in ("gpu", "arch", "driver_cuda", "compiler") if older[fact] != record[fact]]:
            sys.exit(f"{options.append} was made with another {', '.join(other)}: verify all rungs again")
        started -= older.get("seconds", 0.0)  # of both
        record |= {"rungs": older["rungs"], "command": f"{older['command']} && {record['command']}"}
    tools = [tool for tool in options.tools.split(",") if tool]
    spawned = multiprocessing.get_context("spawn")
    with ThreadPoolExecutor(options.jobs) as pool, ProcessPoolExecutor(options.jobs, mp_context=spawned) as workers:
        # The slow ones first: tensor-core rungs have about fifty variants to compile.
        for_tensor_cores = sorted(chosen, key=lambda s: not s.tensor_cores)
        edges = {s.name: [workers.submit(edge_part, s.name, index, part, parts)
                          for parts in (8 if s.tensor_cores else 1,)
                          for index in range(len(configurations(s))) for part in range(parts)]
                 for s in for_tensor_cores}  # fmt: skip
        others = {s.name: (workers.submit(large, s.name, options.size), workers.submit(bit_identity, s.name))
                  for s in for_tensor_cores}  # fmt: skip
        checks = {(s.name, tool): pool.submit(sanitize, s, tool) for s in chosen for tool in tools}
        for spec in chosen:
            parts = [future.result() for future in edges[spec.name]]
            result: dict[str, Any] = {
                "edge_matrix": {"passed": sum(p["passed"] for p in parts),
                                "failures": [text for p in parts for text in p["failures"]]},
                "large": others[spec.name][0].result(), "bit_identity": others[spec.name][1].result(),
                "sanitizer": {tool: checks[spec.name, tool].result() for tool in tools},
            }  # fmt: skip
            record["rungs"][spec.name] = {"ok": is_fine(result), **result}
            print(summary(spec.name, result), flush=True)
            options.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    good = all(result["ok"] for result in record["rungs"].values())
    record["ok"], record["seconds"] = good, round(time.time() - started, 1)
    options.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
