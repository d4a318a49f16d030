"""Leading dimensions, unaligned starts, transposes and aliases: right, or refused with the rung that takes it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from rung_launch import RUNGS, problem_of, small, tile, verified

import gemmsmith
from gemmsmith.errors import ProblemError, UnsupportedError
from gemmsmith.fills import Array
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import FP32, Problem

Triple = tuple[int, int, int]
ANY_LAYOUT = ("naive", "coalesced")
PLAIN_ONLY = tuple(name for name in RUNGS if rung_named(name).layouts == ("NN",))
LAYOUTS = ("NT", "TN", "TT")


def problem_for(name: str, shape: str) -> Problem:
    """'whole' tiles, which may take the vector path, or 'ragged' ones, which may not."""
    bm, bn, bk = tile(name)
    extents = (bm, 2 * bn, 2 * bk) if shape == "whole" else (bm + 1, bn + 3, bk + 2)
    return problem_of(name, extents).with_(alpha=0.7, beta=-1.0)


def padded(problem: Problem, extra: Triple) -> Problem:
    a, b, c = extra
    return replace(problem, lda=problem.lda + a, ldb=problem.ldb + b, ldc=problem.ldc + c)


@pytest.mark.parametrize("shape", ["whole", "ragged"])
@pytest.mark.parametrize("extra", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (3, 5, 7), (8, 16, 32)], ids=str)
@pytest.mark.parametrize("name", RUNGS)
def test_leading_dimensions(name: str, extra: Triple, shape: str) -> None:
    spec, config = small(name)
    verified(spec, config, padded(problem_for(name, shape), extra))


@pytest.mark.parametrize("offsets", [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 2, 3), (2, 2, 2), (4, 4, 4)], ids=str)
@pytest.mark.parametrize("name", RUNGS)
def test_unaligned_starts(name: str, offsets: Triple) -> None:
    """Whole tiles off the vectors' alignment: a vector access there is a fault."""
    spec, config = small(name)
    verified(spec, config, problem_for(name, "whole"), offsets=offsets)


@pytest.mark.parametrize(("extra", "offsets"), [((1, 2, 3), (3, 2, 1)), ((8, 8, 8), (1, 1, 1)), ((4, 4, 4), (4, 4, 4))])
@pytest.mark.parametrize("name", RUNGS)
def test_both_together(name: str, extra: Triple, offsets: Triple) -> None:
    spec, config = small(name)
    verified(spec, config, padded(problem_for(name, "ragged"), extra), offsets=offsets, mode="float")


# --- transposes


@pytest.mark.parametrize("extents", [(8, 8, 8), (1, 17, 3), (9, 7, 17), (17, 1, 8), (15, 9, 0)], ids=str)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ANY_LAYOUT)
def test_every_layout(name: str, layout: str, extents: Triple) -> None:
    spec, config = small(name)
    problem = Problem(*extents, trans_a=layout[0] == "T", trans_b=layout[1] == "T", beta=1.0)
    verified(spec, config, problem, mode="exact")
    verified(spec, config, padded(problem, (3, 1, 2)), mode="bits", offsets=(1, 2, 3))


# mma_swizzled reads its fragments as mma_pipelined does.
@pytest.mark.parametrize("extents", [(64, 64, 64), (1, 130, 35), (66, 9, 70)], ids=str)
@pytest.mark.parametrize(("name", "layout"), [*(("mma_pipelined", layout) for layout in LAYOUTS), ("wmma", "TN"),
                                              ("wmma", "NT"), ("mma_swizzled", "TT")])  # fmt: skip
def test_every_layout_on_tensor_cores(name: str, layout: str, extents: Triple) -> None:
    spec, config = small(name)
    problem = problem_of(name, extents).with_(trans_a=layout[0] == "T", trans_b=layout[1] == "T", beta=1.0)
    verified(spec, config, problem, mode="exact")
    verified(spec, config, padded(problem, (8, 24, 2)), mode="bits")
    verified(spec, config, padded(problem, (3, 1, 2)), mode="bits", offsets=(1, 2, 3))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", PLAIN_ONLY)
def test_a_layout_is_refused_with_a_way_out(name: str, layout: str) -> None:
    spec, config = small(name)
    dtype = spec.dtypes[0]
    problem = Problem(9, 8, 7, dtype, trans_a=layout[0] == "T", trans_b=layout[1] == "T")
    with pytest.raises(UnsupportedError) as caught:
        verified(spec, config, problem)
    assert caught.value.message == f"{name} takes layout NN, not {layout}"
    others = [rung for rung in RUNGS if rung not in PLAIN_ONLY and dtype in rung_named(rung).dtypes]
    assert caught.value.hint.startswith(f"use {' or '.join(others[:4])}")
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("name", RUNGS)
def test_a_type_is_refused_with_a_way_out(name: str) -> None:
    spec, config = small(name)
    other = "fp16" if spec.dtypes[0] == FP32 else "fp32"
    a = np.ones((4, 4), np.float16 if other == "fp16" else np.float32)
    with pytest.raises(UnsupportedError, match=f"{name} takes .*, not {other}") as caught:
        gemmsmith.gemm(a, a, kernel=name, config=dict(config.values))
    named = caught.value.hint.removeprefix("use ").split(" or ")
    assert named
    assert all(other in [d.name for d in rung_named(rung).dtypes] for rung in named)


# --- aliases


def arena() -> Array:
    return np.arange(1.0, 401.0, dtype=np.float32)


# Where a, b and out lie in one array of 400 floats: first element and leading dimension.
OVERLAPS = [
    ("a", (0, 6), (100, 5), (0, 5)), ("b", (0, 6), (100, 5), (100, 5)), ("a", (0, 6), (100, 5), (41, 5)),
    ("b", (0, 6), (100, 5), (129, 5)), ("a", (60, 6), (200, 5), (26, 5)), ("b", (0, 6), (200, 5), (166, 5)),
    ("a", (0, 50), (360, 5), (5, 50)), ("b", (300, 6), (10, 20), (6, 20)), ("a", (0, 40), (320, 5), (10, 41)),
]  # fmt: skip


def at(memory: Array, place: tuple[int, int], rows: int, columns: int) -> Array:
    first, leading = place
    return np.lib.stride_tricks.as_strided(memory[first:], (rows, columns), (4 * leading, 4))


@pytest.mark.parametrize("kernel", [None, "naive"])
@pytest.mark.parametrize(("whose", "a", "b", "out"), OVERLAPS)
def test_an_output_over_an_input_is_refused(
    whose: str, a: tuple[int, int], b: tuple[int, int], out: tuple[int, int], kernel: str | None
) -> None:
    memory = arena()
    with pytest.raises(ProblemError, match=f"out overlaps {whose}") as caught:
        gemmsmith.gemm(at(memory, a, 7, 6), at(memory, b, 6, 5), out=at(memory, out, 7, 5), kernel=kernel)
    assert caught.value.exit_code == 2
    assert np.array_equal(memory, arena())


def test_an_output_that_half_overlaps_c_is_refused() -> None:
    memory = arena()
    a, b = np.ones((7, 6), np.float32), np.ones((6, 5), np.float32)
    with pytest.raises(ProblemError, match="out overlaps c"):
        gemmsmith.gemm(a, b, at(memory, (0, 5), 7, 5), beta=1, out=at(memory, (5, 5), 7, 5))
    with pytest.raises(ProblemError, match="out overlaps c"):
        gemmsmith.gemm(a, b, at(memory, (0, 5), 7, 5), beta=1, out=at(memory, (0, 6), 7, 5))
    assert np.array_equal(memory, arena())


@pytest.mark.parametrize("name", RUNGS)
def test_in_place_on_c(name: str) -> None:
    """c and out may be the same matrix; a and b may be, too, as nothing writes them."""
    spec, config = small(name)
    values = np.arange(36, dtype=np.float32).reshape(6, 6)
    operand, c = values.astype(spec.dtypes[0].numpy), values.copy()
    result = gemmsmith.gemm(operand, operand, c, beta=-2, out=c, kernel=spec.name, config=config)
    assert result is c
    assert np.array_equal(c, values @ values - 2 * values)


@pytest.mark.parametrize("second", [(50, 5), (200, 9)])
@pytest.mark.parametrize("first", [(0, 6), (100, 6)])
def test_neighbours_do_not_overlap(first: tuple[int, int], second: tuple[int, int]) -> None:
    memory = arena()
    a, b = at(memory, first, 7, 6).copy(), at(memory, second, 6, 5).copy()
    out = at(memory, (300, 5), 7, 5)
    gemmsmith.gemm(at(memory, first, 7, 6), at(memory, second, 6, 5), out=out, kernel="naive")
    assert np.array_equal(out, a @ b)
    assert np.array_equal(memory[:300], arena()[:300])
    assert np.array_equal(memory[335:], arena()[335:])


@pytest.mark.parametrize("column", [6, 7, 15])
def test_slices_of_one_matrix_do_not_overlap(column: int) -> None:
    whole = arena().reshape(20, 20)
    before = whole.copy()
    out = whole[:7, column : column + 5]
    gemmsmith.gemm(whole[:7, :6], whole[10:16, 2:7], out=out, kernel="naive")
    assert np.array_equal(out, before[:7, :6] @ before[10:16, 2:7])
    out[:] = before[:7, column : column + 5]
    assert np.array_equal(whole, before)
