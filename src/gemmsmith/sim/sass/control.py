"""The control bits of a machine instruction: what the compiler tells the scheduler.

Since sm_70 an instruction has 128 bits. Bits 105 and up hold, in this order: stall cycles (4 bits), yield (1), the
scoreboard that is released when the result is written (3), the one that is released when the operands have been read
(3), the scoreboards to wait for (6), and which operands stay in the reuse cache (4).
"""

from __future__ import annotations

from dataclasses import dataclass

_FIRST = 105
_NONE = 7  # the number that means no scoreboard


@dataclass(frozen=True, slots=True)
class Control:
    """``stall``: cycles before the next instruction of the warp may issue. ``hold``: prefer this warp (the yield bit,
    which is set to stay). ``write_barrier`` and ``read_barrier``: scoreboards, None for none. ``wait``: scoreboards
    that must be free before issue. ``reuse``: operand slots, first to fourth, kept for the next instruction.
    """

    stall: int
    hold: bool
    write_barrier: int | None
    read_barrier: int | None
    wait: tuple[int, ...]
    reuse: tuple[int, ...]

    @classmethod
    def of(cls, encoding: int) -> Control:
        bits = encoding >> _FIRST
        write, read = bits >> 5 & 7, bits >> 8 & 7
        return cls(
            stall=bits & 15,
            hold=bool(bits >> 4 & 1),
            write_barrier=None if write == _NONE else write,
            read_barrier=None if read == _NONE else read,
            wait=tuple([n for n in range(6) if bits >> 11 + n & 1]),
            reuse=tuple([n for n in range(4) if bits >> 17 + n & 1]),
        )
