"""Write the tables in README.md and docs/ from the files in benchmarks/results/.

    python benchmarks/update_docs.py            rewrite what stands between the markers
    python benchmarks/update_docs.py --check    exit 1 if a table is not what its file says

A table stands between ``<!-- begin NAME -->`` and ``<!-- end NAME -->``. Every figure in the documentation comes
from here, so it cannot differ from what was recorded.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))


def load(name: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((RESULTS / name).read_text(encoding="utf-8"))
    return data


def climb_table() -> str:
    """The ladder on the H200: verified, and the best of five launches."""
    verified, timed = load("h200_verification.json"), load("h200_climb.json")
    rows = [
        "| rung | verified | bit-identical with the simulator | time | TFLOPS |",
        "| --- | --- | --- | ---: | ---: |",
    ]
    for rung in timed["rungs"]:
        outcome = verified["rungs"][rung["name"]]
        bits = outcome["bit_identity"]
        same = bits["shapes"] - len(bits["different"])
        tflops = 2 * timed["size"] ** 3 / rung["seconds"] / 1e12
        rows.append(
            f"| `{rung['name']}` | {outcome['edge_matrix']['passed']} cases, {verified['size']}³ | "
            f"{same} of {bits['shapes']} shapes | {rung['seconds'] * 1e3:.2f} ms | {tflops:.1f} |"
        )
    source = (
        f"Measured on {verified['gpu']} ({timed['size']}³; driver for CUDA {verified['driver_cuda']}, "
        f"{verified['compiler']}, {verified['date']}): wall time of the best of five launches, by "
        f"`{timed['command']}`; verification and compute-sanitizer by `{verified['command']}`."
    )
    return "\n".join([*rows, "", source])


def speed_table() -> str:
    """How long the simulator takes."""
    speed = load("simulator_speed.json")
    rows = ["| rung | seconds |", "| --- | ---: |"]
    rows += [f"| `{name}` | {value:.2f} |" for name, value in speed["seconds"].items()]
    rows += [f"| all | {speed['total']:.2f} |", ""]
    rows.append(
        f"Measured on one core ({speed['machine']}, Python {speed['python']}, NumPy {speed['numpy']}, {speed['date']}) "
        f"by `{speed['command']}`: one launch at {speed['size']}³."
    )
    return "\n".join(rows)


def agreement_table() -> str:
    """Simulated counters against Nsight Compute, one row a configuration."""
    record = load("h200_ncu_agreement.json")
    names = {name: name.split("pipe_lsu_")[-1].removesuffix(".sum") for name in record["compared"]}
    rows = [
        "| kernel | configuration | launches | counters compared | equal | different |",
        "| --- | --- | ---: | ---: | ---: | --- |",
    ]
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in record["rows"]:
        groups.setdefault((row["kernel"], row["config"]), []).append(row)
    for (kernel, config), launches in groups.items():
        compared = sum(len(set(row["measured"]) & set(record["compared"])) for row in launches)
        different = Counter(names[name] for row in launches for name in row["different"])
        listed = ", ".join(f"{n} x `bank_conflicts_{name}`" for name, n in different.items())
        rows.append(
            f"| `{kernel}` | {config} | {len(launches)} | {compared} | {compared - different.total()} | {listed} |"
        )
    shapes = ", ".join(dict.fromkeys(f"{r['m']}x{r['n']}x{r['k']}" for r in record["rows"]))
    source = (
        f"{record['equal']} of {record['equal'] + record['different']} counters are equal. Measured on {record['gpu']} "
        f"(driver for CUDA {record['driver_cuda']}, ncu {record['ncu'].split()[1]}, {record['date']}) at {shapes} by "
        f"`{record['command']}`; both sides come from one compilation."
    )
    first = load("h200_ncu_agreement_first.json")
    pairs = list(zip(first["rows"], record["rows"], strict=True))
    varied = Counter(names[n] for a, b in pairs for n in record["compared"] if a["measured"][n] != b["measured"][n])
    history = (
        f"A first comparison (`h200_ncu_agreement_first.json`) had {first['equal']} equal. It showed that warps which "
        "had diverged met again too late in the simulator, and that asynchronous copies were counted by a wrong rule; "
        "both were mended before the table above. What the GPU itself counted changed between the two runs only in "
        + " and ".join(f"`bank_conflicts_{name}` ({n} of {len(pairs)} launches)" for name, n in varied.items())
        + "."
    )
    return "\n".join([*rows, "", source, "", history])


def mutant_table() -> str:
    """What our checker calls the mutants, and how many of them compute-sanitizer sees."""
    record = load("h200_mutants.json")
    rows = ["| caught as | mutants | compute-sanitizer sees | with |", "| --- | ---: | ---: | --- |"]
    kinds: dict[str, list[dict[str, Any]]] = {}
    for row in record["rows"]:
        kinds.setdefault(row["ours"], []).append(row)
    for kind, mutants in sorted(kinds.items(), key=lambda item: -len(item[1])):
        seen = [row for row in mutants if row["sanitizer"]]
        tools = sorted({tool for row in seen for tool in row["sanitizer"]})
        rows.append(f"| {kind} | {len(mutants)} | {len(seen)} | {', '.join(tools)} |")
    rows.append(f"| all | {record['mutants']} | {record['seen_by_both']} | |")
    source = (
        f"Measured on {record['gpu']} (driver for CUDA {record['driver_cuda']}, {record['date']}) by "
        f"`{record['command']}`: memcheck, racecheck and synccheck, in matrices without guards."
    )
    return "\n".join([*rows, "", source])


TABLES: dict[str, Callable[[], str]] = {
    "climb": climb_table,
    "simulator speed": speed_table,
    "ncu agreement": agreement_table,
    "mutants": mutant_table,
}


def updated(text: str) -> str:
    for name, make in TABLES.items():
        pattern = re.compile(rf"(<!-- begin {name} -->\n).*?(<!-- end {name} -->)", re.S)
        if pattern.search(text):
            table = make()
            text = pattern.sub(lambda m, table=table: f"{m.group(1)}{table}\n{m.group(2)}", text)
    return text


def main() -> int:
    stale = []
    for page in PAGES:
        before = page.read_text(encoding="utf-8")
        after = updated(before)
        if after != before:
            stale.append(page.name)
            if "--check" not in sys.argv:
                page.write_text(after, encoding="utf-8")
    if "--check" in sys.argv and stale:
        print(f"not what benchmarks/results/ says: {', '.join(stale)}; run python benchmarks/update_docs.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
