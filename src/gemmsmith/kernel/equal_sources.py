"""Sources whose text changed while their machine code did not: names and comments only.

A source digest identifies the text that a result was measured with. ``equal_sources.json`` lists digests of earlier
texts with the digest of the text that compiles to the same instructions. benchmarks/machine_code.py writes it, after it
has compared the machine code.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib.resources import files


@cache
def equal_sources() -> Mapping[str, str]:
    """Digests of earlier sources, each with that of a later source with equal machine code."""
    file = files("gemmsmith.kernel").joinpath("equal_sources.json")
    pairs: dict[str, str] = json.loads(file.read_text(encoding="utf-8"))["pairs"]
    return pairs


def current_digest(digest: str) -> str:
    """The digest of the latest source with the same machine code, as far as is known; else ``digest`` itself."""
    seen = {digest}
    while (later := equal_sources().get(digest)) is not None and later not in seen:
        seen.add(later)
        digest = later
    return digest
