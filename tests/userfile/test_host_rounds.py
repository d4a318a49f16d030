"""Loops of host code that launch a kernel for one part of the product after another."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.errors import UsageError
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.userfile.host.host_rounds import Round
from gemmsmith.userfile.kernels.user_kernel import UserOptions, user_kernel

KERNEL = """
__global__ void part(const float* A, const float* B, float* C, int M, int N, int K, int lda, int ldb, int ldc,
                     bool add) {
    int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 8 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = add ? C[row * ldc + col] : 0.f;
    for (int k = 0; k < K; ++k) sum += A[row * lda + k] * B[k * ldb + col];
    C[row * ldc + col] = sum;
}
"""
HOST = "void run(const float* A, const float* B, float* C, int M, int N, int K) {{ dim3 block(8, 8); {body} }}"
GRID = "dim3((N + 7) / 8, (M + 7) / 8)"
PANEL = "dim3((N + 7) / 8, (rows + 7) / 8)"


def spec_of(path: Path, body: str) -> KernelSpec:
    path.write_text(KERNEL + HOST.format(body=body))
    spec = user_kernel(path, UserOptions())
    return spec.read_as(spec.signature, "NN")


def rounds_of(path: Path, body: str, m: int, n: int, k: int) -> tuple[Round, ...]:
    found: tuple[Round, ...] = spec_of(path, body).geometry.rounds(Problem(m, n, k))  # type: ignore[attr-defined]
    return found


CHUNKS = {
    "for": "for (int k = 0; k < K; k += 48) {{ int kc = K - k < 48 ? K - k : 48; {launch} }}",
    "while": "int k = 0; while (k < K) {{ const int kc = min(48, K - k); {launch} k += kc; }}",
    "pieces": "const int pieces = (K + 47) / 48; for (int p = 0; p < pieces; ++p) {{ int k = p * 48; "
              "int kc = min(48, K - k); {launch} }}",
    "do": "int k = 0; do {{ const int kc = min(48, K - k); {launch} k += kc; }} while (k < K);",
    "break": "for (int k = 0; k < K + 48; k += 48) {{ if (k >= K) break; const int kc = min(48, K - k); {launch} }}",
    "continue": "for (int k = -48; k < K; k += 48) {{ if (k < 0) continue; const int kc = min(48, K - k); {launch} }}",
    "moved": "const float* a = A; const float* b = B; int k = 0; for (; k < K; k += 48) {{ int kc = min(48, K - k); "
             "part<<<" + GRID + ", block>>>(a, b, C, M, N, kc, K, N, N, k != 0); a += kc; b += kc * N; }}",
}  # fmt: skip


@pytest.mark.parametrize("style", CHUNKS)
def test_chunks_of_k(tmp_path: Path, style: str) -> None:
    launch = f"part<<<{GRID}, block>>>(A + k, &B[(size_t)k * N], C, M, N, kc, K, N, N, k > 0);"
    found = rounds_of(tmp_path / "k.cu", CHUNKS[style].format(launch=launch), 20, 30, 100)
    assert [each.numbers[5] for each in found] == [48, 48, 4]
    assert [each.numbers[9] for each in found] == [0, 1, 1]
    assert [(each.offsets[0], each.offsets[1], each.offsets[2]) for each in found] == [
        (0, 0, 0), (48, 48 * 30, 0), (96, 96 * 30, 0)]  # fmt: skip
    assert {each.grid for each in found} == {(4, 3, 1)}


def test_panels_of_rows_have_their_own_grids(tmp_path: Path) -> None:
    body = (
        f"for (int i = 0; i < M; i += 32) {{ int rows = M - i < 32 ? M - i : 32; "
        f"part<<<{PANEL}, block>>>(A + i * K, B, C + i * N, rows, N, K, K, N, N, false); }}"
    )
    spec = spec_of(tmp_path / "k.cu", body)
    found = spec.geometry.rounds(Problem(40, 8, 5))  # type: ignore[attr-defined]
    assert [(each.grid, each.numbers[3]) for each in found] == [((1, 4, 1), 32), ((1, 1, 1), 8)]
    assert [each.offsets for each in found] == [{0: 0, 1: 0, 2: 0}, {0: 160, 1: 0, 2: 256}]
    assert spec.geometry.divided == {"M"}  # type: ignore[attr-defined]


def test_rows_with_padding_have_no_place_in_such_host_code(tmp_path: Path) -> None:
    launch = f"part<<<{GRID}, block>>>(A + k, B + k * N, C, M, N, kc, K, N, N, k > 0);"
    spec = spec_of(tmp_path / "k.cu", CHUNKS["for"].format(launch=launch))
    with pytest.raises(UsageError, match="contiguous"):
        spec.geometry.rounds(Problem(20, 30, 100, ldb=40))  # type: ignore[attr-defined]


@pytest.mark.parametrize("body", [
    f"for (int i = 0; i < 10; ++i) part<<<{GRID}, block>>>(A, B, C, M, N, K, K, N, N, false);",  # measures time
    f"for (int k = 0; k < K; k += next(k)) part<<<{GRID}, block>>>(A + k, B, C, M, N, K, K, N, N, false);",
    f"for (int k = 0; k < K; k += 8) {{ if (end(k)) break; part<<<{GRID}, block>>>(A + k, B, C, M, N, 8, K, N, N); }}",
])  # fmt: skip
def test_other_loops_are_left_alone(tmp_path: Path, body: str) -> None:
    assert rounds_of(tmp_path / "k.cu", body, 20, 30, 100) == ()
