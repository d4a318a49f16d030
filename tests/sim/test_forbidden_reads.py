"""Memory that kernels must not read as it was, and may read where they have written."""

from __future__ import annotations

import numpy as np
import pytest

from gemmsmith.sim.memory.access_faults import AccessFault
from gemmsmith.sim.memory.global_memory import GlobalMemory


def test_only_what_was_written_may_be_read() -> None:
    memory = GlobalMemory()
    place, other = memory.allocate(64), memory.allocate(64)
    memory.forbid_reads(place, "it is not set")
    words = np.arange(place, place + 32, 4, dtype=np.uint64)
    memory.scatter(words, 4, np.arange(8, dtype=np.uint32))
    assert memory.gather(words, 4).tolist() == list(range(8))
    assert memory.gather(np.array([place + 16], np.uint64), 16).size == 1
    for width, first, position in ((4, place + 32, 1), (8, place + 40, 1)):
        with pytest.raises(AccessFault, match="forbidden") as fault:
            memory.gather(np.array([place, first], np.uint64), width)
        assert (fault.value.position, fault.value.address) == (position, first)
    with pytest.raises(AccessFault, match="forbidden") as fault:
        memory.gather(np.array([other, place, place + 32], np.uint64), 4)
    assert fault.value.position == 2
