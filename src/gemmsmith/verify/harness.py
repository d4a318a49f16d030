"""Launch a kernel once in guarded memory, and judge the result.

    operands ─► guarded memory ─► launch ─► read back ─► damage, oracle ─► Verdict

The same code serves the GPU and the simulator. Memory that must not be read holds NaN: C if beta is 0, A and B if alpha
is 0, the padding between rows, and the canaries around every matrix. The simulator also faults on a forbidden read of
C, A or B whose value is not used.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from gemmsmith.call import binding
from gemmsmith.call.binding import LoadedPlan
from gemmsmith.call.launch_plan import LaunchPlan
from gemmsmith.errors import (
    GemmsmithError,
    LaunchError,
    ProblemError,
    SimulationError,
    TimeLimitError,
    UnsupportedError,
    UsageError,
)
from gemmsmith.fills import Operands, operands
from gemmsmith.gpus import cuda_limits
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.signature import EVERY_LD, Signature, undetermined
from gemmsmith.kernel.spec import Addresses, KernelSpec
from gemmsmith.ladder.registry import check_accepts
from gemmsmith.problem import Problem
from gemmsmith.run.device import Device
from gemmsmith.run.memory import GUARD_BYTES
from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.faults import KernelFaultError
from gemmsmith.sim.races.hazards import Hazard, HazardError
from gemmsmith.verify.batch_memory import batch_gaps
from gemmsmith.verify.faults.element_names import Operand
from gemmsmith.verify.faults.explainer import Explainer, explained
from gemmsmith.verify.faults.fault_report import FaultReport
from gemmsmith.verify.faults.kernel_source import source_of
from gemmsmith.verify.guarded_run import NAN_FILLS, run_guarded
from gemmsmith.verify.initial_operands import initialized
from gemmsmith.verify.judged_result import judge_result, with_zeros_judged
from gemmsmith.verify.oracles.arithmetic import exact_limit
from gemmsmith.verify.oracles.bounds import theory
from gemmsmith.verify.oracles.compare import MODES, check_mode
from gemmsmith.verify.oracles.epilogue import SMOOTH
from gemmsmith.verify.verdict import Verdict, repeat_command

CompileFn = binding.CompileFn

# The simulator checks every access against the allocation's bounds, so it needs no canaries: one element past the
# matrix is out of bounds.
SIMULATOR_GUARD_BYTES = 0
# C before a launch with beta = 0: NaN that must not be read or must not be used, finite numbers, or zeros.
C_FILLS = (*NAN_FILLS, "set", "zero")
# What uninitialised shared memory may hold: NaN in every floating type, large numbers, and ordinary ones, which a
# kernel that looks for NaN and overflow takes for sums.
GARBAGE = (0xFF, 0x5B, 0x3C)
_ADDRESS = re.compile(r"0x[0-9a-f]+")  # of memory, which each run has anew
# Multiply-adds above which the float64 product takes minutes on two cores: about 8192×8192×4096.
_AFFORDABLE = 2**38


def affordable_mode(problem: Problem) -> str:
    """'float', or 'projection' if the float64 product would take minutes on the CPU."""
    return "float" if problem.m * problem.n * problem.k <= _AFFORDABLE else "projection"


def refusal(signature: Signature, problem: Problem) -> str:
    """Why a kernel with this signature cannot compute ``problem``; empty if it can."""
    if signature.unknown:
        raise undetermined(signature)
    always = 1.0 if signature.accumulates else 0.0
    for role, value, only in (("alpha", problem.alpha, 1.0), ("beta", problem.beta, always)):
        if not signature.has(role) and value != only:
            verb = "takes no" if role not in {arg.name for arg in signature.arguments} else "never reads"
            return f"{signature.entry} {verb} {role}, so {role} must be {only:g}, not {value:g}"
    tight = problem.with_()
    ldc = "ldd" if signature.has("D") and signature.has("ldd") else "ldc"
    for name, role, map_role in (("lda", "lda", "mapA"), ("ldb", "ldb", "mapB"), ("ldc", ldc, "mapC")):
        if not signature.has(role) and not signature.has(map_role) and getattr(problem, name) != getattr(tight, name):
            own = _TRANSPOSED_LD.get(name, name) if signature.column_major else name
            return f"{signature.entry} takes no {own}, so {_lines(signature)} must be contiguous"
    if signature.has(EVERY_LD) and len({problem.lda, problem.ldb, problem.ldc}) > 1:
        return f"{signature.entry} takes one leading dimension, {signature.named(EVERY_LD)}, for A, B and C"
    if problem.bias and not signature.has("bias"):
        return f"{signature.entry} takes no bias"
    return _extents_refusal(signature, problem)


_TRANSPOSED_LD = {"lda": "ldb", "ldb": "lda"}


def no_launch(spec: KernelSpec, config: Config, problem: Problem) -> str:
    """Why there is no launch of the kernel for ``problem``: its signature, grid or block; empty if there is one."""
    if why := refusal(spec.signature, problem):
        return why
    try:
        threads = math.prod(spec.geometry(problem, config).block)
        if not spec.is_rung and threads > (most := cuda_limits().threads_per_block):
            return f"its block has {threads} threads for this shape, and a GPU allows {most}"
        if (rounds := getattr(spec.geometry, "rounds", None)) is not None:
            rounds(problem)
    except GemmsmithError as error:
        return error.message
    return ""


def in_rounds(spec: KernelSpec) -> bool:
    """Whether a product is several launches, which a loop of host code makes for one part after another."""
    return bool(getattr(spec.geometry, "in_rounds", False))


def _lines(signature: Signature) -> str:
    return "columns" if signature.column_major else "rows"


def _extents_refusal(signature: Signature, problem: Problem) -> str:
    extents = {"M": problem.m, "N": problem.n, "K": problem.k}
    wrong = [f"{role}={extent}" for role, extent in signature.fixed if extents[role] != extent]
    if wrong:
        return f"{signature.entry} is compiled for {', '.join(wrong)} only"
    own = {"M": "N", "N": "M"} if signature.column_major else {}
    if signature.tied:
        first, second = signature.tied[0], signature.tied[1]
        named = f"one size for {own.get(first, first)} and {own.get(second, second)}, {signature.named(first)}"
        return "" if extents[first] == extents[second] else f"{signature.entry} takes {named}, so they must be equal"
    given = [role for role in extents if signature.has(role)]
    if signature.fixed or len(given) == 3 or len(set(extents.values())) == 1:
        return ""
    if "K" in given and len(given) == 2:
        return ""  # the grid gives the other one
    return f"{signature.entry} takes only {', '.join(own.get(r, r) for r in given)}, so M, N and K must be equal"


def verify_launch(
    device: Device,
    spec: KernelSpec,
    config: Config,
    problem: Problem,
    *,
    compile_fn: CompileFn,
    fill: str | None = None,
    seed: int = 0,
    offsets: tuple[int, int, int] = (0, 0, 0),
    mode: str = "float",
    guard_bytes: int | None = None,
    c: str = "unset",
    launch: tuple[str, ...] = (),
    blocks: Sequence[int] | None = None,
    written: int | None = None,
    launches: int = 1,
) -> Verdict:
    """Run ``spec`` on ``problem`` and check that it computes GEMM and changes nothing else.

    mode     'float' (component-wise against float64), 'exact' (integers), 'bits' (ascending fp32 fma, bit for bit),
             'mod32' (modulo 2**32, on a simulator in that mode), 'projection' (C·t, for large sizes)
    fill     the operands' data; None: the mode's default
    offsets  how many elements A, B and C are shifted from their 256-byte alignment
    c        'unset': C if beta is 0, and A and B if alpha is 0, hold NaN and must not be read
             'nan': as 'unset', but C may be read if its NaN changes nothing
             'set': they hold finite numbers and may be read, for kernels that compute 0·C, as many tutorials do
             'zero': C holds zeros and may be read, for kernels that add to it, such as C += A·B and atomics
    launch   further options of the command line that reproduces this case
    blocks   only these blocks are run, on the simulator, and only what they write is judged
    written  how many outputs these blocks must write, where that is known
    launches how often it is launched, one time after another with the same C, before the result is judged

    Wrong use, compile errors and a launch that takes too long raise. Another error on the device while the kernel runs
    becomes a failing verdict with its message and hint. A launch that only has races ran to its end, so its result is
    judged too.
    """
    fill = MODES.get(mode, "normal") if fill is None else fill
    if mode == "exact" and problem.activation and problem.activation == spec.own_activation in SMOOTH:
        mode = "float"  # its results are no integers
    _check_arguments(spec, problem, mode, fill, offsets, c)
    if guard_bytes is None:
        guard_bytes = SIMULATOR_GUARD_BYTES if device.kind == "sim" else GUARD_BYTES
    cleared_d = c == "zero" and spec.signature.has("D")  # C is another matrix, and holds numbers
    data = initialized(problem, operands(problem, fill, seed, exact_limit(spec)), "set" if cleared_d else c, mode)
    if data.bias is not None:
        data = replace(data, bias=data.bias.astype(spec.bias_dtype(problem).numpy))
    blank = Verdict(
        kernel=spec.name, config=str(config), problem=problem, device=device.name, mode=mode, fill=fill, seed=seed,
        rho=math.nan, gate=0.0, theory=theory(problem.k), where=None, got=None, expected=None, unwritten=0,
        wrong=0, total=problem.batch * problem.m * problem.n, mistrusted=False, reasons=(), damage=(),
        repeat=repeat_command(spec, config, problem, fill, seed, offsets, mode, launch),
    )  # fmt: skip
    part = None if blocks is None else _Part(tuple(blocks), spec.geometry(problem, config).blocks, written)
    watched = _WatchedLaunch(device, spec, config, data, blank, offsets, guard_bytes, c, compile_fn, part, launches)
    try:
        return watched.judged()
    except TimeLimitError:  # slow or endless: no verdict
        raise
    except (SimulationError, LaunchError) as error:
        judged = _with_garbage(error, watched)
        return judged if judged is not None else watched.failed(error)


def _check_arguments(
    spec: KernelSpec, problem: Problem, mode: str, fill: str, offsets: tuple[int, int, int], c: str
) -> None:
    """Raise for wrong use of ``verify_launch``."""
    check_mode(mode, fill, problem)
    check_accepts(spec, problem)
    if why := refusal(spec.signature, problem):
        raise UnsupportedError(why)
    batch_gaps(problem)
    if len(offsets) != 3 or any(offset < 0 for offset in offsets):
        raise ProblemError(f"offsets must be three numbers of 0 or more, for A, B and C, not {offsets}")
    if c not in C_FILLS:
        raise UsageError(f"unknown state {c!r} of C before the launch", f"use one of {', '.join(C_FILLS)}")


@dataclass(frozen=True)
class _Part:
    """The blocks that are run, of ``total``, and how many outputs they must write, if that is known."""

    blocks: tuple[int, ...]
    total: int
    written: int | None


@dataclass
class _WatchedLaunch:
    """One launch in guarded memory, what its threads did to one another, and the verdict on it.

    ``blank`` is the verdict before anything is known. ``part``: what is run, where it is not the whole grid.
    """

    device: Device
    spec: KernelSpec
    config: Config
    data: Operands
    blank: Verdict
    offsets: tuple[int, int, int]
    guard_bytes: int
    c: str
    compile_fn: CompileFn
    part: _Part | None
    launches: int = 1
    loaded: LoadedPlan | None = None
    hazards: tuple[Hazard, ...] = ()
    races: tuple[str, ...] = ()
    told: tuple[FaultReport, ...] = ()
    notes: tuple[str, ...] = ()
    seen: list[Operand] = field(default_factory=list)  # the operands in memory

    def judged(self) -> Verdict:
        """Run it and judge the result. A fault of the kernel raises."""
        self.hazards, self.races, self.told, self.notes, self.seen = (), (), (), (), []
        self.loaded = None
        problem = self.blank.problem
        after, damage = run_guarded(self.device, self.spec, self.config, problem, self.data, self.offsets,
                                    self.guard_bytes, self.c, self._start, self.seen.append, self.launches)  # fmt: skip
        total, written = (None, None) if self.part is None else (self.part.total, self.part.written)
        verdict = judge_result(self.blank, self.spec, self.data, after, damage, self.c not in NAN_FILLS, total, written)
        # Of an activation the sign of a zero tells nothing: x * (x > 0) and -fminf(-x, 0) are -0 below 0.
        if verdict.fill == "zero sums" and verdict.ok and not problem.activation:
            verdict = with_zeros_judged(verdict, after)
        lucky = ("the result is right in the order of this run, but may be wrong in another",)
        said = self.races + (lucky if self.races and verdict.ok else ())
        return replace(verdict, reasons=(*said, *verdict.reasons), hazards=self.hazards, faults=self.told,
                       told=len(self.races) if self.told else 0, notes=tuple(dict.fromkeys(self.notes)))  # fmt: skip

    def outcome(self) -> Verdict:
        """The verdict on it, also if it ends in an error."""
        try:
            return self.judged()
        except TimeLimitError:
            raise
        except GemmsmithError as error:
            return self.failed(error)

    def failed(self, error: GemmsmithError) -> Verdict:
        """The verdict on a launch that ended in an error."""
        words = _words(error)
        if not isinstance(error, KernelFaultError):
            return replace(self.blank, reasons=words, faulted=True)
        told = tuple(explained(lambda: [self._explainer().fault(error.fault)]))
        return replace(self.blank, reasons=words, faults=told, told=len(words) if told else 0,
                       notes=tuple(getattr(self.device, "notes", ())), faulted=True)  # fmt: skip

    def _start(self, plan: LaunchPlan, addresses: Addresses, workspace: int) -> None:
        device, again = self.device, self.loaded is not None
        if self.loaded is None:
            self.loaded = binding.load_plan(device, plan, self.compile_fn)
        for step in self.loaded.steps(addresses, workspace, again):
            if self.part is None or not isinstance(device, SimDevice):
                device.launch(step.loaded, step.launch)
            else:
                device.launch(step.loaded, step.launch, self.part.blocks)
        try:
            device.synchronize()
        except HazardError as error:
            self.races, self.hazards = _words(error), error.hazards
            self.told = tuple(explained(lambda: self._explainer().races(self.hazards)))
        self.notes = tuple(getattr(device, "notes", ()))

    def _explainer(self) -> Explainer:
        return Explainer(source_of(self.spec, self.config), tuple(self.seen))


def _with_garbage(error: GemmsmithError, watched: _WatchedLaunch) -> Verdict | None:
    """The verdict on a launch that reads shared memory that no thread wrote, if what is there changes nothing.

    A block at the edge often leaves part of its tile unwritten, computes with it, and stores nothing of that. Where the
    launch has a race, that is the verdict: the bytes were to be written, and the reader did not wait. Where it is as
    wrong with other bytes there, it has another mistake, which is told. None: the outputs depend on what is there, or
    the error is another one.
    """
    device = watched.device
    if not isinstance(device, SimDevice) or not reads_unwritten_shared(error):
        return None
    seen = list[tuple[bool, str]]()
    try:
        for device.garbage in GARBAGE:
            verdict = watched.outcome()
            if verdict.hazards:
                return verdict
            told = repr((verdict.reasons, verdict.wrong, verdict.unwritten, verdict.where, verdict.got))
            seen.append((verdict.ok, "" if verdict.ok else _ADDRESS.sub("", told)))
            if seen[0] != seen[-1]:
                return None
    except TimeLimitError:
        return None
    finally:
        device.garbage = None
    return verdict


def reads_unwritten_shared(error: GemmsmithError) -> bool:
    """Whether a launch ended at a read of shared memory that no thread wrote."""
    return error.message.startswith("uninitialised shared read")


def _words(error: GemmsmithError) -> tuple[str, ...]:
    """The message, then the hint: source line, block and thread, or further races."""
    hint = error.hint
    if isinstance(error, KernelFaultError):  # the instruction is for who asks for it
        for spot in error.fault.spots:
            hint = hint.replace(f": {spot.ptx};", ";")
    return (error.message, *filter(None, hint.split("\n")))
