"""__constant__ and __device__ variables of a launch."""

from __future__ import annotations

import numpy as np
import pytest

import gemmsmith
from gemmsmith.call.launch import Launch
from gemmsmith.errors import SimulationError, UsageError
from gemmsmith.verify.launch_check import check_launch

CODE = """
__constant__ float taps[3];
namespace ours { __device__ int count; }
static __device__ float unused;
__global__ void filter(const float* x, float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = taps[0] * x[i] + taps[1] * x[i + 1] + taps[2] * x[i + 2];
    if (i == 0) ours::count += n;
}
"""
X = np.arange(10, dtype=np.float32)
TAPS = np.array([1, 10, 100], np.float32)
EXPECTED = (X[:8] + 10 * X[1:9] + 100 * X[2:]).tolist()


def test_variables_are_set_before_and_read_after_a_launch() -> None:
    result = gemmsmith.launch(CODE, grid=1, block=32, args=[X, np.zeros(8, np.float32), 8],
                              symbols={"taps": TAPS, "ours::count": np.int32(5)})  # fmt: skip
    assert result["out"].tolist() == EXPECTED
    assert result.symbols["taps"].tolist() == TAPS.tolist()
    assert int(result.symbols["ours::count"]) == 13


def test_they_start_as_the_source_says() -> None:
    again = [gemmsmith.launch(CODE.replace("taps[3]", "taps[3] = {1, 10, 100}"), grid=1, block=32,
                              args=[X, np.zeros(8, np.float32), 8], symbols={"count": np.int32(0)})
             for _ in range(2)]  # fmt: skip
    assert [int(each.symbols["count"]) for each in again] == [8, 8]
    assert again[0]["out"].tolist() == EXPECTED


def test_what_cannot_be_set_is_said() -> None:
    def launch(**symbols: object) -> object:
        return gemmsmith.launch(CODE, grid=1, block=32, args=[X, np.zeros(8, np.float32), 8], symbols=symbols)

    with pytest.raises(UsageError, match="filter uses no variable called 'tap'") as raised:
        launch(tap=TAPS)
    assert "did you mean taps?" in raised.value.hint
    with pytest.raises(UsageError, match="the variable taps has 12 bytes, and 16 were given"):
        launch(taps=np.zeros(4, np.float32))
    with pytest.raises(UsageError, match="the variable taps cannot hold a dict"):
        launch(taps={})


def test_a_check_sets_them_in_every_trial() -> None:
    launch = Launch(CODE, grid=1, block=32, args="x=randn(10), out=empty(8), n=8", symbols={"taps": TAPS},
                    expect=lambda x: {"out": x[:8] + 10 * x[1:9] + 100 * x[2:]})  # fmt: skip
    assert check_launch(launch).ok


def test_an_access_past_a_variable_names_it() -> None:
    with pytest.raises(SimulationError, match=r"taps\[3\], 1 past its end"):
        gemmsmith.launch(CODE.replace("taps[2]", "taps[n - 5]"), grid=1, block=32, symbols={"taps": TAPS},
                         args=[X, np.zeros(8, np.float32), 8])  # fmt: skip
