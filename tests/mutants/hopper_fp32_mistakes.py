"""Mistakes in the fp32 rungs for Hopper: terms of split operands, terms in registers, partial sums of a cluster."""

from __future__ import annotations

from hopper_mistake import END_OF_CLUSTER, FULL_WAIT, PAIR, PHASE, RACE, SPLIT, TWO, gone, mistake
from mutant import Edit

_TERMS_WAIT = "                wgmma_wait<0>();\n"
_TERMS_RELEASE = "                for (int term = 0; term < TERMS; ++term) release(stage_of_term[term]);\n"
FP32 = tuple(
    mistake(f"{rung}: {name}", rung, words, *edits, shape=(64, 128, 320))
    for rung in ("fp32_wgmma_bf16x6", "fp32_wgmma_fp16x3")
    for name, words, edits in (
        ("products are used before the wait", "wgmma.wait_group must come between", (gone(SPLIT, _TERMS_WAIT),)),
        ("terms are released before the wait", "",
         (Edit(SPLIT, _TERMS_WAIT + _TERMS_RELEASE, _TERMS_RELEASE + _TERMS_WAIT),)),
        ("no wgmma.fence before the terms", "wgmma.fence must come between",
         (gone(SPLIT, "    wgmma_fence();\n"),)),
        ("no wait for a term", "",
         (gone(SPLIT, "                mbarrier_wait(full + 8 * ring.stage, ring.parity);\n"),)),
        ("the last term is not released", PHASE,
         (Edit(SPLIT, "term < TERMS; ++term) release", "term < TERMS - 1; ++term) release"),)),
        ("the verdict is read before griddepcontrol.wait", "griddepcontrol.wait must come first",
         (gone(SPLIT, "    pdl_launch_and_wait();\n"),
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
    mistake("fragments are read before they arrive", _IN_REGISTERS, "", gone(_REGISTERS_LOOP, FULL_WAIT)),
    mistake("no wgmma.fence before terms in registers", _IN_REGISTERS, "wgmma.fence must come between",
            gone(_REGISTERS_LOOP, "        wgmma_fence();\n")),
    mistake("sums are read before all have come", _IN_REGISTERS, "",
            gone(_REGISTERS, "            mbarrier_wait(complete, parity);\n")),
    mistake("the tall operand is loaded before griddepcontrol.wait", _IN_REGISTERS,
            "griddepcontrol.wait must come first",
            Edit(_REGISTERS, "        pdl_wait();\n        for_each_tile", "        for_each_tile")),
    mistake("rows of a fragment go to other outputs", _IN_REGISTERS, "outputs wrong",
            Edit("fp32_tile.cuh", "first_row + row_of(f, i)", "first_row + f + i * 8")),
    mistake("the short operand keeps its order of k", _IN_REGISTERS, "outputs wrong",
            Edit("fp32_tile.cuh", "x[half][0] = four.x, x[half][1] = four.y",
                 "x[half][1] = four.x, x[half][0] = four.y")),
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
            gone(_REGISTERS, "            parity ^= 1;\n"), shape=_SMALL_TILES),
    mistake("the next tile's sums are not expected", _IN_REGISTERS, PHASE,
            gone(_REGISTERS, "            if (threadIdx.x == WARPGROUP_THREADS) expect_partials();\n"),
            shape=_SMALL_TILES),
    mistake("sums are overwritten by those of the next tile", _IN_REGISTERS, "",
            gone(_REGISTERS, _PRODUCER_END), Edit(_REGISTERS, _CLUSTER_END, "        }\n    });\n}"),
            shape=_SMALL_TILES),
    mistake("both blocks send their sums to the same place", _IN_REGISTERS, "",
            Edit(_REGISTERS, "4 * (rank * SHARE + r % SHARE)", "4 * (r % SHARE)")),
    mistake("both blocks multiply the same part of K", _IN_REGISTERS, "outputs wrong",
            Edit(_REGISTERS, "k_tile_range(K, alpha, 1, rank, SPLIT)", "k_tile_range(K, alpha, 1, 0, SPLIT)")),
    mistake("no fence of rung 27's barriers", _IN_REGISTERS, "fence.mbarrier_init",
            gone(_REGISTERS, "        mbarrier_init_fence();\n")),
    mistake("sums may come before the barrier is there", _IN_REGISTERS, "then barrier.cluster by both blocks",
            Edit(_REGISTERS, "        cluster_sync();  // every block can receive", "        __syncthreads();")),
    mistake("copies of threads do not arrive at the stage", _IN_REGISTERS, PHASE,
            gone(_REGISTERS, "                        cp_async_mbarrier_arrive(barrier);\n"), shape=_ODD_ROWS),
    mistake("a stage is full before the threads' copies", _IN_REGISTERS, "",
            Edit(_REGISTERS, "ALIGNED ? 1 : 1 + WARPGROUP_THREADS", "ALIGNED ? 1 : WARPGROUP_THREADS"),
            shape=_ODD_ROWS),
    mistake("the last term of the short operand is not loaded", _IN_REGISTERS, PHASE,
            Edit(_REGISTERS, "term < TERMS; ++term)\n                            Short", "term < TERMS - 1; ++term)\n"
                 "                            Short")),
)  # fmt: skip

# Mistakes in what both rungs share, in each of them: the number of terms and of stages differs.
_BOTH = (
    ("a product waits for the wrong parity", "",
     (Edit(SPLIT, "ring.stage, ring.parity);\n                stage_of_term",
           "ring.stage, ring.parity ^ 1);\n                stage_of_term"),)),
    ("stages of terms stay full", PHASE, (gone(SPLIT, _TERMS_RELEASE),)),
    ("the first term is released twice", PHASE,
     (Edit(SPLIT, "release(stage_of_term[term]);", "release(stage_of_term[0]);"),)),
    ("the producer leaves out the last term", PHASE,
     (Edit(SPLIT, "term = 0; term < TERMS; ++term) {", "term = 0; term < TERMS - 1; ++term) {"),)),
    ("one group of products may be pending", "wgmma.wait_group must come between",
     (Edit(SPLIT, _TERMS_WAIT, "                wgmma_wait<1>();\n"),)),
    ("products are not committed", "wgmma.wait_group must come between", (gone(SPLIT, "    wgmma_commit();\n"),)),
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
     (gone(SPLIT, "        producer_dealloc_registers<CONSUMERS, BUDGETED_ACCUMULATORS>();\n"),)),
)  # fmt: skip
_PAIR_OF_BLOCKS = (
    ("a block ends while the other loads into it", "", (gone(SPLIT, "    " + END_OF_CLUSTER.strip()),)),
    ("stages are released in one's own block only", "", (Edit(SPLIT, "release_stage<CLUSTER>", "release_stage<1>"),)),
)  # fmt: skip
SPLIT_TERMS = tuple(
    mistake(f"{rung}: {name}", rung, words, *edits, shape=shape, config=config)
    for rung in ("fp32_wgmma_bf16x6", "fp32_wgmma_fp16x3")
    for found, shape, config in ((_BOTH, (64, 128, 320), ()), (_TWO_CONSUMERS, (128, 64, 320), TWO),
                                 (_PAIR_OF_BLOCKS, PAIR, (("CLUSTER_M", 2),)))
    for name, words, edits in found
)  # fmt: skip

FP32_MISTAKES = (*FP32, *SPLIT_TERMS, *REGISTERS, *HANDED_OVER)
