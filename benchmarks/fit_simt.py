"""Fit the trees that correct simt_best's cost model to recorded times, and report what the choice loses.

    python benchmarks/fit_simt.py            cross-validation: every shape is chosen for by trees that did not see it
    python benchmarks/fit_simt.py --write    then fit to all shapes, write src/gemmsmith/choose/tables/

The times are those of time_candidates.py, packed into benchmarks/results/h200_simt_candidates.json by

    python benchmarks/fit_simt.py --pack times.json …
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import fit_choice
import numpy as np
from candidate_record import Floats, packed_text
from shape_rig import Shape

from gemmsmith.choose import simt
from gemmsmith.choose.columns import Column
from gemmsmith.choose.key import unaligned
from gemmsmith.choose.simt_features import features
from gemmsmith.choose.trees import Trees, tree_fields, trees_from_fields
from gemmsmith.kernel.config import Config

RECORD = Path(__file__).parent / "results" / "h200_simt_candidates.json"
SMS, FOLDS = 132, 6
MOST_DIFFERENT = 0.1  # from cuBLAS's result: above it is wrong
TREES, BINS, NEAR = 600, 16, 6
fit_choice.DEPTH, fit_choice.RATE, fit_choice.LEAST, fit_choice.HOLD = 5, 0.08, 0.5, 0.3


@dataclass(frozen=True)
class Timed:
    """A shape with its timed configurations: what trees ask about them, predicted and measured seconds, cuBLAS's."""

    name: str
    values: dict[str, Column]
    predicted: Floats
    seconds: Floats
    cublas: float

    def chosen(self, trees: Trees | None) -> int:
        return int((self.predicted * (np.exp(trees(self.values)) if trees else 1.0)).argmin())


def recorded() -> list[Timed]:
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    found = []
    for each in record["shapes"]:
        shape = Shape(**each["shape"])
        where = unaligned(shape.problem, None) & 3
        known = {_key(config): (config, simt.predicted_seconds(shape.problem, candidate, config, SMS, where))
                 for candidate, config in simt.configurations(shape.problem, SMS, where, True)}  # fmt: skip
        rows = [(*known[key], us) for number, us in each["times"]
                if (key := _key(Config(tuple(record["configurations"][number].items())))) in known]  # fmt: skip
        if len(rows) > 1:
            values = features(shape.problem, [(config, seconds) for config, seconds, _ in rows], SMS, where)
            predicted, seconds = (np.array([row[i] for row in rows]) for i in (1, 2))
            found.append(Timed(str(shape), values, predicted, seconds / 1e6, each["cublas_us"] / 1e6))
    return found


def pack(files: Sequence[Path]) -> None:
    """Add the fp32 shapes of these files to the record."""
    record = json.loads(RECORD.read_text(encoding="utf-8"))
    numbers = {json.dumps(each): i for i, each in enumerate(record["configurations"])}
    for file in files:
        for each in json.loads(file.read_text(encoding="utf-8")):
            if each["shape"]["dtype"] != "fp32":
                continue
            rows = [[numbers.setdefault(json.dumps(row["config"]), len(numbers)), row["us"]]
                    for row in each["candidates"]
                    if row["kernel"] == simt.NAME and "us" in row and row["difference"] < MOST_DIFFERENT]  # fmt: skip
            record["shapes"].append({"shape": each["shape"], "cublas_us": each["cublas_us"], "times": rows})
    record["configurations"] = [json.loads(text) for text in numbers]
    RECORD.write_text(packed_text(record), encoding="utf-8")


def _key(config: Config) -> tuple[tuple[str, int], ...]:
    """ALIGNED follows from the operands."""
    return tuple(sorted((name, value) for name, value in dict(config).items() if name != "ALIGNED"))


def fitted(shapes: Sequence[Timed]) -> Trees:
    """Boosted regression of what the model errs within a shape; fast configurations weigh most."""
    names = tuple(shapes[0].values)
    table = np.concatenate([np.stack([each.values[name] for name in names], axis=1) for each in shapes])
    error = np.concatenate([np.log(each.seconds / each.predicted) for each in shapes])
    near = [(each.seconds.min() / each.seconds) ** NEAR for each in shapes]
    weight = np.concatenate([each / each.sum() for each in near])
    of = np.concatenate([np.full(len(each), i) for i, each in enumerate(near)])
    cuts = [np.unique(np.quantile(column, np.linspace(0, 1, BINS + 1)[1:-1])) for column in table.T]
    bins = np.stack([np.searchsorted(cut, column) for cut, column in zip(cuts, table.T, strict=True)], axis=1)
    dice, predicted, trees = np.random.default_rng(0), np.zeros(len(error)), []
    for _ in range(TREES):
        left = error - predicted
        left = left - (np.bincount(of, weight * left) / np.bincount(of, weight))[of]
        some = weight * (dice.random(len(shapes)) < fit_choice.SHAPES_PER_TREE)[of]
        asked = np.flatnonzero(dice.random(len(names)) < fit_choice.FEATURES_PER_TREE)
        tree, answers = fit_choice._grown(bins, cuts, left, some, asked)
        predicted += np.array(tree.leaves)[answers]
        trees.append(tree)
    return trees_from_fields(tree_fields(Trees(names, tuple(trees))))


def report(name: str, shapes: Sequence[Timed], trees: Sequence[Trees | None]) -> None:
    """``trees`` of each shape."""
    taken = np.array([each.seconds[each.chosen(its)] for each, its in zip(shapes, trees, strict=True)])
    best, cublas = np.array([each.seconds.min() for each in shapes]), np.array([each.cublas for each in shapes])

    def mean(ratios: Floats) -> float:
        return math.exp(float(np.log(ratios).mean()))

    print(f"{name:20} {len(shapes):3} shapes: within 3 % of the best {np.mean(taken <= 1.03 * best):.2f}, loss "
          f"{mean(taken / best) - 1:.3f}; of cuBLAS: chosen {mean(cublas / taken):.3f} (lowest "
          f"{np.min(cublas / taken):.3f}), best timed {mean(cublas / best):.3f}")  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--pack", type=Path, nargs="+", default=[])
    options = parser.parse_args()
    pack(options.pack)
    shapes = recorded()
    report("cost model", shapes, [None] * len(shapes))
    of_fold = [fitted([each for i, each in enumerate(shapes) if i % FOLDS != fold]) for fold in range(FOLDS)]
    report("trees, others' shapes", shapes, [of_fold[i % FOLDS] for i in range(len(shapes))])
    if options.write:
        data = tree_fields(fitted(shapes))
        rows = ",\n  ".join(json.dumps(row) for row in data["trees"])
        file = fit_choice.TABLES / "h200_simt_trees.json"
        file.write_text(
            f'{{"features": {json.dumps(data["features"])},\n "trees": [\n  {rows}\n]}}\n', encoding="utf-8"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
