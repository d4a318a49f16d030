"""Which mistakes of the Hopper rungs compute-sanitizer reports on a GPU; ours reports all of them without one.

    PYTHONPATH=src python benchmarks/sanitize_hopper.py OUTPUT.json        (needs an sm_90 GPU and compute-sanitizer)

Every mistake of tests/mutants/hopper_catalogue.py is launched once, in a process of its own, under memcheck, racecheck
and synccheck. A kernel that hangs is stopped.
"""

from __future__ import annotations

import argparse
import datetime
import json
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "mutants"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))

from hopper_catalogue import LOOPS, MISTAKES
from hopper_mistake import Mistake
from mutant import Mutant, Trial

from gemmsmith import __version__
from gemmsmith.compile import render
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.compile.compiler import compile_for
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.run.cuda import cuda_device
from gemmsmith.verify.harness import verify_launch

# Of the loop that several rungs share, the mistakes in one of them.
CHOSEN = [m for m in MISTAKES if m not in LOOPS or m.rung == "wgmma_specialized"]
TOOLS = ("memcheck", "racecheck", "synccheck")
_SEEN, _TIMEOUT_S, _HANG_S = 9, 25, 12


def compile_copy(spec: KernelSpec, config: Config, problem: Problem, arch: str) -> CompiledKernel:
    """With the headers beside a copied kernel, which may be edited, instead of the package's own.

    Prologues are not copied: they have the package's headers.
    """
    headers = spec.source.parent / "include"
    if not headers.is_dir():
        return compile_for(spec, config, problem, arch)
    with patch.object(render, "own_headers", lambda: headers):
        return compile_for(spec, config, problem, arch)


def launch(mistake: Mistake) -> None:
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial(mistake.shape, out_dtype=mistake.out_dtype, layout=mistake.layout)
        spec = Mutant(mistake.name, mistake.rung, mistake.name, mistake.edits, trial, "race").write(Path(folder))
        config = spec.config({**dict(spec.small), **dict(mistake.config)})
        verdict = verify_launch(cuda_device(), spec, config, trial.problem(spec), compile_fn=compile_copy,
                                fill="integers", mode="exact", guard_bytes=0)  # fmt: skip
    print("WRONG" if not verdict.trusted else "RIGHT")


def sanitize(number: int, tool: str) -> dict[str, Any]:
    """``tool`` '' runs the kernel without a sanitizer."""
    under = ["compute-sanitizer", "--tool", tool, "--error-exitcode", str(_SEEN)] if tool else []
    command = [*under, sys.executable, __file__, "--launch", str(number)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False,
                              timeout=_TIMEOUT_S if tool else _HANG_S)  # fmt: skip
    except subprocess.TimeoutExpired:
        return {"seen": False, "state": "hangs"}
    state = next((word.lower() for word in ("WRONG", "RIGHT") if word in done.stdout), "error")
    lines = [line.strip("= ") for line in done.stdout.splitlines() if "SUMMARY" in line]
    return {"seen": done.returncode == _SEEN, "state": state, "summary": lines[-1] if lines else done.stderr[-200:]}


def under_all(number: int) -> dict[str, dict[str, Any]]:
    """The kernel alone, and under each tool unless it hangs."""
    alone = sanitize(number, "")
    skipped = {"seen": False, "state": "not run: it hangs"}
    return {"": alone, **{tool: skipped if alone["state"] == "hangs" else sanitize(number, tool) for tool in TOOLS}}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path, nargs="?")
    parser.add_argument("--launch", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--jobs", type=int, default=12)
    parser.add_argument("--known", type=Path, help="a recording whose mistakes are not run again")
    options = parser.parse_args()
    if options.launch is not None:
        launch(CHOSEN[options.launch])
        return 0
    if options.output is None or shutil.which("compute-sanitizer") is None:
        print("give an output file; compute-sanitizer must be on PATH", file=sys.stderr)
        return 3
    device = cuda_device()
    rows: list[dict[str, Any]] = json.loads(options.known.read_text())["rows"] if options.known else []
    known = {row["mistake"] for row in rows}
    numbers = [number for number, mistake in enumerate(CHOSEN) if mistake.name not in known]
    with ThreadPoolExecutor(options.jobs) as pool:
        done = {pool.submit(under_all, number): CHOSEN[number] for number in numbers}
        for future in as_completed(done):
            mistake, tools = done[future], future.result()
            seen = [tool for tool in TOOLS if tools[tool]["seen"]]
            rows.append({"mistake": mistake.name, "rung": mistake.rung, "ours": mistake.words,
                         "on_the_gpu": tools[""]["state"], "sanitizer": seen,
                         "tools": {tool: tools[tool] for tool in TOOLS}})  # fmt: skip
            options.output.write_text(json.dumps(_record(rows, device), indent=1) + "\n", encoding="utf-8")
    print(f"{len(rows)} mistakes: ours reports all, compute-sanitizer {sum(bool(row['sanitizer']) for row in rows)}")
    return 0


def _record(rows: list[dict[str, Any]], device: Any) -> dict[str, Any]:
    return {
        "what": "mistakes of the Hopper rungs under compute-sanitizer", "origin": "measured", "gpu": device.name,
        "driver_cuda": device.driver_version, "gemmsmith": __version__,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": "python benchmarks/sanitize_hopper.py OUTPUT.json", "mistakes": len(rows),
        "seen_by_both": sum(bool(row["sanitizer"]) for row in rows), "rows": rows,
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
