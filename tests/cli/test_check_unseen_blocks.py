"""A kernel that asks for blockIdx.z, in a launch whose number of blocks along z is not understood."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import check

SCORES = """
__global__ void scores(const float* q, const float* k, float* out, int T, int S, int D) {
    int b = blockIdx.z, row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= T || col >= S) return;
    float s = 0;
    for (int d = 0; d < D; ++d) s += q[QUERY + d] * k[KEY + d];
    out[OUT + col] = s;
}
void run(const float* q, const float* k, float* o, int T, int S, int D, int heads) {
    scores<<<dim3((S + 15) / 16, (T + 15) / 16, heads), dim3(16, 16)>>>(q, k, o, T, S, D);
}
"""


@pytest.mark.parametrize(
    ("query", "key", "out"),
    [
        ("(b * T + row) * D", "(b * S + col) * D", "(b * S + row) * S"),  # rows of out begin at the wrong head
        ("b * T * D + row * D", "b / 4 * S * D + col * D", "b * S * S + row * S"),
    ],
)
def test_one_product_of_several_is_no_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], query: str, key: str, out: str
) -> None:
    source = SCORES.replace("QUERY", query).replace("KEY", key).replace("OUT", out)
    code, found = check(tmp_path, source, capsys, "--trial", "M, N and K all different")
    assert code == 2, found
    assert "only blockIdx.z = 0 was judged" in found
