"""The drawings of a rung: who writes what, the tiles, the pipeline, the costliest access, the counters that moved."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from report_reading import Node, read
from report_sample import FEW, rungs, sample

from gemmsmith.explain.comparison_rows import Row
from gemmsmith.ladder.registry import rungs as all_rungs
from gemmsmith.report.chapters import chapter_key, chapters_of
from gemmsmith.report.charts.frame import Chart
from gemmsmith.report.collect import _named
from gemmsmith.report.difference import difference
from gemmsmith.report.drawings.access import costliest, costliest_access
from gemmsmith.report.drawings.pipeline import pipeline
from gemmsmith.report.drawings.regions import pattern, regions
from gemmsmith.report.drawings.shape import Shape, shape_of, values_of
from gemmsmith.report.drawings.tiles import tiles
from gemmsmith.report.drawings.together import together
from gemmsmith.report.figures.step import counters_that_moved, speed_step
from gemmsmith.report.figures.sweep_words import fixed_words, title_in_words
from gemmsmith.report.narrative import narrative
from gemmsmith.report.owners import tile_of
from gemmsmith.report.report_model import Rung, Sweep
from gemmsmith.report.speeds import speeds_of


def rung(name: str) -> Rung:
    return next(r for r in rungs(FEW) if r.name == name)


def tensor(**changes: Any) -> Rung:
    """A rung on tensor cores with 16-bit inputs."""
    given = {"dtype": "fp16", "tensor_cores": True, "config": "BM=128,BN=128,BK_BYTES=64,WM=64,WN=64"}
    return replace(rung("warp_tile"), owners=None, **(given | changes))


def titles(chart: Chart | None, class_: str = "mark") -> list[str]:
    assert chart is not None
    drawn = read(chart.wide or chart.narrow)
    return [n.one("title").text for n in drawn.all(class_=class_)]


# --- who writes what


def test_the_simulator_tells_which_thread_writes_which_output() -> None:
    down, along = rung("naive").owners, rung("coalesced").owners
    assert down is not None
    assert along is not None
    thread = np.arange(1024).reshape(32, 32)
    assert (down.thread == thread.T).all(), "naive: consecutive threads go down a column"
    assert (along.thread == thread).all(), "coalesced: they go along a row"


def test_every_output_of_a_tile_has_one_thread_and_all_threads_write_as_many() -> None:
    for name in FEW:
        own = rung(name).owners
        assert own is not None, name
        shape = shape_of(rung(name))
        assert shape is not None
        assert (own.rows, own.cols) == (shape.bm, shape.bn), name
        counts = np.bincount(own.thread.reshape(-1), minlength=own.threads)
        assert set(counts.tolist()) == {own.rows * own.cols // own.threads}, name


def test_a_tile_that_few_threads_write_has_no_owners() -> None:
    writers = np.zeros((8, 8), np.int32)
    assert tile_of(writers, 32) is None, "nobody wrote"
    writers[:4] = 1
    assert tile_of(writers, 32) is None, "one thread wrote for all: a bulk copy"
    writers[2:6, 1:5] = np.arange(16).reshape(4, 4) + 1
    writers[:2] = writers[6:] = 40  # another block's
    writers[2:6, 0] = writers[2:6, 5:] = 0
    found = tile_of(writers, 16)
    assert found is not None
    assert (found.row, found.col, found.rows, found.cols) == (2, 1, 4, 4)
    assert found.thread.tolist() == np.arange(16).reshape(4, 4).tolist()


# --- labels as rectangles


def test_regions_cover_every_label_once_with_few_rectangles() -> None:
    random = np.random.default_rng(1)
    for labels in (random.integers(-1, 3, (9, 13)), np.kron(np.arange(6).reshape(2, 3), np.ones((4, 5), int))):
        drawn = np.full(labels.shape, -1)
        for one in regions(labels):
            part = drawn[one.row : one.row + one.rows, one.col : one.col + one.cols]
            assert (part == -1).all(), "no two overlap"
            part[:] = one.label
        assert (drawn == labels).all()
    assert len(regions(labels)) == 6


def test_the_pattern_is_the_smallest_part_with_every_label() -> None:
    one = np.arange(32).reshape(8, 4)
    whole = np.tile(one, (4, 2))
    assert pattern(whole).tolist() == one.tolist()
    assert pattern(one).tolist() == one.tolist()


# --- tiles, pipeline, access


def test_the_shape_comes_from_the_configuration() -> None:
    assert values_of("BM=128,BK_BYTES=64,KIND=x,") == {"BM": 128, "BK_BYTES": 64}
    assert shape_of(rung("naive")) == Shape(32, 32, 0), "no shared memory, no k-tile"
    assert shape_of(rung("warp_tile")) == Shape(128, 128, 16, 64, 64)
    found = shape_of(tensor())
    assert found is not None
    assert found.bk == 32, "64 bytes of fp16"
    assert shape_of(replace(rung("naive"), config="", owners=None)) is None
    hopper = tensor(wgmma=True, config="BM=128,BN=256,STAGES=4,CONSUMERS=2,CLUSTER_M=2")
    assert shape_of(hopper) == Shape(128, 256, 64, stages=4, consumers=2, cluster_m=2)


def test_the_tiles_show_every_warp_and_every_lane() -> None:
    for name in FEW:
        chart, own = tiles(rung(name), "x"), rung(name).owners
        assert chart is not None
        assert own is not None
        told = [n.one("title").text for n in read(chart.narrow).all(class_="mark")]
        warps = {int(t.split()[1]) for t in told if t.startswith("warp ")}
        lanes = {int(t.split()[1].rstrip(":")) for t in told if t.startswith("lane ")}
        assert warps == set(range(own.threads // 32)), name
        assert lanes == set(range(32)), name
    assert "one thread writes 128 outputs" in str(tiles(rung("warp_tile"), "x"))


def test_a_rung_that_was_not_simulated_is_drawn_from_its_configuration() -> None:
    blind = tensor(wgmma=True, config="BM=128,BN=256,STAGES=4,CONSUMERS=2")
    chart = tiles(blind, "x")
    assert chart is not None
    assert "consumer warpgroup 1" in [n.one("title").text for n in read(chart.narrow).all(class_="mark")]
    assert chart.origins == ("compiler",)
    assert tiles(replace(blind, config=""), "x") is None
    deep = tiles(tensor(wgmma=True, config="BM=64,BN=32,STAGES=8,CONSUMERS=1"), "x")
    assert deep is not None
    assert deep.caption.endswith("One consumer warpgroup multiplies all 64 rows.")
    drawn = [n.one("title").text for n in read(deep.narrow).all(class_="mark")]
    assert "k-tile 0 of A: 64 × 64" in drawn, "a k-tile deeper than what is drawn of k"


@pytest.mark.parametrize("stages", [1, 2, 3, 4, 8])
def test_a_stage_is_overwritten_only_after_it_was_multiplied(stages: int) -> None:
    chart = pipeline(replace(rung("warp_tile"), config=f"BM=64,BN=64,BK=8,STAGES={stages}"), "x")
    assert chart is not None
    boxes = [(n.one("title").text.split(), n.number("x")) for n in read(chart.narrow).all(class_="mark")]
    start = {(words[0], int(words[2].rstrip(","))): x for words, x in boxes}
    for (what, tile), x in start.items():
        if what == "multiply":
            assert start["copy", tile] < x, "a k-tile is copied before it is multiplied"
        elif ("multiply", tile - stages) in start:
            assert start["multiply", tile - stages] < x, "and into a stage that has been read"
    assert {int(words[4]) for words, _ in boxes} == set(range(stages))
    assert pipeline(rung("naive"), "x") is None, "no k-tiles"


def test_a_cluster_loads_each_part_of_a_and_b_once() -> None:
    for down, along in ((2, 1), (1, 2), (2, 2), (1, 4)):
        chart = together(tensor(wgmma=True, config=f"BM=128,BN=256,CLUSTER_M={down},CLUSTER_N={along}"), "x")
        assert chart is not None
        assert len(chart.table.rows) == down * along
        boxes = [(n.one("title").text, [n.number(k) for k in ("x", "y", "width", "height")])
                 for n in read(chart.narrow).all("rect", "mark")]  # fmt: skip
        tiles_, a, b = ([box for words, box in boxes if words.endswith(end)] for end in ("of C", "of A", "of B"))
        assert sum(w * h for *_, w, h in a) == pytest.approx(a[0][2] * down * tiles_[0][3], rel=0.01), "all of A, once"
        assert sum(w * h for *_, w, h in b) == pytest.approx(b[0][3] * along * tiles_[0][2], rel=0.01), "all of B, once"
    assert together(rung("warp_tile"), "x") is None


def test_blocks_that_divide_k_cover_it() -> None:
    chart = together(tensor(wgmma=True, config="BM=64,BN=32,SPLIT=4"), "x")
    assert chart is not None
    assert chart.table.rows[-1] == ("3", "3/4 to 4/4", "48 to 63")
    parts = [n for n in read(chart.narrow).all("rect", "mark") if "of K" in n.one("title").text]
    ends = [(n.number("x"), n.number("x") + n.number("width")) for n in parts]
    assert all(one[1] == pytest.approx(other[0], abs=0.02) for one, other in pairwise(ends))


def test_the_costliest_access_shows_what_a_warp_touches() -> None:
    chart = costliest_access(rung("naive"), "x")
    assert chart is not None
    assert chart.title == "Its costliest load: 32 sectors for 128 bytes"
    assert len(read(chart.wide).all(class_="fetched")) == 32
    assert len(titles(chart)) == 32
    assert "12 % of the 1,024 bytes" in chart.caption.replace("\u00a0", " ")
    assert costliest_access(rung("coalesced"), "x") is None, "every byte of its sectors is used"


def test_bank_conflicts_are_stacked_one_wavefront_above_the_other() -> None:
    one = rung("warp_tile")
    assert one.profile is not None
    worst = costliest(p for p in one.profile.patterns if p.space == "shared")
    assert worst is not None
    chart = costliest_access(one, "x")
    assert chart is not None
    deepest = max(len(words) for words in worst.banks(worst.served_together).values())
    assert chart.title.endswith(f"{deepest} wavefronts instead of one")
    boxes = read(chart.wide).all(class_="mark")
    assert len({n.number("y") for n in boxes}) == deepest
    assert len(boxes) == sum(map(len, worst.banks(worst.served_together).values()))


# --- the step


def test_the_counters_that_moved_are_the_largest_ratios_in_their_direction() -> None:
    rows = (
        Row("coalescing", "sectors", 100.0, 25.0), Row("coalescing", "requests", 100.0, 100.0),
        Row("shared memory", "conflicts", 8.0, 0.0), Row("shared memory", "wavefronts", 10.0, 10.5),
        Row("resources", "registers", 32.0, 64.0), Row("predicted", "time, ms", 9.0, 1.0),
        Row("instruction mix", "convert", 0.0001, 0.009),
    )  # fmt: skip
    chart = counters_that_moved(replace(rung("warp_tile"), changes=rows), "x")
    assert chart is not None
    assert [row[0] for row in chart.table.rows] == ["sectors", "shared conflicts", "registers"]
    assert [row[3] for row in chart.table.rows] == ["÷4.00", "gone", "×2.00"]
    middle = read(chart.wide).all("line", "reference-line")[0].number("x1")
    less = [n.number("x") < middle - 1 for n in read(chart.wide).all("rect", "mark")]
    assert less == [True, True, False]
    assert counters_that_moved(replace(rung("warp_tile"), changes=rows[1:2]), "x") is None


def test_the_step_in_speed_names_both_rungs_and_the_library() -> None:
    model = sample()
    speeds = speeds_of(model)
    chart = speed_step(model, speeds, model.rungs[1], model.rungs[0], "x")
    assert chart is not None
    assert [row[0] for row in chart.table.rows] == ["naive", "coalesced", "cuBLAS fp32"]
    assert chart.title == "6.10 TFLOPS, ×12 of naive"
    assert speed_step(replace(model, recorded=()), speeds_of(replace(model, recorded=())),
                      replace(model.rungs[0], diagnosis=None), None, "x") is None  # fmt: skip


def test_the_diff_is_against_the_rung_that_the_file_names() -> None:
    found = difference(rung("naive"), rung("coalesced"))
    assert found is not None
    assert (found.added, found.removed) == (2, 2), "/ and % are swapped in two lines"
    assert found.words == "2 lines added, 2 removed"
    assert [kind for kind, _, _ in found.lines].count("add") == 2
    assert difference(None, rung("naive")) is None
    assert difference(rung("naive"), rung("naive")) is None
    names = [spec.name for spec in all_rungs()]
    assert _named("warp_tile_mixed", names[:11]) == "warp_tile", "also if its input type is another"
    assert _named("naive", []) == ""


def test_a_step_starts_from_what_an_earlier_file_left_to_do() -> None:
    model = sample()
    story = narrative(model, model.rungs[1], model.rungs[0])
    assert story.left_by is model.rungs[0]
    assert story.problem == "Let a warp go along a row instead: swap / and %."
    assert "bound by L1 tags" in story.limit
    assert narrative(model, model.rungs[0], None).next is model.rungs[1]
    assert narrative(model, model.rungs[0], None).problem == ""
    assert narrative(model, model.rungs[1], model.rungs[2]).left_by is model.rungs[0], "the file that names it"
    assert narrative(model, model.rungs[2], model.rungs[1]).left_by is model.rungs[1], "no file here names it"


def test_every_rung_is_in_one_chapter() -> None:
    mine = replace(rung("naive"), number=0)
    every = (*rungs(FEW), tensor(), mine, tensor(wgmma=True), tensor(arithmetic="bf16x6"))
    found = chapters_of(every)
    assert sum(len(chapter.rungs) for chapter in found) == len(every)
    assert [c.title for c in found] == ["Threads and memory", "Warps and pipelines", "Tensor cores",
                                        "Hopper: TMA and wgmma", "fp32 on tensor cores", "Your kernels"]  # fmt: skip
    assert chapter_key(replace(rung("naive"), config="BM=64,TM=8")) == "registers"


def test_sweeps_have_titles_in_words() -> None:
    def named(title: str, *parameters: str) -> Sweep:
        return Sweep(title, parameters, "TFLOPS", (), "recorded")

    made = named("padded: BK, PAD, simulated (simulator, sm_90)", "BK", "PAD")
    assert title_in_words(made) == "padded: depth of a k-tile (BK) and elements added to each row of A (PAD)"
    fixed = named("rectangular at BM=64,BN=32: UNROLL, measured (H200)", "UNROLL")
    assert title_in_words(fixed) == "rectangular: steps of k per iteration of the inner loop (UNROLL)"
    assert fixed_words(fixed) == " With BM=64, BN=32."
    assert title_in_words(named("mine: TILE (H200)", "TILE")) == "mine: TILE", "a user's kernel has no meanings"
    assert title_in_words(named("What I tried", "BK")) == "What I tried"


def shown(view: str) -> Node:
    from gemmsmith.report import page

    return next(n for n in read(page(sample())).all("article") if n.attributes["id"] == view)


def test_a_rung_tells_its_story_in_order() -> None:
    from markupsafe import Markup

    headings = [n.text for n in shown("rung-warp_tile").all("h2")]
    assert headings == ["The problem", "The idea", "The code that changed", "The counters that moved", "The speed",
                        "What limits it now", "In detail", "Source"]  # fmt: skip
    from gemmsmith.report import page

    model = sample()
    moving = replace(model.rungs[0], animation=Markup("<canvas></canvas>"))
    made = read(page(replace(model, rungs=(moving, *model.rungs[1:]))))
    assert [n.attributes["id"] for n in made.all("div", "animation")] == ["rung-naive-animation"]
