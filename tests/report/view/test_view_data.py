"""What the views draw: every number comes from the trace and agrees with it."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest
from recorded_launches import lanes, stored, subject, traced

from gemmsmith.call.binding import aligned_code
from gemmsmith.compile.compiler import compile_for
from gemmsmith.ladder.registry import rung_named
from gemmsmith.report.view.data import access, fragments, ownership, pipeline
from gemmsmith.report.view.data.bank_waves import bank_waves
from gemmsmith.report.view.data.shared_fills import shared_fills, tile_depth
from gemmsmith.report.view.model import ViewSubject
from gemmsmith.report.view.packing import packed, ranges
from gemmsmith.report.view.page import view_page
from gemmsmith.report.view.registry import VIEWS, built
from gemmsmith.trace.launch_trace import Kind, LaunchTrace
from gemmsmith.trace.recording.record import record_product

SOME = ("shared_tile", "async_copy", "mma_swizzled")


def unpacked(given: dict[str, str]) -> list[int]:
    ((kind, text),) = given.items()
    found: list[int] = np.frombuffer(base64.b64decode(text), f"<{kind[0]}{int(kind[1:]) // 8}").tolist()
    return found


def test_numbers_are_packed_in_the_smallest_type() -> None:
    for values, kind in (([1, -2], "i8"), ([300], "i16"), ([70_000], "i32"), ([1 << 40], "f64"), ([], "i8")):
        made = packed(values)
        assert list(made) == [kind]
        assert unpacked(made) == values
    assert ranges([0, 1, 2, 5, 7, 8]) == [[0, 2], [5, 5], [7, 8]]


@pytest.mark.parametrize("name", SOME)
def test_wavefronts_drawn_are_those_counted(name: str) -> None:
    """One after another, they are as many as the cost of each access says, and serve every lane."""
    trace, seen = traced(name), 0
    for warp in trace.warps[:2]:
        for event in warp.events:
            known, kind = event.access, trace.instructions[event.instruction].kind
            if known is None or known.space != "shared" or not known.wavefronts:
                continue
            matrix = kind in (Kind.LOAD_MATRIX, Kind.STORE_MATRIX)
            width = known.width if matrix else trace.instructions[event.instruction].served
            addresses = [-1] * 32
            for lane, address in lanes(trace, known):
                addresses[lane] = address
            waves = bank_waves(addresses, width, load=kind is Kind.LOAD_SHARED, matrix=matrix)
            assert len(waves) == known.wavefronts
            assert {lane for wave in waves for lane, *_ in wave} == {lane for lane, _ in lanes(trace, known)}
            for wave in waves:
                words = {word for _, *some in wave for word in some}
                assert len({word % 32 for word in words}) == len(words)
            seen += 1
    assert seen > 20


def test_each_output_has_the_owner_that_stores_it() -> None:
    made = ownership.build(subject("shared_tile"))
    assert made is not None
    row, column, rows, columns = made.data["tile"]
    owners = unpacked(made.data["maps"]["owns"])
    assert len(owners) == rows * columns
    for thread, places in stored(traced("shared_tile")).items():
        assert all(owners[(r - row) * columns + c - column] == thread for r, c in places)


def test_results_that_are_exchanged_have_two_owners() -> None:
    made = ownership.build(subject("mma_swizzled"))
    assert made is not None
    assert list(made.data["maps"]) == ["computes", "stores"]


@pytest.mark.parametrize(("name", "depth"), [("shared_tile", 32), ("async_copy", 16), ("mma_swizzled", 32)])
def test_the_depth_of_a_k_tile_is_found(name: str, depth: int) -> None:
    trace = traced(name, 128, 128, 128)
    bands = shared_fills(trace)
    assert tile_depth(trace, [fill for fill in bands.fills if fill.k >= 0]) == depth


def test_a_copy_lands_before_it_is_read_and_is_read_before_it_is_overwritten() -> None:
    fills = [fill for fill in shared_fills(traced("async_copy", 128, 128, 128)).fills if fill.k >= 0]
    assert any(fill.landed > fill.issued + 100 for fill in fills)
    for fill in fills:
        assert fill.issued <= fill.landed <= fill.read
        assert fill.end < 0 or fill.read <= fill.end


def test_fragments_of_an_mma_are_complete() -> None:
    made = fragments.build(subject("mma_swizzled"))
    assert made is not None
    product = made.data["products"][0]
    for side, count in (("a", 256), ("b", 128), ("d", 128)):
        held = unpacked(product[side]["held"])
        assert len(held) == count
        assert len(set(held)) == count
        assert {value >> 12 for value in held} == set(range(32))
    assert made.data["loads"][0]["matrices"] == 4
    assert fragments.build(subject("shared_tile")) is None


@pytest.mark.parametrize("name", SOME)
def test_a_page_has_its_views_and_is_small(name: str) -> None:
    found = built(subject(name))
    expected = [
        view for view in ("ownership", "access", "pipeline", "fragments") if view != "fragments" or "mma" in name
    ]
    assert [view for view in found if view in expected] == expected
    assert set(found) <= set(VIEWS)
    assert all(view.notice.endswith(".") for view in found.values())
    page = view_page(subject(name))
    assert len(page) < 5_000_000
    assert "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in page


def test_a_launch_that_stores_nothing_has_no_owners() -> None:
    trace = traced("shared_tile")
    data: dict[str, Any] = {**vars(trace), "warps": (), "fed": (), "arrays": ()}
    empty = LaunchTrace(**{name: data[name] for name in trace.__dataclass_fields__})
    assert ownership.build(ViewSubject(empty)) is None
    assert pipeline.build(ViewSubject(empty)) is None
    assert access.build(ViewSubject(empty)) is None
    json.dumps(view_page(ViewSubject(empty)))


def test_sectors_that_move_are_those_of_the_source() -> None:
    """A cp.async to padded rows counts a source sector twice; the drawing and its share of used bytes do not."""
    found = access.build(subject("async_copy"))
    assert found is not None
    copies = [each for one in found.data["accesses"] if one["kind"] == "async copy" and not one["side"]
              for each in one["examples"]]  # fmt: skip
    assert any(each["sectors"] > each["moved"] for each in copies)
    assert all(each["used"] <= 32 * each["moved"] for each in copies)
    plain = [each for one in found.data["accesses"] if one["kind"] == "store global" for each in one["examples"]]
    assert plain
    assert all(each["sectors"] == each["moved"] for each in plain)


def test_a_prepared_copy_is_coloured_by_its_k_tile() -> None:
    """A and the split copy of B fill a stage together, with the same k; k is B's outer coordinate there."""
    spec = rung_named("fp32_wgmma_registers")
    problem = spec.problem(128, 64, 192)
    config, seen = aligned_code(spec, spec.config(), problem)
    trace = record_product(spec, config, problem, compile_for(spec, config, seen, "sm_90a"), title="r", outline=False,
                           text_of=lambda _: "")  # fmt: skip
    bands = shared_fills(trace)
    depth = tile_depth(trace, bands.fills)
    assert depth == 64
    tiles: dict[str, set[int]] = {}
    for fill in bands.fills:
        if fill.array >= 0 and fill.k >= 0:
            tiles.setdefault(trace.arrays[fill.array].name, set()).add(fill.k // depth)
    assert tiles["A"] == tiles["map_b in the workspace"] == {0, 1, 2}
