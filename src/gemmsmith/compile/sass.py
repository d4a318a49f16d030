"""The machine code of a kernel, disassembled with NVIDIA's nvdisasm; needs no GPU and no driver."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.compile.toolchain import find_nvdisasm
from gemmsmith.errors import CompileError

# Opcodes of a GEMM's arithmetic: mma, wgmma, Blackwell's tcgen05; then scalar and packed fma.
MATRIX = frozenset(
    {"HMMA", "IMMA", "DMMA", "QMMA", "OMMA", "HGMMA", "QGMMA", "IGMMA", "UTCHMMA", "UTCQMMA", "UTCOMMA", "UTCIMMA"}
)
MATH = MATRIX | {"FFMA", "FFMA2", "DFMA", "HFMA2"}

_TIMEOUT_S = 120


@dataclass(frozen=True)
class Instruction:
    """One machine instruction. ``opcode`` includes modifiers; ``file`` and ``line`` are None where unknown."""

    offset: int
    opcode: str
    operands: tuple[str, ...]
    predicate: str
    file: str | None
    line: int | None
    text: str

    @property
    def base(self) -> str:
        """The opcode without modifiers: LDG for LDG.E.128."""
        return self.opcode.partition(".")[0]


@dataclass(frozen=True)
class Loop:
    """A backward branch: the instructions from ``start`` to ``end``, inclusive, repeat."""

    start: int
    end: int
    instructions: tuple[Instruction, ...]

    @property
    def counts(self) -> Counter[str]:
        return _counts(self.instructions)


@dataclass
class _Block:
    """A basic block: instructions from ``first`` to ``last``, and the blocks that may follow."""

    first: int
    last: int
    next: set[int]


def _reached(blocks: tuple[_Block, ...], offset: int, without: int) -> bool:
    """Whether control flow can reach ``offset`` from the kernel's start without the block at ``without``.

    If it cannot, that block dominates ``offset``, and a jump from ``offset`` back to it closes a loop.
    """
    by_first = {block.first: block for block in blocks}
    seen, ahead = {without}, [blocks[0].first]
    while ahead:
        block = by_first.get(ahead.pop())
        if block is None or block.first in seen:
            continue
        if block.first <= offset <= block.last:
            return True
        seen.add(block.first)
        ahead += block.next
    return False


@dataclass(frozen=True)
class Sass:
    """The instructions of one kernel, and the offsets of its labels."""

    entry: str
    instructions: tuple[Instruction, ...]
    labels: tuple[tuple[str, int], ...]

    @property
    def counts(self) -> Counter[str]:
        """How often each opcode occurs, without modifiers."""
        return _counts(self.instructions)

    @cached_property
    def loops(self) -> tuple[Loop, ...]:
        """Every loop. The branch to itself that ends each kernel is none; jumps back from out-of-line code, such as
        barrier waits, are not counted as loops either."""
        if not self.instructions:
            return ()
        blocks = self._blocks
        found = []
        for branch in self.instructions:
            start = self._target(branch) if branch.base == "BRA" else None
            if start is not None and start < branch.offset and not _reached(blocks, branch.offset, without=start):
                inside = tuple(i for i in self.instructions if start <= i.offset <= branch.offset)
                found.append(Loop(start, branch.offset, inside))
        return tuple(found)

    def _target(self, instruction: Instruction) -> int | None:
        named = re.search(r"`\((\S+)\)", instruction.text)
        return dict(self.labels).get(named.group(1)) if named else None

    @cached_property
    def _blocks(self) -> tuple[_Block, ...]:
        """The basic blocks: the code split at labels and after jumps."""
        starts = {offset for _, offset in self.labels}
        made: list[_Block] = []
        begins = True
        for one, following in zip(self.instructions, (*self.instructions[1:], None), strict=True):
            if begins or one.offset in starts:
                made.append(_Block(one.offset, one.offset, set()))
            made[-1].last = one.offset
            target = self._target(one)
            always = not one.predicate and len(one.operands) <= 1  # a uniform predicate is listed among the operands
            leaves = one.base in ("EXIT", "RET", "BRX", "BRA") and always
            begins = target is not None or one.base in ("EXIT", "RET", "BRX")
            if target is not None:
                made[-1].next.add(target)
            if following is not None and not leaves and (begins or following.offset in starts):
                made[-1].next.add(following.offset)
        return tuple(made)

    def main_loop(self) -> Loop | None:
        """The loop with the most arithmetic of its own, not counting inner loops; None without one.

        Tensor-core instructions count first: each does far more work than the epilogue's scalar ones.
        """

        def weight(loop: Loop) -> tuple[int, int, int]:
            return self._own(loop, MATRIX), self._own(loop, MATH), len(loop.instructions)

        best = max(self.loops, key=weight, default=None)
        return best if best is not None and self._own(best, MATH) else None

    def _own(self, loop: Loop, opcodes: frozenset[str]) -> int:
        inner = [o for o in self.loops if o != loop and loop.start <= o.start and o.end <= loop.end]
        return sum(
            1 for i in loop.instructions if i.base in opcodes and not any(o.start <= i.offset <= o.end for o in inner)
        )


def disassemble(compiled: CompiledKernel) -> Sass:
    """The machine code of ``compiled``'s entry, with source lines; none of a kernel that is given as PTX."""
    if not compiled.cubin:
        return Sass(compiled.entry, (), ())
    return parse_sass(listing(compiled.cubin, "--print-code", "--print-line-info"), compiled.entry)


def listing(cubin: bytes, *options: str) -> str:
    """What nvdisasm prints of a cubin; raises where it cannot be run, or cannot read the file."""
    with tempfile.TemporaryDirectory(prefix="gemmsmith-") as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        try:
            done = subprocess.run(
                [str(find_nvdisasm()), *options, str(path)],
                capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S, check=False,
            )  # fmt: skip
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CompileError(f"nvdisasm could not be run: {error}") from error
    if done.returncode != 0:
        log = done.stderr or done.stdout
        first = log.strip().splitlines()[0] if log.strip() else f"exit code {done.returncode}"
        raise CompileError(f"nvdisasm cannot read the machine code: {first}", log=log)
    return done.stdout


_INSTRUCTION = re.compile(r"^\s*/\*(?P<offset>[0-9a-f]+)\*/\s+(?P<text>.*?)\s*;?\s*(?:/\*.*\*/)?$")
_LINE = re.compile(r'^\s*//## File "(?P<file>[^"]*)", line (?P<line>\d+)')
_LABEL = re.compile(r"^(?P<name>\.L_\w+):")
_PARTS = re.compile(r"^(?:(?P<predicate>@!?\w+)\s+)?(?P<opcode>[A-Z][\w.]*)\s*(?P<operands>.*)$")


def parse_sass(listing: str, entry: str) -> Sass:
    """Parse nvdisasm's listing; raises when ``entry`` is not in it."""
    instructions: list[Instruction] = []
    labels: list[tuple[str, int]] = []
    pending: list[str] = []
    file: str | None = None
    line: int | None = None
    inside = False
    for row in listing.splitlines():
        if row.split()[:1] == [".section"]:
            inside = row.split(",")[0].split()[-1] == f".text.{entry}"
        elif not inside:
            continue
        elif match := _LINE.match(row):
            file, line = Path(match["file"]).name, int(match["line"])
        elif match := _LABEL.match(row):
            pending.append(match["name"])
        elif (match := _INSTRUCTION.match(row)) and (parts := _PARTS.match(match["text"].strip("{} "))):
            offset = int(match["offset"], 16)
            labels += [(name, offset) for name in pending]
            pending = []
            operands = tuple(o.strip() for o in parts["operands"].split(",") if o.strip())
            text = match["text"].strip("{} ")
            predicate = parts["predicate"] or ""
            instructions.append(Instruction(offset, parts["opcode"], operands, predicate, file, line, text))
    if not instructions:
        raise CompileError(f"no machine code for {entry!r} in what nvdisasm printed", log=listing)
    return Sass(entry, tuple(instructions), tuple(labels))


def _counts(instructions: tuple[Instruction, ...]) -> Counter[str]:
    return Counter(i.base for i in instructions)
