"""A certificate: what is proven of a kernel for one shape, beside the tests.

Every output is exactly alpha·Σ a·b + beta·c (+ bias) as a polynomial, so each product is in it exactly once; and the
order in which it is summed, whether that is the same in every run and for every M, and the error bound that follows.
"""

from __future__ import annotations

import math
import re
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmsmith.call.binding import CompileFn, aligned_code
from gemmsmith.errors import GemmsmithError
from gemmsmith.fills import Array
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import INTEGER_TYPES, Problem
from gemmsmith.sim.device import Loads
from gemmsmith.sim.proof.field import PRIME
from gemmsmith.sim.proof.session import NoProof
from gemmsmith.sim.proof.trees import Op, Trees
from gemmsmith.verify.harness import refusal
from gemmsmith.verify.oracles.error_steps import relative_error
from gemmsmith.verify.oracles.exact_run import ExactRun, run_exactly
from gemmsmith.verify.oracles.summation_order import OutputTree, Sum, order_text

# Multiply-adds of a run, each of which takes about 0.2 µs.
LARGEST = 1 << 24
_ENOUGH = 1 << 23  # multiply-adds of all runs, after which no further M is tried
NOT_TRIED = "other orders of warps were not tried, for lack of time"
_SLOWER = 5  # times as long as in lockstep: warps are not executed together
_LARGEST_SCALE = 60.0  # below the 61 bits of the prime
_MOST_ORDERS = 64  # of which each is bounded
_SYNCHRONISES = re.compile(r"\b(atom|red)\.|\.acquire|\.volatile|\.relaxed")


@dataclass(frozen=True)
class Certificate:
    """What was proven, or why nothing was.

    reason         why there is no certificate; empty if there is one
    problem        with the scalars of the generic run; ``also`` another that was proven
    scalars        for which alpha and beta it holds
    probability    the logarithm (base 2) of the error probability
    order          the order of summation; empty if it could not be read
    orders         how many different orders outputs have
    deterministic  whether every run has this order; ``why_not`` says why not
    same_for       the M that were tried and have this order; ``differs_at`` one that has another
    adds_c         whether C is added
    bound          ε with |error| ≤ ε·(|alpha|Σ|a||b| + |beta||c|); None if none follows
    """

    problem: Problem
    reason: str = ""
    scalars: str = ""
    probability: float = 0.0
    order: str = ""
    orders: int = 1
    deterministic: bool = True
    why_not: str = ""
    same_for: tuple[int, ...] = ()
    differs_at: tuple[int, ...] = ()
    adds_c: bool = False
    bound: float | None = None
    exact: bool = False
    seconds: float = 0.0
    also: Problem | None = None

    @property
    def ok(self) -> bool:
        return not self.reason


def certify(
    spec: KernelSpec, config: Config, base: Problem, compile_fn: CompileFn, arch: str, *, also: Problem | None = None,
    any_m: bool = False, other_m: bool = True, timeout: float = 60.0, seconds: float = math.inf,
    loads: Loads | None = None,
) -> Certificate:  # fmt: skip
    """Try to prove that ``spec`` computes ``base``, for generic scalars and for the base's own.

    The caller looks for races: the proof follows one order of warps.

    also     a second shape, such as one that is no multiple of the tile
    any_m    the kernel takes an M that is no multiple of its tile; ``other_m``: it takes another M at all
    seconds  after which no further run is begun but the first: a second shape, other orders of warps, another M
    loads    kernels that a simulator has parsed before
    """
    try:
        return _Proof(spec, config, base, compile_fn, arch, timeout, seconds, loads).certificate(also, any_m, other_m)
    except NoProof as no:
        return Certificate(base, reason=no.reason)


class _Proof:
    def __init__(
        self, spec: KernelSpec, config: Config, base: Problem, compile_fn: CompileFn, arch: str, timeout: float,
        seconds: float, loads: Loads | None,
    ) -> None:  # fmt: skip
        self.loads = {} if loads is None else loads
        self.spec, self.config, self.base, self.compile_fn, self.arch = spec, config, base, compile_fn, arch
        self.trees, self.timeout, self.started = Trees(), timeout, time.process_time()
        self.runs: list[ExactRun] = []
        self.seconds, self.pace = seconds, 0.0  # seconds for each multiply-add, of the slowest run

    def run(self, problem: Problem, schedule: str = "lockstep") -> ExactRun:
        before = time.process_time()
        found = run_exactly(self.spec, self.config, problem, self.compile_fn, self.arch, self.trees,
                            schedule=schedule, timeout=self.timeout, loads=self.loads)  # fmt: skip
        self.pace = max(self.pace, (time.process_time() - before) / max(1, _size(problem)))
        self.runs.append(found)
        return found

    def _has_time(self, *problems: Problem) -> bool:
        """Whether these can be run, at the pace of the slowest run."""
        return time.process_time() - self.started + self.pace * sum(map(_size, problems)) <= self.seconds

    def certificate(self, also: Problem | None, any_m: bool, other_m: bool) -> Certificate:
        self._check_size()
        generic = generic_scalars(self.spec, self.base)
        first = self.run(generic)
        if first.compared and generic != self.base:
            self.run(self.base)
        also = also if also is not None and self._has_time(also) else None
        if also is not None:
            self.run(generic_scalars(self.spec, also))
        numbers, counts = np.unique(first.trees, return_counts=True)
        tree = OutputTree(self.trees.nodes, int(numbers[np.argmax(counts)]))
        readable = tree.readable and not self.trees.full
        self._check_constants(numbers, readable)
        deterministic, why_not = self._deterministic(first)
        same, differs = self._other_m(first, any_m) if other_m else ((self._extent(generic),), ())
        bound = self._largest_bound(numbers) if readable else None
        if not deterministic and bound is not None:  # whatever comes first is rounded once for each that follows
            bound = bound + (1 + bound) * first.atomics * 2.0**-24 if first.atomics > 1 else None
        exact = self.base.dtype in INTEGER_TYPES and self.base.out_dtype in INTEGER_TYPES
        found = tree.sum() if readable else None
        degree, orders = max(run.degree for run in self.runs), self._orders(numbers) if readable else 1
        return Certificate(
            generic, "", self._scalars(first), math.log2(max(3, degree) * len(self.runs)) - math.log2(PRIME),
            _order(tree, found), orders, deterministic, why_not, same, differs, first.adds_c, bound,
            exact, time.process_time() - self.started, also,
        )  # fmt: skip

    def _check_size(self) -> None:
        base = self.base
        if any(arg.table for arg in self.spec.signature.arguments):
            raise NoProof("proofs do not follow arrays of pointers")
        if base.batch > 1 or base.activation:
            raise NoProof(
                "proofs cover one product at a time, not a batch"
                if base.batch > 1
                else f"proofs cover sums of products only, and this kernel applies {base.activation}"
            )
        if _size(base) > LARGEST:
            raise NoProof(f"{base.m}x{base.n}x{base.k} has more than {LARGEST:,} products; try a smaller shape")
        if not base.k or not base.m or not base.n:
            raise NoProof("there is no product")

    def _orders(self, numbers: Array) -> int:
        """How many different orders sums have; the epilogue may be rounded in several ways besides."""
        trees = [OutputTree(self.trees.nodes, number) for number in numbers[:_MOST_ORDERS].tolist()]
        return len({tree.sum_root if tree.readable else tree.root for tree in trees})

    def _check_constants(self, numbers: Array, readable: bool) -> None:
        """2^61 is 1 in the field: terms must not be multiplied by constants that large."""
        constants = [node for node in self.trees.nodes.values() if node.op is Op.CONSTANT]
        if all(abs(float(node.detail)) == 1 for node in constants):
            return
        if not readable or len(numbers) > _MOST_ORDERS:
            raise NoProof("terms are multiplied by constants in too many ways")
        scales = [x for number in numbers.tolist() for x in OutputTree(self.trees.nodes, number).scale]
        if max(map(abs, scales)) >= _LARGEST_SCALE:
            raise NoProof("terms are multiplied by very large or very small constants")

    def _largest_bound(self, numbers: Array) -> float | None:
        """Of all outputs; None if one has none, or if there are very many different trees."""
        found = 0.0
        for number in numbers.tolist() if numbers.size <= _MOST_ORDERS else [0]:
            tree = OutputTree(self.trees.nodes, number)
            if number == 0 or not tree.readable or tree.subtracts:
                return None
            found = max(found, tree.error(relative_error))
        return found

    def _deterministic(self, first: ExactRun) -> tuple[bool, str]:
        if first.atomics > 1:
            return False, f"up to {first.atomics} atomic additions meet at one place, in any order"
        compiled = self.compile_fn(self.spec, *aligned_code(self.spec, self.config, first.problem), self.arch)
        if _SYNCHRONISES.search(compiled.ptx):
            for schedule in ("reversed", "random"):
                if not self._has_time(*[first.problem] * _SLOWER):
                    return False, NOT_TRIED
                if not np.array_equal(self.run(first.problem, schedule).trees, first.trees):
                    return False, f"the order of warps changes it ({schedule})"
        return True, ""

    def _extent(self, problem: Problem) -> int:
        """The user's own M."""
        return problem.n if self._column_major else problem.m

    @property
    def _column_major(self) -> bool:
        return not self.spec.is_rung and self.spec.signature.column_major

    def _other_m(self, first: ExactRun, any_m: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
        own = self._extent(first.problem)
        same, differs = [own], list[int]()
        for extent in ([1] if any_m else []) + [2 * own]:
            grown = {"n" if self._column_major else "m": extent}
            problem = first.problem.with_(**grown)
            if refusal(self.spec.signature, problem):
                continue  # a kernel with a single extent takes no other M alone
            if sum(map(_size, (problem, *(run.problem for run in self.runs)))) > _ENOUGH or not self._has_time(problem):
                break
            try:
                other = self.run(problem)
            except GemmsmithError:
                continue
            rows, columns = (min(x, y) for x, y in zip(first.trees.shape, other.trees.shape, strict=True))
            alike = np.array_equal(_corner(first.trees, rows, columns), _corner(other.trees, rows, columns))
            (same if alike else differs).append(extent)
        return tuple(sorted(same)), tuple(sorted(differs))

    def _scalars(self, first: ExactRun) -> str:
        names = [role for role in ("alpha", "beta") if self.spec.signature.has(role)]
        if not names:
            return ""
        every = " and ".join(names)
        if not first.compared:
            return f"for every {every}"
        lines = ", ".join([*first.compared[:3], *(["…"] if len(first.compared) > 3 else [])])
        branches = dict.fromkeys(_values(run.problem, names) for run in self.runs)
        return f"for every {every} on the branches of {' or of '.join(branches)} (compared at {lines})"


def _order(tree: OutputTree, found: Sum | None) -> str:
    if found is None:
        return ""
    narrow = tree.sums_rounded_to
    return order_text(found) + (f", sums rounded to {' and '.join(narrow)} on the way" if narrow else "")


def _size(problem: Problem) -> int:
    return problem.m * problem.n * problem.k


def _values(problem: Problem, names: list[str]) -> str:
    return ", ".join(f"{name} = {getattr(problem, name):g}" for name in names)


def _corner(trees: Array, rows: int, columns: int) -> Array:
    corner: Array = trees[:rows, :columns]
    return corner


def generic_scalars(spec: KernelSpec, base: Problem) -> Problem:
    """alpha and beta that no kernel compares with, as far as it takes them."""
    signature = spec.signature
    codes = {argument.role: argument.code for argument in signature.arguments}
    whole = any(codes.get(role, "f") in "iIqQ" for role in ("alpha", "beta"))
    changes: dict[str, Any] = {}
    if signature.has("alpha"):
        changes["alpha"] = 3.0 if whole else 0.6875
    if signature.has("beta"):
        changes["beta"] = -2.0 if whole else -1.5
    return base.with_(**changes) if changes else base
