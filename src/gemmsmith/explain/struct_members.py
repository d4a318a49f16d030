"""Bank conflicts in a struct's member: the access is to ``t.As``, and As is what can be padded."""

from __future__ import annotations

import re
from dataclasses import replace

from gemmsmith.explain.access_pattern import AccessPattern, Declaration
from gemmsmith.explain.profile import Profile
from gemmsmith.sim.wavefronts import NOBODY
from gemmsmith.userfile.text.array_names import DeclaredArray
from gemmsmith.verify.faults.kernel_source import SourceOfKernel


def with_members(found: Profile, source: SourceOfKernel) -> Profile:
    """The profile with the members that accesses to structs in shared memory reach."""
    return replace(found, patterns=tuple(of_member(pattern, source) for pattern in found.patterns))


def of_member(pattern: AccessPattern, source: SourceOfKernel) -> AccessPattern:
    """The access as one to the struct's member, if all lanes reach the same member of the same struct."""
    active = [at for at in pattern.lanes if at != NOBODY]
    known = source.array(pattern.array, 0) if pattern.space == "shared" and pattern.array and active else None
    if known is None or not known.members:
        return pattern
    reached = {(at // known.itemsize, known.member(at)[0]) for at in active}
    index, member = next(iter(reached))
    if len(reached) > 1 or member is None:
        return pattern
    start = index * known.itemsize + member.start
    return replace(
        pattern,
        array=f"{pattern.array}.{member.name}",
        lanes=tuple(at if at == NOBODY else at - start for at in pattern.lanes),
        base=pattern.base + start,
        declaration=_declaration(member, source),
    )


def _declaration(member: DeclaredArray, source: SourceOfKernel) -> Declaration | None:
    """The line that declares a member, if there is one alone that may."""
    written = re.compile(
        rf"^[^()=]*?([\w:]+)\s+{re.escape(member.name)}\s*((?:\[[^\]]*\]\s*){{{len(member.extents)}}});"
    )
    found = [
        (tree.path.name, number, match)
        for tree in source.trees for number, line in enumerate(tree.lines, 1)
        if "__shared__" not in line and (match := written.match(line.split("//")[0]))
    ]  # fmt: skip
    if len(found) != 1 or not member.extents:
        return None
    file, number, match = found[0]
    extents = tuple(part.strip() for part in re.findall(r"\[([^\]]*)\]", match[2]))
    row = (member.extents[-1] or 0) * member.itemsize if len(extents) > 1 else 0
    return Declaration(match[1], member.name, extents, file, number, row)
