"""The instructions of a program as the time model sees them: which unit, how long, what they wait for."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from gemmsmith.sim.lowering.operation import Lowered
from gemmsmith.sim.sass.pipes import Pipe, pipe_of
from gemmsmith.sim.sass.program import MachineProgram
from gemmsmith.sim.sass.syntax import MachineInstruction, Register
from gemmsmith.sim.timing.parameters import SmParameters


class Kind(IntEnum):
    """What the model does when an instruction issues."""

    PLAIN = 0  # fixed latency: stall counts say when its result is there
    SHARED_LOAD = 1
    SHARED_STORE = 2
    GLOBAL_LOAD = 3
    GLOBAL_STORE = 4
    COPY = 5  # LDGSTS
    COMMIT = 6  # LDGDEPBAR
    COPY_WAIT = 7  # DEPBAR.LE SB0
    BARRIER = 8
    SYNCS = 9
    TMA = 10
    GMMA = 11
    GMMA_WAIT = 12
    SLOW = 13  # variable latency, signalled by a scoreboard: MUFU, S2R, LDC, conversions
    EXIT = 14
    CLUSTER_ARRIVE = 15
    CLUSTER_WAIT = 16
    SHUFFLE = 17
    ATOMIC = 18
    BARRIER_ARRIVE = 19
    FENCE = 20


class Unit(IntEnum):
    """A unit that instructions of one SM sub-core share."""

    NONE = 0
    FMA = 1  # either half of the FMA pipe
    FMA_HEAVY = 2  # only the half that multiplies integers
    ALU = 3
    FP64 = 4
    XU = 5
    TENSOR = 6
    UNIFORM = 7
    HALF = 8  # both halves of the FMA pipe: pairs of 16-bit numbers
    MIO = 9
    HALF_MMA = 10  # HFMA2.MMA, which ptxas makes of every other product of pairs


class Row(NamedTuple):
    """One instruction. ``busy``: cycles its unit is taken. ``even`` and ``odd``: registers it reads from each bank,
    ``*_alone`` if another warp has issued since the instruction before.

    ``result_bytes`` come back over the sub-core's port for each lane; ``operand_bytes`` go to the memory unit.
    ``hold``: cycles until the sub-core issues again, whatever is next.
    """

    position: int
    kind: int
    unit: int
    busy: float
    stall: int
    write: int
    read: int
    wait: tuple[int, ...]
    even: int
    odd: int
    even_alone: int
    odd_alone: int
    latency: float
    result_bytes: int
    operand_bytes: int
    number: int
    jumps: bool
    following: int
    threads: int
    name: str
    hold: float = 0.0


_KINDS = {
    "LDS": Kind.SHARED_LOAD, "LDSM": Kind.SHARED_LOAD, "STS": Kind.SHARED_STORE, "STSM": Kind.SHARED_STORE,
    "LDG": Kind.GLOBAL_LOAD, "LD": Kind.GLOBAL_LOAD, "LDL": Kind.GLOBAL_LOAD, "STG": Kind.GLOBAL_STORE,
    "ST": Kind.GLOBAL_STORE, "STL": Kind.GLOBAL_STORE, "LDGSTS": Kind.COPY, "LDGDEPBAR": Kind.COMMIT,
    "DEPBAR": Kind.COPY_WAIT, "SYNCS": Kind.SYNCS, "UTMALDG": Kind.TMA, "STAS": Kind.TMA, "UBLKCP": Kind.TMA,
    "UTMASTG": Kind.TMA, "UTMACMDFLUSH": Kind.COMMIT,
    "HGMMA": Kind.GMMA,
    "IGMMA": Kind.GMMA, "QGMMA": Kind.GMMA, "EXIT": Kind.EXIT, "UCGABAR_ARV": Kind.CLUSTER_ARRIVE,
    "UCGABAR_WAIT": Kind.CLUSTER_WAIT, "SHFL": Kind.SHUFFLE, "ATOM": Kind.ATOMIC, "ATOMG": Kind.ATOMIC,
    "RED": Kind.ATOMIC, "REDG": Kind.ATOMIC, "ATOMS": Kind.SHARED_LOAD, "MEMBAR": Kind.FENCE,
    "MUFU": Kind.SLOW, "I2F": Kind.SLOW, "F2I": Kind.SLOW, "F2F": Kind.SLOW, "FRND": Kind.SLOW, "POPC": Kind.SLOW,
    "FLO": Kind.SLOW, "BREV": Kind.SLOW, "S2R": Kind.SLOW, "S2UR": Kind.SLOW, "LDC": Kind.SLOW, "B2R": Kind.SLOW,
    "REDUX": Kind.SLOW, "VOTEU": Kind.SLOW, "MATCH": Kind.SLOW, "FENCE": Kind.SLOW,
}  # fmt: skip
_WIDTH = {"64": 8, "128": 16, "U8": 4, "S8": 4, "U16": 4, "S16": 4}


WARP_PRODUCTS = ("HMMA", "IMMA", "QMMA")
WARPGROUP_PRODUCTS = ("HGMMA", "IGMMA", "QGMMA")


def rows_of(program: MachineProgram, model: SmParameters) -> list[Row | None]:
    """A row for each position that stands for an instruction."""
    found: list[Row | None] = [None] * len(program.instructions)
    for row in program.fact(_without_costs):
        i = program.instructions[row.position]
        unit, busy = _unit(i, Kind(row.kind), model)
        latency = _latency(i, Kind(row.kind), model)
        hold = min(busy, model.mma_dispatch) - _narrow_sums(i) if i.opcode in WARP_PRODUCTS else 0.0
        stall = stall_of(i, row.stall, model)
        made = row._replace(unit=unit, busy=busy, latency=latency, hold=hold, stall=stall)
        free = made._replace(even=0, odd=0, even_alone=0, odd_alone=0)
        found[row.position] = made if model.register_banks else free
    return found


def stall_of(i: MachineInstruction, count: int, model: SmParameters) -> int:
    """Cycles until the next instruction of the warp, at least: the stall ``count``, more for a branch on all lanes."""
    return max(count, model.branch_any) if i.opcode == "BRA" and "ANY" in i.modifiers else count


def _without_costs(program: Lowered) -> list[Row]:
    """The rows with what does not depend on parameters; their units and costs are still to be filled in."""
    assert isinstance(program, MachineProgram)
    found = []
    before: MachineInstruction | None = None
    counted = sorted(program.counted)
    for position, following in zip(counted, [*counted[1:], -1], strict=True):
        i = program.instructions[position]
        control, kind = i.control, instruction_kind(i)
        result, operand = _bytes(i, kind)
        found.append(Row(
            position, kind, Unit.NONE, 0.0, max(1, control.stall),
            -1 if control.write_barrier is None else control.write_barrier,
            -1 if control.read_barrier is None else control.read_barrier, control.wait,
            *_reads(i, before), *_reads(i, None), 0.0, result, operand, _number(i, kind),
            i.opcode in ("BRA", "JMP", "CALL", "RET", "BRX"), following,
            _threads(i) if kind in (Kind.BARRIER, Kind.BARRIER_ARRIVE) else 0, i.name,
        ))  # fmt: skip
        before = i
    return found


def instruction_kind(i: MachineInstruction) -> Kind:
    """What the model does when ``i`` issues."""
    if i.opcode == "BAR":
        return Kind.BARRIER_ARRIVE if "ARV" in i.modifiers else Kind.BARRIER
    if i.opcode == "WARPGROUP":
        return Kind.GMMA_WAIT if "DEPBAR" in i.modifiers else Kind.PLAIN
    if i.opcode == "FENCE":
        return Kind.SLOW
    return _KINDS.get(i.opcode, Kind.PLAIN)


def _unit(i: MachineInstruction, kind: Kind, model: SmParameters) -> tuple[Unit, float]:
    if kind is Kind.GMMA:
        return Unit.TENSOR, gmma_cycles(i, model)
    if kind in (Kind.SHARED_LOAD, Kind.SHARED_STORE, Kind.GLOBAL_LOAD, Kind.GLOBAL_STORE, Kind.COPY, Kind.SHUFFLE,
                Kind.ATOMIC):  # fmt: skip
        return Unit.MIO, model.mio_issue
    pipe = pipe_of(i)
    if pipe is Pipe.FMA:
        if i.opcode in ("FFMA", "FMUL", "FADD"):
            return Unit.FMA, model.fma
        if i.opcode in ("HFMA2", "HADD2", "HMUL2"):
            return Unit.HALF, model.half
        wide = i.opcode == "IMAD" and ("WIDE" in i.modifiers or "HI" in i.modifiers)
        return Unit.FMA_HEAVY, model.imad_wide if wide else model.imad
    if pipe is Pipe.ALU:
        return Unit.ALU, model.alu
    if pipe is Pipe.FP64:
        return Unit.FP64, model.fp64
    if pipe is Pipe.XU:
        return Unit.XU, model.xu
    if pipe is Pipe.UNIFORM:
        return Unit.UNIFORM, model.uniform
    if i.opcode == "DMMA":
        return Unit.FP64, dmma_cycles(i, model)
    if pipe is Pipe.TENSOR:
        return (Unit.HALF_MMA, model.half) if i.opcode == "HFMA2" else (Unit.TENSOR, mma_cycles(i, model))
    return Unit.NONE, 1


def mma_cycles(i: MachineInstruction, model: SmParameters) -> float:
    """Cycles a sub-core's tensor core takes for one HMMA, IMMA or QMMA."""
    m, n, k = _mma_shape(i)
    narrow = i.opcode == "IMMA" or _narrow_sums(i)
    rate = model.mma_narrow_fma16 if narrow and model.mma_narrow_fma16 else model.mma_fma16
    return m * n * k * _bits(i) / 16 / rate


def dmma_cycles(i: MachineInstruction, model: SmParameters) -> float:
    """Cycles that a sub-core takes for one product of doubles; one of eight rows takes as long as one of sixteen."""
    _, _, k = _dmma_shape(i)
    return model.dmma_cycles * k / 4


def _dmma_shape(i: MachineInstruction) -> tuple[int, int, int]:
    m, n, k = (int(x) for x in next(s for s in i.modifiers if s.count("x") == 2).split("x"))
    return m, n, k


def _narrow_sums(i: MachineInstruction) -> bool:
    """Whether a warp's product adds in fp16."""
    return i.opcode in ("HMMA", "QMMA") and "F16" in i.modifiers


def tensor_flops(i: MachineInstruction) -> int:
    """FLOPs of one warp's product; the four warps of a warpgroup share a wgmma. 0 for other instructions."""
    if i.opcode in WARPGROUP_PRODUCTS:
        m, n, k = _gmma_shape(i)
        return 2 * m * n * k // 4
    if i.opcode == "DMMA":
        m, n, k = _dmma_shape(i)
        return 2 * m * n * k
    if i.opcode in WARP_PRODUCTS:
        m, n, k = _mma_shape(i)
        return 2 * m * n * k
    return 0


def _mma_shape(i: MachineInstruction) -> tuple[int, int, int]:
    shape = next((m for m in i.modifiers if m.isdigit() and len(m) >= 3), "16816")
    extents = {"16816": (16, 8, 16), "1688": (16, 8, 8), "1684": (16, 8, 4), "884": (8, 8, 4), "16832": (16, 8, 32),
               "16864": (16, 8, 64), "8816": (8, 8, 16)}  # fmt: skip
    return extents.get(shape, (16, 8, 16))


def _gmma_shape(i: MachineInstruction) -> tuple[int, int, int]:
    m, n, k = (int(x) for x in next(s for s in i.modifiers if "x" in s).split("x"))
    return m, n, k


def gmma_cycles(i: MachineInstruction, model: SmParameters) -> float:
    """Cycles that one wgmma takes: by arithmetic, or by the shared memory that it reads."""
    m, n, k = _gmma_shape(i)
    bits = _bits(i)
    in_registers = isinstance(i.operands[1], Register)
    arithmetic = m * n * k * bits / 16 / model.gmma_fma16
    nbytes = (n * k + (0 if in_registers else m * k)) * bits / 8
    return max(arithmetic, nbytes / model.shared_bytes)


def _bits(i: MachineInstruction) -> int:
    if "TF32" in i.modifiers:
        return 32
    if i.opcode.startswith(("I", "Q")):
        return 4 if "S4" in i.modifiers or "U4" in i.modifiers else 8
    return 16


def _latency(i: MachineInstruction, kind: Kind, model: SmParameters) -> float:
    if kind is Kind.SLOW:
        if i.opcode in ("S2R", "S2UR"):
            return model.special_register
        return model.constant if i.opcode == "LDC" else model.xu_latency
    if i.opcode == "DMMA":
        return dmma_cycles(i, model) + model.dmma_latency - (8.0 if _dmma_shape(i)[0] == 8 else 0.0)
    if kind is Kind.PLAIN and pipe_of(i) is Pipe.TENSOR:
        return model.mma_latency
    return 0


def _bytes(i: MachineInstruction, kind: Kind) -> tuple[int, int]:
    """(bytes of a lane that come back, bytes of a lane that go to the memory unit)."""
    width = next((_WIDTH[m] for m in i.modifiers if m in _WIDTH), 4)
    if kind is Kind.SHARED_LOAD:
        if i.opcode == "LDSM":
            width = next((int(m) for m in i.modifiers if m in ("2", "4")), 1) * 4
        return width, 4
    if kind is Kind.GLOBAL_LOAD:
        return width, 8
    if kind is Kind.SHARED_STORE:
        return 0, width + 4
    if kind is Kind.GLOBAL_STORE:
        return 0, width + 8
    if kind is Kind.COPY:
        return 0, 12
    if kind is Kind.SHUFFLE:
        return 4, 4
    return 0, 0


def _number(i: MachineInstruction, kind: Kind) -> int:
    """Groups that may stay in flight, the number of a barrier, or the reach of a fence."""
    if kind in (Kind.COPY_WAIT, Kind.GMMA_WAIT):
        return int(str(i.operands[1]), 0)
    if kind in (Kind.BARRIER, Kind.BARRIER_ARRIVE):
        text = str(i.operands[0]) if i.operands else "0"
        return int(text, 0) if text[:1].isdigit() else 0
    if kind is Kind.COPY:  # whether it goes past L1
        return 1 if "BYPASS" in i.modifiers else 0
    if kind is Kind.FENCE:  # whether it reaches beyond the block
        return 0 if "CTA" in i.modifiers else 1
    if kind is Kind.GMMA:
        return 1 if any(str(o) == "gsb0" for o in i.operands) else 0
    return 0


def _threads(i: MachineInstruction) -> int:
    """How many threads a named barrier waits for; 0 for the whole block."""
    if len(i.operands) > 1:
        text = str(i.operands[1])
        return int(text, 0) if text[:1].isdigit() else 0
    return 0


def _reads(i: MachineInstruction, before: MachineInstruction | None) -> tuple[int, int]:
    """Registers that an instruction reads from the even and from the odd bank, each of which gives one a cycle.

    An operand that the instruction before kept in the reuse cache, in the same slot, is not read.
    """
    if i.opcode not in _READERS:
        return 0, 0
    if i.opcode in WARP_PRODUCTS:  # A, B and C have four, two and four registers, half of them in each bank; fp16 C two
        same = before is not None and before.opcode == i.opcode and _sources(before)[0].number == _sources(i)[0].number
        kept_a = same and before is not None and "reuse" in _sources(before)[0].suffixes
        each = (3 if kept_a else 5) - _narrow_sums(i)
        return each, each
    kept = {n: o.number for n, o in enumerate(_sources(before)) if "reuse" in o.suffixes} if before is not None else {}
    banks = [0, 0]
    seen: set[int] = set()
    for slot, operand in enumerate(_sources(i)):
        number = operand.number
        if operand.file != "R" or number is None or kept.get(slot) == number or number in seen:
            continue
        seen.add(number)
        banks[number % 2] += 1
    return banks[0], banks[1]


_READERS = (
    "HMMA",
    "IMMA",
    "QMMA",
    "FFMA",
    "FMUL",
    "FADD",
    "IMAD",
    "HFMA2",
    "IADD3",
    "LOP3",
    "LEA",
    "VIADD",
    "SHF",
    "PRMT",
    "SEL",
    "FSEL",
    "F2FP",
)


def _sources(i: MachineInstruction) -> list[Register]:
    """The operands that are read, in their slots; what is no register stands as RZ."""
    return [o if isinstance(o, Register) else Register("R", None) for o in i.operands[1:]
            if not (isinstance(o, Register) and o.predicate)]  # fmt: skip
