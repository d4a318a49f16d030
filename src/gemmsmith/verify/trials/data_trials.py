"""Trials of special data: NaN, Inf, ±0, subnormals, the largest integers, both sides of constants of the code."""

from __future__ import annotations

from collections.abc import Iterator

from gemmsmith.problem import BF16, FP16, INT8, INT32, INTEGER_TYPES, TF32, UINT8, Problem
from gemmsmith.verify.oracles.bounds import PARTS
from gemmsmith.verify.trials.tile_trials import MOST_WORK
from gemmsmith.verify.trials.trial import Trial
from gemmsmith.verify.trials.trial_subject import Subject

_ZERO_RUNS_K = 67  # terms: runs of zeros of many lengths, and others after them
_MOST_PARTS_K, _USUAL_K_TILE = 512, 32
_SUMS_BEYOND_24_BITS = 1440  # terms: of the fill's, 49 of 64 are products of −128 by itself or 127
_INTEGER_CODES = tuple("iIqQ")
_SCALES_DOWN = 2.0**-7  # alpha: sums are near 2¹⁷
_LARGE_PARTIAL_SUMS = 1100  # terms: half of them, up to 127², add up to far more than fp16's 65,504


def data_trials(subject: Subject) -> Iterator[Trial]:
    spec, base = subject.spec, subject.base
    if base.dtype in INTEGER_TYPES or base.out_dtype in INTEGER_TYPES:
        yield from _largest_integers(subject)
        return
    plain = subject.one_tile(_every_part(subject))
    scaled = plain.with_(beta=0.5) if spec.is_rung or spec.signature.has("beta") else plain

    def trial(label: str, fill: str, problem: Problem = plain) -> Trial:
        return Trial(label, problem, "float", fill, "lockstep", subject.c, False)

    yield trial("NaN and Inf in A and B", "nonfinite")
    # Beyond the edge of a k-tile lie the next rows: what is read of them must not be multiplied, by zeros either.
    bm, bn = subject.tile
    several = subject.problem(bm + 1, 2 * bn - 1, 2 * subject.depth + max(1, subject.depth // 2))
    yield trial("NaN and Inf in A and B, several tiles", "nonfinite", several)
    if not spec.signature.accumulates:
        yield trial("the sign of zero", "zero sums")
    yield trial("runs of zeros in A and B", "zero runs", subject.one_tile(max(_ZERO_RUNS_K, plain.k)))
    yield trial("NaN, Inf and zeros in A, B and C", "specials", scaled)
    narrow = spec.accumulator in (FP16, BF16) or base.out_dtype in (FP16, BF16)
    rounded = spec.arithmetic in ("fp16", "bf16", PARTS) and not spec.is_rung
    if not rounded and base.dtype != TF32:
        if not subject.adds:
            yield trial("subnormal sums", "subnormal")
        yield trial("subnormal inputs", "subnormal inputs")
    if not rounded and not narrow:
        yield trial("numbers of many magnitudes", "wide")
    if base.out_dtype in (FP16, BF16) and spec.accumulator is None and not rounded:
        deep = subject.one_tile(min(_LARGE_PARTIAL_SUMS, MOST_WORK // max(1, plain.m * plain.n)))
        yield Trial("partial sums that 16 bits do not hold", deep, "exact", "opposites", "lockstep", subject.c, False)
        if base.out_dtype == FP16 and (spec.is_rung or spec.signature.has("alpha")) and not base.activation:
            yield trial(
                "sums beyond fp16's range, which alpha scales down", "sums near 131072", deep.with_(alpha=_SCALES_DOWN)
            )
    largest = 2.0**12 if FP16 in (base.dtype, base.out_dtype) or rounded else 2.0**100
    for constant in subject.floats:
        if constant < largest:
            yield trial(f"inputs on both sides of {constant:g}", f"near {constant:g}")
            yield trial(f"sums on both sides of {constant:g}", f"sums near {constant:g}")


def _every_part(subject: Subject) -> int:
    """A K of which every block that shares a tile, and every warp, has a part: each must pass on its NaN."""
    depth = subject.depth if subject.edges.depth else max(subject.depth, _USUAL_K_TILE)
    return min(max(2, subject.parts) * depth, max(_MOST_PARTS_K, 2 * depth)) + 3


def _largest_integers(subject: Subject) -> Iterator[Trial]:
    """Sums far beyond 16 and 24 bits, of both signs: a clamp, a narrow or a floating-point accumulator shows."""
    base = subject.base
    if base.dtype not in (INT8, UINT8) or base.out_dtype != INT32:
        return
    tile = subject.one_tile(subject.depth)
    k = min(_SUMS_BEYOND_24_BITS, 4 * MOST_WORK // max(1, tile.m * tile.n))
    problem = subject.one_tile(max(subject.depth, k))
    codes = {arg.role: arg.code for arg in subject.spec.signature.arguments}
    if codes.get("beta", "f") in _INTEGER_CODES and codes.get("alpha", "i") in _INTEGER_CODES:  # floats would round
        problem = problem.with_(beta=-3.0)
    yield Trial("the largest integers", problem, "float", "largest", "lockstep", subject.c, False)
