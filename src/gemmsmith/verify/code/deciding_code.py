"""Which instructions of a kernel decide where its threads go: branches, sites, and what these depend on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from gemmsmith.sim.ptx.syntax import Immediate, Instruction, Negated, Register, Symbol, Vector
from gemmsmith.verify.code.integer_ops import conversion, type_of


def limit_of(each: Instruction) -> int | None:
    """The number at which an instruction begins to change its first operand; 0: its second operand; None: never."""
    if each.opcode in ("min", "max"):
        return 0
    last = each.operands[-1]
    if each.opcode == "and" and isinstance(last, Immediate) and 0 < last.bits < 1 << 31:
        kept = last.bits | ((last.bits & -last.bits) - 1)  # with the bits below the mask, which are no limit
        return kept if kept & (kept + 1) == 0 else None
    if each.opcode == "rem" and isinstance(last, Immediate) and last.bits > 1:
        return last.bits - 1
    return None


def written_registers(each: Instruction) -> list[str]:
    """The registers that an instruction writes."""
    if each.opcode in ("st", "bra", "brx", "ret", "exit", "bar", "barrier", "red", "membar", "fence", "cp", "trap"):
        return []
    first = each.operands[:1]
    if each.opcode in ("setp", "shfl", "match") and len(each.operands) > 1:
        combined = any(word in ("and", "or", "xor") for word in each.name.split("."))
        first = each.operands[: 2 if each.opcode == "setp" and len(each.operands) > 3 + combined else 1]
    found: list[str] = []
    for operand in first:
        items = operand.items if isinstance(operand, Vector) else (operand,)
        found += [item.name for item in items if isinstance(item, Register)]
    return found


def read_registers(each: Instruction) -> list[str]:
    found: list[str] = []
    for operand in each.operands[1:] if each.opcode not in ("bra", "brx") else each.operands:
        if isinstance(operand, Register):
            found.append(operand.name)
        elif isinstance(operand, Negated):
            found.append(operand.register.name)
    return found + ([each.guard.name] if each.guard is not None else [])


JUMPS = ("bra", "brx", "ret", "exit", "trap")
BARRIERS = ("bar", "barrier")
CONTROL = (*JUMPS, *BARRIERS)
_OWN = ("%tid", "%laneid", "%warpid", "%lanemask")  # values of a thread or warp
_LOADS = ("ld", "ldu", "atom", "shfl", "vote", "match", "redux", "mma", "wmma", "wgmma", "ldmatrix", "tex",
          "activemask")  # fmt: skip


def has_site(each: Instruction) -> bool:
    kind, types = type_of(each.name), conversion(each.name)
    if each.opcode == "cvt":
        return types is not None and types[0][1] < types[1][1]
    if kind is None or kind[0] == "f":
        return False
    return each.opcode == "setp" or limit_of(each) is not None


Sites = Callable[[Instruction], bool]
"""Whether what an instruction does with its operands is looked at."""


def needed_registers(instructions: Sequence[Instruction], is_site: Sites = has_site) -> set[str]:
    """The registers that branches and sites depend on."""
    needed: set[str] = set()
    for each in instructions:
        if each.opcode in CONTROL or is_site(each):
            needed.update(read_registers(each))
            needed.update(written_registers(each))
    writers: dict[str, list[Instruction]] = {}
    for each in instructions:
        for name in written_registers(each):
            writers.setdefault(name, []).append(each)
    return _all_reached(needed, writers, read_registers)


def _all_reached(names: set[str], through: Mapping[str, Sequence[Instruction]],
                 further: Callable[[Instruction], Sequence[str]]) -> set[str]:  # fmt: skip
    """``names``, and all registers that lead from these: those that ``further`` has of the instructions ``through``."""
    found, pending = set(names), list(names)
    while pending:
        for each in through.get(pending.pop(), ()):
            fresh = [name for name in further(each) if name not in found]
            found.update(fresh)
            pending += fresh
    return found


def is_kept(each: Instruction, needed: set[str], is_site: Sites = has_site) -> bool:
    return each.opcode in CONTROL or is_site(each) or any(name in needed for name in written_registers(each))


def thread_registers(instructions: Sequence[Instruction], loaded: bool = True) -> set[str]:
    """The registers whose values may differ among the threads of a block, or come from memory if ``loaded``."""
    own: set[str] = set()
    readers: dict[str, list[Instruction]] = {}
    for each in instructions:
        for name in read_registers(each):
            readers.setdefault(name, []).append(each)
        special = any(isinstance(o, Symbol) and o.name.startswith(_OWN) for o in each.operands)
        read = loaded and each.opcode in _LOADS and ".param" not in each.name
        if special or read:
            own.update(written_registers(each))
    return _all_reached(own, readers, written_registers)
