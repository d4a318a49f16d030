"""Every machine instruction of a profile: counts, pipe and control bits, with the source lines between them."""

from __future__ import annotations

import sys
from collections.abc import Callable

from gemmsmith.cli.render.output import columns, say
from gemmsmith.explain.profile import InstructionRow, Profile

_COLUMNS: dict[str, Callable[[InstructionRow], str]] = {
    "executed": lambda row: f"{row.executed:,}" if row.executed else "",
    "lanes": lambda row: f"{row.threads / row.executed:.1f}" if row.executed else "",
    "sectors": lambda row: _total(row, "_sectors_"),
    "waves": lambda row: _total(row, "wavefronts"),
    "pipe": lambda row: row.pipe,
    "stall": lambda row: str(row.stall),
    "sets": lambda row: " ".join(map(str, row.sets)),
    "waits": lambda row: " ".join(map(str, row.waits)),
}


def _total(row: InstructionRow, word: str) -> str:
    found = sum(value for name, value in row.metrics if word in name and "smsp__sass_l1tex_t_sectors" not in name)
    return f"{found:,}" if found else ""


def print_instructions(profile: Profile) -> None:
    """The machine code in its own order. Stall: cycles; sets and waits: scoreboards."""
    say(f"{profile.kernel}: {len(profile.instructions):,} machine instructions for {profile.arch}, executed, counted. "
        "lanes: whose guard held, of 32; sets, waits: scoreboards.", "dim")  # fmt: skip
    cells = [[cell(row) for cell in _COLUMNS.values()] for row in profile.instructions]
    widths = [max(map(len, column)) for column in zip(_COLUMNS, *cells, strict=True)]
    _print("offset", list(_COLUMNS), "instruction", widths)
    place = ("", 0)
    for row, counts in zip(profile.instructions, cells, strict=True):
        if (row.file, row.line) != place:
            place = row.file, row.line
            sys.stdout.write(f"{row.file}:{row.line}\n" if row.line else "no line known\n")
        _print(f"{row.offset:04x}", counts, row.text, widths)


def _print(at: str, cells: list[str], text: str, widths: list[int]) -> None:
    counts = " ".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))
    full, width = f"{at:>6} {counts} | {text}".rstrip(), columns()
    sys.stdout.write((full if len(full) <= width else full[: width - 1] + "…") + "\n")
