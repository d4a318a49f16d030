"""Settle what a user's kernel computes before it is judged: roles, layout, C += A·B.

The names and the use of its parameters give a first reading; a launch (readings.py) confirms it or finds another. What
the kernel's own name or its host code contradicts is not accepted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.errors import GemmsmithError, SignatureError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.extents_by_use import extents_by_use, named_otherwise
from gemmsmith.kernel.layout import ROW_MAJOR, Layout, layout_in_name
from gemmsmith.kernel.passed_roles import as_passed
from gemmsmith.kernel.roles import EXTENTS
from gemmsmith.kernel.signature import Signature, undetermined
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.run.device import Device
from gemmsmith.shapes import Shape
from gemmsmith.verify.code.kernel_body import kernel_body
from gemmsmith.verify.meaning.elementwise import refuse_elementwise
from gemmsmith.verify.meaning.footprints import roles_by_footprint, tells_all
from gemmsmith.verify.meaning.found_launches import (
    by_other_version,
    by_search,
    by_search_without_namesake,
    in_padded_memory,
    likely_launches,
    refuse_one_grid,
    with_searched_launch,
)
from gemmsmith.verify.meaning.launch_probe import LaunchProbe
from gemmsmith.verify.meaning.linearity import FEW_TERMS, not_a_sum_of_products
from gemmsmith.verify.meaning.meaning_search import MeaningSearch, fitting
from gemmsmith.verify.meaning.near_products import OTHER_FUNCTION, refuse_near_product
from gemmsmith.verify.meaning.readings import Reading, find_readings
from gemmsmith.verify.meaning.restricted_extents import Restricted, with_restricted_extents
from gemmsmith.verify.meaning.said_functions import said_function, says_relu
from gemmsmith.verify.meaning.settled import SAY_LAUNCH, Settled
from gemmsmith.verify.oracles.epilogue import SMOOTH

SETTLE_S = 6.0  # for trying meanings
_JUDGED = ("A·B", "relu", *SMOOTH)


def settle(
    open_device: Callable[[], Device],
    spec: KernelSpec,
    config: Config,
    shapes: list[Shape],
    compiled: CompiledKernel,
    layout: Layout | None,
    blocks: Sequence[int] | None = None,
    seconds: float = SETTLE_S,
    only_right: bool = False,
) -> Settled:
    """Read the kernel by running it on ``shapes`` (the user's own M, N, K), one after another until one tells.

    layout  the only one that is accepted; None: any
    blocks  the only ones that are run; None: all
    seconds of a slow kernel, in which more than the likeliest meaning is tried
    only_right  whether one that gives no product is left to its trials, whatever else it computes

    Raises where roles stay open.
    """
    search = MeaningSearch(open_device, spec, config, shapes, compiled, layout, blocks, seconds)
    return with_searched_launch(search, _settled(search, only_right))


def _settled(search: MeaningSearch, only_right: bool) -> Settled:
    attempts = (_by_launches, refuse_elementwise, _refuse_other_function, by_other_version, _by_own_shape,
                _by_what_it_touches, by_search, by_search_without_namesake)  # fmt: skip
    for attempt in attempts:  # each gives the kernel or nothing, or raises
        if (found := attempt(search)) is not None:
            return found
    refuse_one_grid(search)
    if (found := _by_values_passed(search) or _by_no_name(search)) is not None:
        return found
    _refuse_unknown(search)
    if (found := in_padded_memory(search)) is not None:
        return found
    restricted = with_restricted_extents(search)
    if isinstance(restricted, Settled):
        return restricted
    if restricted is None and not only_right:
        refuse_near_product(search)
    return _unsettled(search, restricted)


def _by_launches(search: MeaningSearch) -> Settled | None:
    """The first meaning under which a launch gives a product."""
    spec, first = search.spec, search.first
    by_grid: Settled | None = None  # a kernel whose grid alone tells one of M, N and K, if host code has that grid
    unscaled: Settled | None = None  # a kernel that ignores alpha or beta, read so if nothing else fits
    launches = likely_launches(spec)
    for shape in search.shapes:
        # A second shape has more k-tiles; other meanings are not tried again on it.
        again = shape != search.shapes[0] and not first.unknown
        for candidate in [first] if again else [first, *search.others]:
            late = candidate is not first and not first.unknown and search.late()
            if candidate.unknown or late:
                continue
            for launched, judged in launches:
                for reading in search.tried(launched, candidate, fitting(candidate, shape)):
                    if search.contradicted(reading) or not search.accepts(reading):
                        continue
                    settled = search.settled(reading, shape, judged)
                    if reading.scaled and (tells_all(candidate) or not _square_grid(launched, candidate)):
                        return settled
                    by_grid = by_grid or (settled if reading.scaled else None)
                    unscaled = unscaled or settled
        if by_grid is not None:
            return by_grid
    return unscaled


def _refuse_other_function(search: MeaningSearch) -> None:
    """Raise for a kernel that may apply a function to its product that is not judged."""
    if not search.smooth or not search.open:
        return
    first, own = search.first, search.own
    scalars = first.has("alpha") or first.has("beta")  # which may belong to the function: x · sigmoid(beta · x)
    search.activation = "" if scalars else said_function(own.entry)
    shape = fitting(first, search.shapes[0])
    if not search.activation or find_readings(
        search.open_device(), search.spec, search.config, first, shape, search.compile_fn, smooth=True, roughly=True
    ):
        what = f"its result matches none of {', '.join(_JUDGED)}"
        raise SignatureError(f"{own.entry} computes exp or tanh, so it may apply a function to its product that "
                             f"check does not know: {what}", OTHER_FUNCTION)  # fmt: skip


def _by_own_shape(search: MeaningSearch) -> Settled | None:
    """A kernel whose parameters are not known: under each meaning the launch may have a larger tile."""
    if not search.first.unknown or not search.whole:
        return None
    for candidate in search.others:
        shape = search.own_shape(search.spec, candidate)
        if candidate.unknown or shape is None or shape in search.shapes or search.late():
            continue
        for reading in search.accepted(search.spec, candidate, shape):
            return search.settled(reading, shape)
    return None


def _by_what_it_touches(search: MeaningSearch) -> Settled | None:
    """A kernel that gives no product under any meaning, with the one that its reads and writes or its indices tell."""
    if not search.first.unknown or not search.whole or search.rejected:
        return None
    found = _roles_of_wrong_product(
        search.probe(), search.first, search.others, search.shapes[0], kernel_body(search.spec)
    )
    return None if found is None else _settled_as(search, *found)


def _by_values_passed(search: MeaningSearch) -> Settled | None:
    """A kernel that gives no product, with the meaning that the values have which its launch passes."""
    if not search.first.unknown or not search.whole or search.rejected:
        return None
    passed = as_passed(search.first)
    return None if passed is None else _settled_as(search, passed, "its launch")


def _by_no_name(search: MeaningSearch) -> Settled | None:
    """A kernel in which one size is named as if it were another, beside names that say nothing: ``cWidth`` may be the
    width of C, or what A and B have in common. Only a product tells."""
    first = search.first
    arguments = tuple(replace(arg, role="") if arg.role in EXTENTS else arg for arg in first.arguments)
    if not first.unknown or not search.whole or search.rejected or arguments == first.arguments:
        return None
    read = search.spec.read_as(replace(first, arguments=arguments), search.spec.layouts[0])
    try:
        found = settle(search.open_device, read, search.config, search.shapes, search.compiled, search.layout)
    except GemmsmithError:
        return None
    return None if found.reading is None else found


def _settled_as(search: MeaningSearch, meant: Signature, told_by: str) -> Settled:
    """The kernel with the meaning that something else than its result tells."""
    read = search.spec.read_as(meant, search.spec.layouts[0])
    shapes = [search.own_shape(read, meant) or search.shapes[0]]
    settled = settle(search.open_device, read, search.config, shapes, search.compiled, search.layout)
    return replace(settled, lines=(f"by {told_by}, {_said(search.first, meant)}", *settled.lines))


def _refuse_unknown(search: MeaningSearch) -> None:
    """Raise where no meaning was found for a parameter."""
    if search.first.unknown:
        refused = undetermined(search.first)
        launch = f"; and {SAY_LAUNCH}" if getattr(search.spec.geometry, "guessed", False) else ""
        raise SignatureError(f"{refused.message}, and no reading of its parameters that was tried computes A·B",
                             f"{refused.hint}{launch}{_table_hint(search.first)}")  # fmt: skip


def _unsettled(search: MeaningSearch, restricted: Restricted | None) -> Settled:
    """A kernel that gives no product, with its likeliest meaning: as its name says, or as it is right for some
    extents."""
    spec = search.spec
    said = layout_in_name(search.own.entry) if search.layout is None else None
    by_use = None if spec.declared_signature else named_otherwise(search.first, kernel_body(spec))
    only, assumed, first = restricted or ("", said, by_use or search.first)
    activation = "relu" if says_relu(first.entry) else search.activation or first.activation
    adds = first.has("D") and first.has("C") and not first.has("beta")  # C has no other use beside an output D
    meant = replace(first, activation=activation, accumulates=first.accumulates or adds)
    if assumed is not None and assumed != ROW_MAJOR and not spec.declared_signature:
        read = Reading(meant, assumed).applied(spec)
    else:
        read = spec if meant == search.own else spec.read_as(meant, spec.layouts[0])
    other = ", ".join(f"{arg.name} is {arg.role}" for arg in first.arguments if arg.role in EXTENTS)
    found = "by its indices" if restricted is None else "found by trying"
    lines = () if first is search.first else (f"{found}: {other}",)
    return Settled(read, lines=lines, rejected=search.rejected, only=only, doubt=search.doubt, fitting=search.fitting)


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


def _table_hint(signature: Signature) -> str:
    """How to run a kernel that reads a table which its host code computes."""
    tables = [arg.name for arg in signature.unknown if arg.code == "P"]
    if not tables:
        return ""
    own = ", ".join(f"{name}={name}.npy" for name in tables)
    return (f"\nif host code fills {' and '.join(tables)} with values of its own, save them and run one launch: "
            f"--grid … --block … --args '…, {own}' --expect FILE.py:FUNCTION")  # fmt: skip
