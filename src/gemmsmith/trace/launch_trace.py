"""The trace of one launch: what every warp of one block executed, in order, and the other blocks in outline.

``docs/trace-format.md`` documents the JSON form, which has the same names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

FORMAT, VERSION = "gemmsmith-trace", 1
INACTIVE = -1  # in a pattern: the lane takes no part
Size = tuple[int, int, int]


class Kind(StrEnum):
    """What an instruction does, as far as a reader of the trace cares."""

    LOAD_GLOBAL = "load global"
    STORE_GLOBAL = "store global"
    ATOMIC = "atomic"
    LOAD_SHARED = "load shared"
    STORE_SHARED = "store shared"
    LOAD_MATRIX = "load matrix"  # ldmatrix
    STORE_MATRIX = "store matrix"  # stmatrix
    LOCAL = "local memory"
    COPY = "async copy"  # cp.async
    COMMIT = "commit"  # of a group of cp.async, bulk stores or wgmma
    WAIT = "wait"  # for such groups
    BULK_LOAD = "TMA load"
    BULK_STORE = "TMA store"
    MMA = "mma"
    WGMMA = "wgmma"
    ARITHMETIC = "arithmetic"  # on floating-point numbers
    OTHER = "other"  # addresses, predicates, moves, branches
    BARRIER = "barrier"
    ARRIVE = "mbarrier arrive"
    PHASE_WAIT = "mbarrier wait"
    FENCE = "fence"


@dataclass(frozen=True, slots=True)
class Instruction:
    """A PTX instruction that was executed. ``position`` is its index in the program, ``line`` in ``file`` its source.

    ``served`` is the width at which the machine serves a shared access: ptxas joins neighbours into one wider load, and
    then the others have 0. ``array`` is the shared array that is meant, where that is certain.
    """

    position: int
    ptx: str
    kind: Kind
    file: str
    line: int
    caller: str = ""
    space: str = ""
    width: int = 0
    element: int = 0
    served: int = 0
    array: str = ""


@dataclass(frozen=True, slots=True)
class Access:
    """What one warp accessed: lane n accesses ``at + patterns[pattern][n]``, unless that pattern has −1 for it.

    ``at`` is an address of global memory, or a byte of the block's shared memory. ``of`` and ``elements`` say which
    elements of global arrays are meant, in the same form, ``granules`` for each lane one after the other: what a load
    from shared memory finds there, or what a store puts there. −1: not known, or computed. Both are −1 where nothing is
    known.

    ``sectors`` of 32 bytes for global memory; ``wavefronts`` and ``groups`` for shared memory: the difference is bank
    conflicts. ``used`` are the distinct bytes.
    """

    space: str
    width: int
    pattern: int
    at: int
    elements: int = -1
    of: int = -1
    sectors: int = 0
    wavefronts: int = 0
    groups: int = 0
    used: int = 0


@dataclass(frozen=True, slots=True)
class Event:
    """A warp executed an instruction, or ``count`` of one kind in a row, the first of which is named.

    ``start`` counts issue slots of the warp: every instruction takes one. At a barrier all warps of the block go on in
    the slot after the last arrival, and a wait for an mbarrier ends after the arrival that completes its phase.
    ``slots`` is how long the event lasts. ``lanes`` is the mask of active lanes. ``access`` is what it accessed; an
    asynchronous copy also has a ``target`` in shared memory. ``facts`` has what is particular to its kind.
    """

    start: int
    slots: int
    instruction: int
    count: int
    lanes: int
    access: Access | None = None
    target: Access | None = None
    facts: Mapping[str, Any] | None = None

    @property
    def stop(self) -> int:
        return self.start + self.slots


@dataclass(frozen=True)
class Warp:
    """The events of one warp. ``skipped`` of them are left out before event number ``gap``."""

    number: int
    events: tuple[Event, ...] = field(repr=False)
    skipped: int = 0
    gap: int = 0


@dataclass(frozen=True)
class Array:
    """A global array. Element (r, c) is at ``address + (r * row_stride + c * column_stride) * itemsize``.

    ``role`` is A, B or C of a product, else ''. ``name`` is the kernel's own name for it.
    """

    name: str
    address: int
    nbytes: int
    itemsize: int
    dtype: str
    rows: int
    columns: int
    row_stride: int
    column_stride: int = 1
    role: str = ""

    def place(self, address: int) -> tuple[int, int]:
        """(row, column) of the element at an address."""
        element = (address - self.address) // self.itemsize
        if self.row_stride >= self.column_stride:
            return element // max(1, self.row_stride), element % max(1, self.row_stride) // max(1, self.column_stride)
        return element % self.column_stride // max(1, self.row_stride), element // self.column_stride


@dataclass(frozen=True)
class SharedArray:
    """A named piece of the block's shared memory. ``extents`` are those of its declaration, where they are known."""

    name: str
    start: int
    nbytes: int
    itemsize: int = 0
    extents: tuple[int, ...] = ()


@dataclass(frozen=True)
class Fragment:
    """One execution of a matrix instruction by a warp, or by a warpgroup (wgmma).

    ``a``, ``b`` and ``d`` have an entry for each element of the matrix, by rows: A is rows × depth, B is depth ×
    columns, D is rows × columns. Each entry of ``…_held`` is lane · 4096 + register · 16 + element in the register; −1
    if the operand is in shared memory. ``…_of`` is the address of the array's element that it is, −1 if unknown;
    ``…_shared`` the byte of shared memory it comes from, −1 if unknown.
    """

    warp: int
    start: int
    instruction: int
    rows: int
    columns: int
    depth: int
    a_held: tuple[int, ...]
    b_held: tuple[int, ...]
    d_held: tuple[int, ...]
    a_of: tuple[int, ...]
    b_of: tuple[int, ...]
    a_shared: tuple[int, ...]
    b_shared: tuple[int, ...]
    name: str = ""
    swizzle: int = 0


@dataclass(frozen=True)
class Phase:
    """A phase of an mbarrier of the block was complete at a slot. ``barrier`` is its byte of shared memory."""

    barrier: int
    phase: int
    slot: int


@dataclass(frozen=True)
class Snapshot:
    """What shared memory held when it was first read: ``runs`` of granules whose elements follow one another.

    A run is (first granule, count, address of the first element's granule, step of the address).
    """

    slot: int
    runs: tuple[tuple[int, int, int, int], ...] = field(repr=False)


@dataclass(frozen=True)
class Fed:
    """Rows and columns of one array that each thread's arithmetic consumed: ``by_thread`` are indices of ``sets``."""

    array: str
    sets: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    by_thread: tuple[int, ...]


@dataclass(frozen=True)
class Box:
    """Rows and columns of an array, first and last, that a block loaded or stored."""

    array: str
    first_row: int
    last_row: int
    first_column: int
    last_column: int


@dataclass(frozen=True)
class Outline:
    """One block: its place in the grid, and what it loaded and stored.

    ``parts`` is what it multiplies, in order: first and last row of C, first and last column, first and last k. A block
    of Stream-K has several; blocks of split-K share a tile and have other k. Empty where that is not known.
    """

    block: Size
    loaded: tuple[Box, ...] = ()
    stored: tuple[Box, ...] = ()
    parts: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Counted:
    """What one PTX instruction cost in all simulated blocks: ``executed`` counts warps.

    ``sectors`` are of global memory; ``wavefronts`` of shared memory, and ``conflicts`` those of them that bank
    conflicts add.
    """

    position: int
    ptx: str
    file: str
    line: int
    caller: str = ""
    executed: int = 0
    sectors: int = 0
    wavefronts: int = 0
    conflicts: int = 0


@dataclass(frozen=True)
class SourceFile:
    """A source file, from which instructions come."""

    name: str
    text: str = field(repr=False)


@dataclass(frozen=True)
class LaunchTrace:
    """One launch. ``warps`` are those of ``traced``, the block in full; ``blocks`` has the outline of each simulated
    block, in the order of their numbers. ``fault``: what stopped the launch before its end; empty if nothing did."""

    kernel: str
    title: str
    arch: str
    file: str
    grid: Size
    block: Size
    cluster: Size
    static_smem: int
    dynamic_smem: int
    registers: int
    traced: Size
    problem: Mapping[str, Any]
    arrays: tuple[Array, ...]
    shared: tuple[SharedArray, ...]
    files: tuple[SourceFile, ...] = field(repr=False)
    instructions: tuple[Instruction, ...] = field(repr=False)
    patterns: tuple[tuple[int, ...], ...] = field(repr=False)
    warps: tuple[Warp, ...] = field(repr=False)
    fragments: tuple[Fragment, ...] = field(repr=False)
    fed: tuple[Fed, ...] = field(repr=False)
    phases: tuple[Phase, ...] = field(repr=False)
    snapshot: Snapshot | None = field(repr=False)
    blocks: tuple[Outline, ...] = field(repr=False)
    granule: int = 4
    seconds: float = 0.0
    counts: tuple[Counted, ...] = field(default=(), repr=False)
    fault: str = ""

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]

    @cached_property
    def slots(self) -> int:
        """Issue slots from the first event to the end of the last."""
        return max((event.stop for warp in self.warps for event in warp.events), default=0)

    @property
    def summary(self) -> str:
        """Grid, block and where it ran, in a line."""
        grid, block = ("×".join(map(str, _short(size))) for size in (self.grid, self.block))
        where = ", ".join(map(str, _short(self.traced, self.grid)))
        return f"grid {grid}, blocks of {block} threads, block ({where}) in full, {self.arch}"

    def array_at(self, address: int) -> Array | None:
        """The array that holds an address of global memory."""
        return next((a for a in self.arrays if a.address <= address < a.address + a.nbytes), None)


def _short(size: Size, like: Size | None = None) -> tuple[int, ...]:
    """Without trailing ones; ``like``: as many numbers as that has."""
    shape = like or size
    keep = 3 if shape[2] > 1 else 2 if shape[1] > 1 else 1
    return size[:keep]
