"""Record the sweeps that the page shows to those who made none of their own: four of the worklogs' experiments.

    python benchmarks/record_sweeps.py [benchmarks/results/h200_sweeps.json]        (needs no GPU; takes a minute)

Runs `gemmsmith sweep --experiment NAME --device sim` for each and writes what it saves as one list, with the
simulator's counts for an H200. `python benchmarks/update_docs.py` then makes the package's own copy. Counts do not
vary: only a change to a kernel, to the compiler or to the simulator changes the file.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
EXPERIMENTS = ("padding", "load-width", "unroll", "thread-tile")


def swept(experiment: str) -> dict[str, Any]:
    """The sweep as ``--save`` keeps it; ends the program where a point is wrong."""
    with tempfile.TemporaryDirectory() as folder:
        saved = Path(folder) / "sweep.json"
        command = [sys.executable, "-m", "gemmsmith", "sweep", "--experiment", experiment, "--device", "sim", "--no-db",
                   "--save", str(saved)]  # fmt: skip
        done = subprocess.run(command, check=False)
        if done.returncode:
            sys.exit(f"{experiment} ended with exit code {done.returncode}")
        data: dict[str, Any] = json.loads(saved.read_text(encoding="utf-8"))
    return data


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path, nargs="?", default=RESULTS / "h200_sweeps.json")
    options = parser.parse_args()
    sweeps = [swept(experiment) for experiment in EXPERIMENTS]
    options.output.write_text(json.dumps(sweeps, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
