"""gemmsmith check on layers of networks: the samples of a batch are the rows of one product."""

from __future__ import annotations

from pathlib import Path

import pytest
from checking import QUICK, check

LAYER = """
__global__ void forward(const float* input, const float* weights, float* output, int SAMPLES, int INS, int OUTS) {
    int sample = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (sample >= SAMPLES || col >= OUTS) return;
    float sum = 0;
    for (int i = 0; i < INS; ++i) sum += input[sample * INS + i] * weights[INDEX];
    output[sample * OUTS + col] = sum;
}
void run(const float* input, const float* weights, float* output, int SAMPLES, int INS, int OUTS) {
    forward<<<dim3((OUTS + 15) / 16, (SAMPLES + 15) / 16), dim3(16, 16)>>>(input, weights, output, SAMPLES, INS, OUTS);
}
"""
NAMES = [("batch_size", "in_features", "out_features"), ("batch", "in", "out"), ("bs", "in_dim", "out_dim")]


def layer(names: tuple[str, str, str], index: str) -> str:
    source = LAYER.replace("INDEX", index)
    for word, name in zip(("SAMPLES", "INS", "OUTS"), names, strict=True):
        source = source.replace(word, name)
    return source


@pytest.mark.parametrize(("names", "index"), [
    (NAMES[0], "col * INS + i"), (NAMES[1], "i * OUTS + col"), (NAMES[2], "col * INS + i"),
])  # fmt: skip
def test_right(names: tuple[str, str, str], index: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """They were refused: a batch of products was looked for."""
    code, found = check(tmp_path, layer(names, index), capsys, *QUICK)
    assert (code, found["status"]) == (0, "right"), found


@pytest.mark.parametrize("index", ["i * OUTS + col % 15", "col * INS + i / 2 * 2"])
def test_wrong(index: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, found = check(tmp_path, layer(NAMES[0], index), capsys, "--cures", "0", *QUICK)
    assert (code, found["status"]) == (1, "wrong"), found
