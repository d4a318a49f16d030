"""What to time where the choice is least sure: fitting shapes by how much its networks and trees expect it to lose.

    python benchmarks/plan_by_disagreement.py plan.json [--random 1200] [--narrow 200] [--layers 700] [--seed 92]
        [--shapes 550] [--kernels 1300]

A member of the choice's model is one of its networks, or the trees. Of a shape, each member has a favourite. What the
choice is expected to lose is the mean over members of what its own favourite loses against theirs. Two thirds of the
shapes are those with the largest such loss, the others are as drawn: what is unsure alone would be no sample of
anything. Candidates are favourites of all members in turns. Kernels are shared out by layout and output type, then as
in plan_candidates.py; time_candidates.py times the plan, short products ("quick") in short samples alone.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import kinds_shapes
import numpy as np
import plan_candidates
import shape_sets
from candidate_record import RECORD
from plan_candidates import ARCH, GPU, SMS, TESTING_SEEDS, Planned, is_small_enough, taken
from shape_rig import Shape

from gemmsmith.choose import narrow
from gemmsmith.choose.candidates import Candidate, ranked
from gemmsmith.choose.choice import choose
from gemmsmith.choose.columns import Column, shape_of, tiles_of
from gemmsmith.choose.cost import NETWORKS_WEIGH, predicted_seconds
from gemmsmith.choose.features import features
from gemmsmith.choose.inputs import inputs
from gemmsmith.choose.key import alignment
from gemmsmith.choose.models import hopper_model

NEAR, CONSIDERED = 1.3, 192  # predictions within this of the best, and at most so many
FAVOURITES, FAR = 8, 0.16  # of a member; as a logarithm of predicted time over the least
UNSURE = 2 / 3
MOST_RANDOM_FLOPS, MOST_LAYER_FLOPS, MOST_ROWS = 4e10, 1.6e11, 2048
QUICK_LAYER_FLOPS = 8e9  # layers below this are timed in short samples alone
FEWEST, PER_SIZE, MOST, LEAST = 7, 4, 13, 5  # candidates: to compile for a shape, of a tile size, at most, at least
# Of the kernels; 32-bit outputs have fewer.
SHARES = {("NT", "bf16"): 26, ("NN", "bf16"): 17, ("TN", "bf16"): 16, ("TT", "bf16"): 16, ("NT", "fp32"): 9,
          ("NN", "fp32"): 6, ("TN", "fp32"): 5, ("TT", "fp32"): 5}  # fmt: skip


@dataclass
class Considered:
    shape: Shape
    loss: float  # that members expect of the choice
    favourites: list[Candidate]


def considered(shape: Shape) -> Considered:
    model = hopper_model(GPU, SMS, ARCH)
    assert model is not None
    problem, (chip, constants) = shape.problem, model
    assert constants.trees is not None
    assert constants.networks is not None
    near = ranked(problem, chip, constants, within=NEAR)[:CONSIDERED]
    seen, tiles = shape_of(problem, alignment(problem)), tiles_of([dict(c.config) for c in near], problem.layout)
    plain = predicted_seconds(seen, tiles, chip, constants)
    values = features(seen, tiles, chip, plain)
    asked = inputs(seen, tiles, chip, constants, plain, values)
    networks = [replace(constants.networks, networks=(each,))(asked) for each in constants.networks.networks]
    members = [np.log(plain) + each for each in (*networks, constants.trees(values))]
    mean = NETWORKS_WEIGH * (np.log(plain) + np.mean(networks, axis=0)) + (1 - NETWORKS_WEIGH) * members[-1]
    loss = float(np.mean([each[mean.argmin()] - each.min() for each in members]))
    return Considered(shape, loss, [near[i] for i in favourites(mean, members)])


def favourites(mean: Column, members: Sequence[Column]) -> list[int]:
    """Numbers of candidates: the fastest of the mean and of each member in turns."""
    lists = [np.argsort(mean), *(np.argsort(each)[:FAVOURITES] for each in members)]
    turns = (int(i) for row in itertools.zip_longest(*lists) for i in row if i is not None)
    return list(dict.fromkeys(i for i in turns if mean[i] < mean.min() + FAR))


def unsure(shapes: Sequence[Shape], count: int) -> list[Considered]:
    """Those with the largest expected loss, and as drawn."""
    every = [considered(shape) for shape in shapes]
    drawn = every[: round(count * (1 - UNSURE))]
    rest = sorted(every[len(drawn) :], key=lambda each: -each.loss)[: count - len(drawn)]
    return [each for pair in itertools.zip_longest(rest, drawn) for each in pair if each is not None]


def evenly(groups: Sequence[Sequence[Any]]) -> Iterator[Any]:
    """All of them, so that a part from the beginning has as large a part of each group."""
    places = sorted(((i + 0.5) / len(group), g, i) for g, group in enumerate(groups) for i in range(len(group)))
    return (groups[g][i] for _, g, i in places)


def fitting(shapes: Sequence[Shape], most_flops: float) -> list[Shape]:
    """Once each, without testing shapes, recorded ones and long products."""
    rows = json.loads(RECORD.read_text(encoding="utf-8"))["shapes"]
    known = {(s["m"], s["n"], s["k"]) for s in (each["shape"] for each in rows)}
    for draw in (shape_sets.public, shape_sets.any_rows):
        known |= {(s.m, s.n, s.k) for seed in TESTING_SEEDS for s in draw(40, seed)}
    once = {(s.m, s.n, s.k): s for s in shapes}
    return [s for each, s in once.items()
            if each not in known and s.problem.flops < most_flops and is_small_enough(s)]  # fmt: skip


def planned(each: Considered) -> Planned:
    problem = each.shape.problem
    choice, model = choose(problem, GPU, sms=SMS, arch=ARCH), hopper_model(GPU, SMS, ARCH)
    assert model is not None
    few = narrow.fastest(problem, model[0], alignment(problem), 4)
    near = [c for pair in itertools.zip_longest(each.favourites, few) for c in pair if c is not None]
    return Planned(each.shape, [Candidate(choice.spec, choice.config, 0.0)], near)


def rows_of(works: Sequence[Planned], kernels: int) -> list[dict[str, Any]]:
    compiled, found = plan_candidates.kernels(works, kernels, FEWEST), []
    for each in works:
        some = taken(each, compiled, MOST, PER_SIZE)
        if len(some) >= LEAST:
            found.append({"shape": asdict(each.shape),
                          "candidates": [{"kernel": c.spec.name, "config": dict(c.config)} for c in some]})  # fmt: skip
            is_layer = each.shape.origin.startswith("public")
            if not is_layer or each.shape.problem.flops < QUICK_LAYER_FLOPS:
                found[-1]["quick"] = True
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan", type=Path)
    parser.add_argument("--random", type=int, default=1200, help="shapes to consider")
    parser.add_argument("--narrow", type=int, default=200, help="with few rows or columns, to consider")
    parser.add_argument("--layers", type=int, default=700, help="of public models, to consider")
    parser.add_argument("--seed", type=int, default=92, help="below 100")
    parser.add_argument("--shapes", type=int, default=550, help="to time, about")
    parser.add_argument("--kernels", type=int, default=1300, help="that are compiled, at most")
    options = parser.parse_args()
    seed = options.seed
    pools = [
        fitting(shape_sets.log_uniform(options.random, seed), MOST_RANDOM_FLOPS),
        fitting([replace(s, dtype="bf16", out="bf16") for s in kinds_shapes.shapes_of("narrow", seed, options.narrow)
                 if s.origin.startswith("random")], MOST_RANDOM_FLOPS),
        fitting([replace(s, origin=f"public, seed {seed}")
                 for s in shape_sets.any_rows(options.layers, seed, MOST_ROWS)], MOST_LAYER_FLOPS),
    ]  # fmt: skip
    chosen = [unsure(pool, round(options.shapes * part)) for pool, part in zip(pools, (0.7, 0.13, 0.17), strict=True)]
    works = [planned(each) for each in evenly(chosen)]
    plans = [rows_of([each for each in works if each.code == code], options.kernels * share // 100)
             for code, share in SHARES.items()]  # fmt: skip
    plan = list(evenly([each for each in plans if each]))
    options.plan.write_text(json.dumps(plan), encoding="utf-8")
    print(f"{len(plan)} shapes, {sum(len(each['candidates']) for each in plan)} times")
    return 0


if __name__ == "__main__":
    sys.exit(main())
