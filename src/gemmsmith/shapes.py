"""Shapes (M, N, K): named suites, tile edges, random shapes, and how they are written on the command line.

Suites are for running and measuring; ``edge_shapes`` and ``fuzz_shapes`` for verifying, since most bugs are within one
element of a tile's edge.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np

from gemmsmith.errors import UsageError
from gemmsmith.problem import MAX_EXTENT

Shape = tuple[int, int, int]


@dataclass(frozen=True)
class Suite:
    """A named list of shapes and its purpose."""

    name: str
    why: str
    shapes: tuple[Shape, ...]


def _cubes(*sizes: int) -> tuple[Shape, ...]:
    return tuple((size, size, size) for size in sizes)


SUITES: Mapping[str, Suite] = MappingProxyType(
    {
        suite.name: suite
        for suite in (
            Suite("smoke", "small enough for the simulator in a second", ((64, 64, 64), (65, 63, 17), (1, 1, 1))),
            Suite(
                "edges",
                "within one element of tiles of 32, 64 and 128",
                (
                    (1, 129, 31), (31, 33, 32), (33, 31, 1), (63, 65, 17), (64, 64, 33), (65, 63, 8), (127, 129, 9),
                    (128, 128, 15), (129, 127, 16), (129, 1, 65), (255, 257, 7),
                ),
            ),
            Suite("squares", "the usual curve", _cubes(64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)),
            Suite(
                "skinny",
                "few rows, columns or outputs: little parallelism in M×N",
                ((1, 4096, 4096), (16, 4096, 4096), (64, 4096, 4096), (4096, 16, 4096), (128, 128, 16384)),
            ),
            Suite(
                "odd",
                "unaligned: no leading dimension is a multiple of 16 bytes, as vector loads and TMA need",
                ((1023, 1021, 1019), (2049, 2047, 2045), (4097, 4095, 4093)),
            ),
            Suite(
                "llm",
                "projections and feed-forward layers of language models, decode and prefill",
                ((16, 4096, 4096), (64, 7168, 18432), (4096, 4096, 4096), (4096, 14336, 4096), (8192, 28672, 8192)),
            ),
        )
    }
)  # fmt: skip


def suite_named(name: str) -> Suite:
    """The suite called ``name``; raises with a list of all suites."""
    try:
        return SUITES[name]
    except (KeyError, TypeError):
        raise UsageError(f"unknown shape suite {name!r}", f"use one of {', '.join(SUITES)}, or MxNxK") from None


def parse_shapes(text: str) -> tuple[Shape, ...]:
    """Shapes from text: suite names, ``MxNxK``, or one number for a cube, comma-separated and mixed.

    Order is kept; repetitions are dropped.
    """
    if not isinstance(text, str):
        raise UsageError(f"shapes are written as text such as '4096x4096x4096', not {text!r}")
    words = [word.strip() for word in text.split(",")]
    if not any(words):
        raise UsageError("no shape given", f"write MxNxK[,MxNxK…] or one of {', '.join(SUITES)}")
    shapes: list[Shape] = []
    for word in words:
        if not word:
            raise UsageError(f"an empty shape in {text!r}", "write MxNxK[,MxNxK…] with single commas")
        shapes.extend(_parse_word(word))
    return _unique(shapes)


def _parse_word(word: str) -> tuple[Shape, ...]:
    if re.match(r"[A-Za-z]", word):
        return suite_named(word).shapes
    # Only ASCII digits: int() would also take '1_000' and digits of other scripts.
    match = re.fullmatch(r"([0-9]+)(?:[xX×]([0-9]+)[xX×]([0-9]+))?", word)
    if match is None:
        raise UsageError(f"cannot read the shape {word!r}", "write MxNxK, such as 4096x4096x4096, or one number")
    extents = [match.group(1)] * 3 if match.group(2) is None else list(match.groups())
    for text in extents:
        # The length first: int() raises its own error for very long numbers.
        if len(text) > 10 or int(text) > MAX_EXTENT:
            shown = text if len(text) <= 20 else f"{text[:20]}…"
            raise UsageError(f"{shown} in shape {word[:40]!r} exceeds {MAX_EXTENT}, the largest extent a kernel takes")
    m, n, k = (int(text) for text in extents)
    return ((m, n, k),)


def edge_values(block: int) -> tuple[int, ...]:
    """Extents around a tile of ``block``: 1, B−1, B, B+1, 2B−1, 2B+1; ascending, distinct, at least 1."""
    if isinstance(block, bool) or not isinstance(block, int) or block < 1:
        raise UsageError(f"a tile's extent must be a positive integer, not {block!r}")
    candidates = {1, block - 1, block, block + 1, 2 * block - 1, 2 * block + 1}
    return tuple(sorted(value for value in candidates if value >= 1))


COVERS = ("each", "pairs", "full")


def edge_shapes(bm: int, bn: int, bk: int, cover: str = "pairs") -> tuple[Shape, ...]:
    """Shapes around a tile of bm×bn×bk.

    each   every edge value of every dimension at least once (about 6 shapes)
    pairs  every pair of edge values of two different dimensions at least once (about 36): all combinations of M and N,
           with K from a Latin square. Nearly all boundary bugs involve at most two dimensions.
    full   all combinations (about 216)
    """
    m_edges, n_edges, k_edges = edge_values(bm), edge_values(bn), edge_values(bk)
    order = max(len(m_edges), len(n_edges), len(k_edges))

    def shape(i: int, j: int, k: int) -> Shape:
        return (m_edges[i % len(m_edges)], n_edges[j % len(n_edges)], k_edges[k % len(k_edges)])

    if cover == "each":
        # Shifted, so that a value is not always paired with the same kind of value in the other dimensions.
        return _unique(shape(i, (i + 1) % order, (i + 2) % order) for i in range(order))
    if cover == "pairs":
        return _unique(shape(i, j, (i + j) % order) for i in range(order) for j in range(order))
    if cover == "full":
        return tuple((m, n, k) for m in m_edges for n in n_edges for k in k_edges)
    raise UsageError(f"unknown cover {cover!r}", f"use one of {', '.join(COVERS)}")


def fuzz_shapes(count: int, seed: int, largest: int = 200) -> tuple[Shape, ...]:
    """``count`` random shapes with extents from 1 to ``largest``; the same seed gives the same shapes.

    Half of the extents are log-uniform, so that very small ones, which exercise every guard, are common; a quarter are
    uniform; a quarter lie within one of a multiple of 8, where tiles and vectors end.
    """
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise UsageError(f"the number of shapes must be 0 or more, not {count!r}")
    if isinstance(largest, bool) or not isinstance(largest, int) or not 1 <= largest <= MAX_EXTENT:
        raise UsageError(f"the largest extent must be from 1 to {MAX_EXTENT}, not {largest!r}")
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise UsageError(f"a seed must be an integer of 0 or more, not {seed!r}")
    rng = np.random.Generator(np.random.PCG64(seed))
    size = (count, 3)
    skewed = np.exp(rng.uniform(0.0, np.log(largest + 1.0), size)).astype(np.int64)
    uniform = rng.integers(1, largest + 1, size)
    near_edge = 8 * rng.integers(1, largest // 8 + 2, size) + rng.integers(-1, 2, size)
    kind = rng.integers(0, 4, size)
    extents = np.where(kind < 2, skewed, np.where(kind == 2, uniform, near_edge)).clip(1, largest)
    return tuple((int(m), int(n), int(k)) for m, n, k in extents)


def _unique(shapes: Iterable[Shape]) -> tuple[Shape, ...]:
    return tuple(dict.fromkeys(shapes))
