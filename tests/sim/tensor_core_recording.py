"""The files of recorded matrix instructions: what a GPU computed, by the name of the form."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
DATA = Path(__file__).parents[1] / "data"
FIRST, MORE, COUNTS = (DATA / n for n in ("tensor_cores.npz", "tensor_cores_more.npz", "ldmatrix_patterns.json"))


@dataclass(frozen=True)
class Recording:
    """Metadata of each file; results and digests of operands by name."""

    metadata: tuple[dict[str, Any], ...]
    arrays: dict[str, Array]

    @property
    def digests(self) -> dict[str, str]:
        return {name: digest for metadata in self.metadata for name, digest in metadata["digests"].items()}


@cache
def load() -> Recording:
    """Every file that there is."""
    metadata, arrays = [], {}
    for path in (FIRST, MORE):
        if not path.exists():
            continue
        with np.load(path, allow_pickle=False) as file:
            found = {name: file[name] for name in file.files}
        metadata.append(json.loads(found.pop("metadata").tobytes()))
        same = metadata[-1].get("same", {})
        arrays |= found | {name: found[other] for name, other in same.items()}
    return Recording(tuple(metadata), arrays)


def distinct(arrays: dict[str, Array]) -> tuple[dict[str, Array], dict[str, str]]:
    """(one of each set of equal arrays, for the name of each other one the name of its equal)."""
    kept: dict[str, Array] = {}
    same: dict[str, str] = {}
    names: dict[tuple[Any, ...], str] = {}
    for name, array in arrays.items():
        key = array.dtype.str, array.shape, array.tobytes()
        if key in names:
            same[name] = names[key]
        else:
            names[key], kept[name] = name, array
    return kept, same
