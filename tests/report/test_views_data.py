"""What the views of grid, occupancy, code and comparison draw: from a recorded launch, and from made-up blocks."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from gemmsmith.compile.compiler import compile_for
from gemmsmith.explain.source_text import source_lines
from gemmsmith.gpus import gpu_named, gpus
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import Problem
from gemmsmith.report.view.data import code, compare, grid, occupancy
from gemmsmith.report.view.model import ViewSubject
from gemmsmith.trace.launch_trace import Array, Box, LaunchTrace, Outline
from gemmsmith.trace.recording.record import record_product
from gemmsmith.trace.trace_json import from_json, to_json

H200 = gpu_named("H200")


@cache
def recorded(name: str) -> ViewSubject:
    """A rung with a small tile, several blocks, a few k-tiles."""
    spec = rung_named(name)
    config = spec.config({"BM": 32, "BN": 32, "TM": 4, "TN": 4} if name != "naive" else {"TILE": 16})
    problem = Problem(96, 64, 32, dtype=spec.dtypes[0])
    compiled = compile_for(spec, config, problem, "sm_90")
    trace = record_product(spec, config, problem, compiled, title=name,
                           text_of=lambda file: "\n".join(source_lines(spec, file)))  # fmt: skip
    return ViewSubject(trace, compiled, H200, f"gemmsmith view {name}")


def with_blocks(blocks: list[Outline], cluster: int = 1, launched: int = 0) -> ViewSubject:
    """The same launch with other blocks."""
    one = recorded("naive")
    arrays = tuple(
        Array(role, at << 20, 256 * 256 * 4, 4, "fp32", 256, 256, 256, 1, role)
        for at, role in enumerate("ABC", start=1)
    )
    trace = replace(one.trace, arrays=arrays, blocks=tuple(blocks), cluster=(cluster, 1, 1),
                    grid=(launched or len(blocks), 1, 1), problem={"output": "C"})  # fmt: skip
    return replace(one, trace=trace)


def tile(number: int, row: int, col: int, k0: int = 0, k1: int = 255, side: int = 64) -> Outline:
    rows, cols = (row * side, row * side + side - 1), (col * side, col * side + side - 1)
    return Outline((number, 0, 0), (Box("A", *rows, k0, k1), Box("B", k0, k1, *cols)), (Box("C", *rows, *cols),))


def built(found: Any) -> dict[str, Any]:
    assert found is not None
    assert found.notice
    assert found.notice[-1] == "."
    return dict(found.data)


# --- the grid


def test_the_grid_shows_the_tile_that_each_block_stored() -> None:
    subject = recorded("padded")
    data = built(grid.build(subject))
    assert data["output"]["name"] == "C"
    assert [one["name"] for one in data["inputs"]] == ["A", "B"]
    stored = sorted(block[1] for block in data["blocks"])
    assert stored == [[r, r + 31, c, c + 31] for r in (0, 32, 64) for c in (0, 32)], "to the last column of a vector"
    for _, (r0, r1, c0, c1), (of_a, of_b) in data["blocks"]:
        assert of_a == [r0, r1, 0, 31], "all of k"
        assert of_b == [0, 31, c0, c1]


def test_a_launch_of_few_blocks_opens_with_a_gpu_that_has_waves() -> None:
    few = built(grid.build(with_blocks([tile(n, n // 4, n % 4) for n in range(16)])))
    assert few["gpu"]["sms"] == H200.sms
    assert few["start"] == {"sms": 6, "held": 1}
    many = [tile(n, 0, 0) for n in range(H200.sms * 40)]
    found = grid.build(with_blocks(many[: grid._MOST_BLOCKS], launched=len(many)))
    assert found is not None
    assert f"of {len(many)} blocks were simulated" in found.notice
    assert built(found)["start"]["sms"] == H200.sms
    one = grid.build(with_blocks([tile(0, 0, 0)]))
    assert one is not None
    assert one.notice.endswith("the other SMs have nothing to do.")


def test_the_notice_counts_waves_and_the_tail() -> None:
    held = built(grid.build(with_blocks([tile(0, 0, 0)])))["gpu"]["held"]
    room = H200.sms * held
    found = grid.build(with_blocks([tile(n % 16, n // 4 % 4, n % 4) for n in range(2 * room + 5)]))
    assert found is not None
    assert f"3 waves of {room}" in found.notice
    assert f"the last one fills 5 of {room} places" in found.notice


def test_a_launch_that_stores_no_matrix_has_no_grid() -> None:
    assert grid.build(with_blocks([Outline((0, 0, 0))])) is None


def test_the_union_of_boxes_counts_every_element_once() -> None:
    random = np.random.default_rng(3)
    for _ in range(50):
        covered = np.zeros((20, 20), bool)
        boxes = []
        for _ in range(random.integers(0, 8)):
            (r0, r1), (c0, c1) = (np.sort(random.integers(0, 20, 2)) for _ in range(2))
            boxes.append([int(r0), int(r1), int(c0), int(c1)])
            covered[r0 : r1 + 1, c0 : c1 + 1] = True
        assert grid.union_area([*boxes, []]) == covered.sum()


# --- occupancy


def test_occupancy_has_every_gpu_and_the_kernels_own_use() -> None:
    subject = recorded("padded")
    data = built(occupancy.build(subject))
    assert [one["name"] for one in data["gpus"]] == [gpu.name for gpu in gpus()]
    assert data["gpu"] == "H200"
    assert subject.compiled is not None
    assert data["kernel"]["registers"] == subject.compiled.resources.registers
    assert data["kernel"]["static_smem"] + data["kernel"]["dynamic_smem"] > 0
    mine = replace(H200, name="a GPU that is not in the table")
    assert built(occupancy.build(replace(subject, gpu=mine)))["gpus"][-1]["name"] == mine.name


# --- code


def test_every_executed_instruction_is_counted_and_knows_its_line() -> None:
    trace = recorded("padded").trace
    assert [each.position for each in trace.counts] == sorted({each.position for each in trace.counts})
    warps = trace.grid[0] * trace.threads // 32
    assert trace.counts[0].executed == warps, "each warp starts once"
    texts = {file.name: file.text.splitlines() for file in trace.files}
    fused = [each for each in trace.counts if each.ptx.startswith("fma.rn.f32")]
    assert all("fmaf" in texts[each.file][each.line - 1] for each in fused)
    assert sum(each.executed for each in fused) * 32 >= 96 * 64 * 32
    assert sum(each.sectors for each in trace.counts) > 0
    assert from_json(to_json(trace)).counts == trace.counts


def test_an_older_trace_without_counts_has_no_code() -> None:
    old = to_json(recorded("naive").trace)
    del old["counts"]
    assert code.build(replace(recorded("naive"), trace=from_json(old))) is None


def test_code_maps_lines_to_ptx_and_to_machine_code() -> None:
    subject = recorded("padded")
    data, trace = built(code.build(subject)), subject.trace
    files = [one["name"] for one in data["files"]]
    assert files[0] == trace.file
    for row, each in zip(data["ptx"], trace.counts, strict=True):
        assert (row[0], files[row[1]], row[2], row[5]) == (each.ptx, each.file, each.line, each.executed)
        if row[3] >= 0:
            assert each.caller == f"{files[row[3]]}:{row[4]}"
    assert any(row[3] == 0 for row in data["ptx"]), "what a header does is shown with the line that calls it"
    known = {(row[1], row[2]) for row in data["ptx"]}
    placed = [row for row in data["sass"] if (row[1], row[2]) in known]
    assert len(placed) > len(data["sass"]) / 3, "most machine code comes from a line that ran"
    assert [row[3] for row in data["sass"]] == sorted(row[3] for row in data["sass"])


def test_heat_is_logarithmic() -> None:
    assert [code.heat(n, 10_000) for n in (10_000, 3_200, 1_000, 100, 1, 0)] == [8, 7, 6, 4, 0, 0]


def test_without_machine_code_two_columns_remain() -> None:
    subject = replace(recorded("naive"), compiled=None)
    assert built(code.build(subject))["sass"] == []


def test_a_long_header_is_shown_around_what_ran() -> None:
    trace = recorded("padded").trace
    other = next(file for file in trace.files if file.name != trace.file)
    ran = {each.line for each in trace.counts if each.file == other.name}
    longer = replace(other, text=other.text + "\n" * 1000)
    made = code._text(replace(trace, files=(longer,)), other.name)
    number, shown = 0, set()
    for row in made:
        number += row if isinstance(row, int) else 1
        if isinstance(row, str):
            shown.add(number)
    assert ran <= shown
    assert len(shown) < len(longer.text.splitlines())
    assert number == len(longer.text.splitlines())


# --- side by side


def test_a_comparison_needs_two_kernels() -> None:
    assert compare.build(recorded("padded")) is None


def test_a_kernel_beside_itself_has_no_difference() -> None:
    found = compare.build(replace(recorded("padded"), other=recorded("padded")))
    assert found is not None
    assert all(one == other for _, one, other, _ in found.data["facts"])
    assert found.notice == "padded and padded cost the same per output."


def test_a_comparison_counts_per_output() -> None:
    left, right = recorded("vectorized"), recorded("padded")
    found = compare.build(replace(left, other=right))
    assert found is not None
    facts = {name: (one, other) for name, one, other, _ in found.data["facts"]}
    assert facts["outputs per thread"] == (16, 16)
    for subject, value in zip((left, right), facts["shared wavefronts per output"], strict=True):
        assert value == sum(each.wavefronts for each in subject.trace.counts) / (96 * 64)
    conflicts = facts["bank conflicts, % of wavefronts"]
    assert conflicts[0] > conflicts[1], "padding removes conflicts"
    assert "vectorized and padded" in found.notice
    assert [side["name"] for side in found.data["sides"]] == ["vectorized", "padded"]


@pytest.mark.parametrize("trace", [recorded])
def test_a_recorded_trace_of_another_kernel_is_one_side(trace: Any) -> None:
    subject: LaunchTrace = from_json(to_json(trace("naive").trace))
    found = compare.build(ViewSubject(subject, other=trace("padded")))
    assert found is not None
    assert {name for name, *_ in found.data["facts"]} >= {"instructions per output", "global sectors per output"}


def test_the_blocks_of_a_cluster_have_an_sm_each() -> None:
    """Few blocks are shown on a smaller GPU, which holds whole clusters; a single cluster on the whole GPU."""
    for clusters, cluster in ((5, 4), (8, 2), (3, 1)):
        blocks = [tile(n, n // 4, n % 4) for n in range(clusters * cluster)]
        start = built(grid.build(with_blocks(blocks, cluster=cluster)))["start"]
        assert start["sms"] % cluster == 0
        assert cluster <= start["sms"] < clusters * cluster
    alone = grid.build(with_blocks([tile(0, 0, 0), tile(1, 1, 0)], cluster=2))
    assert built(alone)["start"]["sms"] == H200.sms
    assert alone is not None
    assert "2 blocks fit on H200 at once" in alone.notice
    assert "this opens with" not in alone.notice
