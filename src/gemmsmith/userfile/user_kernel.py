"""A user's own .cu file as a kernel: its entry, signature and launch geometry.

What the file does not show is taken from the command line, or from directives in a comment:

    // gemmsmith: block=32,32 grid=ceil(N/32),ceil(M/32) smem=0 entry=my_kernel signature=A,B,C,M,N,K
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from gemmsmith.errors import SignatureError, UnknownKernelError, UsageError
from gemmsmith.gpus import cuda_limits
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.expressions import Names, constants, evaluate, evaluate_c, split
from gemmsmith.kernel.geometry import Dim3, Geometry
from gemmsmith.kernel.layout import ROW_MAJOR, layout_named
from gemmsmith.kernel.operand_types import element_types
from gemmsmith.kernel.roles import recognise
from gemmsmith.kernel.signature import Signature, entries, entry_parameters, strip_comments, template_parameters
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.userfile.launch_site import (
    KernelText,
    LaunchSite,
    chosen,
    file_scope,
    function_text,
    integers,
    launch_sites,
    macros,
    plain_code,
    template_defaults,
    values_of,
    x_walks_rows,
)

_BOUNDS = re.compile(r"__launch_bounds__\s*\(\s*([^,()]+(?:\([^()]*\)[^,()]*)*)")
_TILES = (
    "TILE_SIZE", "TILE_WIDTH", "TILE_DIM", "TILE", "BLOCK_SIZE", "BLOCKSIZE", "BLOCK_DIM", "BLOCK", "BS", "TS",
    "TILESIZE", "BLOCK_WIDTH", "KTILE",
)  # fmt: skip
# Names for the tile of a block and of a thread.
_NAMES = {
    "BM": ("BM", "BLOCK_M", "BLOCK_SIZE_M", "TILE_M"), "BN": ("BN", "BLOCK_N", "BLOCK_SIZE_N", "TILE_N"),
    "TM": ("TM", "THREAD_M", "THREAD_SIZE_Y", "THREAD_TILE_M"),
    "TN": ("TN", "THREAD_N", "THREAD_SIZE_X", "THREAD_TILE_N"),
}  # fmt: skip
_DEFAULT_TILE = 32
_SAMPLE = Problem(1024, 1024, 1024)


@dataclass(frozen=True)
class UserOptions:
    """The user's options for a file; what is empty is read from the file or inferred."""

    entry: str = ""
    grid: str = ""
    block: str = ""
    smem: str = ""
    signature: str = ""
    layout: str = ""
    defines: tuple[tuple[str, str], ...] = ()


def user_kernel(path: Path, options: UserOptions) -> KernelSpec:
    """The kernel in ``path``."""
    code = _read(path)
    options = _with_directives(options, code)
    launch = _Launch(code, _entry(path, code, options.entry), options)
    dtype, out_dtype = element_types(launch.signature, launch.body, launch.aliases)
    layout = layout_named(options.layout) if options.layout else ROW_MAJOR
    signature, operations = layout.applied(launch.signature)
    return KernelSpec(
        name=path.name,
        source=path,
        summary=f"{launch.signature.entry} in {path.name}",
        teaches="",
        geometry=launch.read_as(signature),
        entry=launch.signature.entry,
        dtypes=(dtype,),
        out_dtypes=(out_dtype,),
        layouts=(operations,),
        batched=signature.has("batch") or signature.has("strideA"),
        known_signature=signature,
        extra_defines=launch.options.defines,
        declared_signature=options.signature,
    )


def geometry_source(path: Path, options: UserOptions, problem: Problem = _SAMPLE) -> str:
    """Where block and grid come from: "given", "directive", "launch site" or "guessed"; both sources if they differ."""
    code = _read(path)
    merged = _with_directives(options, code)
    block, grid = _Launch(code, _entry(path, code, merged.entry), merged).sources(problem)
    block = "directive" if block == "given" and not options.block else block
    grid = "directive" if grid == "given" and not options.grid else grid
    return block if block == grid else f"block {block}, grid {grid}"


def _read(path: Path) -> str:
    if path.is_dir():
        raise UnknownKernelError(f"{path} is a folder, not a .cu file", "give the path of a .cu file in it")
    if not path.is_file():
        raise UnknownKernelError(f"there is no file {path}", "give the path of a .cu file, or the name of a rung")
    try:
        return path.read_text(encoding="utf-8-sig")
    except (UnicodeDecodeError, OSError) as error:
        raise UsageError(f"{path} cannot be read as text: {error}") from None


def _type_parameters(entry: str, code: str) -> list[str]:
    return [name for kind, name, _ in template_parameters(entry, code) or [] if kind in ("typename", "class")]


def _aliases(code: str) -> dict[str, str]:
    """``typedef float real;`` and ``using real = float;``."""
    text = strip_comments(code)
    found = {name: kind for kind, name in re.findall(r"\btypedef\s+(\w+)\s+(\w+)\s*;", text)}
    found |= dict(re.findall(r"\busing\s+(\w+)\s*=\s*(\w+)\s*;", text))
    found |= dict(re.findall(r"^\s*#\s*define\s+(\w+)\s+([a-zA-Z_]\w*(?:\s+char)?)\s*$", text, re.M))
    return found


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
    """The options, completed by directives in comments."""
    for line in re.findall(r"//\s*gemmsmith:\s*(.+)", code):
        for key, value in re.findall(r"(\w+)\s*=\s*(\S+)", line):
            if key not in ("entry", "grid", "block", "smem", "signature", "layout"):
                raise UsageError(f"unknown directive {key!r} in '// gemmsmith: {line.strip()}'",
                                 "known: entry, grid, block, smem, signature, layout")  # fmt: skip
            if not getattr(options, key):
                options = replace(options, **{key: value})
    return options


class _Launch:
    """Block and grid: as given, from the file's own launch, or inferred from the kernel's text."""

    def __init__(self, code: str, entry: str, options: UserOptions) -> None:
        plain, defined = plain_code(code), macros(code)
        own = function_text(plain, entry, "__global__")
        for name, value in defined.items():
            if "Idx" in value:
                own = KernelText(own.head, re.sub(rf"\b{name}\b", value.replace("\\", ""), own.body))
        self.head, self.body = own.head, own.body
        called = (
            function_text(plain, name, "__device__").body for name in set(re.findall(r"\b(\w+)\s*[(<]", own.body))
        )
        self.reached = " ".join([own.body, *called])
        self.two_dimensional = "threadIdx.y" in self.reached
        texts = {**defined, **integers(file_scope(plain), only_const=True)}
        parameters = template_parameters(entry, code) or []
        self.site, template = chosen(launch_sites(plain, entry), parameters, values_of(options.defines), texts)
        added = tuple(pair for pair in template.items() if pair[0] not in dict(options.defines))
        self.options = replace(options, defines=options.defines + added)
        self.known, self.texts = values_of(options.defines), texts
        inner = {**texts, **template_defaults(own.head), **integers(own.body, only_const=True)}
        self.constants = constants(values_of(self.options.defines), inner)
        given = dict(self.options.defines)
        self.aliases = {name: given.get(name, "float") for name in _type_parameters(entry, code)} | _aliases(code)
        self.swapped = self.flipped = False
        self.signature = recognise(entry, entry_parameters(code, entry), self.reached,
                                   self.site.arguments if self.site else (), options.signature, self.aliases,
                                   self.constants)  # fmt: skip

    def read_as(self, signature: Signature) -> _Launch:
        """The same launch where the parameters mean something else; a column-major kernel has M and N swapped."""
        other = copy.copy(self)
        other.swapped = signature.column_major
        other.signature = signature.transposed() if other.swapped else signature
        return other

    @property
    def guessed(self) -> bool:
        """Whether neither the file nor the user gives the grid."""
        return self.sources(_SAMPLE)[1] == "guessed"

    @property
    def block_known(self) -> bool:
        """Whether the user or the file gives the block."""
        return self.sources(_SAMPLE)[0] != "guessed"

    @property
    def blind(self) -> bool:
        """Whether the launch is guessed, and nothing in the kernel says how large a block or a tile is."""
        named = any(self._constant(*names) for names in (_TILES, *_NAMES.values()))
        return self.guessed and "blockDim" not in self.reached and not named and not _BOUNDS.search(self.head)

    def alternatives(self) -> list[_Launch]:
        """Other launches that are as likely, where the grid is a guess: x and y exchanged."""
        if not self.guessed or "blockIdx.y" not in self.reached:
            return []
        other = copy.copy(self)
        other.flipped = not self.flipped
        return [other]

    def __call__(self, problem: Problem, config: Config) -> Geometry:
        if self.swapped:
            problem = problem.with_(m=problem.n, n=problem.m)
        names = {**self.constants, **dict(config.values), "M": problem.m, "N": problem.n, "K": problem.k,
                 "BATCH": problem.batch}  # fmt: skip
        block = self._triple("block", names) if self.options.block else self._site(1, problem) or self._block()
        grid = self._triple("grid", names) if self.options.grid else self._site_grid(problem, block)
        grid = grid or self._grid(problem, block)
        if problem.batch > 1 and grid[2] == 1 and "blockIdx.z" in self.reached:
            grid = grid[0], grid[1], problem.batch
        smem = evaluate(self.options.smem, names) if self.options.smem else self._smem(problem)
        if smem < 0:
            raise UsageError(f"--smem {self.options.smem} is {smem}, which is negative")
        return Geometry(grid, block, smem)

    def sources(self, problem: Problem) -> tuple[str, str]:
        """Where block and grid come from."""
        names = {**self.constants, "M": problem.m, "N": problem.n, "K": problem.k,
                 "BATCH": problem.batch}  # fmt: skip
        block = self._triple("block", names) if self.options.block else self._site(1, problem)
        said = "given" if self.options.block else "launch site" if block else "guessed"
        if self.options.grid:
            return said, "given"
        return said, "launch site" if block and self._site_grid(problem, block) else "guessed"

    def _triple(self, what: str, names: Mapping[str, int]) -> Dim3:
        text: str = getattr(self.options, what)
        parts = split(text)
        if not 1 <= len(parts) <= 3:
            raise UsageError(f"--{what} {text!r} has {len(parts)} parts", "write one to three expressions: x[,y[,z]]")
        values = [evaluate(part, names) for part in parts] + [1] * (3 - len(parts))
        if min(values) < 1:
            raise UsageError(f"--{what} {text!r} is {tuple(values)}; each part must be at least 1")
        return values[0], values[1], values[2]

    def _names(self, site: LaunchSite, problem: Problem) -> Names:
        sizes = {"M": problem.m, "N": problem.n, "K": problem.k, "batch": problem.batch}
        return site.names(self.signature, sizes, self.known, self.texts)

    def _site(self, index: int, problem: Problem) -> Dim3 | None:
        """Grid (0) or block (1) at the launch site. A grid that does not depend on M, N or K fits one problem only."""
        if self.site is None:
            return None
        names = self._names(self.site, problem)
        try:
            found = self.site.extent(index, names)
        except (UsageError, RecursionError):
            return None
        return found if index or names.sized or "gridDim" in self.reached else None

    def _site_grid(self, problem: Problem, block: Dim3) -> Dim3 | None:
        """The launch site's grid, which is valid only with the launch site's block."""
        return self._site(0, problem) if self._site(1, problem) == block else None

    def _smem(self, problem: Problem) -> int:
        if self.site is None or len(self.site.configuration) < 3:
            return 0
        try:
            return evaluate_c(self.site.configuration[2], self._names(self.site, problem))
        except (UsageError, RecursionError):
            return 0

    def _constant(self, *names: str) -> int | None:
        upper = {name.upper(): value for name, value in self.constants.items() if value > 0}
        return next((upper[name] for name in names if name in upper), None)

    def _tile(self) -> int:
        for first, second in re.findall(r"__shared__\s+\w+\s+\w+\s*\[([^\]]+)\]\s*\[([^\]]+)\]", self.body):
            try:
                rows, cols = evaluate_c(first, self.constants), evaluate_c(second, self.constants)
            except UsageError:
                continue
            if self._constant(*_TILES) is None and rows > 0 and cols - rows in (0, 1):
                return rows
        return self._constant(*_TILES) or _DEFAULT_TILE

    def _block(self) -> Dim3:
        block = self._guessed_block()
        if not 0 < block[0] * block[1] <= cuda_limits().threads_per_block:
            raise UsageError(
                f"the block of {self.signature.entry} is not known; {block[0]} x {block[1]} threads, as its constants "
                "suggest, cannot be launched", "give it with --block X[,Y] (and --grid)")  # fmt: skip
        return block

    def _guessed_block(self) -> Dim3:
        bm, bn = self._constant(*_NAMES["BM"]), self._constant(*_NAMES["BN"])
        tm, tn = self._constant(*_NAMES["TM"]), self._constant(*_NAMES["TN"])
        if self.two_dimensional:
            return (bn // tn, bm // tm, 1) if bm and bn and tm and tn else (self._tile(), self._tile(), 1)
        if (bounds := _BOUNDS.search(self.head)) is not None:
            with suppress(UsageError):  # a template parameter that has no value yet
                return evaluate_c(bounds.group(1), self.constants), 1, 1
        threads = self._constant("NUM_THREADS", "THREADS", "NTHREADS", "BLOCK_THREADS")
        if threads is None and bm and bn:
            threads = bm * bn // ((tm or 1) * (tn or 1))
        return threads or self._tile() ** 2, 1, 1

    def _grid(self, problem: Problem, block: Dim3) -> Dim3:
        rows, cols = self._constant(*_NAMES["BM"]), self._constant(*_NAMES["BN"])
        linear = "blockIdx.y" not in self.reached
        if rows is None or cols is None:
            if linear and not self.two_dimensional and re.search(r"blockIdx\.x\s*\*\s*blockDim\.x", self.reached):
                return max(1, -(-problem.m * problem.n // block[0])), 1, 1
            rows = cols = self._tile()
            if self.two_dimensional:
                rows, cols = (block[0], block[1]) if x_walks_rows(self.body, self.signature) else (block[1], block[0])
        across, down = max(1, -(-problem.n // cols)), max(1, -(-problem.m // rows))
        if linear:
            return across * down, 1, 1
        return (down, across, 1) if x_walks_rows(self.body, self.signature) != self.flipped else (across, down, 1)
