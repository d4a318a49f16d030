"""The edge matrix: the problems on which kernels tend to fail, for one kernel and configuration.

    shapes   {1, B−1, B, B+1, 2B−1, 2B+1} around the tile in M, N and K, on integers, compared exactly
    K        0 and the edges of the k-tile, at a ragged M×N
    scalars  alpha and beta in {0, −0, 1, −1, 0.7, 2**−130, Inf, NaN}
    data     positive, wide, subnormal; NaN and Inf planted in A, B and C
    memory   padding between rows; misaligned matrices
    types    every other element type and layout that the kernel supports, every output type
    more     bias and activation; batches, also with a shared A or B; if the kernel supports them

'quick' runs each edge at least once (about forty cases); 'full' every pair of edges and of scalars.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gemmsmith.errors import UsageError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import (
    ACTIVATIONS,
    BIASES,
    FP16,
    FP32,
    INT8,
    INT32,
    INTEGER_TYPES,
    OUTPUTS,
    DType,
    Problem,
    ceil_div,
)
from gemmsmith.shapes import Shape, edge_shapes, edge_values
from gemmsmith.verify.harness import no_launch, refusal

SCALARS = (0.0, -0.0, 1.0, -1.0, 0.7, 2.0**-130, math.inf, math.nan)
# Pairs that kernels must handle differently: operands that must not be read, or not be multiplied.
_QUICK_SCALARS = (
    (0.0, 0.0), (0.0, 0.7), (-0.0, 1.0), (1.0, 1.0), (-1.0, 0.7), (0.7, 0.0), (0.7, -0.0), (2.0**-130, 1.0),
    (math.inf, 0.0), (math.nan, 0.0), (1.0, math.inf), (1.0, math.nan), (0.0, math.nan),
)  # fmt: skip
_WHOLE_SCALARS = (0.0, 1.0, -1.0, 2.0, -3.0, 127.0)
SIZES = ("quick", "full")
_USUAL_TILE = 32
_USUAL_DEPTH = 8


@dataclass(frozen=True)
class Case:
    """One launch to verify. ``skip`` says why the kernel does not support it; empty if it does."""

    label: str
    problem: Problem
    fill: str = "normal"
    mode: str = "float"
    seed: int = 0
    offsets: tuple[int, int, int] = (0, 0, 0)
    skip: str = ""


def edge_cases(spec: KernelSpec, config: Config, size: str = "quick") -> Iterator[Case]:
    """The cases for ``spec``, in the order of the table above, each with its own seed."""
    if size not in SIZES:
        raise UsageError(f"unknown size {size!r}", f"use one of {', '.join(SIZES)}")
    for seed, case in enumerate(_cases(spec, config, full=size == "full")):
        yield Case(case.label, case.problem, case.fill, case.mode, seed, case.offsets,
                   no_launch(spec, config, case.problem))  # fmt: skip


def tile_of(spec: KernelSpec, config: Config) -> Shape:
    """One thread block's tile: from the parameters BM, BN and BK, or from how the grid grows."""
    names = dict(config.values)
    probe = 2**14
    try:
        tall = spec.geometry(_problem(spec, (probe, 1, 8)), config).blocks
        wide = spec.geometry(_problem(spec, (1, probe, 8)), config).blocks
    except UsageError:  # a user's --grid N/32,M/32 is only valid for multiples
        tall = wide = ceil_div(probe, _USUAL_TILE)
    bm = names.get("BM", max(1, ceil_div(probe, tall)))
    bn = names.get("BN", max(1, ceil_div(probe, wide)))
    # BK_BYTES refers to the first type, which most cases use, or to the 16-bit parts that a prologue creates.
    itemsize = spec.dtypes[0].itemsize if spec.prologue is None else FP16.itemsize
    bk = names["BK_BYTES"] // itemsize if "BK_BYTES" in names else _USUAL_DEPTH
    return bm, bn, names.get("BK", bk)


def _cases(spec: KernelSpec, config: Config, full: bool) -> Iterator[Case]:
    tile = tile_of(spec, config)
    bm, bn, bk = tile
    ragged = (bm + 1, max(1, bn - 1), bk + 1)
    plain = _problem(spec, ragged)
    yield from _shapes(spec, tile, "pairs" if full else "each")
    for k in (0, *edge_values(bk)):
        yield Case(f"K={k}", _scaled(spec, _problem(spec, (*ragged[:2], k)), -1.0, 0.7))
    scalars = _WHOLE_SCALARS if _takes_integers(spec) else SCALARS
    pairs = [(alpha, beta) for alpha in scalars for beta in scalars] if full else _QUICK_SCALARS
    for shape in (ragged, tile) if full else (ragged,):
        yield from _scalars(spec, _problem(spec, shape), pairs)
    integers = not spec.is_rung and (plain.dtype in INTEGER_TYPES or plain.out_dtype in INTEGER_TYPES)
    for fill in ("uniform",) if integers else ("uniform", "wide", "subnormal"):
        yield Case(f"{fill} data", _scaled(spec, plain, 0.7, -1.0), fill)
    for beta in () if integers else (0.0, 1.0):
        for repetition in range(6 if full else 2):
            yield Case(f"NaN and Inf in the data, {repetition}, beta={beta:g}", plain.with_(beta=beta), "specials")
    yield from _memory(spec, plain, full)
    for dtype, layout in _other_types(spec):
        for shape in edge_shapes(*tile, cover="pairs") if full else (tile, ragged):
            yield Case(f"{dtype} {layout}", _problem(spec, shape, dtype, layout), "integers", "exact")
        yield Case(f"{dtype} {layout} ragged", _problem(spec, ragged, dtype, layout).with_(alpha=0.7, beta=-1.0))
    yield from _outputs(spec, ragged)
    if spec.epilogue:
        yield from _epilogues(plain, full)
    if spec.batched:
        yield from _batches(spec, plain)


def _shapes(spec: KernelSpec, tile: Shape, cover: str) -> Iterator[Case]:
    shapes = list(edge_shapes(*tile, cover=cover))
    if all(refusal(spec.signature, _problem(spec, shape)) for shape in shapes):  # it takes a single extent
        shapes = [(extent, extent, extent) for extent in edge_values(max(tile[:2]))]
    for index, shape in enumerate(shapes):
        alpha, beta = ((1.0, 0.0), (2.0, -1.0))[index % 2]
        problem = _problem(spec, shape)
        scaled = problem.with_(alpha=alpha, beta=beta)
        # A kernel without alpha and beta still gets every shape.
        problem = problem if refusal(spec.signature, scaled) else scaled
        yield Case("tile edge", problem, "integers", "exact")


def _takes_integers(spec: KernelSpec) -> bool:
    """Whether alpha and beta of a user's kernel are integers: by their own type, or that of the result."""
    if spec.is_rung:
        return False
    codes = {arg.code for arg in spec.signature.arguments if arg.role in ("alpha", "beta")}
    return spec.out_dtypes[0] == INT32 or bool(codes & set("iIqQhHbB"))


def _scaled(spec: KernelSpec, problem: Problem, alpha: float, beta: float) -> Problem:
    """With those of these scalars that the kernel takes, or integers in their place, where it takes such."""
    signature = spec.signature
    if not spec.is_rung:
        alpha = alpha if signature.has("alpha") else 1.0
        beta = beta if signature.has("beta") else float(signature.accumulates)
    if _takes_integers(spec):
        alpha, beta = (x if x % 1 == 0 else 3.0 for x in (alpha, beta))
    return problem.with_(alpha=alpha, beta=beta, lda=problem.lda, ldb=problem.ldb, ldc=problem.ldc)


def _scalars(spec: KernelSpec, problem: Problem, pairs: Iterable[tuple[float, float]]) -> Iterator[Case]:
    for alpha, beta in pairs:
        if _takes_integers(spec):
            if all(map(math.isfinite, (alpha, beta))):
                scaled = _scaled(spec, problem, alpha, beta)
                yield Case(f"alpha={scaled.alpha:g}, beta={scaled.beta:g}", scaled)
            continue
        # An infinite alpha needs products whose sign is certain: integers.
        fill = "integers" if math.isinf(alpha) else "normal"
        yield Case(f"alpha={alpha:g}, beta={beta:g}", problem.with_(alpha=alpha, beta=beta), fill)


def _memory(spec: KernelSpec, plain: Problem, full: bool) -> Iterator[Case]:
    paddings = [(1, 0, 0), (0, 1, 0), (0, 0, 1), (3, 5, 7)] + ([(4, 4, 4), (8, 16, 32)] if full else [])
    for extra in paddings:
        lda, ldb, ldc = (ld + more for ld, more in zip((plain.lda, plain.ldb, plain.ldc), extra, strict=True))
        yield Case(f"rows padded by {extra}", _scaled(spec, plain.with_(lda=lda, ldb=ldb, ldc=ldc), 1.0, 0.7))
    offsets = [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 2, 3)] + ([(2, 2, 2), (3, 3, 3), (4, 4, 4)] if full else [])
    for offset in offsets:
        yield Case(f"A, B, C shifted by {offset}", plain, offsets=offset)


def _outputs(spec: KernelSpec, shape: Shape) -> Iterator[Case]:
    """Every output type except fp32, for each input type that has it."""
    for dtype in spec.dtypes:
        for out in OUTPUTS[dtype]:
            if out != FP32 and out in spec.out_dtypes:
                problem = _problem(spec, shape, dtype).with_(out_dtype=out)
                yield Case(f"{dtype} to {out}", problem, "integers", "exact")
                scaled = problem if out == INT32 else problem.with_(alpha=0.01 if out == INT8 else 0.7, beta=-1.0)
                yield Case(f"{dtype} to {out} ragged", scaled)


def _epilogues(plain: Problem, full: bool) -> Iterator[Case]:
    for bias in ("row", "column"):
        yield Case(f"bias for each {bias}, exactly", plain.with_(bias=bias, activation="relu"), "integers", "exact")
    for index, activation in enumerate(ACTIVATIONS[1:]):
        for bias in BIASES if full else (BIASES[index],):
            yield Case(f"{activation} {bias}", plain.with_(bias=bias, activation=activation, alpha=0.1, beta=0.7))
    yield Case("NaN and Inf through an activation", plain.with_(bias="row", activation="gelu"), "specials")


def _batches(spec: KernelSpec, plain: Problem) -> Iterator[Case]:
    batch = plain.with_(batch=3)
    for label, problem in (
        ("batch", batch), ("batch with one A", batch.with_(stride_a=0)), ("batch with one B", batch.with_(stride_b=0)),
    ):  # fmt: skip
        yield Case(f"{label}, exactly", problem, "integers", "exact")
    padded = _scaled(spec, batch.with_(lda=plain.lda + 3, ldb=plain.ldb + 5, ldc=plain.ldc + 1), -1.0, 0.7)
    yield Case("batch with padded rows", padded)


def _other_types(spec: KernelSpec) -> Iterator[tuple[DType, str]]:
    for dtype in spec.dtypes:
        for layout in spec.layouts:
            if (dtype, layout) != (spec.dtypes[0], spec.layouts[0]):
                yield dtype, layout


def _problem(spec: KernelSpec, shape: Shape, dtype: DType | None = None, layout: str | None = None) -> Problem:
    m, n, k = shape
    if not spec.is_rung:
        return spec.problem(m, n, k)
    layout = layout or spec.layouts[0]
    return Problem(m, n, k, dtype or spec.dtypes[0], trans_a=layout[0] == "T", trans_b=layout[1] == "T")
