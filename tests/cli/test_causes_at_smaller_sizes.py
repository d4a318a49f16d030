"""A kernel whose sizes are constants, too large for the simulator, is tried at several smaller ones. Causes of a fault
are looked for at those of the report alone."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gemmsmith.cli.check_attempts import check_product
from gemmsmith.cli.check_prepare import Asked
from gemmsmith.cli.options.device import CacheOptions, DeviceOptions
from gemmsmith.cli.options.kernel import KernelOptions
from gemmsmith.cli.options.problem import ShapeOptions
from gemmsmith.cli.options.verification import VerificationOptions
from gemmsmith.verify.meaning.settled import Settled

FILE = """
#define ROWS 65536
#define COLUMNS 65536
#define DEPTH 65536
#define M ROWS
#define N COLUMNS
#define K DEPTH
__global__ void fixed(const float* A, const float* B, float* C) {
  int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
  float sum = 0;
  for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
  C[row * N + col] = sum;
}
void run(float* A, float* B, float* C) { fixed<<<dim3(N / 16, M / 16), dim3(16, 16)>>>(A, B, C); }
"""


@pytest.mark.parametrize("last", ["right", "racy", "wrong"])
def test_causes_are_looked_for_once(last: str, tmp_path: Path) -> None:
    path = tmp_path / "fixed.cu"
    path.write_text(FILE)
    asked = Asked(str(path), KernelOptions(), ShapeOptions(), True, DeviceOptions("sim"), 60, VerificationOptions(),
                  CacheOptions(), cures=10)  # fmt: skip
    given: list[tuple[float, tuple[str, ...]]] = []

    def check(spec: Any, _config: Any, each: Asked) -> Any:
        status = last if given else "wrong"
        given.append((each.cures, tuple(each.options.define or ())))
        verdicts = [] if status == "right" else [(None, SimpleNamespace(trusted=False))]
        return SimpleNamespace(status=status, verdicts=verdicts, settled=Settled(spec))

    report = check_product(asked, check)
    seconds = [cures for cures, _ in given]
    assert report.status == last
    assert "would take the simulator too long" in report.settled.lines[0]
    assert seconds[0] == seconds[1] == 0
    if last == "right":
        assert len(given) == 2
    else:
        assert seconds[2:] == [0] * (len(given) - 3) + [10]
        assert given[-1][1] == given[-2][1] != given[0][1]
        assert (len(given) == 3) == (last == "racy")
