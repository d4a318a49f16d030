"""Which rung another is compared with: the one it says it changed, where that has the same input type."""

from __future__ import annotations

from gemmsmith.ladder.registry import rung_named, rungs
from gemmsmith.report.collect import rung_before
from gemmsmith.report.header_comment import changed_from

NAMES = [spec.name for spec in rungs()]


def test_each_rung_is_compared_with_the_one_that_its_file_names() -> None:
    """If it names none, or one with another input type, then with the last of its type.

    The first rung of a type is compared with the one it names, or with the last of all.
    """
    named = 0
    for at, spec in enumerate(rungs()[1:], start=1):
        found, changed = rung_named(rung_before(spec.name, NAMES[:at])), changed_from(spec.code)
        alike = [each for each in rungs()[:at] if each.dtypes[0] == spec.dtypes[0]]
        if changed and (rungs()[changed - 1] in alike or not alike):
            assert found.rung == changed, spec.name
            named += 1
        else:
            assert found is (alike or rungs()[:at])[-1], spec.name
    assert named >= 10
    pairs = (("async_copy", "rectangular"), ("simt_best", "async_copy"), ("warp_tile_mixed", "warp_tile"))
    for name, other in pairs:
        assert rung_before(name, NAMES[: NAMES.index(name)]) == other


def test_where_that_is_missing_it_is_the_last_of_its_type_or_of_all() -> None:
    assert rung_before("simt_best", ["naive", "wmma", "vectorized", "mma_pipelined"]) == "vectorized"
    assert rung_before("wmma", ["naive", "coalesced"]) == "coalesced"


def test_a_file_that_names_none() -> None:
    assert changed_from("// 01 x: y\n//\n// Changed   Nothing. From 7 on it would be another.\n") == 0
    assert changed_from("// 09 x: y\n//\n// Changed   From 07: all\n//           of it.\nint x;") == 7
    assert changed_from("int x;") == 0
