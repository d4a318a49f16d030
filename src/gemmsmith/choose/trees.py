"""What the cost model gets wrong: boosted decision trees that correct its predictions, fitted to measured times.

Each tree asks a few questions about a configuration and its problem, such as whether the last wave is full, and gives a
summand of the logarithm of time. They are asked about ratios and the configuration, not about a problem's extents
(features.py): they correct the order of configurations, and know no shape by heart. benchmarks/fit_choice.py fits them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.choose.columns import Column


@dataclass(frozen=True)
class Tree:
    """A complete binary tree. ``questions`` are (feature, threshold) level by level; feature -1: always left.
    ``leaves`` are summands of the logarithm of time, in the order of the answers: left first."""

    questions: tuple[tuple[int, float], ...]
    leaves: tuple[float, ...]


@dataclass(frozen=True, eq=False)  # compared by identity: hashing thousands of numbers takes long
class Trees:
    """Trees whose summands are added up; ``features`` are the names of what they ask about."""

    features: tuple[str, ...]
    trees: tuple[Tree, ...]

    def __call__(self, values: Mapping[str, Column]) -> Column:
        """The correction of the logarithm of time for each row of ``values``. All trees are walked together."""
        asked, feature, threshold, leaves = self._arrays
        table = np.stack([values[name] for name in self.features])
        count, (trees, questions) = table.shape[1], asked.shape
        right = np.ascontiguousarray((table[feature] > threshold[:, None]).T)  # by row, then by question
        rows = np.arange(count, dtype=np.int32)[:, None] * np.int32(right.shape[1])
        node = np.zeros((count, trees), np.int32)
        first, of_tree = 0, np.arange(trees, dtype=np.int32) * np.int32(questions)
        while first < questions:
            node = node * 2 + right.take(rows + asked.take(of_tree + first + node))
            first = first * 2 + 1
        result: Column = leaves.take(np.arange(trees) * (questions + 1) + node).sum(axis=1)
        return result

    @cached_property
    def _arrays(self) -> tuple[NDArray[np.int32], NDArray[np.int64], Column, Column]:
        """The number of every tree's questions, the feature and threshold of every number, and the leaves. Trees have
        the same depth and ask the same few hundred questions, so each is answered once."""
        plain = [[(max(0, feature), at if feature >= 0 else math.inf) for feature, at in tree.questions]
                 for tree in self.trees]  # fmt: skip
        number = {question: i for i, question in enumerate(dict.fromkeys(each for tree in plain for each in tree))}
        asked = np.array([[number[question] for question in tree] for tree in plain], np.int32)
        feature = np.array([question[0] for question in number], np.int64)
        threshold = np.array([question[1] for question in number], np.float64)
        return asked, feature, threshold, np.array([tree.leaves for tree in self.trees])


def trees_from_fields(data: Mapping[str, Any]) -> Trees:
    """The reverse of ``tree_fields``; raises KeyError, TypeError or ValueError where it is not one."""
    features = tuple(str(name) for name in data["features"])
    found = []
    for row in data["trees"]:
        questions = tuple(
            (int(feature), float(threshold)) for feature, threshold in zip(row["ask"], row["at"], strict=True)
        )
        leaves = tuple(float(leaf) for leaf in row["leaves"])
        if len(leaves) != len(questions) + 1 or any(feature >= len(features) for feature, _ in questions):
            raise ValueError(f"a tree of {len(questions)} questions and {len(leaves)} leaves")
        found.append(Tree(questions, leaves))
    return Trees(features, tuple(found))


def tree_fields(trees: Trees) -> dict[str, Any]:
    """As plain JSON, with four digits."""
    return {
        "features": list(trees.features),
        "trees": [
            {
                "ask": [feature for feature, _ in tree.questions],
                "at": [float(f"{threshold:.4g}") for _, threshold in tree.questions],
                "leaves": [round(leaf, 4) for leaf in tree.leaves],
            }
            for tree in trees.trees
        ],
    }
