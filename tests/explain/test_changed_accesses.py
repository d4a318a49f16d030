"""Changes that explain tries in a copy: longer rows of flat tiles, quotient and remainder of threadIdx.x swapped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gemmsmith.cure.code import Code, Program
from gemmsmith.cure.edit import applied
from gemmsmith.explain.access_pattern import AccessPattern, Declaration
from gemmsmith.explain.flat_padding import flat_copy, flat_paddings, flat_remedy
from gemmsmith.explain.pattern_words import paddings
from gemmsmith.explain.swap_trial import swap_lanes
from gemmsmith.userfile.kernels.options import UserOptions
from gemmsmith.userfile.kernels.user_kernel import user_kernel

KERNEL = """#define T 32
__global__ void flat(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float tile[T * T];
    tile[threadIdx.y * T + threadIdx.x] = A[threadIdx.x];
    __syncthreads();
    C[threadIdx.x] = tile[(threadIdx.x) * T + threadIdx.y] * B[0] + LAST;
}
"""


def pattern(extents: tuple[str, ...], stride: int = 128, width: int = 4) -> AccessPattern:
    declared = Declaration("float", "tile", extents, "flat.cu", 3, 0)
    lanes = tuple(stride * lane for lane in range(32))
    return AccessPattern("shared", False, width, "tile", "flat.cu", 6, "", "", "", 100, 10, lanes, declaration=declared)


def test_lanes_that_share_addresses_have_the_stride_of_the_others() -> None:
    whole = pattern(("T", "T"), stride=256)
    halves = replace(whole, lanes=whole.lanes[:16] * 2)
    assert (whole.stride, halves.stride) == (256, 256)
    assert paddings(halves) == (1,)
    assert replace(whole, lanes=(*whole.lanes[:16], *(at + 4 for at in whole.lanes[:16]))).stride is None


@pytest.mark.parametrize(
    ("made", "wanted"),
    [
        (pattern(("T * T",)), (1,)),
        (pattern(("T * T",), width=16), (4, 1)),
        (pattern(("1024",)), ()),
        (pattern(("T", "T")), ()),
        (pattern(("T * T",), stride=4), ()),
    ],
)
def test_rows_of_flat_tiles_may_be_longer(made: AccessPattern, wanted: tuple[int, ...]) -> None:
    assert flat_paddings(made) == wanted


def test_every_index_has_the_longer_row(tmp_path: Path) -> None:
    file = tmp_path / "flat.cu"
    file.write_text(KERNEL.replace("LAST", "tile[T * T - 1]"))
    spec = user_kernel(file, UserOptions(block="32,32", grid="1"))
    made = pattern(("T * T",))
    copy = flat_copy(spec, made, 1, file)
    assert copy is not None
    text = copy.edited[-1][1]
    assert "float tile[T * (T + 1)];" in text
    assert "tile[threadIdx.y * (T + 1) + threadIdx.x] =" in text
    assert "tile[(threadIdx.x) * (T + 1) + threadIdx.y] *" in text
    assert "declare tile[T * (T + 1)] (flat.cu:3)" in flat_remedy(made, 1)
    file.write_text(KERNEL.replace("LAST", "tile[5]"))
    assert flat_copy(spec, made, 1, file) is None  # an index without the length of a row


def program(body: str) -> Program:
    text = f"__global__ void k(const float* A, float* C, int N) {{ {body} }}"
    return Program((Code(Path("k.cu"), text),), "k", {"A": "A", "C": "C", "N": "N"})


def test_quotient_and_remainder_are_swapped_where_there_are_both() -> None:
    found = program("int r = threadIdx.x % 32, c = threadIdx.x / 32; C[r * N + c] = A[r * N + c];")
    change = swap_lanes(found)
    assert change is not None
    assert "int r = threadIdx.x / 32, c = threadIdx.x % 32;" in applied(change.edits, found.files)[0][1]
    assert swap_lanes(program("int r = threadIdx.x % 32; C[r] = A[r];")) is None
    assert swap_lanes(program("int r = threadIdx.x % 32, c = threadIdx.x / 16; C[r * N + c] = A[r];")) is None
