"""The published experiments, waves of a GPU, and the quantities that a sweep shows."""

from __future__ import annotations

import pytest
from sweep_samples import bench, rung

from gemmsmith.errors import UsageError
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import Problem
from gemmsmith.shapes import parse_shapes
from gemmsmith.sweep.axes import parse_axis
from gemmsmith.sweep.experiments import EXPERIMENTS, experiment_named
from gemmsmith.sweep.families import Variant
from gemmsmith.sweep.grid import grid
from gemmsmith.sweep.quantities import QUANTITIES, columns, telling

ILLEGAL = {"thread-tile": ["TM=8 TN=128"], "registers": ["MIN_BLOCKS=8"]}


@pytest.mark.parametrize("name", [e.name for e in EXPERIMENTS])
def test_only_known_points_of_an_experiment_are_illegal(name: str) -> None:
    experiment = experiment_named(name)
    family = rung(experiment.kernel, experiment.fixed)
    shapes = parse_shapes(experiment.shape or "4096")
    found = grid(family, [parse_axis(t) for t in experiment.vary], shapes, "", bench().wave_shape)
    assert len(found) >= 3
    assert [p.label for p in found if p.reasons] == ILLEGAL.get(name, [])
    assert experiment.shows in QUANTITIES


@pytest.mark.parametrize(("name", "vary"), [
    ("thread-tile", "TM,TN=4x4,8x4,8x8,16x4,16x8,4x32,8x64,8x128,16x16"), ("unroll", "UNROLL=1,2,4,8,16"),
    ("padding", "PAD=0,1,4,8"), ("bk", "BK=8,16,32"), ("load-width", "VEC=1,2,4"),
    ("sizes", "SIZE=64,128,256,512,1024,2048,4096,8192,16384"),
])  # fmt: skip
def test_the_published_values_are_all_there(name: str, vary: str) -> None:
    assert vary in experiment_named(name).vary


def test_an_unknown_experiment_is_refused() -> None:
    with pytest.raises(UsageError, match="no experiment called 'paddin'") as caught:
        experiment_named("paddin")
    assert "did you mean padding?" in caught.value.hint


@pytest.mark.parametrize("gpu", ["H200", "RTX 3050"])
def test_whole_waves_are_full_and_fractions_are_never_rounded_away(gpu: str) -> None:
    here = bench(gpu)
    spec = rung_named("coalesced")
    variant = Variant(spec, spec.config(), "")
    grids = {}
    for wanted in (0.95, 1.0, 1.05, 2.0):
        m, n, k = here.wave_shape(variant, wanted, (64, 64, 48))
        assert (m % 32, n % 32, k) == (0, 0, 48)
        grids[wanted] = spec.geometry(Problem(m, n, k), variant.config).blocks
    capacity = here.gpu.sms * here.occupancy(here.compiled(variant, Problem(64, 64, 64)), 1024, 0).blocks_per_sm
    assert grids[0.95] < capacity == grids[1.0] < grids[1.05] < grids[2.0] == 2 * capacity


def test_the_main_quantity_by_what_varies() -> None:
    assert telling(["BK", "PAD"], "simulated") == "store_conflicts"
    assert telling(["TM"], "simulated") == "instructions_per_ffma"
    assert telling(["PAD"], "measured") == "tflops"
    assert telling(["smem"], "predicted") == "occupancy"


@pytest.mark.parametrize("origin", ["simulated", "measured", "predicted"])
def test_the_main_quantity_is_the_last_column_and_appears_once(origin: str) -> None:
    for name in QUANTITIES:
        shown = columns(name, origin)
        assert shown[-1] == name
        assert len(set(shown)) == len(shown)
        assert set(shown) <= set(QUANTITIES)
