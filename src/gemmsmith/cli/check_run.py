"""The trials of gemmsmith check, and what they find.

    compile ─► settle what the kernel computes ─► trials ─► report

On the simulator the trials also look for races: a kernel that races fails, even if its result is correct.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from gemmsmith.call.binding import CompileFn, aligned_code
from gemmsmith.cli.check_certificate import add_certificate
from gemmsmith.cli.estimate import check_memory
from gemmsmith.cli.launch_report import hints, launch_facts
from gemmsmith.cli.options.device import CacheOptions, DeviceOptions
from gemmsmith.cli.options.groups import option_words
from gemmsmith.cli.options.kernel import KernelOptions
from gemmsmith.cli.options.problem import ShapeOptions
from gemmsmith.cli.options.verification import VerificationOptions
from gemmsmith.cli.render.check_report import (
    BATCH,
    DISTINCT,
    ODD,
    PADDED,
    RAGGED,
    SCALED,
    SQUARE,
    UNREAD,
    Report,
    Trial,
)
from gemmsmith.cli.render.output import progress
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.errors import GemmsmithError, UnknownInstructionError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.layout import layout_named
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import check_accepts
from gemmsmith.problem import INT8, INT32, Problem
from gemmsmith.run.device import Device
from gemmsmith.shapes import Shape
from gemmsmith.verify.arithmetic import as_compiled, notes
from gemmsmith.verify.check_shapes import CheckShapes, check_shapes, sampled_blocks
from gemmsmith.verify.harness import refusal, verify_launch
from gemmsmith.verify.leniency import is_lenient
from gemmsmith.verify.product_evidence import refuse_doubtful
from gemmsmith.verify.settle import Settled, settle
from gemmsmith.verify.verdict import Verdict
from gemmsmith.verify.written import read_parameters

_SAMPLED = ("integers, bit for bit", "random data", SCALED)  # of a large fixed size; other orders take too long
# The order that hides most mistakes first, so that plain ones are named plainly; then orders that need the barriers.
_OLDER_ARCH = "sm_80"
SCHEDULES = ("lockstep", "in_order", "reversed", "random", "starved")


@dataclass(frozen=True)
class Asked:
    """What the command line says; ``free``: no shape was given, so that one may be chosen."""

    kernel: str
    options: KernelOptions
    shape: ShapeOptions
    free: bool
    device: DeviceOptions
    timeout: float
    checks: VerificationOptions
    cache: CacheOptions


def run_check(spec: KernelSpec, config: Config, asked: Asked) -> Report:
    """Compile ``spec``, find out what it computes, and run the trials until one fails."""
    device, checks, cache, options, kernel = asked.device, asked.checks, asked.cache, asked.options, asked.kernel
    user = replace(options.launch, defines=spec.extra_defines)
    shapes = _shapes(spec, config, asked)
    blocks = sampled_blocks(spec, config, shapes.base) if not device.wants_gpu else None
    device.check_runs(spec, _problem(spec, shapes.base))
    first, compiled, older = _compiled(spec, config, _problem(spec, shapes.base), asked)
    bench = _Bench(device, asked.timeout, getattr(first, "loads", {}), first.arch)
    spec = as_compiled(spec, compiled.ptx)
    settled = _settled(bench, spec, config, shapes, compiled, options, blocks)
    if checks.c:  # the user says what C holds
        settled = settled.without_accumulation()
    settled = replace(
        settled, lines=(*settled.lines, *older, *notes(spec), *_sampled_note(spec, config, shapes, blocks))
    )
    spec, shapes = settled.spec, _deeper(shapes, settled, config, asked)
    if asked.free and blocks is None and not spec.is_rung and not spec.signature.fixed:
        settled, shapes = _larger(bench, settled, config, shapes, compiled, options)
        spec = settled.spec
    base = _problem(spec, shapes.base, _bias(settled))
    check_accepts(spec, base)
    check_memory(base)
    launch = launch_facts(spec, config, base, user)
    if settled.launch_found:
        launch["source"] = "found by trying"
    lenient = is_lenient(spec, checks.fill, reads_c=_reads_c(spec, compiled))
    planned = list(_trials(spec, base, _problem(spec, shapes.distinct, base.bias), first.kind, checks.fill, lenient))
    skipped = [(trial.label, why) for trial in planned if (why := _obstacle(spec, config, trial))]
    if first.kind != "sim":
        skipped.append(("other orders of warps, races", "only the simulator can choose and see them"))
    trials = [trial for trial in planned if not _obstacle(spec, config, trial)]
    if blocks is not None:
        trials = [trial for trial in trials if trial.label in _SAMPLED]
    report = Report(spec, compiled, base, launch, trials, skipped, checks.strict or spec.is_rung, settled, kernel,
                    list(option_words(options)))  # fmt: skip
    compile_fn: CompileFn = cache.compiler if spec.is_rung else lambda *_: compiled

    def run(trial: Trial) -> Verdict:
        return verify_launch(bench.open(trial.schedule, trial.hazards), spec, config, trial.problem, blocks=blocks,
                             compile_fn=compile_fn, fill=trial.fill, mode=trial.mode, c=trial.c)  # fmt: skip

    again = _again(kernel, shapes.base, device, options, checks)
    with progress() as bar:
        task = bar.add_task(spec.name, total=len(trials))
        for trial in trials:
            if report.square and trial.label == RAGGED:
                trial = replace(trial, problem=_square_ragged(base))
            verdict = run(trial)
            if not verdict.trusted and trial is trials[0] and settled.reading is None:
                refuse_doubtful(spec, compiled.ptx, verdict)
            report.verdicts.append((trial, replace(verdict, repeat=again)))
            bar.advance(task)
            if not verdict.trusted and trial.label == DISTINCT and base.m == base.n and not spec.is_rung:
                report.square = run(replace(trial, label=SQUARE, problem=_square(base))).trusted
            if not verdict.trusted and not report.only_warns(trial, verdict):
                # A wrong launch would have failed before the ragged trial, which is the last.
                report.hints = hints(spec, launch, user, verdict, suspect_launch=trial.label != RAGGED)
                break  # later failures often follow from the first
    if first.kind == "sim":
        add_certificate(report, config, compile_fn, bench.loads, blocks is None)
    return report


def _compiled(
    spec: KernelSpec, config: Config, problem: Problem, asked: Asked
) -> tuple[Device, CompiledKernel, tuple[str, ...]]:
    """A device that the kernel is loaded on, its code, and what to say about that.

    An instruction that the device lacks is no verdict on the kernel. What CUDA's libraries compile to bulk copies on
    sm_90 is compiled to other instructions on sm_80, which the simulator knows.
    """
    device, cache = asked.device.open(), asked.cache
    code = aligned_code(spec, config, problem)
    compiled = cache.compiler(spec, *code, device.arch)
    try:
        device.load(compiled)
    except UnknownInstructionError as error:
        if device.kind != "sim" or spec.is_rung:
            raise
        older = asked.device.open(arch=_OLDER_ARCH)
        try:
            compiled = cache.compiler(spec, *code, older.arch)
            older.load(compiled)
        except GemmsmithError:
            raise error from None
        return older, compiled, (f"it is compiled for {older.arch}, since {error.message.split(' (')[0]}",)
    return device, compiled, ()


@dataclass(frozen=True)
class _Bench:
    """Opens a device for each trial; simulators share the parsed kernel."""

    device: DeviceOptions
    timeout: float
    loads: dict[tuple[str, str], Any]
    arch: str

    def open(self, schedule: str = "lockstep", hazards: bool = False) -> Device:
        opened = self.device.open(schedule, hazards=hazards, timeout=self.timeout, arch=self.arch)
        if hasattr(opened, "loads"):
            opened.loads = self.loads
        return opened


def _shapes(spec: KernelSpec, config: Config, asked: Asked) -> CheckShapes:
    """What the user gave, or what fits the kernel; in the user's own M, N and K."""
    if spec.is_rung or not (asked.free or spec.signature.fixed):
        m, n, k = asked.shape.extents
        return CheckShapes((m, n, k), _distinct((m, n, k)) or (m, n, k))
    return check_shapes(spec, config)


def _sampled_note(
    spec: KernelSpec, config: Config, shapes: CheckShapes, blocks: tuple[int, ...] | None
) -> tuple[str, ...]:
    if blocks is None:
        return ()
    m, n, k = shapes.base
    total = spec.geometry(_problem(spec, shapes.base), config).blocks
    return (f"its size is fixed at {m}x{n}x{k}, so {len(blocks)} of its {total:,} blocks are simulated",)


def _deeper(shapes: CheckShapes, settled: Settled, config: Config, asked: Asked) -> CheckShapes:
    """For the launch that was found, and with the K that the kernel was found to need."""
    if settled.launch_found and asked.free:
        return check_shapes(settled.spec, config)
    if settled.shape is None or settled.shape[2] <= shapes.distinct[2] or not asked.free:
        return shapes
    return CheckShapes((*shapes.base[:2], settled.shape[2]), settled.shape)


def _larger(
    bench: _Bench, settled: Settled, config: Config, shapes: CheckShapes, compiled: CompiledKernel,
    options: KernelOptions,
) -> tuple[Settled, CheckShapes]:  # fmt: skip
    """Larger shapes for a kernel that accesses memory outside its matrices: its tile or its pipeline may be larger."""
    for times, deeper in ((1, 1), (2, 1), (4, 1), (2, 4)):
        tried = CheckShapes(*((m * times, n * times, k * deeper) for m, n, k in (shapes.base, shapes.distinct)))
        if times > 1 and settled.reading is None:
            settled = _settled(bench, settled.spec, config, tried, compiled, options, None)
        problem = _problem(settled.spec, tried.base, _bias(settled))
        verdict = verify_launch(bench.open(), settled.spec, config, problem, fill="integers", mode="exact", c="set",
                                compile_fn=lambda *_: compiled)  # fmt: skip
        if not any("out-of-bounds global" in reason for reason in verdict.reasons):
            return settled, tried
    return settled, shapes


def _square(base: Problem) -> Problem:
    return base.with_(m=2 * base.n, n=2 * base.n, k=3 * base.k)


def _square_ragged(base: Problem) -> Problem:
    return base.with_(m=base.n + 1, n=base.n + 1, k=base.k + 3)


def _problem(spec: KernelSpec, shape: Shape, bias: str = "") -> Problem:
    """The row-major product for the user's own M, N and K."""
    given: dict[str, Any] = {"bias": bias} if bias else {}
    return spec.problem(*shape, **given)


def _settled(
    bench: _Bench, spec: KernelSpec, config: Config, shapes: CheckShapes, compiled: CompiledKernel,
    options: KernelOptions, blocks: tuple[int, ...] | None,
) -> Settled:  # fmt: skip
    """What the kernel computes; a rung says so itself."""
    if spec.is_rung:
        return Settled(spec)
    layout = layout_named(options.layout) if options.layout else None
    probes = [shape for shape in shapes.probes if not spec.signature.fixed or shape == shapes.base]
    return settle(bench.open, spec, config, probes or [shapes.base], compiled, layout, blocks)


def _bias(settled: Settled) -> str:
    """Of the row-major product: which extent the bias belongs to."""
    spec = settled.spec
    if spec.is_rung or not spec.signature.has("bias"):
        return ""
    own = settled.reading.bias if settled.reading is not None else "column"
    swapped = {"row": "column", "column": "row"}
    return swapped[own] if spec.signature.column_major else own


def _again(
    kernel: str, shape: Shape, device: DeviceOptions, options: KernelOptions, checks: VerificationOptions
) -> str:
    """The command line of this check: no other command repeats races and schedules."""
    m, n, k = shape
    words = ["gemmsmith", "check", kernel, "--m", str(m), "--n", str(n), "--k", str(k)]
    words += ["--device", device.device] if device.device != "sim" else []
    return shlex.join([*words, *option_words(options, checks)])


def _reads_c(spec: KernelSpec, compiled: CompiledKernel) -> bool:
    """Whether a user's kernel without beta reads C all the same, as 0·C, and does not add to it."""
    if spec.is_rung or spec.signature.accumulates:
        return False
    read = read_parameters(compiled.ptx, compiled.entry)
    return any(arg.role == spec.signature.output and i in read for i, arg in enumerate(spec.signature.arguments))


def _trials(
    spec: KernelSpec, base: Problem, distinct: Problem, kind: str, filled: str, lenient: bool
) -> Iterator[Trial]:
    # Many tutorials compute alpha·sum + beta·C for every beta, which is correct as long as C holds numbers. So C is set
    # in the other trials, and one trial alone tests whether it is read.
    c = filled or ("set" if lenient else "unset")
    yield Trial("integers, bit for bit", base, "exact", "integers", "lockstep", c, hazards=spec.is_rung)
    yield Trial("random data", base, "float", "normal", "lockstep", c)
    for schedule in SCHEDULES[1:] if kind == "sim" else ():
        yield Trial(f"warps {schedule.replace('_', ' ')}", base, "float", "normal", schedule, c)
    if lenient:
        yield Trial(UNREAD, base, "float", "normal", "lockstep", hazards=spec.is_rung)
    for label, problem in (
        (SCALED, _scaled(spec, base)),
        (PADDED, _padded(base)),
        (DISTINCT, distinct if distinct != base else None),
        (BATCH, base.with_(batch=3) if spec.batched and not spec.is_rung else None),
        # Last, so that a kernel of aligned vectors, or without guards at the edges, has passed all else before.
        (ODD, _odd(base)),
        (RAGGED, _ragged(spec, base)),
    ):
        if problem is not None:
            yield Trial(label, problem, "float", "normal", "lockstep", c)


def _scaled(spec: KernelSpec, base: Problem) -> Problem:
    """alpha and beta that are not 0 or 1, and that the kernel's own scalar types hold; as it takes them."""
    signature = spec.signature
    codes = {arg.role: arg.code for arg in signature.arguments}
    if base.out_dtype == INT32 and base.dtype == INT8:
        return base.with_(beta=1.0)
    whole = base.out_dtype == INT32 or any(codes.get(role, "f") in "iIqQ" for role in ("alpha", "beta"))
    alpha, beta = (3.0, -2.0) if whole else (0.7, -1.5)
    if not whole and any(codes.get(role, "f") not in "fd" for role in ("alpha", "beta")):
        alpha = 0.6875  # exact in fp16 and bf16
    if spec.is_rung or (signature.has("alpha") and signature.has("beta")):
        return base.with_(alpha=alpha, beta=beta)
    if signature.has("beta"):
        return base.with_(beta=beta)
    return base.with_(alpha=alpha) if signature.has("alpha") else base.with_(alpha=alpha, beta=beta)


def _padded(base: Problem) -> Problem:
    """Leading dimensions beyond the rows, each by multiples of 16 bytes; ``_obstacle`` sees to kernels without."""
    step, out = 16 // base.dtype.itemsize, 16 // base.out_dtype.itemsize
    return base.with_(lda=base.a_shape[1] + step, ldb=base.b_shape[1] + 2 * step, ldc=base.n + 3 * out)


def _odd(base: Problem) -> Problem:
    return base.with_(lda=base.a_shape[1] + 3, ldb=base.b_shape[1] + 5, ldc=base.n + 7)


def _distinct(shape: Shape) -> Shape | None:
    """Whole tiles with M, N and K all different: a square hides swapped extents. None where they differ already."""
    m, n, k = shape
    if len({m, n, k}) == 3:
        return None
    # Half of K costs the least; half of a small K may not be a multiple of the tile any more.
    halves = [(m, 2 * n, k // 2)] if k % 128 == 0 else []
    shapes = [*halves, (m, 2 * n, 3 * k), (2 * m, n, 3 * k), (2 * m, 3 * n, k)]
    return next((shape for shape in shapes if len(set(shape)) == 3), None)


def _ragged(spec: KernelSpec, base: Problem) -> Problem:
    ragged = base.with_(m=base.m + 1, n=base.n - 1 or 1, k=base.k + 3)
    cube = base.with_(m=base.n + 1, n=base.n + 1, k=base.n + 1)
    return cube if refusal(spec.signature, ragged) else ragged


def _obstacle(spec: KernelSpec, config: Config, trial: Trial) -> str:
    """Why a trial beyond the shape that was asked for cannot be made; empty where it can."""
    if trial.label not in (SCALED, PADDED, ODD, DISTINCT, BATCH, RAGGED):
        return ""
    if why := refusal(spec.signature, trial.problem):
        return why
    try:
        spec.geometry(trial.problem, config)
    except GemmsmithError as error:
        return f"{trial.problem}: {error.message}"
    return ""
