"""The field of 2⁶¹ − 1, the trees of arithmetic, and which units a move of bits takes where."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from gemmsmith.sim.proof import field
from gemmsmith.sim.proof.field import PRIME
from gemmsmith.sim.proof.images import Kind, multiplied, part_of, retagged, summed, tag_of
from gemmsmith.sim.proof.trees import NOTHING, Op, Trees

EDGES = [0, 1, 2, (1 << 31) - 1, 1 << 31, (1 << 60) + 1, PRIME - 1, PRIME, PRIME + 1, PRIME + 8]


def elements() -> np.ndarray:
    random = field.random_elements(np.random.default_rng(3), (200,))
    return np.concatenate([np.array(EDGES, np.uint64), random])


def test_sums_and_products_are_exact_for_every_pair() -> None:
    a = elements()
    x, y = np.meshgrid(a, a)
    wide = x.astype(object), y.astype(object)
    np.testing.assert_array_equal(field.canonical(field.add(x, y)), (wide[0] + wide[1]) % PRIME)
    np.testing.assert_array_equal(field.canonical(field.multiply(x, y)), wide[0] * wide[1] % PRIME)
    np.testing.assert_array_equal(field.canonical(field.negative(x)), -wide[0] % PRIME)
    assert field.multiply(x, y).max() < PRIME + 16  # so that the next sum does not overflow


def test_floating_point_numbers_have_exact_images() -> None:
    values = np.array([0.0, 1.0, -1.0, 0.1, -1.5, 3e-30, 2.0**100, -(2.0**-149), 65504.0, 123456.789])
    for value, found in zip(values, field.image(values), strict=True):
        exact = Fraction(float(value))
        assert int(found) == exact.numerator * pow(exact.denominator, -1, PRIME) % PRIME
    assert field.image(np.array([-3, 5], np.int32)).tolist() == [PRIME - 3, 5]


def test_a_product_of_matrices_is_exact() -> None:
    random = np.random.default_rng(5)
    a, b = field.random_elements(random, (3, 5000)), field.random_elements(random, (5000, 2))
    np.testing.assert_array_equal(field.product(a, b), a.astype(object) @ b.astype(object) % PRIME)


# --- tags


def test_tags_keep_the_kind_the_part_and_the_degree() -> None:
    a, alpha, plain = (np.array([x], np.uint16) for x in (tag_of(Kind.F16, True), tag_of(Kind.F32, False), 0))
    product = multiplied(multiplied(a, a, Kind.F32), alpha, Kind.F32)
    assert int(product[0]) >> 8 == 3
    assert int(summed([product, plain], Kind.F32)[0]) == int(product[0])
    assert int(multiplied(plain, plain, Kind.F32)[0]) == 0
    assert int(multiplied(plain, a, Kind.F32)[0]) >> 8 == 1
    lost = np.array([tag_of(Kind.LOST, True)])
    assert retagged(lost, Kind.F32) == lost
    assert part_of(lost, 1) == lost
    assert int(part_of(product, 1)[0]) & 7 == 1


# --- trees


def leaves(trees: Trees, count: int) -> tuple[np.ndarray, np.ndarray]:
    return tuple(trees.leaves(name, np.arange(count)) for name in "AB")  # type: ignore[return-value]


def test_the_same_arithmetic_has_the_same_tree_in_another_run() -> None:
    found = []
    for _ in range(2):
        trees = Trees()
        a, b = leaves(trees, 4)
        total = trees.multiply(a[:1], b[:1], "f32")
        for k in range(1, 4):
            total = trees.fma(a[k : k + 1], b[k : k + 1], total, "f32")
        found.append(int(total[0]))
    assert found[0] == found[1]


@pytest.mark.parametrize("name", ["order", "fused", "type", "operand", "grouping"])
def test_another_arithmetic_has_another_tree(name: str) -> None:
    trees = Trees()
    a, b = (x[:, None] for x in leaves(trees, 3))
    p = [trees.multiply(a[k], b[k], "f32") for k in range(3)]
    pairs = {
        "order": (trees.fma(a[1], b[1], p[0], "f32"), trees.fma(a[0], b[0], p[1], "f32")),
        "fused": (trees.fma(a[1], b[1], p[0], "f32"), trees.add(p[1], p[0], "f32")),
        "type": (trees.add(p[0], p[1], "f32"), trees.add(p[0], p[1], "f16")),
        "operand": (trees.multiply(a[0], b[1], "f32"), trees.multiply(a[1], b[0], "f32")),
        "grouping": (trees.add(trees.add(p[0], p[1], "f32"), p[2], "f32"),
                     trees.add(p[0], trees.add(p[1], p[2], "f32"), "f32")),
    }  # fmt: skip
    first, second = pairs[name]
    assert int(first[0]) != int(second[0])


def test_operands_may_change_places() -> None:
    trees = Trees()
    a, b = leaves(trees, 2)
    assert trees.multiply(a, b, "f32").tolist() == trees.multiply(b, a, "f32").tolist()
    assert trees.add(a, b, "f32").tolist() == trees.add(b, a, "f32").tolist()
    assert trees.block(a, np.stack([a, b]), "x").tolist() == trees.block(a, np.stack([b, a]), "x").tolist()


def test_zeros_and_ones_leave_no_trace() -> None:
    trees = Trees()
    a, b = leaves(trees, 1)
    zero, one = trees.constants(np.zeros(1)), trees.constants(np.ones(1))
    product = trees.multiply(a, b, "f32")
    assert int(zero[0]) == NOTHING
    assert trees.add(product, zero, "f32", plain=True) == product
    assert trees.fma(a, b, zero, "f32", plain=True) == product
    assert trees.fma(zero, b, product, "f32", plain=True) == product
    assert trees.fma(one, b, product, "f32", plain=True) == trees.add(b, product, "f32")
    assert trees.multiply(a, one, "f32", plain=True) == a
    assert trees.block(product, np.stack([zero, zero]), "x") == product


def test_nodes_say_what_was_computed() -> None:
    trees = Trees()
    a, b = leaves(trees, 2)
    total = trees.fma(a[1:], b[1:], trees.multiply(a[:1], b[:1], "f32"), "f32")
    node = trees.nodes[int(total[0])]
    assert (node.op, node.detail) == (Op.FMA, "f32")
    assert [trees.nodes[o].op for o in node.operands] == [Op.LEAF, Op.LEAF, Op.MULTIPLY]
    assert [trees.nodes[o].index for o in node.operands[:2]] == [1, 1]


def test_many_new_trees_at_once_are_all_written_down() -> None:
    trees = Trees()
    a, b = leaves(trees, 500)
    found = trees.multiply(a, b, "f32")
    assert all(number in trees.nodes for number in found.tolist())
