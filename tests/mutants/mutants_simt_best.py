"""Mutants of simt_best: the ring, teams that share a slice, blocks that share a tile."""

from __future__ import annotations

from mutant import Edit, Mutant, Trial
from mutants_async import IN_FLIGHT

RUNG = "simt_best"
FILE, COPY, SHARED = "23_simt_best.cu", "slice_copy.cuh", "shared_tiles.cuh"
WHOLE_COPY = (COPY, "cp.async.cg.shared.global [%0], [%1], 16;")
FRAGMENT = ("vector.cuh", "*reinterpret_cast<const Vec<T, Width>*>(shared + i)")
RING = Trial((32, 64, 48), layout="TN")  # six slices of a ring of three, copied 16 bytes at a time
SHARES = {"SHARERS": 5}
TWO_TILES = Trial((32, 128, 48))  # twelve slices among five blocks: two of them end in one tile and begin the other
TEAMS = {"TEAMS": 4}

MUTANTS = (
    Mutant(
        name="simt_best: no wait in the loop",
        rung=RUNG,
        what="the next slice is read while its copies are in flight",
        edits=(Edit(FILE, "cp_async_wait<STAGES - 2>();  // this", "// this"),),
        trial=RING,
        detector="race",
        words=("in-flight-copy", IN_FLIGHT),
        lines=(WHOLE_COPY, FRAGMENT),
        sanitizer="racecheck",
    ),
    Mutant(
        name="simt_best: no barrier in the loop",
        rung=RUNG,
        what="a thread waits for its own copies and reads those of others",
        edits=(Edit(FILE, "__syncthreads();              // now", "// now"),),
        trial=RING,
        detector="race",
        words=("read-after-write",),
        lines=(WHOLE_COPY, FRAGMENT),
        sanitizer="racecheck",
    ),
    Mutant(
        name="simt_best: the same slice again",
        rung=RUNG,
        what="slices are read from one place of the ring",
        edits=(Edit(FILE, "rounds > 1) from = after(from);", "rounds > 1) from = 0;"),),
        trial=RING,
        detector="wrong result",
    ),
    Mutant(
        name="simt_best: one row of zeros too few",
        rung=RUNG,
        what="the line behind the last of K is copied instead of zero-filled",
        edits=(Edit(COPY, "down < lines_left ?", "down <= lines_left ?"),),
        trial=Trial((32, 64, 21), layout="TN"),
        detector="out-of-bounds",
        words=("out-of-bounds global asynchronous copy",),
        sanitizer="memcheck",
    ),
    Mutant(
        name="simt_best: no guard at the end of K",
        rung=RUNG,
        what="the last slice, of which K holds a part, is taken for a whole one",
        edits=(Edit(FILE, "(end - begin) / BK - (STAGES - 1)", "(end - begin + BK - 1) / BK - (STAGES - 1)"),),
        trial=Trial((32, 64, 44), layout="TN"),
        detector="out-of-bounds",
        sanitizer="memcheck",
    ),
    Mutant(
        name="simt_best: the last slice is not copied",
        rung=RUNG,
        what="one slice too few is left when copies begin to be guarded",
        edits=(Edit(FILE, "left = part.count - unguarded - (STAGES - 1);", "left = part.count - unguarded - STAGES;"),),
        trial=Trial((32, 64, 44), layout="TN"),
        detector="wrong result",
    ),
    Mutant(
        name="a team adds before the other has written",
        rung=RUNG,
        what="no barrier between leaving sums and adding them",
        edits=(Edit(FILE, "kept[i * TEAM] = sum; });\n            __syncthreads();", "kept[i * TEAM] = sum; });"),),
        trial=RING,
        detector="race",
        config=TEAMS,
        sanitizer="racecheck",
    ),
    Mutant(
        name="sums of a team over slices that are read",
        rung=RUNG,
        what="no barrier before a team leaves its sums where slices were",
        edits=(Edit(FILE, "__syncthreads();  // the ring, or", "// the ring, or"),),
        trial=RING,
        detector="race",
        config=TEAMS,
        sanitizer="racecheck",
    ),
    Mutant(
        name="all teams have the same steps",
        rung=RUNG,
        what="a team reads the steps of the first one",
        edits=(
            Edit(FILE, "team * CopyA::PITCH + m0", "m0"),
            Edit(FILE, "CopyA::BYTES / 4 + team * CopyB::PITCH + n0", "CopyA::BYTES / 4 + n0"),
        ),
        trial=RING,
        detector="wrong result",
        config=TEAMS,
    ),
    Mutant(
        name="the first to come finishes a tile",
        rung=RUNG,
        what="parts are added before the others have left theirs",
        edits=(Edit("flags.cuh", "return *word == blocks - 1;", "return *word == 0;"),),
        trial=TWO_TILES,
        detector="wrong result",
        config=SHARES,
    ),
    Mutant(
        name="one sharer of a tile is forgotten",
        rung=RUNG,
        what="the last part of K is not waited for, and not added",
        edits=(Edit(SHARED, "(nth + 1ull) * slices - 1)", "(nth + 1ull) * slices - 2)"),),
        trial=Trial((32, 64, 40)),
        detector="wrong result",
        config=SHARES,
    ),
    Mutant(
        name="sharers overlap by a slice",
        rung=RUNG,
        what="a length ends one slice behind where the next begins",
        edits=(Edit(SHARED, "begin(sharer + 1) - start,", "begin(sharer + 1) - start + (sharer == 0),"),),
        trial=TWO_TILES,
        detector="wrong result",
        config=SHARES,
    ),
)
