"""Memory that host code clears once for several launches: what one of them leaves there, the next one finds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from gemmsmith.userfile.host.host_frame import Frame
from gemmsmith.userfile.host.host_loops import loops_around
from gemmsmith.userfile.kernels.scratch import memset_of, uncast
from gemmsmith.userfile.text.parts import KernelSource, SourceFile

_WORD = re.compile(r"[A-Za-z_]\w*")


def is_cleared_once(text: str, frame: Frame) -> bool:
    """Whether an array is set to zero outside a loop that launches the kernel, or before several calls that do."""
    name, at = uncast(text), frame
    repeated = False
    while at.function is not None:
        body = at.function.body
        others = [each for each in at.source.launches if at.source.functions[each.function] == at.function
                  and name in map(uncast, each.arguments) and each.start != at.start]  # fmt: skip
        if any(each.kernel != _launched(frame) for each in others):
            return False  # another kernel may clear it
        cleared = [each.start() for each in memset_of(name).finditer(body)]
        around = set(loops_around(at))
        if cleared:
            inside = [around & set(loops_around(replace(at, start=place))) for place in cleared]
            return len(cleared) == 1 and (repeated or bool(around - inside[0]))
        repeated = repeated or bool(around)
        places = [i for i, p in enumerate(at.function.parameters) if p.name == name]
        if not places or places[0] >= len(at.arguments) or at.caller is None:
            return False
        caller = at.caller.function
        called = rf"\b{re.escape(at.function.name)}\s*[(<]"
        repeated = repeated or (caller is not None and len(re.findall(called, caller.body)) > 1)
        name, at = uncast(at.arguments[places[0]]), at.caller
    return False


def _launched(frame: Frame) -> str:
    """The kernel that is launched at a place."""
    own = (each for each in frame.source.launches if frame.source.functions[each.function] == frame.function)
    return next((each.kernel for each in own if each.start == frame.start), "")


def keeps_variable(name: str, kernel: KernelSource, reached: str, sources: Sequence[SourceFile]) -> bool:
    """Whether a variable of the module is named by the kernel and what it calls (``reached``) alone: then nothing else
    sets it between two launches."""
    if any(name in source.constants for source in sources) or name not in _WORD.findall(reached):
        return False
    bodies = [each.body for source in sources for each in source.functions if each.body not in reached]
    bodies += [each.body for source in sources for each in source.kernels if each != kernel]
    return not any(name in _WORD.findall(body) for body in bodies if name in body)
