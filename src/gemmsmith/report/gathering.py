"""Everything the page and the command `climb` tell of one rung: verified, counted, diagnosed, compared.

A rung is gathered by its name alone, so that several processes can do it side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.compile.sass import Sass, disassemble
from gemmsmith.explain.comparison import Comparison, compare
from gemmsmith.explain.diagnosis import diagnose
from gemmsmith.explain.occupancy import occupancy
from gemmsmith.explain.profile import Profile, simulate
from gemmsmith.explain.sampling import QUICK_DEPTH, QUICK_SAMPLE
from gemmsmith.gpus import GPU
from gemmsmith.kernels.registry import rung_named
from gemmsmith.kernels.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.report.story import Rung
from gemmsmith.run.device import Device
from gemmsmith.verify.harness import CompileFn, affordable_mode, verify_launch
from gemmsmith.verify.verdict import Verdict


@dataclass(frozen=True)
class Gathered:
    """One rung: what was found of it by itself."""

    name: str
    verdicts: tuple[Verdict, ...]
    compiled: CompiledKernel
    profile: Profile
    sass: Sass

    @property
    def ok(self) -> bool:
        return all(verdict.trusted for verdict in self.verdicts)


def verify_rung(device: Device, spec: KernelSpec, size: int, compile_fn: CompileFn) -> tuple[Verdict, ...]:
    """Integers, bit for bit, on a ragged shape; random data against float64 on a cube."""
    problem = Problem(size, size, size, dtype=spec.dtypes[0])
    ragged = problem.with_(m=size // 2 + 1, n=max(1, size // 2 - 1), k=min(size, 67), beta=-1.0)
    return (
        verify_launch(device, spec, spec.config(), ragged, compile_fn=compile_fn, mode="exact"),
        verify_launch(device, spec, spec.config(), problem, compile_fn=compile_fn, mode=affordable_mode(problem)),
    )


def count_rung(name: str, size: int, arch: str, compile_fn: CompileFn) -> tuple[CompiledKernel, Profile, Sass]:
    """The machine code of a rung and what the simulator counts at ``size``³."""
    spec = rung_named(name)
    problem = Problem(size, size, size, dtype=spec.dtypes[0])
    compiled = compile_fn(spec, spec.config(), problem, arch)
    sass = disassemble(compiled)
    profile = simulate(spec, spec.config(), problem, compiled, sample=QUICK_SAMPLE, depth=QUICK_DEPTH, sass=sass)
    return compiled, profile, sass


def rungs_of(gathered: Sequence[Gathered], gpu: GPU) -> tuple[Rung, ...]:
    """The rungs as the page tells them, each compared with the last before it that has the same input type.

    The first of another type is compared with the last of all: what changed then is the type, among others.
    """
    made = []
    for at, step in enumerate(gathered):
        rung = _rung(step, gpu)
        if at:
            before = next((s for s in reversed(gathered[:at]) if _dtype(s) == _dtype(step)), gathered[at - 1])
            found = _compared(before, step, gpu)
            rung = replace(rung, before=before.name, changes=found.rows, why=found.sentences)
        made.append(rung)
    return tuple(made)


def _dtype(step: Gathered) -> str:
    return step.profile.problem.dtype.name


def _compared(before: Gathered, step: Gathered, gpu: GPU) -> Comparison:
    return compare((before.profile, before.sass), (step.profile, step.sass), gpu)


def _rung(step: Gathered, gpu: GPU) -> Rung:
    spec = rung_named(step.name)
    used, geometry = step.compiled.resources, step.profile.geometry
    held = occupancy(gpu, threads=geometry.threads, registers=used.registers, static_smem=used.static_smem,
                     dynamic_smem=geometry.smem, barriers=used.barriers)  # fmt: skip
    loop = step.sass.main_loop()
    failed = [str(verdict) for verdict in step.verdicts if not verdict.trusted]
    shapes = " and ".join(f"{v.problem.m}×{v.problem.n}×{v.problem.k}" for v in step.verdicts)
    right = f"right at {shapes} on {step.verdicts[0].device}" if step.verdicts else ""
    return Rung(
        number=spec.rung, name=spec.name, summary=spec.summary, teaches=spec.teaches, file=spec.source.name,
        source=spec.code, config=str(spec.config()), dtype=_dtype(step), resources=used, geometry=geometry,
        occupancy=held, profile=step.profile, diagnosis=diagnose(step.profile, step.sass, gpu),
        trusted=step.ok if step.verdicts else None, verified="\n".join(failed) or right,
        loop=tuple(i.text for i in loop.instructions) if loop is not None else (), tensor_cores=spec.tensor_cores,
    )  # fmt: skip
