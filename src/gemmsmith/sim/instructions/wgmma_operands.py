"""The operands of wgmma: element types, where they lie in shared memory, and accumulators in registers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gemmsmith.sim.execution import Execution
from gemmsmith.sim.memory.fragments import c_matrices, d_registers
from gemmsmith.sim.memory.wgmma_descriptor import decode, k_major, mn_major
from gemmsmith.sim.ptx.types import Array
from gemmsmith.sim.wave import WARP

CHUNK = 16
K_BYTES = 32  # of every wgmma, and of what is stored of a sparse A
SIZES = {"f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1, "s8": 1, "u8": 1}


@dataclass(frozen=True)
class Form:
    """Element types, and the columns of B and D. ``sparse``: half of A is stored, and K is twice as long."""

    a: str
    b: str
    d: str
    columns: int
    saturate: bool
    sparse: bool = False

    @property
    def size(self) -> int:
        """Bytes of an element of A and B; bits come by the byte."""
        return SIZES.get(self.a, 1)

    @property
    def b_bytes(self) -> int:
        """Bytes of B along K."""
        return K_BYTES * (2 if self.sparse else 1)

    @property
    def row_bits(self) -> int:
        """Bits of a row's metadata, if A is sparse: 4 for four elements of K, or for two of tf32."""
        return self.b_bytes // min(2, self.size)

    @property
    def accumulator(self) -> int:
        return 2 if self.d == "f16" else 4


def operand_index(machine: Execution, descriptors: Array, rows: Array, form: Form, transposed: bool, lanes: Array,
           of_b: bool = False) -> Array:  # fmt: skip
    """Byte positions (warps, rows, pieces) of an operand in shared memory; ``lanes`` has one of each warp.

    Pieces are elements if it is transposed, else 16-byte chunks.
    """
    fields, shared, depth = decode(descriptors), machine.shared, form.b_bytes if of_b else K_BYTES
    found = mn_major(fields, rows, depth // form.size) if transposed else k_major(fields, rows, depth)
    width = form.size if transposed else CHUNK
    bases = machine.shared_base[lanes][:, None]
    return shared.index(found.reshape(lanes.size, -1), bases, width).reshape(found.shape)


def rows_inside(machine: Execution, descriptors: Array, rows: Array, form: Form, transposed: bool,
                 of_b: bool) -> Array:  # fmt: skip
    """Those rows of one operand that are in the block's shared memory."""
    fields, depth = decode(descriptors), form.b_bytes if of_b else K_BYTES
    found = mn_major(fields, rows, depth // form.size) if transposed else k_major(fields, rows, depth)
    inside: Array = rows[(found[0] + CHUNK <= machine.shared.size).all(axis=1)]
    return inside


def operand_tile(machine: Execution, descriptors: Array, rows: Array, form: Form, transposed: bool, lanes: Array,
          of_b: bool = False) -> Array:  # fmt: skip
    """Raw elements (K, rows, warps) of an operand in shared memory."""
    index = operand_index(machine, descriptors, rows, form, transposed, lanes, of_b)
    if transposed:
        return machine.shared.gather(index, form.size).transpose(2, 1, 0)
    raw = np.ascontiguousarray(machine.shared.gather(index, CHUNK)).view(f"u{form.size}")
    return raw.reshape(lanes.size, rows.size, -1).transpose(2, 1, 0)


def signed(elements: Array, form: Form, negate: bool) -> Array:
    if not negate:
        return elements
    flipped: Array = elements ^ elements.dtype.type(1 << (8 * form.size - 1))
    return flipped


def accumulators_of(words: Array, form: Form) -> Array:
    """(16, columns, warps) from words (registers, warps, 32)."""
    each = form.accumulator  # registers of eight columns: 4 of fp32, 2 of fp16
    tiles, warps = form.columns // 8, words.shape[1]
    parts = words.reshape(tiles, each, warps, WARP).transpose(1, 0, 2, 3).reshape(each, tiles * warps, WARP)
    found = c_matrices(np.ascontiguousarray(parts), form.accumulator).reshape(16, 8, tiles, warps)
    return found.transpose(0, 2, 1, 3).reshape(16, form.columns, warps)


def registers_of(matrices: Array, form: Form) -> Array:
    """The reverse of ``accumulators_of``."""
    tiles, warps, each = form.columns // 8, matrices.shape[2], form.accumulator
    parts = matrices.reshape(16, tiles, 8, warps).transpose(0, 2, 1, 3).reshape(16, 8, tiles * warps)
    found = d_registers(np.ascontiguousarray(parts)).reshape(each, tiles, warps, WARP)
    return found.transpose(1, 0, 2, 3).reshape(tiles * each, warps, WARP)
