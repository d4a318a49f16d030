"""The recording of TMA copies (tests/data/tma.npz): differences of neighbouring words, which compress well."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
from tma_bulk import BulkGroup, run_bulk, source_of
from tma_kernels import Array, Group, built, run, sources_of

from gemmsmith.run.device import Device


def run_any(
    device: Device, group: Group | BulkGroup, arch: str, only: Collection[int] | None = None
) -> dict[str, Array]:
    if isinstance(group, BulkGroup):
        return run_bulk(device, group, arch)
    return run(device, group, arch, only)


def simulated(group: Group | BulkGroup, ran: Array) -> set[int]:
    """The cases that a GPU ran, all of which the simulator can run."""
    del group
    return set(np.flatnonzero(ran).tolist())


def build(group: Group | BulkGroup, arch: str) -> None:
    """Compile what a group needs."""
    for code in {source_of(group)} if isinstance(group, BulkGroup) else sources_of(group):
        built(code, arch)


def parts_of(group: Group | BulkGroup) -> list[list[int]]:
    """Cases that are run together at first: of one rank, and alike in whether the box begins on 16 bytes."""
    if isinstance(group, BulkGroup):
        return [list(range(len(group.cases)))]
    found: dict[tuple[int, bool], list[int]] = {}
    for number, case in enumerate(group.cases):
        key = (len(case.map.extents), case.at[0] * case.map.dtype.itemsize % 16 == 0)
        found.setdefault(key, []).append(number)
    return list(found.values())


def packed(found: Mapping[str, Array]) -> dict[str, Array]:
    def pack(name: str, array: Array) -> Array:
        if not name.endswith("/image"):
            return array
        plain = np.ascontiguousarray(array).view(np.uint16)
        return np.diff(plain, axis=1, prepend=np.uint16(0))

    return {name.replace("/", "|"): pack(name, array) for name, array in found.items()}


def unpacked(file: Any) -> dict[str, Array]:
    found = {}
    for stored in file.files:
        name, array = stored.replace("|", "/"), file[stored]
        if name.endswith("/image"):
            array = np.cumsum(array, axis=1, dtype=np.uint16).view(np.uint8)
        found[name] = array
    return found
