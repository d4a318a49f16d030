"""What to time for the table: layers of public models with rows in use, and the configurations that may be best there.

    python benchmarks/plan_candidates.py plan.json [--shapes 400] [--random 60] [--kernels 900] [--seed 60]

Shapes are drawn by how common layers and row counts are; random ones (of any layout, with both output types) come
between them, so that a run that is cut has some of both. The first candidate of a shape is what is chosen now. The
others are predicted to be fast there and at many other shapes, because compiling takes longer than timing: of all
configurations near the best, those with the highest sum over shapes are compiled. time_candidates.py times the plan.
Shapes that shape_sets.py draws for testing (seeds from 100 on) are left out.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import shape_sets
from public_layers import ROWS, layers
from shape_rig import Shape

from gemmsmith.choose import narrow
from gemmsmith.choose.candidates import Candidate, ranked
from gemmsmith.choose.choice import choose
from gemmsmith.choose.key import alignment
from gemmsmith.choose.models import hopper_model
from gemmsmith.kernel.config import Config

GPU, SMS, ARCH = "NVIDIA H200", 132, "sm_90"
TESTING_SEEDS = range(100, 160)
MOST_FLOPS, MOST_BYTES = 1.5e12, 1.2e9
NEAR, SCALE = 1.12, 0.03  # predictions within this of the best; how fast a configuration's share falls with them
PER_SIZE = 2
EVERY = 5  # a random shape after so many others


@dataclass
class Planned:
    shape: Shape
    chosen: Candidate
    near: list[Candidate]

    @property
    def code(self) -> tuple[str, str]:
        """What decides a configuration's code besides itself."""
        return self.shape.layout, self.shape.out


def is_small_enough(shape: Shape) -> bool:
    return shape.problem.flops <= MOST_FLOPS and shape.operand_bytes + 4 * shape.m * shape.n <= MOST_BYTES


def drawn(count: int, seed: int) -> list[Shape]:
    """Layers with rows, without repetition and without the testing shapes; common ones first."""
    testing = {(s.m, s.n, s.k) for each in TESTING_SEEDS for s in shape_sets.public(24, each)}
    testing |= {(s.m, s.n, s.k) for each in TESTING_SEEDS for s in shape_sets.any_rows(40, each)}
    dice = random.Random(f"layers {seed}")
    found: dict[tuple[int, int, int], Shape] = {}
    every = [(rows, *layer) for layer in layers() for rows in ROWS]
    weights = [weight * many for weight in layers().values() for many in ROWS.values()]
    while len(found) < count:
        extents = dice.choices(every, weights)[0]
        shape = Shape(*extents, origin=f"public, seed {seed}")
        if extents not in testing and is_small_enough(shape):
            found[extents] = shape
    return list(found.values())


def planned(shape: Shape) -> Planned:
    problem = shape.problem
    choice = choose(problem, GPU, sms=SMS, arch=ARCH)
    model = hopper_model(GPU, SMS, ARCH)
    assert model is not None
    near = ranked(problem, *model, within=NEAR) + narrow.fastest(problem, model[0], alignment(problem), 4)
    return Planned(shape, Candidate(choice.spec, choice.config, 0.0), near)


def worths(works: Iterable[Planned]) -> dict[tuple[Any, ...], float]:
    """How much every kernel is worth: the sum over shapes, less where it is predicted to be slower."""
    found: dict[tuple[Any, ...], float] = defaultdict(float)
    for each in works:
        best = min((c.seconds for c in each.near), default=math.inf)
        for candidate in each.near:
            found[each.code, candidate.name] += math.exp((1 - candidate.seconds / best) / SCALE)
    return found


def kernels(works: Sequence[Planned], most: int) -> set[tuple[Any, ...]]:
    """Those to compile: what is chosen anywhere, and then those of the highest worth."""
    found = {(each.code, each.chosen.name) for each in works}
    worth = worths(works)
    for kernel in sorted(worth, key=worth.__getitem__, reverse=True):
        if len(found) >= most:
            break
        found.add(kernel)
    return found


def taken(each: Planned, compiled: set[tuple[Any, ...]], most: int) -> list[Candidate]:
    """What is chosen, and the fastest predictions among what is compiled, of each tile size at most two."""
    found = {each.chosen.name: each.chosen}
    sizes: Counter[tuple[int, int, int]] = Counter()
    for candidate in each.near:
        size = _size(candidate.config)
        if (each.code, candidate.name) in compiled and sizes[size] < PER_SIZE and len(found) < most:
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
    options = parser.parse_args()
    public = drawn(options.shapes, options.seed)
    others = [s for s in shape_sets.log_uniform(4 * options.random, options.seed) if is_small_enough(s)]
    shapes: list[Shape] = []
    for number, shape in enumerate(public):
        shapes.append(shape)
        if number % EVERY == EVERY - 1 and len(shapes) - number <= min(options.random, len(others)):
            shapes.append(others[len(shapes) - number - 1])
    works = [planned(shape) for shape in shapes]
    compiled = kernels(works, options.kernels)
    plan, used = [], set()
    for each in works:
        rows = taken(each, compiled, options.candidates)
        used |= {(each.code, candidate.name) for candidate in rows}
        plan.append({"shape": asdict(each.shape),
                     "candidates": [{"kernel": c.spec.name, "config": dict(c.config)} for c in rows]})  # fmt: skip
    options.plan.write_text(json.dumps(plan), encoding="utf-8")
    print(f"{len(plan)} shapes, {sum(len(each['candidates']) for each in plan)} times, {len(used)} kernels")
    return 0


if __name__ == "__main__":
    sys.exit(main())
