"""Bytes of dynamic shared memory as host code writes them: sizeof of structs, unions, nested classes; constants."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.gpus import largest_smem
from gemmsmith.userfile.kernels.user_kernel import UserOptions, found_values, user_kernel
from gemmsmith.userfile.launches.user_launch import UserLaunch

ABC = "const float* A, const float* B, float* C, int M, int N, int K"
KERNEL = f"__global__ void mine({ABC}) {{ extern __shared__ char raw[]; int x = blockIdx.x + threadIdx.x; }}\n"
OF_TYPE = "template <typename S> " + KERNEL
OF_SIZES = "template <int BM, int BN, int BK> " + KERNEL
ARGS = "(A, B, C, M, N, K);"
PAIR = "float a[BM][BK]; float b[BK][BN];"


def _host(text: str) -> str:
    return f"void run({ABC}) {{ dim3 grid((N + 31) / 32, (M + 31) / 32); {text}{ARGS} }}\n"


# The source, and the bytes.
STYLES = {
    "a struct that a class of settings has": (
        f"template <int BM, int BN, int BK> struct Traits {{ struct Storage {{ {PAIR} }}; }};\n{OF_TYPE}"
        + _host("using Tr = Traits<32, 64, 8>; mine<Tr><<<grid, 256, sizeof(typename Tr::Storage)>>>"), 3072),
    "a struct of a class of settings": (
        "struct Cfg { static constexpr int BM = 32, BN = 64, BK = 8; };\n"
        "template <typename T> struct Storage { alignas(128) float a[T::BM * T::BK + 1], b[T::BK * T::BN]; };\n"
        + OF_TYPE + _host("mine<Cfg><<<grid, 256, sizeof(Storage<Cfg>)>>>"), 3200),
    "a union": (
        f"template <int BM, int BN, int BK> union Both {{ struct {{ {PAIR} }} in; float c[BM][BN]; }};\n{OF_SIZES}"
        + _host("mine<32, 64, 8><<<grid, 256, sizeof(Both<32, 64, 8>)>>>"), 8192),
    "a base class": (
        "struct Empty {};\nstruct First : Empty { float a[100]; };\nstruct Second : public First { double b[10]; };\n"
        + KERNEL + _host("mine<<<grid, 256, sizeof(Second)>>>"), 480),
    "members": (
        f"template <int BM, int BN, int BK> struct Storage {{ {PAIR} }};\n{OF_SIZES}"
        + _host("using S = Storage<32, 64, 8>; mine<32, 64, 8><<<grid, 256, sizeof(S::a) + 2 * sizeof(S::b)>>>"), 5120),
    "a type that a class names": (
        "struct Cfg { using T = double; static constexpr int COUNT = 64; };\n"
        f"template <typename C> struct Storage {{ typename C::T a[C::COUNT]; }};\n{OF_TYPE}"
        + _host("mine<Cfg><<<grid, 256, sizeof(Storage<Cfg>)>>>"), 512),
    "an N of its own": (
        "template <typename T, int N> struct Array { T data[N]; };\n"
        "struct Storage { Array<float, 256> a; Array<short, 512> b; };\n" + KERNEL
        + _host("mine<<<grid, 256, sizeof(Storage)>>>"), 2048),
    "barriers of CUDA's C++ library": (
        "#include <cuda/barrier>\n" + KERNEL
        + _host("mine<<<grid, 256, 1024 + 3 * sizeof(cuda::barrier<cuda::thread_scope::thread_scope_block>)>>>"), 1048),
    "a pointer to a function": (
        f"struct Storage {{ void (*call)(int, float); float a[10]; void method() {{}} }};\n{KERNEL}"
        + _host("mine<<<grid, 256, sizeof(Storage)>>>"), 48),
}  # fmt: skip


@pytest.mark.parametrize("style", STYLES)
def test_the_bytes_are_those_of_the_compiler(style: str, tmp_path: Path) -> None:
    source, wanted = STYLES[style]
    (tmp_path / "k.cu").write_text(source, encoding="utf-8")
    spec = user_kernel(tmp_path / "k.cu", UserOptions())
    assert spec.geometry(spec.problem(64, 64, 64), spec.config({})).smem == wanted


def test_bytes_that_are_not_known_are_as_many_as_a_gpu_has(tmp_path: Path) -> None:
    """With none at all a right kernel would fail."""
    file = tmp_path / "k.cu"
    file.write_text("int asked();\n" + KERNEL + _host("mine<<<grid, 256, asked()>>>"), encoding="utf-8")
    spec = user_kernel(file, UserOptions())
    smem = spec.geometry(spec.problem(64, 64, 64), spec.config({})).smem
    assert 0.9 * largest_smem() < smem <= largest_smem()
    assert f"not known ({smem:,} bytes given)" in [found.value for found in found_values(file, UserOptions())]
    assert isinstance(spec.geometry, UserLaunch)
    assert spec.geometry.guesses_smem(spec.problem(64, 64, 64))
    given = user_kernel(file, UserOptions(smem="100"))
    assert given.geometry(given.problem(64, 64, 64), given.config({})).smem == 100


@pytest.mark.parametrize(("launch", "least"), [("", 1), (_host("mine<<<grid, 256>>>"), 0)])
def test_a_launch_that_gives_none_gives_none(launch: str, least: int, tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(KERNEL + launch, encoding="utf-8")
    spec = user_kernel(tmp_path / "k.cu", UserOptions())
    assert (spec.geometry(spec.problem(64, 64, 64), spec.config({})).smem > 0) == bool(least)
    assert isinstance(spec.geometry, UserLaunch)
    assert spec.geometry.guesses_smem(spec.problem(64, 64, 64)) == bool(least)
