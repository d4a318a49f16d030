"""A simulator for suites that launch the same kernels again and again."""

from __future__ import annotations

from functools import lru_cache

from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.sim.device import LoadedPtx, SimDevice


class ReusingDevice(SimDevice):
    """A simulator that parses each kernel once in a process.

    Loads may be shared because no rung reads a global variable: its named constants are folded into the code.
    """

    def load(self, compiled: CompiledKernel) -> LoadedPtx:
        return _loaded(compiled.ptx, compiled.entry, self.ring)


@lru_cache(maxsize=64)
def _loaded(ptx: str, entry: str, ring: bool) -> LoadedPtx:
    return SimDevice(ring=ring).load_ptx(ptx, entry)
