"""The trials of a check: which launches are made, in which order, and why one cannot be made."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from gemmsmith.kernel.config import Config
from gemmsmith.kernel.signature import EVERY_LD, Signature
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import FP64, INT8, INT32, Problem
from gemmsmith.verify.harness import no_launch, refusal
from gemmsmith.verify.trials.trial import (
    BATCH,
    DISTINCT,
    ODD,
    ORDERS,
    PADDED,
    RAGGED,
    RANDOM,
    SCALED,
    UNREAD,
    UNREAD_SCALED,
    Trial,
)

# The order that hides most mistakes first, so that plain ones are named plainly; then orders that need the barriers.
SCHEDULES = ("lockstep", "in_order", "reversed", "random", "starved")
_OF_ONE = re.compile(r"(?:ld|lead|stride|pitch)\w*_?[abcd]$|^[abcd]_?(?:ld|lead|stride|pitch)", re.IGNORECASE)
SAMPLED = ("integers, bit for bit", RANDOM, SCALED)  # of a large fixed size; other orders take too long


def planned_trials(
    spec: KernelSpec, base: Problem, distinct: Problem, kind: str, filled: str, lenient: bool
) -> Iterator[Trial]:
    """The trials in order: plain ones first, so that a mistake is named by the simplest trial that shows it.

    base, distinct  whole tiles; with M, N and K all different
    kind            of device: only the simulator chooses the order of warps
    filled          what C holds before a launch, if the user says so
    lenient         reading C when beta = 0 is tested by a trial of its own
    """
    # Many tutorials compute alpha·sum + beta·C for every beta, which is correct as long as C holds numbers. So C is set
    # in the other trials, and one trial alone tests whether it is read.
    c = filled or ("set" if lenient else "unset")
    yield Trial("integers, bit for bit", base, "exact", "integers", "lockstep", c, hazards=spec.is_rung)
    yield Trial(RANDOM, base, "float", "normal", "lockstep", c)
    for schedule in SCHEDULES[1:] if kind == "sim" else ():
        yield Trial(ORDERS[schedule], base, "float", "normal", schedule, c)
    if lenient:
        yield Trial(UNREAD, base, "float", "normal", "lockstep", hazards=spec.is_rung)
        if spec.signature.has("alpha") and spec.signature.has("beta"):
            # A kernel that reads C with one alpha and not with another means not to read it.
            yield Trial(UNREAD_SCALED, base.with_(alpha=2.0), "float", "normal", "lockstep", hazards=False)
    for label, problem in (
        (SCALED, _scaled(spec, base)),
        # An old C may be read with another leading dimension than the new one is written with.
        (PADDED, padded(_scaled(spec, base) if spec.signature.has("beta") else base, spec)),
        (DISTINCT, distinct if distinct != base else None),
        (BATCH, spec.signature.batch_of(base, 3) if spec.batched and not spec.is_rung else None),
        # Last, so that a kernel of aligned vectors, or without guards at the edges, has passed all else before.
        (ODD, _odd(base, spec)),
        (RAGGED, _ragged(spec, base)),
    ):
        if problem is not None:
            yield Trial(label, problem, "float", "normal", "lockstep", c)


def most_telling(trials: Sequence[Trial]) -> list[Trial]:
    """Of the trials that any kernel is given those that show most mistakes of an index, an edge or a scalar, in the
    same order: exact sums, other scalars and padded rows, M, N and K all different, a ragged shape."""
    labels = {trial.label for trial in trials}
    needless = {RANDOM, UNREAD_SCALED, *ORDERS.values(), *({SCALED} if PADDED in labels else ())}
    return [trial for trial in trials if trial.label not in needless]


def obstacle(spec: KernelSpec, config: Config, trial: Trial) -> str:
    """Why a trial beyond the shape that was asked for cannot be made; empty where it can."""
    if trial.label not in (SCALED, PADDED, ODD, DISTINCT, BATCH, RAGGED):
        return ""
    return no_launch(spec, config, trial.problem)


def square(base: Problem) -> Problem:
    """M = N, and another K: decides whether a kernel is right for squares only."""
    return base.with_(m=2 * base.n, n=2 * base.n, k=3 * base.k)


def taller(base: Problem) -> Problem:
    """M > N, both of whole tiles."""
    return base.with_(m=2 * base.m, k=3 * base.k)


def square_ragged(base: Problem) -> Problem:
    """The ragged trial of a kernel that is right for M = N only."""
    return base.with_(m=base.n + 1, n=base.n + 1, k=base.k + 3)


def _scaled(spec: KernelSpec, base: Problem) -> Problem:
    """alpha and beta that are not 0 or 1, and that the kernel's own scalar types hold; as it takes them."""
    signature = spec.signature
    codes = {arg.role: arg.code for arg in signature.arguments}
    if base.out_dtype == INT32 and base.dtype == INT8 and not base.own_scalars:
        return base.with_(beta=1.0)
    whole = base.out_dtype == INT32 or any(codes.get(role, "f") in "iIqQ" for role in ("alpha", "beta"))
    alpha, beta = (3.0, -2.0) if whole else (0.7, -1.3)  # not exact in 16 bits: a kernel may round them
    if not whole and any(codes.get(role, "f") not in "fd" for role in ("alpha", "beta")):
        alpha, beta = 0.6875, -1.5  # exact in fp16 and bf16
    if base.dtype == FP64:  # not exact in fp32, if the kernel takes more
        alpha, beta = 0.7 if codes.get("alpha") == "d" else 0.6875, -1.3 if codes.get("beta") == "d" else -1.5
    if spec.is_rung or (signature.has("alpha") and signature.has("beta")):
        return base.with_(alpha=alpha, beta=beta)
    if signature.has("beta"):
        return base.with_(beta=beta)
    return base.with_(alpha=alpha) if signature.has("alpha") else base.with_(alpha=alpha, beta=beta)


def padded(base: Problem, spec: KernelSpec) -> Problem:
    """Leading dimensions beyond the rows, each by multiples of 16 bytes, of the matrices that the kernel takes one for;
    ``obstacle`` sees to kernels that take none."""
    step, out = 16 // base.dtype.itemsize, 16 // base.out_dtype.itemsize
    return _with_leading(base, spec, step, 2 * step, 3 * out)


def _odd(base: Problem, spec: KernelSpec) -> Problem:
    return _with_leading(base, spec, 3, 5, 7)


def _with_leading(base: Problem, spec: KernelSpec, *more: int) -> Problem:
    rows = {"lda": base.a_shape[1], "ldb": base.b_shape[1], "ldc": base.n}
    if spec.signature.has(EVERY_LD):
        return base.with_(**dict.fromkeys(rows, max(rows.values()) + more[0]))
    leading = {name: row + by for (name, row), by in zip(rows.items(), more, strict=True)}
    return base.with_(**{name: ld for name, ld in leading.items() if name in _taken(spec.signature)})


def _taken(signature: Signature) -> Collection[str]:
    """The leading dimensions that a kernel takes; all three where one that it takes may be meant for several matrices,
    since its name does not say for which."""
    roles = {"lda": ("lda", "mapA"), "ldb": ("ldb", "mapB"), "ldc": ("ldc", "ldd", "mapC")}
    taken = {name: [arg for arg in signature.arguments if arg.role in each] for name, each in roles.items()}
    clear = all(_OF_ONE.search(arg.name) for arguments in taken.values() for arg in arguments)
    named = [name for name, arguments in taken.items() if arguments]
    return named if named and clear else tuple(roles)


def ragged_trial(spec: KernelSpec, base: Problem, c: str) -> Trial:
    """One short of whole tiles in N, and beyond them in M and K."""
    return Trial(RAGGED, _ragged(spec, base), "float", "normal", "lockstep", c)


def _ragged(spec: KernelSpec, base: Problem) -> Problem:
    ragged = spec.signature.tie(base.with_(m=base.m + 1, n=base.n - 1 or 1, k=base.k + 3))
    cube = base.with_(m=base.n + 1, n=base.n + 1, k=base.n + 1)
    return cube if refusal(spec.signature, ragged) else ragged
