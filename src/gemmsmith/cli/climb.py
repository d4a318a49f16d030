"""gemmsmith climb: the whole ladder on this machine."""

from __future__ import annotations

import dataclasses
import datetime
import time
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any

import typer

from gemmsmith import __version__
from gemmsmith.cli.options import DEFAULT_ARCH, CacheDir, Compiler, DeviceName, Json, find_device
from gemmsmith.cli.output import bytes_text, console, print_json, progress, table
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.errors import UsageError
from gemmsmith.explain.metrics import simulated
from gemmsmith.fills import operands
from gemmsmith.kernels.registry import rungs
from gemmsmith.kernels.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.run.cuda import CudaDevice
from gemmsmith.run.device import Launch
from gemmsmith.run.memory import upload
from gemmsmith.sim.device import SimDevice
from gemmsmith.verify.harness import affordable_mode, verify_launch
from gemmsmith.verify.verdict import Verdict

_SIM_SIZE, _GPU_SIZE = 256, 2048


@dataclass(frozen=True)
class Step:
    """One rung's result: verified or not, what it uses, its time on this device, and what the simulator counted."""

    spec: KernelSpec
    verdicts: tuple[Verdict, ...]
    compiled: CompiledKernel
    smem: int
    threads: int
    seconds: float
    counted: tuple[tuple[str, int], ...] = ()

    @property
    def ok(self) -> bool:
        return all(v.trusted for v in self.verdicts)

    def total(self, names: tuple[str, ...]) -> int:
        """The sum of some counted metrics."""
        counted = dict(self.counted)
        return sum(counted.get(name, 0) for name in names)


def command(
    size: Annotated[int, typer.Option("--size", help="M = N = K; 0 picks one that suits the device.")] = 0,
    device: DeviceName = "auto",
    cache_dir: CacheDir = None,
    json: Json = False,
) -> None:
    """Climb the ladder: verify every rung, show what it uses and its time on this device."""
    if size < 0:
        raise UsageError(f"--size {size} is negative")
    where = find_device(device)
    extent = size or (_GPU_SIZE if where.kind == "gpu" else _SIM_SIZE)
    compiler = Compiler(cache_dir)
    steps = []
    with progress() as bar:
        task = bar.add_task("climbing", total=len(rungs()))
        for spec in rungs():
            bar.update(task, description=spec.name)
            steps.append(_step(where, spec, extent, compiler))
            bar.advance(task)
    if json:
        print_json(_facts(where, extent, steps))
    else:
        _print(where, extent, steps)
    if not all(s.ok for s in steps):
        raise typer.Exit(1)


def _step(where: SimDevice | CudaDevice, spec: KernelSpec, extent: int, compiler: Compiler) -> Step:
    """Verify with integers (bit for bit) on a ragged shape and with random data at full size, then time."""
    config = spec.config()
    problem = Problem(extent, extent, extent, dtype=spec.dtypes[0])
    ragged = problem.with_(m=extent // 2 + 1, n=extent // 2 - 1 if extent > 2 else 1, k=min(extent, 67), beta=-1.0)
    verdicts = (
        verify_launch(where, spec, config, ragged, compile_fn=compiler, mode="exact"),
        verify_launch(where, spec, config, problem, compile_fn=compiler, mode=affordable_mode(problem)),
    )
    compiled = compiler(spec, config, problem, where.arch)
    geometry = spec.geometry(problem, config)
    seconds, counted = float("nan"), dict[str, int]()
    if all(v.trusted for v in verdicts):
        seconds, counted = _time(where, spec, problem, compiled)
    return Step(spec, verdicts, compiled, geometry.smem, geometry.threads, seconds, tuple(counted.items()))


def _time(
    where: SimDevice | CudaDevice, spec: KernelSpec, problem: Problem, compiled: CompiledKernel
) -> tuple[float, dict[str, int]]:
    """Seconds of one launch on random data, and what it counted.

    On the simulator the wall time with counting, on the GPU the best of five and no counts.
    """
    if isinstance(where, SimDevice):
        where = SimDevice(where.arch, count=True)
    data = operands(problem, "normal", seed=0)
    addresses = [upload(where, values) for values in (data.a, data.b, data.c)]
    loaded: Any = where.load(compiled)
    launch = Launch(spec.geometry(problem, spec.config()), spec.signature.pack(problem, *addresses))
    best = float("inf")
    for _ in range(5 if where.kind == "gpu" else 1):
        where.synchronize()
        started = time.perf_counter()
        where.launch(loaded, launch)
        where.synchronize()
        best = min(best, time.perf_counter() - started)
    for address in addresses:
        where.free(address)
    counters = where.counters if isinstance(where, SimDevice) else None
    return best, simulated(counters) if counters is not None else {}


def _facts(where: SimDevice | CudaDevice, extent: int, steps: list[Step]) -> dict[str, Any]:
    origin = "measured" if where.kind == "gpu" else "simulated"
    return {
        "command": f"gemmsmith climb --device {where.kind} --size {extent}", "gemmsmith": __version__,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(), "compiler": steps[0].compiled.compiler,
        "device": where.name, "arch": where.arch, "origin": origin, "size": extent, "ok": all(s.ok for s in steps),
        "rungs": [
            {
                "rung": s.spec.rung, "name": s.spec.name, "verified": s.ok, "dtype": s.spec.dtypes[0].name,
                "config": dict(s.spec.config().values), "resources": dataclasses.asdict(s.compiled.resources),
                "dynamic_smem": s.smem, "threads": s.threads,
                "seconds": s.seconds if s.seconds == s.seconds else None,
                "counted": dict(s.counted), "verdicts": [v.to_json() for v in s.verdicts],
            }
            for s in steps
        ],
    }  # fmt: skip


def _print(where: SimDevice | CudaDevice, extent: int, steps: list[Step]) -> None:
    out = console()
    gpu = where.kind == "gpu"
    rows = []
    for step in steps:
        used = step.compiled.resources
        state = "[green]verified[/green]" if step.ok else "[red]WRONG[/red]"
        shared = bytes_text(used.static_smem + step.smem)
        rows.append((str(step.spec.rung), step.spec.name, state, str(step.threads), str(used.registers), shared,
                     *(_speed(step, extent) if gpu else _counts(step))))  # fmt: skip
    names = ("measured", "TFLOPS") if gpu else (*COUNTED, "took")
    columns = (("", "right"), ("rung", "left"), ("", "left"),
               *((name, "right") for name in ("threads", "regs", "shared", *names)))  # fmt: skip
    out.print(table(f"The ladder at {extent}x{extent}x{extent} on {where.name}", columns, rows))
    if not gpu:
        _print_story(steps)
    for step in steps:
        for verdict in step.verdicts:
            if not verdict.trusted:
                out.print(str(verdict), markup=False, style="red")
    note = (
        "Wall time of the best of five launches; gemmsmith show RUNG explains a rung."
        if gpu
        else f"The simulator executes each kernel's PTX for {DEFAULT_ARCH}: counts are a GPU's, the time is not. "
        "gemmsmith explain RUNG says what bounds a rung on a GPU of your choice; show RUNG, what it does."
    )
    out.print(f"[dim]{note}[/dim]")


_GLOBAL = tuple(f"l1tex__t_sectors_pipe_lsu_mem_global_op_{op}.sum" for op in ("ld", "st"))
_WAVES = tuple(f"smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum" for op in ("ld", "st", "ldgsts"))
_CONFLICTS = (*(f"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_{op}.sum" for op in ("ld", "st")),
              "smsp__sass_l1tex_data_bank_conflicts_pipe_lsu_mem_shared_op_ldgsts.sum")  # fmt: skip
COUNTED = {"sectors": _GLOBAL, "wavefronts": _WAVES, "conflicts": _CONFLICTS}
# What a sentence compares: finer than the table, so that a change in stores is not lost beside the loads.
_COMPARED = {
    "sectors of global memory": _GLOBAL, "wavefronts of shared memory": _WAVES,
    "bank conflicts of loads": _CONFLICTS[:1], "bank conflicts of stores": _CONFLICTS[1:],
}  # fmt: skip


def _speed(step: Step, extent: int) -> tuple[str, str]:
    return f"{step.seconds * 1e3:.3f} ms", f"{2 * extent**3 / step.seconds / 1e12:.2f}"


def _counts(step: Step) -> tuple[str, ...]:
    return (*(f"{step.total(names):,}" for names in COUNTED.values()), f"{step.seconds:.2f} s")


def _print_story(steps: list[Step]) -> None:
    """What each rung changed against the one before, taken from its counters."""
    rows = []
    for before, step in pairwise(steps):
        if before.spec.dtypes == step.spec.dtypes and before.ok and step.ok:
            rows.append((step.spec.name, "; ".join(_changes(before, step)) or "the same traffic"))
    out = console()
    out.print()
    out.print(table("What each step changed", (("rung", "left"), ("against the one before", "left")), rows))
    out.print()


def _changes(before: Step, step: Step) -> list[str]:
    """Counts that changed by a tenth or more, the largest change first."""
    found = []
    for words, names in _COMPARED.items():
        old, new = before.total(names), step.total(names)
        if old and new and not 0.9 < new / old < 1.1:
            ratio = max(old / new, new / old)
            found.append((ratio, f"{ratio:.1f} times {'fewer' if new < old else 'more'} {words}"))
        elif bool(old) != bool(new):
            found.append((float("inf"), f"{'no' if old else 'now'} {words}" + ("" if old else f" ({new:,})")))
    return [text for _, text in sorted(found, reverse=True)]
