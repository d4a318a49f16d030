"""The end of a product: alpha and beta at the wrong terms, and what belongs behind the loop over K but is in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gemmsmith.cure.accesses import GlobalAccess, global_accesses, operands
from gemmsmith.cure.code import LOOPS, Code, Function, Program, above, below
from gemmsmith.cure.edit import Candidate, Edit
from gemmsmith.cure.slots import Slot, children

if TYPE_CHECKING:
    from tree_sitter import Node

_MOST_STORES = 2


def rewritten_stores(program: Program) -> Iterator[Candidate]:
    """`C[i] = alpha * sum + beta * C[i]`, where the kernel's own line is something else of these four."""
    alpha, beta = program.names.get("alpha", ""), program.names.get("beta", "")
    stores = [access for access in global_accesses(program) if access.is_store and access.role in ("C", "D")]
    for access in stores[:_MOST_STORES] if alpha or beta else ():
        code, parent = access.code, access.node.parent
        right = parent.child_by_field_name("right") if parent is not None else None
        sign = parent.child_by_field_name("operator") if parent is not None else None
        if right is None or sign is None or next(below(right, "conditional_expression"), None) is not None:
            continue
        sums = [
            node
            for node in below(right, "identifier", "subscript_expression")
            if code.of(node) in _accumulated(access.function) or _base(code, node) in _accumulated(access.function)
        ]
        if not sums or code.of(sign) != "=":
            continue
        product, old = code.of(sums[0]), _old_value(program, access, right)
        terms = [f"{alpha} * {product}" if alpha else product, *([f"{beta} * {old}"] if beta else [])]
        if _terms(code.of(right)) == _terms(" + ".join(terms)):
            continue
        new, line = " + ".join(terms), code.line(right.start_byte)
        meant = [f"{alpha} * sum" if alpha else "sum", *([f"{beta} * C"] if beta else [])]
        yield Candidate("wrong-epilogue", f"line {line} stores `{' '.join(code.of(right).split())[:80]}`, which is not "
                        f"{' + '.join(meant)}", f"write `{new}` in line {line}",
                        (Edit(code.path, right.start_byte, right.end_byte, new),))  # fmt: skip


def _accumulated(function: Function) -> frozenset[str]:
    """Variables that something is added to, but for pointers, indices and counters."""
    text = function.code.of(function.body)
    added = re.findall(r"\b([A-Za-z_]\w*)(?:\s*\[[^\]]*\])*\s*\+=", text)
    fused = re.findall(r"\b([A-Za-z_]\w*)(?:\s*\[[^\]]*\])*\s*=\s*(?:__)?fma\w*\s*\(", text)
    longhand = re.findall(r"\b([A-Za-z_]\w*)\s*=\s*\1\s*\+", text)
    found = frozenset((*added, *fused, *longhand))
    return frozenset(name for name in found if not _is_place(text, name))


def _is_place(text: str, name: str) -> bool:
    """Whether a variable is a pointer, an index or a loop's counter."""
    declared = rf"\b(?:float|double|half|__half|char|int|void|T)\w*\s*\*\s*(?:__restrict__\s+|const\s+)*{name}\b"
    return bool(re.search(declared, text) or re.search(rf"\[[^\]]*\b{name}\b[^\]]*\]", text)
                or re.search(rf"\bfor\s*\([^;]*\b{name}\b", text))  # fmt: skip


def _base(code: Code, node: Node) -> str:
    while node.type == "subscript_expression" and node.children:
        node = node.children[0]
    return code.of(node)


def _old_value(program: Program, access: GlobalAccess, right: Node) -> str:
    """What the line calls the old value of C: an element of C, a variable that holds one, else the target itself."""
    code, target = access.code, access.code.of(access.node)
    names = {program.names.get(role, "") for role in ("C", "D")} - {""}
    for node in below(right, "subscript_expression"):
        if _base(code, node) in names:
            return code.of(node)
    for name in dict.fromkeys(code.of(node) for node in below(right, "identifier")):
        pattern = rf"\b{name}\s*=(?!=)[^;]*\b(?:{'|'.join(map(re.escape, sorted(names)))})\s*\["
        if names and re.search(pattern, code.of(access.function.body)):
            return name
    return target


def _terms(text: str) -> frozenset[tuple[str, ...]]:
    """A sum of products, whatever the order."""
    flat = "".join(text.split())
    return frozenset(tuple(sorted(term.split("*"))) for term in re.split(r"\+(?![^\[]*\])", flat))


def late_biases(program: Program) -> Iterator[Candidate]:
    """`relu(sum) + bias[j]`, where the bias belongs to the sum: `relu(sum + bias[j])`."""
    for function in program.reached:
        code, sums = function.code, _accumulated(function)
        for node in below(function.body, "binary_expression"):
            sign = node.child_by_field_name("operator")
            sides = [node.child_by_field_name(part) for part in ("left", "right")]
            for call, bias in (sides, sides[::-1]) if sign is not None and code.of(sign) == "+" else ():
                if call is None or bias is None or call.type != "call_expression" or bias.type == "call_expression":
                    continue
                inner = [
                    each for each in below(call, "identifier", "subscript_expression") if _base(code, each) in sums
                ]
                if not inner:
                    continue
                at, line, added = inner[0].end_byte, code.line(node.start_byte), code.of(bias)
                whole = code.text[call.start_byte : at] + f" + {added}" + code.text[at : call.end_byte]
                yield Candidate("bias-after-activation", f"line {line} adds `{added}` to the result of "
                                f"`{' '.join(code.of(call).split())[:60]}`, but it should be added to the sum inside",
                                f"write `{' '.join(whole.split())[:80]}` in line {line}",
                                (Edit(code.path, node.start_byte, node.end_byte, whole),))  # fmt: skip


def activated_terms(program: Program) -> Iterator[Candidate]:
    """`sum += relu(a * b)`, where the activation belongs to the whole sum: the product alone is added."""
    for function in program.reached:
        code, sums = function.code, _accumulated(function)
        for node in below(function.body, "assignment_expression"):
            left, sign, right = (node.child_by_field_name(part) for part in ("left", "operator", "right"))
            if left is None or sign is None or right is None or code.of(sign) != "+=" or _base(code, left) not in sums:
                continue
            listed = right.child_by_field_name("arguments") if right.type == "call_expression" else None
            terms = [each for each in listed.named_children if "*" in code.of(each)] if listed is not None else []
            called = right.child_by_field_name("function")
            if len(terms) != 1 or called is None or "fma" in code.of(called):
                continue
            line, term = code.line(node.start_byte), code.of(terms[0])
            cause = (f"line {line} adds `{code.of(called)}` of each product, where a matrix product adds the products "
                     "themselves (an activation belongs after the loop)")  # fmt: skip
            yield Candidate("activated-term", cause,
                            f"write `{code.of(left)} += {' '.join(term.split())[:80]}` in line {line}",
                            (Edit(code.path, right.start_byte, right.end_byte, term),))  # fmt: skip


def too_often(program: Program) -> Iterator[Candidate]:
    """What each iteration of the loop over K does to the sum, though it belongs behind the loop: `acc = relu(acc)`,
    `acc *= alpha`, `acc += bias[col]`. Left out, or moved behind the loop."""
    for function in program.reached:
        sums = _accumulated(function) - set(operands(program))  # `A += BK` moves a pointer
        for node in below(function.body, "expression_statement", "if_statement"):
            loop = _outermost_loop(function, node)
            if loop is None or not _is_once_only(function.code, node, sums):
                continue
            yield from _behind(function, node, loop)


def _is_once_only(code: Code, node: Node, sums: frozenset[str]) -> bool:
    """Whether a statement changes a sum, and adds no product to it."""
    text = " ".join(code.of(node).split())
    if node.type == "if_statement":  # if (acc < 0) acc = 0;
        match = re.fullmatch(r"if \((\w+)\b[^;{}]*\) \{? ?\1 = [^;{}]*; ?\}?", text)
        return match is not None and match[1] in sums
    if (node.parent is not None and node.parent.type == "if_statement") or not node.named_children:
        return False
    match = re.fullmatch(r"(\w+)(?:\[[^\]]*\])* (=|\*=|\+=) (.*);", text)
    if match is None or match[1] not in sums:
        return False
    if match[2] == "*=":
        return True
    if match[2] == "+=":
        return not re.search(r"[*,]", re.sub(r"\[[^\]]*\]", "", match[3]))
    return bool(re.search(rf"\b{match[1]}\b", match[3])) and not re.search(r"fma|\*|\+", match[3])


def _outermost_loop(function: Function, node: Node) -> Node | None:
    """The outermost loop around a statement that also adds to a sum."""
    found = None
    for parent in above(node):
        if parent.id == function.body.id:
            break
        if parent.type in LOOPS:
            found = parent
    return found


def _behind(function: Function, node: Node, loop: Node) -> Iterator[Candidate]:
    code = function.code
    line, text = code.line(node.start_byte), " ".join(code.of(node).split())
    cause = (f"`{text}` in line {line} is done in every iteration of the loop in line {code.line(loop.start_byte)}, on "
             "a sum that is not complete")  # fmt: skip
    start, end = code.text.rfind("\n", 0, node.start_byte) + 1, code.text.find("\n", node.end_byte)
    in_copy = node.start_byte, node.end_byte, ";" + "\n" * code.of(node).count("\n")
    alone = end >= 0 and code.text[start:end].strip() == code.of(node).strip()
    removed = Edit(code.path, start, end + 1, "", in_copy) if alone else Edit(code.path, *in_copy)
    yield Candidate("unfinished-sum", cause, f"remove line {line}", (removed,))
    parent = loop.parent
    if parent is None or parent.type != "compound_statement":
        return
    place = next(i for i, child in enumerate(children(parent)) if child.id == loop.id)
    slot = Slot(code, parent, place)
    yield Candidate("unfinished-sum", cause, f"move it behind that loop, after line {slot.after_line}",
                    (removed, slot.insertion(text)))  # fmt: skip
