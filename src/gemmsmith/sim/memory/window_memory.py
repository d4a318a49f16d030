"""Shared and local memory: a window for each block or thread, and which of its bytes were ever written."""

from __future__ import annotations

import numpy as np

from gemmsmith.sim.lowering.traits import Space
from gemmsmith.sim.memory.access_faults import AccessFault, Unwritten
from gemmsmith.sim.memory.global_memory import PEER_OFFSET, PEER_SHIFT, RAW, SHIFT, check_alignment
from gemmsmith.sim.ptx.types import Array


class WindowMemory:
    """Memory in windows of equal size: one for each block (shared) or each thread (local)."""

    def __init__(self, space: Space, windows: int, size: int) -> None:
        self.space, self.size = space, size
        self.stride = max(16, -(-size // 16) * 16)
        self.data = np.full(windows * self.stride, 0xCD, np.uint8)
        self.cluster = 0  # windows that reach one another, in groups of as many; 0: addresses have no ranks
        self.check = True  # whether reading what was never written is a fault
        # Four bits for the four bytes of each word: which were ever written.
        self.written = np.zeros(windows * self.stride // 4, np.uint8)

    def clear(self, nbytes: int) -> None:
        """Write zeros to the first bytes, a multiple of four, of every window."""
        self.data.reshape(-1, self.stride)[:, :nbytes] = 0
        self.written.reshape(-1, self.stride // 4)[:, : nbytes // 4] = 0x0F

    def index(self, addresses: Array, bases: Array, width: int) -> Array:
        """Byte positions in ``data`` for addresses inside each lane's window."""
        check_alignment(addresses, width, self.space)
        highest = int(addresses.max()) if addresses.size else 0
        if self.cluster and highest >> PEER_SHIFT:
            addresses, bases = self.mapped(addresses, bases)
            highest = int(addresses.max())
        if addresses.size and highest + width > self.size:
            position = int(np.flatnonzero(addresses.reshape(-1) > max(self.size - width, -1))[0])
            address = int(addresses.reshape(-1)[position])
            owner = "block" if self.space is Space.SHARED else "thread"
            way_out = "; smem (--smem) is its dynamic part" if not self.size and self.space is Space.SHARED else ""
            raise AccessFault("out-of-bounds", position, address,
                              f"the {owner} has {self.size} bytes of {self.space} memory{way_out}",
                              self.space)  # fmt: skip
        return addresses.astype(np.int64) + bases

    def mapped(self, addresses: Array, bases: Array) -> tuple[Array, Array]:
        """Addresses inside windows of the cluster, and where those windows start: ``mapa`` chooses another block's."""
        ranks, inside = (addresses >> PEER_SHIFT).astype(np.int64), addresses & addresses.dtype.type(PEER_OFFSET)
        beyond = ranks > self.cluster
        if beyond.any():
            position = int(np.flatnonzero(beyond.reshape(-1))[0])
            raise AccessFault("out-of-bounds", position, int(addresses.reshape(-1)[position]),
                              f"the block has {self.size} bytes of {self.space} memory", self.space)  # fmt: skip
        first = bases // (self.stride * self.cluster) * (self.stride * self.cluster)
        return inside, np.where(ranks > 0, first + (ranks - 1) * self.stride, bases)

    def gather(self, index: Array, width: int, used: Array | None = None) -> Array:
        """The bytes at these positions. ``used``: which of the bytes of each row of accesses must have been written."""
        if self.check:
            if used is None:
                self._check_written(index, width)
            else:
                self._check_used(index, used)
        return self.data.view(RAW[width]).take(index >> SHIFT[width])

    def scatter(self, index: Array, width: int, values: Array) -> None:
        element = index >> SHIFT[width]
        self.data.view(RAW[width])[element] = values
        if width >= 4:
            self.written.view(RAW[width // 4])[element] = 0x0F0F0F0F & ((1 << (2 * width)) - 1)
        else:
            bits = (((1 << width) - 1) << (index % 4)).astype(np.uint8)
            np.bitwise_or.at(self.written, index // 4, bits)

    def _check_written(self, index: Array, width: int) -> None:
        if width >= 4:
            full = 0x0F0F0F0F & ((1 << (2 * width)) - 1)
            good = self.written.view(RAW[width // 4]).take(index >> SHIFT[width]) == full
        else:
            bits = (((1 << width) - 1) << (index % 4)).astype(np.uint8)
            good = (self.written.take(index // 4) & bits) == bits
        self._require(good, index)

    def _check_used(self, index: Array, used: Array) -> None:
        rows = index.reshape(used.shape[0], -1)
        good = np.ones(rows.shape, bool)
        for n, row in enumerate(used):
            for byte in np.flatnonzero(row):
                at = rows[n] + byte
                good[n] &= self.written.take(at // 4) >> (at % 4).astype(np.uint8) & 1 == 1
        self._require(good, index)

    def _require(self, good: Array, index: Array) -> None:
        if not good.all():
            position = int(np.flatnonzero(~good.reshape(-1))[0])
            address = int(index.reshape(-1)[position]) % self.stride
            raise Unwritten(position, address, int(index.reshape(-1)[position]), self.space)
