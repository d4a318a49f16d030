"""What a launch passes to other kernels as well, which work on the same result: a beta that one of them applies."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gemmsmith.kernel.field_roles import own_name
from gemmsmith.userfile.files.project import Project
from gemmsmith.userfile.host.host_loops import launches_beside
from gemmsmith.userfile.kernels.struct_parameters import FlatParameter
from gemmsmith.userfile.launches.launch_values import SiteValues
from gemmsmith.userfile.text.parts import KernelSource, LaunchText

_WORD = re.compile(r"\w+")


def passed_on(
    project: Project,
    kernel: KernelSource,
    flat: Sequence[FlatParameter],
    passed: Sequence[str],
    site: SiteValues | None,
) -> frozenset[str]:
    """The names of the parameters for which this launch passes what a kernel beside it gets, too.

    That kernel takes an array that this one may write, and not two of the others, as another version of the product
    does. Of a struct that both get, it is the members that the other kernel names.
    """
    beside = launches_beside(site.site) if site is not None else []
    if len(flat) > len(kernel.parameters):
        return frozenset(name for launch in beside for name in _members(project, kernel, flat, passed, launch))
    arrays = {text for each, text in zip(flat, passed, strict=False) if "*" in each.type}
    written = {text for each, text in zip(flat, passed, strict=False) if "*" in each.type and "const" not in each.type}
    listed = [{word for text in launch.arguments for word in _WORD.findall(text)} for launch in beside]
    words = {word for each in listed if each & written and len(arrays - each) > 1 for word in each}
    return frozenset(each.name for each, text in zip(flat, passed, strict=False) if text in words)


def _members(
    project: Project, kernel: KernelSource, flat: Sequence[FlatParameter], passed: Sequence[str], launch: LaunchText
) -> Iterator[str]:
    """The members of this kernel's structs that the kernel of another launch names, which gets the same struct and
    leaves two of its arrays alone."""
    kernels = [each for source in project.sources(project.path) for each in source.kernels]
    other = next((each for each in kernels if each.name == launch.kernel and each.name != kernel.name), None)
    if other is None:
        return
    for place, text in enumerate(passed):
        if text not in launch.arguments[: len(other.parameters)]:
            continue
        members = [each for each in flat if each.place == place and "." in each.name]
        body, taken = other.body, other.parameters[launch.arguments.index(text)].name
        named = {each.name for each in members
                 if re.search(rf"\b{re.escape(taken)}\s*\.\s*{re.escape(own_name(each.name))}\b", body)}  # fmt: skip
        arrays = {each.name for each in members if "*" in each.type}
        if arrays & named and len(arrays - named) > 1:
            yield from named
