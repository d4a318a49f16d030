"""gemmsmith show: everything about one kernel."""

from __future__ import annotations

import dataclasses
import math
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import typer

from gemmsmith.call.binding import aligned_code
from gemmsmith.cli.options.device import DEFAULT_ARCH, CacheOptions
from gemmsmith.cli.options.groups import OptionGroup
from gemmsmith.cli.options.kernel import KernelName, KernelOptions, find_kernel
from gemmsmith.cli.options.output import OutputOptions
from gemmsmith.cli.render.output import bytes_text, console, item, print_json, print_table, say
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.compile.sass import Sass, disassemble
from gemmsmith.errors import UsageError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import check_accepts
from gemmsmith.problem import FP32, Problem, dtype_named

_EXAMPLE = 4096  # the size whose launch geometry is shown


@dataclass(frozen=True)
class CodeOptions(OptionGroup):
    """Which code to show, and for which types and architecture it is compiled."""

    panel: ClassVar[str] = "Code"

    source: Annotated[bool, typer.Option("--source", help="The CUDA C++ source.")] = False
    ptx: Annotated[bool, typer.Option("--ptx", help="The PTX.")] = False
    sass: Annotated[bool, typer.Option("--sass", help="The machine code.")] = False
    loop: Annotated[bool, typer.Option("--loop", help="The machine code of the main loop only.")] = False
    dtype: Annotated[str, typer.Option("--dtype", help="Input type, where the rung takes several.")] = ""
    out_dtype: Annotated[
        str, typer.Option("--out-dtype", help="Output type. Default: fp32, or the type that the kernel writes.")
    ] = ""
    arch: Annotated[str, typer.Option("--arch", help="Compile for this architecture, such as sm_86.")] = DEFAULT_ARCH

    def __post_init__(self) -> None:
        if sum((self.source, self.ptx, self.sass, self.loop)) > 1:
            raise UsageError("choose one of --source, --ptx, --sass and --loop")

    def problem(self, spec: KernelSpec) -> Problem:
        kind = dtype_named(self.dtype) if self.dtype else spec.dtypes[0]
        writes_fp32 = FP32 in spec.out_dtypes or not spec.out_dtypes
        out = dtype_named(self.out_dtype) if self.out_dtype else FP32 if writes_fp32 else spec.out_dtypes[0]
        return Problem(_EXAMPLE, _EXAMPLE, _EXAMPLE, dtype=kind, out_dtype=out)


def command(
    kernel: KernelName, options: KernelOptions, code: CodeOptions, cache: CacheOptions, output: OutputOptions
) -> None:
    """Show a kernel: its idea, parameters and resources, or its source, PTX or SASS."""
    spec, config = find_kernel(kernel, options)
    problem = code.problem(spec)
    check_accepts(spec, problem)
    config, seen = aligned_code(spec, config, problem)
    compiled = cache.compiler(spec, config, seen, code.arch)
    if output.json:
        print_json(_facts(spec, config, problem, compiled, code))
    elif code.source:
        _print_source(spec.code)
    elif code.ptx:
        _print_code(compiled.ptx)
    elif code.sass:
        _print_code(_listing(disassemble(compiled)))
    elif code.loop:
        _print_code(_loop(disassemble(compiled)))
    else:
        _print_summary(spec, config, problem, compiled)


def header_of(code: str) -> str:
    """The comment that a rung's file begins with."""
    lines = []
    for line in code.splitlines():
        if not line.startswith("//"):
            break
        lines.append(line[2:].removeprefix(" "))
    return "\n".join(lines).rstrip()


@dataclass(frozen=True)
class Paragraph:
    """A paragraph of a header on one line, with the indent of its further lines; or one line of a picture."""

    text: str
    hang: str = ""
    picture: bool = False


def header_paragraphs(header: str) -> Iterator[Paragraph]:
    """A header as paragraphs: a label with text beside it and below; further text below; lines of pictures between."""
    lines = header.split("\n")
    at, indent = 0, ""
    while at < len(lines):
        label = re.match(r"[A-Z][A-Za-z ]*?  +(?=\S)", lines[at])
        indent = " " * label.end() if label else indent
        below = rf"{indent}\S" if indent else r"(?!)"
        prose = label is not None or re.match(below, lines[at]) is not None
        text, at = lines[at], at + 1
        while prose and at < len(lines) and re.match(below, lines[at]):
            text, at = f"{text} {lines[at].strip()}", at + 1
        yield Paragraph(text, indent if label else "", picture=not prose)


def _listing(sass: Sass) -> str:
    return "\n".join(i.text for i in sass.instructions)


def _loop(sass: Sass) -> str:
    """The main loop; all instructions where there is no loop."""
    hot = sass.main_loop()
    return "\n".join(i.text for i in (sass if hot is None else hot).instructions)


def _facts(
    spec: KernelSpec, config: Config, problem: Problem, compiled: CompiledKernel, code: CodeOptions
) -> dict[str, Any]:
    geometry = spec.geometry(problem, config)
    sass = disassemble(compiled)
    facts = {
        "name": spec.name, "rung": spec.rung, "summary": spec.summary, "teaches": spec.teaches,
        "idea": header_of(spec.code), "config": dict(config.values), "arch": compiled.arch,
        "value_names": {p.name: dict(p.value_names)[config[p.name]] for p in spec.parameters if p.value_names},
        "compiler": compiled.compiler, "entry": compiled.entry, "cached": compiled.cached,
        "cache_path": compiled.cache_path, "resources": dataclasses.asdict(compiled.resources),
        "dynamic_smem": geometry.smem, "threads": geometry.threads, "example": str(problem),
        "grid": list(geometry.grid), "cluster": list(geometry.cluster), "block": list(geometry.block),
        "persistent": spec.persistent, "sass_counts": dict(sass.counts.most_common()),
        "source": spec.code, "ptx": compiled.ptx,
    }  # fmt: skip
    if code.sass:
        facts["sass"] = _listing(sass)
    if code.loop:
        facts["loop"] = _loop(sass)
    return facts


def _print_source(text: str) -> None:
    """With colours and line numbers on a terminal; as the file has it in a pipe."""
    out = console()
    if not out.is_terminal:
        _print_code(text)
        return
    from rich.syntax import Syntax

    out.print(Syntax(text, "cuda", line_numbers=True, word_wrap=False))


def _print_code(text: str) -> None:
    sys.stdout.write(text.rstrip("\n") + "\n")


def _print_summary(spec: KernelSpec, config: Config, problem: Problem, compiled: CompiledKernel) -> None:
    item(f"{spec.name}  {spec.summary}", lead=spec.name)
    if header := header_of(spec.code):
        say()
        for paragraph in header_paragraphs(header):
            if paragraph.picture:
                sys.stdout.write(paragraph.text + "\n")
            else:
                say(paragraph.text, hang=paragraph.hang)
    if spec.parameters:
        rows = [(p.name, p.shown(config[p.name]), " ".join(map(p.shown, p.legal)), p.meaning) for p in spec.parameters]
        say()
        print_table((("parameter", "left"), ("value", "right"), ("legal", "left"), ("meaning", "left")), rows)
    if spec.presets:
        say()
        presets = [(p.name, str(p.config).replace(",", ", "), p.published) for p in spec.presets]
        print_table((("preset", "left"), ("configuration", "left"), ("published", "left")), presets)
    _print_resources(spec, config, problem, compiled)


def _print_resources(spec: KernelSpec, config: Config, problem: Problem, compiled: CompiledKernel) -> None:
    used, geometry = compiled.resources, spec.geometry(problem, config)
    spills = f"{used.spill_stores} B stored, {used.spill_loads} B loaded" if used.spills else "none"
    hot = disassemble(compiled).main_loop()
    rows = [
        ("architecture", f"{compiled.arch}, {compiled.compiler}"),
        ("registers", f"{used.registers} per thread"),
        ("spills", spills),
        ("stack", bytes_text(used.stack)),
        ("shared memory", f"{bytes_text(used.static_smem)} static, {bytes_text(geometry.smem)} dynamic"),
        ("block", f"{geometry.threads} threads {geometry.block}"),
        ("grid", _grid_words(spec, geometry, problem)),
        ("main loop", " ".join(f"{n} {op}" for op, n in hot.counts.most_common(6)) if hot else "none found"),
    ]
    say()
    print_table((("resource", "bar"), ("", "left")), rows)
    item(f"compiled, cache {'hit' if compiled.cached else 'miss'}: {compiled.cache_path or 'not stored'}")
    say("\n--source, --ptx, --sass or --loop print the code itself.", "dim")


def _grid_words(spec: KernelSpec, geometry: Geometry, problem: Problem) -> str:
    words = f"{geometry.blocks} blocks for {problem.m}x{problem.n}x{problem.k}"
    if (cluster := math.prod(geometry.cluster)) > 1:
        words += f", in clusters of {cluster}"
    return words + (", or as many as the GPU holds at once" if spec.persistent else "")
