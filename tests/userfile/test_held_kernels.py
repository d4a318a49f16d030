"""Kernels that a variable of host code holds, and the conditions that choose them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.problem import Problem
from gemmsmith.userfile.kernels.options import UserOptions
from gemmsmith.userfile.kernels.user_kernel import user_kernel
from gemmsmith.userfile.launches.held_kernels import alternatives
from gemmsmith.userfile.launches.user_launch import UserLaunch

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
    "it grows": "bool edge = M & 7; edge |= (N & 7) != 0; auto kernel = edge ? gemm<true> : gemm<false>; kernel",
    "it shrinks": "bool all = M % 8 < 1; all &= N % 8 == 0; auto kernel = all ? gemm<false> : gemm<true>; kernel",
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


def test_one_instance_under_several_conditions(tmp_path: Path) -> None:
    host = "auto kernel = M % 8 ? gemm<true> : N % 8 ? gemm<true> : gemm<false>; kernel"
    launch = launch_of(tmp_path, host, "gemm<true>")
    dispatch = launch.dispatch()
    assert dispatch is not None
    for m, n, is_taken in ((64, 63, True), (63, 64, True), (63, 63, True), (64, 64, False)):
        problem = Problem(m, n, 32)
        assert dispatch.takes(launch.own_sizes(problem)) is is_taken
        assert dispatch.others_take(launch.own_sizes(problem)) is not is_taken
        assert (launch.launched(problem).excluded is None) is is_taken


def test_products_that_no_instance_takes(tmp_path: Path) -> None:
    """Host code launches nothing for them, or stops before."""
    host = ("if (N == 7) return; assert(K % 2 == 0); Kernel kernel; if (M % 8) kernel = gemm<true>; "
            "else kernel = gemm<false>; kernel")  # fmt: skip
    launch = launch_of(tmp_path, host, "gemm<false>")
    dispatch = launch.dispatch()
    assert dispatch is not None
    assert dispatch.others_take(launch.own_sizes(Problem(63, 64, 32)))
    assert not dispatch.others_take(launch.own_sizes(Problem(63, 7, 32)))
    assert not dispatch.others_take(launch.own_sizes(Problem(63, 64, 33)))


def test_a_template_argument_that_is_chosen(tmp_path: Path) -> None:
    launch = launch_of(tmp_path, "constexpr int side = 8; gemm<side == 8 ? true : false>")
    assert launch.template == {"EDGES": "true"}
    assert launch.site is not None


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
        ("gemm<8, c ? 2 : 1>", [("gemm<8, c ? 2 : 1>", ())]),
        ("gemm<c ? 1 : d ? 2 : E::x>", [("gemm<c ? 1 : d ? 2 : E::x>", ())]),
        ("x > 1 ? f<(y > 2)> : f<z ? 1 : 2>",
         [("f<z ? 1 : 2>", (("x > 1", False),)), ("f<(y > 2)>", (("x > 1", True),))]),
        ("(c ? a::f<1> : a::g)", [("a::g", (("c", False),)), ("a::f<1>", (("c", True),))]),
        ("(x > 1) ? f : (y ? g : h)",
         [("h", (("x > 1", False), ("y", False))), ("g", (("x > 1", False), ("y", True))), ("f", (("x > 1", True),))]),
        ("x ? y ? f : g : h",
         [("h", (("x", False),)), ("g", (("x", True), ("y", False))), ("f", (("x", True), ("y", True)))]),
    ],
)  # fmt: skip
def test_alternatives(text: str, found: list[tuple[str, tuple[tuple[str, bool], ...]]]) -> None:
    assert [(each.text, each.when) for each in alternatives(text)] == found
