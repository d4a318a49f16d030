"""Which configurations of which Hopper kernels are worth a look for a problem, best prediction first."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from gemmsmith.choose.cost import (
    STEP_BYTES,
    Chip,
    Constants,
    Shapes,
    Tiles,
    has_narrow_tiles,
    predicted_seconds,
    shape_of,
    tiles_of,
)
from gemmsmith.choose.determinism import DETERMINISTIC, is_deterministic
from gemmsmith.choose.key import Addresses, alignment
from gemmsmith.errors import UnknownKernelError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.renamed import DIRECT, TMA
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.families.hopper import BOX
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import FP32, Problem

# A thread has 255 registers. 128 sums leave room for everything else; of two consumers, which have 240 registers, a
# kernel may allow more. An SM has 65,536: the producer's threads keep 24 each, a consumer's need 32 besides its sums.
_SUMS, _SUMS_OF_TWO = 128, 208
_REGISTERS, _PRODUCER, _BESIDES = 65_536, 24, 32
_SMEM, _HALF_SMEM = 227 * 1024, 113 * 1024  # of a block, and of each of two on an SM
_OF_TWO = 8  # stages of each: eight were 1 % faster than seven on an H200 with N = K = 8192; more were not timed
# Tiles of one size differ little in what the model sees, so that a short list would hold nothing else.
_ALIKE = 2

# What is tried of each parameter, as far as the kernel allows it; other parameters keep their defaults, and STAGES is
# the deepest that is legal and, where blocks do not stay, also the deepest, up to eight, that leaves room for a second
# one. All large products go to the first kernel, what has few tiles to the second.
_MENU: Mapping[str, Mapping[str, tuple[int, ...]]] = {
    "wgmma_cluster": {
        "BM": (64, 128, 192, 256),
        "BN": tuple(range(64, 257, 16)),
        "CONSUMERS": (1, 2, 3, 4),
        "CLUSTER_M": (1, 2),
        "CLUSTER_N": (1, 2),
        "GROUP": (4, 8, 16),
        "TAIL_BN": (0, 128),
    },
    "wgmma_split_k": {
        "BM": (64, 128),
        "BN": (8, 16, 32, 48, 64, 96, 128, 192, 256),
        "CONSUMERS": (1, 2),
        "SPLIT": (1, 2, 4, 8),
        "SWAP": (0, 1),
        "DEPTH": (1, 2, 4),
        "CLUSTERS": (1, 2, 4, 16),
        DETERMINISTIC: (1, 0),
        "UNALIGNED_OPERANDS": (0, 1, 2),
    },
}


@dataclass(frozen=True)
class Candidate:
    """A kernel and a configuration of it; ``seconds`` is predicted."""

    spec: KernelSpec
    config: Config
    seconds: float

    @property
    def name(self) -> tuple[str, str]:
        """What tells candidates apart."""
        return self.spec.name, str(self.config)

    def __str__(self) -> str:
        return f"{self.spec.name} {self.config}"


@dataclass(frozen=True)
class Menu:
    """All of a kernel's configurations that are worth a look, with their numbers as columns."""

    spec: KernelSpec
    configs: tuple[Config, ...]
    tiles: Tiles
    deterministic: NDArray[np.bool_]


def hopper_specs() -> tuple[KernelSpec, ...]:
    """The kernels that are chosen among, those that the ladder has."""
    found = []
    for name in _MENU:
        try:
            found.append(rung_named(name))
        except UnknownKernelError:
            continue
    return tuple(found)


@cache
def menu(spec: KernelSpec, layout: str) -> Menu:
    """Of the problem, legality depends on the layout alone: slices that do not run along k may take more room."""
    configs = tuple(_configs(spec, layout))
    same_bits = np.array([is_deterministic(spec, config) for config in configs], np.bool_)
    return Menu(spec, configs, tiles_of([dict(config) for config in configs]), same_bits)


def _configs(spec: KernelSpec, layout: str) -> Iterator[Config]:
    axes = _MENU.get(spec.name, {})
    defaults = {p.name: p.default for p in spec.parameters}
    legal = {p.name: p.legal for p in spec.parameters}
    names = [name for name in axes if name in defaults]
    deepest_first = sorted(legal["STAGES"], reverse=True)
    for values in itertools.product(*([v for v in axes[name] if v in legal[name]] for name in names)):
        chosen = defaults | dict(zip(names, values, strict=True))
        if not _sums_fit(chosen) or chosen.get("CLUSTER_M", 1) * chosen.get("CLUSTER_N", 1) > 2:
            continue
        # Where one cluster is not enough, it is a whole one.
        if chosen.get("CLUSTERS", 1) > 1 and (chosen["SPLIT"] < 8 or chosen["DEPTH"] != 2):
            continue
        if _shares_what_is_loose(chosen) or _not_narrower(chosen):
            continue
        depths = [_deepest(spec, chosen, deepest_first, layout, _SMEM)]
        if "GROUP" not in chosen:
            depths.append(_deepest(spec, chosen, [n for n in deepest_first if n <= _OF_TWO], layout, _HALF_SMEM))
        yield from dict.fromkeys(config for config in depths if config is not None)


def _shares_what_is_loose(values: Mapping[str, int]) -> bool:
    """Several clusters for a tile, and a loose operand: a copy costs little there, and nobody has tried it."""
    return values.get("CLUSTERS", 1) > 1 and bool(values.get("UNALIGNED_OPERANDS"))


def _not_narrower(values: Mapping[str, int]) -> bool:
    """Tiles at the right end of C that the kernel does not make: found without asking it, which takes longer."""
    narrow = values.get("TAIL_BN", 0)
    return narrow > 0 and (narrow >= values["BN"] or values["BN"] % BOX > 0)


def _deepest(spec: KernelSpec, chosen: Mapping[str, int], deepest_first: list[int], layout: str,
             limit: int) -> Config | None:  # fmt: skip
    """With as many stages as fit ``limit`` bytes of shared memory."""
    stage = chosen.get("DEPTH", 1) * (chosen["BM"] + chosen["BN"]) * STEP_BYTES
    may_fit = [n for n in deepest_first if n * stage + _staging(chosen) <= limit]  # asking takes longer
    with_stages = [Config(tuple({**chosen, "STAGES": n}.items())) for n in may_fit]
    if not with_stages or not _runs(spec, with_stages[-1], layout, limit):  # what forbids the fewest forbids all
        return None
    return next(config for config in with_stages if _runs(spec, config, layout, limit))


def _staging(values: Mapping[str, int]) -> int:
    """Bytes for the way back through the copy engine: at least half of a consumer's columns at a time, or it crawls."""
    return values.get("CONSUMERS", 1) * 64 * values["BN"] if values.get("STORE_MODE") else 0


def _runs(spec: KernelSpec, config: Config, layout: str, limit: int = _SMEM) -> bool:
    """Whether a configuration is legal and its launch fits ``limit`` bytes of shared memory."""
    if spec.illegal(config):
        return False
    size = 1024  # of a product that stands for all of this layout
    sample = Problem(size, size, size, spec.dtypes[0], FP32, trans_a=layout[0] == "T", trans_b=layout[1] == "T")
    fitted = spec.specialize(config, sample, (size, size, size))
    return spec.geometry(sample, fitted).smem <= limit


def _sums_fit(values: Mapping[str, int]) -> bool:
    consumers = values.get("CONSUMERS", 1)
    sums = values["BM"] * values["BN"] / (consumers * 128)
    registers = 128 * (consumers * (sums + _BESIDES) + _PRODUCER)
    return sums <= (_SUMS_OF_TWO if consumers == 2 else _SUMS) and registers <= _REGISTERS


def ranked(
    problem: Problem,
    chip: Chip,
    constants: Constants,
    *,
    count: int = 0,
    within: float = math.inf,
    addresses: Addresses | None = None,
    deterministic: bool = True,
) -> list[Candidate]:
    """The candidates for ``problem``, fastest prediction first, up to ``within`` times the fastest.

    With ``count``, at most so many, of which no size of tile has a third before every other has had two. Those whose
    bits may change from run to run are among them only if they need not be ``deterministic``.
    """
    shape = shape_of(problem, alignment(problem, addresses))
    menus = [menu(spec, problem.layout) for spec in hopper_specs() if spec.takes(problem)]
    menus = [m for m in menus if m.configs]
    predicted = []
    for m in menus:
        worth = (m.deterministic | (not deterministic)) & m.tiles.spares_copies(shape)
        worth &= _narrow_where_it_counts(shape, m.tiles, chip)
        predicted.append(np.where(worth, predicted_seconds(shape, m.tiles, chip, constants), math.inf))
    fastest = min((float(seconds.min()) for seconds in predicted), default=math.inf)
    found = [
        Candidate(m.spec, m.configs[i], float(seconds[i]))
        for m, seconds in zip(menus, predicted, strict=True)
        for i in np.flatnonzero(np.isfinite(seconds) & (seconds <= fastest * within))
    ]
    found.sort(key=lambda candidate: candidate.seconds)
    return sorted(varied(found)[:count], key=lambda candidate: candidate.seconds) if count else found


def _narrow_where_it_counts(shape: Shapes, tiles: Tiles, chip: Chip) -> NDArray[np.bool_]:
    """All but those that ask for narrow tiles and have none on this problem: outputs that threads store, and whole
    waves of wide ones, leave no place for them."""
    through_tma = (np.asarray(shape.unaligned_c) == 0) & (np.asarray(shape.out_bytes) == 2)
    result: NDArray[np.bool_] = (tiles.narrow == 0) | (has_narrow_tiles(shape, tiles, chip) & through_tma)
    return result


def size_of(candidate: Candidate) -> Hashable:
    """Of its tiles."""
    return candidate.spec.name, candidate.config["BM"], candidate.config["BN"]


def varied(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The same in an order in which no size of tile has a third before every other has had two."""
    taken = Counter[Hashable]()
    first: list[Candidate] = []
    later: list[Candidate] = []
    for candidate in candidates:
        size = size_of(candidate)
        taken[size] += 1
        (first if taken[size] <= _ALIKE else later).append(candidate)
    return first + later


def neighbours(candidate: Candidate, problem: Problem, chip: Chip, constants: Constants, *,
               deterministic: bool = True) -> list[Candidate]:  # fmt: skip
    """Legal configurations one step away: what the model cannot tell apart is found by timing around the best."""
    spec, values = candidate.spec, dict(candidate.config)
    legal = {p.name: p.legal for p in spec.parameters}
    found = []
    for change in _steps(values, problem):
        config = Config(tuple((name, change.get(name, value)) for name, value in values.items()))
        if (deterministic and not is_deterministic(spec, config)) or _shares_what_is_loose(dict(config)):
            continue
        if all(change[name] in legal.get(name, ()) for name in change) and _runs(spec, config, problem.layout):
            found.append(config)
    if not found:
        return []
    shape, tiles = shape_of(problem, alignment(problem)), tiles_of([dict(config) for config in found])
    seconds, worth = predicted_seconds(shape, tiles, chip, constants), _narrow_where_it_counts(shape, tiles, chip)
    return [Candidate(spec, config, float(time)) for config, time, is_worth in zip(found, seconds, worth, strict=True)
            if is_worth]  # fmt: skip


def _steps(values: Mapping[str, int], problem: Problem) -> list[dict[str, int]]:
    """Changes that may be worth a try; some are not legal, or name what the kernel does not have."""
    cluster = values.get("CLUSTER_M", 1), values.get("CLUSTER_N", 1)
    changes = [{"CLUSTER_M": m, "CLUSTER_N": n} for m, n in ((1, 1), (2, 1), (1, 2)) if (m, n) != cluster]
    changes += [{"STAGES": values["STAGES"] - 1}]
    if problem.out_dtype.itemsize == problem.dtype.itemsize:  # the copy engine stores outputs of 16 bits only
        mode = DIRECT if values.get("STORE_MODE", DIRECT) else TMA
        changes += [{"STORE_MODE": mode, "STORE_BOXES": int(mode != DIRECT)}]
    if "TAIL_BN" in values:
        changes += [{"TAIL_BN": 0 if values["TAIL_BN"] else 128}]
    if DETERMINISTIC in values:
        changes += [{DETERMINISTIC: 0 if values[DETERMINISTIC] else 1}]
    for name in ("GROUP", "SPLIT", "CLUSTERS"):
        changes += [{name: values[name] * 2}, {name: values[name] // 2}] if name in values else []
    if "DEPTH" in values:  # as much in flight, in more or in fewer pieces
        changes += [{"DEPTH": values["DEPTH"] * 2, "STAGES": values["STAGES"] // 2},
                    {"DEPTH": values["DEPTH"] // 2, "STAGES": values["STAGES"] * 2}]  # fmt: skip
    plain = {"TAIL_BN": 0} if values.get("TAIL_BN") else {}  # which such widths do not have
    return changes + [{"BN": values["BN"] + step, **plain} for step in (-16, 16)]
