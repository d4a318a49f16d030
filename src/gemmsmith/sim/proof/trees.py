"""Trees of arithmetic: by which operations, in which order, a value came about.

A tree is known by a 64-bit fingerprint, so that arrays of values have arrays of fingerprints. Each new fingerprint is
written down once with its operation and operands; from these notes the tree of any output can be read. An input's
fingerprint says which matrix it belongs to and its index along K, not its row or column: outputs that are summed in
the same order have the same tree. The operands of + and × may change places, which changes no rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from gemmsmith.sim.ptx.types import Array

NOTHING = 0  # the fingerprint of a constant zero
_MOST = 1 << 17  # trees that are written down; more have no order that a person would want to read
_SEEN_BITS = 22
_ROUNDS = 48  # new trees of one operation that are looked for one by one

_29, _31 = np.uint64(29), np.uint64(31)
_ODD = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F), np.uint64(0x165667B19E3779F9)
_MASK = (1 << 64) - 1


class Op(StrEnum):
    """What a node of a tree is."""

    LEAF = "input"  # detail: its name, and its index along K
    CONSTANT = "constant"
    TIMES = "exact product"  # what a matrix instruction adds
    MULTIPLY = "product"  # rounded; detail: the type
    ADD = "sum"
    FMA = "fused multiply-add"
    BLOCK = "products added at once"  # the accumulator, then exact products; detail: the type
    ROUND = "conversion"  # detail: the type that it rounds to
    NEGATE = "negation"


@dataclass(frozen=True)
class Node:
    """An operation and the fingerprints of its operands."""

    op: Op
    operands: tuple[int, ...] = ()
    detail: str = ""
    index: int = -1


def _mixed(x: Array) -> Array:
    x ^= x >> _31
    x *= _ODD[0]
    x ^= x >> _29
    return x


def _salt(*words: object) -> np.uint64:
    """A number that stands for an operation; the same in every process."""
    total = 0xCBF29CE484222325
    for byte in "\0".join(map(str, words)).encode():
        total = (total ^ byte) * 0x100000001B3 & _MASK
    return np.uint64((total ^ total >> 32) * 0xD6E8FEB86659FD93 & _MASK)


class Trees:
    """The trees of one or several runs, by fingerprint. ``full``: there are too many to be written down."""

    def __init__(self) -> None:
        self.nodes: dict[int, Node] = {}
        self.full = False
        self._seen = np.zeros(1 << _SEEN_BITS, bool)
        self._salts: dict[tuple[object, ...], np.uint64] = {}

    # -- inputs -----------------------------------------------------------------------------------

    def leaf(self, name: str, index: int = -1) -> int:
        """The fingerprint of an input, with its index along K if it has one."""
        found = int(_mixed(np.array([self._salt("leaf", name, index)]))[0]) or 1
        self.nodes[found] = Node(Op.LEAF, (), name, index)
        return found

    def leaves(self, name: str, indices: Array) -> Array:
        table = np.array([self.leaf(name, k) for k in range(int(indices.max(initial=-1)) + 1)], np.uint64)
        found: Array = table[indices]
        return found

    def constants(self, values: Array) -> Array:
        """Fingerprints of numbers that are no inputs; zero has none."""
        wide = np.ascontiguousarray(np.asarray(values).astype(np.float64) + 0.0)
        if not wide.any():
            return np.zeros(wide.shape, np.uint64)
        found = _mixed(wide.view(np.uint64) ^ _ODD[2])
        found[wide == 0] = NOTHING
        numbers, first = np.unique(found, return_index=True)
        for number, at in zip(numbers.tolist(), first.tolist(), strict=True):
            if number != NOTHING and len(self.nodes) <= _MOST:
                self.nodes.setdefault(number, Node(Op.CONSTANT, (), repr(float(wide.reshape(-1)[at]))))
        return found

    ONE = int(_mixed(np.array([1.0]).view(np.uint64) ^ _ODD[2])[0])

    # -- operations -------------------------------------------------------------------------------

    def times(self, a: Array, b: Array, plain: bool = False) -> Array:
        """Exact products. ``plain``: among the operands are constants."""
        found = self._pair("times", a, b)
        if plain:
            found = np.where((a == NOTHING) | (b == NOTHING), np.uint64(NOTHING), found)
        self._note(found, Op.TIMES, (a, b), "")
        return found

    def multiply(self, a: Array, b: Array, kind: str, plain: bool = False) -> Array:
        found = self._pair(f"multiply {kind}", a, b)
        if plain:
            found = np.where(a == np.uint64(self.ONE), b, np.where(b == np.uint64(self.ONE), a, found))
            found = np.where((a == NOTHING) | (b == NOTHING), np.uint64(NOTHING), found)
        self._note(found, Op.MULTIPLY, (a, b), kind)
        return found

    def add(self, a: Array, b: Array, kind: str, plain: bool = False) -> Array:
        found = self._pair(f"add {kind}", a, b)
        if plain:
            found = np.where(a == NOTHING, b, np.where(b == NOTHING, a, found))
        self._note(found, Op.ADD, (a, b), kind)
        return found

    def fma(self, a: Array, b: Array, c: Array, kind: str, plain: bool = False) -> Array:
        empty = c == NOTHING if plain else np.zeros(1, bool)
        if empty.all():
            return self.multiply(a, b, kind, plain)
        found = _pair(a, b, self._salt("fma", kind))
        found = found + c * _ODD[1]
        found = _mixed(found)
        if plain:
            one = np.uint64(self.ONE)
            if (empty & (a != NOTHING) & (b != NOTHING)).any():
                found = np.where(empty, self.multiply(a, b, kind, plain), found)
            for factor, other in ((a, b), (b, a)):
                if (factor == one).any():
                    found = np.where(factor == one, self.add(other, c, kind, plain), found)
            found = np.where((a == NOTHING) | (b == NOTHING), c, found)
        self._note(found, Op.FMA, (a, b, c), kind)
        return found

    def block(self, c: Array, products: Array, kind: str) -> Array:
        """C plus exact products (the first axis), added at once."""
        several: Array = products * _ODD[2]
        several ^= several >> _29
        several *= _ODD[1]
        several[products == NOTHING] = 0
        found = _mixed(several.sum(axis=0, dtype=np.uint64) * _ODD[0] + c * _ODD[1] + self._salt("block", kind))
        found = np.where((products == NOTHING).all(axis=0), c, found)
        self._note(found, Op.BLOCK, (c, *products), kind)
        return found

    def rounded(self, a: Array, kind: str, where: Array | None = None) -> Array:
        found = _mixed(a * _ODD[1] + self._salt("round", kind))
        if where is not None:
            found = np.where(where, found, a)
        self._note(found, Op.ROUND, (a,), kind)
        return found

    def negated(self, a: Array) -> Array:
        found = _mixed(a * _ODD[1] + self._salt("negate"))
        self._note(found, Op.NEGATE, (a,), "")
        return found

    def _pair(self, name: str, a: Array, b: Array) -> Array:
        return _mixed(_pair(a, b, self._salt(name)))

    def _salt(self, *words: object) -> np.uint64:
        if words not in self._salts:
            self._salts[words] = _salt(*words)
        return self._salts[words]

    # -- notes ------------------------------------------------------------------------------------

    def _note(self, found: Array, op: Op, operands: tuple[Array, ...], detail: str) -> None:
        """Write down the trees that are new. A fingerprint that is taken for a known one leaves its tree unreadable."""
        if self.full:
            return
        places = (found >> np.uint64(64 - _SEEN_BITS)).view(np.int64)
        known = self._seen[places]
        if known.all():
            return
        flat, left = found.reshape(-1), np.flatnonzero(~known)
        rounds = 0
        while left.size:
            rounds += 1
            if rounds > _ROUNDS:
                _, first = np.unique(flat[left], return_index=True)
                for at in left[first]:
                    self._write(flat, int(at), found.shape, op, operands, detail)
                break
            at = int(left[0])
            self._write(flat, at, found.shape, op, operands, detail)
            left = left[flat[left] != flat[at]]
        self._seen[places.reshape(-1)] = True
        self.full = len(self.nodes) > _MOST

    def _write(
        self, flat: Array, at: int, shape: tuple[int, ...], op: Op, operands: tuple[Array, ...], detail: str
    ) -> None:
        number = int(flat[at])
        if number == NOTHING or number in self.nodes:
            return
        given = tuple(int(np.broadcast_to(x, shape).reshape(-1)[at] if x.shape != shape else x.reshape(-1)[at])
                      for x in operands)  # fmt: skip
        self.nodes[number] = Node(op, given, detail)


def _pair(a: Array, b: Array, salt: np.uint64) -> Array:
    """Symmetric, and one-to-one in each operand: 2xy + x + y."""
    x, y = a ^ salt, b ^ salt
    found: Array = x * y
    found += found
    found += x
    found += y
    found ^= found >> _31
    found *= _ODD[2]
    return found
