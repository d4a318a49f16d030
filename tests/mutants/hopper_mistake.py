"""One mistake in a rung for Hopper: its edits, where it shows, and the words of its report."""

from __future__ import annotations

from dataclasses import dataclass

from mutant import Edit

LOOP, RING, STORE, SPLIT = "warpgroup.cuh", "cluster_ring.cuh", "tma_store.cuh", "split_mainloop.cuh"
TMA, SPECIALIZED, PERSISTENT = "16_wgmma_tma.cu", "17_wgmma_specialized.cu", "18_wgmma_persistent.cu"
CLUSTER, SPLIT_K, STREAM_K = "19_wgmma_cluster.cu", "20_wgmma_split_k.cu", "21_wgmma_stream_k.cu"
HANG = "never completes"
PHASE = "mbarrier wait never completes"
UNWAITED = "a wait for the mbarrier's phase"
RACE = "race on"
# A copy for the next phase is announced before the phase has ended: nobody waited for the stage to be empty.
EARLY_ARRIVAL = "a wait for the end of phase"
# The phase ended without all of its copies' bytes, and wgmma read the rest before anything could hang.
TOO_FEW_BYTES = "expect_tx must count the bytes of all its copies"
# The refill ended the phases that a slower warpgroup was still to wait for, so it never came to read the stage.
OVERTAKEN = "those who arrive must first wait for this thread"
TWO = (("BM", 128), ("CONSUMERS", 2))  # consumers, with setmaxnreg


@dataclass(frozen=True)
class Mistake:
    """Edits of a rung, and the words that a verdict must have. ``config`` changes the small configuration."""

    name: str
    rung: str
    edits: tuple[Edit, ...]
    words: str
    shape: tuple[int, int, int] = (64, 64, 320)
    config: tuple[tuple[str, int], ...] = ()
    layout: str = "NN"
    out_dtype: str = "fp16"
    also: tuple[str, ...] = ()

    def is_named_in(self, report: str) -> bool:
        return any(words in report for words in (self.words, *self.also))


def mistake(name: str, rung: str, words: str, *edits: Edit, shape: tuple[int, int, int] = (64, 64, 320),
            config: tuple[tuple[str, int], ...] = (), layout: str = "NN", out: str = "fp16",
            also: tuple[str, ...] = ()) -> Mistake:  # fmt: skip
    return Mistake(name, rung, edits, words, shape, config, layout, "fp32" if rung.startswith("fp32") else out, also)


def gone(file: str, text: str) -> Edit:
    return Edit(file, text, "")


FULL_WAIT = "        mbarrier_wait(full + 8 * ring.stage, ring.parity);\n"
END_OF_CLUSTER = "    if (CLUSTER > 1) cluster_sync();"
PAIR = (128, 128, 320)
