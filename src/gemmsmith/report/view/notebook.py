"""``gemmsmith.view``: the views of a launch in a notebook, or as a file."""

from __future__ import annotations

import html
import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from gemmsmith.call.binding import aligned_code
from gemmsmith.call.launch import Launch
from gemmsmith.compile.compiler import compile_for
from gemmsmith.errors import UsageError
from gemmsmith.explain.source_text import source_lines
from gemmsmith.gpus import gpu_named
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import check_accepts, rung_named
from gemmsmith.problem import dtype_named
from gemmsmith.report.view.model import ViewSubject
from gemmsmith.report.view.page import view_page, write_view
from gemmsmith.report.view.timed import cycles_of
from gemmsmith.trace.launch_trace import LaunchTrace, Size
from gemmsmith.trace.recording.record import record_launch, record_product
from gemmsmith.userfile.kernels.user_kernel import UserOptions, user_kernel
from gemmsmith.verify.meaning.recognise import recognised

_SIZE = 256
_HEIGHT = 860  # pixels of the frame in a notebook
_SOURCES = (".cu", ".cuh")


@dataclass(frozen=True)
class LaunchView:
    """The views of one recorded launch. A notebook shows them; ``save`` writes them as one HTML file."""

    subject: ViewSubject

    @property
    def trace(self) -> LaunchTrace:
        """What was recorded."""
        return self.subject.trace

    @cached_property
    def html(self) -> str:
        """The whole page."""
        return view_page(self.subject)

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the page. It needs nothing besides itself."""
        return write_view(Path(path), self.subject)

    def _repr_html_(self) -> str:
        return (f'<iframe srcdoc="{html.escape(self.html)}" style="width:100%;height:{_HEIGHT}px;border:0" '
                f'title="{html.escape(self.trace.title)}" sandbox="allow-scripts"></iframe>')  # fmt: skip

    def __repr__(self) -> str:
        return f"<views of {self.trace.title}: {self.trace.summary}>"


def view(
    kernel: str | os.PathLike[str] | Launch | LaunchTrace,
    m: int = _SIZE,
    n: int = _SIZE,
    k: int = _SIZE,
    *,
    dtype: str = "",
    config: dict[str, int | str] | None = None,
    entry: str = "",
    block: Size = (0, 0, 0),
    gpu: str = "H200",
) -> LaunchView:
    """See a launch move: who owns what, every access lane by lane, the k-loop in time, tensor-core fragments.

    ``kernel`` is a rung of the ladder, the path of a ``.cu`` file with a matrix product, a ``Launch`` of any kernel, or
    a trace. It runs on the simulator, and ``block`` is recorded in full. ``config`` are a rung's parameters, or a
    file's macros, and ``entry`` names the kernel of a file that has several.
    """
    model = gpu_named(gpu)
    arch = f"sm_{model.arch}"
    if isinstance(kernel, LaunchTrace):
        return LaunchView(ViewSubject(kernel, gpu=model))
    if isinstance(kernel, Launch):
        title = kernel.name or kernel.kernel or "kernel"
        trace, compiled = record_launch(kernel, title=title, block=block, arch=arch)
        return LaunchView(ViewSubject(trace, compiled, model))
    spec, fitted = _kernel(os.fspath(kernel), config or {}, entry)
    found = recognised(spec, fitted, compile_for, arch)
    spec = found.spec
    problem = spec.problem(*_extents(spec, m, n, k), dtype_named(dtype) if dtype else None)
    check_accepts(spec, problem)
    aligned, seen = aligned_code(spec, fitted, problem)
    compiled = compile_for(spec, aligned, seen, arch)

    def text_of(file: str) -> str:
        return "\n".join(source_lines(spec, file))

    title = f"{spec.name} {str(aligned).replace(',', ', ')}".rstrip() + f", {problem}"
    trace = record_product(spec, aligned, problem, compiled, title=title, block=block, text_of=text_of,
                           confirmed=found.confirmed)  # fmt: skip
    return LaunchView(ViewSubject(trace, compiled, model, cycles=cycles_of(spec, aligned, problem, model, trace)))


def _kernel(word: str, config: dict[str, int | str], entry: str) -> tuple[KernelSpec, Any]:
    path = Path(word)
    if path.suffix in _SOURCES or path.is_file():
        defines = tuple((name, str(value)) for name, value in config.items())
        spec = user_kernel(path, UserOptions(entry, defines=defines))
        return spec, spec.config()
    if entry:
        raise UsageError(f"{word} is a rung and has one kernel", "entry= is for files")
    spec = rung_named(word)
    return spec, spec.config(config)


def _extents(spec: KernelSpec, m: int, n: int, k: int) -> tuple[int, int, int]:
    own = dict(spec.signature.fixed)
    return own.get("M", m), own.get("N", n), own.get("K", k)
