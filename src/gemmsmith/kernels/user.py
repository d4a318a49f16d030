"""A user's own .cu file as a kernel: found entry, recognised signature, launch geometry.

What cannot be read off the file is taken from the command line, or from directives in a comment:

    // gemmsmith: block=32,32 grid=ceil(N/32),ceil(M/32) smem=0 entry=my_kernel signature=A,B,C,M,N,K
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from gemmsmith.errors import SignatureError, UnknownKernelError, UsageError
from gemmsmith.kernels.expressions import evaluate
from gemmsmith.kernels.signature import (
    Signature,
    entries,
    parse_signature,
    strip_comments,
    template_parameters,
)
from gemmsmith.kernels.spec import Config, Dim3, Geometry, KernelSpec
from gemmsmith.problem import BF16, FP16, FP32, DType, Problem

_CONSTANT = re.compile(
    r"^\s*#\s*define\s+(\w+)\s+\(?(-?\w+)\)?\s*$|"
    r"\b(?:static\s+)?(?:constexpr|const)\s+(?:static\s+)?(?:unsigned\s+int|unsigned|int|uint|size_t)\s+(\w+)\s*=\s*([^;,]+);",
    re.M,
)
_BOUNDS = re.compile(r"__launch_bounds__\s*\(\s*([^,()]+(?:\([^()]*\)[^,()]*)*)")
_TILES = ("TILE_SIZE", "TILE_WIDTH", "TILE_DIM", "TILE", "BLOCK_SIZE", "BLOCKSIZE", "BLOCK_DIM", "BLOCK", "BS", "TS")
_DEFAULT_TILE = 32
# Element types by their CUDA spelling.
_ELEMENTS: dict[str, DType] = {
    "float": FP32, "half": FP16, "__half": FP16, "__nv_bfloat16": BF16, "nv_bfloat16": BF16,
}  # fmt: skip


@dataclass(frozen=True)
class UserOptions:
    """What the user says about a file; empty strings leave it to the file and to what can be inferred."""

    entry: str = ""
    grid: str = ""
    block: str = ""
    smem: str = ""
    signature: str = ""
    defines: tuple[tuple[str, str], ...] = ()


def user_kernel(path: Path, options: UserOptions) -> KernelSpec:
    """The kernel in ``path``."""
    if not path.is_file():
        raise UnknownKernelError(f"there is no file {path}", "give the path of a .cu file, or the name of a rung")
    try:
        code = path.read_text(encoding="utf-8")
    except (UnicodeDecodeError, OSError) as error:
        raise UsageError(f"{path} cannot be read as text: {error}") from None
    options = _with_directives(options, code)
    entry = _entry(path, code, options.entry)
    options = replace(options, defines=options.defines + _launched_with(code, entry, dict(options.defines)))
    launch = _Launch(code, options)
    return KernelSpec(
        name=path.name,
        source=path,
        summary=f"{entry} in {path.name}",
        teaches="",
        geometry=launch.geometry,
        entry=entry,
        dtypes=(_dtype(parse_signature(code, entry, options.signature), code),),
        extra_defines=options.defines,
        declared_signature=options.signature,
    )


def _dtype(signature: Signature, code: str) -> DType:
    """The type of the inputs, as A and B are declared; what the simulator and the oracles cannot judge is refused."""
    names = {**dict.fromkeys(_type_parameters(signature.entry, code), "float"), **_aliases(code)}
    types = {role: names.get(signature.ctype(role), signature.ctype(role)) for role in "ABC"}
    kinds = {role: _ELEMENTS.get(kind) for role, kind in types.items()}
    if kinds["A"] is None or kinds["A"] != kinds["B"] or kinds["C"] != FP32:
        shown = ", ".join(f"{role} {kind}*" for role, kind in types.items())
        raise SignatureError(
            f"{signature.entry} takes {shown}",
            "supported are float, __half or __nv_bfloat16 for A and B (the same for both), and float for C",
        )
    return kinds["A"]


def _type_parameters(entry: str, code: str) -> list[str]:
    return [name for kind, name, _ in template_parameters(entry, code) or [] if kind in ("typename", "class")]


def _aliases(code: str) -> dict[str, str]:
    """``typedef float real;`` and ``using real = float;``."""
    text = strip_comments(code)
    found = {name: kind for kind, name in re.findall(r"\btypedef\s+(\w+)\s+(\w+)\s*;", text)}
    found |= dict(re.findall(r"\busing\s+(\w+)\s*=\s*(\w+)\s*;", text))
    found |= dict(re.findall(r"^\s*#\s*define\s+(\w+)\s+(float|half|__half|__nv_bfloat16)\s*$", text, re.M))
    return found


def _launched_with(code: str, entry: str, given: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Template arguments as the file's own host code launches the kernel: ``entry<32, 8><<<grid, block>>>``."""
    parameters = template_parameters(entry, code)
    launch = re.search(rf"\b{re.escape(entry)}\s*<([^<>;]*)>\s*<<<", strip_comments(code))
    if parameters is None or launch is None:
        return ()
    known = constants_of(strip_comments(code), given)
    found = []
    for (_, name, _), text in zip(parameters, launch.group(1).split(","), strict=False):
        try:
            found.append((name, str(evaluate(text.replace("/", "//"), known))))
        except UsageError:
            found.append((name, text.strip()))  # a type, or a value only the host knows
    return tuple(pair for pair in found if pair[0] not in given)


def _entry(path: Path, code: str, wanted: str) -> str:
    """The kernel called ``wanted``, or the only one there is."""
    found = entries(code)
    if wanted and wanted not in found:
        known = ", ".join(found) or "none"
        raise SignatureError(f"{path.name} has no __global__ function named {wanted!r}", f"its kernels: {known}")
    if wanted:
        return wanted
    if len(found) == 1:
        return found[0]
    if not found:
        raise SignatureError(f"{path.name} has no __global__ function", "add one, or name another file")
    raise SignatureError(f"{path.name} has several kernels: {', '.join(found)}", "choose one with --entry NAME")


def _with_directives(options: UserOptions, code: str) -> UserOptions:
    """Directives in comments fill what the command line left open."""
    for line in re.findall(r"//\s*gemmsmith:\s*(.+)", code):
        for key, value in re.findall(r"(\w+)\s*=\s*(\S+)", line):
            if key not in ("entry", "grid", "block", "smem", "signature"):
                raise UsageError(f"unknown directive {key!r} in '// gemmsmith: {line.strip()}'",
                                 "known: entry, grid, block, smem, signature")  # fmt: skip
            if not getattr(options, key):
                options = replace(options, **{key: value})
    return options


def constants_of(code: str, defines: Mapping[str, str]) -> dict[str, int]:
    """Integer constants of a source text (without comments), those given on the command line first."""
    known = {name: int(text) for name, text in defines.items() if re.fullmatch(r"\d+", text)}
    for macro, value, constant, expression in _CONSTANT.findall(code):
        name, text = macro or constant, value or expression
        if name in known:
            continue
        try:
            known[name] = evaluate(text.replace("/", "//"), known)
        except UsageError:
            continue  # not an integer the launch could depend on
    return known


class _Launch:
    """Infers block and grid from the source where they are not given."""

    def __init__(self, code: str, options: UserOptions) -> None:
        self.code, self.options = strip_comments(code), options
        self.constants = constants_of(self.code, dict(options.defines))
        self.two_dimensional = "threadIdx.y" in self.code

    def geometry(self, problem: Problem, config: Config) -> Geometry:
        names = {**self.constants, **dict(config.values), "M": problem.m, "N": problem.n, "K": problem.k}
        block = self._triple("block", names) if self.options.block else self._block(names)
        grid = self._triple("grid", names) if self.options.grid else self._grid(problem, block)
        smem = evaluate(self.options.smem, names) if self.options.smem else 0
        if smem < 0:
            raise UsageError(f"--smem {self.options.smem} is {smem}, which is negative")
        return Geometry(grid, block, smem)

    def _triple(self, what: str, names: Mapping[str, int]) -> Dim3:
        text: str = getattr(self.options, what)
        parts = _split(text)
        if not 1 <= len(parts) <= 3:
            raise UsageError(f"--{what} {text!r} has {len(parts)} parts", "write one to three expressions: x[,y[,z]]")
        values = [evaluate(part, names) for part in parts] + [1] * (3 - len(parts))
        if min(values) < 1:
            raise UsageError(f"--{what} {text!r} is {tuple(values)}; each part must be at least 1")
        return values[0], values[1], values[2]

    def _tile(self) -> int:
        return next((self.constants[name] for name in _TILES if name in self.constants), _DEFAULT_TILE)

    def _block(self, names: Mapping[str, int]) -> Dim3:
        constants = self.constants
        if self.two_dimensional:
            if {"BM", "BN", "TM", "TN"} <= constants.keys():
                return constants["BN"] // constants["TN"], constants["BM"] // constants["TM"], 1
            return self._tile(), self._tile(), 1
        bounds = _BOUNDS.search(self.code)
        if bounds is not None:
            return evaluate(bounds.group(1).replace("/", "//"), names), 1, 1
        for name in ("NUM_THREADS", "THREADS", "NTHREADS", "BLOCK_THREADS"):
            if name in constants:
                return constants[name], 1, 1
        if {"BM", "BN"} <= constants.keys():
            each = constants.get("TM", 1) * constants.get("TN", 1)
            return constants["BM"] * constants["BN"] // each, 1, 1
        return self._tile() ** 2, 1, 1

    def _grid(self, problem: Problem, block: Dim3) -> Dim3:
        rows, cols = self.constants.get("BM"), self.constants.get("BN")
        if rows is None or cols is None:
            rows = cols = self._tile() if not self.two_dimensional else 0
        if self.two_dimensional and not rows:
            rows, cols = (block[0], block[1]) if self._x_walks_rows() else (block[1], block[0])
        across, down = -(-problem.n // (cols or 1)), -(-problem.m // (rows or 1))
        if "blockIdx.y" not in self.code:
            return max(1, across * down), 1, 1
        return (max(1, down), max(1, across), 1) if self._x_walks_rows() else (max(1, across), max(1, down), 1)

    def _x_walks_rows(self) -> bool:
        """Whether blockIdx.x counts rows of C: by what its variable is compared with, or called."""
        for name in re.findall(r"(\w+)\s*=\s*[^;=]*blockIdx\.x", self.code):
            if re.search(rf"\b{name}\s*(?:<|>=)\s*M\b", self.code) or "row" in name.lower():
                return True
            if re.search(rf"\b{name}\s*(?:<|>=)\s*N\b", self.code) or "col" in name.lower():
                return False
        return False


def _split(text: str) -> list[str]:
    """Split at commas outside parentheses."""
    parts, depth = [""], 0
    for char in text:
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [p for p in parts if p.strip()]
