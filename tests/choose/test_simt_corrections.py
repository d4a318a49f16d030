"""Trees that correct simt_best's model: what they ask, where they are used, and that they change the choice."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gemmsmith.choose import simt, simt_features
from gemmsmith.choose.key import unaligned
from gemmsmith.choose.trees import Tree, Trees
from gemmsmith.kernel.config import Config
from gemmsmith.problem import FP32, Problem

SMS = 132
SHAPES = ((200, 2000, 2000), (16, 372, 1084), (709, 116, 45), (1024, 1024, 1024))


def near(problem: Problem, where: int) -> list[tuple[Config, float]]:
    return [(config, simt.predicted_seconds(problem, candidate, config, SMS, where))
            for candidate, config in simt.configurations(problem, SMS, where, True)]  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_every_feature_is_a_number_for_every_configuration(shape: tuple[int, int, int], layout: str) -> None:
    problem = Problem(*shape, FP32, FP32, trans_a=layout[0] == "T", trans_b=layout[1] == "T")
    where = unaligned(problem, None) & 3
    timed = near(problem, where)
    values = simt_features.features(problem, timed, SMS, where)
    assert set(simt_features.simt_trees().features) == set(values)
    assert all(column.shape == (len(timed),) and np.isfinite(column).all() for column in values.values())


def test_the_choice_follows_the_trees(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tree that calls every configuration with clusters ten times as slow keeps them from being chosen."""
    problem = Problem(16, 372, 1084, FP32, FP32)
    fitted = simt_features.simt_trees()
    number = fitted.features.index("cluster")
    dear = Trees(fitted.features, (Tree(((number, 1.5),), (0.0, math.log(10.0))),))
    none = Trees(fitted.features, (Tree(((number, 1.5),), (0.0, 0.0)),))
    monkeypatch.setattr(simt, "simt_trees", lambda: none)
    assert simt.fastest(problem, SMS, 0, True)[0]["CLUSTER_K"] > 1
    monkeypatch.setattr(simt, "simt_trees", lambda: dear)
    assert simt.fastest(problem, SMS, 0, True)[0]["CLUSTER_K"] == 1


def test_large_products_and_gpus_without_clusters_are_not_corrected(monkeypatch: pytest.MonkeyPatch) -> None:
    def never() -> Trees:
        raise AssertionError("asked")

    monkeypatch.setattr(simt, "simt_trees", never)
    simt.fastest(Problem(8192, 8192, 8192, FP32, FP32), SMS, 0, True)
    simt.fastest(Problem(512, 512, 512, FP32, FP32), SMS, 0, False)


def test_the_seconds_are_those_of_the_chosen_configuration() -> None:
    problem = Problem(200, 2000, 2000, FP32, FP32, trans_b=True)
    config, seconds = simt.fastest(problem, SMS, 0, True)
    plain = dict(near(problem, 0))[config]
    assert 0.5 * plain < seconds < 2.0 * plain


@pytest.mark.parametrize("shape", [(0, 5, 7), (5, 0, 7), (5, 7, 0)])
def test_an_empty_product_has_a_choice(shape: tuple[int, int, int]) -> None:
    assert simt.fastest(Problem(*shape, FP32, FP32), SMS, 0, True)[0]["BM"] > 0
