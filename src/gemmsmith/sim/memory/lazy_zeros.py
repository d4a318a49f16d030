"""Arrays of zeros that may be larger than the machine's memory."""

from __future__ import annotations

import mmap

import numpy as np

from gemmsmith.sim.ptx.types import Array

_LARGE = 1 << 30
_NORESERVE = 0x4000  # mmap.MAP_NORESERVE, which Python names from 3.13 on; the same on x86-64 and ARM64


def lazy_zeros(nbytes: int) -> Array:
    """Zeros whose pages exist once they are touched: a simulated matrix may be larger than the machine's memory.

    Linux refuses np.zeros an array larger than its memory. MAP_NORESERVE says that most of it will never be touched.
    """
    if nbytes < _LARGE:
        return np.zeros(nbytes, np.uint8)
    return np.frombuffer(mmap.mmap(-1, nbytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE), np.uint8)
