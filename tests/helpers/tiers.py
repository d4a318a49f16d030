"""Which tier a test belongs to: `make test`, `make test-all` or `make nightly` (tests/tiers.toml)."""

from __future__ import annotations

import hashlib
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

FILE = Path(__file__).parents[1] / "tiers.toml"


@cache
def tiers() -> Mapping[str, Mapping[str, Any]]:
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def in_make_test(tests: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """Of the families of alike cases, the one in so many that stays in `make test`, at least one of each; a test is
    given by its file below tests/ and its name."""
    families = defaultdict(list)
    for file, test in tests:
        family = f"{file}::{test.partition('[')[0]}"
        if family in tiers()["make-test"]:
            families[family].append((file, test))
    found = set()
    for family, cases in families.items():
        count = -(-len(cases) // tiers()["make-test"][family])
        found |= set(sorted(cases, key=lambda case: _digest(case[1]))[:count])
    return found


def tier(file: str, test: str) -> str:
    """The marker of a test that ``in_make_test`` does not keep: '' (`make test`), 'slow' or 'nightly'."""
    function, _, parameters = test.partition("[")
    names = (file, f"{file}::{function}")
    for name in names:
        night = tiers()["nightly"].get(name)
        if night is not None and not _kept(test if night.get("by_name") else parameters, night["keep"]):
            return "nightly"
    if not any(name in tiers()[longer] for name in names for longer in ("make-test", "test-all")):
        return ""
    return "slow" if _kept(test, tiers()["share"]["one_in"]) else "nightly"


def _kept(chosen_by: str, keep: int) -> bool:
    """Whether a case is the one in ``keep`` that CI runs; cases with equal parameters are kept together."""
    return _digest(chosen_by) % keep == 0 or not chosen_by


def _digest(text: str) -> int:
    return int(hashlib.sha256(text.encode()).hexdigest(), 16)
