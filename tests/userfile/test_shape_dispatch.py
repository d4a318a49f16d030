"""Which instantiation host code launches for which M, N and K."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.userfile.kernels.options import UserOptions
from gemmsmith.userfile.kernels.user_kernel import user_kernel
from gemmsmith.userfile.launches.shape_dispatch import Dispatch
from gemmsmith.userfile.launches.user_launch import UserLaunch

KERNEL = """
template <bool V> __global__ void k(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row < M && col < N) { float s = 0; for (int i = 0; i < K; ++i) s += A[row * K + i] * B[i * N + col];
                              C[row * N + col] = s; }
}
"""
HOW = "<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K);"


def dispatch(folder: Path, body: str, *defines: tuple[str, str]) -> Dispatch | None:
    path = folder / "k.cu"
    host = body.replace("TRUE", f"k<true>{HOW}").replace("FALSE", f"k<false>{HOW}")
    signature = "const float* A, const float* B, float* C, int M, int N, int K"
    path.write_text(f"#include <cassert>\n{KERNEL}\nvoid run({signature}) {{\n{host}\n}}\n", encoding="utf-8")
    launch = user_kernel(path, UserOptions(defines=defines)).geometry
    assert isinstance(launch, UserLaunch)
    return launch.dispatch()


def sizes(m: int, n: int, k: int) -> dict[str, int]:
    return {"M": m, "N": n, "K": k, "lda": k, "ldb": n, "ldc": n, "batch": 1}


@pytest.mark.parametrize(
    "body",
    [
        "if (N % 4 == 0 && K % 4 == 0) TRUE else FALSE",
        "bool whole = !(N % 4) && (K & 3) == 0; if (whole) { TRUE } else { FALSE }",
        "if (N % 4 == 0 && K % 4 == 0) { TRUE return; } FALSE",
    ],
    ids=["else", "a variable", "an early return"],
)
def test_a_shape_takes_the_branch_of_host_code(tmp_path: Path, body: str) -> None:
    large, small = dispatch(tmp_path, body), dispatch(tmp_path, body, ("V", "false"))
    assert large is not None
    assert small is not None
    assert large.others == ((("V", "false"),),)
    assert small.others == ((("V", "true"),),)
    assert large.tested == {"N", "K"}
    for shape, whole in (((65, 64, 64), True), ((64, 63, 64), False), ((64, 64, 66), False), ((1, 4, 8), True)):
        assert (large.takes(sizes(*shape)), small.takes(sizes(*shape))) == (whole, not whole)


def test_asserts_and_returns_before_the_launch_count(tmp_path: Path) -> None:
    guarded = dispatch(tmp_path, "assert(K % 8 == 0); if (M < 16) { return; } if (N % 4 == 0) TRUE else FALSE")
    assert guarded is not None
    assert guarded.takes(sizes(64, 64, 64))
    assert not guarded.takes(sizes(64, 64, 67))
    assert not guarded.takes(sizes(15, 64, 64))


@pytest.mark.parametrize("body", ["TRUE FALSE", "static int which; if (which == 2) TRUE else FALSE", "if (N > 4) TRUE"])
def test_launches_that_sizes_do_not_choose_between_are_no_dispatch(tmp_path: Path, body: str) -> None:
    assert dispatch(tmp_path, body) is None


def test_two_launches_one_after_the_other_are_not_taken_for_one(tmp_path: Path) -> None:
    both = dispatch(tmp_path, "if (N % 4 == 0) TRUE\nFALSE")
    assert both is not None
    assert not both.takes(sizes(64, 64, 64))
