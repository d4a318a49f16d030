"""Compile ahead: the kernels that products will need, in parallel processes, into a cache folder.

problems ─► choose ─► all launches of each product, prologue included ─► one job per kernel that is not the same
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from gemmsmith.call.launch_plan import plan_launches
from gemmsmith.choose import registers, simt
from gemmsmith.choose.choice import STAND_IN, Choice, choose
from gemmsmith.compile.cache import CompileCache
from gemmsmith.compile.compiler import compile_for
from gemmsmith.errors import GemmsmithError
from gemmsmith.gpus import GPU
from gemmsmith.kernel.spec import Addresses
from gemmsmith.ladder.registry import rung_named
from gemmsmith.ladder.stand_in import stand_in
from gemmsmith.problem import FP32, DType, Problem, dtype_named
from gemmsmith.prologue.build import REGION

_ALIGNED = Addresses(REGION, REGION, REGION, REGION)  # as fresh allocations are
_MOST_PROCESSES = 16


@dataclass(frozen=True)
class WarmJob:
    """One kernel to compile, by the first product that needs it, and how many products do.

    ``stands_in``: not the kernel itself, but the one that stands in for it at first calls.
    """

    problem: Problem
    choice: Choice
    products: int
    stands_in: bool = False

    @property
    def name(self) -> str:
        name = f"{self.choice.spec.name} {self.choice.config}".rstrip()
        return f"stand-in of {self.choice.spec.name}" if self.stands_in else name


@dataclass(frozen=True)
class Warmed:
    """A finished job; ``error`` is empty where it succeeded. ``compiled``: kernels that were in no cache or wheel."""

    job: WarmJob
    error: str
    compiled: int = 0


def warm_jobs(problems: Sequence[Problem], gpu: GPU, device_name: str) -> list[WarmJob]:
    """The jobs for these products on a GPU that the driver calls ``device_name``."""
    jobs: dict[object, WarmJob] = {}
    for problem in problems:
        choice = choose(problem, device_name, sms=gpu.sms, arch=f"sm_{gpu.arch}")
        plan = plan_launches(choice.spec, choice.config, problem, _ALIGNED)
        kernel = plan.kernel
        seen = kernel.problem
        key = (choice.spec.name, kernel.config, seen.dtype, seen.out_dtype, seen.layout, seen.bias, seen.activation,
               tuple(each.spec.name for each in plan.launches))  # fmt: skip
        known = jobs.get(key)
        jobs[key] = WarmJob(problem, choice, 1) if known is None else replace(known, products=known.products + 1)
    return list(jobs.values())


def first_call_jobs(types: Sequence[DType]) -> list[WarmJob]:
    """The kernels that run at first calls of any shape (call/first_call.py), with operands of these types."""
    jobs = []
    rungs = [rung_named(name) for name in (registers.NAME, simt.NAME, "wgmma_split_k")]
    for kind in types:
        for spec in (each for each in rungs if kind in each.dtypes):
            for out in dict.fromkeys((kind, FP32)):
                jobs += [WarmJob(Problem(512, 512, 512, kind, out, bias=bias), Choice(spec, spec.config(), STAND_IN),
                                 0, stands_in=True) for bias in ("", "column")]  # fmt: skip
    return jobs


def usable_cores() -> int:
    """Cores that this process may use: fewer than the machine has in a container or under taskset."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def warm(jobs: Sequence[WarmJob], arch: str, folder: Path | None, processes: int = 0) -> Iterator[Warmed]:
    """Compile all, in any order; yields each as it is done."""
    count = processes or max(1, min(_MOST_PROCESSES, usable_cores(), len(jobs)))
    arguments = [(each.choice.spec.name, dict(each.choice.config), problem_fields(each.problem), arch,
                  str(folder) if folder is not None else "", each.stands_in) for each in jobs]  # fmt: skip
    if count == 1:
        for job, given in zip(jobs, arguments, strict=True):
            yield Warmed(job, *compile_launches(*given))
        return
    # Spawned, not forked: a fork of a process that opened the GPU cannot use it, and may hang.
    with ProcessPoolExecutor(count, get_context("spawn")) as pool:
        running = {pool.submit(compile_launches, *given): job for job, given in zip(jobs, arguments, strict=True)}
        for done in as_completed(running):
            try:
                yield Warmed(running[done], *done.result())
            except BrokenProcessPool:
                yield Warmed(running[done], "the compiling process ended")


def compile_product(kernel: str, config: Mapping[str, int], fields: Mapping[str, Any], arch: str, folder: str,
                    stands_in: bool = False) -> str:  # fmt: skip
    """Compile every launch of a product into the cache; returns the error message, or an empty string."""
    return compile_launches(kernel, config, fields, arch, folder, stands_in)[0]


def compile_launches(kernel: str, config: Mapping[str, int], fields: Mapping[str, Any], arch: str, folder: str,
                     stands_in: bool = False) -> tuple[str, int]:  # fmt: skip
    """The same; also how many kernels were not compiled before."""
    compiled = 0
    try:
        spec, problem = rung_named(kernel), _problem(fields)
        store = CompileCache(Path(folder)) if folder else None
        chosen = spec.config(config)
        if stands_in and (other := stand_in(spec, chosen, problem)) is not None:
            spec, chosen = other, other.config()
        for each in plan_launches(spec, chosen, problem, _ALIGNED).launches:
            compiled += not compile_for(each.spec, each.config, each.problem, arch, store).cached
    except GemmsmithError as error:
        return error.message, compiled
    return "", compiled


def problem_fields(problem: Problem) -> dict[str, Any]:
    """Plain values; data types by name."""
    return asdict(problem) | {"dtype": problem.dtype.name, "out_dtype": problem.out_dtype.name}


def _problem(fields: Mapping[str, Any]) -> Problem:
    types = {name: dtype_named(str(fields[name])) for name in ("dtype", "out_dtype")}
    return Problem(**(dict(fields) | types))
