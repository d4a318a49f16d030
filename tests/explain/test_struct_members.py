"""Bank conflicts in a struct's member are told of the member, with the line that declares it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.explain.access_pattern import AccessPattern
from gemmsmith.explain.pattern_words import padded
from gemmsmith.explain.struct_members import of_member
from gemmsmith.verify.faults.kernel_source import SourceOfKernel

SOURCE = """
#define T 32
struct Tiles {
    float As[T][T];
    float Bs[T][T];
};
__global__ void gemm(const float *A, float *C) {
    __shared__ Tiles stages[2];
    stages[0].Bs[threadIdx.x][0] = A[0];
    C[0] = stages[0].Bs[0][0];
}
"""
TILE = 32 * 32 * 4


def pattern(lanes: tuple[int, ...]) -> AccessPattern:
    return AccessPattern("shared", True, 4, "stages", "k.cu", 9, "", "", "", 31, 1, lanes, base=256)


def source(folder: Path) -> SourceOfKernel:
    path = folder / "k.cu"
    path.write_text(SOURCE, encoding="utf-8")
    return SourceOfKernel(path, "gemm")


def test_an_access_to_one_member(tmp_path: Path) -> None:
    start = 2 * TILE + TILE  # Bs of the second stage
    found = of_member(pattern((*(start + 128 * lane for lane in range(31)), -1)), source(tmp_path))
    assert (found.array, found.base, found.lanes[:3], found.lanes[-1]) == ("stages.Bs", 256 + start, (0, 128, 256), -1)
    declared = found.declaration
    assert declared is not None
    assert (declared.type, declared.extents, declared.line, declared.row_bytes) == ("float", ("T", "T"), 5, 128)
    assert padded(declared, 1) == "Bs[T][T + 1]"


@pytest.mark.parametrize("lanes", [(0, TILE), (0, 2 * TILE)], ids=["two members", "two stages"])
def test_what_reaches_several_stays_as_it_is(tmp_path: Path, lanes: tuple[int, ...]) -> None:
    assert of_member(pattern(lanes), source(tmp_path)) == pattern(lanes)
