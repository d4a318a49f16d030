"""Mistakes in the rungs for Hopper: TMA, mbarriers, clusters, wgmma, stores, registers and dependent launches.

Each is an edit of one rung or header, compiled in the rung's small configuration, and the words that its report has
under ``lockstep``. Under other schedules the same mistake may be found another way, first: ``also`` has the words of
those reports, which name the same missing construct.
"""

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


def _gone(file: str, text: str) -> Edit:
    return Edit(file, text, "")


_FULL_WAIT = "        mbarrier_wait(full + 8 * ring.stage, ring.parity);\n"
_RELEASE_EARLY = Edit(
    LOOP,
    "            wgmma_wait<1>();\n            if (held) release(previous);\n",
    "            if (held) release(previous);\n            wgmma_wait<1>();\n",
)
_RELEASE_AT_ONCE = (
    Edit(LOOP, "            if (held) release(previous);\n", "            release(ring.stage);\n"),
    Edit(LOOP, "    wgmma_wait<0>();\n    release(previous);", "    wgmma_wait<0>();"),
)  # fmt: skip
_BARRIER_BEFORE_STORE = "                named_barrier_sync(barrier, WARPGROUP_THREADS);\n                if (leader) {"
_END_OF_CLUSTER = "    if (CLUSTER > 1) cluster_sync();"
_END_OF_SHARING = "WAITS_LATE && SHARERS > 1 && i < STAGES"
WIDE = (64, 128, 128)
MANY = (64, 8576, 64)  # more tiles than blocks: the boxes of outputs are used again
PAIR = (128, 128, 320)

# The loop that producers and consumers share, in each rung that has it.
_LOOP = (
    ("no wait for a full stage", "before that: ", (_gone(LOOP, _FULL_WAIT),)),
    ("the wrong parity of full", "", (Edit(LOOP, "ring.stage, ring.parity)", "ring.stage, ring.parity ^ 1)"),)),
    ("a stage is released before the wait", RACE, (_RELEASE_EARLY,)),
    ("a stage is released while wgmma reads it", RACE, _RELEASE_AT_ONCE),
    ("no last wait", "wgmma.wait_group must come between", (_gone(LOOP, "    wgmma_wait<0>();\n"),)),
    ("a stage is released behind wgmmas that are not awaited", RACE,
     (Edit(LOOP, "            wgmma_wait<1>();\n", "            wgmma_wait<2>();\n"),)),
    ("no wgmma.fence", "wgmma.fence must come between", (_gone(LOOP, "    wgmma_fence();\n"),)),
    ("stages are not released", PHASE, (_gone(LOOP, "            if (held) release(previous);\n"),)),
)  # fmt: skip
_LOOPED = {
    "wgmma_specialized": (64, 64, 320), "wgmma_persistent": (64, 64, 320), "wgmma_cluster": PAIR,
    "wgmma_stream_k": PAIR, "wgmma_split_k": (64, 64, 640),
}  # fmt: skip
LOOPS = tuple(mistake(f"{rung}: {name}", rung, words, *edits, shape=shape, also=(UNWAITED,) if "full" in name else ())
              for rung, shape in _LOOPED.items() for name, words, edits in _LOOP
              # A share of stream-K is one k-tile at this size: no stage is used again.
              if rung != "wgmma_stream_k" or "release" not in name)  # fmt: skip

# 256 columns: the stage before is released behind the first wgmma of a stage.
LONG_STAGES = tuple(
    mistake(f"256 columns: {name}", "wgmma_specialized", words, *edits, shape=(64, 256, 320), config=(("BN", 256),))
    for name, words, edits in _LOOP if "release" in name)  # fmt: skip

PLAIN = (
    mistake("no wait for a k-tile", "wgmma_tma", UNWAITED, _gone(TMA, _FULL_WAIT)),
    mistake("the wrong parity of a k-tile", "wgmma_tma", "",
            Edit(TMA, "full + 8 * ring.stage, ring.parity)", "full + 8 * ring.stage, ring.parity ^ 1)")),
    mistake("no wait for the product", "wgmma_tma", "wgmma.wait_group must come between",
            _gone(TMA, "        wgmma_wait<0>();\n")),
    mistake("no barrier before the refill", "wgmma_tma", RACE,
            _gone(TMA, "        __syncthreads();  // all warpgroups have read the stage: it may be refilled\n"),
            shape=(128, 64, 320), config=(("BM", 128),), also=(OVERTAKEN,)),
    mistake("the bytes of A alone are expected", "wgmma_tma", PHASE,
            Edit(TMA, "(barrier, STAGE_BYTES)", "(barrier, TileA::BYTES)"), also=(TOO_FEW_BYTES,)),
    mistake("two arrivals fill a stage", "wgmma_tma", PHASE, Edit(TMA, "(full + 8 * i, 1)", "(full + 8 * i, 2)")),
    mistake("no fence of the initialisation", "wgmma_tma", "fence.mbarrier_init",
            _gone(TMA, "        mbarrier_init_fence();\n")),
    mistake("no barrier after the initialisation of rung 16", "wgmma_tma", "",
            Edit(TMA, "    __syncthreads();\n    pdl", "    pdl")),
    mistake("loads before griddepcontrol.wait", "wgmma_tma", "griddepcontrol.wait must come first",
            _gone(TMA, "    pdl_launch_and_wait();\n"),
            Edit(TMA, "    const auto c = window(", "    pdl_launch_and_wait();\n    const auto c = window(")),
    mistake("the stage of B begins too late", "wgmma_tma", "",
            Edit(TMA, "load(stage + TileA::BYTES,", "load(stage + TileA::BYTES + 1024,")),
    mistake("accumulators are never cleared", "wgmma_tma", "outputs", Edit(TMA, "warpgroup, step > 0)",
                                                                          "warpgroup, true)")),
    mistake("B of the wrong k-tile", "wgmma_tma", "outputs wrong",
            Edit(TMA, "tile.col, k, strideB ? z : 0)", "tile.col, k + BK, strideB ? z : 0)")),
    mistake("a stage too far", "wgmma_tma", "", Edit(TMA, "stages + ring.stage * STAGE_BYTES, warpgroup",
                                                    "stages + (ring.stage + 1) * STAGE_BYTES, warpgroup")),
    mistake("no wait for an empty stage", "wgmma_specialized", PHASE,
            _gone(SPECIALIZED, "                mbarrier_wait(empty + 8 * ring.stage, ring.parity ^ 1);\n"),
            also=(EARLY_ARRIVAL,)),
    mistake("the wrong parity of empty", "wgmma_specialized", PHASE, Edit(SPECIALIZED, "ring.parity ^ 1);",
                                                                        "ring.parity);")),
    mistake("too few bytes expected", "wgmma_specialized", "lacks 0 arrivals and -128 bytes",
            Edit(SPECIALIZED, "(barrier, STAGE_BYTES)", "(barrier, STAGE_BYTES - 128)")),
    mistake("too many bytes expected", "wgmma_specialized", "lacks 0 arrivals and 128 bytes",
            Edit(SPECIALIZED, "(barrier, STAGE_BYTES)", "(barrier, STAGE_BYTES + 128)")),
    mistake("no fence after the barriers' initialisation", "wgmma_specialized", "fence.mbarrier_init",
            _gone(SPECIALIZED, "        mbarrier_init_fence();\n")),
    mistake("no barrier after the initialisation", "wgmma_specialized", "",
            Edit(SPECIALIZED, "    __syncthreads();\n    pdl", "    pdl")),
    mistake("one arrival too many expected", "wgmma_specialized", PHASE, Edit(SPECIALIZED, "i, CONSUMERS)",
                                                                            "i, CONSUMERS + 1)")),
    mistake("B overwrites the end of A", "wgmma_specialized", "",
            Edit(SPECIALIZED, "load(stage + TileA::BYTES,", "load(stage + TileA::BYTES - 1024,")),
    mistake("the descriptor has another swizzle", "wgmma_specialized", "reads bytes that belong to element",
            Edit("wgmma.cuh", "SWIZZLE_128 = 1ull", "SWIZZLE_128 = 2ull")),
    mistake("the descriptor has no swizzle", "wgmma_specialized", "shared read by wgmma",
            Edit("wgmma.cuh", "SWIZZLE_128 = 1ull << 62", "SWIZZLE_128 = 0ull << 62")),
    mistake("the descriptor has another stride", "wgmma_specialized", "reads bytes that belong to element",
            Edit("wgmma.cuh", "EIGHT_ROWS = 1024", "EIGHT_ROWS = 512")),
    mistake("the k-step of the descriptor is half", "wgmma_specialized", "outputs wrong",
            Edit("wgmma.cuh", "K_MAJOR ? 32 / 16", "K_MAJOR ? 16 / 16"), layout="NT"),
    mistake("the next box of B is nearer", "wgmma_specialized", "reads bytes that belong to element",
            Edit("wgmma.cuh", "K_MAJOR ? 1 : 8192 / 16", "K_MAJOR ? 1 : 4096 / 16"), shape=WIDE, config=(("BN", 128),)),
    mistake("too many registers for consumers", "wgmma_specialized", "setmaxnreg.inc to 224 never completes",
            Edit(LOOP, "Accumulators > 128 ? 40 : 56;", "Accumulators > 128 ? 40 : 64;"), shape=(128, 64, 128),
            config=TWO),
    mistake("the producer keeps its registers", "wgmma_specialized", "setmaxnreg.inc to 224 never completes",
            Edit(SPECIALIZED, "        producer_dealloc_registers<CONSUMERS, M_TILES * BN / 2>();\n", ""),
            shape=(128, 64, 128), config=TWO),
    mistake("the producer loads before griddepcontrol.wait", "wgmma_specialized",
            "griddepcontrol.wait must come first", _gone(SPECIALIZED, "    pdl_launch_and_wait();\n"),
            Edit(SPECIALIZED, "        const int first =",
                 "        pdl_launch_and_wait();\n        const int first =")),
)  # fmt: skip

_STORE_WAIT = (
    "                if (leader && number == 0) tma_store_wait_read<0>();  // those of the tile before\n"
    "                if (leader && number > 0) tma_store_wait_read<BUFFERS / TOGETHER - 1>();\n"
)
STORES = (
    mistake("no proxy fence before a store by TMA", "wgmma_persistent", "fence.proxy.async",
            _gone(STORE, "                fence_proxy_async();\n"), shape=WIDE),
    mistake("no barrier before a store by TMA", "wgmma_persistent", "",
            Edit(STORE, _BARRIER_BEFORE_STORE, "                if (leader) {"), shape=WIDE),
    mistake("boxes are reused before they were read", "wgmma_persistent", "cp.async.bulk.wait_group.read",
            _gone(STORE, _STORE_WAIT), shape=MANY),
    mistake("nobody waits for the leader", "wgmma_persistent", "",
            Edit(STORE, "                named_barrier_sync(barrier, WARPGROUP_THREADS);\n            }\n"
                        "            stage",
                 "            }\n            stage"), shape=MANY),
    mistake("stores are not committed", "wgmma_persistent", "cp.async.bulk.wait_group.read",
            _gone(STORE, "                    tma_store_commit();\n"), shape=WIDE),
    mistake("the block ends while TMA reads", "wgmma_persistent", "cp.async.bulk.wait_group.read",
            Edit(PERSISTENT, "        if (STORE_MODE == STORE_BY_TMA && threadIdx.x % WARPGROUP_THREADS == 0)"
                             " tma_store_wait_read<0>();\n", ""), shape=WIDE),
    mistake("no wait for an empty stage of rung 18", "wgmma_persistent", PHASE,
            _gone(PERSISTENT, "                    mbarrier_wait(empty + 8 * ring.stage, ring.parity ^ 1);\n"),
            also=(EARLY_ARRIVAL,)),
    mistake("too many bytes expected of rung 18", "wgmma_persistent", PHASE,
            Edit(PERSISTENT, "(barrier, STAGE_BYTES)", "(barrier, STAGE_BYTES + 16)")),
    mistake("a store at the wrong row", "wgmma_persistent", "",
            Edit(STORE, "top + row + i * 64, z)", "top + row + i * 64 + 1, z)"), shape=WIDE),
)  # fmt: skip

FOUR = (("CLUSTER_M", 2), ("CLUSTER_N", 2))
CLUSTERS = (
    mistake("a multicast misses a block", "wgmma_cluster", HANG, Edit("tma.cuh", '"h"(mask)', '"h"((unsigned short)1)'),
            shape=PAIR),
    mistake("the mask of B misses a block", "wgmma_cluster", HANG,
            Edit(RING, "mask |= 1 << (first + col * Rows + i);", "mask |= 1 << (first + col * Rows);"), shape=PAIR),
    mistake("blocks do not wait for each other at the end", "wgmma_cluster", "before the block ends",
            Edit(CLUSTER, _END_OF_SHARING, "false && i < STAGES"), shape=PAIR),
    mistake("a cluster loads before the launch before has ended", "wgmma_cluster",
            "griddepcontrol.wait must come first",
            _gone(CLUSTER, "            if (WAITS_LATE) pdl_wait_behind(row, col);\n"), shape=PAIR),
    mistake("blocks do not wait for each other's barriers", "wgmma_cluster", "then barrier.cluster by both blocks",
            Edit(RING, "        cluster_arrive_relaxed();\n        cluster_wait();\n", "        __syncthreads();\n"),
            shape=PAIR),
    mistake("a stage is released for its own block alone", "wgmma_cluster", HANG,
            Edit(RING, "thread < Rows * Cols && (thread % Rows == row || thread / Rows == col)",
                 "thread == static_cast<int>(cluster_rank())"), shape=PAIR),
    mistake("a stage is not released for the other column", "wgmma_cluster", HANG,
            Edit(RING, "(thread % Rows == row || thread / Rows == col)", "thread / Rows == col"), shape=PAIR,
            config=FOUR),
    mistake("the other block's arrivals are not counted", "wgmma_cluster", "",
            Edit(RING, "Blocks * Consumers", "Consumers"), shape=PAIR),
    mistake("no wait for an empty stage of a cluster", "wgmma_cluster", "",
            _gone(RING, "        mbarrier_wait(empty, parity);\n"), shape=PAIR),
    mistake("only the block's own share is expected", "wgmma_cluster", HANG,
            Edit(RING, "Depth * (TileA::LOADED_BYTES + TileB::LOADED_BYTES);", "Depth * TileA::LOADED_BYTES;"),
            shape=PAIR),
    mistake("no fence of a cluster's barriers", "wgmma_cluster", "fence.mbarrier_init",
            _gone(RING, "        mbarrier_init_fence();\n"), shape=PAIR),
    mistake("all arrivals go to the first block", "wgmma_cluster", "",
            Edit(RING, "mbarrier_arrive_remote(empty, first + thread)", "mbarrier_arrive_remote(empty, first)"),
            shape=PAIR),
    mistake("a relaxed arrival at the cluster's barrier", "wgmma_stream_k", "",
            Edit("cluster.cuh", "barrier.cluster.arrive.release", "barrier.cluster.arrive.relaxed"), shape=PAIR),
    mistake("blocks of stream-K do not wait at the end", "wgmma_stream_k", "before the block ends",
            Edit(STREAM_K, _END_OF_CLUSTER, "    if (false) cluster_sync();"), shape=PAIR),
    mistake("flags are set before all have written", "wgmma_stream_k", RACE,
            Edit(STREAM_K, "                named_barrier_sync(warpgroup, WARPGROUP_THREADS);\n"
                           "                if (thread == 0) set_flag", "                if (thread == 0) set_flag"),
            shape=(64, 128, 320)),
    mistake("partial sums are not waited for", "wgmma_stream_k", "",
            _gone(STREAM_K, "                if (thread == 0) wait_and_reset_flag(flag_of(workspace, sender, warpgroup "
                            "- 1));\n"), shape=(64, 128, 320)),
    mistake("only the leader waits for partial sums", "wgmma_stream_k", RACE,
            Edit(STREAM_K, "                named_barrier_sync(warpgroup, WARPGROUP_THREADS);\n"
                           "                const Vec<float, 4>* const source",
                 "                const Vec<float, 4>* const source"), shape=(64, 128, 320)),
    mistake("no wait for the other blocks' sums", "wgmma_split_k", "",
            _gone(SPLIT_K, "    mbarrier_wait(complete, 0);\n"), shape=(64, 32, 256)),
    mistake("too few bytes of sums are expected", "wgmma_split_k", "",
            Edit(SPLIT_K, "(complete, 4 * BM * BN);", "(complete, 4 * BM * BN - 8);"), shape=(64, 32, 256)),
    mistake("sums are sent before the barrier is there", "wgmma_split_k", "then barrier.cluster by both blocks",
            Edit(SPLIT_K, "        cluster_wait();\n        const int lane", "        const int lane"),
            shape=(64, 32, 256)),
    mistake("two arrivals complete the sums", "wgmma_split_k", PHASE,
            Edit(SPLIT_K, "SPLIT > 1 ? 1 :", "SPLIT > 1 ? 2 :"), shape=(64, 32, 256)),
    mistake("sums go to the wrong block", "wgmma_split_k", "",
            Edit(SPLIT_K, "complete, r / SHARE, acc", "complete, 0, acc"), shape=(64, 32, 256)),
)  # fmt: skip

_TERMS_WAIT = "                wgmma_wait<0>();\n"
_TERMS_RELEASE = "                for (int term = 0; term < TERMS; ++term) release(stage_of_term[term]);\n"
FP32 = tuple(
    mistake(f"{rung}: {name}", rung, words, *edits, shape=(64, 128, 320))
    for rung in ("fp32_wgmma_bf16x6", "fp32_wgmma_fp16x3")
    for name, words, edits in (
        ("products are used before the wait", "wgmma.wait_group must come between", (_gone(SPLIT, _TERMS_WAIT),)),
        ("terms are released before the wait", "",
         (Edit(SPLIT, _TERMS_WAIT + _TERMS_RELEASE, _TERMS_RELEASE + _TERMS_WAIT),)),
        ("no wgmma.fence before the terms", "wgmma.fence must come between",
         (_gone(SPLIT, "    wgmma_fence();\n"),)),
        ("no wait for a term", "",
         (_gone(SPLIT, "                mbarrier_wait(full + 8 * ring.stage, ring.parity);\n"),)),
        ("the last term is not released", PHASE,
         (Edit(SPLIT, "term < TERMS; ++term) release", "term < TERMS - 1; ++term) release"),)),
        ("the verdict is read before griddepcontrol.wait", "griddepcontrol.wait must come first",
         (_gone(SPLIT, "    pdl_launch_and_wait();\n"),
          Edit(SPLIT, "    const ClusterLoader<CLUSTER_M, CLUSTER_N> loader;\n    const unsigned tiles_m",
               "    pdl_launch_and_wait();\n    const ClusterLoader<CLUSTER_M, CLUSTER_N> loader;\n"
               "    const unsigned tiles_m"))),
    )
    if rung == "fp32_wgmma_bf16x6" or not name.startswith(("no ", "products"))
    if rung == "fp32_wgmma_fp16x3" or not name.startswith("the verdict")
)  # fmt: skip

_REGISTERS, _REGISTERS_LOOP = "27_fp32_wgmma_registers.cu", "registers_mainloop.cuh"
_IN_REGISTERS = "fp32_wgmma_registers"
_RELEASE_STAGE = "        if (part == PARTS - 1) release(finished);\n"
_PRODUCTS_WAIT = "        wgmma_wait<0>();\n" + _RELEASE_STAGE
REGISTERS = (
    mistake("products are added before the wait", _IN_REGISTERS, "wgmma.wait_group must come between",
            Edit(_REGISTERS_LOOP, _PRODUCTS_WAIT, _RELEASE_STAGE)),
    mistake("a stage is released before its products end", _IN_REGISTERS, RACE,
            Edit(_REGISTERS_LOOP, _PRODUCTS_WAIT, _RELEASE_STAGE + "        wgmma_wait<0>();\n")),
    mistake("the next terms overwrite those in use", _IN_REGISTERS, "",
            Edit(_REGISTERS_LOOP, "read(Constant<1 - CURRENT>(), stages", "read(Constant<CURRENT>(), stages")),
    mistake("fragments are read before they arrive", _IN_REGISTERS, "", _gone(_REGISTERS_LOOP, _FULL_WAIT)),
    mistake("no wgmma.fence before terms in registers", _IN_REGISTERS, "wgmma.fence must come between",
            _gone(_REGISTERS_LOOP, "        wgmma_fence();\n")),
    mistake("sums are read before all have come", _IN_REGISTERS, "",
            _gone(_REGISTERS, "            mbarrier_wait(complete, parity);\n")),
    mistake("the tall operand is loaded before griddepcontrol.wait", _IN_REGISTERS,
            "griddepcontrol.wait must come first",
            Edit(_REGISTERS, "        pdl_wait();\n        for_each_tile", "        for_each_tile")),
    mistake("rows of a fragment go to other outputs", _IN_REGISTERS, "outputs wrong",
            Edit("fp32_tile.cuh", "first_row + row_of(f, i)", "first_row + f + i * 8")),
    mistake("the short operand keeps its order of k", _IN_REGISTERS, "outputs wrong",
            Edit("fp32_tile.cuh", "x[half][0] = four.x, x[half][1] = four.y",
                 "x[half][1] = four.x, x[half][0] = four.y")),
)  # fmt: skip

# Slices of K that are added through global memory, and outputs of the transposed product.
SLICES, TRANSPOSED = "slices.cuh", "transposed_store.cuh"
SLICED = (("SLICES", 3), ("CLUSTER_M", 1))
SWAPPED = (("SWAP", 1), ("BN", 24), ("CLUSTER_M", 1))
_WAIT_FOR_SLICES = "if (load_acquire(word) % ARRIVED == slices) return own;"
_IMPATIENT = Edit(SLICES, "MOST_POLLS = 2048", "MOST_POLLS = 0")  # who is not the last leaves
# All but the last leave as they arrive, under every schedule.
_LEAVE_AT_ONCE = (
    Edit(SLICES, "add_acquire_release(word, 1);", "add_acquire_release(word, 1 + (LEFT << slice));"),
    Edit(SLICES, "return add_acquire_release(word, LEFT << slice) % ARRIVED == slices ? own : 0;", "return 0;"),
)
_BARRIER_OF_SLICES = "    named_barrier_sync(barrier, WARPGROUP_THREADS);\n"
_BOX_WAIT = (
    "                        if (leader && store == 0) tma_store_wait_read<IN_FLIGHT>();  // those of the tile before\n"
)
SEVERAL_BUFFERS = (("SWAP", 1), ("BN", 32), ("CLUSTER_M", 1))  # two, which the stores of all tiles take in turns
CLUSTER_SUMS, PARTED = "cluster_sums.cuh", (("CLUSTER_K", 2), ("CLUSTER_M", 1), ("BN", 32))
SENT = (*PARTED, ("SEND", 1))
SWAPPED_AND_SLICED = (
    mistake("stages are overwritten while another warpgroup reads them", "wgmma_cluster", RACE,
            _gone(CLUSTER_SUMS, "    named_barrier_sync(Consumers + 1, Consumers * WARPGROUP_THREADS);"),
            shape=(128, 64, 320), config=(("CLUSTER_K", 2), ("CLUSTER_M", 1), *TWO)),
    mistake("partial sums are read before all blocks have written", "wgmma_cluster", "",
            Edit(CLUSTER_SUMS, "    cluster_sync();\n    constexpr", "    constexpr"),
            Edit(CLUSTER, "                if (!SEND) cluster_sync();  // partial sums are in the stages\n", ""),
            config=PARTED),
    mistake("a block ends while another reads its partial sums", "wgmma_cluster", "before the block ends",
            Edit(CLUSTER_SUMS, "    }\n    cluster_sync();\n}", "    }\n}"),
            Edit(CLUSTER, "                cluster_sync();             // all of them have been read\n", ""),
            config=PARTED),
    mistake("a part of K is added twice", "wgmma_cluster", "outputs",
            Edit(CLUSTER_SUMS, "for (int p = 1; p < Parts; ++p)", "for (int p = 0; p < Parts; ++p)"), config=PARTED),
    mistake("sums that are sent are not waited for", "wgmma_cluster", "",
            _gone(CLUSTER_SUMS, "        mbarrier_wait(barrier + 8 * warpgroup, parity);\n"), config=SENT),
    mistake("bytes of sent sums are not expected", "wgmma_cluster", "",
            Edit(CLUSTER_SUMS, "(Parts - 1) * count * WARPGROUP_THREADS * 16);", "0);"), config=SENT),
    mistake("sums are sent to the block itself", "wgmma_cluster", "",
            Edit(CLUSTER_SUMS, "first + share_of(i) * stride, four(i)", "first + part * stride, four(i)"), config=SENT),
    mistake("the other slices are not waited for", "wgmma_cluster", "",
            Edit(SLICES, _WAIT_FOR_SLICES, "return own;"), config=SLICED),
    mistake("the last does not add for those who left", "wgmma_cluster", "",
            _IMPATIENT, *_LEAVE_AT_ONCE, Edit(SLICES, "return before / LEFT | own;", "return own;"), config=SLICED),
    mistake("one leaves when the last has arrived", "wgmma_cluster", "",
            _IMPATIENT, Edit(SLICES, "% ARRIVED == slices ? own : 0;", "% ARRIVED == slices ? 0 : 0;"), config=SLICED),
    mistake("one that leaves adds its part as well", "wgmma_cluster", RACE,
            _IMPATIENT, Edit(SLICES, "% ARRIVED == slices ? own : 0;", "% ARRIVED == slices ? own : own;"),
            config=SLICED),
    mistake("a slice is counted before all have written", "wgmma_cluster", RACE,
            Edit(SLICES, f"{_BARRIER_OF_SLICES}    // This thread", "    // This thread"), config=SLICED),
    mistake("only the leader waits for the slices", "wgmma_cluster", "",
            Edit(SLICES, f"{_BARRIER_OF_SLICES}    for (unsigned parts", "    for (unsigned parts"), config=SLICED),
    mistake("a slice is added twice", "wgmma_cluster", "",
            Edit(SLICES, "for (int s = 1; s < Slices; ++s)", "for (int s = 0; s < Slices; ++s)"), config=SLICED),
    mistake("no fence before a transposed store", "wgmma_cluster", "fence.proxy.async",
            _gone(TRANSPOSED, "                        fence_proxy_async();\n"), config=SWAPPED),
    mistake("a transposed box is stored before all have written", "wgmma_cluster", RACE,
            Edit(TRANSPOSED, "                        named_barrier_sync(barrier, WARPGROUP_THREADS);\n"
                             "                        if (leader) {", "                        if (leader) {"),
            config=SWAPPED),
    mistake("outputs are not transposed", "wgmma_cluster", "", Edit("ldmatrix.cuh", "x2.trans.shared", "x2.shared"),
            config=SWAPPED),
    mistake("a transposed box is written while TMA reads it", "wgmma_cluster", "", _gone(TRANSPOSED, _BOX_WAIT),
            Edit(TRANSPOSED, "tma_store_wait_read<BUFFERS - 1>()", "tma_store_wait_read<8>()"),
            shape=(24 * 140, 64, 64), config=SWAPPED),
    mistake("the next tile's first transposed box is written while TMA reads it", "wgmma_cluster", "",
            Edit(TRANSPOSED, "% Boxes > 0 ? 0 : BUFFERS - 1;", "% Boxes > 0 ? 0 : BUFFERS;"),
            shape=(32 * 140, 64, 64), config=SEVERAL_BUFFERS),
    mistake("the last box across k is as wide as the others", "wgmma_cluster", "",
            Edit("operand_tile.cuh", "REST && i == BOXES - 1 ? *rest : map", "map"), config=SEVERAL_BUFFERS,
            layout="TN"),
)  # fmt: skip

# Rung 27: partial sums of the blocks of a cluster, several tiles one after another, rows that no tensor map can take.
_SMALL_TILES = (64, 16 * 70, 64)  # more tiles than clusters: barriers and partial sums are used again
_ODD_ROWS = (64, 64, 331)  # threads copy the tall operand
_CLUSTER_END = "            __syncwarp();\n            cluster_sync();\n        }\n    });\n}"
_PRODUCER_END = (
    "                cluster_sync();  // everyone has stored this tile: its partial sums may be overwritten\n"
)
HANDED_OVER = (
    mistake("the parity of the sums never changes", _IN_REGISTERS, "",
            _gone(_REGISTERS, "            parity ^= 1;\n"), shape=_SMALL_TILES),
    mistake("the next tile's sums are not expected", _IN_REGISTERS, PHASE,
            _gone(_REGISTERS, "            if (threadIdx.x == WARPGROUP_THREADS) expect_partials();\n"),
            shape=_SMALL_TILES),
    mistake("sums are overwritten by those of the next tile", _IN_REGISTERS, "",
            _gone(_REGISTERS, _PRODUCER_END), Edit(_REGISTERS, _CLUSTER_END, "        }\n    });\n}"),
            shape=_SMALL_TILES),
    mistake("both blocks send their sums to the same place", _IN_REGISTERS, "",
            Edit(_REGISTERS, "4 * (rank * SHARE + r % SHARE)", "4 * (r % SHARE)")),
    mistake("both blocks multiply the same part of K", _IN_REGISTERS, "outputs wrong",
            Edit(_REGISTERS, "k_tile_range(K, alpha, 1, rank, SPLIT)", "k_tile_range(K, alpha, 1, 0, SPLIT)")),
    mistake("no fence of rung 27's barriers", _IN_REGISTERS, "fence.mbarrier_init",
            _gone(_REGISTERS, "        mbarrier_init_fence();\n")),
    mistake("sums may come before the barrier is there", _IN_REGISTERS, "then barrier.cluster by both blocks",
            Edit(_REGISTERS, "        cluster_sync();  // every block can receive", "        __syncthreads();")),
    mistake("copies of threads do not arrive at the stage", _IN_REGISTERS, PHASE,
            _gone(_REGISTERS, "                        cp_async_mbarrier_arrive(barrier);\n"), shape=_ODD_ROWS),
    mistake("a stage is full before the threads' copies", _IN_REGISTERS, "",
            Edit(_REGISTERS, "ALIGNED ? 1 : 1 + WARPGROUP_THREADS", "ALIGNED ? 1 : WARPGROUP_THREADS"),
            shape=_ODD_ROWS),
    mistake("the last term of the short operand is not loaded", _IN_REGISTERS, PHASE,
            Edit(_REGISTERS, "term < TERMS; ++term)\n                            Short", "term < TERMS - 1; ++term)\n"
                 "                            Short")),
)  # fmt: skip

# Clusters of four, and more of slices and transposed outputs.
FOUR_AND_SLICED = (
    mistake("the mask of A misses a block of four", "wgmma_cluster", HANG,
            Edit(RING, "mask |= 1 << (first + i * Rows + row);", "mask |= 1 << (first + row);"), shape=PAIR,
            config=FOUR),
    mistake("A goes to the other row of a cluster", "wgmma_cluster", "",
            Edit(RING, "mask |= 1 << (first + i * Rows + row);", "mask |= 1 << (first + i * Rows + 1 - row);"),
            shape=PAIR, config=FOUR),
    mistake("blocks load the wrong share of A", "wgmma_cluster", "",
            Edit(RING, "z_a, col, multicast_mask_a()", "z_a, row, multicast_mask_a()"), shape=PAIR, config=FOUR),
    mistake("two blocks of four free a stage", "wgmma_cluster", HANG,
            Edit(RING, "Blocks * Consumers", "2 * Consumers"), shape=PAIR, config=FOUR),
    mistake("no fence before a slice is counted", "wgmma_cluster", RACE,
            Edit("add_acquire_release.cuh", "atom.add.acq_rel", "atom.add.acquire"), config=SLICED),
    mistake("a slice is counted twice", "wgmma_cluster", RACE,
            Edit(SLICES, "add_acquire_release(word, 1)", "add_acquire_release(word, 2)"), config=SLICED),
    mistake("the last slice is not waited for", "wgmma_cluster", RACE,
            Edit(SLICES, _WAIT_FOR_SLICES, "if (load_acquire(word) % ARRIVED >= slices - 1) return own;"),
            config=SLICED),
    mistake("both consumers count slices together", "wgmma_cluster", "",
            Edit(CLUSTER, "* CONSUMERS + warpgroup - 1;", "* CONSUMERS;"), shape=(128, 64, 320),
            config=(*SLICED, *TWO)),
    mistake("a transposed box goes to other rows", "wgmma_cluster", "",
            Edit(TRANSPOSED, "top + (j + 1 - TOGETHER) * 8, z)", "top + (j - TOGETHER) * 8, z)"), config=SWAPPED),
    mistake("transposed outputs are not swizzled", "wgmma_cluster", "outputs wrong",
            Edit(TRANSPOSED, "(chunk ^ row) * 16, pairs[0]", "chunk * 16, pairs[0]"), config=SWAPPED),
)  # fmt: skip

# Mistakes in what both rungs share, in each of them: the number of terms and of stages differs.
_BOTH = (
    ("a product waits for the wrong parity", "",
     (Edit(SPLIT, "ring.stage, ring.parity);\n                stage_of_term",
           "ring.stage, ring.parity ^ 1);\n                stage_of_term"),)),
    ("stages of terms stay full", PHASE, (_gone(SPLIT, _TERMS_RELEASE),)),
    ("the first term is released twice", PHASE,
     (Edit(SPLIT, "release(stage_of_term[term]);", "release(stage_of_term[0]);"),)),
    ("the producer leaves out the last term", PHASE,
     (Edit(SPLIT, "term = 0; term < TERMS; ++term) {", "term = 0; term < TERMS - 1; ++term) {"),)),
    ("one group of products may be pending", "wgmma.wait_group must come between",
     (Edit(SPLIT, _TERMS_WAIT, "                wgmma_wait<1>();\n"),)),
    ("products are not committed", "wgmma.wait_group must come between", (_gone(SPLIT, "    wgmma_commit();\n"),)),
    ("B's terms begin where A's do", "",
     (Edit(SPLIT, "terms.b] * STAGE_BYTES + TileA::BYTES;", "terms.b] * STAGE_BYTES;"),)),
    ("terms of the next k-tile", "outputs", (Edit(SPLIT, "k * BK, (strideA", "(k + 1) * BK, (strideA"),)),
    ("only the last k-tile counts", "outputs", (Edit(SPLIT, "acc[i][j] = sum;", "acc[i][j] = product[i][j];"),)),
)  # fmt: skip
_TWO_CONSUMERS = (
    ("both consumers multiply the same rows", "", (Edit(SPLIT, "(warpgroup - 1) * M_TILES;", "0 * M_TILES;"),)),
    ("the second consumer releases nothing", PHASE,
     (Edit(SPLIT, "const auto release = [&](int stage) { release_stage",
           "const auto release = [&](int stage) { if (warpgroup == 1) release_stage"),)),
    ("one consumer's registers are not enough", "setmaxnreg",
     (_gone(SPLIT, "        producer_dealloc_registers<CONSUMERS, BUDGETED_ACCUMULATORS>();\n"),)),
)  # fmt: skip
_PAIR_OF_BLOCKS = (
    ("a block ends while the other loads into it", "", (_gone(SPLIT, "    " + _END_OF_CLUSTER.strip()),)),
    ("stages are released in one's own block only", "", (Edit(SPLIT, "release_stage<CLUSTER>", "release_stage<1>"),)),
)  # fmt: skip
SPLIT_TERMS = tuple(
    mistake(f"{rung}: {name}", rung, words, *edits, shape=shape, config=config)
    for rung in ("fp32_wgmma_bf16x6", "fp32_wgmma_fp16x3")
    for found, shape, config in ((_BOTH, (64, 128, 320), ()), (_TWO_CONSUMERS, (128, 64, 320), TWO),
                                 (_PAIR_OF_BLOCKS, PAIR, (("CLUSTER_M", 2),)))
    for name, words, edits in found
)  # fmt: skip

MISTAKES = (*PLAIN, *LOOPS, *LONG_STAGES, *STORES, *CLUSTERS, *FP32, *SPLIT_TERMS, *SWAPPED_AND_SLICED, *REGISTERS,
            *HANDED_OVER, *FOUR_AND_SLICED)  # fmt: skip
