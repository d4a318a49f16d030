"""Tile edges: {1, B−1, B, B+1, 2B−1, 2B+1} around every rung's tile in M, N and K, and extents of zero.

Each shape is judged twice: on small integers against int64 ('exact'), and on random data against the ordered sum of
fused multiply-adds, or the rule of tensor cores, bit for bit ('bits').
"""

from __future__ import annotations

from itertools import product

import pytest
from rung_launch import RUNGS, problem_of, small, tile, verified

from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import DTYPES
from gemmsmith.shapes import Shape, edge_shapes, edge_values
from gemmsmith.verify.cases import tile_of

# Some rungs, one of each way to guard edges, meet every pair of them; the others each edge. For tensor cores
# test_tensor_core_rungs.py has more, in every type.
THOROUGH = ("naive", "register_block", "vectorized", "warp_tile", "async_copy", "simt_best")
PAIRS = [(name, shape) for name in RUNGS
         for shape in edge_shapes(*tile(name), cover="pairs" if name in THOROUGH else "each")]  # fmt: skip
# Bits in order are the stricter test; integers are for what it cannot tell apart, which no pair of edges can.
EACH = [(name, shape) for name in RUNGS for shape in edge_shapes(*tile(name), cover="each")]
EXTENTS = [(name, shape) for name in RUNGS
           for shape in edge_shapes(*tile_of(rung_named(name), rung_named(name).config()), cover="each")]  # fmt: skip


def label(value: object) -> str:
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)


@pytest.mark.parametrize(("name", "shape"), EACH, ids=label)
def test_integers_are_exact(name: str, shape: Shape) -> None:
    spec, config = small(name)
    alpha, beta = ((1.0, 0.0), (2.0, -1.0), (-1.0, 1.0))[sum(shape) % 3]
    verified(spec, config, problem_of(name, shape).with_(alpha=alpha, beta=beta), mode="exact", seed=sum(shape))


@pytest.mark.parametrize(("name", "shape"), PAIRS, ids=label)
def test_random_data_sums_in_order(name: str, shape: Shape) -> None:
    spec, config = small(name)
    alpha, beta = ((1.0, 0.0), (0.7, -1.5))[sum(shape) % 2]
    verified(spec, config, problem_of(name, shape).with_(alpha=alpha, beta=beta), mode="bits", seed=sum(shape))


@pytest.mark.parametrize(("name", "shape"), EXTENTS, ids=label)
def test_the_default_configuration(name: str, shape: Shape) -> None:
    spec = rung_named(name)
    verified(spec, spec.config(), problem_of(name, shape).with_(alpha=-1.0, beta=0.7), mode="bits")


@pytest.mark.parametrize("name", RUNGS)
@pytest.mark.parametrize("k", range(6), ids=lambda i: f"edge{i}")
def test_the_edges_of_k_at_a_ragged_tile(name: str, k: int) -> None:
    spec, config = small(name)
    bm, bn, bk = tile(name)
    depth = [0, *edge_values(3 * bk)[1:]][k]
    verified(spec, config, problem_of(name, (bm + 1, bn + 3, depth)).with_(beta=1.0), mode="exact")


EMPTY = [shape for shape in product((0, 5), (0, 9), (0, 3)) if 0 in shape]


@pytest.mark.parametrize("name", RUNGS)
@pytest.mark.parametrize("shape", EMPTY, ids=label)
def test_an_extent_of_zero(name: str, shape: Shape) -> None:
    spec, config = small(name)
    for alpha, beta in ((1.0, 0.0), (float("inf"), 0.7)):
        verified(spec, config, problem_of(name, shape).with_(alpha=alpha, beta=beta), mode="bits")


@pytest.mark.parametrize("mode", ["exact", "bits"])
@pytest.mark.parametrize("shape", edge_shapes(*tile("warp_tile_mixed"), cover="each"), ids=label)
def test_bfloat16(mode: str, shape: Shape) -> None:
    spec, config = small("warp_tile_mixed")
    verified(spec, config, problem_of(spec.name, shape).with_(dtype=DTYPES["bf16"], beta=-1.0), mode=mode)
