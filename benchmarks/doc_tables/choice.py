"""What ``gemmsmith.matmul`` chooses, beside cuBLAS: 16-bit and fp32 products on the H200."""

from __future__ import annotations

from statistics import geometric_mean
from typing import Any

from doc_tables.records import load, recorded_by, table

_GROUPS = {
    "large": "large",
    "llm": "squares and language-model shapes",
    "odd": "unaligned: no row starts on 16 bytes",
    "skinny": "skinny",
    "odd few": "skinny, unaligned",
    "edges": "one element around common tile sizes",
    "others": "not tuned",
}
_README_GROUPS = ("large", "llm", "skinny", "others", "odd")
_NOT_TUNED = "not tuned, aligned only"  # one unaligned shape triples its own ratio, which says nothing about tuning
_PRECISIONS = ("fp32", "fp32-fast", "ieee")


def readme_results() -> str:
    """The README's one table: groups of shapes, 16-bit first, then fp32 at 4096³ and 8192³."""
    record, fp32 = load("h200_hopper.json"), load("h200_fp32.json")
    mixed = load("h200_shapes.json")
    rows = [_mixed_row(mixed, "bf16 and fp16, shapes of public models and random ones") if group == "others"
            else _group_row(record, group, f"bf16 and fp16, {_GROUPS[group]}{_mostly_tuned(record, group)}")
            for group in _README_GROUPS]  # fmt: skip
    for precision in _PRECISIONS:
        cases = _squares(fp32, precision)
        found = [cases[size]["ratio"]["median"] for size in (4096, 8192)]
        rows.append([f'fp32 inputs, 4096³ and 8192³, `precision="{precision}"`', "2", f"{geometric_mean(found):.2f}",
                     f"{min(found):.2f}", f"{max(found):.2f}"])  # fmt: skip
    columns = ["C = A·B on an H200", "shapes", "speed, cuBLAS = 1", "lowest", "highest"]
    first = min(record["date"], fp32["date"])[:10]
    source = (
        f"Geometric means of times on the GPU, measured on {record['gpu']} ({first} to "
        f"{mixed['date'][:10]}, driver {record['driver']}, torch {record['torch']}) by `benchmarks/record_hopper.py`, "
        "random ones: `benchmarks/shapes_against_cublas.py`; cuBLAS as torch calls it, TF32 off."
    )
    return "\n".join([*table(columns, "lrrrr", rows), "", source])


def hopper_means() -> str:
    """The choice beside cuBLAS, group by group."""
    record = load("h200_hopper.json")
    rows = [_group_row(record, group, words) for group, words in _GROUPS.items()]
    rows.append(_aligned_row(record, _NOT_TUNED))
    small, large = (_beside([case for case in record["cases"] if (case["group"] == "edges") == edges])
                    for edges in (True, False))  # fmt: skip
    aligned = (
        f"Unaligned shapes reach {large} of the speed of the next aligned shape. Small shapes (suites `smoke` and "
        f"`edges`), dominated by launch overhead, reach {small}."
    )
    return "\n".join([
        *table(["shapes", "cases", "speed, cuBLAS = 1: geometric mean", "lowest", "highest"], "lrrrr", rows), "",
        aligned, "", "These are times on the GPU. What a call costs the host: [torch](torch.md#host-cost).", "",
        recorded_by(record),
    ])  # fmt: skip


def fp32_means() -> str:
    """fp32 products at 4096³ and 8192³ by precision, beside cuBLAS without TF32."""
    record = load("h200_fp32.json")
    rows = []
    for precision in _PRECISIONS:
        cases = _squares(record, precision)
        middle, large = cases[4096], cases[8192]
        rows.append([f'`"{precision}"`', f"`{large['kernel']}`", f"{middle['ratio']['median']:.2f}",
                     f"{large['ratio']['median']:.2f}", f"{large['ours']['tflops']:.0f}", f"{middle['rho']:.1f}",
                     f"{middle['rho_cublas']:.1f}"])  # fmt: skip
    columns = ["`precision=`", "kernel", "4096³", "8192³", "TFLOPS at 8192³", "error at 4096³", "cuBLAS's error"]
    source = (
        "Speed, cuBLAS fp32 = 1 (TF32 off), splitting included. Errors: the largest over all outputs, beyond the "
        f"output's own rounding, in units of 2⁻²⁴ of |A|·|B|. {recorded_by(record)}"
    )
    return "\n".join([*table(columns, "llrrrrr", rows), "", source])


def hopper_table() -> str:
    return _by_case(load("h200_hopper.json"))


def fp32_table() -> str:
    return _by_case(load("h200_fp32.json"))


def _by_case(record: dict[str, Any]) -> str:
    neighbours = any("aligned" in case for case in record["cases"])
    more = ["next aligned shape = 1"] if neighbours else []
    columns = ["type", "layout", "M×N×K", "TFLOPS", "cuBLAS", "speed, cuBLAS = 1", "cuBLAS against itself", *more,
               "kernel and tile"]  # fmt: skip
    rows = []
    for case in record["cases"]:
        ratio = case["ratio"]
        aligned = f"{case['aligned']['ratio']['median']:.2f}" if "aligned" in case else ""
        rows.append([case.get("precision") or case["dtype"], case["layout"], f"{case['m']}×{case['n']}×{case['k']}",
                     f"{case['ours']['tflops']:.3g}", f"{case['cublas']['tflops']:.3g}",
                     f"{ratio['median']:.3f} ({ratio['low']:.2f}–{ratio['high']:.2f})",
                     f"{case['cublas_against_itself']['median']:.3f}", *([aligned] if neighbours else []),
                     f"`{case['kernel']}` {case['config']['BM']}×{case['config']['BN']}"])  # fmt: skip
    return "\n".join([*table(columns, "lll" + "r" * (len(columns) - 4) + "l", rows), "", recorded_by(record)])


def _group_row(record: dict[str, Any], group: str, words: str) -> list[str]:
    found = [case["ratio"]["median"] for case in record["cases"] if case["group"] == group]
    mean = record["means"][group]["geometric_mean"]
    return [words, str(len(found)), f"{mean:.2f}", f"{min(found):.2f}", f"{max(found):.2f}"]


def _aligned_row(record: dict[str, Any], words: str) -> list[str]:
    """The shapes that were not tuned, without the unaligned ones (which have an aligned neighbour beside them)."""
    found = [c["ratio"]["median"] for c in record["cases"] if c["group"] == "others" and "aligned" not in c]
    return [words, str(len(found)), f"{geometric_mean(found):.2f}", f"{min(found):.2f}", f"{max(found):.2f}"]


def _mostly_tuned(record: dict[str, Any], group: str) -> str:
    """How many shapes of the group the shipped table has: its kernels were tuned for these very shapes."""
    shipped = sum(case["source"] == "shipped" for case in record["cases"] if case["group"] == group)
    return f" ({shipped} tuned)" if shipped else ""


def _mixed_row(record: dict[str, Any], words: str) -> list[str]:
    """Shapes that were not chosen because we are fast there, each for long enough to heat the GPU."""
    found = [case["sustained"]["ratio"] for case in record["cases"]]
    return [words, str(len(found)), f"{geometric_mean(found):.2f}", f"{min(found):.2f}", f"{max(found):.2f}"]


def _squares(record: dict[str, Any], precision: str) -> dict[int, dict[str, Any]]:
    return {c["m"]: c for c in record["cases"]
            if c["precision"] == precision and c["layout"] == "NN" and c["m"] == c["n"] == c["k"]}  # fmt: skip


def _beside(cases: list[dict[str, Any]]) -> str:
    ratios = [case["aligned"]["ratio"]["median"] for case in cases if "aligned" in case]
    return f"{geometric_mean(ratios):.2f} ({len(ratios)} shapes, {min(ratios):.2f} at least)"
