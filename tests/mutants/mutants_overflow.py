"""Mutants of offsets beyond 2**31, which only a matrix too large for an ordinary trial reveals."""

from __future__ import annotations

from mutant import Edit, Mutant, Trial

MUTANTS = (
    Mutant(
        name="32-bit offset into C",
        rung="naive",
        what="row * ldc is truncated to 32 bits",
        edits=(Edit("01_naive.cu", "C + row * ldc + col", "C + static_cast<int>(row * ldc) + col"),),
        trial=Trial((3, 8, 8)),
        detector="out-of-bounds",
        sanitizer="memcheck",
    ),
    Mutant(
        name="32-bit leading dimension in the window",
        rung="block_tile_1d",
        what="the offset of a row inside a window is computed in 32 bits",
        edits=(Edit("window.cuh", "origin + row * ld + col", "origin + static_cast<int>(row * ld) + col"),),
        trial=Trial((3, 8, 8)),
        detector="out-of-bounds",
        sanitizer="memcheck",
    ),
)
