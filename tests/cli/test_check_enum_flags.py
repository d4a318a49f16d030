"""Flags of an enumeration that choose a layout: `op == OP_T`, `layout == Layout::Row`, also in device functions."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.cli.main import run_command

ABC = "const float* A, const float* B, float* C, int M, int N, int K"
KERNEL = f"""
TYPE
__global__ void gemm({ABC}, KIND op_b) {{
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[INDEX];
    C[row * N + col] = sum;
}}
void run({ABC}, KIND op_b) {{
    gemm<<<dim3((N + 15) / 16, (M + 15) / 16), dim3(16, 16)>>>(A, B, C, M, N, K, op_b);
}}
"""
AT = "__device__ int at(int r, int c, int rows, int cols, Op op) { switch (op) { case Op::T: return c * rows + r;"
# The type, its name in the kernel, the index of B, and a value that is found.
RIGHT = {
    "enum class": ("enum class Op { N, T };", "Op", "op_b == Op::T ? col * K + k : k * N + col", "0"),
    "enum with numbers": ("typedef enum { OP_N = 111, OP_T = 112 } op_t;", "op_t",
                          "op_b != OP_N ? col * K + k : k * N + col", "111"),
    "of a namespace": ("namespace la { enum class Order : unsigned char { Row = 1, Col = 2 }; }", "la::Order",
                       "op_b == la::Order::Col ? col * K + k : k * N + col", "1"),
    "a macro": ("#define OP_T 3", "int", "op_b == OP_T ? col * K + k : k * N + col", "0"),
    "a switch in a device function": (f"enum class Op {{ N = 4, T = 5 }};\n{AT} default: return r * cols + c; }} }}",
                                      "Op", "at(k, col, K, N, op_b)", "4"),
}  # fmt: skip
WRONG = {
    "enum class": ("enum class Op { N, T };", "Op", "op_b == Op::T ? col * N + k : k * N + col"),
    "a device function": (f"enum class Op {{ N, T }};\n{AT.replace('rows + r', 'cols + r')} default:"
                          " return r * cols + c; } }", "Op", "at(k, col, K, N, op_b)"),
}  # fmt: skip


def written(folder: Path, kind: str, name: str, index: str) -> str:
    (folder / "k.cu").write_text(KERNEL.replace("TYPE", kind).replace("KIND", name).replace("INDEX", index))
    return str(folder / "k.cu")


@pytest.mark.parametrize(("kind", "name", "index", "value"), RIGHT.values(), ids=RIGHT)
def test_a_value_of_the_enumeration_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, name: str, index: str, value: str
) -> None:
    code = run_command(["check", written(tmp_path, kind, name, index), "--trial", "random data", "--cures", "0"])
    said = capsys.readouterr()
    assert code == 0, said
    assert f"op_b is {value}" in said.out


@pytest.mark.parametrize(("kind", "name", "index"), WRONG.values(), ids=WRONG)
def test_each_value_must_give_a_product(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, name: str, index: str
) -> None:
    assert run_command(["check", written(tmp_path, kind, name, index), "--cures", "0"]) == 1
    assert "op_b = 1" in capsys.readouterr().out
