"""Which numbers of a kernel say how often its threads go round a loop in which they wait for each other.

Such a loop walks over tiles (of K, ``k += 32``) or over items (of the work that is left, ``++i``), so that the kernel
is made for any number of them. What bounds another loop, ``for (int r = 0; r < R; ++r) sum += rows[r]``, may be limited
by an array in shared memory.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gemmsmith.userfile.text.declared import innermost, text_of
from gemmsmith.userfile.text.parts import FunctionSource
from gemmsmith.userfile.text.source_tree import nodes
from gemmsmith.userfile.text.syntax import parse

if TYPE_CHECKING:
    from tree_sitter import Node

_LOOPS = frozenset({"for_statement", "while_statement", "do_statement"})
_WAITS = re.compile(r"__sync(?:threads|warp)|\bsync\s*\(|barrier|wait|arrive|commit|\basm\b", re.I)
_LEAVES = re.compile(r"\b(?:break|return|continue)\b")
_DIVIDES = re.compile(r"/|>>|div", re.I)
_TILE_STEP = re.compile(r"\+=(?!\s*(?:1\b|\w*grid|\w*block))", re.I)
_PATH = re.compile(r"[A-Za-z_]\w*(?:\s*(?:\.|->)\s*[A-Za-z_]\w*)*")
_DEEPEST = 6  # variables that are computed from others


@dataclass
class TileLoops:
    """Names, with members by their whole path, that bound loops over ``tiles`` and over ``items``."""

    tiles: set[str] = field(default_factory=set)
    items: set[str] = field(default_factory=set)

    def walks_tiles(self, name: str) -> bool:
        return _is_among(name, self.tiles)

    def walks_items(self, name: str) -> bool:
        return _is_among(name, self.items) and not self.walks_tiles(name)

    def add(self, text: str, in_tiles: bool) -> None:
        """The names in a bound; a quotient counts tiles of what is divided."""
        (self.tiles if in_tiles or _DIVIDES.search(text) else self.items).update(_paths(text))


def waiting_functions(functions: Iterable[FunctionSource]) -> frozenset[str]:
    """The names of functions whose threads may wait for others, by what they call; inline PTX may do so."""
    return frozenset(each.name for each in functions if each.device and _WAITS.search(each.body))


def tile_loops(body: str, waiting: Collection[str] = ()) -> TileLoops:
    """What bounds such loops of a kernel's ``body``, itself or through variables. ``waiting``: functions in which
    threads wait."""
    code = f"void kernel() {{{body}}}".encode("ascii", "replace").decode("ascii")
    made: dict[str, list[str]] = {}
    found = TileLoops()
    for node in nodes(parse(code)):
        if node.type == "init_declarator":
            name = text_of(code, innermost(node))
            made.setdefault(name, []).append(text_of(code, node.child_by_field_name("value")))
        inside = text_of(code, node.child_by_field_name("body")) if node.type in _LOOPS else ""
        if _WAITS.search(inside) or any(re.search(rf"\b{name}\s*[(<]", inside) for name in waiting):
            step = text_of(code, node.child_by_field_name("update"))
            found.add(text_of(code, node.child_by_field_name("condition")), bool(_TILE_STEP.search(step)))
            for test in _exits(code, node):
                found.add(test, in_tiles=False)
    for _ in range(_DEEPEST):
        for in_tiles, names in ((True, set(found.tiles)), (False, set(found.items))):
            for text in (text for name in names for text in made.get(name, ())):
                found.add(text, in_tiles)
    return found


def _exits(code: str, loop: Node) -> Iterator[str]:
    """The conditions under which a loop ends, or goes on with its next round, from within."""
    for node in nodes(loop):
        if node.type == "if_statement" and _LEAVES.search(text_of(code, node.child_by_field_name("consequence"))):
            yield text_of(code, node.child_by_field_name("condition"))


def _is_among(name: str, paths: Collection[str]) -> bool:
    """Whether a number, "K" or "p.K", is one of these, also as the member of a copy: p.k, where p = list[i]."""
    member = name.partition(".")[2]
    return name in paths or (bool(member) and any(path.partition(".")[2] == member for path in paths))


def _paths(text: str) -> set[str]:
    return {re.sub(r"\s+", "", path).replace("->", ".") for path in _PATH.findall(text)}
