"""Values that a file sets, and what -D, #if and usual names make of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gemmsmith.problem import Problem
from gemmsmith.userfile.kernels.given_values import with_given_values
from gemmsmith.userfile.kernels.user_kernel import UserOptions, user_kernel
from gemmsmith.userfile.launches.template_guesses import template_guesses
from gemmsmith.userfile.text.conditions import condition_value
from gemmsmith.userfile.text.parts import TemplateParameter
from gemmsmith.userfile.text.preprocessor import preprocess

GIVEN = {
    "#define BM 64\n": ("#define BM 8\n", False),
    "# define  BM (2 * \\\n 32)\nx": ("# define  BM 8\n\nx", False),
    "#define BM(x) x\n": ("#define BM(x) x\n", False),
    "#define BMX 64\n": ("#define BMX 64\n", False),
    "const int BM = 64;": ("const int BM = 8;", True),
    "static constexpr int BK = 4, BM = max(1, (2)), BN = 3;": ("static constexpr int BK = 4, BM = 8, BN = 3;", True),
    "int f(const int* BM) { return BM == 0; }": ("int f(const int* BM) { return BM == 0; }", False),
    "int BM = 3;": ("int BM = 3;", False),
}


@pytest.mark.parametrize("text", GIVEN)
def test_a_given_value_replaces_the_files_own(text: str) -> None:
    expected, constant = GIVEN[text]
    made, constants = with_given_values(text, {"BM": "8"})
    assert (made, "BM" in constants) == (expected, constant)
    assert made.count("\n") == text.count("\n")


@pytest.mark.parametrize(("text", "holds"), [
    ("A", True), ("B", False), ("!B", True), ("A && B", False), ("A || unknown", True), ("unknown || B", None),
    ("B && unknown", False), ("A == 1 && C >= 0x10u", True), ("C / 3 == 5", True), ("defined(A) && !defined D", True),
    ("__CUDA_ARCH__ >= 800", True), ("f(3)", None), ("A +", None), ("E", True), ("1 << 70", None),
])  # fmt: skip
def test_conditions(text: str, holds: bool | None) -> None:
    assert condition_value(text, {"A": "1", "B": "0", "C": "16", "E": "(A * 2)"}) is holds


def test_the_branch_that_is_taken_defines_the_constants() -> None:
    text = "#define WIDE {}\n#if WIDE\n#define T 8\n#elif 1\n#define T 4\n#else\n#define T 2\n#endif\n"
    assert preprocess(text.format(1)).macros["T"].body == "8"
    assert preprocess(text.format(0)).macros["T"].body == "4"
    assert preprocess(text.format("SOMETHING_ELSE")).macros["T"].body == "4"
    assert preprocess('#include "own.h"\n' + text.format("SOMETHING_ELSE")).macros["T"].body == "8"


def test_usual_values_of_a_template() -> None:
    names = ("BLOCK_SIZE_M", "kBlockN", "BK", "THREAD_SIZE_X", "TM", "NUM_THREADS", "Stages")
    first = dict(next(template_guesses([TemplateParameter("int", name) for name in names])))
    assert list(first.values()) == ["64", "64", "16", "4", "4", "256", "2"]
    assert not list(template_guesses([TemplateParameter("int", "SMS")]))
    assert not list(template_guesses([TemplateParameter("Layout", "layout")]))


def test_a_header_elsewhere_in_the_repository_of_a_relative_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".git").mkdir()
    for folder in ("src", "common/inc", "other"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "common/inc/sizes.h").write_text("#define TILE 16\n", encoding="utf-8")
    (tmp_path / "other/sizes.h").write_text("#define TILE 16\n", encoding="utf-8")
    (tmp_path / "src/k.cu").write_text(
        '#include <sizes.h>\n__global__ void k(const float* A, const float* B, float* C, int M, int N, int K) {}\n',
        encoding="utf-8")  # fmt: skip
    monkeypatch.chdir(tmp_path / "src")
    assert user_kernel(Path("k.cu"), UserOptions()).entry == "k"


def test_a_template_argument_of_a_device_function_does_not_change_a_constant_of_the_file(tmp_path: Path) -> None:
    """``wait<0>()`` of a ``template <int N>`` leaves the file's N alone."""
    (tmp_path / "sized.cu").write_text("""
const int M = 64, N = 8, K = 16;
template <int N> __device__ void pause() { asm volatile("wgmma.wait_group.sync.aligned %0;" :: "n"(N)); }
__global__ void sized(const float* A, const float* B, float* C) {
    const int i = threadIdx.x / N, j = threadIdx.x % N;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) sum += A[i * K + k] * B[k * N + j];
    pause<0>();
    if (i < M) C[i * N + j] = sum;
}
void run(float* A, float* B, float* C) { sized<<<1, 512>>>(A, B, C); }
""")
    spec = user_kernel(tmp_path / "sized.cu", UserOptions())
    assert dict(spec.signature.fixed) == {"M": 64, "N": 8, "K": 16}
    # The one grid of host code is that of the one size.
    assert spec.geometry(Problem(64, 8, 16), spec.config()).grid == (1, 1, 1)
