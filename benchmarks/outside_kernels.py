"""Kernels in styles that are common in public, none of them a rung: predicted first, then timed.

    python benchmarks/outside_kernels.py --predict benchmarks/results/outside_predicted.json        (no GPU)
    python benchmarks/outside_kernels.py --time benchmarks/results/h200_outside.json                (needs a GPU)

The files of benchmarks/outside/ were written for this, to be a test of the time model: no rule or parameter was set
with them before outside_predicted.json was made. time_model.py compares today's predictions with the measured times.
"""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SIZES = (1024, 2048, 4096)


def files() -> list[Path]:
    return sorted((HERE / "outside").glob("*.cu"))


def predicted() -> dict[str, Any]:
    from predicted_sizes import predicted_sizes

    from gemmsmith.cli.options.kernel import KernelOptions, find_kernel

    rows: list[dict[str, Any]] = []
    for path in files():
        spec, config = find_kernel(str(path), KernelOptions())
        found, compiler = predicted_sizes(path.name, spec, config, SIZES)
        rows += found
    return {"what": "times predicted before the kernels were timed", "date": datetime.now(UTC).date().isoformat(),
            "compiler": compiler, "command": "python benchmarks/outside_kernels.py --predict OUTPUT",
            "rows": rows}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--predict", default="")
    parser.add_argument("--time", default="")
    given = parser.parse_args()
    if given.predict:
        made = predicted()
        lines = ",\n".join("  " + json.dumps(row) for row in made.pop("rows"))
        Path(given.predict).write_text(f'{json.dumps(made, indent=1)[:-2]},\n "rows": [\n{lines}\n ]\n}}\n', "utf-8")
    if given.time:
        from record_cycles import measured

        measured([(path.name, (size,) * 3, {}) for path in files() for size in SIZES], given.time)
    return 0


if __name__ == "__main__":
    sys.exit(main())
