"""Kernel templates that no launch gives values: the sources may name an instance."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.cli.main import run_command
from gemmsmith.errors import TemplateValueError
from gemmsmith.userfile.kernels.user_kernel import UserOptions, found_values, user_kernel

ABC = "const T* A, const T* B, T* C, int M, int N, int K"
KERNEL = f"""template <typename T, int TILE> __global__ void mine({ABC}) {{
    int row = blockIdx.y * TILE + threadIdx.y, col = blockIdx.x * TILE + threadIdx.x;
    if (row >= M || col >= N) return;
    T sum = TILE == 12 ? FIRST : 0;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
}}
"""
FLOATS = "const float*, const float*, float*, int, int, int"
STYLES = {
    "an explicit instantiation": f"template __global__ void mine<float, 12>({FLOATS});",
    "an attribute": (
        "void prepare() { constexpr int side = 12; cudaFuncSetAttribute(mine<float, side>,"
        " cudaFuncAttributeMaxDynamicSharedMemorySize, 70000); }"
    ),
    "a type by another name": (
        f"using real = float;\nconst int SIDE = 12;\ntemplate __global__ void mine<real, SIDE>({FLOATS});"
    ),
}  # fmt: skip


def _file(tmp_path: Path, host: str, first: str = "0") -> Path:
    file = tmp_path / "k.cu"
    file.write_text(KERNEL.replace("FIRST", first) + host, encoding="utf-8")
    return file


@pytest.mark.parametrize("style", STYLES)
def test_the_values_are_those_of_the_instance(style: str, tmp_path: Path) -> None:
    file = _file(tmp_path, STYLES[style])
    spec = user_kernel(file, UserOptions())
    assert spec.entry == "mine<float, 12>"
    assert spec.geometry(spec.problem(24, 36, 8), spec.config({})).block == (12, 12, 1)
    assert [found.value for found in found_values(file, UserOptions())] == ["T=float, TILE=12"]


def test_what_the_user_gives_comes_first(tmp_path: Path) -> None:
    file = _file(tmp_path, STYLES["an explicit instantiation"])
    assert user_kernel(file, UserOptions(entry="mine<double, 8>")).entry == "mine<double, 8>"


def test_an_instance_of_another_kernel_gives_none(tmp_path: Path) -> None:
    file = _file(tmp_path, "template <typename T, int N> void other() {}\ntemplate void other<float, 12>();")
    with pytest.raises(TemplateValueError):
        user_kernel(file, UserOptions())


@pytest.mark.parametrize(("first", "code"), [("0", 0), ("1", 1)])
def test_the_instance_is_judged(first: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With usual values of TILE both kernels are right."""
    file = _file(tmp_path, STYLES["an explicit instantiation"], first)
    assert run_command(["check", str(file), "--cures", "0", "--trial", "integers, bit for bit"]) == code
    assert "mine<float, 12>" in capsys.readouterr().out
