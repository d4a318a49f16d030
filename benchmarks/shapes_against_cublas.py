"""Time what gemmsmith chooses without tuning beside cuBLAS on many 16-bit shapes, and record every one.

    python benchmarks/shapes_against_cublas.py benchmarks/results/h200_shapes.json
        [--sets named,deep,public,rows,random] [--seed 100] [--count 40] [--seconds 150]

Both run as CUDA graphs over rotated operands, in turns, in two modes: short bursts on an idle GPU, and sustained, where
the power cap sets the clock (against_cublas.py). Sustained samples also give power, and so joules per product. The
record has every shape with both times in both modes, the kernel that was chosen, and the geometric mean and the lowest
ratio of each kind. Random shapes of seeds below 100 were used to fit the cost model; others were not. Exits 1 if a
result is wrong.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace

import shape_sets
from against_cublas import parser, record
from shape_rig import Shape


def wanted(options: argparse.Namespace) -> dict[Shape, str]:
    every = {
        "named": shape_sets.named, "deep": shape_sets.deep,
        "public": lambda: shape_sets.public(options.count, options.seed),
        "rows": lambda: shape_sets.any_rows(options.count, options.seed),
        "random": lambda: shape_sets.log_uniform(options.count, options.seed),
    }  # fmt: skip
    found = [shape for name in options.sets.split(",") for shape in every[name]()]
    if options.layouts:
        layouts = options.layouts.split(",")
        found = [replace(shape, layout=layouts[i % len(layouts)]) for i, shape in enumerate(found)]
    return dict.fromkeys(found, "")


def main() -> int:
    options = parser(__doc__)
    options.add_argument("--sets", default="named,deep,public,rows,random")
    options.add_argument("--layouts", default="", help="give the shapes these layouts in turn: NT,NN,TN,TT")
    options.add_argument("--count", type=int, default=40, help="of public and of random shapes")
    given = options.parse_args()
    return record("shapes_against_cublas.py", given, wanted(given))


if __name__ == "__main__":
    sys.exit(main())
