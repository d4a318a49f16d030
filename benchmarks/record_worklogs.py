"""Measure on a GPU what the worklogs' claims come down to.

    python benchmarks/record_worklogs.py --measure [--name h200]   needs a GPU; ncu too, where it is installed

Writes benchmarks/results/NAME_worklogs.json. `python benchmarks/update_docs.py` then makes the package's copy and the
tables of docs/worklogs.md. Their ladders on their authors' GPUs are predicted by time_model.py.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"
KERNELS = ROOT / "src" / "gemmsmith" / "learn" / "worklogs" / "kernels"
STRIDE = "stride_of_eight.cu"
VARIANTS = {"as published": (), "A padded by 1": ("-DPAD=1",), "A padded by 4": ("-DPAD=4",),
            "B by groups of four": ("-DCOLUMNS_OF_FOUR=1",)}  # fmt: skip
BYTES = (0, 8192, 16384, 32768, 65536, 98304)  # of dynamic shared memory, so that fewer blocks are resident
TIMED = ("--shapes", "4096", "--against", "none", "--budget", "2", "--quick", "--no-db")
LADDER = ("block_tile_2d", "vectorized")  # the two of the profiling worklog, in its configuration
PRESET = ("--preset", "128x128x8-8x8")
SEEDS = range(8)
STALL = "smsp__average_warps_issue_stalled_not_selected_per_issue_active.ratio"
SEEN = ("gpu__time_duration.sum", "smsp__warps_eligible.avg.per_cycle_active",
        "smsp__warps_active.avg.per_cycle_active", "sm__inst_executed.avg.per_cycle_active", STALL,
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
        "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
        "smsp__sass_inst_executed_op_shared_ld.sum")  # fmt: skip


def gemmsmith(*words: str) -> dict[str, Any]:
    """One command's JSON object, with its command line and exit code."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), os.environ.get("PYTHONPATH", "")))}
    done = subprocess.run([sys.executable, "-m", "gemmsmith", *words, "--json"], cwd=KERNELS, env=environment,
                          capture_output=True, text=True, check=False, timeout=120)  # fmt: skip
    try:
        found = json.loads(done.stdout)
    except ValueError:
        found = {"error": (done.stdout + done.stderr)[-2000:]}
    return {"command": shlex.join(["gemmsmith", *words]), "exit": done.returncode, "found": found}


def timed(*words: str) -> dict[str, Any]:
    made = gemmsmith("bench", *words, *TIMED)
    runs = made["found"].get("measurements", [])
    made["found"] = {"tflops": [run["derived"]["tflops"] for run in runs],
                     "verified": [run["verified"] for run in runs],
                     "machine": made["found"].get("machine", {}), "error": made["found"].get("error", "")}  # fmt: skip
    made["found"]["machine"] = {k: v for k, v in made["found"]["machine"].items() if k in ("gpu", "driver", "compiler")}
    return made


def counted(*words: str) -> dict[str, Any]:
    made = gemmsmith("profile", *words, "--device", "gpu")
    metrics = made["found"].get("metrics", {})
    made["found"] = {name: metrics[name]["value"] for name in SEEN if name in metrics} | {
        name: made["found"][name] for name in ("occupancy", "error") if name in made["found"]
    }
    return made


def ran(file: str, seed: int, *words: str) -> dict[str, Any]:
    made = gemmsmith(
        "run", file, "--device", "gpu", "--m", "512", "--n", "512", "--k", "512", "--seed", str(seed), *words
    )
    made["found"] = {name: made["found"].get(name) for name in ("ok", "wrong", "total", "rho", "error")}
    return made


def measured() -> dict[str, Any]:
    at = ("--m", "4096", "--n", "4096", "--k", "4096")
    return {
        "date": datetime.now().astimezone().isoformat(timespec="seconds"),
        "command": "python benchmarks/record_worklogs.py --measure",
        "conflicts": {name: {"timed": timed(STRIDE, *words), "counted": counted(STRIDE, *words, *at)}
                      for name, words in VARIANTS.items()},
        "ladder": {name: {"timed": timed(name, *PRESET), "counted": counted(name, *PRESET, *at)} for name in LADDER},
        "not selected": {str(extra): counted("eight_kilobytes.cu", "--smem", str(extra), "--m", "2048", "--n", "2048",
                                             "--k", "2048") for extra in BYTES},
        "race": [ran("refilled_buffer.cu", seed) for seed in SEEDS],
        "race cured": [ran("refilled_buffer.cu", seed, "-DFIXED=1") for seed in SEEDS[:3]],
        "transposed": [ran("transposed_read.cu", seed) for seed in SEEDS[:3]],
        "tf32": [ran("tf32_called_fp32.cu", seed, "--dtype", "fp32") for seed in SEEDS[:3]],
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", action="store_true", required=True)
    parser.add_argument("--name", default="h200")
    parser.add_argument("--output", type=Path, default=RESULTS)
    options = parser.parse_args()
    path = options.output / f"{options.name}_worklogs.json"
    path.write_text(json.dumps(measured(), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
