"""gemmsmith show: everything about one kernel."""

from __future__ import annotations

import dataclasses
import math
from typing import Annotated, Any

import typer
from rich.syntax import Syntax

from gemmsmith.call.binding import aligned_code
from gemmsmith.cli.options import (
    DEFAULT_ARCH,
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
from gemmsmith.cli.render.output import bytes_text, console, print_json, table
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.compile.sass import disassemble
from gemmsmith.errors import UsageError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import check_accepts
from gemmsmith.problem import Problem, dtype_named
from gemmsmith.userfile.user_kernel import UserOptions

_EXAMPLE = 4096  # the size whose launch geometry is shown


def command(
    kernel: Kernel,
    source: Annotated[bool, typer.Option("--source", help="The CUDA C++ source.")] = False,
    ptx: Annotated[bool, typer.Option("--ptx", help="The PTX.")] = False,
    sass: Annotated[bool, typer.Option("--sass", help="The machine code.")] = False,
    loop: Annotated[bool, typer.Option("--loop", help="The machine code of the main loop only.")] = False,
    dtype: Annotated[str, typer.Option("--dtype", help="Input type, where the rung takes several.")] = "",
    out_dtype: Annotated[str, typer.Option("--out-dtype", help="Output type; fp32 where none is named.")] = "fp32",
    config: ConfigText = "",
    preset: PresetName = "",
    define: Defines = None,
    arch: Arch = DEFAULT_ARCH,
    entry: Entry = "",
    grid: Grid = "",
    block: Block = "",
    smem: Smem = "",
    signature: SignatureText = "",
    cache_dir: CacheDir = None,
    json: Json = False,
) -> None:
    """Show a kernel: its idea, parameters and resources; its source, PTX or machine code on request."""
    user = UserOptions(entry, grid, block, smem, signature)
    spec, chosen = find_kernel(kernel, config, preset, define, user)
    kind = dtype_named(dtype) if dtype else spec.dtypes[0]
    problem = Problem(_EXAMPLE, _EXAMPLE, _EXAMPLE, dtype=kind, out_dtype=dtype_named(out_dtype))
    check_accepts(spec, problem)
    chosen, seen = aligned_code(spec, chosen, problem)
    compiled = Compiler(cache_dir)(spec, chosen, seen, arch)
    if sum((source, ptx, sass, loop)) > 1:
        raise UsageError("choose one of --source, --ptx, --sass and --loop")
    if json:
        print_json(_facts(spec, chosen, problem, compiled))
    elif source:
        _print_code(spec.code, "cuda")
    elif ptx:
        _print_code(compiled.ptx, "text")
    elif sass or loop:
        listing = disassemble(compiled)
        hot = listing.main_loop() if loop else None
        instructions = hot.instructions if hot is not None else listing.instructions
        _print_code("\n".join(i.text for i in instructions), "text")
    else:
        _print_summary(spec, chosen, problem, compiled)


def header_of(code: str) -> str:
    """The comment a rung opens with."""
    lines = []
    for line in code.splitlines():
        if not line.startswith("//"):
            break
        lines.append(line[2:].removeprefix(" "))
    return "\n".join(lines).rstrip()


def _facts(spec: KernelSpec, config: Config, problem: Problem, compiled: CompiledKernel) -> dict[str, Any]:
    geometry = spec.geometry(problem, config)
    counts = disassemble(compiled).counts
    return {
        "name": spec.name, "rung": spec.rung, "summary": spec.summary, "teaches": spec.teaches,
        "idea": header_of(spec.code), "config": dict(config.values), "arch": compiled.arch,
        "value_names": {p.name: dict(p.value_names)[config[p.name]] for p in spec.parameters if p.value_names},
        "compiler": compiled.compiler, "entry": compiled.entry, "cached": compiled.cached,
        "cache_path": compiled.cache_path, "resources": dataclasses.asdict(compiled.resources),
        "dynamic_smem": geometry.smem, "threads": geometry.threads, "example": str(problem),
        "grid": list(geometry.grid), "cluster": list(geometry.cluster), "block": list(geometry.block),
        "persistent": spec.persistent, "sass_counts": dict(counts.most_common()),
        "source": spec.code, "ptx": compiled.ptx,
    }  # fmt: skip


def _print_code(text: str, language: str) -> None:
    out = console()
    if out.is_terminal and language == "cuda":
        out.print(Syntax(text, "cuda", line_numbers=True, word_wrap=False))
    else:
        typer.echo(text)


def _print_summary(spec: KernelSpec, config: Config, problem: Problem, compiled: CompiledKernel) -> None:
    out = console()
    out.print(f"[bold]{spec.name}[/bold]  {spec.summary}")
    if header := header_of(spec.code):
        out.print()
        out.print(header, markup=False)
    if spec.parameters:
        rows = [(p.name, p.shown(config[p.name]), " ".join(map(p.shown, p.legal)), p.meaning) for p in spec.parameters]
        out.print()
        out.print(table("", (("parameter", "left"), ("value", "right"), ("legal", "left"), ("meaning", "left")), rows))
    if spec.presets:
        out.print()
        rows2 = [(p.name, str(p.config), p.published) for p in spec.presets]
        out.print(table("", (("preset", "left"), ("configuration", "left"), ("published", "left")), rows2))
    _print_resources(spec, config, problem, compiled)


def _print_resources(spec: KernelSpec, config: Config, problem: Problem, compiled: CompiledKernel) -> None:
    out, used, geometry = console(), compiled.resources, spec.geometry(problem, config)
    spills = f"{used.spill_stores} B stored, {used.spill_loads} B loaded" if used.spills else "none"
    hot = disassemble(compiled).main_loop()
    rows = [
        ("architecture", f"{compiled.arch}, {compiled.compiler}"),
        ("registers", f"{used.registers} a thread"),
        ("spills", spills),
        ("stack", bytes_text(used.stack)),
        ("shared memory", f"{bytes_text(used.static_smem)} static, {bytes_text(geometry.smem)} dynamic"),
        ("block", f"{geometry.threads} threads {geometry.block}"),
        ("grid", _grid_words(spec, geometry, problem)),
        ("main loop", " ".join(f"{n} {op}" for op, n in hot.counts.most_common(6)) if hot else "none found"),
        ("compiled", f"cache {'hit' if compiled.cached else 'miss'}: {compiled.cache_path or 'not stored'}"),
    ]
    out.print()
    out.print(table("", (("resource", "left"), ("", "left")), rows))
    out.print("\n[dim]--source, --ptx, --sass or --loop print the code itself.[/dim]")


def _grid_words(spec: KernelSpec, geometry: Geometry, problem: Problem) -> str:
    words = f"{geometry.blocks} blocks for {problem.m}x{problem.n}x{problem.k}"
    if (cluster := math.prod(geometry.cluster)) > 1:
        words += f", in clusters of {cluster}"
    return words + (", or as many as run side by side" if spec.persistent else "")
