"""gemmsmith report: the page from sources, simulated counts, recorded timings and sweeps."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from gemmsmith import __version__
from gemmsmith.bench.machine import machine_facts
from gemmsmith.cli.ladder import check_page, collect_ladder, ladder_model, made_now, save_page
from gemmsmith.cli.names import gpu_from
from gemmsmith.cli.options.device import DEFAULT_GPU, CacheOptions, GpuName
from gemmsmith.cli.options.groups import OptionGroup, option_words
from gemmsmith.cli.options.output import OutputOptions
from gemmsmith.cli.options.problem import DEFAULT_SIZE
from gemmsmith.cli.render.output import item, print_json, say
from gemmsmith.compile.toolchain import find_toolchain
from gemmsmith.errors import UsageError
from gemmsmith.gpus import GPU, gpus
from gemmsmith.ladder.registry import rungs
from gemmsmith.report.collect import ladder_config
from gemmsmith.report.report_model import MEASURED, RECORDED, ReportModel
from gemmsmith.report.speeds import is_ladder_timing
from gemmsmith.report.sweep_file import as_recorded, read_sweeps
from gemmsmith.run.cuda import cuda_device, device_count, gpu_available
from gemmsmith.store.database import Results
from gemmsmith.store.recorded import recorded_runs
from gemmsmith.store.results import Machine, Measurement, Run


@dataclass(frozen=True)
class ReportOptions(OptionGroup):
    """What goes into the page."""

    panel: ClassVar[str] = "Page"

    run: Annotated[
        str,
        typer.Option(
            "--run",
            metavar="RUN",
            help="The run whose timings are shown: an id or its beginning, 'latest', or 'latest~2'. Default: the "
            "latest run that timed a rung of the ladder, or else the runs that come with the package.",
        ),
    ] = ""
    sweep: Annotated[
        list[Path] | None,
        typer.Option("--sweep", metavar="FILE.json", help="A sweep saved by sweep --save; may be repeated."),
    ] = None
    html: Annotated[Path, typer.Option("--html", help="The page to write.")] = Path("report.html")
    size: Annotated[
        int, typer.Option("--size", show_default="4096, or the run's largest", help="M = N = K of the ladder's chart.")
    ] = 0
    db: Annotated[
        Path | None, typer.Option("--db", metavar="FILE", help="The results database.", envvar="GEMMSMITH_DB")
    ] = None

    def __post_init__(self) -> None:
        if self.size < 0:
            raise UsageError(f"--size {self.size} is not positive")


def command(options: ReportOptions, gpu: GpuName = "", *, cache: CacheOptions, output: OutputOptions) -> None:
    """Write climb's page from recorded timings and simulated counts.

    No kernel is verified or timed.
    """
    check_page(options.html)
    sweeps = tuple(as_recorded(found) for path in options.sweep or [] for found in read_sweeps(path))
    machine = machine_facts(None, find_toolchain().compiler)
    measured, recorded = _runs(options.run, options.db, machine)
    shown = measured or recorded
    target = _target(gpu, shown)
    extent = options.size or _size(shown)
    gathered = collect_ladder(extent, f"sm_{target.arch}", cache.compiler, 0)
    given = option_words(replace(options, html=Path("report.html"), db=None))
    words = shlex.join(["gemmsmith", "report", *given, *(["--gpu", gpu] if gpu else [])])
    model = ladder_model(gathered, target, extent, made_now(words, machine), measured, recorded, sweeps)
    page = save_page(options.html, model)
    if output.json:
        print_json(_facts(model, page))
    else:
        _print(model, page)


def _runs(name: str, db: Path | None, machine: Machine) -> tuple[tuple[Run, ...], tuple[Run, ...]]:
    """(measured here, recorded): a run of another host's database was not measured here."""
    with Results.open(db, read_only=True) as results:
        if name:
            found: Run | None = results.run(name)
            if found is not None and not _trusted(found):
                raise UsageError(f"run {found.id} timed no rung of the ladder", "gemmsmith history lists the runs")
        else:
            found = next((run for run in results.runs() if _timings(run)), None)
    if found is None:
        return (), recorded_runs()
    return ((found,), ()) if _is_here(found.machine, machine) else ((), (found,))


def _is_here(there: Machine, here: Machine) -> bool:
    """Host names repeat (every virtual machine may be 'vm'), so the machine must match and have that GPU now."""
    if (there.host, there.system, there.cpu) != (here.host, here.system, here.cpu) or not gpu_available():
        return False
    return any(cuda_device(at).name == there.gpu for at in range(device_count()))


def _timings(run: Run) -> list[Measurement]:
    """Timings with the type, layout and configuration of the ladder; the page draws these and lists the others."""
    ours = {spec.name: (spec.dtypes[0].name, str(ladder_config(spec))) for spec in rungs()}
    return [m for m in _trusted(run) if is_ladder_timing(m, *ours[m.identity.name])]


def _trusted(run: Run) -> list[Measurement]:
    """Timings of rungs that are verified and not rejected."""
    names = {spec.name for spec in rungs()}
    return [m for m in run.measurements
            if m.origin == MEASURED and m.verified and not m.rejected and m.tflops > 0
            and m.identity.kind == "rung" and m.identity.name in names]  # fmt: skip


def _target(name: str, shown: tuple[Run, ...]) -> GPU:
    """The GPU named, or that of the timings where the table has it, or the default."""
    if name:
        return gpu_from(name)
    timed = shown[0].machine.gpu.lower() if shown else ""
    known = [gpu for gpu in gpus() if f" {gpu.name.lower()} " in f" {timed} "]
    return known[0] if known else gpu_from(DEFAULT_GPU)


def _size(shown: tuple[Run, ...]) -> int:
    """The default size if rungs were timed at it or not at all; else the largest cube that was timed."""
    cubes = {m.problem.m for run in shown for m in _timings(run) if m.problem.m == m.problem.n == m.problem.k}
    return DEFAULT_SIZE if DEFAULT_SIZE in cubes or not cubes else max(cubes)


def _facts(model: ReportModel, page: Path) -> dict[str, Any]:
    """What went into the page."""
    return {
        "page": str(page), "command": model.made.command, "gemmsmith": __version__, "date": model.made.date,
        "gpu": model.gpu.name, "size": model.problem.m, "rungs": [rung.name for rung in model.rungs],
        "counts": "simulated", "not_simulated": [rung.name for rung in model.rungs if not rung.simulated],
        "runs": [
            {"id": run.id, "started": run.started, "command": run.command, "gpu": run.machine.gpu, "origin": origin,
             "measurements": len(run.measurements), "rung_timings": len(_timings(run))}
            for origin, runs in ((MEASURED, model.measured), (RECORDED, model.recorded)) for run in runs
        ],
        "sweeps": [{"title": s.title, "origin": s.origin, "where": s.where, "points": len(s.points)}
                   for s in model.sweeps],
        "published": len(model.published),
    }  # fmt: skip


def _print(model: ReportModel, page: Path) -> None:
    item(f"{page}: {len(model.rungs)} rungs at {model.problem.m}³ for {model.gpu.name}", lead=str(page))
    unknown = [rung.name for rung in model.rungs if not rung.simulated]
    without = f", except for {', '.join(unknown)}" if unknown else ""
    _row("counts", f"simulated{without}; nothing was verified or timed now")
    for origin, runs in ((MEASURED, model.measured), (RECORDED, model.recorded)):
        for run in runs:
            _row("timings", f"{origin}: run {run.id[:12]} of {run.started[:10]} on {run.machine.gpu}, "
                 f"{len(_timings(run))} timings of rungs")  # fmt: skip
    if not (model.measured or model.recorded):
        _row("timings", "none: gemmsmith climb or bench on a GPU records them")
    _row("sweeps", str(len(model.sweeps) or "none: gemmsmith sweep … --save FILE.json, then --sweep FILE.json"))
    _row("published", f"{len(model.published)} figures of others")


def _row(name: str, text: str) -> None:
    say(f"{name:9} {text}", hang=" " * 10)
