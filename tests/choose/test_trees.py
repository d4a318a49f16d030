"""Trees that correct the cost model: they are walked as they read, and only used with the constants they belong to."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from cost_cases import CHIP, LARGE, SPLIT, STAGED

from gemmsmith.choose import table as tables
from gemmsmith.choose.candidates import ranked
from gemmsmith.choose.choice import forget
from gemmsmith.choose.columns import shape_of, tiles_of
from gemmsmith.choose.constants import Constants
from gemmsmith.choose.cost import corrected_seconds, predicted_seconds
from gemmsmith.choose.features import features
from gemmsmith.choose.models import constants_of
from gemmsmith.choose.table import shipped_tables, shipped_trees
from gemmsmith.choose.trees import Tree, Trees, tree_fields, trees_from_fields
from gemmsmith.gpus import gpu_named
from gemmsmith.problem import BF16, Problem

SHAPE = shape_of(Problem(300, 4096, 14336, BF16, BF16, trans_b=True))
TREES = Trees(("rows", "columns"), (
    Tree(((0, 100.0), (1, 64.0), (-1, 0.0)), (1.0, 2.0, 3.0, 4.0)),
    Tree(((1, 200.0), (0, 64.0), (0, 128.0)), (0.1, 0.2, 0.3, 0.4)),
))  # fmt: skip


def walked(tree: Tree, row: dict[str, float], names: tuple[str, ...]) -> float:
    """One question after another."""
    at, width, first = 0, 1, 0
    while first < len(tree.questions):
        feature, threshold = tree.questions[first + at]
        right = feature >= 0 and row[names[feature]] > threshold
        first, width, at = first + width, width * 2, at * 2 + right
    return tree.leaves[at]


def test_trees_are_walked_question_by_question() -> None:
    dice = np.random.default_rng(1)
    values = {"rows": dice.integers(0, 300, 50).astype(float), "columns": dice.integers(0, 300, 50).astype(float)}
    found = TREES(values)
    for i in range(50):
        row = {name: float(column[i]) for name, column in values.items()}
        assert found[i] == pytest.approx(sum(walked(tree, row, TREES.features) for tree in TREES.trees))


def test_trees_survive_the_file() -> None:
    again = trees_from_fields(json.loads(json.dumps(tree_fields(TREES))))
    assert (again.features, again.trees) == (TREES.features, TREES.trees)
    with pytest.raises(ValueError, match="a tree of"):
        trees_from_fields({"features": ["rows"], "trees": [{"ask": [0], "at": [1.0], "leaves": [1.0]}]})


def test_a_correction_multiplies_what_is_near_the_fastest() -> None:
    tiles = tiles_of([LARGE, STAGED, SPLIT | {"BN": 16, "STAGES": 2}])
    plain = predicted_seconds(SHAPE, tiles, CHIP, Constants())
    assert np.array_equal(corrected_seconds(SHAPE, tiles, CHIP, Constants(), plain, plain.min()), plain), "no trees"
    found = corrected_seconds(SHAPE, tiles, CHIP, Constants(trees=TREES), plain, float(plain.min()))
    values = features(SHAPE, tiles, CHIP, plain)
    for i, seconds in enumerate(plain):
        near = seconds <= 1.4 * plain.min()
        expected = seconds * math.exp(TREES({name: column[i : i + 1] for name, column in values.items()})[0])
        assert found[i] == (pytest.approx(expected) if near else seconds)
    assert (found == plain).any()
    assert (found != plain).any()


def test_the_shipped_trees_belong_to_the_shipped_constants(monkeypatch: pytest.MonkeyPatch) -> None:
    forget()
    h200, found = gpu_named("H200"), shipped_trees("H200")
    assert found is not None
    assert constants_of(h200).trees is found[1]
    assert constants_of(gpu_named("H100")).trees is found[1], "the H200's model, with another DRAM"
    other = replace(shipped_tables()[0], model=replace(shipped_tables()[0].model, constants=Constants(dram=2e12)))
    monkeypatch.setattr(tables, "shipped_tables", replaced := lambda: (other,))
    replaced.cache_clear = lambda: None  # type: ignore[attr-defined]
    constants_of.cache_clear()
    assert constants_of(h200).trees is None, "they were fitted with other constants"
    constants_of.cache_clear()


def test_the_shipped_trees_ask_only_what_features_answer() -> None:
    found = shipped_trees("H200")
    assert found is not None
    values = features(SHAPE, tiles_of([LARGE]), CHIP, np.array([1e-4]))
    assert set(found[1].features) <= set(values)
    depth = {len(tree.questions) for tree in found[1].trees}
    assert len(depth) == 1, "all are walked together"
    assert {len(tree.leaves) for tree in found[1].trees} == {depth.pop() + 1}


def test_candidates_are_in_corrected_order() -> None:
    problem = Problem(300, 4096, 14336, BF16, BF16, trans_b=True)
    constants = constants_of(gpu_named("H200"))
    found = ranked(problem, CHIP, constants)
    assert [c.seconds for c in found] == sorted(c.seconds for c in found)
    plain = ranked(problem, CHIP, replace(constants, trees=None))
    assert {c.name for c in found} == {c.name for c in plain}
    assert [c.name for c in found] != [c.name for c in plain]
