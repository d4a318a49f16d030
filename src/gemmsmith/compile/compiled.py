"""The result of the compile stage: machine code, PTX and resources."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Resources:
    """Resources of a compiled kernel, as ptxas reports them."""

    registers: int
    static_smem: int
    stack: int
    spill_stores: int
    spill_loads: int
    const_bytes: int
    barriers: int

    @property
    def spills(self) -> bool:
        return self.spill_stores > 0 or self.spill_loads > 0


@dataclass(frozen=True)
class CompiledKernel:
    """A kernel for one architecture: PTX for the simulator, cubin for the GPU."""

    entry: str
    arch: str
    ptx: str
    cubin: bytes
    resources: Resources
    log: str
    compiler: str
    key: str
    cached: bool
    cache_path: str
    note: str = ""
