"""Mistakes with TMA, mbarriers, clusters and wgmma are named; the rungs as they are raise no alarm.

The rungs are compiled for sm_90a. Each mutant has one mistake in a copy of a rung or of a header.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from mutant import Edit, Mutant, Trial, words_of
from ptx_only import compile_to_ptx

from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import rung_named
from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.schedule import schedule_named
from gemmsmith.verify.harness import verify_launch
from gemmsmith.verify.verdict import Verdict

SMALL = {"BM": 64, "BN": 64, "STAGES": 2, "CONSUMERS": 1}
LOOP, KERNEL = "warpgroup.cuh", "17_wgmma_specialized.cu"
HANG = "mbarrier wait never completes"


@dataclass(frozen=True)
class Mistake:
    """Edits of ``wgmma_specialized`` or another rung, and the words that a verdict must have."""

    name: str
    edits: tuple[Edit, ...]
    words: str
    rung: str = "wgmma_specialized"
    shape: tuple[int, int, int] = (64, 64, 320)


MISTAKES = (
    Mistake("no wait for a full stage",
            (Edit(LOOP, "        mbarrier_wait(full + 8 * ring.stage, ring.parity);\n", ""),), ""),
    Mistake("the wrong parity of full", (Edit(LOOP, "ring.stage, ring.parity)", "ring.stage, ring.parity ^ 1)"),), ""),
    Mistake("no wait for an empty stage",
            (Edit(KERNEL, "                mbarrier_wait(empty + 8 * ring.stage, ring.parity ^ 1);\n", ""),), ""),
    Mistake("the wrong parity of empty", (Edit(KERNEL, "ring.parity ^ 1);", "ring.parity);"),), HANG),
    Mistake("too few bytes expected", (Edit(KERNEL, "(barrier, STAGE_BYTES)", "(barrier, STAGE_BYTES - 128)"),),
            "lacks 0 arrivals and -128 bytes"),
    Mistake("too many bytes expected", (Edit(KERNEL, "(barrier, STAGE_BYTES)", "(barrier, STAGE_BYTES + 128)"),),
            "lacks 0 arrivals and 128 bytes"),
    Mistake("a stage is released before the wait",
            (Edit(LOOP, "        wgmma_wait<1>();\n        if (k > 0) release(previous);\n",
                  "        if (k > 0) release(previous);\n        wgmma_wait<1>();\n"),), "write-after-read race"),
    Mistake("a stage is released while wgmma reads it",
            (Edit(LOOP, "        if (k > 0) release(previous);\n        previous = ring.stage;",
                  "        release(ring.stage);\n        previous = ring.stage;"),
             Edit(LOOP, "    wgmma_wait<0>();\n    release(previous);", "    wgmma_wait<0>();")),
            "write-after-read race"),
    Mistake("no last wait", (Edit(LOOP, "    wgmma_wait<0>();\n", ""),), "wgmma.wait_group must come between"),
    Mistake("no wgmma.fence", (Edit(LOOP, "    wgmma_fence();\n", ""),), "wgmma.fence must come between"),
    Mistake("no fence after the barriers' initialisation", (Edit(KERNEL, "        mbarrier_init_fence();\n", ""),),
            "fence.mbarrier_init"),
    Mistake("no barrier after the initialisation", (Edit(KERNEL, "    __syncthreads();\n    pdl", "    pdl"),), ""),
    Mistake("one arrival too many expected", (Edit(KERNEL, "i, CONSUMERS)", "i, CONSUMERS + 1)"),), HANG),
    Mistake("stages are not released", (Edit(LOOP, "        if (k > 0) release(previous);\n", ""),), HANG),
    Mistake("B overwrites the end of A",
            (Edit(KERNEL, "load(stage + TileA::BYTES,", "load(stage + TileA::BYTES - 1024,"),), ""),
    Mistake("the descriptor has another swizzle", (Edit("wgmma.cuh", "SWIZZLE_128 = 1ull", "SWIZZLE_128 = 2ull"),), ""),
    Mistake("the descriptor has another stride", (Edit("wgmma.cuh", "EIGHT_ROWS = 1024", "EIGHT_ROWS = 512"),),
            "outputs wrong"),
    Mistake("no proxy fence before a store by TMA",
            (Edit("tma_store.cuh", "                fence_proxy_async();\n", ""),), "fence.proxy.async",
            "wgmma_persistent", (128, 256, 128)),
    Mistake("a multicast misses a block", (Edit("tma.cuh", '"h"(mask)', '"h"((unsigned short)1)'),), "never completes",
            "wgmma_cluster", (256, 256, 128)),
)  # fmt: skip


def judged(spec: KernelSpec, trial: Trial, schedule: str, small: bool) -> Verdict:
    device = SimDevice("sm_90a", schedule_named(schedule), hazards=True)
    config = spec.config(SMALL if small else {})
    return verify_launch(device, replace(spec, simulated=True), config, trial.problem(spec),
                         compile_fn=compile_to_ptx, fill="integers", mode="exact")  # fmt: skip


def cases() -> Iterator[tuple[Mistake, str]]:
    for mistake in MISTAKES:
        for schedule in ("lockstep", "reversed"):
            yield mistake, schedule


@pytest.mark.parametrize(("mistake", "schedule"), list(cases()), ids=lambda x: getattr(x, "name", x))
def test_a_mistake_is_found(mistake: Mistake, schedule: str, tmp_path: Path) -> None:
    trial = Trial(mistake.shape, out_dtype="fp16")
    spec = Mutant(mistake.name, mistake.rung, mistake.name, mistake.edits, trial, "race").write(tmp_path)
    verdict = judged(spec, trial, schedule, small=mistake.rung == "wgmma_specialized")
    assert not verdict.trusted
    if schedule == "lockstep" or "race" in mistake.words or "must come" in mistake.words:
        assert mistake.words in words_of(verdict)


RUNGS = ("wgmma_tma", "wgmma_specialized", "wgmma_persistent", "wgmma_cluster", "wgmma_split_k", "wgmma_stream_k")


@pytest.mark.parametrize("schedule", ["lockstep", "reversed", "random"])
@pytest.mark.parametrize("rung", RUNGS)
def test_a_rung_raises_no_alarm(rung: str, schedule: str) -> None:
    spec = rung_named(rung)
    verdict = judged(spec, Trial((136, 264, 200), out_dtype="fp16"), schedule, small=False)
    assert verdict.trusted, words_of(verdict)
