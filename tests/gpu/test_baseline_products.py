"""On a GPU: every baseline against float64, in every type and layout, under capture, and with torch left as it was."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

from gemmsmith.fills import operands
from gemmsmith.problem import BF16, FP16, FP32, Problem
from gemmsmith.run.baselines import BASELINES, baseline_named
from gemmsmith.run.baselines.cublas import Cublas
from gemmsmith.run.baselines.triton_contender import TILES, TritonGemm
from gemmsmith.run.contender import Contender, Enqueue, OperandSet
from gemmsmith.run.cuda import cuda_device, gpu_available
from gemmsmith.run.memory import GuardedMatrix
from gemmsmith.verify.oracles.bounds import error_ratios
from gemmsmith.verify.oracles.reference import float64_reference

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not gpu_available(), reason="needs an NVIDIA GPU")]

RAGGED = (129, 67, 95)
LAYOUTS = ["NN", "NT", "TN", "TT"]
PAIRS = [(FP32, FP32), (FP16, FP32), (FP16, FP16), (BF16, FP32), (BF16, BF16)]
CASES = [(name, *pair) for name in BASELINES for pair in PAIRS if pair[0] == FP32 or not name.endswith("tf32")]
# Largest accepted error over u·|A||B|, u = 2**−24. fp32: as everywhere. 16-bit inputs: tensor cores truncate each of
# the K/16 partial sums, which is at most four such units a step at K = 95. TF32: both factors lose up to 2**−10.
FP32_GATE = 16.0
TENSOR_GATE = 32.0
TF32_GATE = 2.0**24 * 2.0**-9


@pytest.fixture(name="stream")
def _stream() -> Iterator[int]:
    from cuda.bindings import driver

    device = cuda_device()
    with device.current():
        stream = done(driver.cuStreamCreate(int(driver.CUstream_flags.CU_STREAM_NON_BLOCKING)))
        yield int(stream)
        done(driver.cuStreamDestroy(stream))


@pytest.fixture(autouse=True, scope="module")
def _triton_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TRITON_CACHE_DIR", str(tmp_path_factory.mktemp("triton")))
        yield


def done(result: tuple[Any, ...]) -> Any:
    status, *values = result
    assert int(status) == 0, status
    return values[0] if values else None


class Bench:
    """Sets of guarded operands with different data, and how wrong the C of each is."""

    def __init__(self, problem: Problem, held: ExitStack, count: int = 2) -> None:
        self.problem = problem
        self.data = [operands(problem, seed=seed) for seed in range(count)]
        self._matrices = []
        for data in self.data:
            shapes = ((problem.a_shape, problem.dtype), (problem.b_shape, problem.dtype))
            a, b, c = (
                held.enter_context(GuardedMatrix.create(cuda_device(), shape, shape[1], dtype, name=name))
                for name, (shape, dtype) in zip("ABC", (*shapes, (problem.c_shape, problem.out_dtype)), strict=True)
            )
            a.upload(data.a)
            b.upload(data.b)
            if problem.beta != 0:
                c.upload(data.c)
            self._matrices.append((a, b, c))
        self.sets = [OperandSet(a.address, b.address, c.address) for a, b, c in self._matrices]

    def output(self, index: int) -> np.ndarray[Any, Any]:
        cuda_device().synchronize()
        return self._matrices[index][2].download()

    def untouched(self, index: int) -> bool:
        values = self.output(index)
        before = self.data[index].c if self.problem.beta != 0 else None
        return bool(np.isnan(values.astype(np.float64)).all() if before is None else (values == before).all())

    def rho(self, index: int) -> float:
        """The worst error; NaN, which no gate accepts, where an element is one. Guards and inputs must be intact."""
        got = self.output(index)
        for matrix, is_input in zip(self._matrices[index], (True, True, False), strict=True):
            assert matrix.damage(is_input=is_input) == ()
        data = self.data[index]
        return float(np.max(error_ratios(self.problem, got, float64_reference(self.problem, data.a, data.b, data.c))))


def limit(problem: Problem, precision: str) -> float:
    if precision == "tf32":
        return TF32_GATE
    if precision == "fp32":
        return FP32_GATE
    # Writing 16 bits rounds once more, by at most u of that type; twice that, for sums of parts kept in it.
    rounding = 0.0 if problem.out_dtype == FP32 else 2 * problem.out_dtype.unit_roundoff / FP32.unit_roundoff
    return TENSOR_GATE + rounding


def made(name: str, problem: Problem) -> Contender:
    """One tile is enough where Triton's choice is not what is looked at."""
    if name == "triton":
        pytest.importorskip("triton")
        return TritonGemm([tile for tile in TILES[problem.dtype.name] if (tile.bm, tile.bn) == (64, 64)][:1])
    return baseline_named(name)


def problem_of(
    layout: str, dtype: Any = FP32, out: Any = FP32, shape: tuple[int, int, int] = RAGGED, **more: Any
) -> Problem:
    return Problem(*shape, dtype, out, trans_a=layout[0] == "T", trans_b=layout[1] == "T", **more)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("name", "dtype", "out"), CASES, ids=str)
def test_each_type_and_layout(name: str, dtype: Any, out: Any, layout: str, stream: int) -> None:
    problem = problem_of(layout, dtype, out)
    contender = made(name, problem)
    with ExitStack() as held:
        bench = Bench(problem, held)
        held.callback(contender.close)
        enqueue = contender.prepare(problem, bench.sets, stream)
        assert bench.untouched(0), "prepare wrote to C"
        assert bench.untouched(1), "prepare wrote to C"
        enqueue(1)
        assert bench.untouched(0), "the product went to another set"
        enqueue(0)
        precision = "tf32" if name.endswith("tf32") else dtype.name
        assert contender.identity.precision == precision
        assert f"{out} output" in contender.identity.config
        assert contender.identity.version
        for index in range(2):
            assert bench.rho(index) <= limit(problem, precision)


@pytest.mark.parametrize(("alpha", "beta"), [(0.7, 0.0), (1.0, 1.0), (-0.5, 2.0), (0.0, 0.5)])
@pytest.mark.parametrize(("dtype", "out"), PAIRS[:3], ids=lambda d: d.name)
@pytest.mark.parametrize("name", ["cublas", "cublaslt", "triton"])
def test_alpha_and_beta(name: str, dtype: Any, out: Any, alpha: float, beta: float, stream: int) -> None:
    problem = problem_of("NN", dtype, out, alpha=alpha, beta=beta)
    contender = made(name, problem)
    with ExitStack() as held:
        bench = Bench(problem, held, count=1)
        held.callback(contender.close)
        enqueue = contender.prepare(problem, bench.sets, stream)
        assert bench.untouched(0), "prepare wrote to C"
        enqueue(0)
        assert bench.rho(0) <= limit(problem, dtype.name)


@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 513, 77), (513, 1, 77), (64, 64, 4096), (256, 384, 512)])
@pytest.mark.parametrize("dtype", [FP32, BF16], ids=str)
@pytest.mark.parametrize("name", ["cublas", "cublaslt", "triton"])
def test_shapes(name: str, dtype: Any, shape: tuple[int, int, int], stream: int) -> None:
    problem = problem_of("NN", dtype, FP32, shape)
    contender = made(name, problem)
    with ExitStack() as held:
        bench = Bench(problem, held, count=1)
        held.callback(contender.close)
        contender.prepare(problem, bench.sets, stream)(0)
        # Truncation of K/16 partial sums on tensor cores: 2·√K, as the harness allows where errors grow.
        growth = 1.0 if dtype == FP32 else max(1.0, np.sqrt(shape[2]) / 8)
        assert bench.rho(0) <= growth * limit(problem, dtype.name)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_torch_and_the_library_itself_agree(layout: str, stream: int) -> None:
    pytest.importorskip("torch")
    problem = problem_of(layout)
    outputs = []
    for contender, call in ((Cublas(), "torch.mm"), (Cublas(without_torch=True), "cublasGemmEx")):
        with ExitStack() as held:
            bench = Bench(problem, held, count=1)
            held.callback(contender.close)
            contender.prepare(problem, bench.sets, stream)(0)
            assert contender.identity.config.startswith(call)
            assert "cuBLAS " in contender.identity.version
            assert bench.rho(0) <= FP32_GATE
            outputs.append(bench.output(0).astype(np.float64))
            data = bench.data[0]
    magnitude = float64_reference(problem, data.a, data.b, data.c).magnitude
    difference = np.abs(outputs[0] - outputs[1]) / (FP32.unit_roundoff * magnitude)
    assert float(np.max(difference)) <= FP32_GATE


@pytest.mark.parametrize(("dtype", "out"), PAIRS[1:], ids=lambda d: d.name)
def test_the_library_itself_takes_16_bit_types(dtype: Any, out: Any, stream: int) -> None:
    problem = problem_of("NT", dtype, out)
    contender = Cublas(without_torch=True)
    with ExitStack() as held:
        bench = Bench(problem, held, count=1)
        held.callback(contender.close)
        contender.prepare(problem, bench.sets, stream)(0)
        assert contender.identity.config == f"cublasGemmEx, {out} output"
        assert bench.rho(0) <= limit(problem, dtype.name)


def tf32_and_fp32() -> list[Any]:
    return [
        pytest.param(Cublas(), Cublas(tf32=True), id="cublas"),
        pytest.param(Cublas(without_torch=True), Cublas(tf32=True, without_torch=True), id="wheel"),
        pytest.param(baseline_named("cublaslt"), baseline_named("cublaslt-tf32"), id="cublaslt"),
    ]


@pytest.mark.parametrize(("plain", "fast"), tf32_and_fp32())
def test_tf32_is_not_fp32(plain: Contender, fast: Contender, stream: int) -> None:
    problem = Problem(256, 256, 256)
    with ExitStack() as held:
        bench = Bench(problem, held)
        held.callback(plain.close)
        held.callback(fast.close)
        in_fp32 = plain.prepare(problem, bench.sets, stream)
        in_tf32 = fast.prepare(problem, bench.sets, stream)
        # Interleaved in one process: neither may take on the other's arithmetic.
        for _ in range(2):
            in_fp32(0)
            in_tf32(1)
        assert bench.rho(0) <= FP32_GATE
        assert 10 * FP32_GATE < bench.rho(1) <= TF32_GATE


def replayed(enqueue: Enqueue, indices: list[int], stream: int) -> Any:
    """Captured into a graph; the answer replays it."""
    from cuda.bindings import driver

    mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_THREAD_LOCAL
    done(driver.cuStreamBeginCapture(stream, mode))
    for index in indices:
        enqueue(index)
    graph = done(driver.cuStreamEndCapture(stream))
    ready = done(driver.cuGraphInstantiate(graph, 0))
    return lambda: done(driver.cuGraphLaunch(ready, stream))


@pytest.mark.parametrize("name", BASELINES)
def test_captured_into_a_graph(name: str, stream: int) -> None:
    problem = problem_of("NN", shape=(256, 192, 128))
    contender = made(name, problem)
    with ExitStack() as held:
        bench = Bench(problem, held)
        held.callback(contender.close)
        enqueue = contender.prepare(problem, bench.sets, stream)
        replay = replayed(enqueue, [0, 1], stream)
        assert bench.untouched(0), "capture ran the product"
        replay()
        gate = limit(problem, contender.identity.precision)
        for index in range(2):
            assert bench.rho(index) <= gate
        if name.endswith("tf32"):
            assert bench.rho(0) > 10 * FP32_GATE, "the graph kept another arithmetic than it was captured with"


def test_captured_without_torch(stream: int) -> None:
    problem = problem_of("TN", BF16, BF16)
    contender = Cublas(without_torch=True)
    with ExitStack() as held:
        bench = Bench(problem, held)
        held.callback(contender.close)
        replay = replayed(contender.prepare(problem, bench.sets, stream), [1, 0], stream)
        replay()
        for index in range(2):
            assert bench.rho(index) <= limit(problem, "bf16")


@pytest.mark.parametrize("name", ["cublas", "cublas-tf32"])
@pytest.mark.parametrize("before", ["highest", "high", "medium"])
def test_torchs_settings_are_left_alone(name: str, before: str, stream: int) -> None:
    torch = pytest.importorskip("torch")
    problem = problem_of("NN")
    torch.set_float32_matmul_precision(before)
    try:
        with ExitStack() as held:
            bench = Bench(problem, held, count=1)
            contender = baseline_named(name)
            held.callback(contender.close)
            contender.prepare(problem, bench.sets, stream)(0)
            assert torch.get_float32_matmul_precision() == before
            assert bench.rho(0) <= (TF32_GATE if name.endswith("tf32") else FP32_GATE)
    finally:
        torch.set_float32_matmul_precision("highest")


@pytest.mark.parametrize("name", ["cublaslt", "triton"])
@pytest.mark.parametrize("dtype", [FP32, BF16], ids=str)
def test_the_choice_is_made_over_the_whole_list(name: str, dtype: Any, stream: int) -> None:
    """Every candidate and every tile runs, or is passed over, at a size where they differ."""
    if name == "triton":
        pytest.importorskip("triton")
    problem = Problem(1024, 1024, 1024, dtype)
    contender = baseline_named(name)
    with ExitStack() as held:
        bench = Bench(problem, held)
        held.callback(contender.close)
        enqueue = contender.prepare(problem, bench.sets, stream)
        enqueue(0)
        assert "best of " in contender.identity.config
        assert "best of 0" not in contender.identity.config
        assert bench.rho(0) <= (FP32_GATE if dtype == FP32 else 2 * np.sqrt(1024))


def test_prepared_again_and_closed_twice(stream: int) -> None:
    for name in BASELINES:
        first, second = problem_of("NN"), problem_of("TT", shape=(64, 96, 32))
        contender = made(name, first)
        with ExitStack() as held:
            for problem in (first, second):
                bench = Bench(problem, held, count=1)
                contender.prepare(problem, bench.sets, stream)(0)
                assert bench.rho(0) <= limit(problem, contender.identity.precision)
        contender.close()
        contender.close()


def test_misaligned_sets_are_taken(stream: int) -> None:
    """Addresses that are aligned to their elements only, and differently from set to set, also under capture."""
    problem = problem_of("NN", FP16, FP32, (64, 64, 64))
    device = cuda_device()
    for name in ("cublas", "cublaslt", "triton"):
        contender = made(name, problem)
        with ExitStack() as held:
            sets, outputs = [], []
            data = operands(problem)
            for offset in (0, 1, 8):
                a, b, c = (
                    held.enter_context(GuardedMatrix.create(device, (64, 64), 64, dtype, offset))
                    for dtype in (FP16, FP16, FP32)
                )
                a.upload(data.a)
                b.upload(data.b)
                sets.append(OperandSet(a.address, b.address, c.address))
                outputs.append(c)
            held.callback(contender.close)
            replay = replayed(contender.prepare(problem, sets, stream), [0, 1, 2], stream)
            replay()
            device.synchronize()
            reference = float64_reference(problem, data.a, data.b, data.c)
            for c in outputs:
                got = c.read_back(is_input=False)
                assert got.damage == ()
                assert float(np.max(error_ratios(problem, got.values, reference))) <= TENSOR_GATE
