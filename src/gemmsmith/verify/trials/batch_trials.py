"""Trials of several products: which of them a thread works on, and where their matrices begin."""

from __future__ import annotations

import math
from collections.abc import Iterator

from gemmsmith.verify.harness import no_launch
from gemmsmith.verify.trials.exact_trial import exact_trial
from gemmsmith.verify.trials.far_trials import round_up
from gemmsmith.verify.trials.tile_trials import MOST_WORK
from gemmsmith.verify.trials.trial import Trial
from gemmsmith.verify.trials.trial_subject import Subject

_COUNTS = (65, 33, 17, 9)  # products: one more than a usual mask, or a table of their offsets, has room for
_APART = 2**16 + 2**15  # elements: more than 16 bits hold, and other ones with a sign and without


def batch_trials(subject: Subject) -> Iterator[Trial]:
    """Seven products, ragged; many; and some with room between their matrices."""
    spec, signature = subject.spec, subject.spec.signature
    if not spec.batched or spec.is_rung:
        return
    # M, N and K all different: so are the strides of A, B and C.
    bm, bn = subject.tile
    # Ragged where that is allowed: a product may not begin where the whole tiles of the one before it end.
    m, n = 2 * bm - 1, max(1, bn - 1)
    k = next(k for k in range(subject.depth + 1, subject.depth + 4) if k not in (m, n))
    problem = signature.batch_of(subject.problem(m, n, k), 7)
    if no_launch(spec, subject.config, problem):  # a block that grows with C: whole tiles are small enough
        problem = signature.batch_of(subject.base, 7)
    yield exact_trial(subject, "a batch of seven", problem)
    if signature.has("beta"):
        yield exact_trial(subject, "a batch of seven, beta -1", problem.with_(beta=-1.0))
    one = math.prod((*subject.tile, subject.depth))
    many = next((count for count in _COUNTS if count * one <= MOST_WORK // 4), _COUNTS[-1])
    yield exact_trial(subject, f"a batch of {many}", signature.batch_of(subject.one_tile(subject.multiples.k), many))
    taken = {f"stride_{name}": (getattr(problem, f"stride_{name}"), getattr(problem, f"ld{name}"))
             for name in "abc" if signature.has(f"stride{name.upper()}")}  # fmt: skip
    if taken:
        strides = {name: stride + ld for name, (stride, ld) in taken.items()}
        yield exact_trial(subject, "a batch with room between its matrices", problem.with_(**strides))
        few = signature.batch_of(problem.single, 3)
        strides = {name: stride + round_up(_APART, ld) for name, (stride, ld) in taken.items()}  # whole rows
        yield exact_trial(subject, "a batch whose matrices are far apart", few.with_(**strides))
