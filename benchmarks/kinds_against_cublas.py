"""Time few rows, fp32 in three precisions, unaligned and batched products beside cuBLAS, and record every shape.

    python benchmarks/kinds_against_cublas.py benchmarks/results/h200_kinds.json [--only narrow,fp32,fp32-fast,ieee,
        ieee-narrow,unaligned,batched] [--count 6] [--seed 100] [--seconds 120]

The shapes are in kinds_shapes.py: named ones, and ``--count`` random ones of each kind. How they are compared and timed
is in against_cublas.py; configurations beside the choice are timed by time_candidates.py. Shapes of all kinds take
turns, so that a run that is out of time has some of each. Exits 1 if a result is wrong.
"""

from __future__ import annotations

import sys
from itertools import chain, zip_longest

from against_cublas import parser, record
from kinds_shapes import KINDS, shapes_of
from shape_rig import Shape


def wanted(only: str, seed: int, count: int) -> dict[Shape, str]:
    """Shapes with their groups."""
    by_kind = [[(shape, kind) for shape in shapes_of(kind, seed, count)] for kind in only.split(",")]
    return dict(each for each in chain.from_iterable(zip_longest(*by_kind)) if each is not None)


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--only", default=",".join(KINDS), help="kinds, comma-separated")
    options.add_argument("--count", type=int, default=6, help="random shapes of each kind")
    options.set_defaults(seconds=120.0)
    given = options.parse_args()
    if unknown := set(given.only.split(",")) - set(KINDS):
        options.error(f"unknown kind {', '.join(sorted(unknown))}: use {', '.join(KINDS)}")
    return record("kinds_against_cublas.py", given, wanted(given.only, given.seed, given.count))


if __name__ == "__main__":
    sys.exit(main())
