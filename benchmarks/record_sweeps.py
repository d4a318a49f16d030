"""Record the sweeps that the page shows when no other is given: four of the worklogs' experiments.

    python benchmarks/record_sweeps.py [OUTPUT.json]        (needs no GPU; takes a minute)

Runs `gemmsmith sweep --experiment NAME --device sim` for each and writes the saved sweeps as one list. The default
output is the package's own file, src/gemmsmith/store/data/h200_sweeps.json. Counts are exact, so the file changes only
with a kernel, the compiler or the simulator.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

PACKAGED = Path(__file__).parents[1] / "src" / "gemmsmith" / "store" / "data"
EXPERIMENTS = ("padding", "load-width", "unroll", "thread-tile")


def swept(experiment: str) -> dict[str, Any]:
    """The sweep as ``--save`` writes it; exits if a point is wrong."""
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
    parser.add_argument("output", type=Path, nargs="?", default=PACKAGED / "h200_sweeps.json")
    options = parser.parse_args()
    sweeps = [swept(experiment) for experiment in EXPERIMENTS]
    options.output.write_text(json.dumps(sweeps, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
