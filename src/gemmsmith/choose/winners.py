"""Measured winners at nearby shapes, for configurations that the model predicts close to the best."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache

from gemmsmith.choose import candidates as menus
from gemmsmith.choose.candidates import Candidate, ranked
from gemmsmith.choose.cluster_menu import NAME as CLUSTER_NAME
from gemmsmith.choose.cluster_menu import has_one_order
from gemmsmith.choose.columns import shape_of, tiles_of
from gemmsmith.choose.constants import Constants
from gemmsmith.choose.cost import corrected_seconds, predicted_seconds
from gemmsmith.choose.key import ShapeKey, alignment, contiguous, is_fastest
from gemmsmith.choose.models import Winners
from gemmsmith.choose.table import Entry
from gemmsmith.choose.waves import Chip
from gemmsmith.errors import ConfigError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec

# A winner at another shape is preferred to the model's favourite if it is predicted within 1.01 of it: the model errs
# by more, and the winner was measured. The tolerance grows to 1.30 for winners at nearby shapes.
CLOSE, FURTHEST = 1.01, 1.30
_MOST_KEYS = 65_536  # of configurations: more than all menus have
_APART = 3.0  # octaves: a winner of a shape further away says nothing
_LEAST = (16, 16, 1, 1)  # of M, N, K and batch: a tile has at least 16 rows and columns, so smaller shapes are alike


def legal_config(spec: KernelSpec, entry: Entry) -> Config | None:
    """The entry's configuration; None, with a warning, where this version of the kernel does not take it."""
    try:
        return spec.config(dict(entry.config))
    except ConfigError as error:
        warnings.warn(f"a tuned configuration is not used: {error.message}", RuntimeWarning, stacklevel=2)
        return None


def nearest_winner(candidates: Sequence[Candidate], key: ShapeKey, winners: Winners,
                   model: tuple[Chip, Constants]) -> Candidate | None:  # fmt: skip
    """Of the candidates predicted close to the best, the one that won at the nearest tuned shape; None if none did.

    It was measured, and is probably compiled already. Where the model underrated the winner at its own shape, the
    tolerance grows by that factor, less with distance.
    """
    by_config = {config_key(c.spec.name, c.config.values): c for c in reversed(candidates)}
    best = candidates[0].seconds
    there = ((other, by_config.get(config_key(entry.kernel, entry.config))) for other, entry in winners.items())
    near = [(distance(key, other), other, winner) for other, winner in there if winner is not None]
    for apart, other, winner in sorted(near, key=lambda each: (each[0], each[2].seconds)):
        if apart > _APART:
            break
        tolerance = CLOSE
        # Not across layouts: listing the other layout's candidates takes about a second.
        if winner.seconds > best * tolerance and other.layout == key.layout and apart < 1:
            tolerance *= _underrated(winner.config, other, *model) ** (1 - apart)
        if winner.seconds <= best * tolerance:
            return winner
    return None


@cache
def _underrated(winner: Config, tuned: ShapeKey, chip: Chip, constants: Constants) -> float:
    """Predicted time of the winner over that of the model's favourite, at the shape where it won; at least 1."""
    problem = contiguous(tuned)
    favourite = ranked(problem, chip, constants, within=1.0, deterministic=not is_fastest(tuned))
    if not favourite:
        return 1.0
    shape, tiles = shape_of(problem, alignment(problem)), tiles_of([dict(winner)], tuned.layout)
    plain = predicted_seconds(shape, tiles, chip, constants)
    seconds = corrected_seconds(shape, tiles, chip, constants, plain, math.inf)
    return max(1.0, float(seconds[0]) / favourite[0].seconds)


@lru_cache(maxsize=_MOST_KEYS)
def config_key(kernel: str, config: tuple[tuple[str, int], ...]) -> tuple[object, ...]:
    """The same for a configuration in any order, and without parameters at their defaults, which old tables lack. Of
    wgmma_cluster the menu has as many stages as fit, and one order of small tiles: a winner of a version that had less
    room, or with another order, is the same."""
    defaults = _defaults().get(kernel, frozenset())
    known = set(config) - defaults
    if kernel == CLUSTER_NAME and defaults:
        values = dict(defaults) | dict(config)
        ignored = {"STAGES", "GROUP"} if has_one_order(values["BM"], values["BN"]) else {"STAGES"}
        known = {pair for pair in known if pair[0] not in ignored}
    return kernel, *sorted(known)


@cache
def _defaults() -> Mapping[str, frozenset[tuple[str, int]]]:
    return {spec.name: frozenset((p.name, p.default) for p in spec.parameters) for spec in menus.hopper_specs()}


def distance(one: ShapeKey, other: ShapeKey) -> float:
    """Sum of the extents' ratios as binary logarithms; other layouts and output types are further away."""
    pairs = ((one.m, other.m), (one.n, other.n), (one.k, other.k), (one.batch, other.batch))
    apart = sum(abs(math.log2(max(a, least) / max(b, least))) for (a, b), least in zip(pairs, _LEAST, strict=True))
    return apart + (one.layout != other.layout) / 4 + (one.out_bytes != other.out_bytes) / 2


def forget_winners() -> None:
    for cached in (_underrated, _defaults, config_key):
        cached.cache_clear()
