"""Texts of declarations in a syntax tree: names, types, parameters, initial values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from gemmsmith.userfile.text.parts import Field, KernelParameter, TemplateParameter
from gemmsmith.userfile.text.syntax import words

if TYPE_CHECKING:
    from tree_sitter import Node

_PARAMETER = re.compile(
    r"\b(?:const|unsigned|int|float|double|char|bool|void|size_t|u?int\d+_t|dim3|auto|std::\w+|\w+_t)\b\s*[&*]*\s*(?:\w|[,)])"
    r"|\w\s+\w|\w\s*[*&]+\s*[,)]"
)
_NAMES = frozenset({
    "identifier", "field_identifier", "type_identifier", "qualified_identifier", "template_function", "operator_name",
    "destructor_name", "structured_binding_declarator", "primitive_type", "template_method",
})  # fmt: skip


def text_of(code: str, node: Node | None) -> str:
    return "" if node is None else code[node.start_byte : node.end_byte]


def innermost(node: Node | None) -> Node | None:
    """The name that a declarator declares."""
    for _ in range(100):
        if node is None or node.type in _NAMES:
            return node
        below = node.child_by_field_name("declarator") or node.child_by_field_name("name")
        if below is None:
            below = next((c for c in node.named_children if c.type in _NAMES or c.type.endswith("declarator")), None)
        node = below
    return None


def function_declarator(node: Node | None) -> Node | None:
    """The part of a declarator with the parameter list, below pointers and references."""
    for _ in range(100):
        if node is None or node.type == "function_declarator":
            return node
        node = node.child_by_field_name("declarator") or next(
            (c for c in node.named_children if c.type.endswith("declarator")), None
        )
    return None


def parameters(code: str, declarator: Node) -> tuple[KernelParameter, ...]:
    """The parameters of a function. ``float a[]`` is a pointer, as the language has it."""
    listed = declarator.child_by_field_name("parameters")
    found = []
    for node in listed.named_children if listed is not None else ():
        if not node.type.endswith("parameter_declaration"):
            continue
        default = node.child_by_field_name("default_value")
        end = node.end_byte if default is None else code.rfind("=", node.start_byte, default.start_byte)
        name = innermost(node.child_by_field_name("declarator"))
        if name is None:
            kind = code[node.start_byte : end]
        else:
            after = re.sub(r"^\s*\[[^\]]*\]", " *", code[name.end_byte : end])
            kind = code[node.start_byte : name.start_byte] + " " + after
        if words(kind) != "void" or name is not None:
            found.append(KernelParameter(words(kind), text_of(code, name), words(text_of(code, default))))
    return tuple(found)


def template_parameters(code: str, listed: Node) -> tuple[TemplateParameter, ...]:
    found = []
    for node in listed.named_children:
        if not node.type.endswith("declaration"):
            continue
        default = node.child_by_field_name("default_value") or node.child_by_field_name("default_type")
        whole = words(text_of(code, node))
        if "type_parameter" in node.type or node.type.startswith("template_template"):
            named = [c for c in node.named_children if c.type == "type_identifier"]
            name = text_of(code, node.child_by_field_name("name") or (named[0] if named else None))
            kind = "typename" if not node.type.startswith("template_template") else "template"
            if kind == "template":
                name = re.split(r"\W+", whole.partition("=")[0].strip())[-1]
        else:
            inner = innermost(node.child_by_field_name("declarator"))
            name = text_of(code, inner).lstrip(". ")
            end = inner.start_byte if inner is not None else node.end_byte
            kind = words(code[node.start_byte : end]).removesuffix("...").strip()
            kind = " ".join(word for word in kind.split() if word != "const")
        found.append(TemplateParameter(kind, name, words(text_of(code, default)), "variadic" in node.type))
    return tuple(found)


def with_types(
    template: tuple[TemplateParameter, ...], given: Sequence[KernelParameter]
) -> tuple[TemplateParameter, ...]:
    """Parameters that a concept constrains, ``std::integral T``, as types: those that a function's parameters have."""
    used = {word for each in given for word in re.findall(r"[A-Za-z_]\w*", re.sub(r"<.*>", "", each.type))}
    return tuple(replace(p, kind="typename") if p.kind not in ("typename", "template") and p.name in used else p
                 for p in template)  # fmt: skip


@dataclass(frozen=True)
class Variable:
    """A declared variable: its type as written, its initial value as text ("" if none), and whether it is const."""

    name: str
    type: str
    value: str
    const: bool
    line: int
    text: str = ""


def variables(code: str, node: Node) -> list[Variable]:
    """The variables of a declaration. A value in braces or parentheses is written ``type(…)``."""
    kind = words(text_of(code, node.child_by_field_name("type")))
    head = code[node.start_byte : node.end_byte].split("=", maxsplit=1)[0]
    const = re.search(r"\bconst(?:expr)?\b", head) is not None
    found = []
    for declarator, default in _declarators(node):
        value, shape = "", declarator
        if declarator.type == "init_declarator":
            given = declarator.child_by_field_name("value")
            value = _value(code, given, kind, "[" in text_of(code, declarator.child_by_field_name("declarator")))
            inner = declarator.child_by_field_name("declarator")
            shape = inner if inner is not None else declarator
        elif declarator.type == "function_declarator":
            listed = declarator.child_by_field_name("parameters")
            if listed is None or not _looks_like_values(code, listed) or kind == "void":
                continue  # a prototype
            value = f"{kind}{words(text_of(code, listed))}"
        name = innermost(shape)
        if name is None:
            continue
        if default is not None:
            value = _value(code, default, kind, False)
        stars = "*" * text_of(code, shape).split("(")[0].count("*")
        array = (
            "[]"
            if "array" in shape.type or "array" in (shape.named_children[0].type if shape.named_children else "")
            else ""
        )
        found.append(Variable(text_of(code, name), f"{kind}{' ' + stars if stars else ''}{array}", value, const,
                              node.start_point[0], words(text_of(code, node))))  # fmt: skip
    return found


def unbound(found: Sequence[Variable]) -> list[Variable]:
    """The variables of a declaration, where a structured binding, ``auto [grid, block] = plan(M, N);``, is one variable
    for each of its names."""
    named = []
    for each in found:
        names = [name.strip() for name in each.name[1:-1].split(",")] if each.name.startswith("[") else []
        named += [replace(each, name=name, type="auto", value=f"std::get<{i}>({each.value})")
                  for i, name in enumerate(names)] or [each]  # fmt: skip
    return named


def _declarators(node: Node) -> list[tuple[Node, Node | None]]:
    """The declarators of a declaration; those of a class's member with their default value."""
    found: list[tuple[Node, Node | None]] = []
    for at, child in enumerate(node.children):
        name = node.field_name_for_child(at)
        if name == "declarator":
            found.append((child, None))
        elif name == "default_value" and found:
            found[-1] = (found[-1][0], child)
    return found


def _looks_like_values(code: str, listed: Node) -> bool:
    """Whether a parameter list may be arguments: ``dim3 grid(x, y)`` looks like a function."""
    text = words(text_of(code, listed))
    return text != "()" and _PARAMETER.search(text) is None


def _value(code: str, node: Node | None, kind: str, array: bool) -> str:
    text = words(text_of(code, node))
    if node is not None and kind == "dim3" and node.type in ("number_literal", "binary_expression"):
        return f"{kind}({text})"  # dim3 threads = 128
    if node is None or node.type not in ("initializer_list", "argument_list"):
        return text
    if array:
        return text
    if node.named_child_count == 0:
        return f"{kind}{{}}"
    if kind == "dim3" or node.named_child_count != 1:
        return f"{'' if kind == 'auto' else kind}({text[1:-1]})"
    return text[1:-1].strip()


def built_members(code: str, constructor: Node, kinds: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The members that a constructor initialises before its body, of these types, with their values as text."""
    listed = (child for child in constructor.named_children if child.type == "field_initializer_list")
    found = []
    for item in (item for each in listed for item in each.named_children if item.type == "field_initializer"):
        name, value = text_of(code, item.named_children[0]), item.named_children[-1]
        text = _value(code, value, kinds.get(name, ""), False)
        if name in kinds and text != name:
            found.append((name, text))
    return tuple(found)


def enumerators(code: str, node: Node) -> list[tuple[str, str]]:
    """The enumerators of an enum with their values as text."""
    body = node.child_by_field_name("body")
    base, count, found = "0", 0, []
    for item in body.named_children if body is not None else ():
        if item.type != "enumerator":
            continue
        given = words(text_of(code, item.child_by_field_name("value")))
        base, count = (f"({given})", 0) if given else (base, count)
        found.append((text_of(code, item.child_by_field_name("name")), f"{base} + {count}" if count else base))
        count += 1
    return found


def fields(code: str, body: Node) -> tuple[Field, ...]:
    """The data members of a class, in order; static ones take no room."""
    found = []
    for node in body.named_children:
        if node.type != "field_declaration" or re.search(
            r"\b(?:static|constexpr)\b", text_of(code, node).split("=")[0]
        ):
            continue
        kind = words(text_of(code, node.child_by_field_name("type")))
        whole = text_of(code, node)
        aligned = re.search(r"(?:alignas|__align__)\s*\(([^()]*)\)", whole)
        inner = node.child_by_field_name("type")
        inner = inner.child_by_field_name("body") if inner is not None and inner.type == "struct_specifier" else None
        own = fields(code, inner) if inner is not None else ()
        for declarator in node.children_by_field_name("declarator"):
            text = text_of(code, declarator)
            pointer = re.match(r"\(\s*\*\s*(\w+)\s*(?:\[([^\]]*)\])?\s*\)\s*\(", text)  # to a function
            if pointer is not None:
                found.append(Field("void *", (words(pointer[2]),) if pointer[2] else (), "", pointer[1]))
                continue
            if function_declarator(declarator) is not None:
                continue
            counts = tuple(words(part) for part in re.findall(r"\[([^\[\]]*)\]", text))
            stars = " *" * text.split("[")[0].count("*")
            name = re.search(r"[A-Za-z_]\w*", re.sub(r"\b(?:const|__restrict__|__restrict)\b", " ", text))
            found.append(
                Field(kind + stars, counts, words(aligned[1]) if aligned else "", name[0] if name else "", own)
            )
    return tuple(found)


def base_classes(code: str, node: Node) -> tuple[str, ...]:
    """The classes that a class inherits from, as written."""
    clause = next((child for child in node.named_children if child.type == "base_class_clause"), None)
    kinds = ("type_identifier", "template_type", "qualified_identifier")
    return tuple(words(text_of(code, each)) for each in clause.named_children if each.type in kinds) if clause else ()
