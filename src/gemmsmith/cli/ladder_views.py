"""The full views of every rung, in a folder beside the page of ``climb``."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import replace
from pathlib import Path

from markupsafe import Markup, escape

from gemmsmith.call.binding import aligned_code
from gemmsmith.cli.compiler import Compiler
from gemmsmith.cli.render.output import progress
from gemmsmith.cli.subject import kernel_title
from gemmsmith.errors import UsageError
from gemmsmith.explain.source_text import source_lines
from gemmsmith.gpus import GPU
from gemmsmith.ladder.registry import rung_named
from gemmsmith.report.report_model import ReportModel
from gemmsmith.report.view.model import ViewSubject
from gemmsmith.report.view.page import write_view
from gemmsmith.report.view.timed import cycles_of
from gemmsmith.trace.recording.record import record_product

_SIZE = 256
_WORKERS = 4


def views_folder(page: Path) -> Path:
    """climb-views beside climb.html."""
    return page.with_name(f"{page.stem}-views")


def check_folder(folder: Path) -> None:
    """Refuse a folder that cannot be written before anything is run."""
    if folder.exists() and not folder.is_dir():
        raise UsageError(f"--views: {folder} is a file", "remove it, or give the page another name with --html")


def write_ladder_views(folder: Path, names: Sequence[str], arch: str, gpu: GPU, compiler: Compiler) -> list[Path]:
    """Record and draw every rung at 256³; several at a time."""
    folder.mkdir(exist_ok=True)
    workers = min(_WORKERS, os.cpu_count() or 1)
    found: list[Path] = []
    with progress() as bar, ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        task = bar.add_task("recording", total=len(names))
        futures = [pool.submit(_write_one, folder, name, arch, gpu, compiler) for name in names]
        for future in as_completed(futures):
            found.append(future.result())
            bar.advance(task)
    return sorted(found)


def _write_one(folder: Path, name: str, arch: str, gpu: GPU, compiler: Compiler) -> Path:
    spec = rung_named(name)
    problem = spec.problem(_SIZE, _SIZE, _SIZE)
    config, seen = aligned_code(spec, spec.config(), problem)
    compiled = compiler(spec, config, seen, arch)

    def text_of(file: str) -> str:
        return "\n".join(source_lines(spec, file))

    title = f"{kernel_title(spec, config)}, {problem}"
    trace = record_product(spec, config, problem, compiled, title=title, text_of=text_of)
    cycles = cycles_of(spec, config, problem, gpu, trace)
    subject = ViewSubject(trace, compiled, gpu, f"gemmsmith view {name}", cycles=cycles)
    return write_view(folder / f"{name}.html", subject)


def with_links(model: ReportModel, folder: Path, names: Sequence[str]) -> ReportModel:
    """The page's model, each of these rungs with a link to its views."""
    made = tuple(
        replace(rung, animation=rung.animation + _link(folder.name, rung.name)) if rung.name in names else rung
        for rung in model.rungs
    )
    return replace(model, rungs=made)


def _link(folder: str, name: str) -> Markup:
    place = escape(f"{folder}/{name}.html")
    return Markup(f'<p><a href="{place}">All views of {escape(name)}</a>, step by step</p>')
