"""Candidates for fp32 products on Hopper, with their predicted times: what ``gemmsmith tune`` times for a precision."""

from __future__ import annotations

from collections.abc import Iterator

from gemmsmith.choose import registers, simt, split, vectors
from gemmsmith.choose.candidates import Candidate, varied
from gemmsmith.choose.cost_data import split_costs, vector_costs
from gemmsmith.choose.key import unaligned
from gemmsmith.choose.precision import promises
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import Problem
from gemmsmith.prologue.split_fp16 import LEAST_DEPTH

SPLIT_RUNGS = ("fp32_wgmma_bf16x6", "fp32_wgmma_fp16x3")
_FURTHEST = 3.0  # times the fastest prediction: the models of different kernels are not calibrated to each other


def fp32_candidates(problem: Problem, precision: str, sms: int) -> list[Candidate]:
    """Fastest prediction first, at most two per tile size until every size has two."""
    where = unaligned(problem) & 3
    found = [*_on_cuda_cores(problem, sms, where)]
    found += _of_vectors(problem, sms, where)
    found += _split_in_registers(problem, precision, sms, where)
    for name in SPLIT_RUNGS:
        found += _split_before(rung_named(name), problem, precision)
    fastest = min((each.seconds for each in found), default=0.0)
    return varied(sorted((c for c in found if c.seconds <= fastest * _FURTHEST), key=lambda c: c.seconds))


def fp32_kernels(precision: str, problem: Problem) -> dict[str, KernelSpec]:
    """The kernels that may be a tuned winner, by name."""
    every = (rung_named(name) for name in (simt.NAME, vectors.NAME, registers.NAME, *SPLIT_RUNGS))
    return {spec.name: spec for spec in every if spec.takes(problem) and precision in promises(spec, problem.dtype)}


def _on_cuda_cores(problem: Problem, sms: int, where: int) -> Iterator[Candidate]:
    spec = rung_named(simt.NAME)
    for candidate, config in simt.configurations(problem, sms, where, clusters=True):
        yield Candidate(spec, config, simt.predicted_seconds(problem, candidate, config, sms, where))


def _of_vectors(problem: Problem, sms: int, where: int) -> Iterator[Candidate]:
    for config in vectors.configurations(problem) if vector_costs().chosen else ():
        yield Candidate(rung_named(vectors.NAME), config, vectors.predicted_seconds(problem, config, sms, where))


def _split_in_registers(problem: Problem, precision: str, sms: int, where: int) -> Iterator[Candidate]:
    spec = rung_named(registers.NAME)
    if spec.takes(problem) and precision in promises(spec, problem.dtype):
        for config in registers.configurations(problem, sms):
            yield Candidate(spec, config, registers.predicted_seconds(problem, config, sms, where))


def _split_before(spec: KernelSpec, problem: Problem, precision: str) -> Iterator[Candidate]:
    if not spec.takes(problem) or precision not in promises(spec, problem.dtype):
        return
    if spec.arithmetic == "fp16x3" and problem.k < LEAST_DEPTH:  # it would be refused
        return
    for width, stages in split_costs().widths.get(spec.arithmetic, {}).items():
        config = spec.config({"BN": width, "STAGES": stages})
        yield Candidate(spec, config, split.seconds(problem, spec.arithmetic))
