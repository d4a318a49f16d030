"""Collect what the page and `climb` show for one rung: verdicts, counters, diagnosis, comparison.

Collection takes only the rung's name, so several processes can run it in parallel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from markupsafe import Markup

from gemmsmith.call.binding import aligned_code, aligned_config
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.compile.sass import Sass, disassemble
from gemmsmith.explain.comparison import Comparison, compare, without_gain
from gemmsmith.explain.diagnosis import diagnose
from gemmsmith.explain.occupancy import launched_blocks, occupancy
from gemmsmith.explain.profile import Profile
from gemmsmith.explain.sampling import QUICK_DEPTH, QUICK_SAMPLE
from gemmsmith.explain.simulated_profile import simulate
from gemmsmith.explain.timing.step import step_of
from gemmsmith.explain.timing.summary import TimeSummary, recorded_summary, summary_of
from gemmsmith.explain.timing.timed import Timed
from gemmsmith.gpus import GPU
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import Problem
from gemmsmith.report.animation.step_animation import record_step, step_animation
from gemmsmith.report.header_comment import changed_from
from gemmsmith.report.owners import Owners, find_owners
from gemmsmith.report.report_model import Rung
from gemmsmith.run.device import Device
from gemmsmith.store.made_for import made_for
from gemmsmith.verify.harness import CompileFn, affordable_mode, verify_launch
from gemmsmith.verify.verdict import Verdict

_ALIGNED = (4096, 4096, 4096)  # every row starts on a 16-byte boundary


@dataclass(frozen=True)
class CollectedRung:
    """One rung on its own, before it is compared with another."""

    name: str
    verdicts: tuple[Verdict, ...]
    compiled: CompiledKernel
    geometry: Geometry
    sass: Sass
    profile: Profile | None = None  # None if the simulator cannot run the rung
    owners: Owners | None = None  # the same
    animation: Markup = Markup("")  # noqa: RUF009 - of its idea, from a short recorded launch
    timed: Timed | None = None  # the cycle model's time, where it was asked for

    @property
    def ok(self) -> bool:
        return all(verdict.trusted for verdict in self.verdicts)


def verify_rung(device: Device, spec: KernelSpec, size: int, compile_fn: CompileFn) -> tuple[Verdict, ...]:
    """Verify integers exactly on a ragged shape, and random data against float64 on a cube."""
    problem = Problem(size, size, size, dtype=spec.dtypes[0])
    ragged = problem.with_(m=size // 2 + 1, n=max(1, size // 2 - 1), k=min(size, 67), beta=-1.0)
    return (
        verify_launch(device, spec, spec.config(), ragged, compile_fn=compile_fn, mode="exact"),
        verify_launch(device, spec, spec.config(), problem, compile_fn=compile_fn, mode=affordable_mode(problem)),
    )


def ladder_config(spec: KernelSpec) -> Config:
    """The configuration the ladder shows: the rung's defaults, for aligned operands and fp32 outputs."""
    return aligned_config(spec, spec.config(), Problem(*_ALIGNED, dtype=spec.dtypes[0]))


def count_rung(name: str, size: int, arch: str, compile_fn: CompileFn) -> CollectedRung:
    """Compile a rung, and count it on the simulator at ``size``³ if the simulator supports it."""
    spec = rung_named(name)
    problem = Problem(size, size, size, dtype=spec.dtypes[0])
    config, seen = aligned_code(spec, spec.config(), problem)
    compiled = compile_fn(spec, config, seen, arch)
    sass = disassemble(compiled)
    profile, owners, animation = None, None, Markup("")
    if spec.simulated:
        profile = simulate(spec, config, problem, compiled, sample=QUICK_SAMPLE, depth=QUICK_DEPTH, sass=sass)
        owners = find_owners(spec, config, problem, compiled)
        animation = step_animation(record_step(spec, config, compiled))
    return CollectedRung(name, (), compiled, spec.geometry(problem, config), sass, profile, owners, animation)


def rungs_of(collected: Sequence[CollectedRung], gpu: GPU) -> tuple[Rung, ...]:
    """The page's rungs, each compared with an earlier one.

    A rung that is not simulated is compared only by speed and source.
    """
    made: list[Rung] = []
    for at, step in enumerate(collected):
        rung = _rung(step, gpu)
        if at:
            name = rung_before(step.name, [earlier.name for earlier in collected[:at]])
            before = next(earlier for earlier in collected if earlier.name == name)
            found = _compared(before, step, gpu)
            rung = replace(rung, before=before.name, named=_named(step.name, [one.name for one in collected[:at]]),
                           why=_why(next(r for r in made if r.name == name), rung, found),
                           changes=rung.changes if found is None else found.rows)  # fmt: skip
        made.append(rung)
    return tuple(made)


def _why(before: Rung, rung: Rung, found: Comparison | None) -> tuple[str, ...]:
    """What the cycle model says of the step, where it has the time of both rungs, before what the counts say.

    Gains that the older estimate gives to single differences are left out then.
    """
    counted = () if found is None else found.sentences
    stepped = step_of((before.name, before.time), (rung.name, rung.time))
    if stepped is None:
        return counted
    return (*stepped.sentences, *(without_gain(text) for text in counted[1:]))


def time_of(step: CollectedRung, gpu: GPU) -> TimeSummary | None:
    """The cycle model's time: as predicted in this run, else as recorded for this configuration."""
    if step.timed is not None:
        return summary_of(step.timed)
    if step.profile is None:
        return None
    return recorded_summary(step.name, str(ladder_config(rung_named(step.name))), step.profile.problem, gpu)


def rung_before(name: str, earlier: Sequence[str]) -> str:
    """The rung in ``earlier`` (in ladder order) to compare with.

    Among rungs of the same input type: the one that the rung's file says it changes, or else the latest. The first
    rung of a type is compared with the rung that its file names, or else with the latest of all: there, the change is
    the type.
    """
    same_type = [other for other in reversed(earlier) if _dtype(other) == _dtype(name)]
    named = _named(name, earlier)
    if named in same_type or (named and not same_type):
        return named
    return same_type[0] if same_type else earlier[-1]


def _named(name: str, earlier: Sequence[str]) -> str:
    """The rung in ``earlier`` that the rung's file says it changes; '' if it names none."""
    changed = changed_from(rung_named(name).code)
    return next((other for other in earlier if rung_named(other).rung == changed), "")


def _dtype(name: str) -> str:
    return rung_named(name).dtypes[0].name


def _compared(before: CollectedRung, step: CollectedRung, gpu: GPU) -> Comparison | None:
    if before.profile is None or step.profile is None:
        return None
    return compare((before.profile, before.sass), (step.profile, step.sass), gpu)


def _rung(step: CollectedRung, gpu: GPU) -> Rung:
    spec = rung_named(step.name)
    used, geometry = step.compiled.resources, step.geometry
    held = occupancy(gpu, threads=geometry.threads, registers=used.registers, static_smem=used.static_smem,
                     dynamic_smem=geometry.smem, barriers=used.barriers)  # fmt: skip
    if spec.persistent:
        geometry = replace(geometry, grid=(launched_blocks(gpu, geometry, True, held.blocks_per_sm), 1, 1))
    loop = step.sass.main_loop()
    failed = [str(verdict) for verdict in step.verdicts if not verdict.trusted]
    shapes = " and ".join(f"{v.problem.m}×{v.problem.n}×{v.problem.k}" for v in step.verdicts)
    correct = f"correct at {shapes} on {step.verdicts[0].device}" if step.verdicts else ""
    return Rung(
        number=spec.rung, name=spec.name, summary=spec.summary, teaches=spec.teaches, file=spec.source.name,
        source=spec.code, config=str(ladder_config(spec)), dtype=_dtype(step.name), resources=used, geometry=geometry,
        occupancy=held, profile=step.profile, simulated=spec.simulated,
        diagnosis=diagnose(step.profile, step.sass, gpu) if step.profile is not None else None,
        trusted=step.ok if step.verdicts else None, verified="\n".join(failed) or correct,
        loop=tuple(i.text for i in loop.instructions) if loop is not None else (), tensor_cores=spec.tensor_cores,
        arithmetic=spec.arithmetic, owners=step.owners, animation=step.animation, wgmma=spec.arch_specific >= 90,
        time=time_of(step, gpu), made_for=made_for(spec.name),
    )  # fmt: skip
