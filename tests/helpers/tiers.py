"""Which tier a test belongs to: `make test`, `make test-all` or `make nightly` (tests/tiers.toml)."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[1] / "tiers.toml"


@cache
def tiers() -> Mapping[str, Mapping[str, Any]]:
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def tier(file: str, test: str) -> str:
    """The marker of a test, given its file below tests/ and its name: '' (`make test`), 'slow' or 'nightly'."""
    function, _, parameters = test.partition("[")
    names = (file, f"{file}::{function}")
    for name in names:
        night = tiers()["nightly"].get(name)
        if night is not None and not _kept(test if night.get("by_name") else parameters, night["keep"]):
            return "nightly"
    if not any(name in tiers()["test-all"] for name in names):
        return ""
    return "slow" if _kept(test, tiers()["share"]["one_in"]) else "nightly"


def _kept(chosen_by: str, keep: int) -> bool:
    """Whether a case is the one in ``keep`` that CI runs; cases with equal parameters are kept together."""
    return int(hashlib.sha256(chosen_by.encode()).hexdigest(), 16) % keep == 0 or not chosen_by
