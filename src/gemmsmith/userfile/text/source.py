"""Read CUDA files: their kernels, functions, launches and constants."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from gemmsmith.errors import UsageError
from gemmsmith.regular_file import regular
from gemmsmith.userfile.files.edited import Edited, edited_text
from gemmsmith.userfile.files.include_search import IncludeSearch
from gemmsmith.userfile.files.repository import include_closure
from gemmsmith.userfile.files.stamp import Stamp, stamp
from gemmsmith.userfile.launches.driver_launch import with_function_names
from gemmsmith.userfile.launches.launch_text import launches_in
from gemmsmith.userfile.text.conditional_branches import NO_BRANCHES, Branches
from gemmsmith.userfile.text.cuda_text import cuda_text
from gemmsmith.userfile.text.declared import (
    base_classes,
    built_members,
    enumerators,
    fields,
    function_declarator,
    innermost,
    parameters,
    template_parameters,
    text_of,
    variables,
    with_types,
)
from gemmsmith.userfile.text.parts import (
    Enumeration,
    Field,
    FunctionSource,
    Instantiation,
    KernelParameter,
    KernelSource,
    LaunchText,
    SourceFile,
    TemplateParameter,
)
from gemmsmith.userfile.text.preprocessor import Macro, Preprocessed, expand, preprocess, telling_macros
from gemmsmith.userfile.text.syntax import last_name, parse, words

if TYPE_CHECKING:
    from tree_sitter import Node

__all__ = ["FunctionSource", "KernelParameter", "KernelSource", "LaunchText", "SourceFile", "TemplateParameter",
           "find_kernels", "read_source_file", "read_sources"]  # fmt: skip

_NO_MACROS: Mapping[str, Macro] = {}


def read_source_file(path: Path, macros: Mapping[str, Macro] = _NO_MACROS, edited: Edited = ()) -> SourceFile:
    """The contents of ``path``. ``macros`` are those of files that include it or that it includes."""
    text = edited_text(path, edited)
    cleaned, used = _clean(path, stamp((str(path),)), text)
    telling = telling_macros({**macros, **cleaned.macros})
    needed = tuple(sorted((name, telling[name]) for name in _reached(telling, used)))
    return _read(path, stamp((str(path),)), needed, text)


def _reached(telling: Mapping[str, Macro], used: frozenset[str]) -> set[str]:
    """The macros that a file uses, directly or through other macros."""
    found: set[str] = set()
    new = set(used & telling.keys())
    while new:
        found |= new
        new = {w for name in new for w in re.findall(r"[A-Za-z_]\w*", telling[name].body)} & telling.keys() - found
    return found


@lru_cache(maxsize=256)
def _clean(path: Path, _stamp: Stamp, text: str | None = None) -> tuple[Preprocessed, frozenset[str]]:
    """The file without comments, and the words in it."""
    text = read_text(path) if text is None else text
    cleaned = preprocess(text)
    cleaned = replace(cleaned, code=with_function_names(cleaned.code, text))
    return cleaned, frozenset(re.findall(r"[A-Za-z_]\w*", cleaned.code))


@lru_cache(maxsize=256)
def _read(path: Path, _stamp: Stamp, macros: tuple[tuple[str, Macro], ...], text: str | None = None) -> SourceFile:
    cleaned, _ = _clean(path, _stamp, text)
    code = expand(cleaned.code, dict(macros))
    reader = _Reader(path, code, cleaned.branches)
    reader.read(parse(code))
    plain = {name: macro.body for name, macro in cleaned.macros.items() if macro.parameters is None and macro.body}
    return SourceFile(
        path, code, tuple(reader.kernels), tuple(reader.functions), tuple(reader.launches),
        {**plain, **reader.constants}, reader.aliases, cleaned.quoted, reader.variables, cleaned.macros,
        reader.qualified, tuple(reader.instantiations), reader.class_templates, reader.class_fields,
        reader.class_bases, frozenset(reader.unions), frozenset(reader.members), reader.enums,
    )  # fmt: skip


def read_text(path: Path) -> str:
    """A source file's text without a byte order mark; raises ``UsageError`` with the reason if it has none. Bytes of
    comments in another encoding are replaced."""
    try:
        data = regular(path).read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from None
    try:
        return cuda_text(path, data.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        if not _is_mostly_ascii(data):
            raise UsageError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}",
                             "give a file of CUDA C++ source") from None  # fmt: skip
    return cuda_text(path, data.decode("utf-8-sig", errors="replace"))


def _is_mostly_ascii(data: bytes) -> bool:
    """Whether this is a source with comments in another encoding, and no other kind of file."""
    return 0 not in data and sum(byte > 127 for byte in data) < len(data) / 2


def read_sources(path: Path, search: IncludeSearch, edited: Edited = ()) -> tuple[SourceFile, ...]:
    """``path`` and the headers that it includes, as far as ``search`` finds them. Macros of one count in all."""
    paths = include_closure(path, search)
    macros: dict[str, Macro] = {}
    for each in reversed(paths):
        macros |= _clean(each, stamp((str(each),)), edited_text(each, edited))[0].macros
    return tuple(read_source_file(each, macros, edited) for each in paths)


def find_kernels(path: Path, include: tuple[Path, ...] = ()) -> tuple[KernelSource, ...]:
    """The kernels of ``path`` and of the headers that it includes, its own first."""
    search = IncludeSearch(path, include, (), ())
    return tuple(kernel for source in read_sources(path, search) for kernel in source.kernels)


_TRANSPARENT = frozenset({"translation_unit", "declaration_list", "linkage_specification", "field_declaration_list",
                          "ERROR", "preproc_if", "preproc_ifdef", "preproc_else", "field_declaration",
                          "labeled_statement", "expression_statement", "friend_declaration"})  # fmt: skip
_CLASSES = frozenset({"struct_specifier", "class_specifier", "union_specifier"})
_LAUNCH = re.compile(r"<<<|\bcu(?:da)?Launch")


@dataclass
class _Reader:
    """One pass over the declarations at file, namespace and class scope."""

    path: Path
    code: str
    branches: Branches = NO_BRANCHES
    kernels: list[KernelSource] = field(default_factory=list)
    functions: list[FunctionSource] = field(default_factory=list)
    launches: list[LaunchText] = field(default_factory=list)
    constants: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    qualified: dict[str, str] = field(default_factory=dict)
    instantiations: list[Instantiation] = field(default_factory=list)
    class_templates: dict[str, tuple[TemplateParameter, ...]] = field(default_factory=dict)
    class_fields: dict[str, tuple[Field, ...]] = field(default_factory=dict)
    class_bases: dict[str, tuple[str, ...]] = field(default_factory=dict)
    unions: set[str] = field(default_factory=set)
    members: set[str] = field(default_factory=set)
    enums: dict[str, Enumeration] = field(default_factory=dict)

    def read(self, root: Node) -> None:
        stack: list[tuple[Node, tuple[str, ...], Node | None]] = [(root, (), None)]
        while stack:
            node, scope, template = stack.pop()
            for child, inner, of in self._visit(node, scope, template):
                stack.append((child, inner, of))

    def _visit(
        self, node: Node, scope: tuple[str, ...], template: Node | None
    ) -> list[tuple[Node, tuple[str, ...], Node | None]]:
        """What to visit below ``node``, last first."""
        if node.type in _TRANSPARENT:
            if node.type == "field_declaration":
                self._constants(node, scope, member=True)
            return [(child, scope, template) for child in reversed(node.named_children)]
        if node.type == "namespace_definition":
            name = text_of(self.code, node.child_by_field_name("name"))
            inner = (*scope, *re.split(r"\s*::\s*", name)) if name else scope
            return [(c, inner, None) for c in reversed(node.named_children) if c.type == "declaration_list"]
        if node.type == "template_declaration":
            return [(child, scope, node) for child in reversed(node.named_children)]
        if node.type in _CLASSES:
            return self._class(node, scope, template)
        if node.type == "function_definition":
            self._function(node, scope, template)
        elif node.type == "declaration":
            self._constants(node, scope)
            return [
                (child, scope, None) for child in node.named_children if child.type in (*_CLASSES, "enum_specifier")
            ]
        elif node.type == "enum_specifier":
            self._enumerators(node, scope)
        elif node.type in ("alias_declaration", "type_definition"):
            self._alias(node, scope)
            return [
                (child, scope, None) for child in node.named_children if child.type in (*_CLASSES, "enum_specifier")
            ]
        elif node.type == "template_instantiation":
            self._instantiation(node)
        return []

    def _class(
        self, node: Node, scope: tuple[str, ...], template: Node | None
    ) -> list[tuple[Node, tuple[str, ...], Node | None]]:
        name = text_of(self.code, node.child_by_field_name("name")).split("<")[0]
        body = node.child_by_field_name("body")
        if body is None:
            return []
        if not name and node.parent is not None and node.parent.type == "type_definition":  # typedef struct {…} Matrix
            declared = innermost(node.parent.child_by_field_name("declarator"))
            name = text_of(self.code, declared) if declared is not None else ""
        if name:
            self.qualified.setdefault(name, "::".join((*scope, name)))
            listed = template.child_by_field_name("parameters") if template is not None else None
            if listed is not None:
                self.class_templates.setdefault(name, template_parameters(self.code, listed))
            self.class_fields.setdefault(name, fields(self.code, body))
            self.class_bases.setdefault(name, base_classes(self.code, node))
            if node.type == "union_specifier":
                self.unions.add(name)
        return [(body, (*scope, name) if name else scope, None)]

    def _function(self, node: Node, scope: tuple[str, ...], template: Node | None) -> None:
        declarator, body = function_declarator(node.child_by_field_name("declarator")), node.child_by_field_name("body")
        named = innermost(declarator)
        if declarator is None or body is None or named is None:
            return
        if body.type == "try_statement":
            inner = body.child_by_field_name("body")
            body = inner if inner is not None else body
        outer = template if template is not None else node
        head = self.code[outer.start_byte : body.start_byte]
        spelled = words(text_of(self.code, named))
        name = last_name(spelled)
        listed = template.child_by_field_name("parameters") if template is not None else None
        of = template_parameters(self.code, listed) if listed is not None else None
        given = parameters(self.code, declarator)
        of = with_types(of, given) if of is not None else None
        text = self.code[body.start_byte + 1 : body.end_byte - 1]
        line = named.start_point[0] + 1
        if re.search(r"\b__global__\b", head):
            if "<" not in spelled:  # not a specialisation
                qualified, bounds = "::".join((*scope, name)), self._bounds(node, head)
                self.kernels.append(KernelSource(name, qualified, of, given, head, text, self.path, line, bounds))
            return
        if "::" in spelled:
            scope = (*scope, *re.split(r"\s*::\s*", spelled)[:-1])
        if of is None and scope:
            of = self.class_templates.get(scope[-1])
        device = re.search(r"\b__device__\b", head) is not None
        first, last = body.start_point[0] + 1, body.end_point[0] + 1
        kinds = {each.name: each.type for each in self.class_fields.get(scope[-1] if scope else "", ())}
        self.functions.append(FunctionSource(name, head, text, line, first, given, of, "::".join(scope), device,
                                             self.branches.within(first, last),
                                             built_members(self.code, node, kinds)))  # fmt: skip
        if _LAUNCH.search(text):
            self.launches += launches_in(self.code, body, len(self.functions) - 1)

    def _bounds(self, node: Node, head: str) -> str:
        for child in node.named_children:
            if child.type == "launch_bounds" and child.named_children:
                return words(text_of(self.code, child.named_children[0]))
        match = re.search(r"__launch_bounds__\s*\(\s*([^,()]+(?:\([^()]*\)[^,()]*)*)", head)
        return words(match[1]) if match else ""

    def _constants(self, node: Node, scope: tuple[str, ...], member: bool = False) -> None:
        """Variables with values. Outside its class a member's bare name means another variable, if there is one."""
        for variable in variables(self.code, node):
            if variable.value and not variable.name.startswith("["):
                store = self.constants if variable.const else self.variables
                if member and variable.name not in store:
                    self.members.add(variable.name)
                elif not member and variable.name in self.members:
                    self.members.discard(variable.name)
                    store.pop(variable.name, None)
                self._store(store, variable.name, variable.value, scope)

    def _store(self, store: dict[str, str], name: str, value: str, scope: tuple[str, ...]) -> None:
        for depth in range(len(scope)):
            store.setdefault("::".join((*scope[depth:], name)), value)
        store.setdefault(name, value)

    def _enumerators(self, node: Node, scope: tuple[str, ...]) -> None:
        name = text_of(self.code, node.child_by_field_name("name"))
        body = node.child_by_field_name("body")
        if name and body is not None:
            self.qualified.setdefault(name, "::".join((*scope, name)))
        outer = node.parent if node.parent is not None and node.parent.type == "type_definition" else None
        alias = innermost(outer.child_by_field_name("declarator")) if outer is not None else None
        found = enumerators(self.code, node)
        kind = words(text_of(self.code, node.child_by_field_name("base"))) or "int"
        for each in (name, text_of(self.code, alias)) if found else ():
            for depth in range(len(scope) + 1) if each else ():
                self.enums.setdefault("::".join((*scope[depth:], each)), Enumeration(kind, tuple(v for _, v in found)))
        for inner, value in found:
            self._store(self.constants, inner, value, (*scope, name) if name else scope)

    def _alias(self, node: Node, scope: tuple[str, ...]) -> None:
        name = innermost(node.child_by_field_name("name") or node.child_by_field_name("declarator"))
        kind = node.child_by_field_name("type")
        if name is not None and kind is not None and kind.child_by_field_name("body") is None:
            self._store(self.aliases, text_of(self.code, name), words(text_of(self.code, kind)), scope)

    def _instantiation(self, node: Node) -> None:
        """Of a function, or of a class: ``template struct Launcher<128, 64>;``."""
        named = innermost(function_declarator(node.child_by_field_name("declarator")))
        classes = (each for each in node.named_children if each.type in ("struct_specifier", "class_specifier"))
        if named is None and (owner := next(classes, None)) is not None:
            named = owner.child_by_field_name("name")
        arguments = named.child_by_field_name("arguments") if named is not None else None
        if named is not None and arguments is not None:
            name = text_of(self.code, named.child_by_field_name("name"))
            values = tuple(words(text_of(self.code, child)) for child in arguments.named_children)
            self.instantiations.append(Instantiation(name, values, node.start_point[0] + 1))
