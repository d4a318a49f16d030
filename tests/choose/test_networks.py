"""Networks that correct the cost model: they compute what they say, and count only where they were fitted."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from cost_cases import CHIP, LARGE, STAGED

from gemmsmith.choose import table as tables
from gemmsmith.choose.choice import forget
from gemmsmith.choose.columns import shape_of, tiles_of
from gemmsmith.choose.constants import Constants
from gemmsmith.choose.cost import correction, predicted_seconds
from gemmsmith.choose.features import features
from gemmsmith.choose.inputs import inputs
from gemmsmith.choose.key import alignment
from gemmsmith.choose.models import constants_of
from gemmsmith.choose.networks import Network, Networks, network_fields, networks_from_fields
from gemmsmith.choose.table import shipped_few_networks, shipped_networks, shipped_tables
from gemmsmith.choose.trees import Tree, Trees
from gemmsmith.gpus import gpu_named
from gemmsmith.problem import BF16, Problem

SHIPPED = (shipped_networks, shipped_few_networks)
TILES = tiles_of([LARGE, STAGED])
TREES = Trees(("rows",), (Tree(((0, 100.0),), (0.25, 0.5)),))


def network(hidden: list[list[float]], out: list[list[float]]) -> Network:
    layers = [(np.array(each, np.float32), np.zeros(len(each[0]), np.float32)) for each in (hidden, out)]
    return Network(tuple(layers))


NETWORKS = Networks(("rows", "columns"), np.array([100.0, 0.0]), np.array([50.0, 10.0]), (
    network([[1.0, -1.0], [0.0, 1.0]], [[1.0], [2.0]]), network([[0.0, 0.0], [0.0, 0.0]], [[1.0], [1.0]]),
))  # fmt: skip


def test_a_network_answers_as_computed_by_hand() -> None:
    # Scaled: (1, 2) and (4, -1), where 4 is the cut. Hidden, with a slope of 0.1 below zero: (1, 1) and (4, -0.5).
    found = NETWORKS({"rows": np.array([150.0, 1e6]), "columns": np.array([20.0, -10.0])})
    assert found == pytest.approx([(1 * 1 + 2 * 1) / 2, (4 * 1 + 2 * -0.5) / 2]), "the mean of both networks"


def test_networks_survive_the_file() -> None:
    again = networks_from_fields(json.loads(json.dumps(network_fields(NETWORKS))))
    values = {"rows": np.array([7.0, 210.0]), "columns": np.array([3.0, 4.0])}
    assert again.inputs == NETWORKS.inputs
    assert np.array_equal(again(values), NETWORKS(values))


@pytest.mark.parametrize("change", [
    {"inputs": ["rows"]}, {"means": [1.0]}, {"deviations": [1.0, 0.0]}, {"networks": []},
    {"networks": [[[[[1.0], [float("nan")]], [0.0]]]]}, {"networks": [[[[[1.0, 1.0], [1.0, 1.0]], [0.0, 0.0]]]]},
])  # fmt: skip
def test_what_are_no_networks_is_said(change: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"network|not a number"):
        networks_from_fields(network_fields(NETWORKS) | change)


def test_networks_count_where_rows_are_aligned_only() -> None:
    constants = Constants(trees=TREES, networks=replace(NETWORKS, inputs=("rows", "log_k")))
    for n, is_aligned in ((4096, True), (4095, False)):
        problem = Problem(300, n, 1024, BF16, BF16, trans_b=True)
        shape = shape_of(problem, alignment(problem))
        seconds = predicted_seconds(shape, TILES, CHIP, constants)
        values = features(shape, TILES, CHIP, seconds)
        by_trees, by_networks = TREES(values), constants.networks  # type: ignore[truthy-function]
        assert by_networks is not None
        both = 0.25 * by_trees + 0.75 * by_networks(inputs(shape, TILES, CHIP, constants, seconds, values))
        found = correction(shape, TILES, CHIP, constants, seconds)
        assert np.array_equal(found, both if is_aligned else by_trees)
        assert not np.array_equal(both, by_trees)


@pytest.mark.parametrize(("m", "batch", "are_few"), [(16, 1, True), (17, 1, False), (16, 3, False), (300, 1, False)])
def test_few_rows_have_networks_of_their_own(m: int, batch: int, are_few: bool) -> None:
    fitted = Constants(trees=TREES, networks=replace(NETWORKS, inputs=("rows", "log_k")))
    own = replace(NETWORKS, inputs=("columns", "log_k"))
    shape = shape_of(Problem(m, 4096, 1024, BF16, BF16, batch=batch, trans_b=True))
    seconds = predicted_seconds(shape, TILES, CHIP, fitted)
    plain = correction(shape, TILES, CHIP, fitted, seconds)
    values = inputs(shape, TILES, CHIP, fitted, seconds, features(shape, TILES, CHIP, seconds))
    mixed = 0.5 * plain + 0.5 * own(values)
    assert not np.array_equal(mixed, plain)
    found = correction(shape, TILES, CHIP, replace(fitted, few_networks=own), seconds)
    assert np.array_equal(found, mixed if are_few else plain)


@pytest.mark.parametrize("few", [False, True])
def test_the_shipped_networks_belong_to_the_shipped_constants(few: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    forget()
    name, h200, found = "few_networks" if few else "networks", gpu_named("H200"), SHIPPED[few]("H200")
    assert found is not None
    assert getattr(constants_of(h200), name) is found[1]
    other = replace(shipped_tables()[0], model=replace(shipped_tables()[0].model, constants=Constants(dram=2e12)))
    monkeypatch.setattr(tables, "shipped_tables", replaced := lambda: (other,))
    replaced.cache_clear = lambda: None  # type: ignore[attr-defined]
    constants_of.cache_clear()
    assert getattr(constants_of(h200), name) is None, "they were fitted with other constants"
    constants_of.cache_clear()


@pytest.mark.parametrize("few", [False, True])
def test_the_shipped_networks_are_asked_what_inputs_answer(few: bool) -> None:
    found = SHIPPED[few]("H200")
    assert found is not None
    problem = Problem(300, 4096, 14336, BF16, BF16, trans_b=True)
    shape = shape_of(problem, alignment(problem))
    seconds = predicted_seconds(shape, TILES, CHIP, found[0])
    values = inputs(shape, TILES, CHIP, found[0], seconds, features(shape, TILES, CHIP, seconds))
    assert set(found[1].inputs) == set(values)
    answers = found[1](values)
    assert np.all(np.isfinite(answers))
    assert np.all(np.abs(answers) < 1), "a correction, not a prediction"
