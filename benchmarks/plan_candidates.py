"""What to time for the table: layers of public models with rows in use, and the configurations that may be best there.

    python benchmarks/plan_candidates.py plan.json [--shapes 400] [--random 60] [--kernels 900] [--seed 60]
        [--testing 20] [--testing-seed 117] [--also choices.json]

Shapes are drawn by how common layers and row counts are, without those of earlier plans; random ones (of any layout,
with both output types) and testing shapes come between them, so that a run that is cut has some of all. The first
candidate of a shape is what is chosen now, the second what --also says, such as the choice of an earlier version. The
others are predicted to be fast there and are timed elsewhere too, because compiling takes longer than timing: shapes
that need few new kernels come first, and those with fewer than three candidates are left out. time_candidates.py times
the plan.
Shapes that shape_sets.py draws for testing (seeds from 100 on) are left out, except those of --testing.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import shape_sets
from candidate_record import BOTH_SEEDS, RECORD, seed_of
from public_layers import ROWS, layers
from shape_rig import Shape

from gemmsmith.choose import narrow
from gemmsmith.choose.candidates import Candidate, ranked
from gemmsmith.choose.choice import choose
from gemmsmith.choose.key import alignment
from gemmsmith.choose.models import hopper_model
from gemmsmith.kernel.config import Config
from gemmsmith.ladder.registry import rung_named

GPU, SMS, ARCH = "NVIDIA H200", 132, "sm_90"
TESTING_SEEDS = range(100, 180)
MOST_FLOPS, MOST_BYTES = 1.5e12, 1.2e9
NEAR = 1.12  # predictions within this of the best
PER_SIZE = 2
FEWEST, LEAST = 4, 3  # candidates of a shape that kernels are compiled for; with fewer it is not timed


@dataclass
class Planned:
    shape: Shape
    chosen: list[Candidate]
    near: list[Candidate]

    @property
    def code(self) -> tuple[str, str]:
        """What decides a configuration's code besides itself."""
        return self.shape.layout, self.shape.out


def is_small_enough(shape: Shape) -> bool:
    return shape.problem.flops <= MOST_FLOPS and shape.operand_bytes + 4 * shape.m * shape.n <= MOST_BYTES


def drawn(count: int, seed: int, common: float) -> list[Shape]:
    """Layers with rows, without repetition and without the testing shapes, by weights to the power of ``common``."""
    testing = {(s.m, s.n, s.k) for each in TESTING_SEEDS for s in shape_sets.public(24, each)}
    testing |= {(s.m, s.n, s.k) for each in TESTING_SEEDS for s in shape_sets.any_rows(40, each)}
    record = json.loads(RECORD.read_text(encoding="utf-8"))["shapes"]
    earlier = [each["shape"] for each in record if seed_of(each["shape"]["origin"]) in BOTH_SEEDS]
    testing |= {(each["m"], each["n"], each["k"]) for each in earlier}
    dice = random.Random(f"layers {seed}")
    found: dict[tuple[int, int, int], Shape] = {}
    every = [(rows, *layer) for layer in layers() for rows in ROWS]
    weights = [(weight * many) ** common for weight in layers().values() for many in ROWS.values()]
    while len(found) < count:
        extents = dice.choices(every, weights)[0]
        shape = Shape(*extents, origin=f"public, seed {seed}")
        if extents not in testing and is_small_enough(shape):
            found[extents] = shape
    return list(found.values())


def testing_shapes(count: int, seed: int) -> list[Shape]:
    """Layers with any rows and random shapes in turns."""
    both = zip(shape_sets.any_rows(2 * count, seed), shape_sets.log_uniform(2 * count, seed), strict=True)
    return [shape for pair in both for shape in pair if is_small_enough(shape)][: 2 * count]


def planned(shape: Shape, also: dict[str, Any]) -> Planned:
    problem = shape.problem
    choice = choose(problem, GPU, sms=SMS, arch=ARCH)
    chosen = [Candidate(choice.spec, choice.config, 0.0)]
    if str(shape) in also:
        spec = rung_named(also[str(shape)]["kernel"])
        chosen.append(Candidate(spec, spec.config(also[str(shape)]["config"]), 0.0))
    model = hopper_model(GPU, SMS, ARCH)
    assert model is not None
    near = ranked(problem, *model, within=NEAR) + narrow.fastest(problem, model[0], alignment(problem), 4)
    return Planned(shape, chosen, near)


def kernels(works: Sequence[Planned], most: int, fewest: int = FEWEST) -> set[tuple[Any, ...]]:
    """Those to compile. The shape that needs the fewest new ones to have ``fewest`` candidates, what is chosen there
    among them, comes next, until there are ``most``."""
    found: set[tuple[Any, ...]] = set()
    left = [([(each.code, c.name) for c in each.chosen], [(each.code, c.name) for c in each.near]) for each in works]

    def missing(each: tuple[list[Any], list[Any]]) -> tuple[int, int]:
        chosen, near = each
        there = len(found.intersection(near).union(chosen))
        return len(set(chosen) - found) + max(0, fewest - there), -there

    while left and len(found) < most:
        chosen, near = left.pop(min(range(len(left)), key=lambda i: missing(left[i])))
        found.update(chosen)
        there = found.intersection(near).union(chosen)
        found.update([name for name in near if name not in there][: max(0, fewest - len(there))])
    return found


def taken(each: Planned, compiled: set[tuple[Any, ...]], most: int, per_size: int = PER_SIZE) -> list[Candidate]:
    """What is chosen, and the fastest predictions among what is compiled, of each tile size at most ``per_size``;
    none where what is chosen is not compiled."""
    found = {chosen.name: chosen for chosen in each.chosen if (each.code, chosen.name) in compiled}
    if not found:
        return []
    sizes: Counter[tuple[int, int, int]] = Counter()
    for candidate in each.near:
        size = _size(candidate.config)
        if (each.code, candidate.name) in compiled and sizes[size] < per_size and len(found) < most:
            sizes[size] += candidate.name not in found
            found.setdefault(candidate.name, candidate)
    return list(found.values())


def _size(config: Config) -> tuple[int, int, int]:
    return config["BM"], config["BN"], config.get("SWAP", 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan", type=Path)
    parser.add_argument("--shapes", type=int, default=400, help="of public models")
    parser.add_argument("--random", type=int, default=60)
    parser.add_argument("--kernels", type=int, default=900, help="that are compiled, at most")
    parser.add_argument("--candidates", type=int, default=9, help="of a shape, at most")
    parser.add_argument("--seed", type=int, default=60, help="below 100")
    parser.add_argument("--common", type=float, default=1.0, help="power of weights: 2 takes common shapes first")
    parser.add_argument("--testing", type=int, default=0, help="layers with any rows, and as many random shapes")
    parser.add_argument("--testing-seed", type=int, default=117, help="from 100 on")
    parser.add_argument("--every", type=int, default=5, help="another shape after so many public ones")
    parser.add_argument("--also", type=Path, help="choices by the name of a shape, to be timed as well")
    options = parser.parse_args()
    also = json.loads(options.also.read_text(encoding="utf-8")) if options.also else {}
    public = drawn(options.shapes, options.seed, options.common)
    others = [s for s in shape_sets.log_uniform(4 * options.random, options.seed) if is_small_enough(s)]
    others = others[: options.random]
    if options.testing:
        tests = testing_shapes(options.testing, options.testing_seed)
        others = [s for pair in itertools.zip_longest(others, tests) for s in pair if s is not None]
    shapes: list[Shape] = []
    for number, shape in enumerate(public):
        shapes.append(shape)
        if number % options.every == options.every - 1 and len(shapes) - number <= len(others):
            shapes.append(others[len(shapes) - number - 1])
    works = [planned(shape, also) for shape in shapes]
    compiled = kernels(works, options.kernels)
    plan, used = [], set()
    for each in works:
        rows = taken(each, compiled, options.candidates)
        if len(rows) < LEAST:
            continue
        used |= {(each.code, candidate.name) for candidate in rows}
        plan.append({"shape": asdict(each.shape),
                     "candidates": [{"kernel": c.spec.name, "config": dict(c.config)} for c in rows]})  # fmt: skip
    options.plan.write_text(json.dumps(plan), encoding="utf-8")
    print(f"{len(plan)} shapes, {sum(len(each['candidates']) for each in plan)} times, {len(used)} kernels")
    return 0


if __name__ == "__main__":
    sys.exit(main())
