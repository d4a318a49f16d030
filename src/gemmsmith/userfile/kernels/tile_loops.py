"""Which numbers of a kernel say how often its threads go round a loop in which they wait for each other.

Such a loop walks over tiles (of K, of the work that is left), so that the kernel is made for any number of them. What
bounds another loop, ``for (int r = 0; r < R; ++r) sum += rows[r]``, may be limited by an array in shared memory.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING

from gemmsmith.userfile.text.declared import innermost, text_of
from gemmsmith.userfile.text.parts import FunctionSource
from gemmsmith.userfile.text.source_tree import nodes
from gemmsmith.userfile.text.syntax import parse

if TYPE_CHECKING:
    from tree_sitter import Node

_LOOPS = frozenset({"for_statement", "while_statement", "do_statement"})
_WAITS = re.compile(r"sync|barrier|wait|arrive|commit|\basm\b", re.I)
_LEAVES = re.compile(r"\b(?:break|return|continue)\b")
_PATH = re.compile(r"[A-Za-z_]\w*(?:\s*(?:\.|->)\s*[A-Za-z_]\w*)*")
_DEEPEST = 6  # variables that are computed from others


def waiting_functions(functions: Iterable[FunctionSource]) -> frozenset[str]:
    """The names of functions whose threads may wait for others, by what they call; inline PTX may do so."""
    return frozenset(each.name for each in functions if each.device and _WAITS.search(each.body))


def bounds_of_tile_loops(body: str, names: Collection[str], waiting: Collection[str] = ()) -> frozenset[str]:
    """Those of ``names`` ("K", "p.K") that bound such a loop of a kernel's ``body``, themselves or through variables.
    ``waiting``: functions in which threads wait."""
    code = f"void kernel() {{{body}}}".encode("ascii", "replace").decode("ascii")
    root = parse(code)
    made: dict[str, set[str]] = {}
    bounds: set[str] = set()
    for node in nodes(root):
        if node.type == "init_declarator":
            made.setdefault(text_of(code, innermost(node)), set()).update(
                _paths(text_of(code, node.child_by_field_name("value")))
            )
        inside = text_of(code, node.child_by_field_name("body")) if node.type in _LOOPS else ""
        if _WAITS.search(inside) or any(re.search(rf"\b{name}\s*[(<]", inside) for name in waiting):
            bounds |= _paths(text_of(code, node.child_by_field_name("condition")))
            bounds |= {path for test in _exits(code, node) for path in _paths(test)}
    for _ in range(_DEEPEST):
        bounds |= {path for name in bounds for path in made.get(name, ())}
    return frozenset(name for name in names if name in bounds)


def _exits(code: str, loop: Node) -> Iterator[str]:
    """The conditions under which a loop ends, or goes on with its next round, from within."""
    for node in nodes(loop):
        if node.type == "if_statement" and _LEAVES.search(text_of(code, node.child_by_field_name("consequence"))):
            yield text_of(code, node.child_by_field_name("condition"))


def _paths(text: str) -> set[str]:
    return {re.sub(r"\s+", "", path).replace("->", ".") for path in _PATH.findall(text)}
