"""Untuned shapes beside cuBLAS, by kind."""

from __future__ import annotations

from typing import Any

from doc_tables.records import RESULTS, load, table
from gemmsmith.problem import geometric_mean

_COLUMNS = ["kind", "shapes", "bursts: mean", "lowest", "below 0.97", "sustained: mean", "lowest", "below 0.97"]


def means_table() -> str:
    """Ratio of cuBLAS's time to ours, of each kind of aligned 16-bit shapes in both modes."""
    return _means(load("h200_shapes.json"), "h200_shapes.json")


def kinds_table() -> str:
    """The same of few rows, fp32, unaligned and batched products."""
    if not (RESULTS / "h200_kinds.json").exists():
        return "Not recorded yet: `benchmarks/kinds_against_cublas.py benchmarks/results/h200_kinds.json` records it."
    return _means(load("h200_kinds.json"), "h200_kinds.json")


def fp32_kinds_table() -> str:
    """fp32 products in three precisions, after the choice between CUDA cores and tensor cores was made by time."""
    return _means(load("h200_kinds_fp32.json"), "h200_kinds_fp32.json")


def tuned_table() -> str:
    """Shapes that lost to cuBLAS, before and after tuning."""
    record = load("h200_tuned.json")
    rows = []
    for case in record["cases"]:
        ratios = [f"{times[mode]['ratio']:.2f}" for times in (case["before"], case) for mode in ("burst", "sustained")]
        found = "another" if case["config"] != case["before"]["config"] else "the same"
        rows.append([case["name"].removesuffix(" bf16->bf16").replace("x", "×"), *ratios[:2],
                     found if case["source"] == "tuned" else "not finished", *ratios[2:]])  # fmt: skip
    means = [geometric_mean([times[mode]["ratio"] for times in (case["before"] if old else case
                                                                for case in record["cases"])])
             for old in (True, False) for mode in ("burst", "sustained")]  # fmt: skip
    rows.append(["geometric mean", *(f"{mean:.2f}" for mean in means[:2]), "", *(f"{mean:.2f}" for mean in means[2:])])
    note = (f"cuBLAS's time over ours. {record['gpu']}, torch {record['torch']}, {record['date']}, by "
            f"`{record['command']}`.")  # fmt: skip
    columns = ["product, bf16", "before: bursts", "sustained", "`tune` chose", "after: bursts", "sustained"]
    return "\n".join([*table(columns, "lrrlrr", rows), "", note])


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
