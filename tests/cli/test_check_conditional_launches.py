"""gemmsmith check on a file whose kernel, block and grid are chosen by ``#if``: those of one build belong together."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

from gemmsmith.userfile.kernels.given_values import with_given_conditions
from gemmsmith.userfile.text.conditions import condition_value
from gemmsmith.userfile.text.preprocessor import preprocess

# A thread makes a column of C, an output, or an output by tiles. Nothing in the file defines the names of the builds.
BUILDS = """
#include <cuda_runtime.h>
#ifdef TILES
#define THREADS dim3(16, 16)
#define BLOCKS dim3(n / 16, n / 16)
__global__ void product(const float* a, const float* b, float* c, int n) {
    __shared__ float as[16][16], bs[16][16];
    int x = threadIdx.x, y = threadIdx.y, row = blockIdx.y * 16 + y, col = blockIdx.x * 16 + x;
    float sum = 0;
    for (int k = 0; k < n; k += 16) {
        as[y][x] = a[row * n + k + x];
        bs[y][x] = b[(k + y) * n + col];
        __syncthreads();
        for (int i = 0; i < 16; ++i) sum += as[y][i] * bs[i][x];
        __syncthreads();
    }
    c[row * n + col] = sum;
}
#elif OUTPUTS
#define THREADS dim3(64)
#define BLOCKS dim3(n * n / 64)
__global__ void product(const float* a, const float* b, float* c, int n) {
    int at = blockIdx.x * 64 + threadIdx.x, row = at / n, col = at % n;
    float sum = 0;
    for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + col];
    c[at] = sum;
}
#else
#define THREADS dim3(64)
#define BLOCKS dim3(n / 64)
__global__ void product(const float* a, const float* b, float* c, int n) {
    int col = blockIdx.x * 64 + threadIdx.x;
    for (int row = 0; row < n; ++row) {
        float sum = 0;
        for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + col];
        c[row * n + col] = sum;
    }
}
#endif
void run(const float* a, const float* b, float* c, int n) { product<<<BLOCKS, THREADS>>>(a, b, c, n); }
"""


@pytest.mark.parametrize(
    ("given", "grid", "block"),
    [
        ((), [1, 1, 1], [64, 1, 1]),
        (("-D", "OUTPUTS=1"), [64, 1, 1], [64, 1, 1]),
        (("-D", "TILES"), [4, 4, 1], [16, 16, 1]),
    ],
    ids=["neither", "OUTPUTS", "TILES"],
)
def test_the_launch_is_of_the_build_that_is_compiled(
    given: tuple[str, ...], grid: list[int], block: list[int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = check(tmp_path, BUILDS, capsys, *given, "--entry", "product", "--trial", "random data")
    assert code == 0, found
    assert (found["launch"]["grid"], found["launch"]["block"]) == (grid, block), found


def test_what_nothing_defines_is_zero_unless_a_header_may_define_it() -> None:
    text = "#if FAST\n#define SIDE 32\n#else\n#define SIDE 8\n#endif\n"
    assert preprocess(text).macros["SIDE"].body == "8"
    assert preprocess("#include <stdio.h>\n" + text).macros["SIDE"].body == "8"
    assert preprocess('#include "settings.h"\n' + text).macros["SIDE"].body == "32"
    assert condition_value("FAST && !SLOW", {}) is None
    assert condition_value("FAST || !SLOW", {}, all_known=True) is True


@pytest.mark.parametrize(
    ("condition", "made"),
    [
        ("#if X == 2", "#if 2 == 2"),
        ("#  elif defined(X) && defined Y", "#  elif 1 && defined Y"),
        ("#ifdef X // here", "#if 1"),
        ("#ifndef X", "#if 0"),
        ("#ifdef XY", "#ifdef XY"),
        ("#define X 3\n#if X", "#define X 3\n#if X"),
    ],
)
def test_given_values_in_conditions(condition: str, made: str) -> None:
    assert with_given_conditions(condition, {"X": "2"}) == made
