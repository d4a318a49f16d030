"""Every test is in exactly one tier, and the lists of tests/tiers.toml name what exists."""

from __future__ import annotations

import re
from pathlib import Path

import tiers

TESTS = Path(__file__).parent


def test_listed_files_and_tests_exist() -> None:
    assert [name for section in ("make-test", "test-all", "nightly") for name in tiers.tiers()[section]
            if not exists(name)] == []  # fmt: skip
    assert not exists("ladder/test_ring.py::test_of_no_family")
    assert not exists("ladder/test_of_no_rung.py")


def exists(name: str) -> bool:
    file, _, function = name.partition("::")
    if not (TESTS / file).is_file():
        return False
    return not function or bool(re.search(rf"^def {function}\(", (TESTS / file).read_text(encoding="utf-8"), re.M))


def test_what_is_cut_for_ci_is_listed_for_test_all_too() -> None:
    """Else the cases that are kept would run in `make test`."""
    listed = tiers.tiers()["test-all"]
    assert [name for name in tiers.tiers()["nightly"] if name not in listed and name.split("::")[0] not in listed] == []


def test_a_family_has_cases_in_make_test_and_its_others_are_longer_tests() -> None:
    name = next(iter(tiers.tiers()["make-test"]))
    file, _, function = name.partition("::")
    keep = tiers.tiers()["make-test"][name]
    cases = [(file, f"{function}[{number}]") for number in range(3 * keep + 1)]
    kept = tiers.in_make_test([*cases, ("ladder/test_ring.py", "test_of_no_family[1]")])
    assert len(kept) == 4
    assert kept <= set(cases)
    assert len(tiers.in_make_test(cases[:1])) == 1
    assert {tiers.tier(*case) for case in cases} <= {"slow", "nightly"}


def test_a_family_is_in_no_other_list_of_longer_tests() -> None:
    """Its cases would have two tiers."""
    longer = tiers.tiers()["test-all"]
    assert [name for name in tiers.tiers()["make-test"] if name in longer or name.split("::")[0] in longer] == []


def test_some_cases_of_a_listed_file_run_in_ci_and_the_others_at_night() -> None:
    found = [tiers.tier("ladder/test_special_values.py", f"test_x[{number}]") for number in range(400)]
    assert set(found) == {"slow", "nightly"}
    assert 10 <= found.count("slow") <= 35  # one in twenty
    rarer = [tiers.tier("ladder/test_hopper_machine_code.py", f"test_x[{number}]") for number in range(1600)]
    assert 1 <= rarer.count("slow") <= 25  # one in eight, and of these one in twenty
    assert tiers.tier("ladder/test_ring.py", "test_x[1]") == ""
