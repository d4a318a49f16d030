"""Kernels given as PTX: launched, checked and profiled without a compiler."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gemmsmith
from gemmsmith.call.any_kernel.kernel import compile_launch
from gemmsmith.errors import SignatureError, UnknownKernelError, UsageError
from gemmsmith.verify.launch_check import check_launch

CODE = """
extern "C" __global__ void axpy(float a, const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}
"""


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ptx") / "axpy.ptx"
    path.write_text(compile_launch(CODE, "", {}, (), "sm_80").compiled.ptx)
    return path


def test_a_launch(file: Path) -> None:
    x, y = np.arange(100, dtype=np.float32), np.ones(100, np.float32)
    result = gemmsmith.launch(file, grid=1, block=128, args=[np.float32(2), x, y, 100])
    assert any(np.array_equal(value, 2 * x + 1) for value in result.written)
    assert result.launched.compiled.arch == "sm_80"
    assert not result.hazards


def test_words_and_expectation(file: Path) -> None:
    launch = gemmsmith.Launch(file, "axpy", 1, 128, "a=2.0:f32, x=randn(100,f32), y=randn(100,f32), n=100",
                              expect=lambda a, x, y: {"y": a * x + y})  # fmt: skip
    assert check_launch(launch).ok


def test_names_that_it_has_not(file: Path, tmp_path: Path) -> None:
    with pytest.raises(UnknownKernelError, match="no kernel called 'axpi'") as error:
        gemmsmith.launch(file, "axpi", grid=1, block=1)
    assert "did you mean axpy?" in error.value.hint
    with pytest.raises(UsageError, match="which has no macros"):
        gemmsmith.launch(file, grid=1, block=1, defines={"N": 1})
    other = tmp_path / "other.ptx"
    other.write_text("hello")
    with pytest.raises(SignatureError, match=r"other.ptx has no .target"):
        gemmsmith.launch(other, grid=1, block=1)
    both = tmp_path / "both.ptx"
    both.write_text(file.read_text() + "\n.visible .entry second() { ret; }\n")
    with pytest.raises(SignatureError, match="several kernels: axpy, second"):
        gemmsmith.launch(both, grid=1, block=1)
    assert gemmsmith.launch(both, "second", grid=1, block=1).written == ()
