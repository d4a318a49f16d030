"""Shape suites, tile edges, fuzz shapes and how shapes are written."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from gemmsmith.errors import UsageError
from gemmsmith.problem import MAX_EXTENT, Problem
from gemmsmith.shapes import COVERS, SUITES, edge_shapes, edge_values, fuzz_shapes, parse_shapes, suite_named


@pytest.mark.parametrize("name", SUITES)
def test_suites_are_legal_problems_without_repetition(name: str) -> None:
    suite = suite_named(name)
    assert suite.name == name
    assert suite.why
    assert len(set(suite.shapes)) == len(suite.shapes) > 0
    for shape in suite.shapes:
        assert Problem(*shape).flops > 0


def test_suites_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        SUITES["mine"] = SUITES["smoke"]  # type: ignore[index]
    with pytest.raises(dataclasses.FrozenInstanceError):
        SUITES["smoke"].shapes = ()  # type: ignore[misc]


def test_odd_shapes_are_unaligned_and_llm_includes_the_measured_ones() -> None:
    assert all(extent % 4 for shape in SUITES["odd"].shapes for extent in shape)
    assert {(64, 7168, 18432), (4096, 14336, 4096)} <= set(SUITES["llm"].shapes)


@pytest.mark.parametrize(
    ("block", "values"),
    [(1, (1, 2, 3)), (2, (1, 2, 3, 5)), (8, (1, 7, 8, 9, 15, 17)), (64, (1, 63, 64, 65, 127, 129))],
)
def test_edge_values(block: int, values: tuple[int, ...]) -> None:
    assert edge_values(block) == values


TILES = [(64, 64, 8), (128, 64, 16), (1, 1, 1), (2, 32, 1), (8, 1, 64), (32, 32, 32)]


@pytest.mark.parametrize("tile", TILES, ids=str)
@pytest.mark.parametrize("cover", COVERS)
def test_every_edge_value_appears(tile: tuple[int, int, int], cover: str) -> None:
    shapes = edge_shapes(*tile, cover=cover)
    assert len(set(shapes)) == len(shapes)
    for dimension, block in enumerate(tile):
        assert {shape[dimension] for shape in shapes} == set(edge_values(block))


@pytest.mark.parametrize("tile", TILES, ids=str)
def test_pairs_cover_every_pair_with_few_shapes(tile: tuple[int, int, int]) -> None:
    shapes = edge_shapes(*tile, cover="pairs")
    assert len(shapes) <= 36
    for x, y in itertools.combinations(range(3), 2):
        wanted = set(itertools.product(edge_values(tile[x]), edge_values(tile[y])))
        assert {(shape[x], shape[y]) for shape in shapes} == wanted


def test_the_size_of_each_cover() -> None:
    assert [len(edge_shapes(64, 128, 8, cover)) for cover in COVERS] == [6, 36, 216]


@pytest.mark.parametrize("largest", [1, 7, 200, 5000])
def test_fuzz_shapes_stay_in_range_and_repeat(largest: int) -> None:
    shapes = fuzz_shapes(200, 5, largest)
    assert len(shapes) == 200
    assert all(1 <= extent <= largest for shape in shapes for extent in shape)
    assert shapes == fuzz_shapes(200, 5, largest)
    assert all(type(extent) is int for shape in shapes for extent in shape)
    if largest > 1:
        assert shapes != fuzz_shapes(200, 6, largest)
        assert {extent for shape in shapes for extent in shape} >= {1, largest - 1} or largest > 200


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("4x5x6", ((4, 5, 6),)),
        (" 4x5x6 , 1X2×3 ", ((4, 5, 6), (1, 2, 3))),
        ("128", ((128, 128, 128),)),
        ("0x3x4", ((0, 3, 4),)),
        ("4x5x6,4x5x6", ((4, 5, 6),)),
        (f"1x1x{MAX_EXTENT}", ((1, 1, MAX_EXTENT),)),
        ("smoke", SUITES["smoke"].shapes),
        ("9x9x9,smoke", ((9, 9, 9), *SUITES["smoke"].shapes)),
    ],
)
def test_parse(text: str, shapes: tuple) -> None:
    assert parse_shapes(text) == shapes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no shape given"), (" , ", "no shape given"), ("4x5", "cannot read the shape '4x5'"),
        ("4x5x6x7", "cannot read"), ("-4x5x6", "cannot read"), ("4x5x6,", "empty shape"), ("4,,5", "empty shape"),
        ("4.5x1x1", "cannot read"), ("1_000x1x1", "cannot read"), ("٣x1x1", "cannot read"), ("4 x5x6", "cannot read"),
        ("huge", "unknown shape suite 'huge'"), ("x4x5", "unknown shape suite"), ("1e3", "cannot read"),
        (f"1x1x{MAX_EXTENT + 1}", "exceeds 2147483647"), ("9" * 5000, "exceeds"), ("0x10", "cannot read"),
    ],
)  # fmt: skip
def test_unreadable_shapes(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        parse_shapes(text)
    assert caught.value.exit_code == 2
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("text", [None, 5, (4, 5, 6), b"4x5x6"])
def test_shapes_must_be_text(text: object) -> None:
    with pytest.raises(UsageError, match="written as text"):
        parse_shapes(text)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: edge_values(0), "positive integer, not 0"),
        (lambda: edge_values(True), "positive integer"),
        (lambda: edge_values(2.0), "positive integer"),
        (lambda: edge_shapes(8, 8, -8), "positive integer, not -8"),
        (lambda: edge_shapes(8, 8, 8, "some"), "unknown cover 'some'"),
        (lambda: fuzz_shapes(-1, 0), "number of shapes"),
        (lambda: fuzz_shapes(1, -1), "seed"),
        (lambda: fuzz_shapes(1, 0, 0), "largest extent"),
        (lambda: fuzz_shapes(1, 0, MAX_EXTENT + 1), "largest extent"),
        (lambda: suite_named(["smoke"]), "unknown shape suite"),
    ],
)
def test_wrong_generators(call: object, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        call()  # type: ignore[operator]
