"""Candidates for 16-bit products on Hopper: the configurations worth considering, with their predicted times."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from gemmsmith.choose.by_gpc import ordered_by_gpc, seconds_by_gpc
from gemmsmith.choose.cluster_menu import NAME as CLUSTER_NAME
from gemmsmith.choose.cluster_menu import (
    cluster_configs,
    is_cluster_menu,
    narrow_configs,
    one_wave_of_parts,
    slices_by_gpc,
    useful_slices,
    worth_eight,
)
from gemmsmith.choose.columns import Shapes, Tiles, joined, shape_of, tiles_of
from gemmsmith.choose.constants import Constants
from gemmsmith.choose.cost import corrected_seconds, predicted_seconds
from gemmsmith.choose.determinism import DETERMINISTIC, is_deterministic
from gemmsmith.choose.key import Addresses, alignment
from gemmsmith.choose.waves import Chip, has_tail_tiles
from gemmsmith.errors import UnknownKernelError
from gemmsmith.gpus import architecture
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.families.hopper import BOX, BOX_ROW, WARPGROUP
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import FP32, DType, Problem

# Accumulators of a thread: 128 leave room for everything else; with two consumer warpgroups, whose threads have 240
# registers, a kernel may allow 208. A producer thread keeps 24 registers, a consumer needs 32 beside its accumulators.
_ACCUMULATORS, _ACCUMULATORS_OF_TWO = 128, 208
_PRODUCER_REGISTERS, _OTHER_REGISTERS = 24, 32
_STAGES_OF_TWO = 8  # of each of two blocks on an SM: 1 % faster than seven on an H200 with N = K = 8192; more not timed
# Measured on an H200: 100x10001 outputs are stored as fast one by one as along rows, 30001x301 half as fast; 32 of
# 197x64 are read in place as fast as copied first, 300 of 100x300 are not.
_FEW_OUTPUTS, _FEW_BYTES = 2**20, 2**21
_SMALL_K = 256  # 50257x1023x77: tiles of 256 columns take 66 us, of 192 75, of 208, in boxes of 16, 85
# At most two candidates per tile size until every size has two: the model hardly tells those of one size apart.
_PER_SIZE = 2
_SAMPLE_SIZE = 1024  # of the product that legality is asked for: any would do

# Values to try, where the kernel allows them; other parameters keep their defaults. STAGES is the most that fits and,
# where blocks are not persistent, also the most, up to eight, that leaves room for a second block. Large products suit
# the first kernel, few tiles the second.
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
        """Tells candidates apart."""
        return self.spec.name, str(self.config)

    def __str__(self) -> str:
        return f"{self.spec.name} {self.config}"


@dataclass(frozen=True)
class Menu:
    """All configurations of a kernel that are worth considering, also as columns. ``for_few`` are considered for few
    rows or columns alone."""

    spec: KernelSpec
    configs: tuple[Config, ...]
    tiles: Tiles
    deterministic: NDArray[np.bool_]
    for_few: NDArray[np.bool_]


def hopper_specs() -> tuple[KernelSpec, ...]:
    """The kernels to choose among, where the ladder has them."""
    found = []
    for name in _MENU:
        try:
            found.append(rung_named(name))
        except UnknownKernelError:
            continue
    return tuple(found)


# --- candidates → info


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

    With ``count``: at most so many, and at most two per tile size until every size has two. With ``deterministic``:
    only those whose results are bit-reproducible.
    """
    shape = shape_of(problem, alignment(problem, addresses))
    menus = [menu(spec, problem.layout) for spec in hopper_specs() if spec.takes(problem)]
    menus = [each for each in menus if each.configs]
    considered = [useful_tiles(each, shape, chip, deterministic) for each in menus]
    if not any(len(index) for index, _ in considered):
        return []
    tiles = joined([each for _, each in considered])  # all menus at once: NumPy's calls take most of the time
    plain = predicted_seconds(shape, tiles, chip, constants)
    seconds = corrected_seconds(shape, tiles, chip, constants, plain, float(plain.min()))
    plain = seconds
    seconds = seconds_by_gpc(shape, tiles, chip, plain)
    by_gpc = slices_by_gpc(shape, tiles) | (seconds < plain)
    near, found, first = np.flatnonzero(seconds <= seconds.min() * within), [], 0
    for each, (index, _) in zip(menus, considered, strict=True):
        for i in near[(near >= first) & (near < first + len(index))]:
            config = with_slices(each.configs[index[i - first]], int(tiles.slices[i]), bool(by_gpc[i]))
            found.append(Candidate(each.spec, config, float(seconds[i])))
        first += len(index)
    found.sort(key=lambda candidate: candidate.seconds)
    return sorted(varied(found)[:count], key=lambda candidate: candidate.seconds) if count else found


def predicted(problem: Problem, given: Sequence[Candidate], chip: Chip, constants: Constants,
              addresses: Addresses | None = None) -> list[Candidate]:  # fmt: skip
    """The same candidates with the seconds that this model predicts for them."""
    if not given:
        return []
    shape = shape_of(problem, alignment(problem, addresses))
    tiles = tiles_of([dict(each.config) for each in given], problem.layout)
    plain = predicted_seconds(shape, tiles, chip, constants)
    seconds = corrected_seconds(shape, tiles, chip, constants, plain, float(plain.min()))
    return [replace(each, seconds=float(its)) for each, its in zip(given, seconds, strict=True)]


def useful_tiles(each: Menu, shape: Shapes, chip: Chip, deterministic: bool) -> tuple[NDArray[np.int64], Tiles]:
    """Numbers of the configurations that may be best for this problem, and their columns: those that fill the GPU, need
    no copy that others save, and store as the problem needs it. Cheap questions come first."""
    useful = (each.deterministic | (not deterministic)) & each.tiles.saves_a_copy(shape)
    useful &= stored_along_rows(shape, each.tiles) & read_in_place(shape, each.tiles)
    useful &= stored_in_wide_boxes(shape, each.tiles) & worth_eight(shape, each.tiles)
    useful &= ~each.for_few | (shape.are_few & (each.tiles.swap == (shape.m < shape.n)))
    index = np.flatnonzero(useful)
    tiles = each.tiles.at(index)
    slices = useful_slices(shape, tiles, chip)
    kept = ((tiles.slices == 1) | (slices > 1)) & one_wave_of_parts(shape, tiles, chip)
    tail = np.flatnonzero(tiles.tail_bn)
    kept[tail] &= tail_tiles_help(shape, tiles.at(tail), chip)
    return index[kept], replace(tiles, slices=slices).at(np.flatnonzero(kept))


def with_slices(config: Config, slices: int, by_gpc: bool) -> Config:
    """The configuration with this number of slices, where it has more than one."""
    if slices == 1:
        return ordered_by_gpc(config) if by_gpc else config
    return config.with_(SLICES=slices, SLICE_ORDER=2 if by_gpc else 0)


def stored_along_rows(shape: Shapes, tiles: Tiles) -> NDArray[np.bool_]:
    """False for transposed products where rows of C are unaligned: outputs would be stored one by one. A kernel that is
    not persistent does so anyway where there are few."""
    few = (tiles.persistent == 0) & (shape.m * shape.n * shape.batch <= _FEW_OUTPUTS)
    result: NDArray[np.bool_] = (tiles.swap == 0) | few | (np.asarray(shape.unaligned_c) == 0)
    return result


def stored_in_wide_boxes(shape: Shapes, tiles: Tiles) -> NDArray[np.bool_]:
    """True for tiles that are stored in boxes of 64 columns; False for others where rows of C are unaligned, K is small
    and outputs are many, so that storing is most of the work."""
    stores = (np.asarray(shape.unaligned_c) > 0) & (np.asarray(shape.k) <= _SMALL_K)
    stores = stores & (shape.m * shape.n * shape.batch > _FEW_OUTPUTS)
    result: NDArray[np.bool_] = np.logical_not(stores) | ((tiles.persistent > 0) & (tiles.box_columns == BOX))
    return result


def read_in_place(shape: Shapes, tiles: Tiles) -> NDArray[np.bool_]:
    """False for large batches whose unaligned operands threads would load: copying them first is faster."""
    large = (shape.unaligned_a + shape.unaligned_b > _FEW_BYTES) & (shape.batch > 1)
    result: NDArray[np.bool_] = (tiles.unaligned == 0) | np.logical_not(large)
    return result


def tail_tiles_help(shape: Shapes, tiles: Tiles, chip: Chip) -> NDArray[np.bool_]:
    """False for configurations with tail tiles that this problem does not use: where threads store C, and where wide
    tiles fill whole waves."""
    by_tma = (np.asarray(shape.unaligned_c) == 0) & (np.asarray(shape.out_bytes) == 2)
    result: NDArray[np.bool_] = (tiles.tail_bn == 0) | (has_tail_tiles(shape, tiles, chip) & by_tma)
    return result


def tile_size(candidate: Candidate) -> Hashable:
    return candidate.spec.name, candidate.config["BM"], candidate.config["BN"]


def varied(candidates: Sequence[Candidate]) -> list[Candidate]:
    """The same candidates, at most two per tile size until every size has had two."""
    taken = Counter[Hashable]()
    first: list[Candidate] = []
    later: list[Candidate] = []
    for candidate in candidates:
        size = tile_size(candidate)
        taken[size] += 1
        (first if taken[size] <= _PER_SIZE else later).append(candidate)
    return first + later


# --- legal configurations


@cache
def menu(spec: KernelSpec, layout: str) -> Menu:
    """Of the problem, only the layout affects legality: MN-major k-tiles may need more shared memory."""
    legal = {p.name: p.legal for p in spec.parameters}
    if spec.name == CLUSTER_NAME and is_cluster_menu(legal):
        usual, few = (dict.fromkeys(Config(tuple(each.items())) for each in found(layout, legal["STAGES"]))
                      for found in (cluster_configs, narrow_configs))  # fmt: skip
    else:
        usual, few = dict.fromkeys(_configs(spec, layout)), {}
    configs = tuple(usual | few)  # those of both menus stand among the usual ones
    for_few = np.arange(len(configs)) >= len(usual)
    reproducible = np.array([is_deterministic(spec, config) for config in configs], np.bool_)
    return Menu(spec, configs, tiles_of([dict(config) for config in configs], layout), reproducible, for_few)


def _configs(spec: KernelSpec, layout: str) -> Iterator[Config]:
    axes = _MENU.get(spec.name, {})
    defaults = {p.name: p.default for p in spec.parameters}
    legal = {p.name: p.legal for p in spec.parameters}
    names = [name for name in axes if name in defaults]
    deepest_first = sorted(legal["STAGES"], reverse=True)
    for values in itertools.product(*([v for v in axes[name] if v in legal[name]] for name in names)):
        chosen = defaults | dict(zip(names, values, strict=True))
        if not _accumulators_fit(chosen) or chosen.get("CLUSTER_M", 1) * chosen.get("CLUSTER_N", 1) > 2:
            continue
        # Several clusters per tile only where one of eight blocks is not enough.
        if chosen.get("CLUSTERS", 1) > 1 and (chosen["SPLIT"] < 8 or chosen["DEPTH"] != 2):
            continue
        if unaligned_across_clusters(chosen) or _no_tail_tiles(chosen):
            continue
        if spec.illegal(_with_stages(chosen, deepest_first[-1])):  # with the fewest: with all
            continue
        found = [_most_stages(spec, chosen, deepest_first, layout, smem_limit())]
        if "GROUP" not in chosen:
            few = [n for n in deepest_first if n <= _STAGES_OF_TWO]
            found.append(_most_stages(spec, chosen, few, layout, _half_smem()))
        yield from dict.fromkeys(config for config in found if config is not None)


def unaligned_across_clusters(values: Mapping[str, int]) -> bool:
    """An unaligned operand with several clusters per tile: a copy costs little there, and this was never timed."""
    return values.get("CLUSTERS", 1) > 1 and bool(values.get("UNALIGNED_OPERANDS"))


def _no_tail_tiles(values: Mapping[str, int]) -> bool:
    """Tail tiles that the kernel does not allow; quicker to see here than to ask the kernel."""
    tail = values.get("TAIL_BN", 0)
    return tail > 0 and (tail >= values["BN"] or values["BN"] % BOX > 0)


def _accumulators_fit(values: Mapping[str, int]) -> bool:
    consumers = values.get("CONSUMERS", 1)
    accumulators = values["BM"] * values["BN"] / (consumers * WARPGROUP)
    registers = WARPGROUP * (consumers * (accumulators + _OTHER_REGISTERS) + _PRODUCER_REGISTERS)
    most = _ACCUMULATORS_OF_TWO if consumers == 2 else _ACCUMULATORS
    return accumulators <= most and registers <= architecture(90).registers_per_sm


def smem_limit() -> int:
    """Shared memory of a block."""
    return architecture(90).smem_per_block


def _half_smem() -> int:
    """Shared memory of each of two blocks on an SM."""
    hopper = architecture(90)
    return hopper.smem_per_sm // 2 - hopper.reserved_smem_per_block


def _most_stages(spec: KernelSpec, chosen: Mapping[str, int], deepest_first: list[int], layout: str,
                 limit: int) -> Config | None:  # fmt: skip
    """The configuration with as many stages as fit ``limit`` bytes of shared memory."""
    stage = chosen.get("DEPTH", 1) * (chosen["BM"] + chosen["BN"]) * BOX_ROW
    may_fit = [n for n in deepest_first if n * stage + _staging_bytes(chosen) <= limit]  # asking the kernel is slower
    every = (_with_stages(chosen, count) for count in may_fit)
    return next((each for each in every if fits(spec, each, layout, limit) and not spec.illegal(each)), None)


def _with_stages(chosen: Mapping[str, int], count: int) -> Config:
    return Config(tuple({**chosen, "STAGES": count}.items()))


def _staging_bytes(values: Mapping[str, int]) -> int:
    """Staging for TMA stores: with room for less than half of a consumer's columns at a time they are slow."""
    return values.get("CONSUMERS", 1) * 64 * values["BN"] if values.get("STORE_MODE") else 0


def is_legal(spec: KernelSpec, config: Config, layout: str, limit: int) -> bool:
    """Whether a configuration is legal and its launch fits ``limit`` bytes of shared memory."""
    return not spec.illegal(config) and fits(spec, config, layout, limit)


def fits(spec: KernelSpec, config: Config, layout: str, limit: int) -> bool:
    """Whether its launch does; a third of the cost of asking for everything."""
    sample = _sample(spec.dtypes[0], layout)
    fitted = spec.specialize(config, sample, (_SAMPLE_SIZE,) * 3)
    return spec.geometry(sample, fitted).smem <= limit


@cache
def _sample(dtype: DType, layout: str) -> Problem:
    """Any product of this layout: made once, since thousands of configurations are asked about."""
    return Problem(_SAMPLE_SIZE, _SAMPLE_SIZE, _SAMPLE_SIZE, dtype, FP32, trans_a=layout[0] == "T",
                   trans_b=layout[1] == "T")  # fmt: skip
