"""Mistakes with TMA, mbarriers, clusters and wgmma are named; the rungs as they are raise no alarm.

The rungs are compiled for sm_90a. Each mutant has one mistake in a copy of a rung or of a header.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from hopper_catalogue import FOUR, HELD, MISTAKES, SEVERAL_BUFFERS, SLICED, SWAPPED, TWO_PARTS
from hopper_mistake import Mistake
from mutant import Mutant, Trial, words_of
from ptx_only import compile_to_ptx

from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import rung_named, rungs
from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.schedule import schedule_named
from gemmsmith.verify.harness import verify_launch
from gemmsmith.verify.verdict import Verdict

SCHEDULES = ("lockstep", "in_order", "reversed", "random", "starved")


def judged(spec: KernelSpec, trial: Trial, schedule: str, config: Config) -> Verdict:
    device = SimDevice("sm_90a", schedule_named(schedule), hazards=True, strict=True)
    return verify_launch(device, spec, config, trial.problem(spec), compile_fn=compile_to_ptx, fill="integers",
                         mode="exact")  # fmt: skip


def found(mistake: Mistake, schedule: str, folder: Path) -> Verdict:
    trial = Trial(mistake.shape, out_dtype=mistake.out_dtype, layout=mistake.layout)
    spec = Mutant(mistake.name, mistake.rung, mistake.name, mistake.edits, trial, "race").write(folder)
    return judged(spec, trial, schedule, spec.config({**dict(spec.small), **dict(mistake.config)}))


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_a_mistake_is_found(mistake: Mistake, tmp_path: Path) -> None:
    verdict = found(mistake, "lockstep", tmp_path)
    assert not verdict.trusted
    assert mistake.words in words_of(verdict)


@pytest.mark.parametrize("number", range(len(MISTAKES)), ids=[mistake.name for mistake in MISTAKES])
def test_a_mistake_is_found_under_another_schedule(number: int, tmp_path: Path) -> None:
    assert not found(MISTAKES[number], SCHEDULES[1 + number % 4], tmp_path).trusted


def test_there_are_enough() -> None:
    assert len({mistake.name for mistake in MISTAKES}) == len(MISTAKES) >= 60
    assert {mistake.rung for mistake in MISTAKES} == {spec.name for spec in rungs() if spec.arch_specific}


HOPPER = [spec.name for spec in rungs() if spec.arch_specific]


VARIANTS = {
    "sliced": SLICED, "two slices": HELD, "two parts": TWO_PARTS,
    "swapped": SWAPPED, "four": FOUR, "four above": (("CLUSTER_M", 4),),
    "swapped and sliced": (*SWAPPED, ("SLICES", 2)), "swapped, 200 rows": (*SWAPPED, ("BN", 200)),
    "swapped, cluster": (("SWAP", 1), ("BN", 40), ("CLUSTER_M", 2)), "five slices": (*SLICED, ("SLICES", 5)),
}  # fmt: skip


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("variant", VARIANTS)
def test_variants_of_clusters_raise_no_alarm(variant: str, schedule: str) -> None:
    spec = rung_named("wgmma_cluster")
    verdict = judged(
        spec, Trial((136, 72, 320)), schedule, spec.config({**dict(spec.small), **dict(VARIANTS[variant])})
    )
    assert verdict.trusted, words_of(verdict)


def test_tiles_that_take_two_buffers_in_turns_raise_no_alarm() -> None:
    spec = rung_named("wgmma_cluster")
    config = spec.config({**dict(spec.small), **dict(SEVERAL_BUFFERS)})
    verdict = judged(spec, Trial((32 * 140, 64, 64)), "random", config)
    assert verdict.trusted, words_of(verdict)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("config", [{"SPLIT": 1}, {"SWAP": 1}, {"SWAP": 1, "SPLIT": 4, "BN": 32}, {"BM": 192}], ids=str)
@pytest.mark.parametrize("shape", [(72, 200, 136), (70, 33, 131)])
def test_variants_of_rung_27_raise_no_alarm(shape: tuple[int, int, int], config: dict[str, int], schedule: str) -> None:
    spec = rung_named("fp32_wgmma_registers")
    verdict = judged(spec, Trial(shape), schedule, spec.config({**dict(spec.small), **config}))
    assert verdict.trusted, words_of(verdict)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("rung", HOPPER)
def test_a_small_rung_raises_no_alarm(rung: str, schedule: str) -> None:
    spec = rung_named(rung)
    out = "fp32" if rung.startswith("fp32") else "fp16"
    verdict = judged(spec, Trial((72, 136, 200), out_dtype=out), schedule, spec.small_config())
    assert verdict.trusted, words_of(verdict)


@pytest.mark.parametrize("schedule", ["lockstep", "reversed", "random"])
@pytest.mark.parametrize("rung", HOPPER)
def test_a_rung_raises_no_alarm(rung: str, schedule: str) -> None:
    spec = rung_named(rung)
    out = "fp32" if rung.startswith("fp32") else "fp16"
    verdict = judged(spec, Trial((136, 264, 200), out_dtype=out), schedule, spec.config())
    assert verdict.trusted, words_of(verdict)
