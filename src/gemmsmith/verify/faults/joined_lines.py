"""Places in the code of two kernels that are compiled as one: nobody wrote the line that calls them."""

from __future__ import annotations

import re
from dataclasses import replace

from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.userfile.files.edited import edited_text
from gemmsmith.userfile.launches.user_launch import UserLaunch

_INLINED = re.compile(r"(\.loc\s+\d+\s+\d+\s+\d+)\s*,[^\n]*\binlined_at\s+\d+\s+(\d+)\s+(\d+)")


def with_own_lines(spec: KernelSpec, compiled: CompiledKernel) -> CompiledKernel:
    """The code, in which both kernels are at their own lines and not called from the joined one; others as they are."""
    launch = spec.geometry
    if not isinstance(launch, UserLaunch) or launch.second is None:
        return compiled
    kernel = launch.facts.kernel
    lines = (edited_text(kernel.file, spec.edited) or "").split("\n")
    if kernel.line > len(lines) or (start := lines[kernel.line - 1].find(kernel.name)) < 0:
        return compiled

    def own(found: re.Match[str]) -> str:
        made = int(found[2]) == kernel.line and int(found[3]) > start
        return found[1] if made else found[0]

    return replace(compiled, ptx=_INLINED.sub(own, compiled.ptx))
