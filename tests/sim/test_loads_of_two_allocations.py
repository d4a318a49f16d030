"""Several loads as one: each operation has a row of addresses, in an allocation of its own or across several."""

from __future__ import annotations

import numpy as np
import pytest

from gemmsmith.sim.memory.access_faults import AccessFault
from gemmsmith.sim.memory.global_memory import GlobalMemory

Addresses = np.ndarray[tuple[int, int], np.dtype[np.uint64]]


@pytest.fixture
def memory() -> GlobalMemory:
    return GlobalMemory()


@pytest.fixture
def places(memory: GlobalMemory) -> tuple[int, int]:
    """Where A and B begin."""
    a, b = memory.allocate(256), memory.allocate(512)
    for address, size, first in ((a, 256, 0), (b, 512, 100)):
        memory.view(address, size)[:] = (first + np.arange(size)) % 251
    return a, b


def one_by_one(memory: GlobalMemory, addresses: Addresses, width: int) -> list[bytes]:
    return [memory.view(int(address), width).tobytes() for address in addresses.reshape(-1)]


@pytest.mark.parametrize("width", [1, 4, 8])
@pytest.mark.parametrize("order", ["rows of A and of B", "A, B, A", "a row across both"])
def test_each_lane_gets_its_element(memory: GlobalMemory, places: tuple[int, int], width: int, order: str) -> None:
    a, b = places
    lanes = np.arange(16, dtype=np.uint64)[::-1] * np.uint64(width)
    rows = {"rows of A and of B": [lanes + np.uint64(a), lanes + np.uint64(b)],
            "A, B, A": [lanes + np.uint64(a), lanes + np.uint64(b), lanes + np.uint64(a + 8 * width)],
            "a row across both": [lanes + np.uint64(a), np.where(lanes % 16 == 0, lanes + np.uint64(a),
                                                                 lanes + np.uint64(b))]}[order]  # fmt: skip
    addresses = np.array(rows, np.uint64)
    found = memory.gather(addresses, width)
    assert found.shape == addresses.shape
    assert [each.tobytes() for each in found.reshape(-1)] == one_by_one(memory, addresses, width)


def test_the_lane_that_is_out_of_bounds_is_told(memory: GlobalMemory, places: tuple[int, int]) -> None:
    a, b = places
    addresses = np.array([[a, a + 4], [b, b + 512]], np.uint64)
    with pytest.raises(AccessFault, match="out-of-bounds") as raised:
        memory.gather(addresses, 4)
    assert (raised.value.position, raised.value.address) == (3, b + 512)


def test_what_may_not_be_read_is_told(memory: GlobalMemory, places: tuple[int, int]) -> None:
    a, b = places
    memory.forbid_reads(b, "C is not read when beta = 0")
    with pytest.raises(AccessFault, match="forbidden") as raised:
        memory.gather(np.array([[a, a + 4], [b, b + 4]], np.uint64), 4)
    assert raised.value.position == 2
