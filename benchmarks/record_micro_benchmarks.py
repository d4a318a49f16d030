"""Record latency and throughput of single instructions: parameters for a model of time.

    python benchmarks/record_micro_benchmarks.py OUTPUT.json          (needs a GPU of sm_90 and nvcc)

benchmarks/micro/latency_and_throughput.cu says what is measured, and how.
"""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parent / "micro" / "latency_and_throughput.cu"
ARCH = "90a"


def measured() -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "micro"
        code = f"arch=compute_{ARCH},code=sm_{ARCH}"
        subprocess.run(["nvcc", "-O3", "-gencode", code, str(SOURCE), "-o", str(program)], check=True)
        text = subprocess.run([str(program)], check=True, capture_output=True, text=True).stdout
    return [json.loads(line) for line in text.splitlines()]


def gpu() -> dict[str, str]:
    fields = "name,driver_version,clocks.max.sm"
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"]
    values = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[0].split(", ")
    return dict(zip(("gpu", "driver", "clock_mhz"), values, strict=True))


def main() -> int:
    output = Path(sys.argv[1])
    version = subprocess.run(["nvcc", "--version"], check=True, capture_output=True, text=True).stdout.splitlines()[-2]
    head = {
        "what": "latency and throughput of single instructions on one SM, in cycles of its clock",
        **gpu(),
        "compiler": version,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": "python benchmarks/record_micro_benchmarks.py OUTPUT.json",
    }
    rows = ",\n".join("  " + json.dumps(row) for row in measured())
    output.write_text(f'{json.dumps(head, indent=1)[:-2]},\n "rows": [\n{rows}\n ]\n}}\n', encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
