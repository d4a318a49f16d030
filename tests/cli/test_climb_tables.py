"""What climb prints: one reason per rung, slower rungs named as such, published figures once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import pytest
from report_sample import GPU, MACHINE, gathered_rung, measurement, run
from unsimulated import unsimulated

from gemmsmith.cli.render.climb_tables import _ladder, _published, _timed, _title, print_climb, reasons
from gemmsmith.ladder.registry import rungs
from gemmsmith.problem import BF16, FP16, Problem
from gemmsmith.report import reasons as reasons_of_steps
from gemmsmith.report.collect import CollectedRung, ladder_config, rungs_of
from gemmsmith.report.report_model import Made, ReportModel
from gemmsmith.report.speeds import _agrees, is_ladder_timing
from gemmsmith.store.made_for import made_for
from gemmsmith.store.recorded import recorded_runs
from gemmsmith.store.results import Ratio
from gemmsmith.verify.verdict import Verdict

STEPS = ("register_block", "block_tile_1d", "warp_tile", "async_copy")
SOME = ("naive", "coalesced", "mma_swizzled")


@cache
def story(names: tuple[str, ...] = STEPS) -> ReportModel:
    made = Made("gemmsmith climb", "2026-01-02", "0.1.0", MACHINE)
    return ReportModel(GPU, Problem(4096, 4096, 4096), rungs_of(gathered(names), GPU), made)


@cache
def gathered(names: tuple[str, ...]) -> tuple[CollectedRung, ...]:
    return tuple(gathered_rung(n) for n in names)


def told(**tflops: float) -> dict[str, str]:
    """The sentence of each rung, with invented timings."""
    timed = tuple(measurement(name, "rung", "fp32", 4096, speed) for name, speed in tflops.items())
    known = replace(story(), recorded=(replace(run(()), measurements=timed),))
    return {line.partition(":")[0]: line.partition(": ")[2] for line in reasons(known)}


def why(name: str) -> tuple[str, ...]:
    return next(rung.why for rung in story().rungs if rung.name == name)


def test_the_largest_reason_is_told_and_not_the_prediction() -> None:
    assert told()["block_tile_1d"] == why("block_tile_1d")[1]
    assert "register_block" not in told(), "it has none before it"


@pytest.fixture
def invented_predictions(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the model predicts changes with its rules; what is made of it does not."""
    ratios = {"block_tile_1d": 1.37, "async_copy": 0.77}
    monkeypatch.setattr(reasons_of_steps, "_predicted_ratio", lambda rung, _: ratios.get(rung.name, 2.0))


@pytest.mark.usefixtures("invented_predictions")
def test_a_rung_that_is_predicted_to_be_slower_says_so() -> None:
    assert told()["async_copy"] == f"predicted to run at 77% of the speed of warp_tile. {why('async_copy')[1]}"


def test_timings_go_before_the_model() -> None:
    assert told(warp_tile=20.0, async_copy=16.0)["async_copy"].startswith("slower than warp_tile, 16 vs 20 TFLOPS. ")
    assert told(register_block=20.0, block_tile_1d=20.1)["block_tile_1d"].startswith("as fast as register_block, 20.1 ")
    assert told(register_block=20.0, block_tile_1d=25.0)["block_tile_1d"] == why("block_tile_1d")[1]


@pytest.mark.usefixtures("invented_predictions")
def test_a_step_that_the_model_does_not_explain_has_the_rungs_idea_and_not_the_models_reason() -> None:
    slow = told(register_block=20.0, block_tile_1d=16.0)["block_tile_1d"]
    assert slow == (
        "slower than register_block, 16 vs 20 TFLOPS. The model predicts 1.37 times the speed of register_block, "
        "so it does not explain this step. The idea: a tile of C that is large against its k-tiles: more arithmetic "
        "per byte of shared memory."
    )
    fast = told(warp_tile=20.0, async_copy=22.0)["async_copy"]
    assert fast.startswith("1.10 times as fast as warp_tile, 22 vs 20 TFLOPS. The model predicts 0.77 times ")
    assert why("async_copy")[1] not in fast
    far = told(register_block=20.0, block_tile_1d=80.0)["block_tile_1d"]
    assert far.startswith("4.00 times as fast as register_block, 80 vs 20 TFLOPS. The model predicts 1.37 times ")


def test_rungs_of_the_same_predicted_time_say_so() -> None:
    one = story().rungs[0]
    twin = replace(one, name="twin", before=one.name, why=("Both are predicted to take the same time.", "A detail."))
    assert reasons(replace(story(), rungs=(one, twin))) == ["twin: Both are predicted to take the same time."]


def test_published_figures_are_one_per_gpu_at_its_usual_size() -> None:
    any_rung = story().rungs[0]
    names = ("vectorized", "warp_tile", "naive", "wmma")
    rows = dict(_published([replace(any_rung, name=name) for name in names])[1])
    assert rows["vectorized"] == "RTX 3050 at 2048: 4.2; RTX A6000 at 4096: 17 to 18.2; RTX 4090 at 4096: 39.1"
    assert rows["warp_tile"] == "RTX A6000 at 4096: 18.9; RTX 4090 at 4096: 45.8", "not at 2048 as well"
    assert rows["naive"] == "RTX 4090 at 4096: 0.65"
    assert "wmma" not in rows


def test_the_ratio_to_naive_is_only_for_the_same_units() -> None:
    headings, rows = _ladder(story(SOME), gathered(SOME), run(SOME))
    at = [name for name, _ in headings].index("×\nnaive")
    over = {row[0][3:]: row[at] for row in rows}
    assert over["coalesced"] == f"{6.1 / 0.52:.1f}"
    assert over["mma_swizzled (fp16)"] == over["cublas fp16"] == over["cublas-tf32"] == ""
    assert over["cublas fp32"] == f"{51.3 / 0.52:.1f}"
    shares = {row[0][3:]: row[at + 1] for row in rows}
    assert (shares["mma_swizzled (fp16)"], shares["cublas fp16"]) == ("57%", "100%")


def test_tf32_has_no_share_of_cublas_in_fp32() -> None:
    timed = run(SOME)
    ratio = Ratio("cublas", 6.8, 6.7, 6.9)
    shared = tuple(replace(m, ratios=(ratio,)) if m.identity.precision == "tf32" else m for m in timed.measurements)
    _, rows = _ladder(story(SOME), gathered(SOME), replace(timed, measurements=shared))
    assert next(row[-1] for row in rows if row[0].strip() == "cublas-tf32") == ""


def test_a_timing_of_another_type_layout_or_configuration_is_not_the_rungs() -> None:
    timed = run(SOME, (4096,))
    for change in ({"dtype": BF16}, {"trans_b": True}, {"out_dtype": FP16}):
        changed = tuple(replace(m, problem=m.problem.with_(**change)) if m.identity.name == "mma_swizzled" else m
                        for m in timed.measurements)  # fmt: skip
        found = _timed(story(SOME), replace(timed, measurements=changed))
        assert "mma_swizzled" not in {name for name, _ in found}, change
        assert "naive" in {name for name, _ in found}


def test_wavefronts_count_those_of_ldmatrix() -> None:
    step = gathered(SOME)[-1]
    _, rows = _ladder(story(SOME), gathered(SOME), None)
    assert step.profile is not None
    total = sum(step.profile.wavefronts(op) for op in ("ld", "st", "ldgsts", "ldsm"))
    assert step.profile.wavefronts("ldsm") > 0
    assert rows[-1][6] == f"{total / 1e6:.3g} M"


def test_everything_fits_100_columns(capsys: pytest.CaptureFixture[str]) -> None:
    print_climb(replace(story(SOME), recorded=(run(SOME),)), gathered(SOME), "simulator", ("a note",), None)
    text = capsys.readouterr().out
    assert all(len(line) <= 100 for line in text.splitlines())
    assert "Why each rung differs from the one before" in text
    assert "mma_swizzled (fp16)" in text, "a name on one line"
    first = [line.strip() for line in text.splitlines()[:2]]
    assert first == ["The ladder: counts simulated at 4096³", "speeds at 4096³: recorded on H200, 2026-01-02"]
    assert "(counted; gains predicted)" in text
    assert _timed(story(SOME), run(SOME)).keys() >= {("cublas", "fp32"), ("cublas", "fp16")}


def test_the_title_says_where_it_was_verified() -> None:
    shapes = ((129, 127, 67), (256, 256, 256))
    checked = tuple(Verdict("naive", "", Problem(*shape), "the simulator", "exact", "integers", 1, 0.0, 0.0, 0.0, None,
                            None, None, 0, 0, 1, False, (), (), "") for shape in shapes)  # fmt: skip
    steps = tuple(replace(step, verdicts=checked) for step in gathered(SOME))
    words = "The ladder: counts simulated at 4096³; verified on the simulator at 256³ and a ragged shape"
    assert _title(story(SOME), steps, "the simulator", None) == words


def test_sizes_that_are_recorded_are_named_where_this_one_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    print_climb(replace(story(SOME), recorded=(run(SOME, (512, 1024)),)), gathered(SOME), "simulator", (), None)
    text = " ".join(capsys.readouterr().out.split())
    assert "Speeds: none at 4096³; recorded on H200, 2026-01-02: 512³, 1024³." in text


HOPPER = (*SOME, "wgmma_persistent")


@pytest.fixture(name="unknown")
def _unknown() -> Iterator[None]:
    with unsimulated("wgmma_persistent"):
        yield


@pytest.mark.usefixtures("unknown")
def test_a_rung_that_is_not_simulated_has_no_counts_and_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    _, rows = _ladder(story(HOPPER), gathered(HOPPER), None)
    state, registers, shared, occupied, *counts = rows[-1][1:]
    assert (state, counts) == ("", ["", "", ""]), "nobody verified it"
    assert int(registers) > 100
    assert (shared[-2:], occupied[-1]) == ("KB", "%")
    print_climb(story(HOPPER), gathered(HOPPER), "simulator", (), None)
    text = " ".join(capsys.readouterr().out.split())
    assert "Not simulated, so without counts; only a GPU verifies and times them: wgmma_persistent." in text


@pytest.mark.usefixtures("unknown")
def test_a_rung_that_is_not_simulated_has_its_recorded_speed_and_its_idea() -> None:
    timed = run(HOPPER)
    known = replace(story(HOPPER), recorded=(timed,))
    _, rows = _ladder(known, gathered(HOPPER), timed)
    assert rows[len(HOPPER) - 1][-3] == "700"
    (said,) = [line for line in reasons(known) if line.startswith("wgmma_persistent: ")]
    assert said.startswith("wgmma_persistent: 1.76 times as fast as mma_swizzled, 700 vs 398 TFLOPS. The idea: ")
    assert not [line for line in reasons(story(HOPPER)) if line.startswith("wgmma_persistent")]


@pytest.mark.usefixtures("unknown")
def test_a_rung_that_a_gpu_verified_says_so() -> None:
    *others, last = gathered(HOPPER)
    verdict = Verdict("wgmma_persistent", "", Problem(4, 4, 4, FP16), "a GPU", "exact", "integers", 1, 0.0, 0.0, 0.0,
                      None, None, None, 0, 0, 1, False, (), (), "")  # fmt: skip
    steps = (*others, replace(last, verdicts=(verdict,)))
    _, rows = _ladder(story(HOPPER), steps, None)
    assert "✓" in rows[-1][1]


def test_long_names_stay_on_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    names = (*SOME, "wgmma_specialized")
    print_climb(replace(story(names), recorded=(run(names),)), gathered(names), "simulator", (), None)
    text = capsys.readouterr().out
    assert "wgmma_specialized (fp16)" in text
    assert all(len(line) <= 100 for line in text.splitlines())


def test_every_rung_has_recorded_figures_even_with_a_newer_parameter() -> None:
    ours = {spec.name: (spec.dtypes[0].name, str(ladder_config(spec))) for spec in rungs()}
    found = {m.identity.name for run in recorded_runs() for m in run.measurements
             if m.identity.name in ours and is_ladder_timing(m, *ours[m.identity.name])}  # fmt: skip
    at_own_shapes = {name for name in ours if made_for(name)}  # gemv was timed there alone
    assert found | at_own_shapes == ours.keys()


@pytest.mark.parametrize(
    ("recorded", "same"),
    [("BM=64,BN=64", True), ("BM=64", True), ("BM=32", False), ("BM=64,BN=64,BK=8", True), ("", True)],
)
def test_a_record_of_another_configuration_is_not_a_ladder_timing(recorded: str, same: bool) -> None:
    assert _agrees(recorded, "BM=64,BN=64") == same
