"""What to time for products with up to 16 rows or columns: layers of public models and random ones.

    python benchmarks/plan_few.py plan.json [--shapes 120] [--candidates 18] [--seed 98]

Two thirds are layers with few rows; the others are random, of any layout. The first candidate of a shape is what is
chosen now; the others are the fastest predictions of narrow.py and of the general model, and then any of the menu for
few rows. Seeds below 100 are for fitting. time_candidates.py times the plan.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from plan_candidates import ARCH, GPU, SMS, is_small_enough
from public_layers import layers
from shape_rig import Shape

from gemmsmith.choose import narrow
from gemmsmith.choose.candidates import Candidate, ranked
from gemmsmith.choose.choice import choose
from gemmsmith.choose.cluster_menu import narrow_configs
from gemmsmith.choose.columns import FEW
from gemmsmith.choose.key import alignment
from gemmsmith.choose.models import hopper_model
from gemmsmith.ladder.registry import rung_named

KERNEL = "wgmma_cluster"


def shapes(count: int, seed: int) -> Iterator[Shape]:
    """Layers and random shapes in turns, log-uniform in rows."""
    dice, every = random.Random(f"few {seed}"), layers()
    found: set[Shape] = set()
    while len(found) < count:
        few = round(math.exp(dice.uniform(0, math.log(FEW))))
        if len(found) % 3 < 2:
            layer = dice.choices(list(every), [weight**0.5 for weight in every.values()])[0]
            shape = Shape(few, *layer, origin=f"public, seed {seed}")
        else:
            many, k = (8 * round(math.exp(dice.uniform(math.log(50), math.log(5000)))) for _ in range(2))
            layout, is_rows = dice.choice(("NT", "NN", "TN", "TT")), dice.random() < 0.6
            few = few if is_rows and layout[0] == "N" else 8 * (1 + (few > 8))  # rows that start on 16 bytes
            m, n = (few, many) if is_rows else (many, few)
            shape = Shape(m, n, k, layout, dice.choice(("bf16", "bf16", "fp16")), origin=f"random, seed {seed}")
            shape = Shape(**(asdict(shape) | {"out": shape.dtype}))
        if shape not in found and is_small_enough(shape):
            found.add(shape)
            yield shape


def candidates(shape: Shape, most: int, dice: random.Random) -> list[Candidate]:
    p, spec = shape.problem, rung_named(KERNEL)
    model = hopper_model(GPU, SMS, ARCH)
    assert model is not None
    now = choose(p, GPU, (256, 256, 256), sms=SMS, arch=ARCH)
    legal = next(each.legal for each in spec.parameters if each.name == "STAGES")
    fits = [each for each in narrow_configs(p.layout, legal) if each["SWAP"] == (p.m < p.n)
            and each["BN"] >= min(8 * math.ceil(min(p.m, p.n) / 8), 16)]  # fmt: skip
    menu = [Candidate(spec, spec.config(each), 0.0) for each in dice.sample(fits, min(most, len(fits)))]
    found = [Candidate(now.spec, now.config, 0.0), *narrow.fastest(p, model[0], alignment(p), 3),
             *ranked(p, *model, within=1.2, count=5), *menu]  # fmt: skip
    return list({each.name: each for each in found}.values())[:most]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("plan", type=Path)
    parser.add_argument("--shapes", type=int, default=120)
    parser.add_argument("--candidates", type=int, default=18, help="of a shape, at most")
    parser.add_argument("--seed", type=int, default=98, help="below 100 for fitting")
    options = parser.parse_args()
    dice = random.Random(options.seed)
    plan = [{"shape": asdict(shape), "candidates": [{"kernel": each.spec.name, "config": dict(each.config)}
                                                    for each in candidates(shape, options.candidates, dice)]}
            for shape in shapes(options.shapes, options.seed)]  # fmt: skip
    options.plan.write_text(json.dumps(plan), encoding="utf-8")
    codes = {(row["shape"]["layout"], row["shape"]["dtype"], row["shape"]["k"] > 4096, json.dumps(each))
             for row in plan for each in row["candidates"]}  # fmt: skip
    print(f"{len(plan)} shapes, {sum(len(row['candidates']) for row in plan)} times, about {len(codes)} kernels")
    return 0


if __name__ == "__main__":
    sys.exit(main())
