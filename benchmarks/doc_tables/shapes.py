"""Untuned shapes beside cuBLAS, by kind."""

from __future__ import annotations

from typing import Any

from doc_tables.records import RESULTS, load, table

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
