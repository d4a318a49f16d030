"""gemmsmith explain: what bounds a kernel, and what to do about it, in order of estimated gain."""

from __future__ import annotations

import textwrap
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.markup import escape

from gemmsmith.call.binding import aligned_code, needs_simulator
from gemmsmith.cli.options import (
    Arch,
    Block,
    CacheDir,
    Compiler,
    ConfigText,
    Defines,
    Entry,
    Grid,
    Json,
    Kernel,
    PresetName,
    SignatureText,
    Smem,
    find_kernel,
)
from gemmsmith.cli.render.output import WIDTH, console, print_json, progress
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.compile.sass import Sass, disassemble
from gemmsmith.errors import UsageError
from gemmsmith.explain.diagnosis import MODEL, Diagnosis, diagnose, to_json
from gemmsmith.explain.profile import Profile
from gemmsmith.explain.simulated_profile import simulate
from gemmsmith.gpus import GPU, gpu_named
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import check_accepts
from gemmsmith.problem import Problem, dtype_named
from gemmsmith.userfile.user_kernel import UserOptions

DEFAULT_GPU = "H200"
DEFAULT_SIZE = 4096  # large enough to fill a GPU, so that the kernel and not the grid is judged
_BLOCKS = 1  # of each kind (inside, edges), simulated
_WORTH = 1.005  # smaller gains are rounding
_DEPTH = 128  # K is continued from runs of 128 and 256

GpuName = Annotated[str, typer.Option("--gpu", help="A GPU of the table: RTX 3050, A6000, 4090, A100, H100, H200, …")]


@dataclass(frozen=True)
class Subject:
    """A kernel chosen, compiled and ready to be counted."""

    name: str
    spec: KernelSpec
    config: Config
    problem: Problem
    compiled: CompiledKernel
    user: UserOptions

    @property
    def title(self) -> str:
        return f"{self.spec.name} {self.config}".rstrip() + f", {self.problem}"

    def profile(self) -> tuple[Profile, Sass]:
        """Simulated counts of one block of each kind, over a part of K, continued to the whole launch; and the code."""
        sass = disassemble(self.compiled)
        return simulate(self.spec, self.config, self.problem, self.compiled, sample=_BLOCKS, depth=_DEPTH,
                        sass=sass), sass  # fmt: skip


def choose(kernel: str, shape: tuple[int, int, int], dtype: str, config: str, preset: str, define: list[str] | None,
           user: UserOptions, arch: str, compiler: Compiler, simulated: bool = True) -> Subject:  # fmt: skip
    """Find and compile a kernel for a shape; one that is to be ``simulated`` must be such that it can be."""
    spec, values = find_kernel(kernel, config, preset, define, user)
    problem = Problem(*shape, dtype=dtype_named(dtype) if dtype else spec.dtypes[0])
    check_accepts(spec, problem)
    if not spec.geometry(problem, values).blocks:
        raise UsageError(f"{problem} launches no block, so there is nothing to count", "give M and N of at least 1")
    if simulated:
        needs_simulator(spec, problem, f"on a GPU with ncu, gemmsmith profile {kernel} --device gpu measures it")
    fitted, seen = aligned_code(spec, values, problem)
    return Subject(kernel, spec, fitted, problem, compiler(spec, fitted, seen, arch), user)


def arch_of(gpu: GPU, arch: str) -> str:
    return arch or f"sm_{gpu.arch}"


def command(
    kernel: Kernel,
    gpu: GpuName = DEFAULT_GPU,
    m: Annotated[int, typer.Option("--m", help="Rows of C.")] = DEFAULT_SIZE,
    n: Annotated[int, typer.Option("--n", help="Columns of C.")] = DEFAULT_SIZE,
    k: Annotated[int, typer.Option("--k", help="Inner extent.")] = DEFAULT_SIZE,
    dtype: Annotated[str, typer.Option("--dtype", help="Input type, where the rung takes several.")] = "",
    config: ConfigText = "",
    preset: PresetName = "",
    define: Defines = None,
    arch: Arch = "",
    entry: Entry = "",
    grid: Grid = "",
    block: Block = "",
    smem: Smem = "",
    signature: SignatureText = "",
    cache_dir: CacheDir = None,
    json: Json = False,
) -> None:
    """Say what bounds a kernel on a GPU, with the numbers behind it, and list fixes by estimated gain."""
    target = gpu_named(gpu)
    subject = choose(kernel, (m, n, k), dtype, config, preset, define,
                     UserOptions(entry, grid, block, smem, signature), arch_of(target, arch),
                     Compiler(cache_dir))  # fmt: skip
    with progress() as bar:
        task = bar.add_task(f"simulating {subject.spec.name}", total=1)
        found = diagnose(*subject.profile(), target)
        bar.advance(task)
    if json:
        print_json(to_json(found))
    else:
        _print(subject, found)


def _print(subject: Subject, found: Diagnosis) -> None:
    out = console()
    out.print(f"[bold]{escape(wrapped(f'{subject.title} on {found.case.gpu.name}'))}[/bold]")
    out.print()
    for sentence in found.sentences:
        out.print(escape(wrapped(sentence)))
    shown = [f for f in found.findings if f.gain >= _WORTH]
    hidden = [f for f in found.findings if f.gain < _WORTH]
    if shown:
        out.print("\n[bold]What to do, by estimated gain[/bold]")
    for number, finding in enumerate(shown, 1):
        out.print(f"{number}. [bold]{escape(finding.kind)}[/bold]: {finding.gain:.2f} times as fast")
        out.print(escape(wrapped(f"{finding.sentence} {finding.fix}", "   ")))
    if hidden:
        out.print("\n[bold]No gain by itself, while the above bounds the kernel[/bold]")
    for finding in hidden:
        out.print(f"- [bold]{escape(finding.kind)}[/bold]")
        out.print(escape(wrapped(f"{finding.sentence} {finding.fix}", "   ")))
    out.print()
    out.print(f"[dim]{escape(wrapped(MODEL))}[/dim]")


def wrapped(text: str, indent: str = "") -> str:
    """Lines of at most 100 columns."""
    return textwrap.fill(text, WIDTH, initial_indent=indent, subsequent_indent=indent or "  ")
