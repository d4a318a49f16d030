"""gemmsmith report: the page from what is known already: sources, simulated counts, recorded timings and sweeps."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from gemmsmith import __version__
from gemmsmith.bench.machine import machine_facts
from gemmsmith.cli.commands.explain import DEFAULT_GPU, DEFAULT_SIZE, GpuName, arch_of
from gemmsmith.cli.ladder import check_page, gather_ladder, ladder_story, made_now, save_page
from gemmsmith.cli.options import CacheDir, Compiler, Json
from gemmsmith.cli.render.output import console, print_json
from gemmsmith.compile.toolchain import find_toolchain
from gemmsmith.errors import UsageError
from gemmsmith.gpus import GPU, gpu_named, gpus
from gemmsmith.ladder.registry import rungs
from gemmsmith.report.collect import ladder_config
from gemmsmith.report.report_model import MEASURED, RECORDED, ReportModel
from gemmsmith.report.speeds import is_ladder_timing
from gemmsmith.report.sweep_file import as_recorded, read_sweeps
from gemmsmith.run.cuda import cuda_device, device_count, gpu_available
from gemmsmith.store.database import Results
from gemmsmith.store.recorded import recorded_runs
from gemmsmith.store.results import Machine, Measurement, Run


def command(
    run: Annotated[
        str,
        typer.Option(
            "--run",
            metavar="RUN",
            help="The run whose timings are shown: an id or its beginning, 'latest', or 'latest~2'. Unless told, the "
            "latest that timed a rung as the ladder has it; where there is none, those that come with the package.",
        ),
    ] = "",
    sweep: Annotated[
        list[Path] | None, typer.Option("--sweep", metavar="FILE.json", help="A sweep saved by sweep --save; several.")
    ] = None,
    html: Annotated[Path, typer.Option("--html", help="The page to write.")] = Path("report.html"),
    size: Annotated[
        int, typer.Option("--size", help="M = N = K of the ladder's chart; 4096, or the run's largest, unless told.")
    ] = 0,
    gpu: GpuName = "",
    db: Annotated[
        Path | None, typer.Option("--db", metavar="FILE", help="The results database.", envvar="GEMMSMITH_DB")
    ] = None,
    cache_dir: CacheDir = None,
    json: Json = False,
) -> None:
    """Write the page from what is known: no kernel is verified or timed; counts come from the simulator."""
    if size < 0:
        raise UsageError(f"--size {size} is not positive")
    check_page(html)
    sweeps = tuple(as_recorded(found) for path in sweep or [] for found in read_sweeps(path))
    machine = machine_facts(None, find_toolchain().compiler)
    measured, recorded = _runs(run, db, machine)
    shown = measured or recorded
    target = _target(gpu, shown)
    extent = size or _size(shown)
    gathered = gather_ladder(extent, arch_of(target, ""), Compiler(cache_dir), 0, "counting")
    given = [
        ("--run", run),
        ("--gpu", gpu),
        ("--size", str(size or "")),
        *(("--sweep", str(path)) for path in sweep or []),
    ]
    words = shlex.join(["gemmsmith", "report", *(w for name, value in given if value for w in (name, value))])
    story = ladder_story(gathered, target, extent, made_now(words, machine), measured, recorded, sweeps)
    page = save_page(html, story)
    if json:
        print_json(_facts(story, page))
    else:
        _print(story, page)


def _runs(name: str, db: Path | None, machine: Machine) -> tuple[tuple[Run, ...], tuple[Run, ...]]:
    """(measured here, recorded): a run of another host's database was not measured here."""
    with Results.open(db, read_only=True) as results:
        if name:
            found: Run | None = results.run(name)
            if found is not None and not _believed(found):
                raise UsageError(f"run {found.id} timed no rung of the ladder", "gemmsmith history lists the runs")
        else:
            found = next((run for run in results.runs() if _timings(run)), None)
    if found is None:
        return (), recorded_runs()
    return ((found,), ()) if _is_here(found.machine, machine) else ((), (found,))


def _is_here(there: Machine, here: Machine) -> bool:
    """Host names repeat (every virtual machine may be 'vm'): the machine must be alike and have that GPU now."""
    if (there.host, there.system, there.cpu) != (here.host, here.system, here.cpu) or not gpu_available():
        return False
    return any(cuda_device(at).name == there.gpu for at in range(device_count()))


def _timings(run: Run) -> list[Measurement]:
    """Those with the type, layout and configuration of the ladder: the page draws these and lists the others."""
    ours = {spec.name: (spec.dtypes[0].name, str(ladder_config(spec))) for spec in rungs()}
    return [m for m in _believed(run) if is_ladder_timing(m, *ours[m.identity.name])]


def _believed(run: Run) -> list[Measurement]:
    """The timings of rungs that may be believed."""
    names = {spec.name for spec in rungs()}
    return [m for m in run.measurements
            if m.origin == MEASURED and m.verified and not m.rejected and m.tflops > 0
            and m.identity.kind == "rung" and m.identity.name in names]  # fmt: skip


def _target(name: str, shown: tuple[Run, ...]) -> GPU:
    """The GPU named, or that of the timings where the table has it, or the default."""
    if name:
        return gpu_named(name)
    timed = shown[0].machine.gpu.lower() if shown else ""
    known = [gpu for gpu in gpus() if f" {gpu.name.lower()} " in f" {timed} "]
    return known[0] if known else gpu_named(DEFAULT_GPU)


def _size(shown: tuple[Run, ...]) -> int:
    """The usual size where rungs were timed at it or nowhere; else the largest cube that was."""
    cubes = {m.problem.m for run in shown for m in _timings(run) if m.problem.m == m.problem.n == m.problem.k}
    return DEFAULT_SIZE if DEFAULT_SIZE in cubes or not cubes else max(cubes)


def _facts(story: ReportModel, page: Path) -> dict[str, Any]:
    """What went into the page."""
    return {
        "page": str(page), "command": story.made.command, "gemmsmith": __version__, "date": story.made.date,
        "gpu": story.gpu.name, "size": story.problem.m, "rungs": [rung.name for rung in story.rungs],
        "counts": "simulated", "not_simulated": [rung.name for rung in story.rungs if not rung.simulated],
        "runs": [
            {"id": run.id, "started": run.started, "command": run.command, "gpu": run.machine.gpu, "origin": origin,
             "measurements": len(run.measurements), "rung_timings": len(_timings(run))}
            for origin, runs in ((MEASURED, story.measured), (RECORDED, story.recorded)) for run in runs
        ],
        "sweeps": [{"title": s.title, "origin": s.origin, "where": s.where, "points": len(s.points)}
                   for s in story.sweeps],
        "published": len(story.published),
    }  # fmt: skip


def _print(story: ReportModel, page: Path) -> None:
    out = console()
    out.print(f"[bold]{page}[/bold]: {len(story.rungs)} rungs at {story.problem.m}³ for {story.gpu.name}")
    unknown = [rung.name for rung in story.rungs if not rung.simulated]
    without = f"; not yet of {', '.join(unknown)}" if unknown else ""
    out.print(f"counts    simulated{without}; nothing was verified or timed now", markup=False)
    for origin, runs in ((MEASURED, story.measured), (RECORDED, story.recorded)):
        for run in runs:
            out.print(f"timings   {origin}: run {run.id[:12]} of {run.started[:10]} on {run.machine.gpu}, "
                      f"{len(_timings(run))} of rungs", markup=False, soft_wrap=False)  # fmt: skip
    if not (story.measured or story.recorded):
        out.print("timings   none: gemmsmith climb or bench on a GPU records them", markup=False)
    out.print(f"sweeps    {len(story.sweeps) or 'none: gemmsmith sweep … --save FILE.json, then --sweep FILE.json'}",
              markup=False)  # fmt: skip
    out.print(f"published {len(story.published)} figures of others", markup=False)
