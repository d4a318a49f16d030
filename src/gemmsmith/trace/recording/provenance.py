"""Where the values in registers and shared memory come from: each part remembers the address it was loaded from.

A *granule* is the smallest element of the launch's arrays, at most 4 bytes. Every granule of a register that can hold
an element (``taint.py``), and every granule of the block's shared memory, has a tag: the address in global memory whose
value it has, or 0. Registers have a second tag, the byte of shared memory that they were loaded from, plus one.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gemmsmith.sim.bundle import Bundle, Operand
from gemmsmith.sim.instructions.move import Parts
from gemmsmith.sim.lowering.operation import Cell
from gemmsmith.sim.lowering.traits import Effect
from gemmsmith.sim.ptx.types import Array
from gemmsmith.trace.recording.taint import DERIVES, KEEPS

_BYTES = {"h": 2, "w": 4, "d": 8}
NONE = 0
_MOST_LOCAL = 4096  # bytes of a thread's local memory that are followed


class Provenance:
    """The tags of one block's registers, shared memory and local memory."""

    def __init__(self, cells: frozenset[Cell], threads: int, shared_bytes: int, granule: int, element: int,
                 local_bytes: int = 0) -> None:  # fmt: skip
        """``element`` is the size of the smallest element; ``local_bytes`` is the local memory of a thread."""
        self.granule, self._element = granule, element
        self.shared = np.zeros(-(-shared_bytes // granule) + 16, np.int64)
        self._local = np.zeros((threads, min(_MOST_LOCAL, local_bytes) // granule), np.int64)
        self._places: dict[str, Array] = {}
        self._tags: dict[str, Array] = {}
        for file, nbytes in _BYTES.items():
            rows = sorted(row for name, row in cells if name == file)
            if not rows or nbytes < granule:
                continue
            self._places[file] = np.full(rows[-1] + 2, -1, np.int64)
            self._places[file][rows] = np.arange(len(rows))
            self._tags[file] = np.zeros((2, len(rows), nbytes // granule, threads), np.int64)

    def follows(self, operand: Operand) -> bool:
        """Whether a row of an operand is followed."""
        return operand.constant is None and operand.file in self._tags and bool((self._rows(operand) >= 0).any())

    def _rows(self, operand: Operand) -> Array:
        rows, places = operand.rows, self._places[operand.file]
        if isinstance(rows, slice):
            rows = np.arange(rows.start, rows.stop, rows.step)
        wanted = np.minimum(np.atleast_1d(np.asarray(rows)), places.size - 1)
        found: Array = places[wanted]
        return found

    def granules(self, operand: Operand) -> int:
        """Granules of one register of an operand."""
        return _BYTES.get(operand.file, 0) // self.granule

    def get(self, operand: Operand, threads: Array, count: int) -> Array:
        """(2, count, granules, threads) tags of an operand."""
        if not self.follows(operand):
            return np.zeros((2, count, self.granules(operand), threads.size), np.int64)
        rows = self._rows(operand)
        found = self._tags[operand.file][:, rows][..., threads]
        found[:, rows < 0] = NONE
        return np.broadcast_to(found, (2, count, *found.shape[2:]))

    def distinct(self, operand: Operand, threads: Array) -> Array | None:
        """(rows, granules, threads) element tags of the different registers of an operand; None if none is followed."""
        if not self.follows(operand):
            return None
        rows = np.unique(self._rows(operand))
        found: Array = self._tags[operand.file][0, rows[rows >= 0]][..., threads]
        return found

    def knows(self, operand: Operand, threads: Array) -> bool:
        """Whether a register of an operand holds an element in one of these threads."""
        found = self.distinct(operand, threads)
        return found is not None and bool(found.any())

    def put(self, operand: Operand, threads: Array, tags: Array | int) -> None:
        """Set the tags of a target's registers: (2, count, granules, threads), perhaps of fewer granules."""
        if operand.file not in self._tags:
            return
        rows = self._rows(operand)
        kept = np.flatnonzero(rows >= 0)
        if not kept.size:
            return
        table = self._tags[operand.file]
        if isinstance(tags, int):
            table[:, rows[kept][:, None], :, threads[None]] = tags
            return
        full = np.zeros((2, tags.shape[1], table.shape[2], threads.size), np.int64)
        fits = min(tags.shape[2], table.shape[2])
        full[:, :, :fits] = tags[:, :, :fits]
        for n in kept.tolist():
            table[:, rows[n]][..., threads] = full[:, min(n, full.shape[1] - 1)]

    def clear(self, step: Bundle[Any], threads: Array) -> None:
        """The targets of a bundle hold something computed."""
        for target in step.targets:
            self.put(target, threads, NONE)

    def move(self, step: Bundle[Any], threads: Array) -> bool:
        """Let tags follow a move or a conversion; whether the bundle is one."""
        opcode = step.first.instruction.opcode
        if opcode not in KEEPS | DERIVES or not step.targets:
            return False
        sources = [s for s in step.sources if s.file != "p" and s.constant is None]
        if not any(self.follows(s) for s in sources):
            self.clear(step, threads)
            return True
        given = [self.get(s, threads, step.count) for s in sources]
        if opcode == "cvt" and len(given) == 2:
            given = [tags[:, :, :1] for tags in reversed(given)]  # the first source is the upper half
        elif opcode == "selp" and len(given) == 2:
            given = [np.where(given[0] == given[1], given[0], NONE)]
        elif opcode in DERIVES:
            given = [self._derived([self._parts(step, tags) for tags in given])]
        elif opcode == "prmt":
            given = [self._permuted(step, threads)]
        flat = np.concatenate(given, axis=2)
        numbers = step.detail.numbers if isinstance(step.detail, Parts) and len(step.targets) > 1 else None
        for n, target in enumerate(step.targets):
            each = max(1, self.granules(target))
            start = (numbers[n] if numbers else n) * each
            self.put(target, threads, flat[:, :, start : start + each])
        return True

    def _parts(self, step: Bundle[Any], tags: Array) -> Array:
        """What is left of a register's granules after a shift or a mask by a constant."""
        opcode, last = step.first.instruction.opcode, step.sources[-1].constant
        if last is None or opcode not in ("and", "shl", "shr"):
            return tags
        value, parts = int(np.asarray(last).reshape(-1)[0]), tags.shape[2]
        found = np.zeros_like(tags)
        if opcode == "and":
            full = (1 << 8 * self.granule) - 1
            kept = [n for n in range(parts) if value >> 8 * self.granule * n & full]
            found[:, :, kept] = tags[:, :, kept]
            return found
        by = value // (8 * self.granule)
        if by == 0:
            return tags
        if opcode == "shl":
            found[:, :, by:] = tags[:, :, : max(0, parts - by)]
        else:
            found[:, :, : max(0, parts - by)] = tags[:, :, by:]
        return found

    def _derived(self, given: list[Array]) -> Array:
        """One element's tags where all that is known comes from one element."""
        found, same = given[0], np.ones(given[0].shape[1:], bool)
        for other in given[1:]:
            one, two = found[0] // self._element, other[0] // self._element
            same &= (one == two) | (found[0] == NONE) | (other[0] == NONE)
            found = np.where(found == NONE, other, found)
        return np.where(same, found, NONE)

    def _permuted(self, step: Bundle[Any], threads: Array) -> Array:
        """prmt with a constant selector: each granule of the result is one of the eight bytes' granules."""
        a, b, selector = step.sources
        both = np.concatenate([self.get(each, threads, step.count) for each in (a, b)], axis=2)
        if selector.constant is None:
            return np.zeros_like(both[:, :, : self.granules(step.targets[0])])
        wanted = np.broadcast_to(np.asarray(selector.constant).reshape(-1), step.count).astype(np.int64)
        parts = [wanted >> 4 * byte & 7 for byte in range(0, 4, self.granule)]
        each = np.arange(step.count)
        return np.stack([both[:, each, part // self.granule] for part in parts], axis=2)

    # -- memory -----------------------------------------------------------------------------------

    def at_global(self, addresses: Array, nbytes: int) -> Array:
        """(…, granules) tags of ``nbytes`` at addresses of global memory."""
        found: Array = addresses.astype(np.int64)[..., None] + np.arange(0, max(nbytes, 1), self.granule)
        return found

    def at_shared(self, addresses: Array, nbytes: int) -> Array:
        """(…, granules) tags of ``nbytes`` at bytes of the block's shared memory."""
        index = addresses.astype(np.int64)[..., None] // self.granule + np.arange(max(1, nbytes // self.granule))
        found: Array = self.shared[np.minimum(index, self.shared.size - 1)]
        return found

    def set_shared(self, addresses: Array, tags: Array) -> None:
        """Set the tags (…, granules) of what is written at bytes of the block's shared memory."""
        index = addresses.astype(np.int64)[..., None] // self.granule + np.arange(tags.shape[-1])
        self.shared[np.minimum(index, self.shared.size - 1)] = tags

    def local(self, step: Bundle[Any], threads: Array, addresses: Array) -> None:
        """Let tags follow a load or a store of local memory: addresses (count, threads) in each thread's own."""
        assert step.access is not None
        width = step.access.width
        index = addresses.astype(np.int64)[..., None] // self.granule + np.arange(width // self.granule)
        inside = (index >= 0) & (index < self._local.shape[1])
        if not index.size or not inside.all():
            self.clear(step, threads)
        elif step.access.effect is Effect.READ:
            self.load(step, threads, self._local[threads[None, :, None], index], None)
        elif step.access.effect is Effect.WRITE:
            self._local[threads[None, :, None], index] = self.stored(step, threads)

    def load(self, step: Bundle[Any], threads: Array, tags: Array, origin: Array | None) -> None:
        """Targets get what a load found: tags (count, threads, granules); ``origin`` are bytes of shared memory."""
        each = tags.shape[-1] // max(1, len(step.targets))
        for n, target in enumerate(step.targets):
            part = tags[..., n * each : (n + 1) * each] if each else np.zeros((*tags.shape[:2], 1), np.int64)
            here = np.zeros_like(part)
            if origin is not None and each:
                here = origin.astype(np.int64)[..., None] + 1 + self.granule * np.arange(n * each, (n + 1) * each)
            self.put(target, threads, np.stack([part, here]).transpose(0, 1, 3, 2))

    def stored(self, step: Bundle[Any], threads: Array) -> Array:
        """(count, threads, granules) tags of what a store writes, side by side."""
        parts = [self.get(source, threads, step.count)[0] for source in step.sources]
        width = step.access.width if step.access is not None else 0
        each = max(1, width // max(1, len(parts)) // self.granule)
        cut = [part[:, :each] if part.shape[1] >= each else np.zeros((step.count, each, threads.size), np.int64)
               for part in parts]  # fmt: skip
        return np.concatenate(cut, axis=1).transpose(0, 2, 1)
