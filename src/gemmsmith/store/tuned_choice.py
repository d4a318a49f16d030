"""What ``gemmsmith.matmul`` chose on an H200, recorded next to cuBLAS and shipped with the package.

The full records are in ``benchmarks/results/`` (``h200_hopper.json``: 16-bit types, ``h200_fp32.json``: fp32). The
package ships what the page shows: square products at the ladder's sizes, and the ratio to cuBLAS by group of shapes.
``python benchmarks/update_docs.py`` writes ``store/data/h200_choice.json`` through ``reduced``; ``--check`` compares.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from statistics import geometric_mean
from typing import Any

from gemmsmith.problem import Problem, dtype_named

FILE = "h200_choice.json"
# Groups of shapes in the records, as the README and the page name them.
GROUPS = {
    "large": "bf16 and fp16, large",
    "llm": "bf16 and fp16, squares and language-model shapes",
    "skinny": "bf16 and fp16, skinny",
    "others": "bf16 and fp16, not tuned, aligned only",
    "odd": "bf16 and fp16, unaligned: no row starts on 16 bytes",
    "fp32": 'fp32 inputs, 4096³ and 8192³, precision="fp32"',
    "fp32-fast": 'fp32 inputs, 4096³ and 8192³, precision="fp32-fast"',
    "ieee": 'fp32 inputs, 4096³ and 8192³, precision="ieee"',
}
_SIZES = (1024, 2048, 4096, 8192)
_FP32_SIZES = (4096, 8192)


@dataclass(frozen=True)
class TunedChoice:
    """The choice for one C = AB with outputs of the input type, timed in interleaved rounds with torch's cuBLAS.

    precision       the ``precision`` argument for fp32 inputs; '' for 16-bit inputs
    tile            BM×BN of the chosen configuration
    tflops          of the choice; ``cublas_tflops`` of cuBLAS in the same run
    of_cublas       the median speed ratio, with its 95 % interval ``low`` to ``high``
    sample_seconds  the length of one sample; long samples settle at the power-capped clock
    """

    problem: Problem
    precision: str
    kernel: str
    tile: str
    tflops: float
    cublas_tflops: float
    of_cublas: float
    low: float
    high: float
    sample_seconds: float
    gpu: str
    date: str

    @property
    def tensor_cores(self) -> bool:
        """Only ``precision="ieee"`` stays on CUDA cores."""
        return self.precision != "ieee"

    @property
    def seconds(self) -> float:
        return self.problem.flops / self.tflops / 1e12

    @property
    def name(self) -> str:
        """'gemmsmith.matmul (fp16)': with the precision for fp32 inputs, else with the input type."""
        return f"gemmsmith.matmul ({self.precision or self.problem.dtype.name})"


@dataclass(frozen=True)
class GroupSpeed:
    """Speed over cuBLAS for a group of shapes."""

    shapes: str
    cases: int
    mean: float
    lowest: float
    highest: float


@dataclass(frozen=True)
class ChoiceRecord:
    """Everything the page shows about the choice; ``source`` names GPU, driver, torch, dates and commands."""

    choices: tuple[TunedChoice, ...] = ()
    groups: tuple[GroupSpeed, ...] = ()
    source: str = ""


@cache
def recorded_choice() -> ChoiceRecord:
    """The record shipped with the package."""
    return parsed(json.loads(files("gemmsmith").joinpath("store", "data", FILE).read_text(encoding="utf-8")))


def parsed(data: dict[str, Any]) -> ChoiceRecord:
    """The record that ``reduced`` wrote."""
    choices = tuple(
        TunedChoice(**{name: value for name, value in row.items() if name not in ("size", "dtype")},
                    problem=_problem(row["size"], row["dtype"]))
        for row in data["choices"]
    )  # fmt: skip
    return ChoiceRecord(choices, tuple(GroupSpeed(**row) for row in data["groups"]), data["source"])


def reduced(*records: dict[str, Any]) -> dict[str, Any]:
    """The part of ``record_hopper.py``'s records that the page shows."""
    cases = [(case, record) for record in records for case in record["cases"] if case["right"]]
    squares = [_choice(case, record) for case, record in cases
               if _is_square(case) and case["m"] in _SIZES and case["group"] != "others"]  # fmt: skip
    groups = []
    for group, words in GROUPS.items():
        ratios = [case["ratio"]["median"] for case, _ in cases if case["group"] == group and _counts(case)]
        groups.append({"shapes": words, "cases": len(ratios), "mean": round(geometric_mean(ratios), 4),
                       "lowest": min(ratios), "highest": max(ratios)})  # fmt: skip
    machines = {f"{r['gpu']}, driver {r['driver']}, torch {r['torch']}": None for r in records}
    runs = " and ".join(f"{r['date'][:10]} by {r['command']}" for r in records)
    return {"choices": squares, "groups": groups, "source": f"{'; '.join(machines)}; {runs}"}


def _is_square(case: dict[str, Any]) -> bool:
    return bool(case["layout"] == "NN" and case["m"] == case["n"] == case["k"])


def _counts(case: dict[str, Any]) -> bool:
    """Whether a case belongs to its group's row: fp32 inputs at two sizes; of the shapes not tuned, the aligned ones.

    An unaligned case has an aligned neighbour recorded beside it.
    """
    if case["precision"]:
        return _is_square(case) and case["m"] in _FP32_SIZES
    return case["group"] != "others" or "aligned" not in case


def as_text(data: dict[str, Any]) -> str:
    """JSON with one choice or group per line, so that a changed figure is one changed line."""
    lists = [f'"{name}": [\n {_rows(data[name])}]' for name in ("choices", "groups")]
    return "{" + ",\n".join([f'"source": {json.dumps(data["source"])}', *lists]) + "}\n"


def _rows(rows: list[dict[str, Any]]) -> str:
    return ",\n ".join(json.dumps(row, ensure_ascii=False) for row in rows)


def _choice(case: dict[str, Any], record: dict[str, Any]) -> dict[str, Any]:
    config, ratio = case["config"], case["ratio"]
    return {
        "size": case["m"], "dtype": case["dtype"], "precision": case["precision"], "kernel": case["kernel"],
        "tile": f"{config['BM']}×{config['BN']}", "tflops": case["ours"]["tflops"],
        "cublas_tflops": case["cublas"]["tflops"], "of_cublas": ratio["median"], "low": ratio["low"],
        "high": ratio["high"], "sample_seconds": case["sample_seconds"], "gpu": record["gpu"],
        "date": record["date"][:10],
    }  # fmt: skip


def _problem(size: int, dtype: str) -> Problem:
    kind = dtype_named(dtype)
    return Problem(size, size, size, kind, kind)
