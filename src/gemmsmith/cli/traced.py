"""Record the launch that a command line names, and write its trace."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path

from gemmsmith.cli.launch_files import launch_name, one_launch
from gemmsmith.cli.options.arguments import ArgumentOptions
from gemmsmith.cli.options.device import CacheOptions, TargetOptions
from gemmsmith.cli.options.kernel import KernelOptions
from gemmsmith.cli.options.problem import ProblemOptions
from gemmsmith.cli.render.output import progress
from gemmsmith.cli.subject import Subject, find_subject
from gemmsmith.compile.cache import CompileCache
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.errors import UsageError
from gemmsmith.explain.source_text import source_lines
from gemmsmith.trace.launch_trace import LaunchTrace, Size
from gemmsmith.trace.perfetto import perfetto_text
from gemmsmith.trace.recording.record import record_launch, record_product
from gemmsmith.trace.trace_json import trace_text

_PERFETTO = ".perfetto"


@dataclass(frozen=True)
class Traced:
    """A recorded launch and its machine code; ``subject`` is the kernel if it computes a product."""

    trace: LaunchTrace
    compiled: CompiledKernel
    subject: Subject | None = None


def trace_word(
    word: str, options: KernelOptions, problem: ProblemOptions, given: ArgumentOptions, target: TargetOptions,
    cache: CacheOptions, block: Size,
) -> Traced:  # fmt: skip
    """Record the launch of a rung, a .cu file or a Python file."""
    if given.launches(word):
        launch = one_launch(word, options, given)
        kept = CompileCache(cache.cache_dir) if cache.cache_dir is not None else None
        with progress() as bar:
            task = bar.add_task(f"recording {launch_name(launch)}", total=1)
            trace, compiled = record_launch(launch, title=launch_name(launch), block=block, arch=target.architecture,
                                            cache=kept)  # fmt: skip
            bar.advance(task)
        return Traced(trace, compiled)
    subject = find_subject(word, options, problem, target.architecture, cache.compiler, simulated=False, recognise=True)
    return trace_subject(subject, block)


def trace_subject(subject: Subject, block: Size) -> Traced:
    """Record the launch of a kernel that is found and compiled."""
    spec = subject.spec

    def text_of(file: str) -> str:
        return "\n".join(source_lines(spec, file))

    with progress() as bar:
        task = bar.add_task(f"recording {spec.name}", total=1)
        trace = record_product(spec, subject.config, subject.problem, subject.compiled, title=subject.title,
                               block=block, text_of=text_of, confirmed=subject.confirmed)  # fmt: skip
        bar.advance(task)
    return Traced(trace, subject.compiled, subject)


def write_trace(path: Path, trace: LaunchTrace) -> None:
    """Write the trace, for Perfetto where the name says so; compressed if it ends in .gz."""
    text = perfetto_text(trace) if _PERFETTO in path.suffixes else trace_text(trace)
    data = text.encode()
    try:
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}", "choose another --trace file") from None
