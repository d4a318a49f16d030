"""Mutants of gemv: the short operand's k-tiles, the ends of rows and of K, sums of lanes, warps and blocks."""

from __future__ import annotations

from mutant import Edit, Mutant, Trial
from mutants_async import IN_FLIGHT

RUNG = "gemv"
FILE, LANES, SHORT = "28_gemv.cu", "lane_sums.cuh", "vector_tile.cuh"
COPY = ("cp_async.cuh", 'cp.async.ca.shared.global [%0], [%1], 4, %2;"')
FRAGMENT = ("vector.cuh", "*reinterpret_cast<const Vec<T, Width>*>(shared + i)")
K_TILES = Trial((8, 2, 3 * 256))  # three k-tiles of the short operand

MUTANTS = (
    Mutant(
        name="gemv: no wait for a k-tile",
        rung=RUNG,
        what="a k-tile of the short operand is read while its copies are in flight",
        edits=(Edit(FILE, "cp_async_wait<0>();", ""),),
        trial=K_TILES,
        detector="race",
        words=("in-flight-copy", IN_FLIGHT),
        lines=(COPY, FRAGMENT),
        sanitizer="racecheck",
    ),
    Mutant(
        name="gemv: no barrier before a k-tile",
        rung=RUNG,
        what="a thread waits for its own copies and reads those of other threads",
        edits=(Edit(FILE, "__syncthreads();  // the k-tile", "// the k-tile"),),
        trial=K_TILES,
        detector="race",
        sanitizer="racecheck",
    ),
    Mutant(
        name="gemv: no barrier before the sums",
        rung=RUNG,
        what="sums are left where other warps still read the last k-tile",
        edits=(Edit(FILE, "__syncthreads();  // the last k-tile", "// the last k-tile"),),
        trial=K_TILES,
        detector="race",
        sanitizer="racecheck",
    ),
    Mutant(
        name="gemv: rows beyond the matrix",
        rung=RUNG,
        what="rows outside are read at their own addresses",
        edits=(Edit(FILE, "min(row + i, rows - 1)", "(row + i)"),),
        trial=Trial((9, 2, 300)),
        detector="out-of-bounds",
        sanitizer="memcheck",
    ),
    Mutant(
        name="gemv: last round without a guard",
        rung=RUNG,
        what="a round of loads that is only partly inside K is treated as whole",
        edits=(Edit(FILE, "(end - begin) / STEP : 0", "(end - begin + STEP - 1) / STEP : 0"),),
        trial=Trial((8, 2, 300)),
        detector="out-of-bounds",
        sanitizer="memcheck",
    ),
    Mutant(
        name="gemv: one more of the short operand",
        rung=RUNG,
        what="the number after the last k is copied instead of a zero",
        edits=(Edit(SHORT, "first + k < end", "first + k <= end"),),
        trial=Trial((8, 2, 300), layout="NT"),
        detector="out-of-bounds",
        sanitizer="memcheck",
    ),
    Mutant(
        name="gemv: the wrong half is kept",
        rung=RUNG,
        what="lanes keep the half of the sums that they send",
        edits=(Edit(LANES, "kept = upper ? x[i + Left / 2] : x[i]", "kept = upper ? x[i] : x[i + Left / 2]"),),
        trial=K_TILES,
        detector="wrong result",
    ),
    Mutant(
        name="gemv: a cluster's block ends too early",
        rung=RUNG,
        what="a block's sums are read after it has ended",
        edits=(Edit(FILE, "cluster_sync();  // others", "// others"),),
        config={"CLUSTER_K": 2},
        trial=Trial((8, 2, 2 * 256)),
        detector="ended block",
    ),
    Mutant(
        name="gemv: loads before the launch ahead has ended",
        rung=RUNG,
        what="nothing waits for the launch before",
        edits=(Edit(FILE, "    pdl_wait();\n\n", "\n"),),
        trial=K_TILES,
        detector="launch before",
    ),
)
