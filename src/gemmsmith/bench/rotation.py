"""Several operand sets, so that a launch does not find its operands in L2.

Set 0 is uploaded from the host. Every other set is derived from it on the GPU by cyclically shifting stored rows of A
or B. Its product is then set 0's with rows and columns rolled, so any set can be verified, and filling sixteen
gigabytes takes no host time. C is only overwritten (beta = 0), so its values do not drift.

    layout   A stored   B stored   shifted              product
    NN       M×K        K×N        A by rows            rows rolled
    NT       M×K        N×K        A and B by rows      rows and columns rolled
    TT       K×M        N×K        B by rows            columns rolled
    TN       K×M        K×N        A and B by the same  unchanged (k is rolled)
"""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from gemmsmith.errors import UnsupportedError
from gemmsmith.fills import Operands
from gemmsmith.problem import Problem, ceil_div
from gemmsmith.run.contender import OperandSet
from gemmsmith.run.device import Bytes
from gemmsmith.run.memory import POISON

_ALIGNMENT = 256
# A gap between matrices, so that a small overrun does not damage another.
_GAP = 1024
# A graph holds one launch per set; this many launches of the smallest kernels last a few milliseconds.
MOST_SETS = 4096
# The share of free memory to use; the rest is for the libraries.
_SHARE = 0.5
# The shift from set to set, as a fraction of the extent: near the golden ratio, so that neighbours differ.
_STEP = 0.618


class Memory(Protocol):
    """The device functions that a rotation needs."""

    def allocate(self, nbytes: int) -> int: ...
    def free(self, address: int) -> None: ...
    def write(self, address: int, data: Bytes) -> None: ...
    def read(self, address: int, nbytes: int) -> Bytes: ...
    def copy(self, target: int, source: int, nbytes: int) -> None: ...
    def preset(self, address: int, word: int, count: int, itemsize: int) -> None: ...
    def free_bytes(self) -> int: ...
    def synchronize(self) -> None: ...


@dataclass(frozen=True)
class Extent:
    """Bytes of A, B and C of one problem, and the number of sets in the rotation."""

    a: int
    b: int
    c: int
    sets: int
    covers: bool

    @property
    def set_bytes(self) -> int:
        """The bytes that one launch accesses."""
        return self.a + self.b + self.c

    @property
    def pitch(self) -> int:
        """The distance between sets in memory."""
        return sum(map(_padded, (self.a, self.b, self.c)))


def extent(problem: Problem, l2_bytes: int, free_bytes: int) -> Extent:
    """The number of sets: at least two, and together at least twice the L2, as far as memory allows.

    ``covers`` says whether they reach twice the L2; otherwise the timing is not cold.
    """
    a = problem.a_shape[0] * problem.a_shape[1] * problem.dtype.itemsize
    b = problem.b_shape[0] * problem.b_shape[1] * problem.dtype.itemsize
    c = problem.m * problem.n * problem.out_dtype.itemsize
    one = Extent(a, b, c, 1, False)
    room = int(free_bytes * _SHARE) // one.pitch
    if room < 1:
        raise UnsupportedError(
            f"{problem} needs {one.pitch / 2**30:.2f} GiB of operands, and {free_bytes / 2**30:.2f} GiB are free",
            "choose a smaller shape",
        )
    wanted = max(2, ceil_div(2 * l2_bytes, max(1, one.set_bytes)))
    sets = min(wanted, room, MOST_SETS)
    return Extent(a, b, c, sets, sets * one.set_bytes >= 2 * l2_bytes)


def shifts(problem: Problem, index: int) -> tuple[int, int]:
    """The shift of A and of B in set ``index``, in stored rows."""
    if problem.layout == "TN":
        step = _shift(problem.k, index)
        return step, step
    return (0 if problem.trans_a else _shift(problem.m, index)), (_shift(problem.n, index) if problem.trans_b else 0)


def _shift(rows: int, index: int) -> int:
    return int(index * max(1, round(rows * _STEP))) % rows if rows else 0


def rolled_back(problem: Problem, index: int, c: NDArray[Any]) -> NDArray[Any]:
    """The product of set ``index``, rolled back to set 0's order."""
    if problem.layout == "TN":
        return c
    return np.roll(c, shifts(problem, index), axis=(0, 1))


class Rotation:
    """The sets on a device, in one allocation. Leaving the context frees them."""

    def __init__(self, memory: Memory, problem: Problem, data: Operands, l2_bytes: int) -> None:
        self._memory, self._problem, self._data = memory, problem, data
        self.extent = extent(problem, l2_bytes, memory.free_bytes())
        self._base = memory.allocate(self.extent.pitch * self.extent.sets + _ALIGNMENT)
        self.sets = tuple(self._place(i) for i in range(self.extent.sets))
        try:
            self._fill()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Rotation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Free the memory."""
        self._memory.free(self._base)

    def _place(self, index: int) -> OperandSet:
        a = ceil_div(self._base, _ALIGNMENT) * _ALIGNMENT + index * self.extent.pitch
        b = a + _padded(self.extent.a)
        return OperandSet(a, b, b + _padded(self.extent.b))

    def _fill(self) -> None:
        first = self.sets[0]
        for address, values in ((first.a, self._data.a), (first.b, self._data.b)):
            self._memory.write(address, np.ascontiguousarray(values).reshape(-1).view(np.uint8))
        self._memory.synchronize()
        for index, target in enumerate(self.sets):
            if index:
                a_rows, b_rows = shifts(self._problem, index)
                self._shifted_copy(target.a, first.a, self.extent.a, self._problem.a_shape, a_rows)
                self._shifted_copy(target.b, first.b, self.extent.b, self._problem.b_shape, b_rows)
            self.poison(index)
        self._memory.synchronize()

    def _shifted_copy(self, target: int, source: int, nbytes: int, shape: tuple[int, int], rows: int) -> None:
        head = rows * shape[1] * self._problem.dtype.itemsize
        self._memory.copy(target, source + head, nbytes - head)
        self._memory.copy(target + nbytes - head, source, head)

    def poison(self, index: int, zero: bool = False) -> None:
        """Fill C of a set with NaN (or zeros), to reveal unwritten outputs."""
        kind = self._problem.out_dtype
        word = 0 if zero else POISON[kind.name]
        self._memory.preset(self.sets[index].c, word, self._problem.m * self._problem.n, kind.itemsize)
        self._memory.synchronize()

    def product(self, index: int) -> NDArray[Any]:
        """C of a set, rolled back to set 0's order."""
        self._memory.synchronize()
        values = self._memory.read(self.sets[index].c, self.extent.c).view(self._problem.out_dtype.numpy)
        return rolled_back(self._problem, index, values.reshape(self._problem.c_shape))

    def inputs_changed(self) -> str:
        """The inputs of set 0 that have changed since the upload; they are restored."""
        found = []
        for name, address, values in (("A", self.sets[0].a, self._data.a), ("B", self.sets[0].b, self._data.b)):
            expected = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
            if not np.array_equal(self._memory.read(address, expected.nbytes), expected):
                found.append(name)
                self._memory.write(address, expected)
        return " and ".join(found)


def _padded(nbytes: int) -> int:
    return ceil_div(nbytes + _GAP, _ALIGNMENT) * _ALIGNMENT
