"""Every test is in exactly one tier, and the lists of tests/tiers.toml name what exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import tiers

TESTS = Path(__file__).parent


@pytest.mark.parametrize("name", sorted({*tiers.tiers()["test-all"], *tiers.tiers()["nightly"]}))
def test_a_listed_file_or_test_exists(name: str) -> None:
    file, _, function = name.partition("::")
    assert (TESTS / file).is_file()
    assert not function or re.search(rf"^def {function}\(", (TESTS / file).read_text(encoding="utf-8"), re.M)


def test_what_is_cut_for_ci_is_listed_for_test_all_too() -> None:
    """Else the cases that are kept would run in `make test`."""
    listed = tiers.tiers()["test-all"]
    assert [name for name in tiers.tiers()["nightly"] if name not in listed and name.split("::")[0] not in listed] == []


def test_some_cases_of_a_listed_file_run_in_ci_and_the_others_at_night() -> None:
    found = [tiers.tier("ladder/test_special_values.py", f"test_x[{number}]") for number in range(400)]
    assert set(found) == {"slow", "nightly"}
    assert 15 <= found.count("slow") <= 45  # one in fourteen
    rarer = [tiers.tier("ladder/test_hopper_machine_code.py", f"test_x[{number}]") for number in range(400)]
    assert 1 <= rarer.count("slow") <= 15  # one in eight, and of these one in fourteen
    assert tiers.tier("ladder/test_ring.py", "test_x[1]") == ""
