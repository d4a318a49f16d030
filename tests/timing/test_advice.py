"""Gains of advice come from the cycle model, run without the cost that the advice is about."""

from __future__ import annotations

import pytest

from gemmsmith.compile.compiler import compile_for
from gemmsmith.compile.sass import disassemble
from gemmsmith.explain.diagnosis import Diagnosis, diagnose
from gemmsmith.explain.findings import Finding
from gemmsmith.explain.simulated_profile import simulate
from gemmsmith.explain.timing.advice import with_model_gains
from gemmsmith.explain.timing.predict import Predictor
from gemmsmith.explain.timing.timed import Timed, timed
from gemmsmith.explain.timing.whatif import COALESCED
from gemmsmith.gpus import gpu_named
from gemmsmith.ladder.registry import rung_named

H200 = gpu_named("H200")


@pytest.fixture(scope="module")
def naive() -> tuple[Diagnosis, Timed]:
    spec = rung_named("naive")
    problem = spec.problem(128, 128, 128)
    compiled = compile_for(spec, spec.config(), problem, "sm_90")
    sass = disassemble(compiled)
    counted = simulate(spec, spec.config(), problem, compiled, sample=1, depth=64, sass=sass)
    return diagnose(counted, sass, H200), timed(spec, spec.config(), problem, H200)


def test_advice_has_the_gain_of_the_what_if_for_its_cost(naive: tuple[Diagnosis, Timed]) -> None:
    found, time = naive
    (there,) = (each for each in time.what_ifs if each.cost == COALESCED)
    made = {each.kind: each for each in with_model_gains(found, time).findings}
    scattered = made["uncoalesced global loads"]
    assert scattered.gain == there.gain
    assert scattered.gain != next(each.gain for each in found.findings if each.kind == scattered.kind)
    assert f"predicted {there.gain:.2f} times as fast, then bound by {there.bound}." in scattered.sentence
    gains = [each.gain for each in with_model_gains(found, time).findings]
    assert gains == sorted(gains, reverse=True)


def test_a_cost_that_the_model_does_not_see_has_no_gain(naive: tuple[Diagnosis, Timed]) -> None:
    found, time = naive
    spills = Finding("register spills", "It spills.", (), 1.5, "Use fewer registers.", 10.0)
    peak = Finding("near the fp32 peak", "It is at the peak.", (), 1.0, "", 0.0)
    made = with_model_gains(Diagnosis(found.case, found.roof, found.sentences, (spills, peak)), time).findings
    assert [(each.kind, each.gain, each.sentence) for each in made] == [("register spills", 1.0, "It spills.")]
    assert with_model_gains(found, Timed(None, missing="nothing")) is found


def test_blocks_that_share_tiles_are_timed_by_one_that_waits() -> None:
    spec = rung_named("wgmma_stream_k")
    predictor = Predictor(spec, spec.config(), spec.problem(512, 512, 512), H200)
    assert predictor.chosen == [predictor.blocks - predictor.subject.together]
    waiting = predictor.predict()
    predictor.chosen = [0]
    predictor._samples.clear()
    predictor._known.clear()
    assert waiting.main.cycles > 1.1 * predictor.predict().main.cycles
