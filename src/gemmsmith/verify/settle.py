"""Settle what a user's kernel computes before it is judged: roles, layout, C += A·B.

The names and the use of its parameters give a first reading; a launch (readings.py) confirms it or finds another. What
the kernel's own name or its host code contradicts is not accepted.
"""

from __future__ import annotations

import math
import re
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gemmsmith.call.binding import CompileFn
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.errors import GemmsmithError, OneGridError, SignatureError, UsageError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.extents_by_use import extents_by_use
from gemmsmith.kernel.layout import ROW_MAJOR, Layout, layout_in_name
from gemmsmith.kernel.passed_roles import as_passed
from gemmsmith.kernel.signature import Signature, undetermined
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.run.device import Device
from gemmsmith.shapes import Shape
from gemmsmith.sim.access_faults import ASSERTION_FAILED
from gemmsmith.verify.candidate_roles import candidate_roles
from gemmsmith.verify.check_shapes import check_shapes
from gemmsmith.verify.contradiction import contradiction
from gemmsmith.verify.epilogue import SMOOTH
from gemmsmith.verify.fitting_shapes import fitting, own_shape, restricted_extents
from gemmsmith.verify.footprints import roles_by_footprint, tells_all
from gemmsmith.verify.harness import verify_launch
from gemmsmith.verify.launch_evidence import fits
from gemmsmith.verify.launch_probe import LaunchProbe
from gemmsmith.verify.launch_search import blocks_tried, search_launches
from gemmsmith.verify.linearity import FEW_TERMS, not_a_sum_of_products
from gemmsmith.verify.near_products import OTHER_FUNCTION, refuse_near_product
from gemmsmith.verify.readings import Reading, find_readings
from gemmsmith.verify.said_functions import said_function, says_relu
from gemmsmith.verify.settled_text import told

SETTLE_S = 6.0  # for trying meanings
_GROWS = 2  # times as many multiply-adds a second in a larger launch as in a smaller one
_NEVER_ENDS = "never completes"
_SAY_LAUNCH = "say how it is launched: --grid 'ceil(N/64),ceil(M/64)' --block 256 (and --smem, where it needs any)"
_SMOOTH_CODE = re.compile(r"\b(?:ex2|tanh)\.approx")  # in exp, tanh and erf
_JUDGED = ("A·B", "relu", *SMOOTH)


@dataclass(frozen=True)
class Settled:
    """A kernel with its reading. ``lines`` say what was found that the file does not say; ``words`` are the options
    that say it to other commands; ``rejected`` is what was found and contradicted; ``only`` is the one case in which a
    product was found ("N = K, as a row-major kernel"), where no shape with different extents gives one; ``padded`` says
    how much memory after A and B the kernel reads, which its host code allocates. Of a kernel that gives no product,
    ``doubt`` says why its launch may be to blame, and ``fitting`` that a guessed one is not."""

    spec: KernelSpec
    reading: Reading | None = None
    shape: Shape | None = None
    lines: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    rejected: str = ""
    launch_found: bool = False
    only: str = ""
    padded: str = ""
    doubt: str = ""
    fitting: bool = False

    def refuse_doubtful_launch(self) -> None:
        """Raise where a wrong result is no verdict on the kernel, since its launch may be to blame."""
        if self.doubt:
            raise UsageError(f"{self.spec.signature.entry}: {self.doubt}", _SAY_LAUNCH)

    def without_accumulation(self) -> Settled:
        """The same, where C += A·B is A·B because C holds zeros."""
        if not self.spec.signature.accumulates:
            return self
        plain = replace(self.spec.signature, accumulates=False)
        lines = tuple(line for line in self.lines if not line.startswith("it adds to"))
        return replace(self, spec=replace(self.spec, known_signature=plain), lines=lines)


def settle(
    open_device: Callable[[], Device],
    spec: KernelSpec,
    config: Config,
    shapes: list[Shape],
    compiled: CompiledKernel,
    layout: Layout | None,
    blocks: Sequence[int] | None = None,
    seconds: float = SETTLE_S,
) -> Settled:
    """Read the kernel by running it on ``shapes`` (the user's own M, N, K), one after another until one tells.

    layout  the only one that is accepted; None: any
    blocks  the only ones that are run; None: all
    seconds of a slow kernel, in which more than the likeliest meaning is tried

    Raises where roles stay open.
    """

    def compile_fn(*_: object) -> CompiledKernel:
        return compiled

    own = spec.signature.transposed() if spec.signature.column_major else spec.signature
    first, *others = candidate_roles(spec, own, compiled)
    start = time.process_time()
    end = start + seconds

    endless = launched_work = 0

    def failed(error: GemmsmithError) -> None:
        nonlocal end, endless
        endless += _NEVER_ENDS in error.message
        if endless > 1:  # threads that wait for ever under two meanings do so under every one
            end = 0.0

    def settled_as(meant: Signature, told_by: str) -> Settled:
        """The kernel with the meaning that something else than its result tells."""
        read = spec.read_as(meant, spec.layouts[0])
        settled = settle(open_device, read, config, [own_shape(read, meant, config) or shapes[0]], compiled, layout)
        return replace(settled, lines=(f"by {told_by}, {_said(first, meant)}", *settled.lines))

    rejected = activation = ""
    smooth = blocks is None and _SMOOTH_CODE.search(compiled.ptx) is not None
    by_grid: Settled | None = None  # a kernel whose grid alone tells one of M, N and K, if host code has that grid
    unscaled: Settled | None = None  # a kernel that ignores alpha or beta, read so if nothing else fits
    # Where its host code's loop is wrong, one launch for the whole product may show what the kernel computes.
    looped = bool(getattr(spec.geometry, "loop", ""))
    once = [replace(spec, geometry=spec.geometry.alone())] if looped else []  # type: ignore[attr-defined]
    launches = [spec, *once, *(replace(spec, geometry=other) for other in _other_launches(spec))]
    for shape in shapes:
        # A second shape has more k-tiles; other meanings are not tried again on it.
        for candidate in [first, *others] if shape == shapes[0] or first.unknown else [first]:
            late = candidate is not first and not first.unknown and time.process_time() > end
            if candidate.unknown or late:
                continue
            for launched in launches:
                how = (launched, config, candidate, fitting(candidate, shape), compile_fn, blocks, failed)
                launched_work += math.prod(fitting(candidate, shape))
                found = find_readings(open_device(), *how)
                if smooth and all(reading.signature.activation == "relu" for reading in found):
                    found = find_readings(open_device(), *how, smooth=True)  # integers are too far from 0
                for reading in found:
                    if layout is not None and reading.layout != layout:
                        continue
                    if layout is None and (why := contradiction(reading, spec)):
                        rejected = rejected or why
                        activation = activation or reading.signature.activation
                        continue
                    settled = _settled(spec if launched in once else launched, own, reading, shape)
                    if reading.scaled and (tells_all(candidate) or not _square_grid(launched, candidate)):
                        return settled
                    by_grid = by_grid or (settled if reading.scaled else None)
                    unscaled = unscaled or settled
        if by_grid is not None:
            return by_grid
    if unscaled is not None:
        return unscaled
    if smooth and not first.unknown and not rejected:
        scalars = first.has("alpha") or first.has("beta")  # which may belong to the function: x · sigmoid(beta · x)
        activation = "" if scalars else said_function(own.entry)
        if not activation or find_readings(
            open_device(), spec, config, first, fitting(first, shapes[0]), compile_fn, smooth=True, roughly=True
        ):
            what = f"what it gives is none of {', '.join(_JUDGED)}"
            raise SignatureError(f"{own.entry} computes exp or tanh, so it may apply a function to its product that is "
                                 f"not judged: {what}", OTHER_FUNCTION)  # fmt: skip
    if not first.unknown and not rejected and blocks is None:
        version = _version_found(open_device, spec, config, first, own, compile_fn, layout)
        if version is not None:
            return version
    if first.unknown and blocks is None:
        for candidate in others:  # with its roles the launch may have a larger tile
            own_size = own_shape(spec, candidate, config)
            if candidate.unknown or own_size is None or own_size in shapes or time.process_time() > end:
                continue
            for reading in find_readings(open_device(), spec, config, candidate, own_size, compile_fn):
                if (layout is None and not contradiction(reading, spec)) or reading.layout == layout:
                    return _settled(spec, own, reading, own_size)
    if first.unknown and blocks is None and not rejected:
        found_roles = _roles_of_wrong_product(
            LaunchProbe(open_device, spec, config, compile_fn), first, others, shapes[0], _body(spec)
        )
        if found_roles is not None:
            return settled_as(*found_roles)
    doubt, launch_fits = "", False
    if not first.unknown and getattr(spec.geometry, "guessed", False) and not rejected:
        searched = _launch_found(open_device, spec, config, first, own, compiled, compile_fn, layout)
        if searched is not None:
            return searched
        if place := getattr(spec.geometry, "misread", ""):
            doubt = f"its launch at {place} is not understood, and no guess gives a product"
        else:
            tried = blocks_tried(spec, config, compiled.ptx)
            doubt = f"no launch of it is in its repository, and none that was tried ({tried}) gives a product"
        if getattr(spec.geometry, "blind", False):
            raise UsageError(f"{own.entry}: {doubt}", _SAY_LAUNCH)
        launch_fits = getattr(spec.geometry, "one_element_a_thread", False)
        if not launch_fits and not getattr(spec.geometry, "parts_unknown", False):
            launch_fits = any(fits(open_device(), each.read_as(first, "NN"), config, compile_fn) for each in launches)
        doubt = "" if launch_fits else doubt
    if not first.unknown and not rejected and (namesake := getattr(spec.geometry, "namesake", "")):
        alone = replace(spec, geometry=spec.geometry.without_site())  # type: ignore[attr-defined]
        searched = _launch_found(open_device, alone, config, first, own, compiled, compile_fn, layout)
        if searched is not None:
            return searched
        tried = blocks_tried(alone, config, compiled.ptx)
        doubt = f"{namesake}, and neither that launch nor another that was tried ({tried}) gives a product"
    if not first.unknown and not first.fixed and not rejected and (place := getattr(spec.geometry, "one_grid", "")):
        why = _assertion(open_device(), spec, config, shapes[0], compile_fn)
        raise OneGridError(
            f"{own.entry}: its launch ({place}) has the same grid for every M, N and K, and gives no product{why}",
            "give the sizes that it is made for with --m, --n and --k, or a grid with --grid",
        )
    if first.unknown and blocks is None and not rejected and (passed := as_passed(first)) is not None:
        return settled_as(passed, "its launch")
    if first.unknown:
        refused = undetermined(first)
        launch = f"; and {_SAY_LAUNCH}" if getattr(spec.geometry, "guessed", False) else ""
        raise SignatureError(f"{refused.message}, and no meaning that was tried gives a product",
                             f"{refused.hint}{launch}{_table_hint(first)}")  # fmt: skip
    if spare := _spare(spec, first, shapes[0]):
        padded = replace(spec, geometry=spec.geometry.padded_as_allocated())  # type: ignore[attr-defined]
        found = find_readings(open_device(), padded, config, first, shapes[0], compile_fn, blocks)
        for reading in found:
            if reading.scaled and (reading.layout == layout or (layout is None and not contradiction(reading, spec))):
                settled = _settled(padded, own, reading, shapes[0])
                line = f"it reads past the end of its matrices: its host code allocates {spare}, checked as zeros"
                return replace(settled, padded=spare, lines=(*settled.lines, line))
    only, assumed = "", layout_in_name(own.entry) if layout is None else None
    pace = (time.process_time() - start) / max(1, launched_work) / _GROWS
    if not rejected and blocks is None and not first.fixed and not first.square:
        for equal, shape, *besides in restricted_extents(shapes[0]):
            if time.process_time() + pace * math.prod(shape) > end:
                continue  # the next may be smaller
            found = find_readings(open_device(), spec, config, first, shape, compile_fn)
            accepted = [r for r in found if (layout is None and not contradiction(r, spec)) or r.layout == layout]
            for beside in besides if accepted else ():
                again = find_readings(open_device(), spec, config, first, beside, compile_fn)
                accepted = [r for r in accepted if any(r.layout == each.layout for each in again)]
            plain = [r for r in accepted if r.layout.stored[::2] == (False, False)]  # else C may just be transposed
            if plain and equal == "M = N":  # the trials find this themselves
                return _settled(spec, own, plain[0], shape)
            if accepted:
                only, assumed = f"{equal}, as a {accepted[0].layout}", accepted[0].layout
                break
    if not rejected and not only and blocks is None and not spec.declared_signature:
        refuse_near_product(open_device, spec, config, first, fitting(first, shapes[0]), compile_fn)
    meant = replace(first, activation="relu" if says_relu(first.entry) else activation or first.activation)
    if assumed is not None and assumed != ROW_MAJOR and not spec.declared_signature:
        read = Reading(meant, assumed).applied(spec)  # as its name says, or as it is right for some extents
    else:
        read = spec if meant == own else spec.read_as(meant, spec.layouts[0])
    return Settled(read, rejected=rejected, only=only, doubt=doubt, fitting=launch_fits)


def _roles_of_wrong_product(
    probe: LaunchProbe, first: Signature, others: Sequence[Signature], shape: Shape, body: str
) -> tuple[Signature, str] | None:
    """What the parameters of a kernel mean that gives no product under any meaning, and what tells it; None where
    nothing does, or it computes something else."""
    tried = [(each, fitting(each, shape)) for each in others if not each.unknown]
    touched, indexed = roles_by_footprint(probe, tried), extents_by_use(first, body)
    if touched is not None and not_a_sum_of_products(probe, touched, fitting(touched, shape)) == "":
        return touched, "what it reads and writes"
    if indexed is not None and not_a_sum_of_products(probe, indexed, fitting(indexed, shape)) in (None, "", FEW_TERMS):
        return indexed, "its indices"
    return None


def _said(first: Signature, meant: Signature) -> str:
    """What the parameters that ``first`` leaves open are: "T is MN, D is K"."""
    opened = {arg.name for arg in first.unknown}
    return ", ".join(f"{arg.name} is {meant.tied if arg.role == meant.tied[:1] else arg.role}"
                     for arg in meant.arguments if arg.name in opened)  # fmt: skip


def _square_grid(spec: KernelSpec, meant: Signature) -> bool:
    """Whether host code's grid is one for a square C, so that its size may be both M and N."""
    launch = spec.read_as(meant, "NN").geometry
    return getattr(launch, "only_equal", None) is not None or bool(getattr(launch, "misread", ""))


def _body(spec: KernelSpec) -> str:
    """The text of the kernel itself; empty where it is not known."""
    kernel = getattr(getattr(spec.geometry, "facts", None), "kernel", None)
    return str(getattr(kernel, "body", ""))


def _table_hint(signature: Signature) -> str:
    """How to run a kernel that reads a table which its host code computes."""
    tables = [arg.name for arg in signature.unknown if arg.code == "P"]
    if not tables:
        return ""
    own = ", ".join(f"{name}={name}.npy" for name in tables)
    return (f"\nif host code fills {' and '.join(tables)} with values of its own, save them and run one launch: "
            f"--grid … --block … --args '…, {own}' --expect FILE.py:FUNCTION")  # fmt: skip


def _assertion(device: Device, spec: KernelSpec, config: Config, shape: Shape, compile_fn: CompileFn) -> str:
    """The assert that fails at a shape, as the end of a sentence; empty if none does."""
    m, n, k = shape
    verdict = verify_launch(device, spec, config, spec.problem(m, n, k), fill="integers", mode="exact", c="set",
                            compile_fn=compile_fn)  # fmt: skip
    failed = next((reason for reason in verdict.reasons if ASSERTION_FAILED in reason), "")
    text = failed.partition(ASSERTION_FAILED)[2].partition("\n")[0].split(": thread")[0].lstrip(": ")
    return f" for {m}x{n}x{k}, where `{text}` fails" if failed else ""


def _spare(spec: KernelSpec, first: Signature, shape: Shape) -> str:
    """What host code allocates beyond A and B, as text; empty if nothing."""
    if not hasattr(spec.geometry, "spare"):
        return ""
    more = spec.geometry.spare(spec.problem(*shape))
    return " and ".join(f"{count:,} bytes more for {first.named(role)}" for role, count in more.items())


def _version_found(
    open_device: Callable[[], Device], spec: KernelSpec, config: Config, first: Signature, own: Signature,
    compile_fn: CompileFn, layout: Layout | None,
) -> Settled | None:  # fmt: skip
    """The kernel under a launch that host code has for another version of it, if it then gives a product."""
    versions = getattr(spec.geometry, "versions", None)
    for launch in versions() if versions is not None else ():
        tried = replace(spec, geometry=launch)
        shape = own_shape(tried, first, config)
        if shape is None:
            continue
        for reading in find_readings(open_device(), tried, config, first, shape, compile_fn):
            if (layout is None or reading.layout == layout) and not contradiction(reading, spec):
                return _settled(tried, own, reading, shape)
    return None


def _launch_found(
    open_device: Callable[[], Device], spec: KernelSpec, config: Config, first: Signature, own: Signature,
    compiled: CompiledKernel, compile_fn: CompileFn, layout: Layout | None,
) -> Settled | None:  # fmt: skip
    """The kernel under a launch that single blocks suggest, if it then gives a product."""
    for launch in search_launches(open_device(), spec.read_as(first, "NN"), config, compiled.ptx, compile_fn):
        tried = replace(spec, geometry=launch)
        shape = check_shapes(tried.read_as(first, "NN"), config).distinct
        for reading in find_readings(open_device(), tried, config, first, fitting(first, shape), compile_fn):
            if (layout is None or reading.layout == layout) and not contradiction(reading, spec):
                settled = _settled(tried, own, reading, shape)
                words = (*settled.words, *shlex.split(str(launch)))
                return replace(settled, words=words, launch_found=True,
                               lines=(*settled.lines, f"its launch was found by trying: {launch}"))  # fmt: skip
    return None


def _other_launches(spec: KernelSpec) -> list[Any]:
    """Launches that are as likely as the guessed one; none where the file or the user says it."""
    alternatives = getattr(spec.geometry, "alternatives", None)
    return alternatives() if alternatives is not None else []


def _settled(spec: KernelSpec, own: Signature, reading: Reading, shape: Shape) -> Settled:
    found = reading.applied(spec)
    return Settled(found, reading, shape, *told(spec, found, own, reading, shape))
