"""Integer scalars, C and bias that 8, 16 and 24 bits do not hold are tried; relu may be written as a product."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from certificate_kernels import ARCH
from ptx_only import compile_to_ptx

from gemmsmith.compile.compiler import compile_for
from gemmsmith.sim.device import SimDevice
from gemmsmith.userfile.kernels.user_kernel import UserOptions, user_kernel
from gemmsmith.verify.code.float_constants import compared_floats
from gemmsmith.verify.code.kernel_edges import kernel_edges
from gemmsmith.verify.harness import verify_launch
from gemmsmith.verify.trials.check_shapes import check_shapes, tile_of_grid
from gemmsmith.verify.trials.edge_trials import edge_trials
from gemmsmith.verify.trials.trial_subject import Subject

KERNEL = """
__global__ void dot(const TYPE* A, const TYPE* B, EXTRA OUT* C, int M, int N, int K SCALARS) {
    int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 8 + threadIdx.x;
    if (row >= M || col >= N) return;
    OUT sum = 0;
    for (int k = 0; k < K; ++k) sum += A[(size_t)row * K + k] * B[(size_t)k * N + col];
    C[(size_t)row * N + col] = RESULT;
}
// gemmsmith: block=8,8 grid=ceil(N/8),ceil(M/8)
"""
SCALARS = ", int alpha, int beta"
RIGHT = "alpha * sum + (beta ? beta * C[(size_t)row * N + col] : 0)"


def passes(folder: Path, result: str, label: str, scalars: str = "", extra: str = "", kind: str = "signed char",
           activation: str = "") -> bool:  # fmt: skip
    """Whether the kernel passes the trial ``label`` that is planned for it."""
    source = KERNEL.replace("EXTRA", extra).replace("SCALARS", scalars).replace("RESULT", result)
    path = folder / "k.cu"
    path.write_text(source.replace("OUT", "float" if kind == "float" else "int").replace("TYPE", kind))
    spec = user_kernel(path, UserOptions())
    spec = spec.read_as(replace(spec.signature, activation=activation), "NN")
    config = spec.config()
    base = spec.problem(*check_shapes(spec, config).base)
    compiled = compile_for(spec, config, base, ARCH)
    edges, floats = kernel_edges(spec, config, compiled, base), compared_floats(compiled.ptx)
    subject = Subject(
        spec, config, base, tile_of_grid(spec, config), edges, floats=floats, c="set" if scalars else "unset"
    )
    labels = {each.label: each for each in edge_trials(subject)}
    assert label in labels, (floats, list(labels))
    trial = labels[label]
    found = verify_launch(SimDevice(ARCH), spec, config, trial.problem, compile_fn=compile_to_ptx, fill=trial.fill,
                          mode=trial.mode, c=trial.c)  # fmt: skip
    assert not found.faulted, found.reasons
    return found.ok


LARGEST, LARGE = "the largest integers", "alpha 1000, beta -3"


@pytest.mark.parametrize(("result", "label", "ok"), [
    (RIGHT, LARGEST, True),
    (RIGHT, LARGE, True),
    (RIGHT.replace("beta * C", "beta * (short)C"), LARGEST, False),
    (RIGHT.replace("beta * C", "beta * (int)(float)C"), LARGEST, False),
    (RIGHT.replace("alpha *", "(signed char)alpha *"), LARGE, False),
], ids=["right", "right, large alpha", "C of 16 bits", "C of 24 bits", "alpha of 8 bits"])  # fmt: skip
def test_scalars_and_old_results(result: str, label: str, ok: bool, tmp_path: Path) -> None:
    assert passes(tmp_path, result, label, SCALARS) == ok


@pytest.mark.parametrize(("bias", "ok"), [("bias[col]", True), ("(short)bias[col]", False)])
def test_a_bias(bias: str, ok: bool, tmp_path: Path) -> None:
    assert passes(tmp_path, f"sum + {bias}", LARGEST, extra="const int* bias,") == ok


@pytest.mark.parametrize("bound", ["50000.0f", "1e9f"])
def test_both_sides_of_a_large_bound_of_alpha(bound: str, tmp_path: Path) -> None:
    beyond = float(bound[:-1]) * 1.53125
    label = f"alpha {beyond:g}, beta {-beyond:g}"
    scalars, term = ", float alpha, float beta", "C[(size_t)row * N + col]"
    assert not passes(tmp_path, f"fminf(alpha, {bound}) * sum + beta * {term}", label, scalars, kind="float")


NONFINITE, ZEROS = "NaN and Inf in A and B", "the sign of zero"


@pytest.mark.parametrize("label", [NONFINITE, ZEROS])
@pytest.mark.parametrize("relu", ["sum * (sum > 0.0f)", "0.5f * (sum + fabsf(sum))", "sum > 0.0f ? sum : 0.0f",
                                  "-fminf(-sum, 0.0f)"])  # fmt: skip
def test_ways_to_write_relu(relu: str, label: str, tmp_path: Path) -> None:
    """NaN for minus infinity and -0 below 0, as some formulas give, are no mistakes."""
    assert passes(tmp_path, relu, label, kind="float", activation="relu")


@pytest.mark.parametrize("relu", [
    "isinf(sum) ? -sum : fmaxf(sum, 0.0f)",
    "isinf(sum) ? sum - sum : fmaxf(sum, 0.0f)",
    "isinf(sum) && sum < 0.0f ? 65504.0f : fmaxf(sum, 0.0f)",
], ids=["the sign of infinity", "NaN for plus infinity", "a number for minus infinity"])  # fmt: skip
def test_relu_that_errs_at_infinity(relu: str, tmp_path: Path) -> None:
    assert not passes(tmp_path, relu, NONFINITE, kind="float", activation="relu")


def test_relu_that_spreads_nan(tmp_path: Path) -> None:
    spread = "sum > 0.0f ? sum : 0.0f * A[0] * B[1]"  # of an element that is infinite
    assert passes(tmp_path, "fmaxf(sum, 0.0f)", NONFINITE, kind="float", activation="relu")
    assert not passes(tmp_path, spread, NONFINITE, kind="float", activation="relu")
