"""Where warps wait in kernels of public repositories: ncu's samples beside the time model's, by reason and by line.

    python benchmarks/public_stalls.py FOLDER RECORDED --output benchmarks/results/h200_public_stalls.json    (no GPU)

FOLDER has the repositories (public_kernels.py). RECORDED is what `record_machine_counts.py record RECORDED --files
LIST.json --part files` wrote for them: ncu's source page has samples of each machine instruction by stall reason.
``cycles``: samples for each sample of an instruction that issues, which is cycles for each instruction. ``lines``:
shares of all cycles that warps wait. ``common``: the sum of the smaller of both shares, 1 where they are equal.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import io
import json
import sys
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from public_kernels import KERNELS, Public, specified

SIZE = 2048
# ncu's names of samples, and the same reasons under the names of its metrics.
NAMES = {"barrier": "barrier", "dispatch": "dispatch_stall", "lg": "lg_throttle", "long_sb": "long_scoreboard",
         "math": "math_pipe_throttle", "membar": "membar", "mio": "mio_throttle", "no_inst": "no_instruction",
         "not_selected": "not_selected", "selected": "selected", "short_sb": "short_scoreboard", "sleep": "sleeping",
         "wait": "wait", "gmma": "gmma", "branch_resolving": "branch_resolving", "imc": "imc_miss", "drain": "drain",
         "tex": "tex_throttle", "misc": "misc"}  # fmt: skip


def sampled(folder: Path) -> list[list[dict[str, int]]]:
    """For each launch and machine instruction, samples by reason."""
    found: list[list[dict[str, int]]] = []
    head: list[str] = []
    for row in csv.reader(io.StringIO(gzip.decompress((folder / "source.csv.gz").read_bytes()).decode())):
        if row[:1] == ["Kernel Name"]:
            found.append([])
        elif row[:1] == ["Address"]:
            head = row
        elif row and row[0].startswith("0x") and len(row) == len(head):
            cells = dict(zip(head, row, strict=True))
            found[-1].append({NAMES[short]: int(cells[f"stall_{short}"].replace(",", "") or 0) for short in NAMES
                              if f"stall_{short}" in cells})  # fmt: skip
    return found


def compared(kernel: Public, folder: Path, page: list[dict[str, int]]) -> dict[str, Any]:
    from gemmsmith.explain.timing.predict import Predictor
    from gemmsmith.explain.timing.prediction import Changes
    from gemmsmith.gpus import gpu_named
    from gemmsmith.sim.timing.outcome import REASONS, SELECTED

    spec, config = specified(kernel, folder)
    predictor = Predictor(spec, config, spec.problem(SIZE, SIZE, SIZE), gpu_named("H200"))
    outcome = predictor.once(Changes())
    code = predictor.program.instructions
    issued = sum(tally[SELECTED] for tally in outcome.stalls.values())
    ours = {name: sum(t[n] for t in outcome.stalls.values()) / issued for n, name in enumerate(REASONS)}
    theirs = Counter[str]()
    for row in page:
        theirs.update(row)
    cycles = {name: count / theirs["selected"] for name, count in theirs.items()}
    lines: dict[str, Counter[tuple[str, int]]] = {"ncu": Counter(), "model": Counter()}
    where = {i.offset // 16: (i.file, i.line) for i in code}
    for n, row in enumerate(page):
        lines["ncu"][where.get(n, ("", 0))] += sum(row.values()) - row["selected"]
    for position, tally in outcome.stalls.items():
        i = code[position]
        lines["model"][i.file, i.line] += sum(tally) - tally[SELECTED]
    shares = {who: {line: count / max(1, sum(mine.values())) for line, count in mine.items()}
              for who, mine in lines.items()}  # fmt: skip
    top = sorted(shares["ncu"], key=lambda line: -shares["ncu"][line])[:5]
    return {
        "kernel": kernel.title, "size": SIZE, "samples": sum(theirs.values()),
        "cycles": {name: [round(cycles.get(name, 0.0), 3), round(ours.get(name, 0.0), 3)]
                   for name in sorted({*cycles, *ours}, key=lambda r: -cycles.get(r, 0.0))
                   if name != "selected" and max(cycles.get(name, 0.0), ours.get(name, 0.0)) >= 0.05},
        "common_reasons": round(_common(_shares(cycles), _shares(ours)), 3),
        "common_lines": round(_common(shares["ncu"], shares["model"]), 3),
        "lines": [[f"{Path(file).name}:{number}", round(shares["ncu"][file, number], 3),
                   round(shares["model"].get((file, number), 0.0), 3)] for file, number in top],
    }  # fmt: skip


def _shares(cycles: dict[str, float]) -> dict[str, float]:
    waits = {name: value for name, value in cycles.items() if name != "selected"}
    return {name: value / max(1e-9, sum(waits.values())) for name, value in waits.items()}


def _common(one: dict[Any, float], other: dict[Any, float]) -> float:
    return sum(min(share, other.get(name, 0.0)) for name, share in one.items())


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("recorded", type=Path)
    parser.add_argument("--output", default="")
    given = parser.parse_args()
    rows = []
    for kernel, page in zip(KERNELS, sampled(given.recorded), strict=False):
        rows.append(compared(kernel, given.folder, page))
        print(json.dumps(rows[-1]), flush=True)
    if given.output:
        head = {"what": "stall reasons of public kernels: ncu's samples and the time model's", "gpu": "NVIDIA H200",
                "date": datetime.now(UTC).date().isoformat(),
                "command": "python benchmarks/public_stalls.py FOLDER RECORDED --output OUTPUT"}  # fmt: skip
        lines = ",\n".join("  " + json.dumps(row) for row in rows)
        Path(given.output).write_text(f'{json.dumps(head, indent=1)[:-2]},\n "rows": [\n{lines}\n ]\n}}\n', "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
