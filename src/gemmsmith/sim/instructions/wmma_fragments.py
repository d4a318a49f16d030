"""How a fragment of the warp-matrix instructions (wmma) is made of the fragments of mma.sync.

PTX leaves it open which lane holds which element. ptxas builds every fragment from tiles of 8 × 4E elements, E to a
register: lane 4g + t holds elements E·t to E·t + E − 1 of row g of the tile. The *outer* dimension of a matrix is that
of g, the *inner* one that of t: K for A and B. Two tiles along the outer dimension make the A operand of an mma.sync,
one makes its B operand. A tile of the accumulator is 8×8 and has two elements to a lane.

With 8 rows and 32 columns the product is computed transposed: B is the A operand, A the B operand, and the outer
dimension of the accumulator is that of columns. On an H200 the registers after each load are the same
(``tests/data/tensor_cores_more.npz``).
"""

from __future__ import annotations

from dataclasses import dataclass

from gemmsmith.sim.lowering.places import Refused

_SIXTEEN = ("m16n16k16", "m32n8k16", "m8n32k16")
_SHAPES = {
    "m16n16k16": (16, 16, 16), "m32n8k16": (32, 8, 16), "m8n32k16": (8, 32, 16), "m16n16k8": (16, 16, 8),
    "m8n8k4": (8, 8, 4), "m8n8k32": (8, 8, 32), "m8n8k128": (8, 8, 128),
}  # fmt: skip
# For each type of A and B: the bits of an element, and the shapes.
_FACTORS: dict[str, tuple[int, tuple[str, ...]]] = {
    "f16": (16, _SIXTEEN), "bf16": (16, _SIXTEEN), "s8": (8, _SIXTEEN), "u8": (8, _SIXTEEN),
    "tf32": (32, ("m16n16k8",)), "f64": (64, ("m8n8k4",)), "s4": (4, ("m8n8k32",)), "u4": (4, ("m8n8k32",)),
    "b1": (1, ("m8n8k128",)),
}  # fmt: skip
_ACCUMULATORS: dict[str, tuple[int, tuple[str, ...]]] = {
    "f16": (16, _SIXTEEN), "f32": (32, (*_SIXTEEN, "m16n16k8")), "s32": (32, (*_SIXTEEN, "m8n8k32", "m8n8k128")),
    "f64": (64, ("m8n8k4",)),
}  # fmt: skip
SHAPES = " ".join(_SHAPES)
FACTORS = " ".join(_FACTORS)
ACCUMULATORS = " ".join(_ACCUMULATORS)
_DOUBLED = 8  # registers of an fp16 fragment of A or B, which holds its elements more than once


@dataclass(frozen=True)
class Layout:
    """The tiles of a fragment in the order of its registers, as (outer, inner); ``bits`` of an element.

    ``contiguous``: the layout in memory in which the elements of a register are neighbours. ``registers`` may be more
    than the tiles have: an fp16 fragment repeats them. ``leading``: the extents of the matrix, (rows, columns).
    """

    tiles: tuple[tuple[int, int], ...]
    bits: int
    contiguous: str
    registers: int
    leading: tuple[int, int]

    @property
    def unit(self) -> int:
        """Bytes of an element, or of the byte that holds several."""
        return max(1, self.bits // 8)

    @property
    def inner(self) -> int:
        """Units along the inner dimension of a tile of A or B."""
        return 4 * max(4, self.unit) // self.unit

    def pitch(self, by_rows: bool) -> int:
        """Elements from one row or column in memory to the next, if the instruction does not say."""
        return self.leading[1 if by_rows else 0]


def extents(shape: str) -> tuple[int, int, int]:
    """M, N and K."""
    return _SHAPES[shape]


def swapped(shape: str) -> bool:
    """Whether A and B change places in mma.sync."""
    m, n, _ = _SHAPES[shape]
    return m < n


def factor(matrix: str, shape: str, kind: str) -> Layout:
    """The layout of A or B."""
    bits, shapes = _FACTORS[kind]
    if shape not in shapes:
        raise Refused
    m, n, k = _SHAPES[shape]
    outer = (m if matrix == "a" else n) // 8
    inner = k * bits // (4 * max(32, bits))
    first = matrix == ("b" if swapped(shape) else "a") and outer > 1  # the A operand of mma.sync, of 16 rows
    if first:
        tiles = [(2 * pair + half, i) for pair in range(outer // 2) for i in range(inner) for half in (0, 1)]
    else:
        tiles = [(o, i) for o in range(outer) for i in range(inner)]
    return Layout(tuple(tiles), bits, "row" if matrix == "a" else "col", _DOUBLED if kind == "f16" else len(tiles),
                  (m, k) if matrix == "a" else (k, n))  # fmt: skip


def accumulator(shape: str, kind: str) -> Layout:
    """The layout of C or D; inner and outer dimensions in tiles of 8."""
    bits, shapes = _ACCUMULATORS[kind]
    if shape not in shapes:
        raise Refused
    m, n, _ = _SHAPES[shape]
    outer, inner = (n // 8, m // 8) if swapped(shape) else (m // 8, n // 8)
    tiles = tuple((o, i) for i in range(inner) for o in range(outer))
    return Layout(tiles, bits, "col" if swapped(shape) else "row", len(tiles) * (1 if kind == "f16" else 2), (m, n))
