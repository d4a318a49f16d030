"""Guarded matrices in device memory: writes outside them and changed inputs are detected and located.

One allocation, from low to high addresses::

    | canary | row 0: columns … | padding | row 1: columns … | padding | … | last row: columns | canary |
             ^ address (256-aligned unless an offset is asked for)

Canaries and padding hold a NaN with a known payload: a kernel that uses a value read there gets NaN, and a write there
is detected. The last row has no padding, because BLAS does not guarantee any: the canary starts right after the last
element. Outputs that must not be read are preset to a second NaN, the poison, so that elements that were never written
are recognised.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.errors import GemmsmithError, ProblemError
from gemmsmith.problem import BF16, FP16, FP32, FP64, INT8, INT32, TF32, UINT8, DType, ceil_div
from gemmsmith.run.device import Bytes, Device

Array = NDArray[Any]
Words = NDArray[Any]

# Quiet NaNs with payloads that no arithmetic produces (a GPU makes 0x7fffffff, NumPy 0x7fc00000).
# Integers have no NaN: their patterns may also be computed by chance.
CANARY = {FP32.name: 0xFFC0CAFE, TF32.name: 0xFFC0CAFE, FP16.name: 0xFECA, BF16.name: 0xFFCA,
          INT32.name: 0x5AC0CAFE, INT8.name: 0x5A, UINT8.name: 0x5A, FP64.name: 0xFFF8CAFECAFECAFE}  # fmt: skip
POISON = {FP32.name: 0x7FC0DEAD, TF32.name: 0x7FC0DEAD, FP16.name: 0x7EAD, BF16.name: 0x7FED,
          INT32.name: 0x5BC0DEAD, INT8.name: 0x5B, UINT8.name: 0x5B, FP64.name: 0x7FF8DEADDEADDEAD}  # fmt: skip

# Canary on each side: a multiple of the 256 bytes that Device.allocate aligns to, so that the matrix stays aligned.
GUARD_BYTES = 4096
_ALIGNMENT = 256


def upload(device: Device, values: Array) -> int:
    """The address of a contiguous row-major copy of ``values`` on the device, without guards; the caller frees it."""
    data = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
    address = device.allocate(max(1, data.nbytes))
    device.write(address, data)
    return address


@dataclass(frozen=True)
class Damage:
    """Bytes that changed and must not: in which matrix, where, and how many.

    ``region`` is 'before', 'after', 'padding' or 'values'; ``first`` is the byte offset of the first changed byte
    from the matrix's address (negative for 'before').
    """

    matrix: str
    region: str
    first: int
    count: int
    row: int
    column: int

    def __str__(self) -> str:
        many = f"{self.count} byte{'s' if self.count != 1 else ''}"
        if self.region == "before":
            return f"{self.matrix}: {many} overwritten before its start, the first at offset {self.first}"
        if self.region == "after":
            return f"{self.matrix}: {many} overwritten past its end, the first at offset {self.first}"
        place = f"row {self.row}, column {self.column}"
        if self.region == "padding":
            return f"{self.matrix}: {many} of the padding between rows overwritten, the first at {place}"
        return f"{self.matrix}: an input was changed, {many}, the first at {place}"


@dataclass(frozen=True)
class ReadBack:
    """A copy of a matrix from the device: its values, and the damage around or in it."""

    values: Array
    damage: tuple[Damage, ...]


class GuardedMatrix:
    """A matrix on a device between canaries; a context manager that frees the memory."""

    def __init__(
        self, device: Device, shape: tuple[int, int], ld: int, dtype: DType, offset: int, guard: int, name: str
    ) -> None:
        self._device = device
        self._dtype = dtype
        self._guard = guard
        self._base: int | None = None
        self.shape = shape
        self.ld = ld
        self.name = name
        rows, columns = shape
        self._elements = (rows - 1) * ld + columns if rows and columns else 0
        self._start = guard + offset * dtype.itemsize
        self._nbytes = self._start + self._elements * dtype.itemsize + guard
        self._uploaded: Words | None = None
        self._base = device.allocate(max(1, self._nbytes))
        device.label(self._base, name)

    @classmethod
    def create(
        cls,
        device: Device,
        shape: tuple[int, int],
        ld: int,
        dtype: DType,
        offset_elements: int = 0,
        *,
        name: str = "matrix",
        guard_bytes: int = GUARD_BYTES,
    ) -> GuardedMatrix:
        """Allocate rows×columns elements, ``ld`` from row to row, and write canaries, padding and poison.

        ``offset_elements`` shifts the matrix off its 256-byte alignment. ``guard_bytes`` is rounded up to 256.
        """
        rows, columns = shape
        if rows < 0 or columns < 0 or ld < max(1, columns):
            raise ProblemError(f"{name}: no {rows}x{columns} matrix has leading dimension {ld}")
        if offset_elements < 0 or guard_bytes < 0:
            raise ProblemError(f"{name}: offset {offset_elements} and guard {guard_bytes} must be 0 or more")
        guard = ceil_div(guard_bytes, _ALIGNMENT) * _ALIGNMENT
        matrix = cls(device, shape, ld, dtype, offset_elements, guard, name)
        try:
            matrix.poison()
        except BaseException:
            matrix.close()
            raise
        return matrix

    @property
    def address(self) -> int:
        """The address of the first element."""
        if self._base is None:
            raise ProblemError(f"{self.name} was closed, and its memory freed")
        return self._base + self._start

    def poison(self) -> None:
        """Preset every element to the poison: it must be overwritten and not be read."""
        self._write(np.full(self.shape, POISON[self._dtype.name], dtype=self._word))
        self._uploaded = None

    def upload(self, values: Array) -> None:
        """Write the elements; ``read_back`` compares an input with these bits."""
        if values.shape != self.shape or values.dtype != self._dtype.numpy:
            raise ProblemError(
                f"{self.name}: expected {self.shape} of {self._dtype}, not {values.shape} of {values.dtype}"
            )
        words = np.ascontiguousarray(values).view(self._word)
        self._write(words)
        self._uploaded = words.copy()

    def held(self) -> Bytes:
        """All that the memory holds, canaries and padding too."""
        return self._device.read(self.address - self._start, self._nbytes)

    def hold(self, image: Bytes) -> None:
        """Put back what ``held`` gave."""
        self._device.write(self.address - self._start, image)

    def download(self) -> Array:
        """The current elements."""
        return self.read_back(is_input=False).values

    def damage(self, *, is_input: bool) -> tuple[Damage, ...]:
        """What changed and must not; for an input, its elements too."""
        return self.read_back(is_input=is_input).damage

    def read_back(self, *, is_input: bool) -> ReadBack:
        """Values and damage from one copy of the memory."""
        image = self.held()
        end = self._start + self._elements * self._dtype.itemsize
        words = self._rows(image[self._start : end])
        columns = self.shape[1]
        found = [
            self._guard_damage("before", image[: self._start], -self._start),
            self._guard_damage("after", image[end:], end - self._start),
            self._cell_damage("padding", words[:, columns:], np.array(self._canary, dtype=self._word), columns),
        ]
        values = np.ascontiguousarray(words[:, :columns])
        if is_input and self._uploaded is not None:
            found.append(self._cell_damage("values", values, self._uploaded, 0))
        return ReadBack(values.view(self._dtype.numpy), tuple(damage for damage in found if damage is not None))

    def close(self) -> None:
        """Free the memory; a second call does nothing."""
        base, self._base = self._base, None
        if base is not None:
            self._device.free(base)

    def __enter__(self) -> GuardedMatrix:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except GemmsmithError:
            # After a fault the driver also refuses to free; the first error names the cause.
            if error is None:
                raise

    @property
    def _word(self) -> np.dtype[Any]:
        return np.dtype(f"<u{self._dtype.itemsize}")

    @property
    def _canary(self) -> int:
        return CANARY[self._dtype.name]

    def _canary_bytes(self, nbytes: int) -> Bytes:
        return np.full(ceil_div(nbytes, self._word.itemsize), self._canary, dtype=self._word).view(np.uint8)[:nbytes]

    def _write(self, words: Words) -> None:
        """Write the whole allocation in one copy: canary, rows with padding, canary."""
        image = self._canary_bytes(self._nbytes)
        rows = np.full((self.shape[0], self.ld), self._canary, dtype=self._word)
        rows[:, : self.shape[1]] = words
        end = self._start + self._elements * self._dtype.itemsize
        image[self._start : end] = rows.reshape(-1)[: self._elements].view(np.uint8)
        self._device.write(self.address - self._start, image)

    def _rows(self, body: Bytes) -> Words:
        """The body as rows of ``ld`` words; the missing padding of the last row counts as intact."""
        rows = np.full(self.shape[0] * self.ld, self._canary, dtype=self._word)
        rows[: self._elements].view(np.uint8)[:] = body
        return rows.reshape(self.shape[0], self.ld)

    def _guard_damage(self, region: str, now: Bytes, origin: int) -> Damage | None:
        changed = np.flatnonzero(now != self._canary_bytes(now.size))
        if not changed.size:
            return None
        return Damage(self.name, region, int(origin + changed[0]), int(changed.size), -1, -1)

    def _cell_damage(self, region: str, now: Words, before: Words, first_column: int) -> Damage | None:
        changed = np.flatnonzero(now != before)
        if not changed.size:
            return None
        row, column = divmod(int(changed[0]), now.shape[1])
        column += first_column
        offset = (row * self.ld + column) * self._dtype.itemsize
        return Damage(self.name, region, offset, int(changed.size) * self._dtype.itemsize, row, column)
