"""Faults name the matrix that an address lies by."""

from __future__ import annotations

import pytest

from gemmsmith.problem import FP32
from gemmsmith.run.memory import GuardedMatrix
from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.memory.global_memory import GlobalMemory


def test_a_labelled_allocation_is_named_on_every_side() -> None:
    memory = GlobalMemory()
    base = memory.allocate(252)
    memory.label(base + 8, "A")
    assert memory.describe(base + 268) == "16 bytes past the end of A (252 bytes)"
    assert memory.describe(base - 4) == "4 bytes before A (252 bytes)"
    assert memory.describe(base + 250) == "it starts inside A (252 bytes) and runs over its end"


def test_a_label_goes_with_its_allocation() -> None:
    memory = GlobalMemory()
    first, second = memory.allocate(64), memory.allocate(64)
    memory.label(first, "A")
    memory.label(17, "nothing")
    assert memory.describe(second + 64) == "0 bytes past the end of a 64-byte allocation"
    memory.free(first)
    assert "A" not in memory.describe(first)


@pytest.mark.parametrize("name", ["A", "C"])
def test_a_guarded_matrix_labels_its_memory(name: str) -> None:
    device = SimDevice()
    with GuardedMatrix.create(device, (4, 8), 8, FP32, name=name, guard_bytes=0) as matrix:
        assert device.memory.describe(matrix.address + 128) == f"0 bytes past the end of {name} (128 bytes)"
