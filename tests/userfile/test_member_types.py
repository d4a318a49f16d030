"""Kernels whose parameters have types that a class of settings names."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.cli.main import run_command
from gemmsmith.errors import SignatureError
from gemmsmith.userfile.kernels.user_kernel import UserOptions, user_kernel

KERNEL = """
template <typename Cfg>
__global__ void mine(const typename Cfg::In* __restrict__ A, const typename Cfg::In* B, typename Cfg::Out* C,
                     int M, int N, int K) {
    int row = blockIdx.y * Cfg::SIDE + threadIdx.y, col = blockIdx.x * Cfg::SIDE + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += float(A[row * K + k]) * float(B[k * N + col]);
    C[row * N + col] = typename Cfg::Out(sum);
}
template <typename Cfg> void run(const typename Cfg::In* A, const typename Cfg::In* B, typename Cfg::Out* C,
                                 int M, int N, int K) {
    dim3 block(Cfg::SIDE, Cfg::SIDE), grid((N + Cfg::SIDE - 1) / Cfg::SIDE, (M + Cfg::SIDE - 1) / Cfg::SIDE);
    mine<Cfg><<<grid, block>>>(A, B, C, M, N, K);
}
"""
SETTINGS = """#include <cuda_fp16.h>
#include <cuda_bf16.h>
template <typename I, typename O = float, int S = 8> struct Settings {
    using In = I;
    typedef O Out;
    static constexpr int SIDE = S;
};
namespace sizes {
struct Pair { using First = __nv_bfloat16; };
struct Small { using In = typename Pair::First; using Out = In; static constexpr int SIDE = 4; };
}
"""
# What run is called with; the types of inputs and outputs, and the side of a block.
STYLES = {
    "a template with defaults": (
        "int main() { half* p; float* c; run<Settings<half>>(p, p, c, 1, 1, 1); }",
        "fp16", "fp32", 8),
    "a local name": (
        "int main() { float* p; using Mine = Settings<float, float, 16>; run<Mine>(p, p, p, 1, 1, 1); }",
        "fp32", "fp32", 16),
    "a class in a namespace": (
        "int main() { __nv_bfloat16* p; run<sizes::Small>(p, p, p, 1, 1, 1); }",
        "bf16", "bf16", 4),
}  # fmt: skip


def _file(tmp_path: Path, host: str, kernel: str = KERNEL) -> Path:
    file = tmp_path / "k.cu"
    file.write_text(SETTINGS + kernel + host, encoding="utf-8")
    return file


@pytest.mark.parametrize("style", STYLES)
def test_the_types_are_those_of_the_class(style: str, tmp_path: Path) -> None:
    host, inputs, outputs, side = STYLES[style]
    spec = user_kernel(_file(tmp_path, host), UserOptions())
    assert ([str(each) for each in spec.dtypes], [str(each) for each in spec.out_dtypes]) == ([inputs], [outputs])
    geometry = spec.geometry(spec.problem(64, 32, 16), spec.config({}))
    assert (geometry.grid, geometry.block) == ((32 // side, 64 // side, 1), (side, side, 1))


def test_a_type_that_the_class_does_not_name_is_refused(tmp_path: Path) -> None:
    file = _file(tmp_path, STYLES["a class in a namespace"][0], KERNEL.replace("Cfg::In*", "Cfg::Input*"))
    with pytest.raises(SignatureError, match="Cfg::Input"):
        user_kernel(file, UserOptions())


@pytest.mark.parametrize(("first", "code"), [(0, 0), (1, 1)])
def test_such_a_kernel_is_judged(first: int, code: int, tmp_path: Path) -> None:
    file = _file(tmp_path, STYLES["a template with defaults"][0], KERNEL.replace("k = 0", f"k = {first}"))
    assert run_command(["check", str(file), "--cures", "0", "--trial", "integers, bit for bit"]) == code
