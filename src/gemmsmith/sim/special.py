"""PTX's special registers: one record each, with the function that gives its value in every lane.

To add one, add a line to ``SPECIAL``. A register that is not here is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gemmsmith.sim.types import Array
from gemmsmith.sim.wave import WARP, Wave, coordinates


@dataclass(frozen=True)
class Place:
    """Where each lane of a wave is: its thread within the block, and the linear number of its block."""

    wave: Wave
    thread: Array
    block: Array


Value = Callable[[Place], int | Array]


@dataclass(frozen=True)
class SpecialRegister:
    """A register that the kernel only reads. Its value is set when a wave starts."""

    value: Value
    nbytes: int = 4


def _axes(name: str, value: Callable[[int], Value]) -> dict[str, SpecialRegister]:
    return {f"%{name}.{axis}": SpecialRegister(value(n)) for n, axis in enumerate("xyz")}


SPECIAL: dict[str, SpecialRegister] = {
    **_axes("tid", lambda n: lambda at: coordinates(at.thread, at.wave.block)[n]),
    **_axes("ntid", lambda n: lambda at: at.wave.block[n]),
    **_axes("ctaid", lambda n: lambda at: coordinates(at.block, at.wave.grid)[n]),
    **_axes("nctaid", lambda n: lambda at: at.wave.grid[n]),
    "%laneid": SpecialRegister(lambda at: at.thread % WARP),
    "%warpid": SpecialRegister(lambda at: at.thread // WARP),
}
