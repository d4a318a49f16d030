"""Untuned shapes beside cuBLAS, by kind."""

from __future__ import annotations

from typing import Any

from doc_tables.records import RESULTS, load, table

_COLUMNS = ["kind", "shapes", "bursts: mean", "lowest", "below 0.97", "sustained: mean", "lowest", "below 0.97"]
_MODES = {"burst": "bursts", "sustained": "sustained"}
_LOW = 0.97


def means_table() -> str:
    """Ratio of cuBLAS's time to ours, of each kind of aligned 16-bit shapes in both modes."""
    return _means(load("h200_shapes.json"), "h200_shapes.json")


def kinds_table() -> str:
    """The same of few rows, fp32, unaligned and batched products."""
    if not (RESULTS / "h200_kinds.json").exists():
        return "Not recorded yet: `benchmarks/kinds_against_cublas.py benchmarks/results/h200_kinds.json` records it."
    return _means(load("h200_kinds.json"), "h200_kinds.json")


def below_twice() -> str:
    """Of the aligned 16-bit shapes those that are below 0.97 in both of two runs."""
    one, other = load("h200_shapes.json"), load("h200_shapes_again.json")
    ratios = [{case["name"]: {mode: case[mode]["ratio"] for mode in _MODES} for case in record["cases"]}
              for record in (one, other)]  # fmt: skip
    rows = [[name, _MODES[mode], f"{ratios[0][name][mode]:.2f}", f"{ratios[1][name][mode]:.2f}"]
            for mode in _MODES for name in ratios[0]
            if name in ratios[1] and max(its[name][mode] for its in ratios) < _LOW]  # fmt: skip
    note = f"First run: `benchmarks/results/h200_shapes.json`, second run: `h200_shapes_again.json`, {other['date']}."
    return "\n".join([*table(["shape", "samples", "first run", "second run"], "llrr", rows), "", note])


def _means(record: dict[str, Any], name: str) -> str:
    burst, sustained = (record["means"][mode] for mode in ("burst", "sustained"))
    rows = [[kind, str(burst[kind]["shapes"]), *_figures(burst[kind]), *_figures(sustained[kind])]
            for kind in sorted(burst, key=lambda kind: (kind == "all", -burst[kind]["shapes"]))]  # fmt: skip
    note = (
        f"cuBLAS's time over ours; 1 is equal. {record['gpu']}, torch {record['torch']}, {record['date']}, by "
        f"`{record['command']}`. Every shape is in `benchmarks/results/{name}`."
    )
    return "\n".join([*table(_COLUMNS, "lrrrrrrr", rows), "", note])


def _figures(kind: dict[str, float]) -> list[str]:
    return [f"{kind['geometric_mean']:.2f}", f"{kind['lowest']:.2f}", str(kind["below_0.97"])]
