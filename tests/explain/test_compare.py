"""Two kernels side by side: the most important difference comes first, and GPU figures are marked as measured."""

from __future__ import annotations

import json
import math

import pytest
from explained import diagnosed, profiled, sass

from gemmsmith.errors import UsageError
from gemmsmith.explain.comparison import Comparison, compare, to_json
from gemmsmith.explain.comparison_rows import origin_of
from gemmsmith.explain.metrics import METRICS
from gemmsmith.explain.profile import Profile
from gemmsmith.gpus import gpu_named

H200 = gpu_named("H200")


def compared(x: str, y: str, measured: tuple[Profile, Profile] | None = None) -> Comparison:
    sides = [(diagnosed(name).case.profile, sass(name)) for name in (x, y)]
    return compare(sides[0], sides[1], H200, measured)


@pytest.mark.parametrize(
    ("x", "y", "faster", "first"),
    [
        (
            "naive",
            "coalesced",
            "coalesced",
            "Coalescing: of the 32 bytes in each sector, the global loads of coalesced use 26.4",
        ),
        (
            "coalesced",
            "naive",
            "coalesced",
            "Coalescing: of the 32 bytes in each sector, the global loads of coalesced use 26.4",
        ),
        ("shared_tile", "register_block", "register_block", "Shared memory: register_block needs"),
        (
            "block_tile_2d",
            "rectangular",
            "rectangular",
            "Bank conflicts: they cause 0% of the wavefronts of rectangular",
        ),
        ("coalesced", "shared_tile", "shared_tile", "Global memory: shared_tile makes"),
    ],
)
def test_the_most_important_difference_comes_first(x: str, y: str, faster: str, first: str) -> None:
    found = compared(x, y)
    slower = x if faster == y else y
    assert found.sentences[0].startswith(f"{faster} is predicted to be")
    assert f"as fast as {slower} on H200" in found.sentences[0]
    assert found.sentences[1].startswith(first)
    assert 3 <= len(found.sentences) <= 6


def test_a_kernel_compared_with_itself_shows_no_difference() -> None:
    found = compared("coalesced", "coalesced")
    assert "the same time" in found.sentences[0]
    assert len(found.sentences) == 2
    assert "Equal in both" in found.sentences[1]
    assert all(row.left == row.right or (row.left != row.left and row.right != row.right) for row in found.rows)


def test_rows_hold_both_kernels_values() -> None:
    rows = {(row.section, row.name): (row.left, row.right) for row in compared("vectorized", "warp_tile").rows}
    assert rows["resources", "threads per block"] == (256, 128)
    assert rows["main loop", "FFMA"] == (128, 512)
    assert rows["main loop", "LDS"] == (8, 24)
    assert rows["coalescing", "bytes used of 32, stores"] == (16, 32)
    left, right = rows["shared memory", "load wavefronts"]
    assert left == 2 * right  # type: ignore[operator]
    assert {"predicted", "resources", "occupancy", "coalescing", "shared memory", "instruction mix", "main loop",
            "roofline"} == {section for section, _ in rows}  # fmt: skip


def test_measured_rows_appear_with_measured_profiles_only() -> None:
    base = profiled("naive", 128, 128, 128)
    values = tuple((m.name, float(i)) for i, m in enumerate(METRICS) if m.hardware_only)
    seen = Profile(base.kernel, base.config, base.problem, "H200", "measured", "sm_90", base.geometry, base.resources,
                   values)  # fmt: skip
    rows = [row for row in compared("naive", "coalesced", (seen, seen)).rows if row.section == "measured"]
    assert len(rows) == sum(m.hardware_only for m in METRICS)
    assert {origin_of(row) for row in rows} == {"measured"}
    assert not [row for row in compared("naive", "coalesced").rows if row.section == "measured"]


def test_json_names_the_origin_of_each_row() -> None:
    facts = json.loads(json.dumps(to_json(compared("shared_tile", "async_copy")), allow_nan=False))
    assert facts["x"]["kernel"] == "shared_tile"
    assert {row["origin"] for row in facts["rows"]} == {"predicted", "compiler", "simulated"}


def test_kernels_on_different_shapes_are_not_compared() -> None:
    one, other = profiled("naive", 128, 128, 128), profiled("coalesced", 64, 64, 64)
    with pytest.raises(UsageError, match="differ"):
        compare((one, sass("naive")), (other, sass("coalesced")), H200)


def test_unknown_values_show_a_dash() -> None:
    row = next(row for row in compared("naive", "coalesced").rows if row.section == "predicted")
    assert row.shown(math.nan) == "–"
