"""A user's own .cu file as a kernel: its entry, signature and launch geometry.

Template values come from -D, then from ``--entry 'k<64, float>'``, then from the launch in host code, then from the
template's defaults.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from gemmsmith.errors import GemmsmithError, SignatureError, UnknownKernelError
from gemmsmith.kernel.signature import Signature, parse_signature
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import BF16, FP16, FP32, DType, Problem
from gemmsmith.userfile.entry_choice import Entry, choose_entry
from gemmsmith.userfile.launch_values import FoundValue, Roles
from gemmsmith.userfile.options import UserOptions, with_directives
from gemmsmith.userfile.parts import KernelSource
from gemmsmith.userfile.project import Project
from gemmsmith.userfile.source import read_text
from gemmsmith.userfile.user_launch import SAMPLE, KernelFacts, UserLaunch

__all__ = ["UserOptions", "found_values", "geometry_source", "user_kernel"]

# Element types by their CUDA spelling.
_ELEMENTS: dict[str, DType] = {
    "float": FP32, "half": FP16, "__half": FP16, "__nv_bfloat16": BF16, "nv_bfloat16": BF16,
}  # fmt: skip


@dataclass(frozen=True)
class _Read:
    """A file, read for one of its kernels."""

    options: UserOptions
    entry: Entry
    launch: UserLaunch
    defines: tuple[tuple[str, str], ...]
    declaration: str


def user_kernel(path: Path, options: UserOptions) -> KernelSpec:
    """The kernel in ``path``."""
    read = _read(path, options)
    return KernelSpec(
        name=path.name,
        source=path,
        summary=f"{read.launch.signature.entry} in {path.name}",
        teaches="",
        geometry=read.launch,
        entry=read.entry.kernel.qualified,
        dtypes=(_dtype(read.launch.signature),),
        extra_defines=read.defines,
        declared_signature=read.options.signature,
        declaration=read.declaration,
    )


def geometry_source(path: Path, options: UserOptions, problem: Problem = SAMPLE) -> str:
    """Where block and grid come from: "given", "directive", "launch site" or "guessed"; both sources if they differ."""
    read = _read(path, options)
    block, grid = read.launch.sources(problem)
    block = "directive" if block == "given" and not options.block else block
    grid = "directive" if grid == "given" and not options.grid else grid
    return block if block == grid else f"block {block}, grid {grid}"


def found_values(path: Path, options: UserOptions, problem: Problem = SAMPLE) -> tuple[FoundValue, ...]:
    """What host code tells about the launch, each value with its place and text."""
    return _read(path, options).launch.found(problem)


def _read(path: Path, options: UserOptions) -> _Read:
    text = _text(path)
    options = with_directives(options, text)
    project = Project(path, options.include)
    kernels = [kernel for source in project.sources(path) for kernel in source.kernels]
    entry = choose_entry(path, kernels, options.entry, lambda kernel: _is_product(project, kernel))
    given = dict((*entry.given(), *options.defines))
    facts = KernelFacts(project, entry.kernel, tuple(given.items()))
    site = facts.site(_roles(facts, options))
    template = site.template()[0] if site is not None else {}
    declaration = declared_as(entry.kernel, facts.aliases(template))
    signature = parse_signature(declaration, entry.kernel.name, options.signature)
    launch = UserLaunch(facts, site, template, signature, options).with_signature(signature)
    own = dict(options.defines)
    defines = (*options.defines, *((n, v) for n, v in {**template, **given}.items() if n not in own))
    return _Read(replace(options, defines=defines), entry, launch, defines, declaration)


def _text(path: Path) -> str:
    if path.is_dir():
        raise UnknownKernelError(f"{path} is a folder, not a .cu file", "give the path of a .cu file in it")
    if not path.is_file():
        raise UnknownKernelError(f"there is no file {path}", "give the path of a .cu file, or the name of a rung")
    return read_text(path)


def declared_as(kernel: KernelSource, types: Mapping[str, str]) -> str:
    """The kernel's declaration with typedefs, macros and template types replaced: what its signature is read from."""
    parameters = []
    for parameter in kernel.parameters:
        kind = parameter.type
        for _ in range(4):
            new = re.sub(r"(?<![\w:])[A-Za-z_]\w*", lambda m: types.get(m[0], m[0]), kind)
            if new == kind:
                break
            kind = new
        kind = re.sub(r"\b(?:__restrict__|__restrict|restrict)\b", "", kind)
        parameters.append(f"{kind} {parameter.name}".strip())
    return f"{_template_head(kernel)}__global__ void {kernel.name}({', '.join(parameters)}) {{}}"


def _template_head(kernel: KernelSource) -> str:
    if kernel.template is None:
        return ""
    parts = (f"{p.kind}{'...' if p.pack else ''} {p.name}{' = 0' if p.default else ''}" for p in kernel.template)
    return f"template <{', '.join(parts)}> "


def _roles(facts: KernelFacts, options: UserOptions) -> Roles:
    """What the parameters mean, as far as their names tell before the template's values are known."""
    names = tuple(parameter.name for parameter in facts.kernel.parameters)
    try:
        code = declared_as(facts.kernel, facts.aliases({}))
        signature = parse_signature(code, facts.kernel.name, options.signature)
    except GemmsmithError:
        return Roles(tuple(options.signature.split(",")) if options.signature else (), names)
    return Roles(tuple(argument.role for argument in signature.arguments), names)


def _is_product(project: Project, kernel: KernelSource) -> bool:
    try:
        parse_signature(declared_as(kernel, KernelFacts(project, kernel).aliases({})), kernel.name)
    except GemmsmithError:
        return False
    return True


def _dtype(signature: Signature) -> DType:
    """The type of the inputs, as A and B are declared; raises for types that cannot be verified."""
    types = {role: signature.ctype(role) for role in "ABC"}
    kinds = {role: _ELEMENTS.get(kind) for role, kind in types.items()}
    if kinds["A"] is None or kinds["A"] != kinds["B"] or kinds["C"] != FP32:
        shown = ", ".join(f"{role} {kind}*" for role, kind in types.items())
        raise SignatureError(
            f"{signature.entry} takes {shown}",
            "supported are float, __half or __nv_bfloat16 for A and B (the same for both), and float for C",
        )
    return kinds["A"]
