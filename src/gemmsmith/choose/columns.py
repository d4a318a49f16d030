"""Problems and configurations as columns of numbers, so that one NumPy expression predicts all candidates at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.kernel.config import Config
from gemmsmith.kernel.renamed import DIRECT
from gemmsmith.ladder.families.hopper import BOX
from gemmsmith.ladder.families.hopper_store import (
    box_width,
    boxes_of_a_store,
    specialize_store,
    staged_boxes,
    transposed_stores,
)
from gemmsmith.problem import BF16, FP32, Problem

Column = NDArray[np.float64]
FEW = 16  # rows or columns, for which there are tiles and corrections of their own
_MANY_STORES = 8  # for 64 columns: above this a launch may give up a stage
_SAMPLE, _ALIGNED = 1024, (256, 256, 256)


@dataclass(frozen=True)
class Shapes:
    """Problems as columns, or one problem as single numbers.

    unaligned     bytes of A and B whose rows do not start on 16 bytes; bytes of such a C
    half_aligned  1 where rows of A or B start on 16 bytes, but not all on 32
    mn_major      1 where A or B is stored with its rows across k
    """

    m: Any
    n: Any
    k: Any
    batch: Any
    out_bytes: Any
    unaligned_a: Any
    unaligned_b: Any
    unaligned_c: Any
    half_aligned_a: Any = 0.0
    half_aligned_b: Any = 0.0
    mn_major_a: Any = 0.0
    mn_major_b: Any = 0.0

    @property
    def are_few(self) -> Any:
        """Whether a single product has up to ``FEW`` rows or columns."""
        return (np.minimum(self.m, self.n) <= FEW) & (np.asarray(self.batch) == 1)


@dataclass(frozen=True)
class Tiles:
    """Configurations as columns. The first operand is A, or B where SWAP transposes the product.

    staged_columns  columns of C in shared memory at once on their way out; 0: stored from registers
    box_columns     columns of one TMA store
    tail_bn         columns of the tail tiles; 0: all tiles have BN
    stores          TMA stores that a consumer makes one after another for a tile of 16-bit outputs
    stores_32       the same of 32-bit outputs
    slices          slices of K that blocks of different clusters multiply, and add through global memory
    cluster_k       parts of K that blocks of one cluster multiply, and add through their shared memory
    send            1 where those blocks send each other their sums, 0 where they fetch them
    unaligned       operands that threads load unaligned: none, the first, or both
    """

    bm: Column
    bn: Column
    stages: Column
    depth: Column
    consumers: Column
    cluster_m: Column
    cluster_n: Column
    group: Column
    split: Column
    clusters: Column
    deterministic: Column
    swap: Column
    unaligned: Column
    persistent: Column
    staged_columns: Column
    box_columns: Column
    tail_bn: Column
    slices: Column
    stores: Column
    stores_32: Column
    cluster_k: Column
    send: Column

    def at(self, index: NDArray[np.int64]) -> Tiles:
        """The configurations with these numbers."""
        return Tiles(*(getattr(self, each.name)[index] for each in fields(self)))

    def unaligned_bytes(self, shapes: Shapes) -> tuple[Any, Any]:
        """Bytes of the first and of the second operand, where their rows do not start on 16 bytes."""
        a, b = shapes.unaligned_a, shapes.unaligned_b
        return np.where(self.swap > 0, b, a), np.where(self.swap > 0, a, b)

    def copied_bytes(self, shapes: Shapes) -> Any:
        """Bytes that align_copy must copy before each configuration runs."""
        first, second = self.unaligned_bytes(shapes)
        return np.where(self.unaligned > 0, 0, first) + np.where(self.unaligned > 1, 0, second)

    def saves_a_copy(self, shapes: Shapes) -> NDArray[np.bool_]:
        """Whether loading an operand unaligned saves a copy; True for configurations that do not."""
        first, second = self.unaligned_bytes(shapes)
        result: NDArray[np.bool_] = np.choose(self.unaligned.astype(int), (True, first > 0, second > 0))
        return result


# What a kernel without the parameter does.
_ABSENT = {"STAGES": 1, "DEPTH": 1, "CONSUMERS": 1, "CLUSTER_M": 1, "CLUSTER_N": 1, "GROUP": 1, "SPLIT": 1,
           "CLUSTERS": 1, "DETERMINISTIC": 1, "SWAP": 0, "UNALIGNED_OPERANDS": 0, "SLICES": 1,
           "CLUSTER_K": 1, "SEND": 0}  # fmt: skip


def tiles_of(configs: Sequence[Mapping[str, int]], layout: str | Sequence[str] = "NT") -> Tiles:
    """Configurations as columns. A kernel with GROUP is persistent; one without launches a block for every tile.

    ``layout`` is that of the problem, or of each configuration's: an operand whose rows run across k may leave less
    shared memory for outputs on their way out.
    """
    layouts = [layout] * len(configs) if isinstance(layout, str) else layout
    both = list(zip(configs, layouts, strict=True))

    def column(name: str) -> Column:
        return np.array([config.get(name, _ABSENT.get(name, 0)) for config in configs], np.float64)

    persistent = np.array(["GROUP" in config for config in configs], np.float64)
    staged = np.array([_staged_columns(config, each[1] == "T") for config, each in both], np.float64)
    boxes = np.array([_box_columns(config) for config in configs], np.float64)
    return Tiles(column("BM"), column("BN"), column("STAGES"), column("DEPTH"), column("CONSUMERS"),
                 column("CLUSTER_M"), column("CLUSTER_N"), column("GROUP"), column("SPLIT"), column("CLUSTERS"),
                 column("DETERMINISTIC"), column("SWAP"), column("UNALIGNED_OPERANDS"), persistent, staged, boxes,
                 column("TAIL_BN"), column("SLICES"), *_stores(both),
                 column("CLUSTER_K"), column("SEND"))  # fmt: skip


def joined(tiles: Sequence[Tiles]) -> Tiles:
    """The configurations of several menus, one after another."""
    return Tiles(*(np.concatenate([getattr(each, name.name) for each in tiles]) for name in fields(Tiles)))


def _stores(configs: Sequence[tuple[Mapping[str, int], str]]) -> tuple[Column, Column]:
    """Rounds of staging and storing, of 16-bit and of 32-bit outputs; 0 where outputs are stored from registers."""
    found = np.zeros((2, len(configs)))
    for i, (config, layout) in enumerate(configs):
        if not config.get("STORE_MODE"):
            continue
        m_tiles = config["BM"] // (BOX * config["CONSUMERS"])
        if config.get("SWAP"):
            found[:, i] = [m_tiles * _transposed_stores(config, layout, size) for size in (2, 4)]
        elif config["BN"] % 16 == 0:
            whole = Config(tuple(config.items()))
            boxes = config["BN"] // box_width(whole)
            found[0, i] = m_tiles * boxes / max(1, staged_boxes(whole))
    return found[0], found[1]


def _transposed_stores(config: Mapping[str, int], layout: str, out_bytes: int) -> int:
    """TMA stores for 64 columns of a transposed tile. Many of them are as many as are left in a launch, which may give
    up a stage for them; of K-major operands the others are quicker to count."""
    if layout[0] == "N" and (stores := transposed_stores(config, out_bytes)) <= _MANY_STORES:
        return stores
    whole, boxes = Config(tuple(config.items())), config["BN"] // 8
    staged = staged_boxes(whole, layout[0] == "N", layout[1] == "T", out_bytes)
    stores = boxes // boxes_of_a_store(whole.with_(STORE_BOXES=staged)) if staged else boxes
    if stores <= _MANY_STORES or "STORE_BOXES" not in config:
        return stores
    launched = specialize_store(whole, _stored(layout, out_bytes), _ALIGNED)
    return boxes // boxes_of_a_store(launched) if launched["STORE_BOXES"] else boxes


@cache
def _stored(layout: str, out_bytes: int) -> Problem:
    """A product with this layout and size of outputs, and a K at which a stage may be given up for them."""
    return Problem(_SAMPLE, _SAMPLE, _SAMPLE, BF16, BF16 if out_bytes == 2 else FP32, trans_a=layout[0] == "T",
                   trans_b=layout[1] == "T")  # fmt: skip


def _staged_columns(config: Mapping[str, int], b_k_major: bool) -> int:
    if config.get("STORE_MODE") == DIRECT:
        return 0
    if config.get("SWAP"):  # rows of 64 columns, all of them at once
        return BOX
    if "STORE_MODE" not in config or config["BN"] % 16:  # a kernel that stages in another way, or no such tile
        return config.get("BN", 1)
    whole = Config(tuple(config.items()))
    return staged_boxes(whole, b_k_major=b_k_major) * box_width(whole)


def _box_columns(config: Mapping[str, int]) -> int:
    if not config.get("STORE_MODE") or config.get("SWAP") or config["BN"] % 16:
        return BOX
    return box_width(Config(tuple(config.items())))


def shape_of(problem: Problem, alignment: int = 0) -> Shapes:
    """One problem. ``alignment`` is ``key.alignment``: bits 0, 1, 2 are set where rows of A, B, C do not start on 16
    bytes, bits 3 and 4 where those of A, B start on 16 bytes but not all on 32."""
    (copies_a, copies_b, _), size, size_c = problem.copies, problem.dtype.itemsize, problem.out_dtype.itemsize
    return Shapes(problem.m, problem.n, problem.k, problem.batch, size_c,
                  copies_a * problem.m * problem.k * size * (alignment & 1),
                  copies_b * problem.n * problem.k * size * (alignment >> 1 & 1),
                  problem.batch * problem.m * problem.n * size_c * (alignment >> 2 & 1),
                  alignment >> 3 & 1, alignment >> 4 & 1, int(problem.trans_a), int(not problem.trans_b))  # fmt: skip


def ceil(values: Any) -> Column:
    result: Column = np.ceil(values)
    return result
