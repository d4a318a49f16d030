"""Operands, contenders and samples for benchmarks that time many shapes beside cuBLAS in one process.

Operands are normal and rotate over twice the L2. Every contender is a CUDA graph of whole rotations, cuBLAS (torch.mm)
too; graphs are replayed in turns, in random order. ``burst``: a sample begins on an idle GPU and is short, so that it
runs at the boost clock. ``sustained``: a sample follows an untimed one of the same length, and is long enough to settle
at its own clock under the power cap.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from gemmsmith.bench.clocks import Probe, Sampler
from gemmsmith.bench.kernel_contender import KernelContender
from gemmsmith.bench.stopwatch import CudaStopwatch, Replay
from gemmsmith.compile.compiler import compile_for
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import DTYPES, Problem, ceil_div
from gemmsmith.run.contender import OperandSet
from gemmsmith.run.cuda import CudaDevice
from gemmsmith.verify.oracles.bounds import accuracy

Launch = Callable[[int], Any]
MOST_SETS = 64


@dataclass(frozen=True)
class Mode:
    """Seconds: ``graph`` of one replay at least, ``sample`` of a sample, ``lead`` of the untimed part before."""

    name: str
    graph: float
    sample: float
    lead: float


BURST = Mode("burst", 4e-4, 4e-4, 0.0)
SUSTAINED = Mode("sustained", 2e-3, 0.04, 0.04)
QUICK = Mode("quick", 1e-3, 1e-3, 1e-3)  # for comparing many configurations
QUICK_LARGE = Mode("quick", 5e-3, 0.012, 0.012)


@dataclass(frozen=True)
class Shape:
    """One product of a benchmark; ``origin`` says where the shape is from. ``shared_b``: one B for the whole batch."""

    m: int
    n: int
    k: int
    layout: str = "NT"
    dtype: str = "bf16"
    out: str = "bf16"
    batch: int = 1
    origin: str = ""
    precision: str = ""
    shared_b: bool = False

    @property
    def problem(self) -> Problem:
        return Problem(self.m, self.n, self.k, DTYPES[self.dtype], DTYPES[self.out], trans_a=self.layout[0] == "T",
                       trans_b=self.layout[1] == "T", batch=self.batch,
                       stride_b=0 if self.shared_b else -1)  # fmt: skip

    @property
    def operand_bytes(self) -> int:
        p = self.problem
        return (p.copies[0] * p.m + p.copies[1] * p.n) * p.k * p.dtype.itemsize

    @property
    def kind(self) -> str:
        """Kinds are disjoint; the first that fits counts. Of fp32 operands it is the precision."""
        p = self.problem
        if self.dtype == "fp32":
            return self.precision or "fp32"
        if self.batch > 1:
            return "batched"
        if any(ld * size % 16 for ld, size in ((p.lda, 2), (p.ldb, 2), (p.ldc, p.out_dtype.itemsize))):
            return "unaligned"
        if min(self.m, self.n) <= 64:
            return "up to 64"
        if self.m * self.n <= 2**20 and self.k >= 8 * max(self.m, self.n):
            return "small output, deep K"
        if self.m <= 1000:
            return "64 to 1000 rows"
        return "large" if p.flops >= 2e11 else "other"

    def __str__(self) -> str:
        many = f"{self.batch} of " if self.batch > 1 else ""
        words = f"{many}{self.m}x{self.n}x{self.k} {self.layout} {self.dtype}->{self.out}"
        return " ".join([words, *([self.precision] if self.precision else []), *(["one B"] if self.shared_b else [])])


def compiled_as(shape: Shape) -> Problem:
    """A product with the same code, so that a configuration is compiled once for all aligned shapes. K decides whether
    a stage is given up for outputs (ladder/families/hopper_store.py)."""
    p = shape.problem
    aligned = all(ld * p.dtype.itemsize % 16 == 0 for ld in (p.lda, p.ldb, p.ldc))
    return replace(shape, m=1024, n=1024, k=1024 if p.k <= 4096 else 8192).problem if aligned else p


@dataclass
class Timed:
    """A contender as a graph, with its samples."""

    name: str
    replay: Replay
    launches: int
    seconds: float  # of one launch, approximately
    close: Callable[[], None]
    samples: list[float] = field(default_factory=list)
    powers: list[float] = field(default_factory=list)
    clocks: list[float] = field(default_factory=list)

    @property
    def us(self) -> float:
        return median(self.samples) * 1e6


class Rig:
    """torch on our own stream. Enter ``watch.active()`` and the stream before use."""

    def __init__(self, torch: Any, device: CudaDevice, watch: CudaStopwatch, probe: Probe, seed: int = 0) -> None:
        self.torch, self.device, self.watch, self.probe = torch, device, watch, probe
        self.random = random.Random(seed)

    @contextmanager
    def operands(self, shape: Shape) -> Iterator[list[tuple[Any, Any, Any]]]:
        """Sets of A, B and C as torch views; C is NaN."""
        torch, p = self.torch, shape.problem
        kinds = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
        one = shape.operand_bytes + p.batch * p.m * p.n * p.out_dtype.itemsize
        count = min(MOST_SETS, max(2, ceil_div(2 * self.device.l2_bytes, one)))
        batch = (p.batch,) if p.batch > 1 else ()

        def normal(extents: tuple[int, int], transposed: bool, copies: int) -> Any:
            stored = torch.randn((*batch[: copies > 1], *extents), device="cuda", dtype=kinds[shape.dtype])
            return stored.transpose(-1, -2) if transposed else stored

        made = [(normal(p.a_shape, p.trans_a, p.copies[0]), normal(p.b_shape, p.trans_b, p.copies[1]),
                 torch.full((*batch, p.m, p.n), math.nan, device="cuda", dtype=kinds[shape.out]))
                for _ in range(count)]  # fmt: skip
        torch.cuda.synchronize()
        yield made
        torch.cuda.synchronize()

    def library(self, sets: Sequence[tuple[Any, Any, Any]]) -> Launch:
        """cuBLAS as torch calls it; with a 32-bit output of 16-bit operands where torch offers that."""
        torch, dims = self.torch, (sets[0][0].dim(), sets[0][1].dim())
        multiply = torch.mm if dims == (2, 2) else torch.bmm if dims == (3, 3) else torch.matmul
        if sets[0][2].dtype == sets[0][0].dtype:
            return lambda i: multiply(sets[i][0], sets[i][1], out=sets[i][2])
        return lambda i: multiply(sets[i][0], sets[i][1], out_dtype=torch.float32, out=sets[i][2])

    def kernel(self, spec: KernelSpec, config: Config, problem: Problem, sets: Sequence[tuple[Any, Any, Any]]
               ) -> tuple[Launch, Callable[[], None]]:  # fmt: skip
        contender = KernelContender(spec, config, self.device, compile_for)
        places = [OperandSet(a.data_ptr(), b.data_ptr(), c.data_ptr()) for a, b, c in sets]
        try:
            return contender.prepare(problem, places, self.watch.stream), contender.close
        except BaseException:
            contender.close()
            raise

    def prepared(self, name: str, launch: Launch, sets: int, mode: Mode, close: Callable[[], None] = lambda: None
                 ) -> Timed:  # fmt: skip
        """The contender as a graph of whole rotations that lasts as long as ``mode`` says."""
        for i in range(min(2, sets)):
            launch(i)
        once = self.watch.seconds(lambda: launch(0))
        count = max(1, min(20, int(5e-4 / max(once, 1e-6))))
        each = self.watch.seconds(lambda: [launch(i % sets) for i in range(count)] and None) / count
        cycles = max(1, math.ceil(mode.graph / (each * sets)))
        launches = cycles * sets
        if (
            launches * each > 4 * mode.graph and launches > 4
        ):  # many sets of a long product: part of a rotation is enough
            launches = max(2, math.ceil(mode.graph / each))
        replay = self.watch.capture(lambda: [launch(i % sets) for i in range(launches)] and None)
        replay()
        length = self.watch.seconds(replay, replay)
        return Timed(name, replay, launches, length / launches, close)

    def sample(self, timed: Timed, mode: Mode, power: bool = False) -> None:
        length = timed.seconds * timed.launches
        times, lead = (max(0, math.ceil(seconds / length)) for seconds in (mode.sample, mode.lead))

        def run(count: int) -> None:
            for _ in range(count):
                timed.replay()

        def take() -> None:
            found = self.watch.seconds(lambda: run(max(1, times)), (lambda: run(lead)) if lead else None)
            timed.samples.append(found / (max(1, times) * timed.launches))

        if not lead:
            self.watch.synchronize()
        if not power:
            return take()
        with Sampler(self.probe) as sampler:
            take()
        timed.powers.append(sampler.conditions.power_w)
        timed.clocks.append(sampler.conditions.sm_mhz)
        return None

    def rounds(self, contenders: Sequence[Timed], mode: Mode, count: int, power: bool = False) -> None:
        order = list(contenders)
        for _ in range(count):
            self.random.shuffle(order)
            for each in order:
                self.sample(each, mode, power)

    def rho(self, shape: Shape, a: Any, b: Any, out: Any) -> float:
        """The largest error against float64 in units of the product's own rounding, as verification defines it; of
        large products, of 128 rows; of 16 products of a batch."""
        torch, p = self.torch, shape.problem
        rows = slice(None) if p.flops < 2**37 else slice(0, p.m, max(1, p.m // 128))
        if p.batch > 1:
            a, b, out = (x if x.dim() == 2 else x[:: max(1, p.batch // 16)] for x in (a, b, out))
        wide_a, wide_b = a[..., rows, :].double(), b.double()
        expected, scale = wide_a @ wide_b, wide_a.abs() @ wide_b.abs()
        rounding = {"bf16": 2.0**-8, "fp16": 2.0**-11, "fp32": 2.0**-24}[shape.out]
        error = ((out[..., rows, :].double() - expected).abs() - rounding * expected.abs()).clamp(min=0)
        ratio = error / (accuracy(p.dtype.name, p.k).unit * scale)
        return float(torch.where(ratio.isnan(), math.inf, ratio).max())

    def difference(self, ours: Any, theirs: Any) -> float:
        """The largest difference over the root of K's scale: of two right results it is below about 0.05."""
        scale = theirs.double().pow(2).mean().sqrt().clamp(min=1e-30)
        found = ((ours.float() - theirs.float()).abs().max() / scale).item()
        return math.inf if math.isnan(found) else float(found)
