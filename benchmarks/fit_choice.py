"""Fit the cost model and its correcting trees to recorded times, and test the choice on shapes it was not fitted to.

    python benchmarks/fit_choice.py            report what the shipped model does on fitting and on testing shapes
    python benchmarks/fit_choice.py --write    fit again, write src/gemmsmith/choose/tables/, then report
    python benchmarks/fit_choice.py --trees    the same, but only the trees; the cost model's constants stay
    python benchmarks/fit_choice.py --trees --beside earlier_trees.json
                                               the mean of an earlier fit and of this one: they err independently
    python benchmarks/fit_choice.py --networks [--trees] [--cupy]
                                               the networks too; they take minutes, with CuPy on a GPU seconds
    python benchmarks/fit_choice.py --few-networks [--cupy]
                                               those for few rows or columns
    python benchmarks/fit_choice.py --table    fit nothing; the fastest configurations go into the table, also those
                                               that `tune` found (tuned_against_cublas.py)

The times are those of time_candidates.py, packed into benchmarks/results/h200_candidates.json with the date of the
kernels by

    python benchmarks/fit_choice.py --pack times.json … --kernels 2026-11-18

which adds them to those that are there.

Shapes of seeds below 100, named and deep ones are for fitting; random and public shapes of seeds from 100 on only test.
The fastest configurations of named and public shapes of the fitting set also go into the shipped table.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from candidate_record import (
    BOTH_SEEDS,
    RECORD,
    Floats,
    Timed,
    pack,
    packed_text,
    recorded,
    saved_since,
    tuned,
)
from fit_networks import Rows, fitted_networks
from numpy.typing import NDArray
from shape_rig import Shape

from gemmsmith.choose.cluster_menu import worth_eight
from gemmsmith.choose.columns import Column
from gemmsmith.choose.constants import CONSTANTS, Constants
from gemmsmith.choose.cost import correction, predicted_seconds
from gemmsmith.choose.features import features
from gemmsmith.choose.fit import fit
from gemmsmith.choose.inputs import inputs
from gemmsmith.choose.key import ShapeKey, shape_key
from gemmsmith.choose.models import constants_of
from gemmsmith.choose.networks import Networks, network_fields, networks_from_fields
from gemmsmith.choose.table import Entry, table_from_text, table_text
from gemmsmith.choose.trees import Tree, Trees, tree_fields, trees_from_fields
from gemmsmith.choose.waves import chip_of
from gemmsmith.gpus import gpu_named

AFTER_TUNING = RECORD.with_name("h200_tuned.json")
TABLES = Path(__file__).parents[1] / "src" / "gemmsmith" / "choose" / "tables"
GPU = "H200"
CHIP = chip_of(gpu_named(GPU))
# Of the trees: how many, how deep, how much of each is used; chosen by cross-validation on the fitting shapes.
TREES, DEPTH, RATE, BINS, LEAST, HOLD, NEAR = 300, 5, 0.07, 24, 0.6, 0.3, 3
FEW_NETWORKS = 4
CLEARLY, EQUAL = 1.01, 1.005
SHAPES_PER_TREE, FEATURES_PER_TREE = 0.7, 0.6


def winners(shapes: Sequence[Timed], known: Mapping[ShapeKey, Entry]) -> dict[ShapeKey, Entry]:
    """The fastest of named and public shapes, for the table, as timed last; of known shapes only where it is another
    configuration, and clearly faster than the entry, timed beside it as what was chosen, in short samples and under the
    cap."""
    found = {}
    for each in {each.key: each for each in shapes}.values():
        best = min(each.samples, key=lambda sample: sample.seconds)
        named = each.origin.startswith(("named", "deep", "public")) and not each.shared_b
        clearly = (each.current_kernels or each.seed in BOTH_SEEDS) and best.seconds * CLEARLY < each.old
        entry = set(known[each.key].config) if each.key in known else None
        beside = entry is not None and entry <= set(each.samples[0].config)  # old entries lack new parameters
        is_new = entry is None or (clearly and beside and not entry <= set(best.config))
        if named and is_new:
            kernel = "wgmma_cluster" if "GROUP" in dict(best.config) else "wgmma_split_k"
            measured = best.seconds + (0.0 if each.current_kernels else saved_since(dict(best.config)))
            found[each.key] = Entry(kernel, best.config, round(measured * 1e6, 3), each.cublas * 1e6)
    return found


def winners_of_tuning(known: Mapping[ShapeKey, Entry]) -> dict[ShapeKey, Entry]:
    """What `gemmsmith tune` found for shapes that lost (tuned_against_cublas.py), where it is clearly faster beside
    cuBLAS in short samples or under the cap, and in neither clearly slower; not where the table has learnt another
    configuration since."""
    found = {}
    for case in json.loads(AFTER_TUNING.read_text(encoding="utf-8"))["cases"]:
        gains = [case[mode]["ratio"] / case["before"][mode]["ratio"] for mode in ("burst", "sustained")]
        if case["source"] != "tuned" or case["config"] == case["before"]["config"]:
            continue
        key = shape_key(Shape(**{name: case[name] for name in Shape.__dataclass_fields__}).problem)
        is_new = key not in known or dict(known[key].config).items() <= case["before"]["config"].items()
        if is_new and max(gains) > CLEARLY and min(gains) > 1 / CLEARLY:
            found[key] = Entry(case["kernel"], tuple(case["config"].items()), case["burst"]["us"],
                               case["burst"]["cublas_us"])  # fmt: skip
    return found


# --- trees


def fitted_trees(shapes: Sequence[Timed], constants: Constants) -> Trees:
    """Boosted regression of what the cost model errs within a shape; fast configurations weigh most."""
    rows, errors, weights, owner = [], [], [], []
    for number, each in enumerate(shapes):
        columns = each.columns
        predicted = predicted_seconds(*columns, CHIP, constants)
        values = features(*columns, CHIP, predicted)
        rows.append(np.stack(list(values.values()), axis=1))
        errors.append(np.log(each.seconds / predicted))
        weight = (each.seconds.min() / each.seconds) ** NEAR
        weights.append(each.weight * weight / weight.sum())
        owner.append(np.full(len(weight), number))
    names = tuple(values)
    table, error, weight, of = (np.concatenate(each) for each in (rows, errors, weights, owner))
    cuts = [np.unique(np.quantile(column, np.linspace(0, 1, BINS + 1)[1:-1])) for column in table.T]
    bins = np.stack([np.searchsorted(cut, column) for cut, column in zip(cuts, table.T, strict=True)], axis=1)
    dice, predicted, trees = np.random.default_rng(0), np.zeros(len(error)), []
    for _ in range(TREES):
        left = error - predicted
        left = left - (np.bincount(of, weight * left) / np.bincount(of, weight))[of]  # only the order in a shape counts
        some = weight * (dice.random(len(shapes)) < SHAPES_PER_TREE)[of]
        tree, answers = _grown(bins, cuts, left, some, np.flatnonzero(dice.random(len(names)) < FEATURES_PER_TREE))
        predicted += np.array(tree.leaves)[answers]
        trees.append(tree)
    return Trees(names, tuple(trees))


def mean_of(one: Trees, other: Trees) -> Trees:
    """Trees whose sum is the mean of both sums."""
    if one.features != other.features:
        raise SystemExit("the earlier trees ask about other features")
    halves = (replace(tree, leaves=tuple(leaf / 2 for leaf in tree.leaves)) for tree in (*one.trees, *other.trees))
    return Trees(one.features, tuple(halves))


def _grown(bins: NDArray[np.int64], cuts: Sequence[Column], left: Floats, weight: Floats, asked: NDArray[np.int64]
           ) -> tuple[Tree, NDArray[np.int64]]:  # fmt: skip
    """A tree that explains ``left``, and the leaf of every row."""
    node, questions = np.zeros(len(left), np.int64), []
    used = np.flatnonzero(weight)
    of_feature = bins[np.ix_(used, asked)] + np.arange(len(asked)) * BINS  # bins of all features side by side
    weights, sums = (np.repeat(each[used], len(asked)) for each in (weight, weight * left))
    for level in range(DEPTH):
        nodes = 2**level
        place = (of_feature + (node[used] * len(asked) * BINS)[:, None]).ravel()
        size = nodes * len(asked) * BINS
        below, summed = (np.bincount(place, each, size).reshape(nodes, len(asked), BINS).cumsum(axis=2)
                         for each in (weights, sums))  # fmt: skip
        w, s, all_w, all_s = below[..., :-1], summed[..., :-1], below[..., -1:], summed[..., -1:]
        gain = s**2 / (w + HOLD) + (all_s - s) ** 2 / (all_w - w + HOLD) - all_s**2 / (all_w + HOLD)
        gain = np.where((w > LEAST) & (all_w - w > LEAST), gain, 0.0).reshape(nodes, -1)
        best = gain.argmax(axis=1)
        helps = gain[np.arange(nodes), best] > 0
        feature, cut = np.where(helps, asked[best // (BINS - 1)], -1), best % (BINS - 1)
        questions += [(int(f), float(cuts[f][c]) if f >= 0 else 0.0) for f, c in zip(feature, cut, strict=True)]
        at = feature[node]
        node = node * 2 + ((at >= 0) & (bins[np.arange(len(node)), np.maximum(at, 0)] > cut[node]))
    size = 2**DEPTH
    leaves = RATE * np.bincount(node, weight * left, size) / (np.bincount(node, weight, size) + HOLD)
    return Tree(tuple(questions), tuple(map(float, leaves))), node


# --- networks


def network_rows(shapes: Sequence[Timed], constants: Constants) -> Rows:
    tables, errors, weights, owner, earlier = [], [], [], [], []
    for number, each in enumerate(shapes):
        columns = each.columns
        predicted = predicted_seconds(*columns, CHIP, constants)
        values = inputs(*columns, CHIP, constants, predicted, features(*columns, CHIP, predicted))
        tables.append(np.stack(list(values.values()), axis=1))
        errors.append(np.log(each.seconds / predicted))
        weight = (each.seconds.min() / each.seconds) ** NEAR
        weights.append(each.weight * weight / weight.sum())
        owner.append(np.full(len(weight), number))
        earlier.append(np.full(len(weight), 1.0 - each.current_kernels))
    table, error, weight, of, before = (np.concatenate(each) for each in (tables, errors, weights, owner, earlier))
    return Rows(tuple(values), table, error, weight, of, before)


# --- report


def chosen(each: Timed, constants: Constants) -> int:
    """The timed configuration that the model predicts to be fastest, of those that the choice considers."""
    columns = each.columns
    predicted = predicted_seconds(*columns, CHIP, constants)
    corrections = correction(*columns, CHIP, constants, predicted)
    predicted = np.where(worth_eight(*columns), predicted * np.exp(corrections), math.inf)
    if constants.trees is None or constants.networks is not None:
        return int(predicted.argmin())
    tiles = columns[1]
    sent = (tiles.bm / tiles.cluster_n + tiles.bn / tiles.cluster_m) / (tiles.bm * tiles.bn)  # choose/choice.py
    return int(np.where(predicted <= predicted.min() * EQUAL, sent, math.inf).argmin())


def report(name: str, shapes: Sequence[Timed], constants: Constants) -> None:
    if not shapes:
        return
    taken = np.array([each.seconds[chosen(each, constants)] for each in shapes])
    best, cublas = np.array([each.seconds.min() for each in shapes]), np.array([each.cublas for each in shapes])
    old = np.array([each.old for each in shapes])

    def mean(ratios: Floats) -> float:
        return float(np.exp(np.nanmean(np.log(ratios))))

    near, nearly = np.mean(taken <= 1.03 * best), np.mean(taken <= 1.05 * best)
    print(
        f"{name:34} {len(shapes):4} shapes: within 3 % of the best {near:.2f}, within 5 % {nearly:.2f}, loss "
        f"{mean(taken / best) - 1:.3f}; of cuBLAS: chosen {mean(cublas / taken):.3f} (lowest "
        f"{np.min(cublas / taken):.3f}), best timed {mean(cublas / best):.3f}, before {mean(cublas / old):.3f}"
    )


def plain(constants: Constants) -> dict[str, float]:
    return {name: getattr(constants, name) for name in CONSTANTS}


def written_networks(name: str, networks: Networks, constants: Constants) -> Networks:
    """Write them into the tables; they are returned with as many digits as are written."""
    fields = network_fields(networks)
    head = {"constants": plain(constants)} | {name: each for name, each in fields.items() if name != "networks"}
    rows = ",\n  ".join(json.dumps(row) for row in fields["networks"])
    text = f'{json.dumps(head)[:-1]},\n "networks": [\n  {rows}\n]}}\n'
    (TABLES / f"h200_{name}.json").write_text(text, encoding="utf-8")
    return networks_from_fields(fields)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pack", type=Path, nargs="+", default=[])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--trees", action="store_true")
    parser.add_argument("--networks", action="store_true")
    parser.add_argument("--few-networks", action="store_true")
    parser.add_argument("--cupy", action="store_true", help="fit networks on a GPU")
    parser.add_argument("--kernels", default="", help="the date of the kernels whose times are packed")
    parser.add_argument("--beside", type=Path, help="trees of an earlier fit")
    parser.add_argument("--table", action="store_true")
    options = parser.parse_args()
    if options.pack:
        if not options.kernels:
            parser.error("--pack needs --kernels")
        RECORD.write_text(packed_text(pack(options.pack, options.kernels)), encoding="utf-8")
    every = recorded()
    fitted = [each for each in every if not each.is_test]
    known = {each.key for each in fitted}  # public shapes are drawn from one list
    tested = [each for each in every if each.is_test and each.key not in known]
    constants = constants_of(gpu_named(GPU))
    file = TABLES / "h200.json"
    table = table_from_text(file.read_text(encoding="utf-8"))
    known_entries = {**table.entries, **winners_of_tuning(table.entries)}
    entries = {**known_entries, **winners(fitted, known_entries)}
    if options.table:
        file.write_text(table_text(replace(table, entries=entries)), encoding="utf-8")
    learned = [each for each in (*fitted, *tuned()) if len(each.samples) > 1]
    if options.write or options.trees:
        samples = [sample for each in learned for sample in each.samples]
        found = fit(samples, CHIP) if options.write else table.model
        grown = fitted_trees(learned, found.constants)
        if options.beside:
            grown = mean_of(trees_from_fields(json.loads(options.beside.read_text(encoding="utf-8"))), grown)
        trees = trees_from_fields(tree_fields(grown))
        kept = {} if options.write else {"networks": constants.networks, "few_networks": constants.few_networks}
        constants = replace(found.constants, trees=trees, **kept)
        file.write_text(table_text(replace(table, model=found, entries=entries)), encoding="utf-8")
        rows = ",\n  ".join(json.dumps(row) for row in tree_fields(trees)["trees"])
        (TABLES / "h200_trees.json").write_text(
            f'{{"constants": {json.dumps(plain(constants))},\n "features": {json.dumps(list(trees.features))},\n'
            f' "trees": [\n  {rows}\n]}}\n', encoding="utf-8")  # fmt: skip
        print({name: float(f"{value:.3g}") for name, value in plain(constants).items()}, f"error {found.error:.3f}")
    module = importlib.import_module("cupy" if options.cupy else "numpy")
    if options.networks:
        fresh = fitted_networks(network_rows(learned, constants), arrays=module)
        constants = replace(constants, networks=written_networks("networks", fresh, constants))
    if options.few_networks:
        few = [each for each in learned if each.current_kernels and each.are_few]
        fresh = fitted_networks(network_rows(few, constants), FEW_NETWORKS, module)
        constants = replace(constants, few_networks=written_networks("few_networks", fresh, constants))
    for name, shapes in (("fitting", fitted), ("testing", tested)):
        report(f"{name}, cost model", shapes, replace(constants, trees=None))
        report(f"{name}, trees", shapes, replace(constants, networks=None))
        report(name, shapes, constants)
    few = [each for each in tested if each.are_few]
    report("testing: few rows or columns", few, constants)
    report("the same without their networks", few, replace(constants, few_networks=None))
    report("testing, current kernels", [each for each in tested if each.current_kernels], constants)
    for kind in sorted({each.kind for each in tested}):
        report(f"testing: {kind}", [each for each in tested if each.kind == kind], constants)
    for layout in ("NT", "NN", "TN", "TT"):
        report(f"testing: {layout}", [each for each in tested if each.key.layout == layout], constants)
    return 0


if __name__ == "__main__":
    sys.exit(main())
