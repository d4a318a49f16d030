"""gemmsmith climb: the whole ladder on this machine."""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import typer

from gemmsmith.cli.options import DEFAULT_ARCH, CacheDir, Compiler, DeviceName, Json, find_device
from gemmsmith.cli.output import bytes_text, console, print_json, progress, table
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.errors import UsageError
from gemmsmith.fills import operands
from gemmsmith.kernels.registry import rungs
from gemmsmith.kernels.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.run.cuda import CudaDevice
from gemmsmith.run.device import Launch
from gemmsmith.sim.device import SimDevice
from gemmsmith.verify.harness import affordable_mode, verify_launch
from gemmsmith.verify.verdict import Verdict

_SIM_SIZE, _GPU_SIZE = 256, 2048


@dataclass(frozen=True)
class Step:
    """One rung's result: verified or not, what it uses, and its time on this device."""

    spec: KernelSpec
    verdicts: tuple[Verdict, ...]
    compiled: CompiledKernel
    smem: int
    threads: int
    seconds: float

    @property
    def ok(self) -> bool:
        return all(v.trusted for v in self.verdicts)


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
    seconds = _time(where, spec, problem, compiled) if all(v.trusted for v in verdicts) else float("nan")
    return Step(spec, verdicts, compiled, geometry.smem, geometry.threads, seconds)


def _time(where: SimDevice | CudaDevice, spec: KernelSpec, problem: Problem, compiled: CompiledKernel) -> float:
    """Seconds of one launch on random data: wall time on the simulator, the best of five on the GPU."""
    data = operands(problem, "normal", seed=0)
    addresses = []
    for values in (data.a, data.b, data.c):
        raw = np.ascontiguousarray(values).reshape(-1).view(np.uint8)
        addresses.append(where.allocate(raw.nbytes))
        where.write(addresses[-1], raw)
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
    return best


def _facts(where: SimDevice | CudaDevice, extent: int, steps: list[Step]) -> dict[str, Any]:
    origin = "measured" if where.kind == "gpu" else "simulated"
    return {
        "device": where.name, "arch": where.arch, "origin": origin, "size": extent, "ok": all(s.ok for s in steps),
        "rungs": [
            {
                "rung": s.spec.rung, "name": s.spec.name, "verified": s.ok, "dtype": s.spec.dtypes[0].name,
                "config": dict(s.spec.config().values), "resources": dataclasses.asdict(s.compiled.resources),
                "dynamic_smem": s.smem, "threads": s.threads,
                "seconds": s.seconds if s.seconds == s.seconds else None,
                "verdicts": [v.to_json() for v in s.verdicts],
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
        if gpu:
            flops = 2 * extent**3 / step.seconds / 1e12
            speed = f"{step.seconds * 1e3:.3f} ms {flops:7.2f} TFLOPS"
        else:
            speed = f"{step.seconds:.2f} s"
        rows.append((
            str(step.spec.rung), step.spec.name, "[green]verified[/green]" if step.ok else "[red]WRONG[/red]",
            f"{max(v.rho for v in step.verdicts):.1f}", str(step.threads), str(used.registers),
            bytes_text(used.static_smem + step.smem), str(used.spill_stores + used.spill_loads), speed,
        ))  # fmt: skip
    columns = (("", "right"), ("rung", "left"), ("", "left"), ("ρ", "right"), ("threads", "right"), ("regs", "right"),
               ("shared", "right"), ("spills", "right"), ("measured" if gpu else "simulated in", "right"))  # fmt: skip
    out.print(table(f"The ladder at {extent}x{extent}x{extent} on {where.name}", columns, rows))
    for step in steps:
        for verdict in step.verdicts:
            if not verdict.trusted:
                out.print(str(verdict), markup=False, style="red")
    note = (
        "wall time of the best of five launches; gemmsmith show RUNG explains a rung"
        if gpu
        else f"the simulator executes each kernel's PTX for {DEFAULT_ARCH}; its time says nothing about a GPU's"
    )
    out.print(f"[dim]ρ: error in units of the component-wise rounding bound, 16 allowed. {note}.[/dim]")
