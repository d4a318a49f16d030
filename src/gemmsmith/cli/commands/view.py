"""gemmsmith view: an animation of a launch, in one HTML file."""

from __future__ import annotations

import os
import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from gemmsmith.cli.commands.compare import side_options
from gemmsmith.cli.options.arguments import ArgumentOptions
from gemmsmith.cli.options.device import CacheOptions, TargetOptions
from gemmsmith.cli.options.groups import OptionGroup, option_words
from gemmsmith.cli.options.kernel import KernelOptions
from gemmsmith.cli.options.output import OutputOptions
from gemmsmith.cli.options.problem import ProblemOptions
from gemmsmith.cli.options.tracing import BlockOptions
from gemmsmith.cli.render.output import print_json, progress, say
from gemmsmith.cli.side_by_side import for_both
from gemmsmith.cli.traced import Traced, trace_word
from gemmsmith.errors import UsageError
from gemmsmith.explain.timing.cycles import BlockCycles
from gemmsmith.report.view.model import ViewSubject
from gemmsmith.report.view.page import write_view
from gemmsmith.report.view.registry import titles
from gemmsmith.report.view.timed import cycles_of
from gemmsmith.trace.trace_json import read_trace

_SHAPE = ProblemOptions(256, 256, 256)
Viewed = Annotated[
    str,
    typer.Argument(
        metavar="RUNG|FILE.cu|FILE.py|TRACE.json",
        help="A rung, a .cu file, a Python file that describes a launch, or a recorded trace.",
        show_default=False,
    ),
]

Other = Annotated[
    str, typer.Argument(metavar="[OTHER]", help="A second kernel, to see side by side.", show_default=False)
]


@dataclass(frozen=True)
class PageOptions(OptionGroup):
    """Where the page goes."""

    panel: ClassVar[str] = "Page"

    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE.html", help="The page. Default: NAME.view.html here.")
    ] = None
    opens: Annotated[bool, typer.Option("--open/--no-open", help="Open the page where there is a browser.")] = True


@dataclass(frozen=True)
class SecondOptions(OptionGroup):
    """What the second kernel has of its own."""

    panel: ClassVar[str] = "Second kernel"

    y_config: Annotated[
        str,
        typer.Option(
            "--y-config", metavar="NAME=VALUE", help="Parameters of the second kernel, or macros: BM=64,BN=64."
        ),
    ] = ""
    y_preset: Annotated[str, typer.Option("--y-preset", help="A named configuration of the second kernel, a rung.")] = (
        ""
    )
    y_launch: Annotated[
        str, typer.Option("--y-launch", help="Launch of the second kernel, a file: 'block=32,32; grid=…; entry=mine'.")
    ] = ""

    def options(self, include: list[Path] | None) -> KernelOptions:
        return side_options(self.y_config, self.y_preset, self.y_launch, include)


def command(
    kernel: Viewed,
    options: KernelOptions,
    problem: ProblemOptions = _SHAPE,
    *,
    other: Other = "",
    arguments: ArgumentOptions,
    block: BlockOptions,
    page: PageOptions,
    second: SecondOptions,
    target: TargetOptions,
    cache: CacheOptions,
    output: OutputOptions,
) -> None:
    """Animate a launch: who computes what, accesses lane by lane, the k-loop.

    Writes one HTML file, drawn from what the simulator recorded of this launch. A launch that faults is drawn up to
    there, and the exit code is 1.
    Of two kernels, -D and --config set the parameters that each has; --y-config sets those of the second alone.
    """
    named = [kernel, other] if other else [kernel]
    words = [*named, *option_words(options, problem, arguments, block, second, target)]
    command_line = shlex.join(["gemmsmith", "view", *words])

    def recorded(word: str, given: KernelOptions, beside: ViewSubject | None = None) -> ViewSubject:
        if word.endswith((".json", ".json.gz")):
            return ViewSubject(read_trace(word), None, target.model, command_line, beside)
        found = trace_word(word, given, problem, arguments, target, cache, block.block)
        return ViewSubject(found.trace, found.compiled, target.model, command_line, beside, timed(found))

    def timed(found: Traced) -> BlockCycles | None:
        if found.subject is None:
            return None
        with progress() as bar:
            task = bar.add_task("timing with the cycle model", total=1)
            cycles = cycles_of(found.subject.spec, found.subject.config, found.subject.problem, target.model,
                               found.trace)  # fmt: skip
            bar.advance(task)
        return cycles

    beside_it: ViewSubject | None = None
    if other:
        options, own = for_both(kernel, options, other, second.options(options.include))
        beside_it = recorded(other, own)
    subject = recorded(kernel, options, beside_it)
    beside = f"-{subject.other.trace.kernel}" if subject.other is not None else ""
    path = page.out or Path(f"{_file_name(subject.trace.kernel + beside)}.view.html")
    try:
        write_view(path, subject)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}", "choose another --out file") from None
    if output.json:
        print_json({"page": str(path), "bytes": path.stat().st_size, "kernel": subject.trace.kernel,
                    "views": list(titles(subject)), "seconds": subject.trace.seconds,
                    "faults": list(subject.faults)})  # fmt: skip
    else:
        _print(subject, path, opened=page.opens and _open(path))
    if subject.faults:
        raise typer.Exit(1)


def _print(subject: ViewSubject, path: Path, *, opened: bool) -> None:
    say(f"{subject.trace.title}: {subject.trace.summary}", "bold")
    for fault in subject.faults:
        say(f"the launch stopped: {fault}")
    for title in titles(subject).values():
        say(f"  {title}")
    say(f"{'opened' if opened else 'open'} {path} ({path.stat().st_size / 1e6:.1f} MB)")


def _file_name(kernel: str) -> str:
    return re.sub(r"[^\w.-]+", "_", kernel).strip("_") or "kernel"


def _open(path: Path) -> bool:
    """Open the page in a browser where a person sits before one."""
    import webbrowser

    seated = sys.stdout.isatty() and (sys.platform == "darwin" or os.name == "nt" or bool(
        os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")))  # fmt: skip
    if not seated:
        return False
    try:
        return webbrowser.open(path.resolve().as_uri())
    except webbrowser.Error:
        return False
