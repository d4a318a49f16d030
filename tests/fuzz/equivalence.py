"""Whether a mutant compiles to the same PTX as the kernel without its fault, but for the numbers of registers."""

from __future__ import annotations

import re
from pathlib import Path

from cases import Case
from generated.kernel import generate

_LEFT_OUT = re.compile(r"^\s*(//|\.loc|\.file|\.section|\.b8|\.b32|\.b64|\.version|\.target|$)")
_NUMBERED = re.compile(r"(%[a-z]+\d+|\$L__\w+)")


def same_code(case: Case, folder: Path) -> bool:
    """Compile the mutant and its original, and compare; a fault of the host code is in neither."""
    fault = generate(case.recipe, case.fault).fault
    if fault is not None and fault.kind == "launch":
        return False
    return compiled(case, folder) == compiled(Case(case.recipe, "", case.seed), folder)


def compiled(case: Case, folder: Path) -> list[str]:
    from gemmsmith.call.any_kernel.kernel import compile_launch
    from gemmsmith.userfile.kernels.user_kernel import launched_name

    kernel = generate(case.recipe, case.fault)
    file = folder / f"{case.name}.cu"
    file.write_text(kernel.text, encoding="utf-8")
    name = launched_name(file, kernel.entry)
    return normalised(compile_launch(str(file), name, {}, (), "sm_90").compiled.ptx)


def normalised(ptx: str) -> list[str]:
    """Lines of code, with registers and labels numbered as they appear."""
    known: dict[str, str] = {}

    def renamed(match: re.Match[str]) -> str:
        word = match[0]
        kind = re.sub(r"\d.*", "", word)
        return known.setdefault(word, f"{kind}_{len(known)}")

    lines = [line.split("//")[0].rstrip() for line in ptx.splitlines() if not _LEFT_OUT.match(line)]
    return [_NUMBERED.sub(renamed, line) for line in lines if line]
