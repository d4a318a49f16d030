"""Check the promise of precision='fp32' on this machine's GPU, over thousands of shapes and kinds of data.

    python benchmarks/check_precision.py benchmarks/results/h200_precision.json
    python benchmarks/check_precision.py OUTPUT.json --precision fp32-fast --count 2000 --seconds 60
    python benchmarks/check_precision.py OUTPUT.json --first 1234 --count 1     # repeat one product

Every product has a number that determines its shape, layout, data and seed. gemmsmith and cuBLAS (as torch calls it,
TF32 off) multiply the same operands. The error of each is the largest component of |Ĉ−C|/(|A||B|), against float64, in
units of 2**−24. 'fp32' allows FP32_MARGIN times the larger of cuBLAS's error and FP32_FLOOR of verification's gate
(docs/precision.md); 'ieee' and 'fp32-fast' allow the gate. For products with many outputs the plain ratio is reported
too. Operands, products and errors stay on the GPU. Needs torch. The file is always written; exits 1 if a product was
beyond what is allowed, or none was computed.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gemmsmith import __version__, matmul
from gemmsmith.bench.machine import machine_facts
from gemmsmith.choose.choice import choose
from gemmsmith.choose.precision import FP32_FLOOR, FP32_MARGIN
from gemmsmith.errors import GemmsmithError, MissingDeviceError
from gemmsmith.fills import fill_named
from gemmsmith.problem import Problem
from gemmsmith.run.baselines.torch_views import fp32_arithmetic, usable_torch
from gemmsmith.run.cuda import cuda_device
from gemmsmith.verify.oracles.accuracy_study import DISTRIBUTIONS
from gemmsmith.verify.oracles.bounds import gate

UNIT = 2.0**-24
LAYOUTS = ("NN", "NT", "TN", "TT")
MOST_PRODUCTS = 2.0**28  # of M·N·K: a float64 product takes a few tenths of a millisecond
READ_EVERY = 64  # products whose errors are fetched from the GPU at once
PROGRESS_SECONDS = 5.0
EVERY, LARGE = 8, (512, 1536)  # every 8th product is large enough for tensor cores
MANY, DEEP = 4096, 128  # outputs and K from which the largest error is not luck
GRADES = 32  # powers of two before the grading repeats
DECADES = 6.0  # of singular values


@dataclass(frozen=True)
class Case:
    """One product, determined by its number."""

    number: int
    m: int
    n: int
    k: int
    layout: str
    distribution: str

    @property
    def problem(self) -> Problem:
        return Problem(self.m, self.n, self.k, trans_a=self.layout[0] == "T", trans_b=self.layout[1] == "T")

    @property
    def gate(self) -> float:
        return gate(self.k, fill_named(self.distribution).errors_grow)


@dataclass(frozen=True)
class Found:
    """The largest errors of a product, in units of 2**−24, and ours as a share of what is allowed."""

    case: Case
    kernel: str
    ours: float
    cublas: float
    of_allowed: float


def case_of(number: int, seed: int, largest: int) -> Case:
    """Extents are log-uniform up to ``largest``, K up to four times that; every eighth product is large."""
    rng = np.random.default_rng([seed, number])
    if number % EVERY == EVERY - 1:
        m, n, k = (int(extent) for extent in rng.integers(*LARGE, 3))
        return Case(number, m, n, k, str(rng.choice(LAYOUTS)), str(rng.choice(DISTRIBUTIONS)))
    m, n = (int(np.exp2(rng.uniform(0, math.log2(largest + 1)))) for _ in range(2))
    k = int(np.exp2(rng.uniform(0, math.log2(min(4 * largest, MOST_PRODUCTS / (m * n)) + 1))))
    return Case(number, m, n, k, str(rng.choice(LAYOUTS)), str(rng.choice(DISTRIBUTIONS)))


def operands(torch: Any, case: Case, seed: int) -> tuple[Any, Any]:
    """A as M×K and B as K×N on the GPU, stored as the layout says: the distributions of gemmsmith.fills, in torch."""
    rng = torch.Generator(device="cuda")
    rng.manual_seed(seed * 1_000_003 + case.number)
    left, right = (_made(torch, case.distribution, shape, rng) for shape in ((case.m, case.k), (case.k, case.n)))
    match case.distribution:
        case "cancelling":
            right[case.k // 2 :] *= -1
        case "graded":
            left, right = left * _falling(torch, case.m)[:, None], right * _falling(torch, case.n)
        case "skewed":
            fall = _falling(torch, case.k)
            left, right = left * fall, right / fall[:, None]
        case "ill-conditioned":
            left, right = _ill_conditioned(torch, case, rng)
    return _stored(left.float(), case.layout[0]), _stored(right.float(), case.layout[1])


def _made(torch: Any, distribution: str, shape: tuple[int, int], rng: Any) -> Any:
    if distribution in ("uniform", "cancelling"):
        return torch.rand(shape, generator=rng, device="cuda")
    values = torch.randn(shape, generator=rng, device="cuda")
    if distribution != "wide":
        return values
    sign = torch.randint(0, 2, shape, generator=rng, device="cuda") * 2 - 1
    return torch.exp2((values * 8).clamp(-32, 32)) * sign


def _falling(torch: Any, count: int) -> Any:
    """1, 1/2, 1/4, …, repeating."""
    return torch.exp2(-(torch.arange(count, device="cuda") % GRADES).float())


def _ill_conditioned(torch: Any, case: Case, rng: Any) -> tuple[Any, Any]:
    """A = U·Σ·Vᵀ and B = V·Σ'·Wᵀ, where Σ' has Σ's values in reverse."""
    rank = min(case.m, case.n, case.k)

    def orthonormal(rows: int) -> Any:
        return torch.linalg.qr(torch.randn((rows, rank), generator=rng, device="cuda", dtype=torch.float64))[0]

    values = torch.logspace(0.0, -DECADES, rank, device="cuda", dtype=torch.float64)
    inner = orthonormal(case.k)
    left, right = (orthonormal(case.m) * values) @ inner.T, (inner * values.flip(0)) @ orthonormal(case.n).T
    return _unit(left), _unit(right)


def _unit(values: Any) -> Any:
    """Scaled by a power of two so that elements are about 1."""
    return values / values.square().mean().sqrt().log2().round().exp2()


def _stored(values: Any, letter: str) -> Any:
    return values.T.contiguous().T if letter == "T" else values.contiguous()


def largest_errors(torch: Any, a: Any, b: Any, results: Sequence[Any]) -> Any:
    """The largest component of |Ĉ−C|/(2**−24·|A||B|) of each result, as one tensor, without waiting for the GPU."""
    left, right = a.double(), b.double()
    exact, magnitude = left @ right, left.abs() @ right.abs()
    nothing = magnitude == 0
    found = []
    for got in results:
        error = (got.double() - exact).abs() / (UNIT * magnitude)
        error.masked_fill_(nothing & (got == 0), 0.0)
        error.masked_fill_((nothing & (got != 0)) | ~torch.isfinite(got), math.inf)
        found.append(error.max())
    return torch.stack(found)


def allowed(precision: str, case: Case, cublas: float) -> float:
    """The largest error that the precision allows, in units of 2**−24."""
    if precision != "fp32":
        return case.gate
    return FP32_MARGIN * max(cublas, FP32_FLOOR * case.gate)


def compared(torch: Any, cases: Iterator[Case], options: argparse.Namespace) -> Iterator[Found]:
    """The errors of every product, fetched a few dozen at a time."""
    device = cuda_device()
    waiting: list[tuple[Case, str, Any]] = []

    def fetched() -> Iterator[Found]:
        pairs = torch.stack([errors for _, _, errors in waiting]).tolist() if waiting else []
        for (case, kernel, _), (ours, cublas) in zip(waiting, pairs, strict=True):
            yield Found(case, kernel, ours, cublas, ours / allowed(options.precision, case, cublas))
        waiting.clear()

    for case in cases:
        a, b = operands(torch, case, options.seed)
        with fp32_arithmetic(torch, tf32=False):
            theirs = a @ b
        ours = matmul(a, b, precision=options.precision)
        kernel = choose(case.problem, device.name, (a.data_ptr(), b.data_ptr(), 0), sms=device.sms, arch=device.arch,
                        precision=options.precision).spec.name  # fmt: skip
        waiting.append((case, kernel, largest_errors(torch, a, b, (ours, theirs))))
        if len(waiting) == READ_EVERY:
            yield from fetched()
    yield from fetched()


def summary(found: Sequence[Found], precision: str) -> dict[str, Any]:
    """The count, the worst of each kind of data and of all, and those beyond what is allowed."""
    beyond = [each for each in found if not each.of_allowed <= 1]
    by_kind = {}
    for name in DISTRIBUTIONS:
        mine = [each for each in found if each.case.distribution == name]
        if mine:
            by_kind[name] = {
                "products": len(mine), "of_allowed": _plain(max(each.of_allowed for each in mine)),
                "ours": _plain(max(each.ours for each in mine)), "cublas": _plain(max(each.cublas for each in mine)),
                "less_accurate": sum(each.ours > each.cublas for each in mine),
            }  # fmt: skip
    kernels = sorted({each.kernel for each in found})
    many = [each for each in found if each.case.m * each.case.n >= MANY and each.case.k >= DEEP]
    plain = max(many, key=lambda each: _order(each.ours / each.cublas) if each.cublas else 0.0, default=None)
    return {
        "precision": precision, "margin": FP32_MARGIN, "floor_of_gate": FP32_FLOOR, "products": len(found),
        "beyond": len(beyond),
        "many_outputs": {"least_outputs": MANY, "least_k": DEEP, "products": len(many),
                         "most_over_cublas": _plain(plain.ours / plain.cublas) if plain and plain.cublas else None,
                         "at": _fields(plain) if plain else None},
        "less_accurate_than_cublas": sum(each.ours > each.cublas for each in found),
        "kernels": {name: sum(each.kernel == name for each in found) for name in kernels},
        "worst": [_fields(each) for each in sorted(found, key=lambda each: -_order(each.of_allowed))[:10]],
        "beyond_first": [_fields(each) for each in beyond[:50]], "by_distribution": by_kind,
    }  # fmt: skip


def _order(value: float) -> float:
    return math.inf if math.isnan(value) else value


def _plain(value: float) -> float | str:
    """As JSON, which has no infinities and no NaN."""
    return round(value, 4) if math.isfinite(value) else str(value)


def _fields(found: Found) -> dict[str, Any]:
    numbers = {name: _plain(getattr(found, name)) for name in ("ours", "cublas", "of_allowed")}
    return {**asdict(found.case), "kernel": found.kernel, **numbers, "gate": round(found.case.gate, 3)}


def cases_until(options: argparse.Namespace, started: float) -> Iterator[Case]:
    """Products in the order of their numbers until the time is over; prints progress."""
    last = started
    for number in range(options.first, options.first + options.count):
        now = time.monotonic()
        if now - started > options.seconds:
            print(f"the time limit of {options.seconds:g} s ended it after {number - options.first} products")
            return
        if now - last > PROGRESS_SECONDS:
            last = now
            print(f"{number - options.first:,} of {options.count:,} products, {now - started:.0f} s", flush=True)
        yield case_of(number, options.seed, options.largest)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--count", type=int, default=10_000, help="products")
    parser.add_argument("--first", type=int, default=0, help="the number of the first one")
    parser.add_argument("--seconds", type=float, default=math.inf, help="begin no product after so long")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--largest", type=int, default=768, help="the largest M and N; K goes to four times that")
    parser.add_argument("--precision", choices=("ieee", "fp32", "fp32-fast"), default="fp32")
    options = parser.parse_args()
    torch = usable_torch()
    if torch is None:
        raise MissingDeviceError("this needs torch and a GPU", "pip install torch")
    device = cuda_device()
    torch.cuda.set_device(device.ordinal)
    started = time.monotonic()
    found = list(compared(torch, cases_until(options, started), options))
    limits = f" --seconds {options.seconds:g}" if math.isfinite(options.seconds) else ""
    machine = machine_facts(device)
    record = {
        "what": "errors of gemmsmith.matmul beside cuBLAS in fp32, component-wise, in units of 2**-24",
        "origin": "measured", "gpu": device.name, "arch": device.arch, "driver": machine.driver,
        "packages": dict(machine.packages), "gemmsmith": __version__,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "command": f"python benchmarks/check_precision.py OUTPUT.json --count {options.count} --first {options.first} "
        f"--seed {options.seed} --largest {options.largest} --precision {options.precision}{limits}",
        "seconds": round(time.monotonic() - started, 1), **summary(found, options.precision),
    }  # fmt: skip
    options.output.write_text(json.dumps(record, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    for each in record["worst"][:3]:
        print(each)
    print(f"{len(found):,} products, {record['beyond']} beyond what {options.precision} allows; kernels: "
          f"{record['kernels']}")  # fmt: skip
    return 1 if record["beyond"] or not found else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except GemmsmithError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
