"""What a finished tuning run is exported as, and how samples of long kernels are taken."""

from __future__ import annotations

from typing import Any

import pytest
from fake_bench import FakeStopwatch
from fake_hopper import H200
from tuning_bench import OTHER, PROBLEM, Bench, zero

from gemmsmith.bench.rounds import Course, Cursor
from gemmsmith.choose.export import table_of
from gemmsmith.choose.key import shape_key
from gemmsmith.choose.table import Entry, table_from_text, table_text
from gemmsmith.errors import UsageError
from gemmsmith.problem import BF16, FP32


def test_the_export_is_a_table_with_a_model_fitted_to_all_times(bench: Bench) -> None:
    bench.count, bench.uncompilable, bench.facts = 13, {80: "no"}, {8: {"spoil": zero}}
    bench.run(PROBLEM, OTHER)
    bench.file.add_run(H200, "gemmsmith tune --shapes x", "2026-01-02", {"torch": "2"})
    made = table_of(bench.file)
    assert (made.gpu, made.date, made.command, made.versions) == (H200, "2026-01-02", "gemmsmith tune --shapes x",
                                                                  {"torch": "2"})  # fmt: skip
    assert sorted(made.entries) == sorted([shape_key(PROBLEM), shape_key(OTHER)])
    assert made.model.samples == 22
    assert 0 < made.model.error < 1
    assert table_from_text(table_text(made)).entries.keys() == made.entries.keys()


def test_an_export_needs_finished_shapes_of_one_gpu(bench: Bench) -> None:
    with pytest.raises(UsageError, match="nothing that was tuned"):
        table_of(bench.file)
    bench.run()
    with pytest.raises(UsageError, match="no finished shape of NVIDIA H100"):
        table_of(bench.file, "NVIDIA H100")
    bench.file.add_best("NVIDIA H100 80GB HBM3", shape_key(PROBLEM), Entry("wgmma_cluster", (), 1.0))
    with pytest.raises(UsageError, match="2 GPUs: NVIDIA H200, NVIDIA H100 80GB HBM3"):
        table_of(bench.file)
    assert len(table_of(bench.file, "NVIDIA H100 80GB HBM3").entries) == 1


def test_fp32_outputs_have_separate_entries() -> None:
    assert shape_key(PROBLEM.with_(out_dtype=BF16)) != shape_key(PROBLEM.with_(out_dtype=FP32))


@pytest.mark.parametrize(("settles", "alone"), [(1e-4, True), (1.0, False)])
def test_samples_of_long_kernels_follow_untimed_launches(bench: Bench, settles: float, alone: bool,
                                                                  monkeypatch: pytest.MonkeyPatch) -> None:  # fmt: skip
    """Candidates take milliseconds; the untimed launches let the clock settle."""
    made: list[bool] = []

    def noted(*facts: Any, **named: Any) -> Course:
        made.append(named["alone"])
        return Course(*facts, **named)

    monkeypatch.setattr("gemmsmith.tune.arena.Course", noted)
    monkeypatch.setattr("gemmsmith.tune.arena.SETTLES", settles)
    bench.run()
    assert set(made) == {alone}


@pytest.mark.parametrize(("alone", "seconds", "times"), [(False, 0.1, 1), (True, 0.1, 2), (False, 0.01, 2)])
def test_a_course_that_runs_alone_launches_its_sample_twice(alone: bool, seconds: float, times: int) -> None:
    launched: list[int] = []
    course = Course(FakeStopwatch(), launched.append, "stream", "cold", 2, 1e-3, Cursor(), seconds, alone=alone)
    course.sample()
    assert len(launched) == times * course.launches == times * round(seconds / 1e-3)
    assert course.seconds == pytest.approx(times * seconds)
