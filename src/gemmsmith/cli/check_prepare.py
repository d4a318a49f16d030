"""Before the trials of gemmsmith check: compile the kernel, settle what it computes, choose its shapes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

from gemmsmith.call.binding import aligned_code
from gemmsmith.cli.check_clock import CheckClock
from gemmsmith.cli.check_products import with_places, with_products_of_the_grid, with_shared_operand
from gemmsmith.cli.check_rounds import with_rounds
from gemmsmith.cli.options.device import CacheOptions, DeviceOptions
from gemmsmith.cli.options.kernel import KernelOptions
from gemmsmith.cli.options.problem import ShapeOptions
from gemmsmith.cli.options.trial import TrialOptions
from gemmsmith.cli.options.verification import VerificationOptions
from gemmsmith.cli.untried_notes import first_product_note, read_on_note, sampled_note, tied_note
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.compile.cpu_seconds import seconds_used
from gemmsmith.errors import GemmsmithError, UnknownInstructionError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.layout import layout_named
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.run.device import Device
from gemmsmith.shapes import Shape
from gemmsmith.sim.device import Loads
from gemmsmith.sim.memory.access_faults import ASSERTION_FAILED
from gemmsmith.verify.code.written import read_parameters
from gemmsmith.verify.faults.joined_lines import with_own_lines
from gemmsmith.verify.harness import no_launch, verify_launch
from gemmsmith.verify.host.flagged_scalars import with_flagged_scalars
from gemmsmith.verify.host.launched_products import launched_shape
from gemmsmith.verify.meaning.product_evidence import refuse_modular
from gemmsmith.verify.meaning.product_places import ProductPlaces
from gemmsmith.verify.meaning.settle import SETTLE_S, settle
from gemmsmith.verify.meaning.settled import Settled
from gemmsmith.verify.oracles.arithmetic import as_compiled, notes
from gemmsmith.verify.trials.asserted_sizes import asserted_sizes
from gemmsmith.verify.trials.check_shapes import (
    CheckShapes,
    check_shapes,
    distinct_shape,
    refuse_idle_blocks,
    sample_of,
    sampled_blocks,
)

_OLDER_ARCH = "sm_80"
_TOO_SMALL = ("out-of-bounds global", ASSERTION_FAILED)  # reasons for which a larger shape is tried

BUDGET_S = 15.0  # on one core, from the start of the program to the verdict
CURES_S = 10.0  # for causes, where the user gives no seconds

_MEANINGS_S = 4.0  # for trying all meanings again on larger shapes
_LARGER = 4  # times the first shape, at most
_FEWEST_LAUNCHES = 4  # of trying them once


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
    trial: TrialOptions = field(default_factory=TrialOptions)
    cures: float = 0.0  # seconds in which changes of a copy are tried after a failure
    cures_given: bool = True  # whether the user gave them; else a check that took long leaves fewer
    budget: float = BUDGET_S  # of trials that fit the kernel; 0: none
    certified: bool = True  # whether a proof is tried after the trials
    fitted: bool = True  # whether trials that fit the kernel are run
    brief: bool = False  # whether of those that any kernel is given only the most telling are run
    ragged: frozenset[str] = frozenset()  # extents in which shapes that host code launches it for are ragged
    clock: CheckClock | None = None  # since the command began; None: since the check begins
    only_right: bool = False  # whether only a kernel that is right counts: what is wrong with another is not looked for


@dataclass(frozen=True)
class Bench:
    """Opens a device for each trial; simulators share the parsed kernel."""

    device: DeviceOptions
    timeout: float
    loads: Loads
    arch: str
    kind: str

    def open(self, schedule: str = "lockstep", hazards: bool = False) -> Device:
        opened = self.device.open(schedule, hazards=hazards, timeout=self.timeout, arch=self.arch)
        if hasattr(opened, "loads"):
            opened.loads = self.loads
        return opened


@dataclass(frozen=True)
class Prepared:
    """A kernel that is ready for its trials.

    shapes  in the user's own M, N and K; ``base`` is the product of the first
    blocks  the only ones that are simulated; None: all
    places  where the matrices of several products lie, if that was looked at and they do not follow one another
    """

    settled: Settled
    compiled: CompiledKernel
    bench: Bench
    shapes: CheckShapes
    base: Problem
    blocks: tuple[int, ...] | None
    places: ProductPlaces | None = None

    @property
    def spec(self) -> KernelSpec:
        return self.settled.spec

    def tile_is_known(self, config: Config) -> bool:
        """Whether the grid tells the tile: no larger shapes were needed, so that a few tiles are enough."""
        return self.shapes.base[:2] == check_shapes(self.spec, config).base[:2]

    @property
    def distinct(self) -> Problem:
        """Whole tiles with M, N and K all different."""
        return _problem(self.spec, self.shapes.distinct, self.base.bias)

    @property
    def reads_c(self) -> bool:
        """Whether a user's kernel without beta reads C all the same, as 0·C, and does not add to it."""
        signature = self.spec.signature
        if self.spec.is_rung or signature.accumulates:
            return False
        read = read_parameters(self.compiled.ptx, self.compiled.entry)
        return any(
            arg.role == signature.output and signature.place(i) in read for i, arg in enumerate(signature.arguments)
        )


def prepare(spec: KernelSpec, config: Config, asked: Asked) -> Prepared:
    """Compile ``spec`` and find out what it computes; raises for what cannot be checked."""
    device = asked.device
    refuse_modular(spec)
    shapes = _shapes(spec, config, asked)
    blocks = sampled_blocks(spec, config, shapes.base) if not device.wants_gpu else None
    if blocks is None and asked.free and not device.wants_gpu and not spec.is_rung:
        refuse_idle_blocks(spec, config, shapes.base)
    device.check_runs(spec, _problem(spec, shapes.base))
    base = _problem(spec, shapes.base)
    first, compiled, older = _compiled(spec, config, base, asked)
    bench = Bench(device, asked.timeout, getattr(first, "loads", {}), first.arch, first.kind)
    spec = as_compiled(spec, compiled.ptx)
    spec, flagged = with_flagged_scalars(
        spec, compiled, lambda other: asked.cache.compiler(other, *aligned_code(other, config, base), first.arch)
    )
    asserted = _asserted(bench, spec, config, shapes, compiled) if asked.free else None
    if asserted is not None:
        shapes, blocks = asserted, sample_of(spec.geometry(_problem(spec, asserted.base), config).blocks)
    settled = _settled(bench, spec, config, shapes, compiled, asked.options, blocks, only_right=asked.only_right)
    if asked.checks.c:  # the user says what C holds
        settled = settled.without_accumulation()
    sampled = sampled_note(spec, config, shapes, blocks, asserted is not None)
    untried = (*sampled, *tied_note(spec), *first_product_note(spec), *read_on_note(spec))
    settled = replace(settled, lines=(*flagged, *settled.lines, *older, *notes(spec), *untried))
    base = _problem(settled.spec, shapes.base, _bias(settled))
    settled = with_shared_operand(bench.open, with_products_of_the_grid(settled), config, base, compiled)
    settled, places = with_places(bench.open, settled, config, (shapes.base, shapes.distinct), compiled)
    roles_found = settled.reading is not None and (bool(spec.signature.unknown) or bool(settled.cubes))
    shapes = _deeper(shapes, settled, config, asked, roles_found)
    if asked.free and blocks is None and not spec.is_rung and not (settled.spec.signature.fixed or settled.fitting):
        settled, shapes = _larger(bench, settled, config, shapes, compiled, asked.options)
    base = _problem(settled.spec, shapes.base, _bias(settled))
    if asked.free and blocks is None and bench.kind == "sim" and not spec.is_rung:
        shapes, base = with_rounds(settled.spec, config, compiled, shapes, base)
    return Prepared(settled, compiled, bench, shapes, base, blocks, places)


def _compiled(
    spec: KernelSpec, config: Config, problem: Problem, asked: Asked
) -> tuple[Device, CompiledKernel, tuple[str, ...]]:
    """A device that the kernel is loaded on, its code, and what to say about that.

    An instruction that the device lacks is no verdict on the kernel. What CUDA's libraries compile to bulk copies on
    sm_90 is compiled to other instructions on sm_80, which the simulator knows.
    """
    device, cache = asked.device.open(), asked.cache
    code = aligned_code(spec, config, problem)
    compiled = with_own_lines(spec, cache.compiler(spec, *code, device.arch))
    try:
        device.load(compiled)
    except UnknownInstructionError as error:
        if device.kind != "sim" or spec.is_rung:
            raise
        older = asked.device.open(arch=_OLDER_ARCH)
        try:
            compiled = with_own_lines(spec, cache.compiler(spec, *code, older.arch))
            older.load(compiled)
        except GemmsmithError:
            raise error from None
        return older, compiled, (f"it is compiled for {older.arch}, since {error.message.split(' (')[0]}",)
    return device, compiled, ()


def _shapes(spec: KernelSpec, config: Config, asked: Asked) -> CheckShapes:
    """What the user gave, or what fits the kernel; in the user's own M, N and K."""
    if spec.is_rung or not (asked.free or spec.signature.fixed):
        m, n, k = asked.shape.extents
        return CheckShapes((m, n, k), distinct_shape((m, n, k)) or (m, n, k))
    found = check_shapes(spec, config)
    return CheckShapes(launched_shape(spec, found.base), launched_shape(spec, found.distinct))


def _asserted(
    bench: Bench, spec: KernelSpec, config: Config, shapes: CheckShapes, compiled: CompiledKernel
) -> CheckShapes | None:
    """The sizes that the kernel's asserts ask for, of a launch with one grid for all sizes; None: those it has."""
    if bench.kind != "sim" or spec.signature.fixed or not getattr(spec.geometry, "one_grid", ""):
        return None
    if spec.signature.unknown or "__assertfail" not in compiled.ptx:  # which extent is which is not known; no assert
        return None
    found = asserted_sizes(bench.open, spec, config, shapes.base, lambda *_: compiled)
    if found is None:
        return None
    m, n, k = found
    distinct = m, 2 * n if 2 * n != m else 3 * n, 2 * k
    return CheckShapes(distinct, distinct)


def _deeper(
    shapes: CheckShapes, settled: Settled, config: Config, asked: Asked, roles_found: bool = False
) -> CheckShapes:
    """For the launch or the roles that were found, and with the K that the kernel was found to need."""
    if (settled.launch_found or roles_found) and asked.free:
        return check_shapes(settled.spec, config)
    if settled.shape is None or settled.shape[2] <= shapes.distinct[2] or not asked.free:
        return shapes
    return CheckShapes((*shapes.base[:2], settled.shape[2]), settled.shape)


def _larger(
    bench: Bench, settled: Settled, config: Config, shapes: CheckShapes, compiled: CompiledKernel,
    options: KernelOptions,
) -> tuple[Settled, CheckShapes]:  # fmt: skip
    """Larger shapes for a kernel that accesses memory outside its matrices, asserts a multiple or is not launched: its
    tile or its pipeline may be larger."""
    equal = settled.spec.signature.square  # one extent for all three
    pace, end = 0.0, seconds_used() + _MEANINGS_S
    steps = ((1, 1), (2, 2), (_LARGER, _LARGER)) if equal else ((1, 1), (2, 1), (_LARGER, 1), (2, 4))
    for times, deeper in steps:
        tried = CheckShapes(*((m * times, n * times, k * deeper) for m, n, k in (shapes.base, shapes.distinct)))
        unread = times > 1 and settled.reading is None
        # Where launches take long, meanings are tried only on a shape that is large enough.
        short = seconds_used() + _FEWEST_LAUNCHES * pace * math.prod(tried.distinct) > end
        if unread and not short:
            settled = _settled(bench, settled.spec, config, tried, compiled, options, None, end - seconds_used())
        problem, before = _problem(settled.spec, tried.base, _bias(settled)), seconds_used()
        if (times, deeper) != steps[-1] and no_launch(settled.spec, config, problem):
            continue  # a grid that is rounded down has no block yet
        verdict = verify_launch(bench.open(), settled.spec, config, problem, fill="integers", mode="exact", c="set",
                                compile_fn=lambda *_: compiled)  # fmt: skip
        pace = (seconds_used() - before) / math.prod(tried.base)
        if not any(words in reason for reason in verdict.reasons for words in _TOO_SMALL):
            if unread and short and not verdict.trusted:
                settled = _settled(bench, settled.spec, config, tried, compiled, options, None)
            return settled, tried
    launched = not no_launch(settled.spec, config, _problem(settled.spec, shapes.base, _bias(settled)))
    return settled, shapes if launched else tried


def _problem(spec: KernelSpec, shape: Shape, bias: str = "") -> Problem:
    """The row-major product for the user's own M, N and K."""
    given: dict[str, Any] = {"bias": bias} if bias else {}
    return spec.problem(*shape, **given)


def _settled(
    bench: Bench, spec: KernelSpec, config: Config, shapes: CheckShapes, compiled: CompiledKernel,
    options: KernelOptions, blocks: tuple[int, ...] | None, seconds: float = SETTLE_S, only_right: bool = False,
) -> Settled:  # fmt: skip
    """What the kernel computes; a rung says so itself. ``seconds``: for trying meanings; ``only_right``: only
    one that gives a product counts."""
    if spec.is_rung:
        return Settled(spec)
    layout = layout_named(options.layout) if options.layout else None
    probes = [shape for shape in shapes.probes if blocks is None or shape == shapes.base]
    return settle(bench.open, spec, config, probes or [shapes.base], compiled, layout, blocks, seconds, only_right)


def _bias(settled: Settled) -> str:
    """Of the row-major product: which extent the bias belongs to."""
    spec = settled.spec
    if spec.is_rung or not spec.signature.has("bias"):
        return ""
    own = settled.reading.bias if settled.reading is not None else "column"
    swapped = {"row": "column", "column": "row"}
    return swapped[own] if spec.signature.column_major else own
