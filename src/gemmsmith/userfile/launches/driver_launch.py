"""Launches through the driver: ``cuLaunchKernel(function, …)``, where the file says which kernel the function is."""

from __future__ import annotations

import re

_LAUNCHES = frozenset({"cuLaunchKernel", "cuLaunchCooperativeKernel"})
_PARAMETERS = 9  # which argument has the kernel's parameters; before it: function, grid, block, shared memory, stream
_ASKED = re.compile(
    r"\b(?:cuModuleGetFunction|cuLibraryGetKernel)\s*\(\s*&?\s*(?P<variable>[\w.\->\[\]]+)\s*,[^,;]*,\s*"
    r'(?:\(\s*const\s+char\s*\*\s*\)\s*)?"(?P<name>[^"\n]*)"'
)
_LITERAL = re.compile(r'"([^"\n]*)"')
_MANGLED = re.compile(r"_Z(?:N\w*?)??(?P<length>\d+)(?P<rest>\w+)")


def with_function_names(code: str, text: str) -> str:
    """``code``, whose literals are blank, with the names that ``text`` has for kernels that the driver is asked for."""
    if "GetFunction" not in code and "GetKernel" not in code:
        return code
    lines, blank = re.split(r"\r\n|\r|\n", text), code.split("\n")
    for match in reversed(list(_ASKED.finditer(code))):
        line = code.count("\n", 0, match.start("name"))
        before = code[code.rfind("\n", 0, match.start("name")) + 1 : match.start("name")].count('"') // 2
        written, kept = (_LITERAL.findall(each[line]) if line < len(each) else [] for each in (lines, blank))
        if len(written) == len(kept) and re.fullmatch(r"\w+", written[before]):
            code = code[: match.start("name")] + written[before] + code[match.end("name") :]
    return code


def driver_launch(code: str, function: str, given: tuple[str, ...]) -> tuple[str, tuple[str, ...], str] | None:
    """Kernel, configuration and array of arguments of a call of ``function``; None if it is no such launch.

    The kernel is the one that ``cuModuleGetFunction`` finds for the launched variable by a literal name.
    """
    if function not in _LAUNCHES or len(given) <= _PARAMETERS:
        return None
    variable = re.sub(r"^\(\s*CUfunction\s*\)\s*", "", given[0]).strip()
    names = {_plain(match["name"]) for match in _ASKED.finditer(code) if _last(match["variable"]) == _last(variable)}
    if len(names) != 1:
        return None  # unknown, or several: any choice would be a guess
    grid, block = (f"dim3({', '.join(given[first : first + 3])})" for first in (1, 4))
    return names.pop(), (grid, block, given[7]), given[_PARAMETERS]


def _last(variable: str) -> str:
    """The name after the last dot or arrow: a member is known by its own name."""
    return re.split(r"\.|->|\[", variable.rstrip("]"))[-1] if "[" not in variable else variable


def _plain(name: str) -> str:
    """The name in the source of a mangled one: _Z5sgemmPKfS0_Pf is sgemm."""
    match = _MANGLED.match(name)
    return match["rest"][: int(match["length"])] if match else name
