"""ncu's source page: counts per machine instruction, mapped to source lines with the simulator's metric names.

The line information names files that ncu cannot open. So instructions are matched by offset with our own disassembly of
the same machine code, and every opcode must agree.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gemmsmith.compile.sass import Instruction, Sass
from gemmsmith.errors import LaunchError
from gemmsmith.explain.profile import EXCESS, GLOBAL, REQUESTS, THEORETICAL_SECTORS, WAVEFRONTS, Line, LineSum

EXECUTED = "smsp__inst_executed.sum"
_OTHER_WAVEFRONTS = "memory_l1_wavefronts_shared"  # ncu's name, for all operations together
_ARITHMETIC = {base: f"smsp__sass_thread_inst_executed_op_{base.lower()}_pred_on.sum"
               for base in ("FFMA", "FMUL", "FADD")}  # fmt: skip
_SHARED = {"LDS": "ld", "STS": "st", "LDGSTS": "ldgsts"}
_GLOBAL = {"LDG": "ld", "STG": "st", "LDGSTS": "ld"}
# A generic access counts as shared or global, by its address space.
_GENERIC = {("LD", "Shared"): "LDS", ("ST", "Shared"): "STS", ("LD", "Global"): "LDG", ("ST", "Global"): "STG"}

# Column headings of ncu 2025.3.
_ADDRESS, _TEXT, _SPACE = "Address", "Source", "Address Space"
_COUNTS = ("Instructions Executed", "Predicated-On Thread Instructions Executed", "# Samples")
# Absent if the kernel never accesses that memory.
_MEMORY = ("L1 Wavefronts Shared", "L1 Wavefronts Shared Excessive", "L2 Theoretical Sectors Global")
_STALL = re.compile(r"stall_(\w+)")  # "stall_… (Not Issued)" is a subset and is skipped
_OPCODE = re.compile(r"(?:(?P<predicate>@!?\w+)\s+)?(?P<opcode>[A-Z][\w.]*)")


@dataclass(frozen=True)
class Row:
    """One instruction in ncu's report. ``threads`` counts threads with the predicate on; ``space`` is ncu's term."""

    address: int
    text: str
    space: str
    executed: int
    threads: int
    wavefronts: int
    excess: int
    sectors: int
    samples: int
    stalls: tuple[tuple[str, int], ...]

    @property
    def opcode(self) -> tuple[str, str]:
        """Predicate, and opcode with modifiers. Operands are ignored: tools print them differently."""
        found = _OPCODE.match(self.text)
        return (found["predicate"] or "", found["opcode"]) if found else ("", "")


@dataclass(frozen=True)
class Page:
    """The instructions of one profiled launch."""

    kernel: str
    rows: tuple[Row, ...]


def parse_pages(text: str) -> tuple[Page, ...]:
    """Parse the output of ``ncu --import … --csv --page source --print-source sass``: one page per launch."""
    pages: list[tuple[str, list[Row]]] = []
    headings: list[str] = []
    for cells in csv.reader(io.StringIO(text)):
        if cells[:1] == ["Kernel Name"]:
            pages.append((cells[1] if len(cells) > 1 else "", []))
            headings = []
        elif pages and cells[:1] == [_ADDRESS]:
            headings = cells
            missing = [name for name in (_TEXT, _SPACE, *_COUNTS) if name not in headings]
            if missing:
                raise LaunchError(f"ncu's source page has no column {missing[0]!r}",
                                  "--lines supports the format of ncu 2025.3; leave it out")  # fmt: skip
        elif headings and cells and cells[0].startswith("0x"):
            if len(cells) != len(headings):
                raise LaunchError(f"ncu's source page is truncated at address {cells[0]}", "profile again")
            pages[-1][1].append(_row(dict(zip(headings, cells, strict=True))))
    return tuple(Page(kernel, tuple(rows)) for kernel, rows in pages)


def _row(cells: dict[str, str]) -> Row:
    executed, threads, samples = (_count(cells[name]) for name in _COUNTS)
    wavefronts, excess, sectors = (_count(cells.get(name, "")) for name in _MEMORY)
    stalls = ((found[1], _count(value)) for name, value in cells.items() if (found := _STALL.fullmatch(name)))
    return Row(int(cells[_ADDRESS], 16), cells[_TEXT].strip(), cells[_SPACE], executed, threads, wavefronts, excess,
               sectors, samples, tuple((reason, count) for reason, count in stalls if count))  # fmt: skip


def _count(text: str) -> int:
    """A count; '-' or an empty cell is 0."""
    return int(text.replace(",", "")) if text not in ("", "-") else 0


def correlate(page: Page, sass: Sass) -> tuple[tuple[Row, Instruction], ...]:
    """Pair each row with its instruction; raises if page and machine code differ."""
    if not page.rows:
        raise LaunchError(f"ncu's source page has no instructions of {sass.entry}", "leave out --lines")
    start = min(row.address for row in page.rows)
    left = {instruction.offset: instruction for instruction in sass.instructions}
    pairs = []
    for row in page.rows:
        instruction = left.pop(row.address - start, None)
        if instruction is None or (instruction.predicate, instruction.opcode) != row.opcode:
            ours = f"{instruction.predicate} {instruction.opcode}".strip() if instruction else "nothing"
            raise _different(sass, row.address - start, row.text, ours)
        pairs.append((row, instruction))
    # A listing may omit the NOPs that pad a kernel.
    if lost := [instruction for instruction in left.values() if instruction.base != "NOP"]:
        raise _different(sass, lost[0].offset, "nothing", lost[0].text)
    return tuple(pairs)


def _different(sass: Sass, offset: int, theirs: str, ours: str) -> LaunchError:
    return LaunchError(
        f"ncu profiled different machine code of {sass.entry} than was compiled here: at {offset:#x} ncu has "
        f"{theirs!r}, we have {ours!r}", "clear the compile cache, or leave out --lines",
    )  # fmt: skip


def lines_of(
    pairs: Sequence[tuple[Row, Instruction]], source: str, texts: Callable[[str], Sequence[str]]
) -> tuple[Line, ...]:
    """Counts by source line, the file ``source`` first; ``texts`` returns a file's lines."""
    executed: Counter[tuple[str, int]] = Counter()
    samples: Counter[tuple[str, int]] = Counter()
    stalls: dict[tuple[str, int], Counter[str]] = {}
    totals: dict[tuple[str, int], Counter[str]] = {}
    for row, instruction in pairs:
        where = instruction.file or "", instruction.line or 0
        executed[where] += row.executed
        samples[where] += row.samples
        stalls.setdefault(where, Counter()).update(dict(row.stalls))
        totals.setdefault(where, Counter()).update(contributions(row, instruction))
    sources = {file: texts(file) for file, _ in executed}
    lines = []
    for file, number in sorted(executed, key=lambda w: (w[0] != source, w)):
        where = file, number
        if executed[where] or samples[where]:
            text = sources[file][number - 1] if 0 < number <= len(sources[file]) else ""
            values = tuple((name, value) for name, value in totals[where].items() if value)
            lines.append(Line(file, number, text, executed[where], values, samples[where],
                              tuple(stalls[where].most_common())))  # fmt: skip
    return tuple(lines)


def contributions(row: Row, instruction: Instruction) -> dict[str, int]:
    """What one instruction adds to each metric: the simulator's names for equal quantities, else ncu's."""
    base = _GENERIC.get((instruction.base, row.space), instruction.base)
    found = {}
    # An instruction whose predicate is never on (@!PT LDS) executes but makes no request.
    requests = row.executed if row.threads else 0
    if name := _ARITHMETIC.get(base):
        found[name] = row.threads
    if op := _GLOBAL.get(base):
        found[GLOBAL.format(what="requests", op=op)] = requests
    if op := _SHARED.get(base):
        found[REQUESTS[op]] = requests
    found[WAVEFRONTS.format(op=op) if op else _OTHER_WAVEFRONTS] = row.wavefronts
    return found | {EXCESS: row.excess, THEORETICAL_SECTORS: row.sectors}


def line_sums(lines: Sequence[Line], kernel: dict[str, float]) -> tuple[LineSum, ...]:
    """Sums over lines next to the launch's own counters, where ncu reported these."""
    over: Counter[str] = Counter()
    for line in lines:
        over.update(dict(line.metrics))
    over[EXECUTED] = sum(line.executed for line in lines)
    compared = [EXECUTED, *(GLOBAL.format(what="requests", op=op) for op in ("ld", "st")), *REQUESTS.values(),
                *(WAVEFRONTS.format(op=op) for op in REQUESTS), *_ARITHMETIC.values()]  # fmt: skip
    found = [LineSum(name, over[name], name, kernel[name]) for name in compared if name in kernel]
    sectors = [GLOBAL.format(what="sectors", op=op) for op in ("ld", "st")]
    if all(name in kernel for name in sectors):
        found.append(LineSum(THEORETICAL_SECTORS, over[THEORETICAL_SECTORS], " + ".join(sectors),
                             sum(kernel[name] for name in sectors)))  # fmt: skip
    return tuple(found)
