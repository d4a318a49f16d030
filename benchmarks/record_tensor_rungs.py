"""Time mma_pipelined beside cuBLAS in every type, with samples long enough for clocks to settle, and record the runs.

    python benchmarks/record_tensor_rungs.py OUTPUT.json [--budget 4] [--sample-ms 150] [--types …] [--shapes …]
                                             [--truncate]    TF32 operands are truncated instead of rounded

Under the power cap contenders that take turns every few milliseconds share one clock, set by the one that draws more
power. So samples of 150 ms are recorded, and the usual ones for comparison.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any

from gemmsmith.cli.main import main as main_of_gemmsmith

# Input type, output type, layout, baseline.
CASES = (
    ("bf16", "bf16", "NN", "cublas"), ("bf16", "bf16", "NT", "cublas"), ("fp16", "fp16", "NN", "cublas"),
    ("fp16", "fp16", "NT", "cublas"), ("tf32", "fp32", "NN", "cublas-tf32"), ("tf32", "fp32", "NT", "cublas-tf32"),
)  # fmt: skip


def bench(case: tuple[str, str, str, str], shapes: str, *more: str) -> list[dict[str, Any]]:
    dtype, out, layout, against = case
    preset = "h200-tf32" if dtype == "tf32" else "h200"
    command = ["bench", "mma_pipelined", "--preset", preset, "--dtype", dtype, "--out-dtype", out, "--layout", layout,
               "--shapes", shapes, "--against", against, "--quick", "--no-db", "--json", *more]  # fmt: skip
    with redirect_stdout(io.StringIO()) as printed, suppress(SystemExit):
        main_of_gemmsmith(command)  # in this process: a new one would take longer than the measurement
    if not printed.getvalue():
        return []
    run = json.loads(printed.getvalue())
    run.pop("notes")
    run["machine"]["host"] = ""
    for m in run["measurements"]:
        if m["identity"]["kind"] != "baseline":
            value = m["ratios"][0]["value"] if m["ratios"] else float("nan")
            print(f"{dtype} {layout} {m['problem']['m']:6} {m['derived']['tflops'] or 0:6.1f} TFLOPS, {value:.3f} of "
                  f"{against} {' '.join(more)} {m['rejected']}", flush=True)  # fmt: skip
    return [run]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--budget", type=float, default=4.0)
    parser.add_argument("--types", default="bf16,fp16,tf32")
    parser.add_argument("--shapes", default="4096,8192")
    parser.add_argument("--truncate", action="store_true", help="TF32 operands are truncated, not rounded")
    parser.add_argument("--sample-ms", type=float, default=150.0)
    options = parser.parse_args()
    settled = ("--budget", f"{options.budget:g}", "--sample-ms", f"{options.sample_ms:g}",
               *(("--config", "ROUND=0") if options.truncate else ()))  # fmt: skip
    record: dict[str, Any] = {"what": "mma_pipelined beside cuBLAS", "settled": [], "short": []}
    cases = [case for case in CASES if case[0] in options.types.split(",")]
    for case in cases:
        record["settled"] += bench(case, options.shapes, *settled)
        if case == CASES[0]:
            record["short"] += bench(case, options.shapes, "--budget", f"{options.budget / 2:g}")
        options.output.write_text(json.dumps(record, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    return 0 if len(record["settled"]) == len(cases) else 1


if __name__ == "__main__":
    sys.exit(main())
