"""gemmsmith check on kernel templates whose values no launch tells, or tells in part: nothing launches them, dispatch
macros and lambdas do, or the type is a macro's. What the launch does tell stays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gemmsmith.cli.main import run_command
from gemmsmith.kernel.layout import layout_named
from gemmsmith.userfile.kernels.user_kernel import launched_name
from gemmsmith.verify.meaning.contradiction import _may_mean


def check(folder: Path, source: str, capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, Any]:
    (folder / "k.cu").write_text(source, encoding="utf-8")
    code = run_command(["check", str(folder / "k.cu"), "--json", *more])
    found = json.loads(capsys.readouterr().out)
    return code, f"{found['error']['message']}; {found['error']['hint']}" if "error" in found else found


TEMPLATE = """
template <const int BLOCK_SIZE_M, const int BLOCK_SIZE_K, const int BLOCK_SIZE_N, const int THREAD_SIZE_Y,
          const int THREAD_SIZE_X, const bool TWICE>
__global__ void k(float* A, float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * BLOCK_SIZE_M + threadIdx.y * THREAD_SIZE_Y;
    int col = blockIdx.x * BLOCK_SIZE_N + threadIdx.x * THREAD_SIZE_X;
    for (int i = 0; i < THREAD_SIZE_Y; ++i)
        for (int j = 0; j < THREAD_SIZE_X; ++j) {
            if (row + i >= M || col + j >= N) continue;
            float s = 0;
            for (int k = 0; k < K; ++k) s += A[(row + i) * K + k] * B[k * N + col + j];
            C[(row + i) * N + col + j] = s;
        }
}
"""


def test_a_template_that_nothing_launches(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, TEMPLATE, capsys)
    assert (code, found["status"]) == (0, "right"), found
    assert "BLOCK_SIZE_M=64, BLOCK_SIZE_K=16, BLOCK_SIZE_N=64" in found["found"][0]
    small = ("--m", "32", "--n", "64", "--k", "16")
    code, found = check(tmp_path, TEMPLATE.replace("k < K;", "k < K - 1;"), capsys, *small)
    assert code == 2  # other values may be meant, so this is no verdict
    assert "no launch in the repository says what" in found
    assert "-D BLOCK_SIZE_M=64 -D BLOCK_SIZE_K=16" in found
    code, found = check(tmp_path, TEMPLATE.replace("float s = 0;", "float s = nonsuch;"), capsys)
    assert code == 2
    assert "nonsuch" in str(found)


def test_no_causes_are_looked_for_with_values_that_may_be_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def find(*_: object) -> None:
        raise AssertionError("of a report that is thrown away")

    monkeypatch.setattr("gemmsmith.cli.check_run.find_causes", find)
    wrong = TEMPLATE.replace("k < K;", "k < K - 1;")
    code, found = check(tmp_path, wrong, capsys, "--m", "32", "--n", "64", "--k", "16")
    assert (code, "no launch in the repository says" in found) == (2, True)


DISPATCH = """
#include <torch/extension.h>
#define TILE_SWITCH(n, ...) [&] { if (n <= 64) { constexpr int TILE = 8; return __VA_ARGS__(); } \\
    else { constexpr int TILE = 16; return __VA_ARGS__(); } }()
#define BOOL_SWITCH(COND, NAME, ...) [&] { if (COND) { constexpr static bool NAME = true; return __VA_ARGS__(); } \\
    else { constexpr static bool NAME = false; return __VA_ARGS__(); } }()
template <typename T, int TILE, bool EVEN>
__global__ void k(const T* A, const T* B, T* C, int M, int N, int K) {
    int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
    if (!EVEN && (row >= M || col >= N)) return;
    float s = 0;
    for (int k = 0; k < K; ++k) s += float(A[row * K + k]) * float(B[k * N + col]);
    C[row * N + col] = T(s);
}
void run(torch::Tensor a, torch::Tensor b, torch::Tensor c) {
    int m = a.size(0), k_ = a.size(1), n = b.size(1);
    AT_DISPATCH_FLOATING_TYPES_AND_HALF(a.scalar_type(), "k", [&] {
        TILE_SWITCH(n, [&] {
            BOOL_SWITCH(m % TILE == 0 && n % TILE == 0, Even, [&] {
                dim3 grid((n + TILE - 1) / TILE, (m + TILE - 1) / TILE);
                k<scalar_t, TILE, Even><<<grid, dim3(TILE, TILE)>>>(a.data_ptr<scalar_t>(), b.data_ptr<scalar_t>(),
                    c.data_ptr<scalar_t>(), m, n, k_);
            });
        });
    });
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("run", &run); }
TORCH_LIBRARY(ops, m) { m.def("run(Tensor a, Tensor b, Tensor c) -> ()"); }
"""


def test_a_launch_inside_dispatch_macros(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, DISPATCH, capsys)
    assert (code, found["status"]) == (0, "right"), found
    assert found["entry"] == "k<float, 16, false>"
    assert found["launch"]["block"] == [16, 16, 1]


# --- time


TAGS = """
template <int TILE, bool BT, bool VEC>
__global__ void k(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
    if (row >= M || col >= N) return;
    float s = 0;
    for (int k = 0; k < K; ++k) s += A[row * K + k] * (BT ? B[col * K + k] : B[k * N + col]);
    C[row * N + col] = s;
}
template <int TILE = 8, bool VEC = true>
void run(const float* A, const float* B, float* C, int M, int N, int K, bool BT) {
    dim3 grid((N + TILE - 1) / TILE, (M + TILE - 1) / TILE), block(TILE, TILE);
    auto launch = [&](auto tag, auto whole) {
        k<TILE, tag.value, VEC && whole.value><<<grid, block>>>(A, B, C, M, N, K);
    };
    std::visit(launch, variant(BT), variant(K % 4 == 0));
}
"""


def test_template_values_that_a_lambda_is_passed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the launch does tell stays, with and without values of the user's for the rest."""
    code, found = check(tmp_path, TAGS, capsys)
    assert (code, found["status"]) == (0, "right"), found
    assert "checked with BT=false, VEC=false" in found["found"][0]
    assert "TILE=8" in json.dumps(found)
    code, found = check(tmp_path, TAGS, capsys, "-D", "BT=1", "-D", "VEC=0")
    assert (code, found["status"]) == (0, "right"), found
    assert "TILE=8" in json.dumps(found)
    assert "with B transposed (NT)" in json.dumps(found)


def test_a_type_that_only_a_macro_names_is_left_open(tmp_path: Path) -> None:
    """`scalar_t` of AT_DISPATCH is no type outside it: the kernel is compiled for fp32."""
    path = tmp_path / "k.cu"
    path.write_text(
        "template <typename T> __global__ void copied(T* out, const T* in, int n) { out[threadIdx.x] = in[0]; }\n"
        "template <typename T> void copy(T* out, const T* in, int n) { copied<<<1, 32>>>(out, in, n); }\n"
        "void run(torch::Tensor a, torch::Tensor b) {\n"
        '    AT_DISPATCH_FLOATING_TYPES(a.scalar_type(), "k", [&] {\n'
        "        copy(a.data_ptr<scalar_t>(), b.data_ptr<scalar_t>(), 4); });\n}\n", encoding="utf-8",
    )  # fmt: skip
    assert launched_name(path, "copied") == "copied<float>"


def test_a_name_that_says_column_major_leaves_open_what_is_transposed() -> None:
    assert _may_mean(layout_named("col"), layout_named("col-TN"))
    assert _may_mean(layout_named("col"), layout_named("NT"))  # B is column-major
    assert not _may_mean(layout_named("col"), layout_named("TT"))
    assert not _may_mean(layout_named("col-NT"), layout_named("NN"))
