"""When each warp of a block does what, in cycles of the time model: for views that draw a launch in time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gemmsmith.errors import UsageError
from gemmsmith.explain.timing.predict import Predictor
from gemmsmith.gpus import GPU
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.sim.sass.syntax import MachineInstruction
from gemmsmith.sim.timing import table
from gemmsmith.sim.timing.outcome import REASONS, WAIT
from gemmsmith.sim.timing.watched import Issued
from gemmsmith.trace.launch_trace import Kind

_PAUSE = 8.0  # cycles: a longer wait ends a span
_FLOATING = ("FFMA", "FADD", "FMUL", "HFMA2", "HADD2", "HMUL2", "DFMA", "DADD", "DMUL")
_KINDS = {
    table.Kind.SHARED_LOAD: Kind.LOAD_SHARED, table.Kind.SHARED_STORE: Kind.STORE_SHARED,
    table.Kind.GLOBAL_LOAD: Kind.LOAD_GLOBAL, table.Kind.GLOBAL_STORE: Kind.STORE_GLOBAL, table.Kind.COPY: Kind.COPY,
    table.Kind.COMMIT: Kind.COMMIT, table.Kind.COPY_WAIT: Kind.WAIT, table.Kind.GMMA_WAIT: Kind.WAIT,
    table.Kind.BARRIER: Kind.BARRIER, table.Kind.BARRIER_ARRIVE: Kind.BARRIER, table.Kind.CLUSTER_ARRIVE: Kind.BARRIER,
    table.Kind.CLUSTER_WAIT: Kind.BARRIER, table.Kind.TMA: Kind.BULK_LOAD, table.Kind.GMMA: Kind.WGMMA,
    table.Kind.ATOMIC: Kind.ATOMIC, table.Kind.FENCE: Kind.FENCE,
}  # fmt: skip
_OPCODES = {"LDSM": Kind.LOAD_MATRIX, "STSM": Kind.STORE_MATRIX, "HMMA": Kind.MMA, "IMMA": Kind.MMA, "QMMA": Kind.MMA,
            "LDL": Kind.LOCAL, "STL": Kind.LOCAL, "UTMASTG": Kind.BULK_STORE}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Span:
    """Instructions of one kind that a warp issued one after the other, in cycles from the start of the block.

    since   when the warp began to wait for the first of them: the end of the span before
    start   when the first issued; ``start - since`` cycles were lost to ``reason`` (a stall reason of ncu)
    end     the cycle after the last issued
    landed  when the last result was there (loads, copies, TMA, wgmma); 0 for instructions with fixed latency
    count   how many instructions; ``file`` and ``line`` are those of the first
    """

    kind: Kind
    since: float
    start: float
    end: float
    landed: float
    reason: str
    count: int
    file: str
    line: int


@dataclass(frozen=True)
class WarpCycles:
    """A warp of the block, by its number in it."""

    number: int
    spans: tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class InstructionCycles:
    """One machine instruction: how often warps of the block issued it, and the cycles they waited for it by reason."""

    offset: int
    file: str
    line: int
    issued: int
    stalls: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class BlockCycles:
    """One block among those that share its SM. ``k`` is what was executed: the problem's, or fewer k-tiles of it.

    ``cycles`` is when the block's last instruction issued. All figures are predicted.
    """

    block: int
    gpu: str
    k: int
    resident: int
    cycles: float
    warps: tuple[WarpCycles, ...]
    instructions: tuple[InstructionCycles, ...] = ()
    origin: str = "predicted"


def block_cycles(
    spec: KernelSpec, config: Config, problem: Problem, gpu: GPU, block: int = 0, depth: int = 0
) -> BlockCycles:
    """Run the time model on the blocks that share an SM with ``block``, and say when its warps did what.

    ``depth``: the K to execute, at most the problem's; 0: as much as the time model takes for a steady state. Raises
    ``UnsupportedError``, ``UnknownInstructionError`` or ``SimulationError`` where ``explain`` has no time either.
    """
    predictor = Predictor(spec, config, problem, gpu)
    if not 0 <= block < predictor.blocks:
        raise UsageError(f"there is no block {block}: the launch has {predictor.blocks}", "blocks count from 0")
    sample, log = predictor.watched(block, depth)
    numbers = {n: stream.warp for n, stream in enumerate(sample.streams) if stream.block == block}
    mine: dict[int, list[Issued]] = {n: [] for n in numbers}
    for issued in log:
        if issued.warp in mine:
            mine[issued.warp].append(issued)
    code = predictor.program.instructions
    warps = tuple(WarpCycles(numbers[n], _spans(found, code)) for n, found in mine.items())
    last = max((warp.spans[-1].end for warp in warps if warp.spans), default=0.0)
    return BlockCycles(block, gpu.name, sample.k, predictor.resident, last, warps, _by_instruction(mine, code))


def _by_instruction(
    mine: Mapping[int, Sequence[Issued]], code: Sequence[MachineInstruction]
) -> tuple[InstructionCycles, ...]:
    counts: dict[int, int] = {}
    waits: dict[int, dict[str, float]] = {}
    for found in mine.values():
        for issued in found:
            position = issued.row.position
            counts[position] = counts.get(position, 0) + 1
            if issued.at > issued.since:
                tally = waits.setdefault(position, {})
                tally[REASONS[issued.reason]] = tally.get(REASONS[issued.reason], 0.0) + issued.at - issued.since
    return tuple(
        InstructionCycles(code[position].offset, code[position].file, code[position].line, counts[position],
                          tuple(sorted(waits.get(position, {}).items(), key=lambda item: -item[1])))
        for position in sorted(counts)
    )  # fmt: skip


def kind_of(row: table.Row, instruction: MachineInstruction) -> Kind:
    """What a machine instruction does, in the words of a trace."""
    opcode = instruction.opcode
    if opcode in _OPCODES:
        return _OPCODES[opcode]
    if row.kind == table.Kind.SYNCS:
        return Kind.PHASE_WAIT if "PHASECHK" in instruction.modifiers else Kind.ARRIVE
    return _KINDS.get(table.Kind(row.kind)) or (Kind.ARITHMETIC if opcode in _FLOATING else Kind.OTHER)


def _spans(found: Sequence[Issued], code: Sequence[MachineInstruction]) -> tuple[Span, ...]:
    spans: list[Span] = []
    open_since = 0.0
    run: list[Issued] = []
    kind = Kind.OTHER

    def close() -> None:
        nonlocal open_since
        first, last = run[0], run[-1]
        i = code[first.row.position]
        reason = REASONS[first.reason if first.at > open_since else WAIT]
        spans.append(Span(kind, open_since, first.at, last.at + 1, max(each.done for each in run), reason, len(run),
                          i.file, i.line))  # fmt: skip
        open_since = last.at + 1

    for issued in found:
        mine = kind_of(issued.row, code[issued.row.position])
        if run and (mine is not kind or issued.at - issued.since > _PAUSE):
            close()
            run = []
        kind = mine
        run.append(issued)
    if run:
        close()
    return tuple(spans)
