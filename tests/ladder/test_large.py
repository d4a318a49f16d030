"""More than 2³¹ elements: the last tile of a matrix so large that a 32-bit offset wraps around.

The simulated memory maps pages when they are touched, so a matrix of 8 GB costs what its last tile costs. Only the
block of that tile is launched. What a launch of its own prepares (fp32_tensor_fp16x3) has such a test beside it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
from rung_launch import RUNGS, bits, compiler, expected_bits, problem_of, small, tile

from gemmsmith.errors import SimulationError
from gemmsmith.fills import Array, operands
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import DType, Problem
from gemmsmith.run.device import Launch
from gemmsmith.sim.device import SimDevice

LIMIT = 2**31
KINDS = ("A", "A-whole", "B", "B-whole", "C", "C-whole", "tall", "wide")


def problem_for(name: str, kind: str) -> Problem:
    """The last tile begins more than 2³¹ elements behind the start of what ``kind`` names."""
    bm, bn, bk = tile(name)
    if kind in ("tall", "wide"):
        return problem_of(name, (LIMIT - 1, 1, 1) if kind == "tall" else (1, LIMIT - 1, 1)).with_(beta=1.0)
    whole = kind.endswith("-whole")
    shape = (3 * bm, 2 * bn, 2 * bk) if whole else (2 * bm + 3, bn + 1, bk + 2)
    problem = problem_of(name, shape).with_(alpha=0.7, beta=-1.0)
    before = bk if kind[0] == "B" else 2 * bm  # rows above the last tile (of B: above the last k-tile)
    leading = (LIMIT // before // 8 + 1) * 8
    return problem.with_(**{f"ld{kind[0].lower()}": leading}, alpha=0.7, beta=-1.0)


@dataclass(frozen=True)
class Large:
    """A matrix of which only some rows exist."""

    device: SimDevice
    address: int
    leading: int
    dtype: DType

    @classmethod
    def create(cls, device: SimDevice, shape: tuple[int, int], leading: int, dtype: DType) -> Large:
        elements = (shape[0] - 1) * leading + shape[1]
        return cls(device, device.allocate(elements * dtype.itemsize), leading, dtype)

    def write(self, row: int, column: int, values: Array) -> None:
        if self.leading == values.shape[1]:
            values = values.reshape(1, -1)  # rows without gaps are one piece
        for index, line in enumerate(values):
            self.device.write(self._at(row + index, column), np.ascontiguousarray(line).view(np.uint8))

    def read(self, row: int, column: int, shape: tuple[int, int]) -> Array:
        rows, columns = shape
        lines = [self.device.read(self._at(row + i, column), columns * self.dtype.itemsize) for i in range(rows)]
        return np.stack(lines).view(self.dtype.numpy)

    def _at(self, row: int, column: int) -> int:
        return self.address + (row * self.leading + column) * self.dtype.itemsize


def last_tile(spec: KernelSpec, config: Config, problem: Problem, sides: tuple[int, int]) -> tuple[Array, Array]:
    """The bits of the last tile of C as computed, and as they should be."""
    row, column = ((extent - 1) // side * side for extent, side in zip(problem.c_shape, sides, strict=True))
    part = Problem(problem.m - row, problem.n - column, problem.k, problem.dtype, alpha=problem.alpha,
                   beta=problem.beta)  # fmt: skip
    data = operands(part, "normal", seed=5)
    device = SimDevice()
    a = Large.create(device, problem.a_shape, problem.lda, problem.dtype)
    b = Large.create(device, problem.b_shape, problem.ldb, problem.dtype)
    c = Large.create(device, problem.c_shape, problem.ldc, problem.out_dtype)
    a.write(row, 0, data.a)
    b.write(0, column, data.b)
    c.write(row, column, data.c)
    config = spec.specialize(config, problem, (a.address, b.address, c.address))
    geometry = spec.geometry(problem, config)
    arguments = spec.signature.pack(problem, a.address, b.address, c.address)
    loaded = device.load(compiler(spec, config, problem, device.arch))
    device.launch(loaded, Launch(geometry, arguments), blocks=[geometry.blocks - 1])
    return bits(c.read(row, column, part.c_shape)), expected_bits(spec, part, data, config)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", [name for name in RUNGS if rung_named(name).prologue is None])
def test_offsets_do_not_overflow(name: str, kind: str) -> None:
    problem = problem_for(name, kind)
    spec, config = small(name)
    got, expected = last_tile(spec, config, problem, tile(name)[:2])
    assert np.array_equal(got, expected)


# What 32 bits too few look like, in the rung that says it most plainly.
ACROSS = "((N + TILE - 1) / TILE)"
MUTANTS = [
    ("A", "A[row * lda + k]", "A[(int)(row * lda) + k]"),
    ("B", "B[k * ldb + col]", "B[(int)(k * ldb) + (int)col]"),
    ("C", "C + row * ldc + col", "C + (int)(row * ldc) + (int)col"),
    ("tall", "C + row * ldc + col", "(float*)((char*)C + (int)(4 * (row * ldc + col)))"),
    ("wide", "block_tile<TILE, TILE>(N)",
     f"Tile{{(int)blockIdx.x / {ACROSS} * TILE, (int)blockIdx.x % {ACROSS} * TILE}}"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "right", "wrong"), MUTANTS)
def test_it_can_fail(tmp_path: Path, kind: str, right: str, wrong: str) -> None:
    spec, config = small("naive")
    assert right in spec.code
    broken = tmp_path / "naive.cu"
    broken.write_text(spec.code.replace(right, wrong))
    try:
        got, expected = last_tile(replace(spec, source=broken), config, problem_for("naive", kind), tile("naive")[:2])
    except SimulationError:
        return  # an address outside of every allocation
    assert not np.array_equal(got, expected)
