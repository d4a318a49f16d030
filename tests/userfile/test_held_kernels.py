"""Kernels that a variable of host code holds, and the conditions that choose them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.problem import Problem
from gemmsmith.userfile.held_kernels import alternatives
from gemmsmith.userfile.options import UserOptions
from gemmsmith.userfile.user_kernel import user_kernel
from gemmsmith.userfile.user_launch import UserLaunch

KERNEL = """
template <bool EDGES> __global__ void gemm(const float* A, const float* B, float* C, int M, int N, int K, float alpha,
                                           float beta) {
    int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 8 + threadIdx.x;
    if (EDGES && (row >= M || col >= N)) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = alpha * sum + beta * C[row * N + col];
}
typedef void (*Kernel)(const float*, const float*, float*, int, int, int, float, float);
void run(const float* A, const float* B, float* C, int M, int N, int K, float alpha, float beta) {
    dim3 grid((N + 7) / 8, (M + 7) / 8), block(8, 8);
    HOST<<<grid, block>>>(A, B, C, M, N, K, alpha, beta);
}
"""
WHOLE = "M % 8 == 0 && N % 8 == 0"
HOSTS = {
    "ternary": f"auto kernel = {WHOLE} ? gemm<false> : gemm<true>; kernel",
    "pointers": f"Kernel kernel = ({WHOLE}) ? &gemm<false> : &gemm<true>; kernel",
    "if and else": f"Kernel kernel; if ({WHOLE}) kernel = gemm<false>; else kernel = &gemm<true>; kernel",
    "if alone": f"Kernel kernel = gemm<true>; if ({WHOLE}) kernel = gemm<false>; kernel",
    "at the launch": f"({WHOLE} ? gemm<false> : gemm<true>)",
    "nested": "auto kernel = M % 8 ? gemm<true> : N % 8 ? gemm<true> : gemm<false>; kernel",
    "a flag": f"bool whole = {WHOLE}; auto kernel = whole ? gemm<false> : gemm<true>; kernel",
}


def launch_of(folder: Path, host: str, entry: str = "") -> UserLaunch:
    file = folder / "k.cu"
    file.write_text(KERNEL.replace("HOST", host))
    found = user_kernel(file, UserOptions(entry=entry)).geometry
    assert isinstance(found, UserLaunch)
    return found


@pytest.mark.parametrize("host", HOSTS.values(), ids=HOSTS)
def test_each_is_launched_for_its_own_shapes(tmp_path: Path, host: str) -> None:
    launch = launch_of(tmp_path, host)
    dispatch = launch.dispatch()
    assert dispatch is not None
    assert launch.template == {"EDGES": "false"}
    assert dispatch.others == ((("EDGES", "true"),),)
    assert dispatch.takes(launch.own_sizes(Problem(64, 64, 32)))
    assert not dispatch.takes(launch.own_sizes(Problem(64, 63, 32)))
    assert dispatch.tested == {"M", "N"}


def test_scalars_choose(tmp_path: Path) -> None:
    host = "auto kernel = beta == 0.0f ? gemm<false> : gemm<true>; kernel"
    launch = launch_of(tmp_path, host, "gemm<false>")
    assert launch.launched(Problem(64, 64, 32, alpha=2.0)).excluded is None
    excluded = launch.launched(Problem(64, 64, 32, beta=-2.0)).excluded
    assert excluded is not None
    assert excluded.text == "beta == 0.0f"


def test_a_value_of_unknown_origin_has_no_condition(tmp_path: Path) -> None:
    host = "Kernel kernel = gemm<true>; while (K > M) { if (N % 8 == 0) kernel = gemm<false>; K /= 2; } kernel"
    assert launch_of(tmp_path, host, "gemm<false>").launched(Problem(64, 63, 32)).excluded is None


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("gemm<1>", [("gemm<1>", ())]),
        ("a::b<1>", [("a::b<1>", ())]),
        ("(c ? a::f<1> : a::g)", [("a::g", (("c", False),)), ("a::f<1>", (("c", True),))]),
        ("(x > 1) ? f : (y ? g : h)",
         [("h", (("x > 1", False), ("y", False))), ("g", (("x > 1", False), ("y", True))), ("f", (("x > 1", True),))]),
        ("x ? y ? f : g : h",
         [("h", (("x", False),)), ("g", (("x", True), ("y", False))), ("f", (("x", True), ("y", True)))]),
    ],
)  # fmt: skip
def test_alternatives(text: str, found: list[tuple[str, tuple[tuple[str, bool], ...]]]) -> None:
    assert [(each.text, each.when) for each in alternatives(text)] == found
