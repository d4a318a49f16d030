"""Register spills: which `__launch_bounds__` of the source leaves too few registers."""

from __future__ import annotations

import re
from dataclasses import replace

from gemmsmith.explain.diagnosis import Diagnosis
from gemmsmith.explain.findings import Finding

_BOUNDS = re.compile(r"__launch_bounds__\s*\((?P<values>[^()]*(?:\([^()]*\)[^()]*)*)\)")
SPILLS = "register spills"


def with_register_limit(found: Diagnosis, code: str, entry: str, file: str) -> Diagnosis:
    """The finding of spills with the line that limits the registers, if the kernel ``entry`` has one."""
    limit = _limit(code, entry)
    if limit is None:
        return found
    line, text, values = limit
    registers = found.case.profile.resources.registers

    def named(finding: Finding) -> Finding:
        if finding.kind != SPILLS:
            return finding
        if len(values) < 2:
            fix = (f"`{text}` ({file}:{line}) has the compiler keep to {registers} registers per thread. Use a smaller "
                   "block or a smaller thread tile.")  # fmt: skip
        else:
            fix = (
                f"`{text}` ({file}:{line}) asks for {values[1]} blocks per SM, which leaves {registers} registers per "
                f"thread. Ask for fewer, or leave the second number out: `__launch_bounds__({values[0]})`."
            )
        return replace(finding, fix=fix)

    return replace(found, findings=tuple(map(named, found.findings)))


def _limit(code: str, entry: str) -> tuple[int, str, list[str]] | None:
    """Line, text and values of the bounds in the head of a kernel."""
    for match in _BOUNDS.finditer(code):
        head = code[max(code.rfind(sign, 0, match.start()) for sign in ";}") + 1 : code.find("{", match.end())]
        if re.search(rf"\b{re.escape(entry)}\s*\(", head):
            values = [each.strip() for each in match["values"].split(",")]
            return code.count("\n", 0, match.start()) + 1, " ".join(match[0].split()), values
    return None
