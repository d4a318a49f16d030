"""Gains of advice come from the cycle model, run without the cost that the advice is about."""

from __future__ import annotations

from typing import Any

import pytest

from gemmsmith.cli.timed_subject import time_ladder
from gemmsmith.compile.compiler import compile_for
from gemmsmith.compile.sass import disassemble
from gemmsmith.explain.diagnosis import Diagnosis, diagnose
from gemmsmith.explain.findings import Finding
from gemmsmith.explain.simulated_profile import simulate
from gemmsmith.explain.timing.advice import with_model_gains
from gemmsmith.explain.timing.predict import Predictor
from gemmsmith.explain.timing.prediction import Changes
from gemmsmith.explain.timing.timed import Timed, timed
from gemmsmith.explain.timing.whatif import COALESCED, COSTS, OVERHEAD
from gemmsmith.gpus import gpu_named
from gemmsmith.ladder.registry import rung_named
from gemmsmith.report.collect import CollectedRung
from gemmsmith.sim.timing.sm import Sm
from gemmsmith.sim.timing.table import rows_of

H200 = gpu_named("H200")
_NOTHING: Any = None  # what times of a ladder do not need


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


def test_a_what_if_without_overhead_keeps_what_warps_wait_for() -> None:
    spec = rung_named("fp32_wgmma_bf16x6")
    program = Predictor(spec, spec.config(), spec.problem(512, 512, 512), H200).program
    (cost,) = (each for each in COSTS if each.name == OVERHEAD)
    assert cost.changes.dropped is not None
    left = {i.opcode for i in program.instructions if not cost.changes.dropped(i)}
    assert {"SYNCS", "UTMALDG", "HGMMA", "EXIT", "STG"} <= left
    gone = [i for i in program.instructions if cost.changes.dropped(i)]
    assert {"IADD3", "ISETP", "UIADD3"} <= {i.opcode for i in gone}
    assert not any(i.control.wait for i in gone), "a branch on what a wait for an mbarrier found holds the warp back"


def test_times_of_a_ladder_are_those_of_single_predictions() -> None:
    spec = rung_named("naive")
    step = CollectedRung("naive", (), _NOTHING, spec.geometry(spec.problem(64, 64, 64), spec.config()), _NOTHING)
    (made,) = time_ladder((step,), 64, H200)
    assert made.timed is not None
    assert made.timed.predicted == timed(spec, spec.config(), spec.problem(64, 64, 64), H200).predicted


def test_blocks_that_share_tiles_are_timed_by_one_that_waits() -> None:
    spec = rung_named("wgmma_stream_k")
    predictor = Predictor(spec, spec.config(), spec.problem(512, 512, 512), H200)
    assert predictor.chosen == [predictor.blocks - predictor.subject.together]
    sample = predictor.samples[-1]
    waiting = predictor._run(sample, 1, True, Changes())
    model = predictor.rates.sm(1, predictor.samples[0].apart)
    memory = predictor._memory(1, True, Changes(), sample.workspace)
    rows = rows_of(predictor.program, model)
    sender = predictor._senders[sample.k]
    sent = Sm(rows, sender.streams, model, memory, sender.sm_of).run()
    alone = Sm(rows, sample.streams, model, memory, sample.sm_of).run()
    assert waiting.cycles > max(alone.cycles + 500, sent.cycles), "what others send comes when they have stored it"
