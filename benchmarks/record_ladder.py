"""Time the whole ladder on a GPU beside its baselines, and record the run.

    python benchmarks/record_ladder.py [--name h200] [--sizes 512,1024,2048,4096,8192] [--budget 4]

Runs `gemmsmith bench` for all rungs and writes benchmarks/results/NAME_ladder.json. `python benchmarks/update_docs.py`
then makes the tables, the picture and the package's reduced copy.

To see whether a machine reproduces the record:
`python benchmarks/record_ladder.py --compare benchmarks/results/h200_ladder*.json --output new.json` runs the same and
exits 1 if a median lies outside those recorded by more than the spread. It needs two records, since a kernel differs
more between runs than within one: operands lie elsewhere, and clocks settle elsewhere under the power cap. The spread
of a cell is that within a run; the spread of the table is the largest difference between records.

`--rungs NAMES --append FILE` times some rungs and adds them to a record that has the others; `--sizes` that the record
lacks are added too.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import Any

from gemmsmith.cli.main import main as main_of_gemmsmith
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import rung_named, rungs

RESULTS = Path(__file__).parent / "results"


def measured(chosen: Sequence[KernelSpec], sizes: str, budget: float) -> list[dict[str, Any]]:
    """`gemmsmith bench` per input type, beside its baselines, as one run."""
    whole: dict[str, Any] = {}
    for dtype in dict.fromkeys(spec.dtypes[0].name for spec in chosen):
        names = [spec.name for spec in chosen if spec.dtypes[0].name == dtype]
        against = "cublas,cublas-tf32,cublaslt" if dtype == "fp32" else "cublas,cublaslt"
        command = ["bench", *names, "--dtype", dtype, "--shapes", sizes, "--against", against,
                   "--budget", f"{budget:g}", "--no-db", "--json"]  # fmt: skip
        with redirect_stdout(io.StringIO()) as printed, suppress(SystemExit):
            main_of_gemmsmith(command)
        if not printed.getvalue():
            sys.exit(f"bench of {dtype} printed nothing")
        run = json.loads(printed.getvalue())
        run.pop("notes", None)
        run["machine"]["host"] = ""  # the host's name is private
        if whole:
            whole["measurements"] += run["measurements"]
            whole["command"] += f" && {run['command']}"
        else:
            whole = run
    return [whole]


def appended(record: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """A recorded run with another one's timings added; baselines at sizes it already has stay."""
    for fact in ("gpu", "driver", "compiler"):
        if record["machine"][fact] != found["machine"][fact]:
            sys.exit(f"the record's {fact} is {record['machine'][fact]}: record all rungs again")
    sizes = {m["problem"]["m"] for m in record["measurements"]}
    added = [m for m in found["measurements"]
             if m["identity"]["kind"] != "baseline" or m["problem"]["m"] not in sizes]  # fmt: skip
    keys = {(m["identity"]["name"], m["problem"]["dtype"], m["problem"]["m"]) for m in added}
    kept = [m for m in record["measurements"]
            if (m["identity"]["name"], m["problem"]["dtype"], m["problem"]["m"]) not in keys]  # fmt: skip
    return record | {"measurements": kept + added, "command": f"{record['command']} && {found['command']}"}


def medians(runs: list[dict[str, Any]]) -> dict[tuple[str, str, int], tuple[float, float]]:
    """(contender, input type, size) → median and spread of the cold graph timing."""
    found = {}
    for run in runs:
        for m in run["measurements"]:
            for timing in m["timings"]:
                if (timing["mode"], timing["cache"]) == ("graph", "cold"):
                    key = m["identity"]["name"], m["problem"]["dtype"], m["problem"]["m"]
                    found[key] = timing["median"], timing["spread"]
    return found


def apart(one: dict[tuple[str, str, int], tuple[float, float]],
          other: dict[tuple[str, str, int], tuple[float, float]]) -> float:  # fmt: skip
    """The largest difference between medians of two runs."""
    return max((abs(one[key][0] / other[key][0] - 1) for key in one.keys() & other.keys()), default=0.0)


def compare(records: Sequence[list[dict[str, Any]]], new: list[dict[str, Any]]) -> int:
    """Whether every median lies between those recorded, or off by no more than cell and table spread and 3 %."""
    recorded, after = [medians(runs) for runs in records], medians(new)
    of_table = max(apart(one, other) for one in recorded for other in recorded)
    known = sorted(after.keys() & set().union(*recorded), key=lambda k: (k[1], k[2], k[0]))
    outside = 0
    for key in known:
        before = [record[key] for record in recorded if key in record]
        median = after[key][0]
        allowed = max(0.03, of_table, after[key][1], *(spread for _, spread in before))
        low, high = min(m for m, _ in before) * (1 - allowed), max(m for m, _ in before) * (1 + allowed)
        outside += not low <= median <= high
        remark = "" if low <= median <= high else "  OUTSIDE"
        ratios = " and ".join(f"{median / recorded_median:.3f}" for recorded_median, _ in before)
        print(f"{key[0]:18} {key[1]:5} {key[2]:6}  {ratios} of the recorded time{remark}")
    print(f"{outside} of {len(known)} outside, with a spread of {of_table:.1%} between records; "
          f"{len(after) - len(known)} are in no record")  # fmt: skip
    return 1 if outside else 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", default="h200")
    parser.add_argument("--sizes", default="512,1024,2048,4096,8192")
    parser.add_argument("--budget", type=float, default=4.0)
    parser.add_argument("--compare", type=Path, nargs="+", default=[], help="records")
    parser.add_argument("--output", type=Path, help="where to write, instead of benchmarks/results")
    parser.add_argument("--rungs", default="", help="names, separated by commas; default: all")
    parser.add_argument("--append", type=Path, help="a record to add the timings to")
    options = parser.parse_args()
    chosen = [rung_named(name) for name in options.rungs.split(",") if name] or list(rungs())
    old = [json.loads(path.read_text(encoding="utf-8"))["runs"] for path in options.compare]
    runs = measured(chosen, options.sizes, options.budget)
    if options.append is not None:
        (record,) = json.loads(options.append.read_text(encoding="utf-8"))["runs"]
        runs = [appended(record, runs[0])]
    text = json.dumps({"what": "the ladder beside its baselines", "runs": runs}, indent=1, allow_nan=False) + "\n"
    (options.output or RESULTS / f"{options.name}_ladder.json").write_text(text, encoding="utf-8")
    if old:
        return compare(old, runs)
    rejected = [
        f"{m['identity']['name']}: {m['rejected']}" for run in runs for m in run["measurements"] if m["rejected"]
    ]
    print("\n".join(rejected) or f"{sum(len(run['measurements']) for run in runs)} measurements, none rejected")
    return 1 if rejected else 0


if __name__ == "__main__":
    sys.exit(main())
