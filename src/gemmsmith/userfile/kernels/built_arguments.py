"""Kernels that take objects which their host code builds: shapes, layouts and tiled copies of CuTe.

Nothing runs host code here, but the statements that build such objects compile for the device as well. In a copy of
the file a kernel of the same name takes what the host function takes, builds the objects in every thread, and calls the
body.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gemmsmith.userfile.files.edited import Edited, edited_text
from gemmsmith.userfile.host.found_value import FoundValue
from gemmsmith.userfile.launches.launch_site import LaunchSite
from gemmsmith.userfile.text.declared import text_of
from gemmsmith.userfile.text.parts import FunctionSource, KernelSource
from gemmsmith.userfile.text.preprocessor import closing
from gemmsmith.userfile.text.source import read_text
from gemmsmith.userfile.text.syntax import descend, parse, words
from gemmsmith.userfile.text.tokens import Text, blank, normalized

if TYPE_CHECKING:
    from pathlib import Path

    from tree_sitter import Node

_BODY = "_body"  # after the name of a kernel that has become a device function
_KEPT = frozenset({"declaration", "alias_declaration", "using_declaration", "static_assert_declaration",
                   "type_definition", "namespace_alias_definition"})  # fmt: skip
_HOST_ONLY = re.compile(r"\bdim3\b|\bcuda[A-Z]\w*|\bcublas\w*|\bstd\s*::\s*(?!tuple|integral_constant)|\bthrust\b")
_HOST_PARAMETER = re.compile(r"\bcuda\w+_t\b|\bcublas\w+|\bstd\s*::|\bdim3\b|\bat\s*::|\btorch\s*::")


@dataclass(frozen=True)
class BuiltArguments:
    """Texts in place of files, and what the report says about it."""

    edited: Edited
    note: FoundValue


def built_on_device(kernel: KernelSource, site: LaunchSite | None, edited: Edited) -> BuiltArguments | None:
    """The change that lets ``kernel`` be launched without host code; None where it takes no such objects."""
    function = site.frame.function if site is not None else None
    if site is None or function is None or not built_parameters(kernel, site):
        return None
    if kernel.qualified.rpartition("::")[0] != function.scope or "__grid_constant__" in kernel.head:
        return None
    texts = {kernel.file.resolve(): FileCopy(kernel.file, edited)}
    launcher = texts.setdefault(site.file.resolve(), FileCopy(site.file, edited))
    launcher.launch(kernel, function, site)
    for copy in texts.values():
        copy.rename(kernel.name)
    texts[kernel.file.resolve()].into_function(kernel)
    if not all(copy.fits for copy in texts.values()):
        return None
    others = tuple((file, text) for file, text in edited if file.resolve() not in texts)
    names = ", ".join(built_parameters(kernel, site))
    note = FoundValue(names, "built in every thread", site.shown(), site.text)
    return BuiltArguments((*others, *((copy.path, copy.changed()) for copy in texts.values())), note)


def built_parameters(kernel: KernelSource, site: LaunchSite) -> list[str]:
    """The parameters of template types for which the launch passes an object that its function builds."""
    types = {parameter.name for parameter in kernel.template or () if parameter.kind == "typename"}
    found = []
    for parameter, text in zip(kernel.parameters, site.arguments, strict=False):
        kind = words(re.sub(r"\bconst\b|&", " ", parameter.type))
        local = site.frame.locals.variables.get(text)
        value = local.value if local is not None else text
        if (
            kind in types
            and (local is None or "auto" in local.type)
            and re.search(r"\bmake_\w+\s*[(<]|\{\s*\}$", value)
        ):
            found.append(parameter.name or kind)
    return found


class FileCopy:
    """One file that changes: pieces of text by where they go."""

    def __init__(self, path: Path, edited: Edited) -> None:
        raw = edited_text(path, edited)
        known = Text(normalized(read_text(path) if raw is None else raw))
        self.path, self.text = path, known.text
        self.code = known.bare.encode("ascii", "replace").decode("ascii")
        self.fits = True
        self._pieces: list[tuple[int, int, str]] = []

    def changed(self) -> str:
        """The text with all pieces in place; none overlap."""
        parts, last = [], 0
        for start, end, text in sorted(self._pieces):
            if start < last:
                self.fits = False
                continue
            parts += [self.text[last:start], text]
            last = end
        return "".join([*parts, self.text[last:]])

    def rename(self, name: str) -> None:
        """Every mention of ``name`` that no piece replaces becomes that of the device function."""
        taken = [(start, end) for start, end, _ in self._pieces if end > start]
        for found in re.finditer(rf"\b{re.escape(name)}\b", self.code):
            if not any(start <= found.start() < end for start, end in taken):
                self._pieces.append((found.start(), found.end(), name + _BODY))

    def into_function(self, kernel: KernelSource) -> None:
        """``__global__`` becomes ``__device__``, and launch bounds go."""
        named = [m.start() for m in re.finditer(rf"\b{re.escape(kernel.name)}\s*\(", self.code)
                 if self.code.count("\n", 0, m.start()) + 1 == kernel.line]  # fmt: skip
        keyword = self.code.rfind("__global__", 0, named[0]) if named else -1
        if keyword < 0 or re.search(r"[;{}]", self.code[keyword : named[0]].replace("{}", "")):
            self.fits = False
            return
        self._pieces.append((keyword, keyword + len("__global__"), "__device__"))
        for bounds in re.finditer(r"__launch_bounds__\s*\(", self.code[: named[0]]):
            if bounds.start() > self.code.rfind(";", 0, keyword):
                end = closing(self.code, bounds.end() - 1) + 1
                self._pieces.append((bounds.start(), end, " " * (end - bounds.start())))

    def launch(self, kernel: KernelSource, function: FunctionSource, site: LaunchSite) -> None:
        """The new kernel before ``function``, and its launch in the old one's place."""
        called = self._called(kernel.name, site.line)
        statement = called
        while statement is not None and statement.parent is not None and statement.type != "expression_statement":
            statement = statement.parent
        block = statement.parent if statement is not None else None
        outer = block.parent if block is not None else None
        if called is None or statement is None or block is None or outer is None or outer.type != "function_definition":
            self.fits = False
            return
        template = outer.parent if outer.parent is not None and outer.parent.type == "template_declaration" else None
        first = template if template is not None else outer
        head = text_of(self.code, template.child_by_field_name("parameters")) if template is not None else ""
        taken = [p for p in function.parameters if p.name and not _HOST_PARAMETER.search(p.type)]
        listed = ", ".join(f"{re.sub('&', ' ', p.type)} {p.name}" for p in taken)
        before = " ".join(_source(self.text, node) for node in block.named_children
                          if node.end_byte <= statement.start_byte and node.type in _KEPT
                          and not _HOST_ONLY.search(text_of(self.code, node)))  # fmt: skip
        chevrons = next(child for child in called.named_children if child.type == "kernel_call_syntax")
        old = text_of(self.code, called.child_by_field_name("function"))
        body = re.sub(rf"\b{re.escape(kernel.name)}\b", kernel.name + _BODY, old)
        given = _source(self.text, called.child_by_field_name("arguments"))
        made = (f"{f'template {words(head)} ' if head else ''}__global__ void {kernel.name}({listed}) "
                f"{{ {before} {body}{given}; }} ")  # fmt: skip
        self._pieces.append((first.start_byte, first.start_byte, made))
        values = ", ".join(p.name for p in function.template or ()) if head else ""
        new = f"{kernel.name}{f'<{values}>' if values else ''}{text_of(self.code, chevrons)}"
        passed = ", ".join(p.name for p in taken)
        lines = "\n" * text_of(self.code, called).count("\n")
        self._pieces.append((called.start_byte, called.end_byte, f"{' '.join(new.split())}({passed}){lines}"))

    def insert(self, at: int, text: str) -> None:
        """``text`` at an offset."""
        self._pieces.append((at, at, text))

    def rename_within(self, start: int, end: int, names: Mapping[str, str]) -> None:
        """Names of variables in a part of the text, and not those of members."""
        for found in re.finditer(r"(?<![\w.])(?<!->)(?<!::)[A-Za-z_]\w*", self.code[start:end]):
            if found[0] in names:
                self._pieces.append((start + found.start(), start + found.end(), names[found[0]]))

    def relaunch(self, kernel: str, line: int, name: str, more: tuple[str, ...]) -> None:
        """Another kernel in a launch, which takes ``more`` arguments."""
        called = self._called(kernel, line)
        chevrons = next((c for c in called.named_children if c.type == "kernel_call_syntax"), None) if called else None
        if called is None or chevrons is None or self.code[called.end_byte - 1] != ")":
            self.fits = False
            return
        self._pieces.append((called.start_byte, chevrons.start_byte, name))
        self._pieces.append((called.end_byte - 1, called.end_byte - 1, ", " + ", ".join(more)))

    def without_launch(self, kernel: str, line: int) -> None:
        """Blanks in the place of a launch."""
        called = self._called(kernel, line)
        if called is None:
            self.fits = False
            return
        self._pieces.append((called.start_byte, called.end_byte, blank(self.text[called.start_byte : called.end_byte])))

    def _called(self, name: str, line: int) -> Node | None:
        for node in descend(parse(self.code), frozenset()):
            if node.type != "call_expression" or node.start_point[0] + 1 != line:
                continue
            if any(child.type == "kernel_call_syntax" for child in node.named_children) and re.match(
                rf"(?:\w+\s*::\s*)*{re.escape(name)}\b", text_of(self.code, node)
            ):
                return node
        return None


def _source(text: str, node: Node | None) -> str:
    """A node as its author wrote it, in one line and without comments."""
    from gemmsmith.userfile.text.tokens import uncommented

    return words(uncommented(text[node.start_byte : node.end_byte])) if node is not None else ""
