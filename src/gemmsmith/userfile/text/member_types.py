"""Types that a class names, as kernels with a class of settings use them: ``typename Traits::Element``.

template <typename T, int BM> struct Traits { using Element = T; };
template <typename Tr> __global__ void gemm(const typename Tr::Element* A, …);
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from gemmsmith.userfile.launches.launch_text import launched
from gemmsmith.userfile.text.parts import KernelSource, SourceFile, TemplateParameter

_MEMBER = re.compile(r"([A-Za-z_]\w*(?:\s*<[^;{}]*>)?)\s*::\s*([A-Za-z_]\w*)")
_DEEPEST = 6
_PLACEHOLDER = "float"  # of what is not known yet, as for a template's type without a value


def member_types(
    kernel: KernelSource, sources: Sequence[SourceFile], aliases: Mapping[str, str], is_known: bool
) -> dict[str, str]:
    """What ``X::Y`` means in the kernel's parameters. Before the template's values are known (``is_known``), a type
    that depends on one is float."""
    generic = {parameter.name for parameter in kernel.template or () if parameter.kind == "typename"}
    found: dict[str, str] = {}
    for parameter in kernel.parameters:
        for owner, member in _MEMBER.findall(parameter.type):
            name = f"{owner}::{member}"
            if name in aliases:
                continue
            if kind := member_type(owner, member, sources, aliases):
                found[name] = kind
            elif owner in generic and not is_known:
                found[name] = _PLACEHOLDER
    return found


def member_type(
    owner: str, member: str, sources: Sequence[SourceFile], aliases: Mapping[str, str], depth: int = 0
) -> str:
    """The type that a class, by any of its names, calls ``member``; empty if it is not known."""
    owner = re.sub(r"^(?:const\s+)?(?:typename|struct|class)\s+", "", owner.strip())
    if depth > _DEEPEST:
        return ""
    if owner in aliases and aliases[owner] != owner:
        return member_type(aliases[owner], member, sources, aliases, depth + 1)
    base, given = launched(owner)
    base = base.rsplit("::", 1)[-1]
    for source in sources:
        text = source.aliases.get(f"{base}::{member}")
        if text is None:
            continue
        text = _with_arguments(text, source.class_templates.get(base, ()), given)
        inner = _MEMBER.fullmatch(re.sub(r"\btypename\s+", "", text).strip())
        if inner is not None and not inner[1].startswith("std"):
            return member_type(inner[1], inner[2], sources, aliases, depth + 1)
        own = source.aliases.get(f"{base}::{text}")  # another name of the same class
        return member_type(owner, text, sources, aliases, depth + 1) if own is not None and text != member else text
    return ""


def _with_arguments(text: str, parameters: Sequence[TemplateParameter], given: Sequence[str]) -> str:
    values = {p.name: given[i] if i < len(given) else p.default for i, p in enumerate(parameters)}
    return re.sub(r"[A-Za-z_]\w*", lambda word: values.get(word[0]) or word[0], text)
