"""Mutants of simt_best: the ring, teams that share a k-tile, blocks that share a tile (stream-K)."""

from __future__ import annotations

from mutant import Edit, Mutant, Trial
from mutants_async import IN_FLIGHT

RUNG = "simt_best"
FILE, COPY, STREAM_K = "23_simt_best.cu", "k_tile_copy.cuh", "stream_k_tiles.cuh"
SUMS, TRANSPOSE = "team_sums.cuh", "k_tile_transpose.cuh"
FULL_COPY = ("cp_async.cuh", 'cp.async.cg.shared.global [%0], [%1], 16;"')
FRAGMENT = ("vector.cuh", "*reinterpret_cast<const Vec<T, Width>*>(shared + i)")
RING = Trial((32, 64, 48), layout="TN")  # six k-tiles in a ring of three stages, copied 16 bytes at a time
SHARES = {"SHARERS": 5}
TWO_TILES = Trial((32, 128, 48))  # twelve k-tiles for five blocks: one of them has k-tiles of both tiles
TEAMS = {"TEAMS": 4}
BY_REGISTERS = {"TRANSPOSED_COPY": 2, "STAGES": 2, "UNROLL": 4}

MUTANTS = (
    Mutant(
        name="simt_best: no wait in the loop",
        rung=RUNG,
        what="the next k-tile is read while its copies are in flight",
        edits=(Edit(FILE, "cp_async_wait<STAGES - 2>();  // this", "// this"),),
        trial=RING,
        detector="race",
        words=("in-flight-copy", IN_FLIGHT),
        lines=(FULL_COPY, FRAGMENT),
        sanitizer="racecheck",
    ),
    Mutant(
        name="simt_best: no barrier in the loop",
        rung=RUNG,
        what="a thread waits for its own copies and reads those of other threads",
        edits=(Edit(FILE, "__syncthreads();              // now", "// now"),),
        trial=RING,
        detector="race",
        words=("read-after-write",),
        lines=(FULL_COPY, FRAGMENT),
        sanitizer="racecheck",
    ),
    Mutant(
        name="simt_best: same stage read again",
        rung=RUNG,
        what="k-tiles are always read from the first stage",
        edits=(Edit(FILE, "rounds > 1) from = after(from);", "rounds > 1) from = 0;"),),
        trial=RING,
        detector="wrong result",
    ),
    Mutant(
        name="simt_best: one line of zeros too few",
        rung=RUNG,
        what="the line after the last k is copied instead of zero-filled",
        edits=(Edit(COPY, "down < lines_left ?", "down <= lines_left ?"),),
        trial=Trial((32, 64, 21), layout="TN"),
        detector="out-of-bounds",
        words=("out-of-bounds global asynchronous copy",),
        sanitizer="memcheck",
    ),
    Mutant(
        name="simt_best: no guard at the end of K",
        rung=RUNG,
        what="the last k-tile, which is only partly inside K, is treated as full",
        edits=(Edit(FILE, "(end - begin) / BK - (STAGES - 1)", "(end - begin + BK - 1) / BK - (STAGES - 1)"),),
        trial=Trial((32, 64, 44), layout="TN"),
        detector="out-of-bounds",
        sanitizer="memcheck",
    ),
    Mutant(
        name="simt_best: last k-tile not copied",
        rung=RUNG,
        what="the count of remaining k-tiles is one too low when guarded copies begin",
        edits=(Edit(FILE, "left = work.count - unguarded - (STAGES - 1);", "left = work.count - unguarded - STAGES;"),),
        trial=Trial((32, 64, 44), layout="TN"),
        detector="wrong result",
    ),
    Mutant(
        name="simt_best: chunks stored behind the barrier",
        rung=RUNG,
        what="a k-tile that is transposed in registers is read before all threads have stored their chunks",
        edits=(
            Edit(FILE, "                    finish(filled);\n", ""),
            Edit(FILE, "__syncthreads();              // now", "__syncthreads(), finish(filled);  // now"),
        ),
        trial=Trial((32, 64, 48), layout="NT"),
        detector="race",
        config=BY_REGISTERS,
        sanitizer="racecheck",
    ),
    Mutant(
        name="simt_best: chunks without a guard along k",
        rung=RUNG,
        what="a chunk that ends behind the row is loaded whole",
        edits=(Edit(TRANSPOSE, "floats_left - right_of(i) >= 4)", "floats_left - right_of(i) > 0)"),),
        trial=Trial((32, 64, 21), layout="NT", padding=(3, 3, 0)),
        detector="out-of-bounds",
        config=BY_REGISTERS,
        sanitizer="memcheck",
    ),
    Mutant(
        name="partial sums read before a team has written them",
        rung=RUNG,
        what="no barrier between writing a team's partial sums and adding them",
        edits=(Edit(SUMS, "% Cols];\n    __syncthreads();", "% Cols];"),),
        trial=RING,
        detector="race",
        config=TEAMS,
        sanitizer="racecheck",
    ),
    Mutant(
        name="partial sums written over k-tiles in use",
        rung=RUNG,
        what="no barrier before a team writes its partial sums into the ring",
        edits=(Edit(SUMS, "__syncthreads();  // the ring, or", "// the ring, or"),),
        trial=RING,
        detector="race",
        config=TEAMS,
        sanitizer="racecheck",
    ),
    Mutant(
        name="a cluster's sums read before they are written",
        rung=RUNG,
        what="no cluster barrier between leaving partial sums and adding those of other blocks",
        edits=(Edit(SUMS, "cluster_sync();\n    // All", "// All"),),
        trial=RING,
        detector="race",
        config={"CLUSTER_K": 2},
        sanitizer="racecheck",
    ),
    Mutant(
        name="a block ends before the cluster has read its sums",
        rung=RUNG,
        what="no cluster barrier at the end: shared memory of a block that has ended is read",
        edits=(Edit(SUMS, "    cluster_arrive();\n", ""), Edit(SUMS, "cluster_wait();  // others", "// others")),
        trial=RING,
        detector="ended block",
        config={"CLUSTER_K": 2},
        sanitizer="memcheck",
    ),
    Mutant(
        name="simt_best: copies begin before the launch before has ended",
        rung=RUNG,
        what="operands are read before griddepcontrol.wait, although the launch before may still write them",
        edits=(Edit(FILE, "pdl_wait_behind_addresses(copy_a.source, copy_b.source);", ""),),
        trial=RING,
        detector="launch before",
        words=("griddepcontrol.wait must come first",),
    ),
    Mutant(
        name="sums of unaligned rows read from another lane's place",
        rung=RUNG,
        what="sums are read without the permutation with which they were written",
        edits=(Edit(SUMS, "w * 32 + sum_slot(owner, e)", "w * 32 + owner", times=2),),
        trial=Trial((32, 64, 48), padding=(0, 0, 1)),
        detector="wrong result",
    ),
    Mutant(
        name="all teams compute the same steps",
        rung=RUNG,
        what="every team reads the steps of the first team",
        edits=(
            Edit(FILE, "CopyA::line_of(team) + m0", "m0"),
            Edit(FILE, "CopyA::BYTES / 4 + CopyB::line_of(team) + n0", "CopyA::BYTES / 4 + n0"),
        ),
        trial=RING,
        detector="wrong result",
        config=TEAMS,
    ),
    Mutant(
        name="first block stores the tile instead of the last",
        rung=RUNG,
        what="partial sums are added before the other blocks have written theirs",
        edits=(Edit("flags.cuh", "return *word == blocks - 1;", "return *word == 0;"),),
        trial=TWO_TILES,
        detector="wrong result",
        config=SHARES,
    ),
    Mutant(
        name="one sharer of a tile omitted",
        rung=RUNG,
        what="the partial sums over the end of K are neither waited for nor added",
        edits=(Edit(STREAM_K, "(nth + 1ull) * k_tiles - 1)", "(nth + 1ull) * k_tiles - 2)"),),
        trial=Trial((32, 64, 40)),
        detector="wrong result",
        config=SHARES,
    ),
    Mutant(
        name="spans of sharers overlap by one k-tile",
        rung=RUNG,
        what="a span ends one k-tile after the next span begins",
        edits=(Edit(STREAM_K, "begin(sharer + 1) - start,", "begin(sharer + 1) - start + (sharer == 0),"),),
        trial=TWO_TILES,
        detector="wrong result",
        config=SHARES,
    ),
)
