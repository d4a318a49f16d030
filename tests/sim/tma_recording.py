"""The recording of TMA copies (tests/data/tma.npz): differences of neighbouring words, which compress well."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from tma_bulk import BulkGroup, run_bulk
from tma_kernels import Array, Group, run

from gemmsmith.run.device import Device


def run_any(device: Device, group: Group | BulkGroup, arch: str) -> dict[str, Array]:
    return run_bulk(device, group, arch) if isinstance(group, BulkGroup) else run(device, group, arch)


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
