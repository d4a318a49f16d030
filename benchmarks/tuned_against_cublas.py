"""Tune the shapes of a record that lose to cuBLAS, and time what is chosen then.

    python benchmarks/tuned_against_cublas.py benchmarks/results/h200_tuned.json
        [--of benchmarks/results/h200_shapes.json] [--below 0.98] [--budget 300] [--seconds 60]

Of the record of shapes_against_cublas.py, every shape that has less than --below of cuBLAS in bursts or sustained is
tuned by `gemmsmith tune`, for --budget seconds in all, in a tuning file of its own. Then each is timed beside cuBLAS
as in that record. Shapes that were picked because they lost come out better by chance when they are timed again: the
record has the times of before beside the new ones, and shapes that tuning left as they were say how much that is.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import against_cublas
from shape_rig import Shape

from gemmsmith.choose.models import forget_models

RESULTS = Path(__file__).parent / "results"
FIELDS = tuple(Shape.__dataclass_fields__)


def losing(cases: Sequence[Mapping[str, Any]], below: float) -> list[Shape]:
    """The shapes that have less than ``below`` of cuBLAS in one of the modes, the worst first."""
    lowest = {Shape(**{name: case[name] for name in FIELDS}): min(case["burst"]["ratio"], case["sustained"]["ratio"])
              for case in cases if "sustained" in case}  # fmt: skip
    return sorted((shape for shape, ratio in lowest.items() if ratio < below), key=lowest.__getitem__)


def tune(shapes: Sequence[Shape], budget: float, tuning: Path) -> None:
    """One command for all shapes of a type and layout, with its share of the seconds."""
    alike: dict[tuple[str, str, str], list[Shape]] = {}
    for shape in shapes:
        alike.setdefault((shape.dtype, shape.layout, shape.out), []).append(shape)
    for (dtype, layout, out), of_them in alike.items():
        names = ",".join(f"{shape.m}x{shape.n}x{shape.k}" for shape in of_them)
        subprocess.run(
            [sys.executable, "-m", "gemmsmith", "tune", "--shapes", names, "--dtype", dtype, "--layout", layout,
             "--out-dtype", out, "--budget", str(round(budget * len(of_them) / len(shapes))), "--tuning", str(tuning)],
            check=False,  # it exits 1 where a shape has no candidate; the record then shows the choice of before
        )  # fmt: skip


def main() -> int:
    parser = against_cublas.parser(__doc__)
    parser.add_argument("--of", type=Path, default=RESULTS / "h200_shapes.json", help="the record of before")
    parser.add_argument("--below", type=float, default=0.98, help="shapes with less of cuBLAS are tuned")
    parser.add_argument("--budget", type=float, default=300.0, help="seconds of tuning")
    options = parser.parse_args()
    before = json.loads(options.of.read_text(encoding="utf-8"))["cases"]
    shapes = losing(before, options.below)
    with tempfile.TemporaryDirectory() as folder:
        tuning = Path(folder) / "tuning.jsonl"
        tune(shapes, options.budget, tuning)
        os.environ["GEMMSMITH_TUNING"] = str(tuning)
        forget_models()
        status = against_cublas.record("tuned_against_cublas.py", options, dict.fromkeys(shapes, ""))
    found = json.loads(options.output.read_text(encoding="utf-8"))
    found["what"] = f"shapes of {options.of.name} below {options.below} of cuBLAS, after `gemmsmith tune`"
    earlier = {case["name"]: case for case in before}
    for case in found["cases"]:
        case["before"] = {name: earlier[case["name"]][name] for name in ("burst", "sustained", "config")}
    options.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main())
