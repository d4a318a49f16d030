"""A template's arguments are part of its name; a macro of the same name would break the template."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.errors import UsageError
from gemmsmith.userfile.kernels.user_kernel import UserOptions, user_kernel

BODY = """__global__ void k(const T* A, const T* B, T* C, int N) {
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    T s = 0;
    for (int i = 0; i < N; ++i) s += A[row * N + i] * B[i * N + col];
    C[row * N + col] = s;
}
"""
TEMPLATE = "template <const int BM, const int BN, int BK = 8, typename T = float>\n" + BODY


def made(folder: Path, source: str, **defines: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    (folder / "k.cu").write_text(source, encoding="utf-8")
    spec = user_kernel(folder / "k.cu", UserOptions(defines=tuple(defines.items())))
    return spec.entry, spec.extra_defines


@pytest.mark.parametrize(
    ("defines", "entry", "left"),
    [
        ({"BM": "64", "BN": "32"}, "k<64, 32>", ()),
        ({"BN": "32", "BM": "64", "X": "1"}, "k<64, 32>", (("X", "1"),)),
        ({"BM": "64", "BN": "32", "BK": "16"}, "k<64, 32, 16>", ()),
        ({"BM": "64", "BN": "32", "T": "double"}, "k<64, 32, 8, double>", ()),
    ],
)
def test_a_template_takes_its_values_from_defines(
    defines: dict[str, str], entry: str, left: tuple[tuple[str, str], ...], tmp_path: Path
) -> None:
    assert made(tmp_path, TEMPLATE, **defines) == (entry, left)


def test_a_template_parameter_without_value_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="says what BN is") as caught:
        made(tmp_path, TEMPLATE, BM="64")
    assert "-D BN=" in caught.value.hint


def test_a_default_that_names_another_parameter_has_its_value(tmp_path: Path) -> None:
    source = TEMPLATE.replace("int BK = 8", "int BK = 2 * BM")
    assert made(tmp_path, source, BM="64", BN="32", T="float")[0] == "k<64, 32, 2 * 64, float>"


def test_a_namespace_is_part_of_the_name(tmp_path: Path) -> None:
    source = "namespace ours { namespace inner {\n" + BODY.replace("T", "float") + "}}\n"
    assert made(tmp_path, source)[0] == "ours::inner::k"
