"""Rungs that are not made for cubes: compared with the rung before at their own shapes, from records."""

from __future__ import annotations

from dataclasses import replace

import record_cycles
from report_sample import sample

from gemmsmith.ladder.registry import rungs
from gemmsmith.report.collect import rung_before
from gemmsmith.report.reasons import at_own_shapes, reason
from gemmsmith.report.report_model import ReportModel, Rung
from gemmsmith.report.speeds import speeds_of
from gemmsmith.store.made_for import made_for

SPECS = {spec.name: spec for spec in rungs()}


def a_model(name: str) -> tuple[ReportModel, Rung]:
    rung = replace(sample().rungs[1], name=name, before=made_for(name)[0].before, made_for=made_for(name))
    return replace(sample(), rungs=(sample().rungs[0], rung)), rung


def test_a_rung_has_times_at_all_shapes_that_it_is_made_for_beside_the_rung_that_climb_compares_it_with() -> None:
    names = list(SPECS)
    for name, spec in SPECS.items():
        recorded = made_for(name)
        assert tuple((each.m, each.n, each.k) for each in recorded) == spec.made_for
        before = rung_before(name, names[: names.index(name)]) if recorded else ""
        assert {each.before for each in recorded} <= {before}
    assert {name for name, spec in SPECS.items() if spec.made_for} == {"wgmma_split_k", "wgmma_stream_k", "gemv"}


def test_record_cycles_times_the_hopper_rungs_at_these_shapes() -> None:
    for name in ("wgmma_split_k", "wgmma_stream_k"):
        assert record_cycles.SHAPES[name] == SPECS[name].made_for


def test_climb_names_the_shape_and_both_times() -> None:
    model, rung = a_model("gemv")
    told = reason(rung, model, speeds_of(model))
    assert told.startswith("1.14 times as fast as simt_best at 1×8192×8192 (60.8 vs 69.1 µs), 1.53 at 1984×3×10436 (")
    assert "recorded on H200, at shapes that it is made for. The idea: " in told
    assert "predicted" not in told, "of a cube, for which it is not made"


def test_a_rung_whose_file_names_another_one_is_not_compared_by_these_times() -> None:
    _, rung = a_model("gemv")
    assert at_own_shapes(replace(rung, before="warp_tile")) == ""
    assert at_own_shapes(replace(rung, made_for=())) == ""
