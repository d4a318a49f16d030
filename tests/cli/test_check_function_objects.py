"""gemmsmith check on kernels whose epilogue is a function object without members, which their callers choose."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

LINEAR = """
namespace {
struct Identity { __device__ float operator()(float v) const { return v; } };
struct Relu6 { __device__ float operator()(float v) const { return fminf(fmaxf(v, 0.0f), 6.0f); } };
template <class Act>
__global__ void linear(const float* X, const float* W, const float* b, float* Y, int M, int N, int K, Act act) {
    int n = blockIdx.x * 16 + threadIdx.x, m = blockIdx.y * 16 + threadIdx.y;
    if (m >= M || n GUARD N) return;
    float sum = b[n];
    for (int k = 0; k < K; ++k) sum += X[m * K + k] * W[n * K + k];
    Y[m * N + n] = act(sum);
}
}
void run(const float* X, const float* W, const float* b, float* Y, int M, int N, int K, int act) {
    dim3 block(16, 16), grid((N + 15) / 16, (M + 15) / 16);
    LAUNCHES
}
"""
LAUNCH = "linear<<<grid, block>>>(X, W, b, Y, M, N, K, {}{{}});".format
BOTH = f"if (act == 0) {LAUNCH('Identity')} else {LAUNCH('Relu6')}"


@pytest.mark.parametrize(("launches", "guard", "status", "said"), [
    (LAUNCH("Identity"), ">=", "right", "as A·B + bias"),
    (LAUNCH("Identity"), ">", "wrong", ""),
    (LAUNCH("Relu6"), ">=", "right", "clamp(X·Wᵀ + b, 0, 6)"),
    (LAUNCH("Relu6"), ">", "wrong", ""),
    (BOTH, ">=", "right", "as A·B + bias"),
], ids=["identity", "identity, wrong", "relu6", "relu6, wrong", "both"])  # fmt: skip
def test_a_function_object(
    launches: str, guard: str, status: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, found = check(tmp_path, LINEAR.replace("LAUNCHES", launches).replace("GUARD", guard), capsys)
    assert isinstance(found, dict), found
    assert (code, found["status"]) == (status == "wrong", status), found["verdict"]
    assert said in found["verdict"]
    if launches == BOTH:
        assert any("judged too, as clamp(X·Wᵀ + b, 0, 6)" in line for line in found["found"]), found["found"]


GELU = """struct Gelu {
    __device__ float operator()(float v) const { return 0.5f * v * (1 + tanhf(0.797885f * (v + CUBE * v * v * v))); }
};
"""


@pytest.mark.parametrize(("second", "launch", "status", "said"), [
    (GELU.replace("CUBE", "0.44715f"), "Gelu", "wrong", "gelu(X·Wᵀ + b)"),
    (GELU.replace("CUBE", "0.0446f"), "Gelu", "right", "not judged"),  # so near that it may be meant
    (GELU.replace("CUBE", "0.44715f").replace("Gelu", "Curve"), "Curve", "right", "not judged"),
    ("// A NaN before the activation gives a NaN.\n", "Relu6", "wrong", "NaN"),
    ("// For loss scaling.\n", "Relu6", "right", "judged too"),
], ids=["another constant", "an approximation", "of its own", "NaN is promised", "NaN is not promised"])  # fmt: skip
def test_an_object_beside_one_that_is_right(
    second: str, launch: str, status: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = LINEAR.replace("GUARD", ">=").replace("LAUNCHES", BOTH.replace("Relu6", launch))
    code, found = check(tmp_path, source.replace("template <class Act>", f"{second}\ntemplate <class Act>"), capsys)
    assert isinstance(found, dict), found
    assert (code, found["status"]) == (status == "wrong", status), found["found"]
    assert any(said in line for line in (found["verdict"], *found["found"])), found
