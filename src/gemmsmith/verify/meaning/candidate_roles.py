"""Which meanings of its parameters are tried for a user's kernel: those that its text gives, then likely others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, product

from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.kernel.other_readings import readings
from gemmsmith.kernel.pointer_roles import with_written
from gemmsmith.kernel.roles import EXTENTS
from gemmsmith.kernel.signature import Signature
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.verify.code.kernel_body import kernel_decisions
from gemmsmith.verify.code.mode_values import modes_of
from gemmsmith.verify.code.written import used_bytes, used_parameters, written_parameters

LEADING = ("lda", "ldb", "ldc", "ldd")
_MOST_TRIALS = 14  # launches of readings; six orders of M, N and K, and of A and B


def candidate_roles(spec: KernelSpec, own: Signature, compiled: CompiledKernel) -> list[Signature]:
    if spec.declared_signature:
        return [own]
    written = written_parameters(compiled.ptx, compiled.entry)
    stored = {arg.name for i, arg in enumerate(own.arguments) if own.place(i) in written and arg.code == "P"}
    own = _without_ignored(own, _used(own, compiled), _asked_by_grid(spec))
    pointers_open = any(arg.code == "P" for arg in own.unknown)
    if stored and (pointers_open or own.named(own.output) not in stored):
        own = with_written(own, stored)
    modes = list(_with_modes(spec, own))
    alone = _told_by_grid_alone(spec, own)
    others = (each for each in chain(modes, *map(readings, modes), readings(own)) if not alone & set(each.tied))
    return [own, *_limited(others)]


def _with_modes(spec: KernelSpec, own: Signature) -> Iterator[Signature]:
    """The signature with each value of the numbers that only choose what the kernel computes: ``if (shared != 2)``."""
    body = kernel_decisions(spec)
    modes = {arg.name: values for arg in own.unknown if arg.code != "?" and (values := modes_of(arg, body, spec.code))}
    for chosen in product(*modes.values()) if modes else ():
        roles = dict(zip(modes, chosen, strict=True))
        yield replace(own, arguments=tuple(replace(arg, role=roles.get(arg.name, arg.role)) for arg in own.arguments))


def _used(own: Signature, compiled: CompiledKernel) -> set[int]:
    """The arguments that the kernel reads; of a struct, the fields."""
    parameters = used_parameters(compiled.ptx, compiled.entry)
    found = {i for i in range(len(own.arguments)) if own.place(i) in parameters}
    for i in [i for i in found if "." in own.arguments[i].name]:
        loaded = used_bytes(compiled.ptx, compiled.entry, own.place(i))
        if loaded is not None and not loaded.intersection(own.bytes_at(i)):
            found.discard(i)
    return found


def _asked_by_grid(spec: KernelSpec) -> set[str]:
    """The words with which host code writes the grid."""
    site = getattr(spec.geometry, "site", None)
    return set(re.findall(r"[A-Za-z_]\w*", site.origin(0)[1])) if site is not None else set()


def _told_by_grid_alone(spec: KernelSpec, own: Signature) -> set[str]:
    """The extents that host code has a name for which is in the grid, and passes the kernel nothing of: no number that
    it passes is that extent as well."""
    passed = set(re.findall(r"[A-Za-z_]\w*", " ".join(arg.at_launch for arg in own.arguments)))
    return {word.upper() for word in _asked_by_grid(spec) - passed} & {*EXTENTS}


def _without_ignored(own: Signature, used: set[int], counted: set[str]) -> Signature:
    """A kernel that takes leading dimensions and uses none of them is one for contiguous rows; a constant is passed.

    One that uses some of them has forgotten the others, and is judged with all.
    """
    leading = [i for i, arg in enumerate(own.arguments) if arg.role in LEADING]
    if used.intersection(leading):
        leading = []
    # What a number means that the kernel never reads does not matter, unless there are blocks for it.
    ignored = {i for i, arg in enumerate(own.arguments)
               if not arg.role and arg.code != "P" and i not in used and arg.at_launch not in counted}  # fmt: skip
    if not ignored.union(leading):
        return own
    arguments = tuple(replace(arg, role="0") if i in ignored.union(leading) else arg
                      for i, arg in enumerate(own.arguments))  # fmt: skip
    return replace(own, arguments=arguments)


def _limited(found: Iterator[Signature]) -> Iterator[Signature]:
    for _, signature in zip(range(_MOST_TRIALS), found, strict=False):
        yield signature
