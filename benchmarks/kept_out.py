"""What the choice loses on shapes that its fit did not see, by each of several rules; nothing is timed or written.

    python benchmarks/kept_out.py [--menu] [--current] [--folds 3] [--networks 6]

Every shape with times of current kernels is chosen for by trees and networks that were fitted to the shapes of the
other folds, among its timed configurations; with --menu, among all that the choice considers, and only shapes where
what is chosen was timed count. Entries of the shipped table serve other shapes as rules say, and their own only in the
first line. Reported are the loss against the fastest timed configuration, how many shapes are within 3 % of it, and how
many have less than 0.97 of cuBLAS; without --menu also what favourites lose by their properties. --current fits to
times of current kernels alone. The fits take a quarter of an hour.
"""

from __future__ import annotations

import argparse
import math
import sys
import zlib
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

import numpy as np
from candidate_record import DEVICE, Timed, recorded, tuned
from fit_choice import CHIP, GPU, fitted_trees, network_rows
from fit_networks import fitted_networks

from gemmsmith.choose import choice
from gemmsmith.choose.candidates import Candidate, predicted, ranked
from gemmsmith.choose.cluster_menu import worth_eight
from gemmsmith.choose.constants import Constants
from gemmsmith.choose.cost import correction, predicted_seconds
from gemmsmith.choose.key import ShapeKey, contiguous
from gemmsmith.choose.models import constants_of, shipped_shapes
from gemmsmith.choose.precision import DEFAULT
from gemmsmith.choose.rows import has_as_many_tiles, least_seconds, winner_of_rows
from gemmsmith.choose.table import Entry
from gemmsmith.choose.winners import FURTHEST, config_key, nearest_winner
from gemmsmith.gpus import gpu_named
from gemmsmith.kernel.config import Config
from gemmsmith.ladder.registry import rung_named

NEAR, SLOW = 1.03, 0.97
FEW, MANY = 64, 1000
ARCH = "sm_90"


@dataclass(frozen=True)
class KeptOut:
    """A shape and a model that did not see it. ``candidates`` come fastest prediction first, ``favourite`` is the
    model's; ``times`` are those of timed configurations, in seconds."""

    timed: Timed
    model: Constants
    candidates: tuple[Candidate, ...]
    favourite: Candidate
    times: Mapping[object, float]

    @property
    def kind(self) -> str:
        key = self.timed.key
        if key.batch > 1:
            return "batches"
        few = min(key.m, key.n)
        return f"up to {FEW} rows" if few <= FEW else f"{FEW} to {MANY} rows" if few <= MANY else "other"

    def time_of(self, what: Candidate | Entry) -> float:
        """NaN where it was not timed."""
        name = what.kernel if isinstance(what, Entry) else what.spec.name
        config = what.config if isinstance(what, Entry) else what.config.values
        return self.times.get(config_key(name, config), math.nan)


def fold_of(key: ShapeKey, folds: int) -> int:
    """The same for all times of a shape, whatever their types."""
    return zlib.crc32(f"{key.m}x{key.n}x{key.k}x{key.batch}{key.layout}".encode()) % folds


def fold_models(shapes: Sequence[Timed], folds: int, networks: int) -> list[Constants]:
    """For each fold, the model fitted to the others."""
    plain, found = constants_of(gpu_named(GPU)), []
    for fold in range(folds):
        seen = [each for each in shapes if len(each.samples) > 1 and fold_of(each.key, folds) != fold]
        trees = fitted_trees(seen, plain)
        found.append(replace(plain, trees=trees, networks=fitted_networks(network_rows(seen, plain), networks)))
    return found


def kernel_of(config: tuple[tuple[str, int], ...]) -> str:
    return "wgmma_cluster" if "GROUP" in dict(config) else "wgmma_split_k"


def kept_out(timed: Timed, model: Constants, whole_menu: bool) -> KeptOut:
    times = {config_key(kernel_of(each.config), each.config): each.seconds for each in timed.samples}
    candidates = from_menu(timed.key, model) if whole_menu else from_times(timed, model)
    favourite = candidates[0]
    request = choice.Request(contiguous(timed.key), DEVICE, None, CHIP.sms, ARCH, DEFAULT, deterministic=True)
    few = choice._of_few_rows(request, (CHIP, model)) if whole_menu else None
    if few is not None and few.seconds <= candidates[0].seconds:
        favourite = few
    return KeptOut(timed, model, tuple(candidates), favourite, times)


def from_times(timed: Timed, model: Constants) -> list[Candidate]:
    columns = timed.columns
    seconds = predicted_seconds(*columns, CHIP, model)
    seconds = np.where(worth_eight(*columns), seconds * np.exp(correction(*columns, CHIP, model, seconds)), math.inf)
    found = (Candidate(rung_named(kernel_of(each.config)), Config(each.config), float(its))
             for each, its in zip(timed.samples, seconds, strict=True))  # fmt: skip
    return sorted(found, key=lambda each: each.seconds)


def from_menu(key: ShapeKey, model: Constants) -> list[Candidate]:
    problem = contiguous(key)
    return choice._without_padding(ranked(problem, CHIP, model, within=FURTHEST), problem)


# --- rules: what they choose; None where they leave it to the model

Rule = Callable[[KeptOut], Candidate | Entry | None]


@cache
def families() -> Mapping[tuple[int, int], Mapping[ShapeKey, Entry]]:
    """The shipped table's entries by N and K."""
    found: dict[tuple[int, int], dict[ShapeKey, Entry]] = defaultdict(dict)
    for key, entry in shipped_shapes(DEVICE).items():
        found[key.n, key.k][key] = entry
    return found


def other_rows(shape: KeptOut) -> dict[ShapeKey, Entry]:
    """Entries with other rows and as many tiles, the nearest first."""
    key = shape.timed.key
    found = {other: entry for other, entry in families().get((key.n, key.k), {}).items()
             if other != key and has_as_many_tiles(key, other, entry)}  # fmt: skip
    return dict(sorted(found.items(), key=lambda each: abs(math.log(each[0].m / key.m))))


def own_entry(shape: KeptOut) -> Entry | None:
    return shipped_shapes(DEVICE).get(shape.timed.key)


def entry_of_rows(shape: KeptOut) -> Entry | None:
    return winner_of_rows(shape.timed.key, other_rows(shape), lambda key: least_seconds(key, CHIP, shape.model))


def nearest(shape: KeptOut) -> Candidate | None:
    if shape.favourite not in shape.candidates:  # tiles for few rows came first
        return None
    entries = {key: entry for key, entry in shipped_shapes(DEVICE).items() if key != shape.timed.key}
    return nearest_winner(shape.candidates, shape.timed.key, entries, (CHIP, shape.model))


def asked(shape: KeptOut, tolerance: float) -> Entry | None:
    """The nearest entry of other rows that the model predicts within ``tolerance`` of its favourite here."""
    problem = contiguous(shape.timed.key)
    for entry in other_rows(shape).values():
        spec = rung_named(entry.kernel)
        here = predicted(problem, [Candidate(spec, spec.config(dict(entry.config)), 0.0)], CHIP, shape.model)[0]
        if here.seconds <= shape.favourite.seconds * tolerance:
            return entry
    return None


def sent_least(shape: KeptOut) -> Candidate | None:
    """Of predictions within 0.5 % of the best, the one with the fewest bytes from L2."""
    if shape.favourite not in shape.candidates:
        return None
    found = choice.least_sent(list(shape.candidates))
    return None if found == shape.favourite else found


def as_before(shape: KeptOut) -> Candidate | Entry | None:
    """All rules of 2026-11-18 but the shape's own entry."""
    return entry_of_rows(shape) or nearest(shape) or sent_least(shape)


RULES: Mapping[str, Rule] = {
    "own entry": own_entry,
    "entry of other rows": entry_of_rows,
    **{f"the same, predicted within {tolerance}": partial(asked, tolerance=tolerance) for tolerance in (1.01, 1.05)},
    "nearest winner": nearest,
    "fewest bytes from L2 within 0.5 %": sent_least,
    "other rows, nearest winner, bytes from L2": as_before,
}


# --- report


def summary(shapes: Sequence[KeptOut], taken: Sequence[float]) -> str:
    best = np.array([min(each.times.values()) for each in shapes])
    seconds, cublas = np.array(taken), np.array([each.timed.cublas for each in shapes])
    loss = float(np.exp(np.mean(np.log(seconds / best)))) - 1
    return (f"loss {loss:.2%}, within 3 % {np.mean(seconds <= NEAR * best):.1%}, below {SLOW} "
            f"{np.sum(cublas / seconds < SLOW):3}")  # fmt: skip


def report(name: str, rule: Rule, shapes: Sequence[KeptOut]) -> None:
    """The rule beside the model: at all shapes, and where the rule has an answer of its own."""
    found = [rule(each) for each in shapes]
    served = sum(each is not None for each in found)
    by_rule = [each.time_of(what or each.favourite) for each, what in zip(shapes, found, strict=True)]
    by_model = [each.time_of(each.favourite) for each in shapes]
    known = [i for i in range(len(shapes)) if not math.isnan(by_rule[i] + by_model[i])]
    print(f"  {name}: serves {served}")
    for where, some in (("all", known), ("served", [i for i in known if found[i] is not None])):
        if not some:
            continue
        some_shapes = [shapes[i] for i in some]
        ratios = np.log([by_rule[i] / by_model[i] for i in some])
        print(f"    {where:6} {len(some):4}: {summary(some_shapes, [by_rule[i] for i in some])}")
        print(f"      model    : {summary(some_shapes, [by_model[i] for i in some])}; the rule takes "
              f"{np.mean(ratios):+.2%} ± {np.std(ratios) / math.sqrt(len(some)):.2%}")  # fmt: skip


def parts_of_k(config: Config) -> int:
    return max(config.get("SPLIT", 1), config.get("CLUSTER_K", 1), config.get("SLICES", 1))


PROPERTIES: Mapping[str, Callable[[Config], object]] = {
    "cluster": lambda config: f"{config.get('CLUSTER_M', 1)}x{config.get('CLUSTER_N', 1)}",
    "parts of K": parts_of_k,
    "GROUP": lambda config: config.get("GROUP", "none"),
    "tail tiles": lambda config: config.get("TAIL_BN", 0) > 0,
    "rows no multiple of 64": lambda config: config["BM"] % 64 > 0,
    "transposed": lambda config: config.get("SWAP", 0) > 0,
}


def report_properties(shapes: Sequence[KeptOut]) -> None:
    """What the model's favourites lose, by their properties, and how the fastest differ where that is above 3 %."""
    losses = [math.log(each.time_of(each.favourite) / min(each.times.values())) for each in shapes]
    missed = [(each, min(each.candidates, key=each.time_of)) for each, loss in zip(shapes, losses, strict=True)
              if loss > math.log(NEAR)]  # fmt: skip
    for name, of in PROPERTIES.items():
        differ = sum(of(each.favourite.config) != of(best.config) for each, best in missed)
        print(f"{name}: the fastest differs at {differ} of {len(missed)} misses; favourites with")
        by_value: dict[object, list[float]] = defaultdict(list)
        for each, loss in zip(shapes, losses, strict=True):
            by_value[of(each.favourite.config)].append(loss)
        for value, its in sorted(by_value.items(), key=lambda pair: -len(pair[1])):
            share = sum(loss > math.log(NEAR) for loss in its) / len(its)
            print(f"  {value!s:6} {len(its):4} shapes: loss {math.expm1(sum(its) / len(its)):.2%}, missed {share:.1%}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--menu", action="store_true", help="choose among all configurations")
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--networks", type=int, default=6)
    parser.add_argument("--current", action="store_true", help="fit to times of current kernels alone")
    options = parser.parse_args()
    every = recorded()
    seen = [each for each in (*every, *tuned()) if each.current_kernels or not options.current]
    models = fold_models(seen, options.folds, options.networks)
    shapes = [kept_out(each, models[fold_of(each.key, options.folds)], options.menu) for each in every
              if each.current_kernels and not (options.menu and each.shared_b)]  # fmt: skip
    if not options.menu:
        report_properties(shapes)
    for kind in ("all", *sorted({each.kind for each in shapes})):
        some = [each for each in shapes if kind in ("all", each.kind)]
        print(f"{kind}: {len(some)} shapes")
        for name, rule in RULES.items():
            report(name, rule, some)
    return 0


if __name__ == "__main__":
    sys.exit(main())
