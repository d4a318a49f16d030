"""FILE.cu:KERNEL on the command line: a kernel of a file, as ``--entry KERNEL``; FILE.cu:LINE is the kernel there, as
tables name it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gemmsmith.cli.python_files import describes_launches
from gemmsmith.errors import UsageError

_WORD = re.compile(r"(.+?\.\w{1,4}):(?!:)([^/\\:]+(?:::[^/\\:]+)*(?::\d+)?)")
_ONE = ("kernel", "kernels")  # parameters of commands that --entry belongs to
_SIDES = {"x": "x_launch", "y": "y_launch", "other": "y_launch"}  # of two kernels, each with a launch of its own


def split_entry(word: str) -> tuple[str, str]:
    """The file and the kernel that ``word`` names; no kernel if it names a file alone, a rung or a launch in Python."""
    match = _WORD.fullmatch(word)
    if match is None or describes_launches(match[1]) or Path(word).exists():
        return word, ""
    if not match[1].endswith((".cu", ".cuh")) and not Path(match[1]).is_file():
        return word, ""
    file, entry = match[1], match[2].strip()
    return file, _at_line(Path(file), int(entry)) if entry.isdecimal() else entry


def _at_line(file: Path, line: int) -> str:
    """The kernel whose text has a line."""
    from gemmsmith.userfile.kernels.entry_choice import spelled_entry
    from gemmsmith.userfile.text.source import read_source_file

    kernels = sorted(read_source_file(file).kernels, key=lambda kernel: kernel.line)
    before = [kernel for kernel in kernels if kernel.line <= line]
    if not before:
        known = ", ".join(f"{file.name}:{kernel.line} {kernel.qualified}" for kernel in kernels[:12]) or "none"
        raise UsageError(f"no kernel of {file.name} is at line {line}", f"its kernels: {known}")
    return spelled_entry(before[-1], kernels)


def with_entries(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a command's parameters, where a kernel that a word names is moved to --entry or --x-launch.

    Of several words each stays as it is: every kernel is found by its own.
    """
    result = dict(values)
    for name in _ONE if "entry" in values else ():
        given = values.get(name)
        alone = given[0] if isinstance(given, (list, tuple)) and len(given) == 1 else given
        if isinstance(alone, str) and (split := split_entry(alone))[1]:
            if values["entry"] not in ("", split[1]):
                raise UsageError(f"{alone} and --entry {values['entry']} name two kernels", "give one of them")
            result["entry"] = split[1]
            result[name] = split[0] if isinstance(given, str) else [split[0]]
    for name, launch in _SIDES.items():
        given = values.get(name)
        if launch in values and isinstance(given, str) and (split := split_entry(given))[1]:
            if re.search(r"(?:^|;)\s*entry\s*=", values[launch]):
                raise UsageError(f"{given} and --{launch.replace('_', '-')} name a kernel each", "give one of them")
            result[name], result[launch] = split[0], f"{values[launch]}; entry={split[1]}".lstrip("; ")
    return result
