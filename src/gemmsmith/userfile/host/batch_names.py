"""Variables of host code that count the products of a batch, by their names, and not the side of a tile.

BS is both: the size of a batch, and more often that of a block.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from gemmsmith.kernel.role_names import BATCH, words


def batch_names(paths: Iterable[str], configuration: Sequence[str], held: Mapping[str, str]) -> list[str]:
    """Those of ``paths`` ("args.batch") that count products. The side of a tile stands in the block, or something is
    divided by it where the grid is computed. ``held``: what local variables are set to."""
    block = "".join(configuration[1:2])
    block, texts = held.get(block, block), [*configuration, *held.values()]
    named = (path for path in paths if "".join(words(path.rpartition(".")[2])) in BATCH)
    return [path for path in named if not _is_tile(re.escape(path), block, texts)]


def _is_tile(name: str, block: str, texts: Sequence[str]) -> bool:
    return bool(re.search(rf"(?<![\w.]){name}\b", block)) or any(re.search(rf"/\s*\(?\s*{name}\b", t) for t in texts)
