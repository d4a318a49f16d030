"""Operands that host code makes before a launch, in a layout that nothing tells: tiles that another kernel packs.

    pack<<<…>>>(A, pa, M, K);  pack<<<…>>>(B, pb, N, K);  multiply<<<…>>>(pa, pb, C, M, N, K);

What such a kernel does wrong with plain matrices says nothing about it. A kernel before it that fills an array, that
writes every element where it read it, or that is a product leaves a layout as it is known.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from gemmsmith.kernel.pointer_use import written
from gemmsmith.userfile.files.project import Project
from gemmsmith.userfile.host.array_roots import array_in, roots_of
from gemmsmith.userfile.host.function_bodies import body_tree, returns
from gemmsmith.userfile.host.host_frame import Frame
from gemmsmith.userfile.host.host_loops import launches_beside
from gemmsmith.userfile.launches.launch_site import LaunchSite, callers_of
from gemmsmith.userfile.text.declared import text_of
from gemmsmith.userfile.text.parts import FunctionSource, KernelSource, SourceFile
from gemmsmith.userfile.text.syntax import descend, last_name, words

_LEVELS = 3  # functions that are called, or call, on the way to a launch
_MOST_CALLERS = 8
_CALLED = re.compile(r"((?:[A-Za-z_]\w*::)*[A-Za-z_]\w*)\s*(?:<[^<>()]*>)?\s*\(")
_REARRANGES = re.compile(r"pack|swizzl|transpos|reorder|permut|interleav|im2col|quanti|tileize|blocked|to_tiles", re.I)
_SUBSCRIPT = r"\s*\)*\s*\[((?:[^\[\]]|\[[^\[\]]*\])*)\]"
_ANYWHERE: frozenset[str] = frozenset()


def rearranged_by(
    site: LaunchSite, operands: Iterable[str], is_product: Callable[[Project, KernelSource], bool]
) -> str:
    """The kernel or function that writes one of the arrays ``operands`` before the launch, in a layout that is not
    known, as "pack at gemm.cu:40"; empty: none."""
    given = [text for text in operands if text]
    for each in callers_of(site, _MOST_CALLERS):
        frame: Frame | None = each.frame
        texts = list(given)
        for _ in range(_LEVELS):
            if frame is None or frame.function is None or not texts:
                break
            roots = frozenset(root for text in texts for root in roots_of(text, frame))
            if found := _Before(frame, site.kernel.name, is_product).writer_of(roots):
                return found
            texts, frame = _passed_by_caller(roots, frame), frame.caller
    return ""


def _passed_by_caller(roots: Iterable[str], frame: Frame) -> list[str]:
    """What the call that leads to a place passes for those of its function's parameters that are among the roots."""
    assert frame.function is not None
    names = [parameter.name for parameter in frame.function.parameters]
    given = dict(zip(names, frame.arguments, strict=False))
    return [given[root] + path for root, path in ((each.partition(".")[0], "".join(each.partition(".")[1:]))
            for each in roots) if root in given]  # fmt: skip


@dataclass(frozen=True)
class _Before:
    """What host code does before a place."""

    frame: Frame
    own: str  # the kernel that is judged: other launches of it are other products
    is_product: Callable[[Project, KernelSource], bool]
    depth: int = 0

    def writer_of(self, roots: frozenset[str]) -> str:
        """Which launch or call writes one of these arrays, and rearranges what it read."""
        frame = self.frame
        site = _site_at(frame)
        for launch in launches_beside(site):
            name = last_name(launch.kernel)
            if launch.start >= frame.start or name == self.own:
                continue
            kernel = self._kernel(name)
            if kernel is not None and self._rearranges(kernel, launch.arguments, roots):
                return f"{name} at {frame.source.path.name}:{launch.line}"
        for name, arguments, start in _calls(frame.function):
            if start < frame.start and self._kernel(name) is None and (found := self._by_call(name, arguments, roots)):
                return found
        values = (frame.locals.variables[root].value for root in roots if root in frame.locals.variables)
        return next(filter(None, map(self._by_value, values)), "")

    def _kernel(self, name: str) -> KernelSource | None:
        return next((each for source in self.frame.sources for each in source.kernels if each.name == name), None)

    def _functions(self, name: str) -> Iterator[tuple[SourceFile, FunctionSource]]:
        for source in self.frame.sources:
            yield from ((source, each) for each in source.functions if each.name == name and not each.device)

    def _rearranges(self, kernel: KernelSource, arguments: tuple[str, ...], roots: frozenset[str]) -> bool:
        """Whether a kernel writes one of the arrays from another one, in other places than it reads that."""
        taken = list(zip(kernel.parameters, arguments, strict=False))
        arrays = {p.name: frozenset(roots_of(text, self.frame)) for p, text in taken if "*" in p.type}
        const = {p.name for p, _ in taken if "const" in p.type.split("*")[0].split()}
        outputs = [name for name, own in arrays.items() if own & roots and _may_write(name, kernel.body, name in const)]
        structs = [p.name for p, text in taken if "*" not in p.type and _writes_member(p.name, text, kernel, roots)]
        if not outputs and not structs:
            return False
        inputs = [
            name for name in arrays if name not in outputs and not (name not in const and _only_set(name, kernel))
        ]
        if not inputs and not structs:
            return False
        return not (_keeps_places(arrays, kernel.body) or self.is_product(self.frame.project, kernel))

    def _by_call(self, name: str, arguments: tuple[str, ...], roots: frozenset[str]) -> str:
        own = [frozenset(roots_of(text, self.frame)) for text in arguments]
        if not any(each & roots for each in own) or self.depth == _LEVELS:
            return ""
        known = False
        for source, function in self._functions(name):
            known = True
            names = [p.name for p, each in zip(function.parameters, own, strict=False) if each & roots]
            members = [each.partition(".")[2] for each in roots if "." in each]
            inside = frozenset((*names, *(f"{n}.{m}" for n in names for m in members)))
            if found := self._within(source, function).writer_of(inside):
                return found
        others = any(each and not each & roots for each in own)
        given = self.frame.function.parameters if self.frame.function is not None else ()
        free = roots - {p.name for p in given if "const" in p.type.split("*")[0].split()}
        others = others and any(each & free for each in own)
        return name if not known and others and _REARRANGES.search(name) and not _is_of_library(name) else ""

    def _by_value(self, text: str) -> str:
        """Which launch in a function makes the array that it returns."""
        match = _CALLED.match(words(text))
        if match is None or self.depth == _LEVELS:
            return ""
        for source, function in self._functions(last_name(match[1])):
            inside = self._within(source, function)
            result = frozenset(root for _, value in returns(function) for root in roots_of(value, inside.frame))
            if found := inside.writer_of(result):
                return found
        return ""

    def _within(self, source: SourceFile, function: FunctionSource) -> _Before:
        return replace(self, frame=Frame(source, self.frame.project, function, len(function.body)),
                       depth=self.depth + 1)  # fmt: skip


def _site_at(frame: Frame) -> LaunchSite:
    """The place as one that may have launches beside it."""
    none = KernelSource("", "", None, (), "", "", frame.source.path, 0)
    return LaunchSite(none, frame.source.path, 0, "", (), ("", "", ""), (), frame)


def _calls(function: FunctionSource | None) -> Iterator[tuple[str, tuple[str, ...], int]]:
    """Every call in a function's body: its name, its arguments, where it is."""
    if function is None:
        return
    code, body, shift = body_tree(function)
    for node in descend(body, _ANYWHERE):
        called, given = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        if node.type == "call_expression" and called is not None and given is not None:
            texts = tuple(words(text_of(code, each)) for each in given.named_children)
            yield last_name(words(text_of(code, called))), texts, node.start_byte - shift


def _is_of_library(name: str) -> bool:
    return name.startswith(("cuda", "cuMem", "std", "data_ptr"))


def _may_write(name: str, body: str, const: bool) -> bool:
    """Whether a kernel may write through a pointer: itself, or in what it calls."""
    word = re.escape(name)
    called = re.search(rf"\w\s*\([^;{{}}]*\b{word}\b[^;{{}}\[]*\)", body) is not None
    return not const and (bool(written([name], body)) or called)


def _only_set(name: str, kernel: KernelSource) -> bool:
    """Whether a kernel writes an array and reads nothing of it: ``A[i] = …`` wherever it is named."""
    word = re.escape(name)
    sets = len(re.findall(rf"\b{word}{_SUBSCRIPT}\s*=(?!=)", kernel.body))
    return sets > 0 and sets == len(re.findall(rf"\b{word}\b", kernel.body))


def _writes_member(name: str, passed: str, kernel: KernelSource, roots: frozenset[str]) -> bool:
    """Whether a kernel writes a member of a struct that is one of the arrays."""
    members = [root.rpartition(".")[2] for root in roots if root.startswith(f"{array_in(passed)}.")]
    return any(re.search(rf"\b{re.escape(name)}\s*\.\s*{re.escape(member)}{_SUBSCRIPT}\s*=(?!=)", kernel.body)
               for member in members)  # fmt: skip


def _keeps_places(arrays: Mapping[str, frozenset[str]], body: str) -> bool:
    """Whether every element is written where it was read: all arrays have one subscript, and stand nowhere else."""
    found: set[str] = set()
    for name in arrays:
        word = re.escape(name)
        subscripts = re.findall(rf"\b{word}{_SUBSCRIPT}", body)
        if len(subscripts) != len(re.findall(rf"(?<![\w.]){word}\b", body)):
            return False
        found |= {"".join(each.split()) for each in subscripts}
    return len(found) == 1
