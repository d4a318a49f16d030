"""Mistakes in the rungs for Hopper: TMA, mbarriers, clusters, wgmma, stores, registers and dependent launches.

Each is an edit of one rung or header, compiled in the rung's small configuration, and the words that its report has
under ``lockstep``. Under other schedules the same mistake may be found another way, first: ``also`` has the words of
those reports, which name the same missing construct.
"""

from __future__ import annotations

from hopper_fp32_mistakes import FP32_MISTAKES
from hopper_mistake import (
    CLUSTER,
    EARLY_ARRIVAL,
    END_OF_CLUSTER,
    FULL_WAIT,
    HANG,
    LOOP,
    OVERTAKEN,
    PAIR,
    PERSISTENT,
    PHASE,
    RACE,
    RING,
    SPECIALIZED,
    SPLIT_K,
    STORE,
    STREAM_K,
    TMA,
    TOO_FEW_BYTES,
    TWO,
    UNWAITED,
    gone,
    mistake,
)
from mutant import Edit

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
_END_OF_SHARING = "WAITS_LATE && SHARERS > 1 && i < STAGES"
WIDE = (64, 128, 128)
MANY = (64, 8576, 64)  # more tiles than blocks: the boxes of outputs are used again

# The loop that producers and consumers share, in each rung that has it.
_LOOP = (
    ("no wait for a full stage", "before that: ", (gone(LOOP, FULL_WAIT),)),
    ("the wrong parity of full", "", (Edit(LOOP, "ring.stage, ring.parity)", "ring.stage, ring.parity ^ 1)"),)),
    ("a stage is released before the wait", RACE, (_RELEASE_EARLY,)),
    ("a stage is released while wgmma reads it", RACE, _RELEASE_AT_ONCE),
    ("no last wait", "wgmma.wait_group must come between", (gone(LOOP, "    wgmma_wait<0>();\n"),)),
    ("a stage is released behind wgmmas that are not awaited", RACE,
     (Edit(LOOP, "            wgmma_wait<1>();\n", "            wgmma_wait<2>();\n"),)),
    ("no wgmma.fence", "wgmma.fence must come between", (gone(LOOP, "    wgmma_fence();\n"),)),
    ("stages are not released", PHASE, (gone(LOOP, "            if (held) release(previous);\n"),)),
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
    mistake("no wait for a k-tile", "wgmma_tma", UNWAITED, gone(TMA, FULL_WAIT)),
    mistake("the wrong parity of a k-tile", "wgmma_tma", "",
            Edit(TMA, "full + 8 * ring.stage, ring.parity)", "full + 8 * ring.stage, ring.parity ^ 1)")),
    mistake("no wait for the product", "wgmma_tma", "wgmma.wait_group must come between",
            gone(TMA, "        wgmma_wait<0>();\n")),
    mistake("no barrier before the refill", "wgmma_tma", RACE,
            gone(TMA, "        __syncthreads();  // all warpgroups have read the stage: it may be refilled\n"),
            shape=(128, 64, 320), config=(("BM", 128),), also=(OVERTAKEN,)),
    mistake("the bytes of A alone are expected", "wgmma_tma", PHASE,
            Edit(TMA, "(barrier, STAGE_BYTES)", "(barrier, TileA::BYTES)"), also=(TOO_FEW_BYTES,)),
    mistake("two arrivals fill a stage", "wgmma_tma", PHASE, Edit(TMA, "(full + 8 * i, 1)", "(full + 8 * i, 2)")),
    mistake("no fence of the initialisation", "wgmma_tma", "fence.mbarrier_init",
            gone(TMA, "        mbarrier_init_fence();\n")),
    mistake("no barrier after the initialisation of rung 16", "wgmma_tma", "",
            Edit(TMA, "    __syncthreads();\n    pdl", "    pdl")),
    mistake("loads before griddepcontrol.wait", "wgmma_tma", "griddepcontrol.wait must come first",
            gone(TMA, "    pdl_launch_and_wait();\n"),
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
            gone(SPECIALIZED, "                mbarrier_wait(empty + 8 * ring.stage, ring.parity ^ 1);\n"),
            also=(EARLY_ARRIVAL,)),
    mistake("the wrong parity of empty", "wgmma_specialized", PHASE, Edit(SPECIALIZED, "ring.parity ^ 1);",
                                                                        "ring.parity);")),
    mistake("too few bytes expected", "wgmma_specialized", "lacks 0 arrivals and -128 bytes",
            Edit(SPECIALIZED, "(barrier, STAGE_BYTES)", "(barrier, STAGE_BYTES - 128)")),
    mistake("too many bytes expected", "wgmma_specialized", "lacks 0 arrivals and 128 bytes",
            Edit(SPECIALIZED, "(barrier, STAGE_BYTES)", "(barrier, STAGE_BYTES + 128)")),
    mistake("no fence after the barriers' initialisation", "wgmma_specialized", "fence.mbarrier_init",
            gone(SPECIALIZED, "        mbarrier_init_fence();\n")),
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
            "griddepcontrol.wait must come first", gone(SPECIALIZED, "    pdl_launch_and_wait();\n"),
            Edit(SPECIALIZED, "        const int first =",
                 "        pdl_launch_and_wait();\n        const int first =")),
)  # fmt: skip

_STORE_WAIT = (
    "                if (leader && number == 0) tma_store_wait_read<0>();  // those of the tile before\n"
    "                if (leader && number > 0) tma_store_wait_read<BUFFERS / TOGETHER - 1>();\n"
)
STORES = (
    mistake("no proxy fence before a store by TMA", "wgmma_persistent", "fence.proxy.async",
            gone(STORE, "                fence_proxy_async();\n"), shape=WIDE),
    mistake("no barrier before a store by TMA", "wgmma_persistent", "",
            Edit(STORE, _BARRIER_BEFORE_STORE, "                if (leader) {"), shape=WIDE),
    mistake("boxes are reused before they were read", "wgmma_persistent", "cp.async.bulk.wait_group.read",
            gone(STORE, _STORE_WAIT), shape=MANY),
    mistake("nobody waits for the leader", "wgmma_persistent", "",
            Edit(STORE, "                named_barrier_sync(barrier, WARPGROUP_THREADS);\n            }\n"
                        "            stage",
                 "            }\n            stage"), shape=MANY),
    mistake("stores are not committed", "wgmma_persistent", "cp.async.bulk.wait_group.read",
            gone(STORE, "                    tma_store_commit();\n"), shape=WIDE),
    mistake("the block ends while TMA reads", "wgmma_persistent", "cp.async.bulk.wait_group.read",
            Edit(PERSISTENT, "        if (STORE_MODE == STORE_BY_TMA && threadIdx.x % WARPGROUP_THREADS == 0)"
                             " tma_store_wait_read<0>();\n", ""), shape=WIDE),
    mistake("no wait for an empty stage of rung 18", "wgmma_persistent", PHASE,
            gone(PERSISTENT, "                    mbarrier_wait(empty + 8 * ring.stage, ring.parity ^ 1);\n"),
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
            gone(RING, "        mbarrier_wait(empty, parity);\n"), shape=PAIR),
    mistake("only the block's own share is expected", "wgmma_cluster", HANG,
            Edit(RING, "Depth * (TileA::LOADED_BYTES + TileB::LOADED_BYTES);", "Depth * TileA::LOADED_BYTES;"),
            shape=PAIR),
    mistake("no fence of a cluster's barriers", "wgmma_cluster", "fence.mbarrier_init",
            gone(RING, "        mbarrier_init_fence();\n"), shape=PAIR),
    mistake("all arrivals go to the first block", "wgmma_cluster", "",
            Edit(RING, "mbarrier_arrive_remote(empty, first + thread)", "mbarrier_arrive_remote(empty, first)"),
            shape=PAIR),
    mistake("a relaxed arrival at the cluster's barrier", "wgmma_stream_k", "",
            Edit("cluster.cuh", "barrier.cluster.arrive.release", "barrier.cluster.arrive.relaxed"), shape=PAIR),
    mistake("blocks of stream-K do not wait at the end", "wgmma_stream_k", "before the block ends",
            Edit(STREAM_K, END_OF_CLUSTER, "    if (false) cluster_sync();"), shape=PAIR),
    mistake("flags are set before all have written", "wgmma_stream_k", RACE,
            Edit(STREAM_K, "                named_barrier_sync(warpgroup, WARPGROUP_THREADS);\n"
                           "                if (thread == 0) set_flag", "                if (thread == 0) set_flag"),
            shape=(64, 128, 320)),
    mistake("partial sums are not waited for", "wgmma_stream_k", "",
            gone(STREAM_K, "                if (thread == 0) wait_and_reset_flag(flag_of(workspace, sender, warpgroup "
                            "- 1));\n"), shape=(64, 128, 320)),
    mistake("only the leader waits for partial sums", "wgmma_stream_k", RACE,
            Edit(STREAM_K, "                named_barrier_sync(warpgroup, WARPGROUP_THREADS);\n"
                           "                const Vec<float, 4>* const source",
                 "                const Vec<float, 4>* const source"), shape=(64, 128, 320)),
    mistake("no wait for the other blocks' sums", "wgmma_split_k", "",
            gone(SPLIT_K, "    mbarrier_wait(complete, 0);\n"), shape=(64, 32, 256)),
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

# Slices of K that are added through global memory, and outputs of the transposed product.
SLICES, TRANSPOSED = "slices.cuh", "transposed_store.cuh"
SLICED = (("SLICES", 3), ("CLUSTER_M", 1))
HELD = (("SLICES", 2), ("CLUSTER_M", 1))  # slices hold their own part of the sums
SWAPPED = (("SWAP", 1), ("BN", 24), ("CLUSTER_M", 1))
_WAIT_FOR_SLICES = "if (load_acquire(word) % ARRIVED == slices) return own;"
_IMPATIENT = Edit(SLICES, "MOST_POLLS = 2048", "MOST_POLLS = 0")  # who is not the last leaves
# All but the last leave as they arrive, under every schedule.
_LEAVE_AT_ONCE = (
    Edit(SLICES, "add_acquire_release(word, 1);", "add_acquire_release(word, 1 + (LEFT << slice));"),
    Edit(SLICES, "add_acquire_release(word, LEFT << slice) % ARRIVED == slices ? 1u << slice : 0;", "0;"),
)
_BARRIER_OF_SLICES = "        named_barrier_sync(barrier, WARPGROUP_THREADS);\n"
_BOX_WAIT = (
    "                        if (leader && store == 0) tma_store_wait_read<IN_FLIGHT>();  // those of the tile before\n"
)
SEVERAL_BUFFERS = (("SWAP", 1), ("BN", 32), ("CLUSTER_M", 1))  # two, which the stores of all tiles take in turns
CLUSTER_SUMS, PARTED = "cluster_sums.cuh", (("CLUSTER_K", 2), ("CLUSTER_M", 1), ("BN", 32))
SENT = (*PARTED, ("SEND", 1))
SWAPPED_AND_SLICED = (
    mistake("stages are overwritten while another warpgroup reads them", "wgmma_cluster", RACE,
            gone(CLUSTER_SUMS, "    named_barrier_sync(Consumers + 1, Consumers * WARPGROUP_THREADS);"),
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
            gone(CLUSTER_SUMS, "        mbarrier_wait(barrier + 8 * warpgroup, parity);\n"), config=SENT),
    mistake("bytes of sent sums are not expected", "wgmma_cluster", "",
            Edit(CLUSTER_SUMS, "(Parts - 1) * count * WARPGROUP_THREADS * 16);", "0);"), config=SENT),
    mistake("sums are sent to the block itself", "wgmma_cluster", "",
            Edit(CLUSTER_SUMS, "first + share_of(i) * stride, four(i)", "first + part * stride, four(i)"), config=SENT),
    mistake("the other slices are not waited for", "wgmma_cluster", "",
            Edit(SLICES, _WAIT_FOR_SLICES, "return own;"), config=SLICED),
    mistake("the last does not add for those who left", "wgmma_cluster", "",
            _IMPATIENT, *_LEAVE_AT_ONCE, Edit(SLICES, "return before / LEFT | own;", "return own;"), config=SLICED),
    mistake("one leaves when the last has arrived", "wgmma_cluster", "",
            _IMPATIENT, Edit(SLICES, "% ARRIVED == slices ? 1u << slice : 0;", "% ARRIVED == slices ? 0 : 0;"),
            config=SLICED),
    mistake("one that leaves adds its part as well", "wgmma_cluster", RACE,
            _IMPATIENT, Edit(SLICES, "slice) % ARRIVED == slices ? 1u << slice : 0;", "slice), 1u << slice;"),
            config=SLICED),
    mistake("a slice is counted before all have written", "wgmma_cluster", RACE,
            Edit(SLICES, f"{_BARRIER_OF_SLICES}        if (thread == 0) store", "        if (thread == 0) store"),
            config=SLICED),
    mistake("only the leader waits for the slices", "wgmma_cluster", "",
            Edit(SLICES, f"{_BARRIER_OF_SLICES}        return load", "        return load"), config=SLICED),
    mistake("one that leaves does not write its own part", "wgmma_cluster", "",
            _IMPATIENT, *_LEAVE_AT_ONCE, gone(SLICES, " write(Of::begin_of(own) + i, mine[i])"), config=HELD),
    mistake("a slice adds its own part from where nobody wrote it", "wgmma_cluster", "",
            Edit(SLICES, "part == own ? own : -1, mine", "-1, mine"), config=HELD),
    mistake("a slice is added twice", "wgmma_cluster", "",
            Edit(SLICES, "for (int s = 1; s < Slices; ++s)", "for (int s = 0; s < Slices; ++s)"), config=SLICED),
    mistake("no fence before a transposed store", "wgmma_cluster", "fence.proxy.async",
            gone(TRANSPOSED, "                        fence_proxy_async();\n"), config=SWAPPED),
    mistake("a transposed box is stored before all have written", "wgmma_cluster", RACE,
            Edit(TRANSPOSED, "                        named_barrier_sync(barrier, WARPGROUP_THREADS);\n"
                             "                        if (leader) {", "                        if (leader) {"),
            config=SWAPPED),
    mistake("outputs are not transposed", "wgmma_cluster", "", Edit("ldmatrix.cuh", "x2.trans.shared", "x2.shared"),
            config=SWAPPED),
    mistake("a transposed box is written while TMA reads it", "wgmma_cluster", "", gone(TRANSPOSED, _BOX_WAIT),
            Edit(TRANSPOSED, "tma_store_wait_read<BUFFERS - 1>()", "tma_store_wait_read<8>()"),
            shape=(24 * 140, 64, 64), config=SWAPPED),
    mistake("the next tile's first transposed box is written while TMA reads it", "wgmma_cluster", "",
            Edit(TRANSPOSED, "% Boxes > 0 ? 0 : BUFFERS - 1;", "% Boxes > 0 ? 0 : BUFFERS;"),
            shape=(32 * 140, 64, 64), config=SEVERAL_BUFFERS),
    mistake("the last box across k is as wide as the others", "wgmma_cluster", "",
            Edit("operand_tile.cuh", "REST && i == BOXES - 1 ? *rest : map", "map"), config=SEVERAL_BUFFERS,
            layout="TN"),
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

# At the end: the other schedule that a mistake is tried with follows from its number.
LATE_WAITS = (
    mistake("a cluster loads before the launch before has ended", "wgmma_cluster",
            "griddepcontrol.wait must come first",
            gone(CLUSTER, "            if (WAITS_LATE) pdl_wait_behind(row, col);\n"), shape=PAIR),
)  # fmt: skip
TWO_PARTS, PARTS = (("BM", 128), ("BN", 128)), "two_parts.cuh"
IN_TWO_PARTS = (
    mistake("part 0 is stored before its products have ended", "wgmma_cluster", "",
            Edit(PARTS, "    wgmma_wait<1>();\n    store_first();", "    store_first();"), shape=PAIR,
            config=TWO_PARTS),
    mistake("a stage is released before its products have ended", "wgmma_cluster", RACE,
            gone(PARTS, "            wgmma_wait<1>();\n"), shape=PAIR, config=TWO_PARTS),
    mistake("part 1 of the last tile is not stored", "wgmma_cluster", "", gone(PARTS, "    store_later();\n"),
            shape=PAIR, config=TWO_PARTS),
    mistake("part 1 is stored to other rows", "wgmma_cluster", "", Edit(PARTS, "row_before = row,", "row_before = 0,"),
            shape=(256, 128, 64), config=TWO_PARTS),
)  # fmt: skip
MISTAKES = (*PLAIN, *LOOPS, *LONG_STAGES, *STORES, *CLUSTERS, *SWAPPED_AND_SLICED, *FOUR_AND_SLICED, *FP32_MISTAKES,
            *LATE_WAITS, *IN_TWO_PARTS)  # fmt: skip
