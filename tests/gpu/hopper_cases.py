"""Random products for the Hopper rungs: shapes, layouts, gaps, offsets, batches, epilogues; few kinds of code.

Every kind of code (types, layout, epilogue, configuration) costs a second of compiling, so there are ten kinds a rung;
everything else is free to vary.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from gemmsmith.choose.choice import choose
from gemmsmith.choose.columns import tiles_of
from gemmsmith.choose.waves import divide_columns
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import rung_named, rungs
from gemmsmith.problem import BF16, FP16, FP32, DType, Problem, ceil_div

HOPPER = [spec for spec in rungs() if spec.arch_specific == 90 and spec.align_copies]
MOST_EXTENT = 3000
MOST_PRODUCTS = 2e9  # multiplications of one case: the float64 reference is to take a millisecond
EDGES = (1, 2, 7, 8, 9, 16, 17, 31, 63, 64, 65, 127, 128, 129, 191, 193, 255, 256, 257, 385)
GAPS = (0, 0, 0, 8, 16, 1, 3, 5)
OFFSETS = (0, 0, 0, 8, 1, 3, 4)


@dataclass(frozen=True)
class Kind:
    """What is compiled into a kernel."""

    dtype: DType
    out_dtype: DType
    layout: str
    bias: str = ""
    activation: str = ""

    def problem(self, m: int, n: int, k: int) -> Problem:
        return Problem(m, n, k, self.dtype, self.out_dtype, trans_a=self.layout[0] == "T",
                       trans_b=self.layout[1] == "T", bias=self.bias, activation=self.activation)  # fmt: skip


PLAIN = Kind(BF16, BF16, "NN")
KINDS = (
    PLAIN, Kind(FP16, FP16, "NT"), Kind(BF16, FP32, "TN"), Kind(FP16, FP16, "TT"), Kind(BF16, BF16, "NT", "column"),
    Kind(FP16, FP32, "NN", "row", "relu"), Kind(BF16, BF16, "TN", "column", "gelu"), Kind(FP16, FP16, "NN", "", "silu"),
    Kind(BF16, FP32, "NT", "column", "silu"), Kind(FP16, FP16, "TT", "row", "gelu"),
)  # fmt: skip
CHOSEN_KINDS = (PLAIN, Kind(FP16, FP16, "NT"), Kind(BF16, FP32, "TT"))


@dataclass(frozen=True)
class Case:
    """A product, and by how many elements each matrix is off its aligned place.

    shared    'a', 'b' or '': the operand that is one matrix for all of a batch
    in_place  C is the output; otherwise it lies elsewhere
    """

    number: int
    kind: Kind
    problem: Problem
    offsets: tuple[int, int, int]
    shared: str
    in_place: bool
    config: Config | None = None

    @property
    def stored_through_tma(self) -> bool:
        """Whether C can be: what ``specialize`` decides the code by."""
        p, size = self.problem, self.problem.out_dtype.itemsize
        steps = (self.offsets[2], p.n, p.ldc if p.m > 1 else 0, p.stride_c if p.batch > 1 else 0)
        return all(step * size % 16 == 0 for step in steps)

    @property
    def compiled_as(self) -> Problem:
        """A product of aligned operands that has the same code."""
        columns = 1024 if self.stored_through_tma else 1023
        return replace(self.kind.problem(1024, columns, 1024), ldb=1024)

    @property
    def code(self) -> tuple[object, ...]:
        return self.kind, str(self.config), self.stored_through_tma

    def __str__(self) -> str:
        p = self.problem
        more = f" alpha={p.alpha:g} beta={p.beta:g} lda={p.lda} ldb={p.ldb} ldc={p.ldc}"
        more += f" strides={p.stride_a},{p.stride_b},{p.stride_c}" if p.batch > 1 else ""
        return f"case {self.number}: {p}{more} offsets={self.offsets} {self.config or ''}"


def cases(count: int, seed: int, kinds: tuple[Kind, ...] = KINDS) -> Iterator[Case]:
    rng = np.random.default_rng([2026, seed])
    for number in range(count):
        yield _case(rng, number, kinds[number % len(kinds)])


def _case(rng: np.random.Generator, number: int, kind: Kind, sizes: tuple[int, ...] = (),
          often_aligned: float = 0.4) -> Case:  # fmt: skip
    # A transposed line, or nothing at all, is seen as a plain one, which would be another kind of code.
    plain = kind.layout == "NN"
    m, n, k = (max(1 if plain else 2, size) for size in sizes or [_extent(rng) for _ in range(3)])
    if plain and rng.random() < 0.15:
        k = 0
    batch = int(rng.choice([2, 3, 5])) if rng.random() < 0.2 else 1
    while m * n * k * batch > MOST_PRODUCTS:
        m, n, k = (max(1, 2 * x // 3) for x in (m, n, k))
    alpha = float(rng.choice([1.0, 1.0, 0.75, -2.0, 0.0], p=[0.45, 0.2, 0.15, 0.15, 0.05]))
    beta = float(rng.choice([0.0, 1.0, -0.5], p=[0.6, 0.2, 0.2]))
    tight = replace(kind.problem(m, n, k), alpha=alpha, beta=beta)
    gap_a, gap_b, gap_c = (int(rng.choice(GAPS)) for _ in range(3))
    lda, ldb, ldc = tight.lda + gap_a, tight.ldb + gap_b, tight.ldc + gap_c
    # All rows start on 16 bytes: nothing is copied, C is stored by the copy engine.
    aligned = rng.random() < often_aligned
    if aligned:
        lda, ldb, ldc = (ceil_div(ld, 8) * 8 for ld in (lda, ldb, ldc))
    shared = str(rng.choice(["", "", "a", "b"])) if batch > 1 else ""
    apart = [max(8, rows * ld) + (8 if aligned else int(rng.choice(GAPS))) for rows, ld in
             ((tight.a_shape[0], lda), (tight.b_shape[0], ldb), (m, ldc))]  # fmt: skip
    stride_a, stride_b = (0 if shared == name else step for name, step in zip("ab", apart, strict=False))
    problem = replace(tight, lda=lda, ldb=ldb, ldc=ldc, batch=batch, stride_a=stride_a if batch > 1 else -1,
                      stride_b=stride_b if batch > 1 else -1, stride_c=apart[2] if batch > 1 else -1)  # fmt: skip
    offsets = (int(rng.choice(OFFSETS)), int(rng.choice(OFFSETS)), int(rng.choice(OFFSETS)))
    if aligned:
        offsets = (0, 8, 16)
    return Case(number, kind, problem, offsets, shared, bool(rng.random() < 0.5))


def _extent(rng: np.random.Generator) -> int:
    if rng.random() < 0.3:
        return int(rng.choice(EDGES))
    if rng.random() < 0.3:
        return int(rng.integers(300, MOST_EXTENT))
    return int(np.exp(rng.uniform(0, np.log(MOST_EXTENT))))


def rung_cases(spec: KernelSpec, count: int) -> list[Case]:
    """Cases for one rung, with its presets in turn: one for each kind of code."""
    presets = [preset.config for preset in spec.presets]
    return [replace(case, config=presets[KINDS.index(case.kind) % len(presets)]) for case in cases(count, spec.rung)]


UNALIGNED = (
    {"UNALIGNED_OPERANDS": 1, "SWAP": 1, "DEPTH": 2, "BN": 16, "STAGES": 5, "SPLIT": 2},
    {"UNALIGNED_OPERANDS": 1, "SWAP": 1, "DEPTH": 1, "BN": 256, "STAGES": 3, "SPLIT": 1},
    {"UNALIGNED_OPERANDS": 1, "SWAP": 0, "DEPTH": 4, "BN": 48, "STAGES": 2, "SPLIT": 4},
    {"UNALIGNED_OPERANDS": 1, "SWAP": 0, "DEPTH": 2, "BM": 128, "CONSUMERS": 2, "BN": 64, "STAGES": 3, "SPLIT": 8},
    {"UNALIGNED_OPERANDS": 1, "SWAP": 1, "DEPTH": 2, "BM": 128, "CONSUMERS": 1, "BN": 128, "STAGES": 2, "SPLIT": 1},
    {"UNALIGNED_OPERANDS": 2, "SWAP": 0, "DEPTH": 1, "BN": 64, "STAGES": 2, "SPLIT": 1},
    {"UNALIGNED_OPERANDS": 2, "SWAP": 1, "DEPTH": 2, "BN": 16, "STAGES": 5, "SPLIT": 2},
    {"UNALIGNED_OPERANDS": 2, "SWAP": 0, "DEPTH": 4, "BN": 32, "STAGES": 2, "SPLIT": 4},
    {"UNALIGNED_OPERANDS": 2, "SWAP": 1, "DEPTH": 1, "BM": 128, "CONSUMERS": 2, "BN": 128, "STAGES": 3, "SPLIT": 8},
    {"UNALIGNED_OPERANDS": 2, "SWAP": 0, "DEPTH": 1, "BN": 208, "STAGES": 2, "SPLIT": 1},
)  # fmt: skip
UNALIGNED_KINDS = (*(Kind(FP16, FP16, layout) for layout in ("NN", "NT", "TN", "TT")), Kind(BF16, FP32, "NT", "row"))


def unaligned_cases(count: int) -> list[Case]:
    """Cases with one operand, or both, read in place and unaligned: every layout, every configuration."""
    configs = [rung_named("wgmma_split_k").config(changes) for changes in UNALIGNED]
    return [replace(case, config=configs[case.number // len(UNALIGNED_KINDS) % len(configs)])
            for case in cases(count, 1, UNALIGNED_KINDS)]  # fmt: skip


_ONE = {"CLUSTER_M": 1, "CLUSTER_N": 1}
DIVIDED_K = (
    _ONE | {"BM": 128, "BN": 128, "STAGES": 4, "CLUSTER_K": 4},
    _ONE | {"BM": 192, "BN": 96, "CONSUMERS": 3, "CLUSTER_K": 2},
    {"BM": 64, "BN": 88, "CONSUMERS": 1, "CLUSTER_M": 2, "CLUSTER_N": 2, "CLUSTER_K": 2, "SWAP": 1},
    _ONE | {"BM": 128, "BN": 152, "CONSUMERS": 1, "CLUSTER_K": 2, "SWAP": 1},
    _ONE | {"BM": 64, "BN": 64, "CONSUMERS": 1, "CLUSTER_N": 4, "CLUSTER_K": 2},
    _ONE | {"BM": 64, "BN": 104, "CONSUMERS": 1, "SLICES": 5, "SWAP": 1}, {"BM": 128, "BN": 128, "SLICES": 3},
    _ONE | {"BM": 128, "BN": 128, "STAGES": 4, "CLUSTER_K": 4, "SEND": 1},
    {"BM": 64, "BN": 104, "CONSUMERS": 1, "CLUSTER_M": 2, "CLUSTER_N": 2, "CLUSTER_K": 2, "SWAP": 1, "SEND": 1},
    {"BM": 64, "BN": 64, "CONSUMERS": 1, "CLUSTER_M": 2, "CLUSTER_N": 1, "SLICES": 8, "SLICE_ORDER": 2},
    {"BM": 128, "BN": 128, "SLICES": 4, "SLICE_ORDER": 1},
    {"BM": 64, "BN": 16, "CONSUMERS": 1, "CLUSTER_M": 1, "CLUSTER_N": 2, "GROUP": 4, "SLICE_ORDER": 2},  # by GPC
)  # fmt: skip


def divided_k_cases(count: int) -> list[Case]:
    """Cases whose tiles several blocks share, each with a part of K: of one cluster, or of several."""
    configs = [rung_named("wgmma_cluster").config(changes) for changes in DIVIDED_K]
    return [replace(case, config=configs[case.number // len(UNALIGNED_KINDS) % len(configs)])
            for case in cases(count, 2, UNALIGNED_KINDS)]  # fmt: skip


_TALL = {"BM": 256, "BN": 192, "STAGES": 3, "CLUSTER_M": 1, "CLUSTER_N": 2}
TAIL_TILES = (
    _TALL | {"TAIL_BN": 128}, _TALL | {"TAIL_BN": 64}, {"TAIL_BN": 192}, {"TAIL_BN": 64},
    {"CLUSTER_M": 1, "TAIL_BN": 128},
)  # fmt: skip
TAIL_KINDS = (Kind(BF16, BF16, "NT"), Kind(FP16, FP16, "NN"), Kind(BF16, BF16, "TN", "row"))


def tail_cases(count: int) -> list[Case]:
    """Cases with tail tiles at the right end of C: shallow ones, so that many tiles cost little."""
    rng, found = np.random.default_rng([2026, 19, 1]), []
    for number in range(count):
        m, n, k = (int(rng.integers(1, most + 1)) for most in (7000, 6000, 80))
        if number % 10 == 0:
            n = int(rng.choice(EDGES))
        elif rng.random() < 0.75:
            n = ceil_div(n, 8) * 8  # or C has tiles of one width
        config = rung_named("wgmma_cluster").config(TAIL_TILES[number // len(TAIL_KINDS) % len(TAIL_TILES)])
        case = _case(rng, number, TAIL_KINDS[number % len(TAIL_KINDS)], (m, n, k), often_aligned=0.8)
        found.append(replace(case, config=config))
    return found


def has_two_widths(case: Case, sms: int) -> bool:
    """Whether C has tiles of both widths where every one of ``sms`` has a block."""
    p, config = case.problem, case.config
    assert config is not None
    if p.out_dtype.itemsize != 2 or not case.stored_through_tma:
        return False
    height = np.array([ceil_div(p.m, config["BM"] * config["CLUSTER_M"]) * p.batch])
    clusters = np.array([sms // (config["CLUSTER_M"] * config["CLUSTER_N"])])
    wide, narrow = divide_columns(tiles_of([dict(config)]), np.array([p.n]), height, clusters)
    return bool(wide[0] > 0 and narrow[0] > 0)


def chosen_cases(gpu: str, sms: int, arch: str, codes: int) -> list[tuple[Case, KernelSpec]]:
    """Cases for ``gemm``'s own choice: of many, those that share the ``codes`` most frequent kinds of code, and the
    four most frequent of every kernel."""
    found: dict[tuple[object, ...], list[tuple[Case, KernelSpec]]] = {}
    for case in cases(900, 0, CHOSEN_KINDS):
        a, b = (256 + 2 * offset for offset in case.offsets[:2])
        chosen = choose(case.problem, gpu, (a, b, 256), sms=sms, arch=arch)
        if chosen.spec not in HOPPER:
            continue  # without a product there is nothing for them to do
        mine = replace(case, config=chosen.config)
        found.setdefault((chosen.spec.name, *mine.code), []).append((mine, chosen.spec))
    groups = sorted(found.values(), key=len, reverse=True)
    taken = groups[:codes]
    for name in {group[0][1].name for group in groups}:
        taken += [group for group in [each for each in groups if each[0][1].name == name][:4] if group not in taken]
    return [pair for group in taken for pair in group]
