"""Whether host code asks a kernel for M ≠ N: by two names that it gives no equal values."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.userfile.kernels.user_kernel import UserOptions, user_kernel
from gemmsmith.verify.host.meant_shapes import means_rectangles

KERNEL = "__global__ void mine(const float* A, const float* B, float* C, int M, int N, int K) { C[0] = A[0] * B[0]; }\n"
LAUNCH = "int main() {{ float* p; {}; mine<<<1, 32>>>(p, p, p, rows, columns, 64); }}"


@pytest.mark.parametrize(("declared", "apart"), [
    ("int rows = 512, columns = 512", False),
    ("int rows = 512, columns = 256", True),
    ("const int rows { 512 }; const int columns { 512 }", False),
    ("const int rows{512}; const int columns{256}", True),
    ("int rows(512), columns(512)", False),
    ("int rows(512), columns(256)", True),
    ("int rows = 512; int columns = rows", False),
    ("int rows = argc >= 2 ? atoi(argv[1]) : 512; int columns = 512; if (argc > 2) columns = atoi(argv[2])", True),
    ("int rows = 512, columns = 512; rows = columns = atoi(argv[1])", False),
])  # fmt: skip
def test_two_names_of_one_value(tmp_path: Path, declared: str, apart: bool) -> None:
    path = tmp_path / "mine.cu"
    path.write_text(KERNEL + LAUNCH.format(declared), encoding="utf-8")
    assert means_rectangles(user_kernel(path, UserOptions())) is apart
