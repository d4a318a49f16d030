"""Global memory of the simulator: allocations with hard edges.

Every access is checked for bounds and alignment first. A violation raises ``AccessFault`` (access_faults.py)
with the position of the first offending lane. Shared and local memory are in ``window_memory.py``.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmsmith.run.texture import Sampling, Texels
from gemmsmith.sim.lowering.traits import Space
from gemmsmith.sim.memory.access_faults import AccessFault, MixedSpaces
from gemmsmith.sim.memory.element_text import element_text
from gemmsmith.sim.memory.forbidden_reads import ForbiddenReads
from gemmsmith.sim.memory.heap import DeviceHeap, arena_bytes
from gemmsmith.sim.memory.lazy_zeros import lazy_zeros
from gemmsmith.sim.memory.saved_pages import SavedPages
from gemmsmith.sim.ptx.types import Array

# Generic addresses of shared and local memory start here, far from global allocations.
SHARED_WINDOW = 0x0001_0000_0000_0000
LOCAL_WINDOW = 0x0002_0000_0000_0000
PARAM_WINDOW = 0x0003_0000_0000_0000
WINDOW_SIZE = 1 << 32
# The first global allocation: high enough that an address truncated to 32 bits is never valid.
_FIRST_ADDRESS = 0x0000_7000_0000_0000
# Variables of modules have addresses of their own: a kernel that is loaded on a fresh device finds them where it did
# before, whatever was allocated first.
_FIRST_VARIABLE = 0x0000_6800_0000_0000
_GAP = 1 << 20
ALIGNMENT = 256
_NEAR_NULL = 1 << 16

# One NumPy element for each access width, so that any access is a single take or put.
RAW: dict[int, np.dtype[Any]] = {
    1: np.dtype(np.uint8), 2: np.dtype(np.uint16), 4: np.dtype(np.uint32),
    8: np.dtype(np.uint64), 16: np.dtype(np.complex128),
}  # fmt: skip

# The address of another block's shared memory has the block's rank in the cluster, plus one, above these bits.
PEER_SHIFT = 24
PEER_OFFSET = (1 << PEER_SHIFT) - 1

SHIFT = {1: 0, 2: 1, 4: 2, 8: 3, 16: 4}  # by which an address is shifted to get an element's index
_SHIFTS = {width: np.uint64(shift) for width, shift in SHIFT.items()}


def check_alignment(addresses: Array, width: int, space: Space) -> None:
    """Raise unless every address is a multiple of ``width``."""
    if width > 1 and int(np.bitwise_or.reduce(addresses, axis=None)) & (width - 1):
        position = int(np.flatnonzero(addresses.reshape(-1) & addresses.dtype.type(width - 1))[0])
        address = int(addresses.reshape(-1)[position])
        raise AccessFault("misaligned", position, address, f"the address must be a multiple of {width}", space)


def _elements(addresses: Array, base: int, width: int) -> Array:
    """Indices of elements of ``width`` bytes, for 64-bit addresses in an allocation at ``base``."""
    index: Array = (addresses - np.uint64(base)) >> np.uint64(SHIFT[width])
    return index.view(np.int64)


@dataclass(frozen=True)
class TextureObject:
    """A texture, or a surface where there is no sampling, over the memory at an address."""

    texels: Texels
    sampling: Sampling | None
    address: int
    name: str = ""


class GlobalMemory:
    """Allocations of device memory; an access must lie wholly inside one of them."""

    def __init__(self) -> None:
        self.textures: dict[int, TextureObject] = {}  # texture and surface objects by handle
        self.heap: DeviceHeap | None = None  # of malloc in kernels
        self._data: dict[int, Array] = {}
        self._bases: list[int] = []  # ascending: a kernel may bring hundreds of variables
        self._size: dict[int, int] = {}
        self._unreadable: dict[int, ForbiddenReads] = {}
        self._names: dict[int, str] = {}
        self._variables: set[int] = set()
        self._itemsizes: dict[int, int] = {}
        self._next, self._next_variable = _FIRST_ADDRESS, _FIRST_VARIABLE
        self._before: dict[int, SavedPages] | None = None
        self.stored = False
        # Of the last read that lay in one allocation: the addresses, its base, the indices of the elements.
        self.last_read: tuple[Array, int, Array] = np.zeros(0), 0, np.zeros(0)

    def allocate(self, nbytes: int) -> int:
        base = self._next
        self._next = self._place(base, nbytes)
        return base

    def mark(self) -> int:
        """Where the next allocation will be."""
        return self._next

    def rewind(self, mark: int) -> None:
        """Allocate from ``mark`` on again; what was allocated after it has been freed."""
        self._next = mark

    def allocate_variable(self, nbytes: int) -> int:
        """Memory of a module's variable."""
        base = self._next_variable
        self._next_variable = self._place(base, nbytes)
        return base

    def _place(self, base: int, nbytes: int) -> int:
        """Make an allocation at ``base``; returns where the next one may begin."""
        self._data[base] = lazy_zeros(max(1, -(-nbytes // ALIGNMENT)) * ALIGNMENT)
        self._size[base] = nbytes
        insort(self._bases, base)
        return base + -(-(nbytes + _GAP) // ALIGNMENT) * ALIGNMENT

    def device_heap(self) -> DeviceHeap:
        """The heap of malloc, made when a kernel first asks for it."""
        if self.heap is None:
            base = self.allocate(arena_bytes())
            self.label(base, "the device heap")
            self.heap = DeviceHeap(base, self._data[base])
        return self.heap

    def _check_heap(self, addresses: Array, width: int) -> None:
        """Raise for an access to the heap that is not inside a block of malloc."""
        assert self.heap is not None
        wrong = self.heap.wrong_access(addresses, width)
        if wrong is not None:
            kind, position, detail = wrong
            raise AccessFault(kind, position, int(addresses.reshape(-1)[position]), detail, Space.GLOBAL)

    def free(self, base: int) -> None:
        del self._data[base], self._size[base]
        self._bases.remove(base)
        self._unreadable.pop(base, None)
        self._names.pop(base, None)
        self._itemsizes.pop(base, None)

    def label(self, address: int, name: str, itemsize: int = 0) -> None:
        """Name the allocation that holds ``address``, for messages, and the size of its elements."""
        found = self.locate(address, 0)
        if found is not None:
            self._names[found[0]] = name
            self._itemsizes[found[0]] = itemsize

    def label_variable(self, address: int, name: str, itemsize: int) -> None:
        """Name the allocation of a ``__device__`` variable, whose elements messages then count."""
        self.label(address, name, itemsize)
        self._variables.add(address)

    def text(self, address: int) -> str:
        """The zero-terminated string at ``address``; empty if there is no memory."""
        found = self.locate(address, 1)
        if found is None:
            return ""
        base, data = found
        return data[address - base : self._size[base]].tobytes().split(b"\0")[0].decode(errors="replace")

    def forbid_reads(self, address: int, why: str) -> None:
        """Make every kernel's read of the allocation that holds ``address`` a fault, for the reason ``why``, except of
        what a kernel has written there."""
        found = self.locate(address, 0)
        if found is not None:
            self._unreadable[found[0]] = ForbiddenReads(why, found[1].size)

    def locate(self, address: int, nbytes: int) -> tuple[int, Array] | None:
        """The allocation that holds all of [address, address+nbytes), with its base."""
        at = bisect_right(self._bases, address) - 1
        if at < 0:
            return None
        base = self._bases[at]
        return (base, self._data[base]) if address + nbytes <= base + self._size[base] else None

    def view(self, address: int, nbytes: int) -> Array:
        found = self.locate(address, nbytes)
        if found is None:
            raise AccessFault("out-of-bounds", 0, address, self.describe(address), Space.GLOBAL)
        base, data = found
        return data[address - base : address - base + nbytes]

    def describe(self, address: int) -> str:
        """Where an address lies relative to the nearest allocation."""
        if 0 <= address < _NEAR_NULL:
            return "it is a null pointer, or was computed from one"
        best: tuple[int, str] | None = None
        for base, size in self._size.items():
            past, before = address - (base + size), base - address
            distance = past if past >= 0 else before if before > 0 else 0
            name, itemsize = self._names.get(base, ""), self._itemsizes.get(base, 0)
            what = f"{name} ({size} bytes)" if name else f"a {size}-byte allocation"
            text = element_text(name, address - base, size, itemsize) if itemsize else (
                f"{past} bytes past the end of {what}" if past >= 0
                else f"{before} bytes before {what}" if before > 0
                else f"it starts inside {what} and runs over its end"
            )  # fmt: skip
            if best is None or distance < best[0]:
                best = distance, text
        return best[1] if best else "there are no allocations"

    def gather(self, addresses: Array, width: int) -> Array:
        if addresses.size == 0:
            return np.zeros(addresses.shape, RAW[width])
        found = self._in_one_allocation(addresses, width)
        if found is not None:
            base, elements = found
            if self.heap is not None and base == self.heap.base:
                self._check_heap(addresses, width)
            if base in self._unreadable:
                self._check_readable(base, addresses, width)
            self.last_read = addresses, base, elements
            return self._data[base].view(RAW[width]).take(elements, mode="clip")  # which looks at no bounds
        check_alignment(addresses, width, Space.GLOBAL)
        if (by_operation := self._gather_rows(addresses, width)) is not None:
            return by_operation
        result = np.zeros(addresses.shape, RAW[width])
        for base, data, mask in self._split(addresses, width):
            if base in self._unreadable:
                self._check_readable(base, addresses, width, np.flatnonzero(mask.reshape(-1)))
            result[mask] = data.view(RAW[width])[_elements(addresses[mask], base, width)]
        return result

    def _in_one_allocation(self, addresses: Array, width: int) -> tuple[int, Array] | None:
        """The allocation that holds all of these aligned elements, and their indices there; None if there is none."""
        found = self.locate(int(addresses.flat[0]), width)
        if found is None:
            return None
        base = found[0]
        if addresses.ndim == 2 and not base <= int(addresses[-1, 0]) < base + self._size[base]:
            return None
        offsets = addresses - np.uint64(base)  # wraps below the base, so that one comparison tells both ends
        if int(offsets.max()) + width > self._size[base]:
            return None
        if (int(np.bitwise_or.reduce(offsets, axis=None)) | base) & (width - 1):
            return None
        offsets >>= _SHIFTS[width]
        return base, offsets.view(np.int64)

    def _gather_rows(self, addresses: Array, width: int) -> Array | None:
        """Elements of several operations, a row each, of which each reads one allocation: loads of A and of B. None
        where one reads several, or memory that may not be read."""
        if addresses.ndim != 2 or addresses.shape[0] < 2:
            return None
        rows: dict[int, list[int]] = {}
        extremes = zip(addresses.min(axis=1).tolist(), addresses.max(axis=1).tolist(), strict=True)
        for row, (low, high) in enumerate(extremes):
            found = self.locate(low, width)
            if found is None or high + width > found[0] + self._size[found[0]] or found[0] in self._unreadable:
                return None
            if self.heap is not None and found[0] == self.heap.base:
                return None
            rows.setdefault(found[0], []).append(row)
        result = np.empty(addresses.shape, RAW[width])
        for base, those in rows.items():
            result[those] = self._data[base].view(RAW[width]).take(_elements(addresses[those], base, width))
        return result

    def _check_readable(self, base: int, addresses: Array, width: int, places: Array | None = None) -> None:
        flat, forbidden = addresses.reshape(-1), self._unreadable[base]
        first = forbidden.first(_elements(flat if places is None else flat[places], base, width), width)
        if first is not None:
            position = first if places is None else int(places[first])
            raise AccessFault("forbidden", position, int(flat[position]), forbidden.why, Space.GLOBAL)

    def scatter(self, addresses: Array, width: int, values: Array) -> None:
        found = self._in_one_allocation(addresses, width) if addresses.size and self.heap is None else None
        if found is not None:
            base, elements = found
            self._store(base, self._data[base], elements, width, values)
            return
        check_alignment(addresses, width, Space.GLOBAL)
        for base, data, mask in self._split(addresses, width):
            self._store(base, data, _elements(addresses[mask], base, width), width, values[mask])

    def _store(self, base: int, data: Array, elements: Array, width: int, values: Array) -> None:
        if self._before is not None:
            self._save(base, data, elements << SHIFT[width])
        data.view(RAW[width])[elements] = values
        if base in self._unreadable:
            self._unreadable[base].write(elements, width)

    # -- what a launch changed --------------------------------------------------------------------

    def keep_changes(self, keep: bool) -> None:
        """From now on, remember what is written over, or no longer; then ``stored`` says whether there was anything."""
        self.stored = bool(self._before)
        self._before = {} if keep else None
        if keep and self.heap is not None:
            self.heap.begin()

    def _save(self, base: int, data: Array, offsets: Array) -> None:
        assert self._before is not None
        if base not in self._before:
            self._before[base] = SavedPages(data)
        self._before[base].save(offsets)

    def undo(self) -> None:
        """Restore what was written over since ``keep_changes``."""
        if self.heap is not None:
            self.heap.undo()
        for saved in (self._before or {}).values():
            saved.restore()

    def written_ranges(self, base: int) -> list[tuple[int, int]]:
        """The bytes of an allocation that may have been written since ``keep_changes``: starts and ends."""
        saved = (self._before or {}).get(base)
        return [] if saved is None else saved.ranges()

    def data(self, base: int) -> Array:
        """All bytes of an allocation."""
        return self._data[base]

    def parts_missing(self, addresses: Array, nbytes: int) -> bool:
        """Whether some of these ranges of bytes are not wholly in memory that may be read."""
        try:
            self.gather(addresses, 1)
            self.gather(addresses + np.uint64(nbytes - 1), 1)
        except AccessFault:
            return True
        starts = np.unique(addresses)
        if not starts.size or self.locate(int(starts[0]), int(starts[-1] - starts[0]) + nbytes) is not None:
            return False  # one allocation holds all of them
        return any(self.locate(int(first), nbytes) is None for first in starts)

    def parts(self, addresses: Array) -> list[tuple[int, Array, Array | None]]:
        """The allocations that addresses lie in, with the addresses that do; None for all."""
        if addresses.size == 0:
            return []
        found = self.locate(int(addresses.min()), 1)
        if found is not None and int(addresses.max()) < found[0] + self._size[found[0]]:
            return [(*found, None)]
        return list(self._split(addresses, 1))

    def place(self, address: int) -> str:
        """What lies at an address: 'byte 64 of C', or 'counter[16]' in a variable of the module."""
        found = self.locate(address, 1)
        if found is None:
            return "unknown memory"
        if found[0] in self._variables:
            size, name = self._itemsizes[found[0]], self._names[found[0]]
            return name if size >= self._size[found[0]] else f"{name}[{(address - found[0]) // size}]"
        what = self._names.get(found[0], f"a {self._size[found[0]]}-byte allocation")
        return f"byte {address - found[0]} of {what}"

    def _split(self, addresses: Array, width: int) -> list[tuple[int, Array, Array]]:
        """The lanes that fall into each allocation; raises for the first that falls into none."""
        parts, covered = [], np.zeros(addresses.shape, bool)
        low, high = (int(addresses.min()), int(addresses.max())) if addresses.size else (0, 0)
        for base in self._bases[max(0, bisect_right(self._bases, low) - 1) : bisect_right(self._bases, high)]:
            last = base + self._size[base] - width
            if last < base or last < low:
                continue
            mask = (addresses >= np.uint64(base)) & (addresses <= np.uint64(last))
            if mask.any():
                if self.heap is not None and base == self.heap.base:
                    self._check_heap(np.where(mask, addresses, addresses[mask][0]), width)
                parts.append((base, self._data[base], mask))
                covered |= mask
        if not covered.all():
            position = int(np.flatnonzero(~covered.reshape(-1))[0])
            address = int(addresses.reshape(-1)[position])
            raise AccessFault("out-of-bounds", position, address, self.describe(address), Space.GLOBAL)
        return parts


def space_of(addresses: Array) -> Array:
    """The space of each generic address: 0 for global, 1 for shared, 2 for local, 3 for parameters."""
    result = np.zeros(addresses.shape, np.uint8)
    for n, start in enumerate((SHARED_WINDOW, LOCAL_WINDOW, PARAM_WINDOW), 1):
        result[(addresses >= np.uint64(start)) & (addresses < np.uint64(start + WINDOW_SIZE))] = n
    return result


def resolve_generic(addresses: Array) -> tuple[Space, Array]:
    """The space that generic addresses point to, and the addresses inside it; ``MixedSpaces`` if there are several."""
    first = int(addresses.min()) if addresses.size else 0
    last = int(addresses.max()) if addresses.size else 0
    for space, start in ((Space.SHARED, SHARED_WINDOW), (Space.LOCAL, LOCAL_WINDOW), (Space.PARAM, PARAM_WINDOW)):
        if start <= first and last < start + WINDOW_SIZE:
            return space, addresses - np.uint64(start)
    found = np.unique(space_of(addresses)) if last >= SHARED_WINDOW else np.zeros(1, np.uint8)
    if found.size > 1:
        raise MixedSpaces(int(addresses.reshape(-1)[0]))
    return Space.GLOBAL, addresses
