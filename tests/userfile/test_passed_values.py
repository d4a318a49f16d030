"""Numbers without a meaning of their own that host code computes: fractions, fields of structs, parts of K."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from gemmsmith.call.launch_plan import plan_launches
from gemmsmith.kernel.spec import Addresses, KernelSpec
from gemmsmith.userfile.kernels.user_kernel import UserOptions, user_kernel

KERNEL = """
struct Sched { int tiles, across; };
struct Clip { float low, high; };
__global__ void mine(const float* A, const float* B, float* C, int M, int N, int K, PARAMETER) {
    int row = blockIdx.x / 4 * 8 + threadIdx.y, col = blockIdx.x % 4 * 8 + threadIdx.x;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum + 0.0f * USED;
}
void run(const float* A, const float* B, float* C, int M, int N, int K, int splits) {
    int down = (M + 7) / 8, across = (N + 7) / 8;
    HOST
    mine<<<dim3(down * across, 1, GRID), dim3(8, 8)>>>(A, B, C, M, N, K, PASSED);
}
"""
ADDRESSES = Addresses(256, 512, 768, 1024)


def read(folder: Path, parameter: str, passed: str, host: str = "", grid: str = "1", template: str = "") -> KernelSpec:
    source = (
        KERNEL.replace("__global__", f"{template} __global__")
        .replace("PARAMETER", parameter)
        .replace("HOST", host)
        .replace("GRID", grid)
    )
    used = {"sched": "sched.tiles", "clip": "clip.low"}.get(parameter.split()[1], parameter.split()[1])
    (folder / "mine.cu").write_text(source.replace("PASSED", passed).replace("USED", used))
    return user_kernel(folder / "mine.cu", UserOptions())


def last_argument(spec: KernelSpec, *extents: int) -> bytes:
    argument = plan_launches(spec, spec.config(), spec.problem(*extents), ADDRESSES).kernel.arguments[-1]
    assert isinstance(argument, bytes)
    return argument


def test_a_reciprocal(tmp_path: Path) -> None:
    spec = read(tmp_path, "float inverse", "1.0f / across")
    assert [last_argument(spec, 16, n, 8) for n in (24, 328)] == [struct.pack("<f", 1 / 3), struct.pack("<f", 1 / 41)]


@pytest.mark.parametrize("host", [
    "Sched sched; sched.across = across; sched.tiles = down * across;", "Sched sched{down * across, across};",
])  # fmt: skip
def test_fields_of_a_struct(host: str, tmp_path: Path) -> None:
    spec = read(tmp_path, "Sched sched", "sched", host)
    assert last_argument(spec, 16, 24, 8) == struct.pack("<2i", 6, 3)


def test_an_object_in_the_call(tmp_path: Path) -> None:
    spec = read(tmp_path, "Sched sched", "Sched{down * across, across}")
    assert last_argument(spec, 16, 24, 8) == struct.pack("<2i", 6, 3)


def test_parts_whose_number_the_caller_chooses(tmp_path: Path) -> None:
    host = "int slice = ((K + splits - 1) / splits + 7) / 8 * 8;"
    spec = read(tmp_path, "int slice", "slice", host, grid="(K + slice - 1) / slice")
    assert [last_argument(spec, 16, 24, k) for k in (64, 65)] == [struct.pack("<i", 16), struct.pack("<i", 24)]
    assert spec.geometry(spec.problem(16, 24, 65), spec.config()).grid[2] == 3
    assert any(
        "grid (with 4 splits of K, assumed)" in line.what for line in spec.geometry.found(spec.problem(16, 24, 64))
    )


@pytest.mark.parametrize("passed", ["0.5f", "unknown(K)"])
def test_a_factor_is_no_number_of_the_launch(passed: str, tmp_path: Path) -> None:
    assert [arg.name for arg in read(tmp_path, "float factor", passed).signature.unknown] == ["factor"]


def test_an_extent_may_be_a_leading_dimension(tmp_path: Path) -> None:
    spec = read(tmp_path, "Sched sched", "sched", "Sched sched; sched.across = across; sched.tiles = N;")
    assert [arg.name for arg in spec.signature.unknown] == ["sched.tiles", "sched.across"]


@pytest.mark.parametrize("kind", ["Clip", "E"])
def test_the_numbers_of_an_epilogue_are_none_of_the_launch(kind: str, tmp_path: Path) -> None:
    """The type of a template's parameter is that of the object that the call makes."""
    template = "template <typename E>" if kind == "E" else ""
    spec = read(tmp_path, f"{kind} clip", "Clip{-6.0f, 6.0f}", template=template)
    assert [arg.name for arg in spec.signature.unknown] == ["clip.low", "clip.high"]


LAYER = """
__global__ void layer(float* out, const float* inp, const float* weight, int B, int C, int OC, int part) {
    int b = blockIdx.x * 16 + threadIdx.x, o = blockIdx.y * 16 + threadIdx.y;
    int end = min(C, (blockIdx.z + 1) * part);
    float sum = 0.0f;
    for (int c = blockIdx.z * part; c < end; ++c) sum += b < B && o < OC ? inp[b * C + c] * weight[o * C + c] : 0.0f;
    if (b < B && o < OC) atomicAdd(out + b * OC + o, sum);
}
void run(float* out, const float* inp, const float* weight, int B, int C, int OC, int splits, int wide) {
    HOST
    layer<<<dim3((B + 15) / 16, (OC + 15) / 16, splits), dim3(16, 16)>>>(out, inp, weight, B, C, OC, PASSED);
}
"""


@pytest.mark.parametrize(("host", "passed", "computed"), [
    ("int part = (C + splits - 1) / splits;", "part", True),
    ("", "splits", True),
    ("int part = wide;", "part", False),
    ("", "wide", False),
])  # fmt: skip
def test_beside_extents_that_are_tried_in_every_order(host: str, passed: str, computed: bool, tmp_path: Path) -> None:
    """Names that tell nothing are tried; what host code computes is none of them."""
    (tmp_path / "k.cu").write_text(LAYER.replace("HOST", host).replace("PASSED", passed), encoding="utf-8")
    spec = user_kernel(tmp_path / "k.cu", UserOptions())
    unknown = {arg.name for arg in spec.signature.unknown}
    assert unknown >= {"B", "C", "OC"}
    assert ("part" not in unknown) is computed
    assert bool(spec.geometry.passed) is computed  # type: ignore[attr-defined]
