"""Which mutants compute-sanitizer reports on a GPU, compared with our own checker.

    PYTHONPATH=src python benchmarks/sanitize_mutants.py OUTPUT.json        (needs a GPU and compute-sanitizer)

Every mutant of tests/mutants is launched once, in a process of its own, under memcheck, racecheck and synccheck.
"""

from __future__ import annotations

import argparse
import datetime
import json
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "mutants"))

from mutant import Mutant, compiler
from mutant_catalogue import MUTANTS

from gemmsmith import __version__
from gemmsmith.run.cuda import cuda_device
from gemmsmith.verify.harness import verify_launch

TOOLS = ("memcheck", "racecheck", "synccheck")
_SEEN, _TIMEOUT_S = 9, 90


def launch(mutant: Mutant) -> None:
    """Launch a mutant once, on matrices without guards, so that what lies past them is out of bounds."""
    with tempfile.TemporaryDirectory() as folder:
        spec, trial = mutant.write(Path(folder)), mutant.trial
        verdict = verify_launch(cuda_device(), spec, mutant.chosen, trial.problem(spec), compile_fn=compiler,
                                fill=trial.fill, offsets=trial.offsets, mode=trial.mode, guard_bytes=0)  # fmt: skip
    print("WRONG" if not verdict.trusted else "RIGHT")


def sanitize(number: int, tool: str) -> dict[str, Any]:
    command = ["compute-sanitizer", "--tool", tool, "--error-exitcode", str(_SEEN), sys.executable, __file__,
               "--launch", str(number)]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        return {"seen": False, "summary": f"did not end in {_TIMEOUT_S} s"}
    lines = [line.strip("= ") for line in done.stdout.splitlines() if "SUMMARY" in line]
    return {"seen": done.returncode == _SEEN, "wrong": "WRONG" in done.stdout,
            "summary": lines[-1] if lines else (done.stdout + done.stderr)[-300:]}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path, nargs="?")
    parser.add_argument("--launch", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--jobs", type=int, default=12)
    options = parser.parse_args()
    if options.launch is not None:
        launch(MUTANTS[options.launch])
        return 0
    if options.output is None or shutil.which("compute-sanitizer") is None:
        print("give an output file; compute-sanitizer must be on PATH", file=sys.stderr)
        return 3
    with ThreadPoolExecutor(options.jobs) as pool:
        runs = {(n, tool): pool.submit(sanitize, n, tool) for n in range(len(MUTANTS)) for tool in TOOLS}
        rows = []
        for n, mutant in enumerate(MUTANTS):
            tools = {tool: runs[n, tool].result() for tool in TOOLS}
            seen = [tool for tool in TOOLS if tools[tool]["seen"]]
            rows.append({"mutant": mutant.name, "rung": mutant.rung, "ours": mutant.detector,
                         "expected": mutant.sanitizer, "sanitizer": seen, "tools": tools})  # fmt: skip
            if (mutant.sanitizer in seen) != bool(mutant.sanitizer) and mutant.sanitizer not in seen:
                print(
                    f"{mutant.name} ({mutant.rung}): expected {mutant.sanitizer or 'nothing'}, seen by {seen or 'none'}"
                )
    device = cuda_device()
    both = sum(bool(row["sanitizer"]) for row in rows)
    record = {
        "what": "mutants under compute-sanitizer", "origin": "measured", "gpu": device.name,
        "driver_cuda": device.driver_version, "gemmsmith": __version__,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": "python benchmarks/sanitize_mutants.py OUTPUT.json", "mutants": len(rows), "seen_by_both": both,
        "rows": rows,
    }  # fmt: skip
    options.output.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    print(f"{len(rows)} mutants: ours reports all, compute-sanitizer {both}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
