"""The device heap: what malloc and free of a kernel manage.

Blocks lie apart in one allocation, and freed memory is not given out again while there is other: an access beyond a
block, or after its free, is a fault that names the block. As on a GPU, blocks are aligned to 16 bytes, malloc(0) is a
pointer, and malloc is null once 8 MiB are in use. Blocks that outlive the launch are noted.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gemmsmith.sim.ptx.types import Array

HEAP_BYTES = 8 << 20  # CUDA's default of cudaLimitMallocHeapSize
_ARENA_BYTES = 16 * HEAP_BYTES
_ALIGNMENT = 16
_GAP, _SMALL_GAP = 1024, 64  # bytes between blocks, while there is room and later
_UNUSED, _LIVE, _FREED = 0, 1, 2
_FILL = 0xFF  # NaN: what a new block holds


@dataclass(frozen=True)
class HeapBlock:
    """A block: its first byte in the heap, its size, who called malloc and where, and where it was freed."""

    start: int
    size: int
    where: str
    thread: str
    freed: str = ""


@dataclass
class DeviceHeap:
    """Blocks by their first byte. ``data`` are the bytes of the heap; ``base`` is the address of the first."""

    base: int
    data: Array
    blocks: dict[int, HeapBlock] = field(default_factory=dict)
    in_use: int = 0
    _next: int = 0

    def __post_init__(self) -> None:
        self._state = np.zeros(self.data.size, np.uint8)
        self._starts: list[int] = []
        self._reusable: dict[int, deque[int]] = {}
        self._kept: tuple[int, dict[int, HeapBlock]] = 0, {}  # where the next block was, and the blocks

    # -- malloc and free --------------------------------------------------------------------------

    def malloc(self, sizes: Sequence[int], where: str, threads: Sequence[str]) -> Array:
        """The addresses of new blocks, 0 where there is no room."""
        return np.array([self._malloc(int(size), where, thread) for size, thread in zip(sizes, threads, strict=True)],
                        np.uint64)  # fmt: skip

    def _malloc(self, size: int, where: str, thread: str) -> int:
        room = _rounded(size)
        if self.in_use + room > HEAP_BYTES:
            return 0
        gap = _GAP if self._next < self.data.size // 2 else _SMALL_GAP
        if self._next + room + gap <= self.data.size:
            start = self._next
            self._next += room + gap
            self._starts.append(start)
        elif self._reusable.get(room):
            start = self._reusable[room].popleft()
        else:
            return 0
        self._put(HeapBlock(start, size, where, thread))
        self.data[start : start + room] = _FILL
        return self.base + start

    def _put(self, block: HeapBlock) -> None:
        self.blocks[block.start] = block
        self._state[block.start : block.start + block.size] = _FREED if block.freed else _LIVE
        if not block.freed:
            self.in_use += _rounded(block.size)

    def free(self, address: int, where: str) -> str:
        """Free a block; returns what is wrong, or nothing."""
        if address == 0:
            return ""
        block = self.blocks.get(address - self.base)
        if block is None:
            inside = self._block_at(address - self.base) if self.holds(address) else None
            if inside is None:
                return f"free of {address:#x}, which malloc never gave"
            return f"free of {address:#x}, {address - self.base - inside.start} bytes inside {_named(inside)}"
        if block.freed:
            return f"double free of {_named(block)}, which was freed at {block.freed} before"
        self._put(replace(block, freed=where))
        self.in_use -= _rounded(block.size)
        self._reusable.setdefault(_rounded(block.size), deque()).append(block.start)
        return ""

    # -- accesses ---------------------------------------------------------------------------------

    def holds(self, address: int) -> bool:
        return self.base <= address < self.base + self.data.size

    def wrong_access(self, addresses: Array, width: int) -> tuple[str, int, str] | None:
        """The first access that is not wholly inside a live block: what it is, its position, and what is there."""
        at = (addresses.reshape(-1) - np.uint64(self.base)).astype(np.int64)
        good = (self._state[at] == _LIVE) & (self._state[np.minimum(at + width - 1, self._state.size - 1)] == _LIVE)
        if good.all():
            return None
        first = int(np.argmin(good))
        kind = "use-after-free" if self._state[at[first]] == _FREED else "out-of-bounds"
        return kind, first, self._describe(int(at[first]))

    def _describe(self, at: int) -> str:
        block = self._block_at(at)
        if block is None:
            return "it is before the first block that malloc gave"
        offset = at - block.start
        if offset < max(1, block.size) and block.freed:
            return f"it is {offset} bytes inside {_named(block)}, which was freed at {block.freed}"
        if offset < block.size:
            return f"it starts inside {_named(block)}, at byte {offset}, and runs over its end"
        return f"{offset - block.size} bytes past the end of {_named(block)}"

    def _block_at(self, at: int) -> HeapBlock | None:
        """The block at a place, or the last before it."""
        found = bisect_right(self._starts, at) - 1
        return self.blocks[self._starts[found]] if found >= 0 else None

    # -- a launch ---------------------------------------------------------------------------------

    def begin(self) -> None:
        """A launch begins: ``undo`` goes back to here."""
        self._kept = self._next, dict(self.blocks)

    def undo(self) -> None:
        """Forget what was done since ``begin``: the same calls then give the same addresses."""
        self._state[: self._next] = _UNUSED
        self._next, kept = self._kept
        self.blocks, self.in_use, self._reusable = {}, 0, {}
        self._starts = sorted(kept)
        for block in kept.values():
            self._put(block)
            if block.freed:
                self._reusable.setdefault(_rounded(block.size), deque()).append(block.start)

    def leaks(self) -> list[str]:
        """A sentence for each malloc of this launch whose blocks are still there."""
        found: dict[str, list[int]] = {}
        for start, block in self.blocks.items():
            if not block.freed and start not in self._kept[1]:
                found.setdefault(block.where, []).append(block.size)
        return [f"memory leak: {len(sizes):,} block{'s' if len(sizes) > 1 else ''} ({sum(sizes):,} bytes) that malloc "
                f"gave at {where} {'are' if len(sizes) > 1 else 'is'} never freed"
                for where, sizes in found.items()]  # fmt: skip


def arena_bytes() -> int:
    """The size of the allocation that a heap needs."""
    return _ARENA_BYTES


def _rounded(size: int) -> int:
    return max(1, -(-size // _ALIGNMENT)) * _ALIGNMENT


def _named(block: HeapBlock) -> str:
    return f"the {block.size} bytes that malloc gave {block.thread} at {block.where}"
