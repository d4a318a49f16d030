"""PTX's special registers: one record each, with the function that gives its value in every lane.

To add one, add a line to ``SPECIAL``. A register that is not here is refused by name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.wave import WARP, Wave, coordinates, linear


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


# The address of the local variables of the function that a lane is in. PTX has no name for it.
FRAME = "frame:"
# The first bytes of shared memory, which CUDA keeps for itself; they start as zeros. A kernel has them if it reads a
# register whose name begins so.
RESERVED, RESERVED_BYTES = "%reserved_smem_offset_", 1024
# Half of the address of a cooperative launch's workspace: a kernel that reads it uses grid.sync(), or may.
WORKSPACE = "%envreg2"
_SMS = 132  # of an H200


def _bit(at: Place) -> Array:
    """The bit of each lane in a mask of its warp."""
    bits: Array = np.left_shift(np.int64(1), at.thread % WARP)
    return bits


def _in_cluster(n: int) -> Value:
    """Where a block is in its cluster, along one axis."""
    return lambda at: coordinates(at.block, at.wave.grid)[n] % at.wave.cluster[n]


def _rank(at: Place) -> int | Array:
    return linear(tuple(_in_cluster(n)(at) for n in range(3)), at.wave.cluster)


def _axes(name: str, value: Callable[[int], Value]) -> dict[str, SpecialRegister]:
    return {f"%{name}.{axis}": SpecialRegister(value(n)) for n, axis in enumerate("xyz")}


SPECIAL: dict[str, SpecialRegister] = {
    **_axes("tid", lambda n: lambda at: coordinates(at.thread, at.wave.block)[n]),
    **_axes("ntid", lambda n: lambda at: at.wave.block[n]),
    **_axes("ctaid", lambda n: lambda at: coordinates(at.block, at.wave.grid)[n]),
    **_axes("nctaid", lambda n: lambda at: at.wave.grid[n]),
    **_axes("cluster_ctaid", _in_cluster),
    **_axes("cluster_nctaid", lambda n: lambda at: at.wave.cluster[n]),
    **_axes("clusterid", lambda n: lambda at: coordinates(at.block, at.wave.grid)[n] // at.wave.cluster[n]),
    **_axes("nclusterid", lambda n: lambda at: at.wave.grid[n] // at.wave.cluster[n]),
    "%cluster_ctarank": SpecialRegister(_rank),
    "%cluster_nctarank": SpecialRegister(lambda at: at.wave.cluster_blocks),
    "%is_explicit_cluster": SpecialRegister(lambda at: at.wave.explicit, 1),
    "%laneid": SpecialRegister(lambda at: at.thread % WARP),
    "%warpid": SpecialRegister(lambda at: at.thread // WARP),
    "%nwarpid": SpecialRegister(lambda _: 64),  # warps of an SM
    "%smid": SpecialRegister(lambda at: at.block % _SMS),
    "%nsmid": SpecialRegister(lambda _: _SMS),
    "%gridid": SpecialRegister(lambda _: 1, 8),
    # The workspace of a cooperative launch, in two halves; cooperative groups read its address here.
    "%envreg1": SpecialRegister(lambda at: at.wave.workspace >> 32),
    WORKSPACE: SpecialRegister(lambda at: at.wave.workspace & 0xFFFFFFFF),
    "%total_smem_size": SpecialRegister(lambda at: at.wave.shared_size),
    "%lanemask_eq": SpecialRegister(lambda at: _bit(at)),
    "%lanemask_lt": SpecialRegister(lambda at: _bit(at) - 1),
    "%lanemask_le": SpecialRegister(lambda at: 2 * _bit(at) - 1),
    "%lanemask_gt": SpecialRegister(lambda at: (1 << WARP) - 2 * _bit(at)),
    "%lanemask_ge": SpecialRegister(lambda at: (1 << WARP) - _bit(at)),
    RESERVED: SpecialRegister(lambda _: 0),
    FRAME: SpecialRegister(lambda _: 0, 8),
}
# Read when the instruction runs, not once: see instructions/clock.py.
CLOCKS = ("%clock", "%clock_hi", "%clock64", "%globaltimer", "%globaltimer_lo", "%globaltimer_hi")
