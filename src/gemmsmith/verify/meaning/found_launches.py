"""A product under another launch than the one that was read: host code's launch of another version, a guess, a search.

Where none gives a product, the launch may be to blame, not the kernel: that is a doubt, or a refusal.
"""

from __future__ import annotations

import shlex
from dataclasses import replace
from typing import Any

from gemmsmith.errors import OneGridError, UsageError
from gemmsmith.kernel.signature import Signature
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.sim.memory.access_faults import ASSERTION_FAILED
from gemmsmith.verify.harness import verify_launch
from gemmsmith.verify.meaning.early_hazards import block_has_hazards
from gemmsmith.verify.meaning.launch_evidence import fits, fits_or_faults
from gemmsmith.verify.meaning.launch_search import blocks_tried, search_launches
from gemmsmith.verify.meaning.meaning_search import MeaningSearch, fitting
from gemmsmith.verify.meaning.settled import SAY_LAUNCH, Settled
from gemmsmith.verify.trials.check_shapes import check_shapes


def likely_launches(spec: KernelSpec) -> list[tuple[KernelSpec, KernelSpec]]:
    """The kernel with its launch, and with launches that are as likely; only its own where the file or the user says
    it. Beside each stands the kernel as it is judged where that launch gives a product.

    A kernel that host code launches in a loop is judged in the loop. If that is wrong, one launch for the whole product
    may show what the kernel computes.
    """
    alternatives = getattr(spec.geometry, "alternatives", None)
    others: list[Any] = alternatives() if alternatives is not None else []
    found = [(spec, spec), *((other, other) for other in (replace(spec, geometry=each) for each in others))]
    described = _as_described(spec)
    if described is not None and not described.geometry.guessed:  # type: ignore[attr-defined]
        found.insert(0, (described, described))
    if getattr(spec.geometry, "loop", ""):
        found.insert(1, (replace(spec, geometry=spec.geometry.alone()), spec))  # type: ignore[attr-defined]
    return found


def by_other_version(search: MeaningSearch) -> Settled | None:
    """The kernel under a launch that host code has for another version of it, if it then gives a product."""
    versions = getattr(search.spec.geometry, "versions", None)
    if not search.open or not search.whole or versions is None:
        return None
    for launch in versions():
        tried = replace(search.spec, geometry=launch)
        shape = search.own_shape(tried, search.first)
        if shape is None:
            continue
        for reading in search.accepted(tried, search.first, shape):
            return search.settled(reading, shape, tried)
    return None


def with_searched_launch(search: MeaningSearch, found: Settled) -> Settled:
    """The same under a launch that single blocks suggest, where it was found by a mere guess: a product says little of
    a block that is too large, whose further threads had nothing to store, or of a grid of too many blocks."""
    if found.reading is None or not getattr(found.spec.geometry, "is_mere_guess", False):
        return found
    described = _as_described(found.spec)
    if described is not None and not described.geometry.guessed:  # type: ignore[attr-defined]
        return found
    under = _searched(search, described or found.spec, found.spec.signature)
    if under is None:
        return found
    return replace(found, spec=replace(found.spec, geometry=under.spec.geometry), launch_found=True,
                   lines=(*found.lines, under.lines[-1]), words=(*found.words, *under.words[-4:]))  # fmt: skip


def by_search(search: MeaningSearch) -> Settled | None:
    """The kernel under a launch that single blocks suggest, if host code's is guessed and another gives a product. Else
    the search has a doubt, unless the launch that a comment describes, the guess, or a launch that was found fits the
    kernel all the same, or the kernel errs within one block."""
    spec, first = search.spec, search.first
    if not search.open or not getattr(spec.geometry, "guessed", False):
        return None
    described = _as_described(spec)
    if described is not None and described.geometry.guessed:  # type: ignore[attr-defined]  # only the block
        spec, described = described, None
    if (found := _searched(search, spec, first)) is not None:
        return found
    if described is not None and _is_to_blame(search, described):
        search.spec = described
        return None
    if _errs_within_its_block(search, spec):
        search.fitting = True
        return None
    if place := getattr(spec.geometry, "misread", ""):
        search.doubt = f"the launch at {place} is not understood, and no guessed launch computes A·B"
    else:
        tried = blocks_tried(spec, search.config, search.compiled.ptx)
        search.doubt = f"no host code launches it, and none of the launches tried ({tried}) computes A·B"
    if getattr(spec.geometry, "blind", False):
        raise UsageError(f"{search.own.entry}: {search.doubt}", f"if the kernel is right, {SAY_LAUNCH}")
    search.fitting = getattr(spec.geometry, "one_element_a_thread", False)
    if not search.fitting and not getattr(spec.geometry, "parts_unknown", False):
        search.fitting = any(
            fits(search.open_device(), each.read_as(first, "NN"), search.config, search.compile_fn)
            for each, _ in likely_launches(spec)
        )
        if not search.fitting and (tiled := _tiling(search, spec)) is not None:
            search.spec, search.fitting = tiled, True
    if search.fitting:
        search.doubt = ""
    return None


def _tiling(search: MeaningSearch, spec: KernelSpec) -> KernelSpec | None:
    """The kernel under the first launch of the search whose blocks store each element of C once; None: none does."""
    device, read = search.open_device(), spec.read_as(search.first, "NN")
    for launch in search_launches(device, read, search.config, search.compiled.ptx, search.compile_fn):
        if fits(device, replace(read, geometry=launch), search.config, search.compile_fn):
            return replace(spec, geometry=launch)
    return None


def _as_described(spec: KernelSpec) -> KernelSpec | None:
    """The kernel under the launch that a comment describes; None where none does."""
    geometry = getattr(spec.geometry, "as_described", lambda: None)()
    return None if geometry is None else replace(spec, geometry=geometry)


def _is_to_blame(search: MeaningSearch, described: KernelSpec) -> bool:
    """Whether the described launch fits a kernel that gives no product: its blocks store all of C, or end in a
    fault."""
    read = described.read_as(search.first, "NN")
    return fits_or_faults(search.open_device(), read, search.config, search.compile_fn)


def _errs_within_its_block(search: MeaningSearch, spec: KernelSpec) -> bool:
    """Whether a kernel whose ``__launch_bounds__`` tell its block races, or waits for ever, within one block: no other
    grid would mend that."""
    if not getattr(spec.geometry, "bounded", False):
        return False
    read = spec.read_as(search.first, "NN")
    return block_has_hazards(search.open_device(), read, search.config, search.shapes[0], search.compile_fn)


def by_search_without_namesake(search: MeaningSearch) -> Settled | None:
    """The same, where the launch that was read may be that of another kernel of this name."""
    namesake = getattr(search.spec.geometry, "namesake", "")
    if not search.open or not namesake:
        return None
    alone = replace(search.spec, geometry=search.spec.geometry.without_site())  # type: ignore[attr-defined]
    if (found := _searched(search, alone, search.first)) is not None:
        return found
    tried = blocks_tried(alone, search.config, search.compiled.ptx)
    search.doubt = f"{namesake}, and neither that launch nor any other tried ({tried}) computes A·B"
    return None


def refuse_one_grid(search: MeaningSearch) -> None:
    """Raise for a kernel whose grid is the same for every product."""
    place = getattr(search.spec.geometry, "one_grid", "")
    if search.open and not search.first.fixed and place:
        raise OneGridError(
            f"{search.own.entry}: its launch ({place}) has the same grid for every M, N and K, and does not compute A·B"
            f"{_assertion(search)}",
            "give the sizes that it is made for with --m, --n and --k, or a grid with --grid",
        )


def in_padded_memory(search: MeaningSearch) -> Settled | None:
    """A kernel that reads past A and B, in memory as large as its host code allocates."""
    shape = search.shapes[0]
    spare = _spare(search)
    if not spare:
        return None
    padded = replace(search.spec, geometry=search.spec.geometry.padded_as_allocated())  # type: ignore[attr-defined]
    for reading in search.accepted(padded, search.first, shape, search.blocks):
        if reading.scaled:
            settled = search.settled(reading, shape, padded)
            line = f"it reads past the end of its matrices: its host code allocates {spare}, checked as zeros"
            return replace(settled, padded=spare, lines=(*settled.lines, line))
    return None


def _searched(search: MeaningSearch, spec: KernelSpec, meant: Signature) -> Settled | None:
    config = search.config
    launches = search_launches(
        search.open_device(), spec.read_as(meant, "NN"), config, search.compiled.ptx, search.compile_fn
    )
    for launch in launches:
        tried = replace(spec, geometry=launch)
        shape = check_shapes(tried.read_as(meant, "NN"), config).distinct
        for reading in search.accepted(tried, meant, fitting(meant, shape)):
            settled = search.settled(reading, shape, tried)
            words = (*settled.words, *shlex.split(str(launch)))
            line = f"its launch was found by trying: {launch}"
            return replace(settled, words=words, launch_found=True, lines=(*settled.lines, line))
    return None


def _assertion(search: MeaningSearch) -> str:
    """The assert that fails at the first shape, as the end of a sentence; empty if none does."""
    m, n, k = search.shapes[0]
    spec = search.spec
    verdict = verify_launch(search.open_device(), spec, search.config, spec.problem(m, n, k), fill="integers",
                            mode="exact", c="set", compile_fn=search.compile_fn)  # fmt: skip
    failed = next((reason for reason in verdict.reasons if ASSERTION_FAILED in reason), "")
    text = failed.partition(ASSERTION_FAILED)[2].partition("\n")[0].split(": thread")[0].lstrip(": ")
    return f" for {m}x{n}x{k}, where `{text}` fails" if failed else ""


def _spare(search: MeaningSearch) -> str:
    """What host code allocates beyond A and B, as text; empty if nothing."""
    spec = search.spec
    if not hasattr(spec.geometry, "spare"):
        return ""
    more = spec.geometry.spare(spec.problem(*search.shapes[0]))
    return " and ".join(f"{count:,} bytes more for {search.first.named(role)}" for role, count in more.items())
