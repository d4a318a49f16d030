"""Recorded times of configurations on shapes, results/h200_candidates.json: what the choice is fitted to and tested on.

Shapes of seeds below 100, named and deep ones are for fitting; random and public shapes of seeds from 100 on only test.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from shape_rig import Shape

from gemmsmith.choose import fit as fitting
from gemmsmith.choose.columns import Shapes, Tiles
from gemmsmith.choose.fit import Sample
from gemmsmith.choose.key import ShapeKey, contiguous, shape_key, unaligned
from gemmsmith.choose.tuning_file import TuningFile
from gemmsmith.kernel.config import Config
from gemmsmith.ladder.families.hopper_store import specialize_store

RECORD = Path(__file__).parent / "results" / "h200_candidates.json"
TUNED = Path(__file__).parent / "results" / "h200_tuning.jsonl"
DEVICE = "NVIDIA H200"
FIRST_TESTING_SEED = 100
# How often shapes count: those that were timed with current kernels more than earlier ones, and those that were
# timed in short samples and under the power cap (time_candidates.py --both) most.
RECENT_SEEDS, RECENT, BOTH_SEEDS, BOTH = range(41, 60), 1.5, range(60, 100), 3.0
# Testing shapes that were timed since a launch may give up a stage for outputs.
TESTING_SEEDS_OF_NOW = range(116, 140)

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Timed:
    """A shape with its timed configurations. ``cublas`` is in seconds, NaN where unknown."""

    key: ShapeKey
    kind: str
    origin: str
    cublas: float
    samples: tuple[Sample, ...]
    old: float  # seconds of the choice before this model; NaN where unknown
    current_kernels: bool = False  # timed with the current kernels
    shared_b: bool = False  # one B for the whole batch

    @property
    def seed(self) -> int:
        return seed_of(self.origin)

    @property
    def is_test(self) -> bool:
        return self.seed >= FIRST_TESTING_SEED

    @property
    def weight(self) -> float:
        if self.current_kernels or self.seed in BOTH_SEEDS:
            return BOTH
        return RECENT if self.seed in RECENT_SEEDS else 1.0

    @property
    def are_few(self) -> bool:
        """An aligned product with few rows or columns."""
        return not unaligned(contiguous(self.key)) and bool(np.all(self.columns[0].are_few))

    @property
    def columns(self) -> tuple[Shapes, Tiles]:
        return fitting._columns(self.samples)

    @property
    def seconds(self) -> Floats:
        return np.array([sample.seconds for sample in self.samples])


def seed_of(origin: str) -> int:
    """Of a shape's origin; -1 where it has none."""
    found = re.search(r"seed (\d+)", origin)
    return int(found.group(1)) if found else -1


def pack(files: Sequence[Path], kernels: str) -> dict[str, Any]:
    """The record with these files added: every configuration once, shapes with the numbers of theirs and their times;
    the first is the old choice. ``kernels`` is the date of the kernels that ran."""
    known = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {"configurations": [], "shapes": []}
    numbers = {json.dumps(each): i for i, each in enumerate(known["configurations"])}
    shapes = list(known["shapes"])
    for file in files:
        for each in json.loads(file.read_text(encoding="utf-8")):
            if each["shape"]["dtype"] == "fp32":  # of another kernel: fit_simt.py
                continue
            rows = []
            for row in each["candidates"]:
                if "us" in row and row["difference"] < 0.1:
                    text = json.dumps([row["kernel"], row["config"]])
                    rows.append([numbers.setdefault(text, len(numbers)), row["us"]])
            shapes.append({"shape": each["shape"], "kind": each["kind"], "cublas_us": each["cublas_us"], "times": rows,
                           "old_first": "us" in each["candidates"][0], "kernels": kernels})  # fmt: skip
    return {"what": "times of configurations on shapes, in us, beside cuBLAS's", "origin": "measured", "gpu": DEVICE,
            "command": "python benchmarks/time_candidates.py plan.json times.json",
            "configurations": [json.loads(text) for text in numbers], "shapes": shapes}  # fmt: skip


def packed_text(record: dict[str, Any]) -> str:
    """One configuration and one shape a line."""
    head = {name: value for name, value in record.items() if name not in ("configurations", "shapes")}
    text = json.dumps(head, indent=1)[:-2]
    for name in ("configurations", "shapes"):
        text += f',\n "{name}": [' + ",".join("\n  " + json.dumps(row) for row in record[name]) + "\n ]"
    return text + "\n}\n"


def recorded() -> list[Timed]:
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    configs = [tuple(config.items()) for _, config in record["configurations"]]
    found = []
    for each in record["shapes"]:
        shape, dated = Shape(**each["shape"]), "kernels" in each
        key = shape_key(shape.problem.folded)
        every = (Sample(key, configs[number], us / 1e6 - (0.0 if dated else saved_since(dict(configs[number]))))
                 for number, us in each["times"])  # fmt: skip
        seed = seed_of(shape.origin)
        is_now = dated or seed in BOTH_SEEDS or seed in TESTING_SEEDS_OF_NOW
        samples = tuple(sample for sample in every if is_now or not gives_up_a_stage(sample))
        old = samples[0].seconds if each["old_first"] and samples else math.nan
        found.append(Timed(key, each["kind"], shape.origin, each["cublas_us"] / 1e6, samples, old, dated,
                           shape.shared_b))  # fmt: skip
    return [each for each in found if len(each.samples) > 2]


def saved_since(config: Mapping[str, int]) -> float:
    """Seconds that a launch takes less than when shapes without a date were timed, before 2026-11-18: the medians of 71
    pairs of kernels (docs/log/2026-11-18-where-tiles-start.md)."""
    if "GROUP" not in config:
        return 0.08e-6
    if config.get("SLICES", 1) > 1:
        return 0.6e-6
    if config.get("CLUSTER_K", 1) > 1:
        return 0.1e-6
    return 0.7e-6 if config["CLUSTER_M"] * config["CLUSTER_N"] > 1 else 0.38e-6


def gives_up_a_stage(sample: Sample) -> bool:
    """Whether a launch has a stage less than its configuration says, to have room for outputs. Earlier records are from
    before that: such times are no longer right."""
    config = Config(sample.config)
    if not config.get("SWAP", 0) or not config.get("STORE_MODE", 0):
        return False
    return specialize_store(config, contiguous(sample.key), (256, 256, 256))["STAGES"] < config["STAGES"]


def tuned() -> list[Timed]:
    """What earlier tuning runs timed: mostly few rows, which the record has not."""
    found = []
    for key, tried in sorted(TuningFile(TUNED).history(DEVICE).tried.items()):
        samples = tuple(Sample(key, each.config, each.us / 1e6) for each in tried.values()
                        if each.state == "timed" and each.us > 0)  # fmt: skip
        if len(samples) > 2 and not unaligned(contiguous(key)):
            found.append(Timed(key, "tuned", "", math.nan, samples, math.nan))
    return found
