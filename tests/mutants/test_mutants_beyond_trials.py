"""Mutants that need more than a guarded launch: offsets beyond 2**31, and data that hide an error."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mutant import ARCH, Mutant, judge
from mutant_catalogue import MUTANTS, OVERFLOWS
from ptx_only import compile_to_ptx

from gemmsmith.errors import SimulationError
from gemmsmith.fills import Operands, operands
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.run.device import Launch
from gemmsmith.sim.device import SimDevice
from gemmsmith.verify import harness

# Row 2 of C begins 2**31 elements after row 0. The memory is mapped, but only three rows of it are touched.
HUGE = Problem(3, 8, 8, ldc=2**30)


def _run_huge(mutant: Mutant, spec: KernelSpec) -> bool:
    """Whether C is correct after the launch; only memory that the problem touches is written or read."""
    device, data = SimDevice(ARCH), operands(HUGE, "integers")
    sizes = (data.a.nbytes, data.b.nbytes, 4 * (2 * HUGE.ldc + HUGE.n))
    a, b, c = (device.allocate(size) for size in sizes)
    device.write(a, data.a.reshape(-1).view(np.uint8))
    device.write(b, data.b.reshape(-1).view(np.uint8))
    loaded = device.load(compile_to_ptx(spec, mutant.chosen, HUGE, ARCH))
    device.launch(loaded, Launch(spec.geometry(HUGE, mutant.chosen), spec.signature.pack(HUGE, a, b, c)))
    rows = [device.read(c + 4 * row * HUGE.ldc, 4 * HUGE.n).view(np.float32) for row in range(HUGE.m)]
    return bool((np.stack(rows) == data.a @ data.b).all())


@pytest.mark.parametrize("mutant", OVERFLOWS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_a_32_bit_offset_is_out_of_bounds(mutant: Mutant, tmp_path: Path) -> None:
    assert _run_huge(mutant, mutant.original)
    with pytest.raises(SimulationError, match="out-of-bounds global write of 4 bytes") as caught:
        _run_huge(mutant, mutant.write(tmp_path))
    assert "linear_combination.cuh:" in caught.value.hint
    assert "block (0,0,0), thread (" in caught.value.hint


def _constant(problem: Problem, fill: str = "normal", seed: int = 0, *more: Any) -> Operands:
    data = operands(problem, fill, seed, *more)
    return replace(data, a=np.full_like(data.a, 1.5), b=np.full_like(data.b, -0.25), c=np.full_like(data.c, 2.0))


INVISIBLE = (
    "k-tile of B read transposed", "adjacent k exchanged in the store", "wrong fragment column stored",
    "fragment of B loaded transposed", "halves of a fragment of B swapped", "copy without the swizzle",
)  # fmt: skip


@pytest.mark.parametrize("mutant", [m for m in MUTANTS if m.name in INVISIBLE], ids=lambda m: m.name.replace(" ", "-"))
def test_constant_matrices_hide_the_error(mutant: Mutant, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some well-known checkers fill matrices with constants; these mutants show why ours does not."""
    spec = mutant.write(tmp_path)
    assert not judge(spec, mutant.chosen, mutant.trial).ok
    monkeypatch.setattr(harness, "operands", _constant)
    assert judge(spec, mutant.chosen, mutant.trial).ok
