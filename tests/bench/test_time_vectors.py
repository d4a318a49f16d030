"""benchmarks/time_vectors.py: which configurations are timed, and a shape that fails does not end the run."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import time_vectors as timing
from shape_rig import Shape

from gemmsmith.choose import vectors
from gemmsmith.choose.candidates import Candidate


def test_the_predicted_configuration_comes_first_and_none_twice() -> None:
    for shape in (*timing.fixed_shapes(), *timing.random_shapes(300, 12)):
        found = timing.candidates(shape)
        assert found[0].seconds == min(each.seconds for each in found)
        assert len({each.config for each in found}) == len(found) <= 15
        assert all(each.spec.name == vectors.NAME for each in found)


def test_random_shapes_are_the_same_every_time_and_have_few_vectors() -> None:
    shapes = list(timing.random_shapes(300, 40))
    assert shapes == list(timing.random_shapes(300, 40))
    assert {min(shape.m, shape.n) for shape in shapes} == set(range(1, 9))
    assert {shape.layout for shape in shapes} == set(timing.LAYOUTS)


def test_products_that_are_verified_have_every_tile_in_every_layout() -> None:
    found = [timing.tile_and_layout(number) for number in range(20)]
    assert len({(str(tile), layout) for tile, layout in found}) == 20
    for number in range(20):
        problem, (candidate,) = timing.compiled_for(number)
        special = candidate.spec.specialize(candidate.config, problem, (256, 256, 256))
        assert special["ALIGNED"] == (number % 3 == 0)


def test_one_shape_that_fails_does_not_end_the_run(tmp_path: Path) -> None:
    output = tmp_path / "times.json"
    options = argparse.Namespace(output=output, seconds=60.0, seed=1, resume=False, dry_run=True, verified=0, count=3)
    run = timing.Run(options)
    work = [(shape, timing.candidates(shape)) for shape in list(timing.fixed_shapes())[:3]]

    def timed(shape: Shape, found: list[Candidate]) -> dict[str, Any]:
        if shape is work[1][0]:
            raise ValueError("it cannot be timed")
        return timing.simulated(shape, [timing.today(shape, None), *found])

    run.time(work, timed)
    cases = json.loads(output.read_text(encoding="utf-8"))["cases"]
    assert [case["right"] for case in cases] == [True, False, True]
    assert "it cannot be timed" in cases[1]["error"]
    assert len(timing.table(cases).splitlines()) == 1 + 3 + 4


def test_a_run_that_is_resumed_leaves_out_what_was_begun(tmp_path: Path) -> None:
    output = tmp_path / "times.json"
    options = argparse.Namespace(output=output, seconds=60.0, seed=1, resume=False, dry_run=True, verified=0, count=3)
    assert timing.Run(options).begins("time one")
    options.resume = True
    again = timing.Run(options)
    assert not again.begins("time one")
    assert again.begins("time two")
