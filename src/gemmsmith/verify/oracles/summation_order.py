"""In which order an output was summed, and the error bound that follows, read from its tree of arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

from gemmsmith.sim.proof.trees import NOTHING, Node, Op

_EMPTY = Node(Op.CONSTANT, (), "0.0")


@dataclass(frozen=True)
class Facts:
    """Of one node: products of A and B in it, and as a factor of products, the indices of A and B along K."""

    products: int = 0
    a: int = -1
    b: int = -1

    @property
    def is_factor(self) -> bool:
        return self.products == 0 and (self.a >= 0 or self.b >= 0)


@dataclass(frozen=True)
class Chain:
    """Products added to one accumulator one after another: each item is the indices along K of what is added at once.

    ``base`` is what the accumulator held before.
    """

    items: tuple[tuple[int, ...], ...]
    base: Chain | Combination | None = None
    fused: bool = True

    @property
    def indices(self) -> list[int]:
        return [k for item in self.items for k in item]


@dataclass(frozen=True)
class Combination:
    """Two partial sums added to each other."""

    parts: tuple[Chain | Combination, ...] = field(default_factory=tuple)


Sum = Chain | Combination


class OutputTree:
    """One output's tree. ``root`` is its fingerprint among ``nodes``."""

    def __init__(self, nodes: Mapping[int, Node], root: int) -> None:
        self.nodes, self.root = nodes, root

    def _node(self, number: int) -> Node:
        return _EMPTY if number == NOTHING else self.nodes[number]

    @cached_property
    def readable(self) -> bool:
        """Whether every node was written down."""
        return all(number == NOTHING or number in self.nodes for number in self._upwards)

    @cached_property
    def _upwards(self) -> tuple[int, ...]:
        """All nodes, operands first."""
        order: list[int] = []
        seen: set[int] = set()
        stack: list[tuple[int, bool]] = [(self.root, False)]
        while stack:
            number, done = stack.pop()
            if done:
                order.append(number)
            elif number not in seen:
                seen.add(number)
                stack.append((number, True))
                node = self.nodes.get(number, _EMPTY)
                stack += [(operand, False) for operand in node.operands]
        return tuple(order)

    @cached_property
    def facts(self) -> dict[int, Facts]:
        found: dict[int, Facts] = {}
        for number in self._upwards:
            node = self._node(number)
            found[number] = _facts(node, [found[o] for o in node.operands])
        return found

    @property
    def sums_rounded_to(self) -> tuple[str, ...]:
        """Types that partial sums are rounded to on the way; what the epilogue does is left out."""
        found: dict[str, None] = {}
        for number in OutputTree(self.nodes, self.sum_root)._upwards:
            node = self._node(number)
            if self.facts[number].products < 2:
                continue
            if node.op is Op.ROUND:
                found[node.detail.removesuffix(".rz")] = None
            elif node.op in (Op.ADD, Op.FMA, Op.MULTIPLY, Op.BLOCK) and node.detail.endswith("f16"):
                found[node.detail.split(">")[-1]] = None
        return tuple(found)

    @property
    def subtracts(self) -> bool:
        """Whether a term is negated anywhere: magnitudes may then cancel."""
        return any(node.op is Op.NEGATE or (node.op is Op.CONSTANT and node.detail.startswith("-"))
                   for node in map(self._node, self._upwards))  # fmt: skip

    @property
    def scale(self) -> tuple[float, float]:
        """Powers of two between which the constants are that terms are multiplied by."""
        found: dict[int, tuple[float, float]] = {}
        for number in self._upwards:
            node = self._node(number)
            given = [found[o] for o in node.operands if o != NOTHING]
            low, high = min((g[0] for g in given), default=0.0), max((g[1] for g in given), default=0.0)
            if node.op is Op.CONSTANT:
                low = high = math.log2(abs(float(node.detail))) if float(node.detail) else 0.0
            elif node.op in (Op.MULTIPLY, Op.TIMES, Op.FMA) and len(given) > 1:
                low, high = given[0][0] + given[1][0], given[0][1] + given[1][1]
                if node.op is Op.FMA and len(given) > 2:
                    low, high = min(low, given[2][0]), max(high, given[2][1])
            found[number] = low, high
        return found[self.root]

    # -- structure --------------------------------------------------------------------------------

    @cached_property
    def sum_root(self) -> int:
        """The fingerprint of the sum over K, without what the epilogue does to it."""
        number, products = self.root, self.facts[self.root].products
        while products:
            node = self._node(number)
            inner = [o for o in node.operands if self.facts[o].products == products]
            if not inner or self._products(node):
                break
            number = inner[0]
        return number

    def sum(self) -> Sum | None:
        """The sum over K; None if there is no product."""
        return self._sum(self.sum_root) if self.facts[self.root].products else None

    def _products(self, node: Node) -> tuple[int, ...]:
        """The indices along K of the products that a node adds."""
        if node.op is Op.BLOCK:
            return tuple([self.facts[o].a for o in node.operands[1:] if o != NOTHING and self.facts[o].products])
        if node.op in (Op.FMA, Op.MULTIPLY, Op.TIMES):
            x, y = (self.facts[o] for o in node.operands[:2])
            if x.is_factor and y.is_factor and max(x.a, y.a) >= 0 and max(x.b, y.b) >= 0:
                return (max(x.a, y.a),)
        return ()

    def _sum(self, number: int) -> Sum:
        """Iterative along accumulators, recursive only where partial sums meet."""
        items: list[tuple[int, ...]] = []
        fused = True
        while True:
            node = self._node(number)
            own = self._products(node)
            if node.op is Op.MULTIPLY and own:
                return Chain((own, *reversed(items)), None, fused)
            if node.op in (Op.FMA, Op.BLOCK) and own:
                items.append(own)
                rest = node.operands[2] if node.op is Op.FMA else node.operands[0]
                if self.facts[rest].products == 0:
                    return Chain(tuple(reversed(items)), None, fused)
                number = rest
                continue
            if node.op is Op.ADD:
                # The order of two products that are added first does not matter: the smaller k is taken for the first.
                x, y = sorted(node.operands, key=lambda o: -self.facts[o].a)
                single = next((o for o in (x, y) if self._node(o).op is Op.MULTIPLY and self.facts[o].products == 1), 0)
                other = y if single == x else x
                if single and self.facts[other].products:
                    items.append(self._products(self._node(single)))
                    fused, number = False, other
                    continue
                if self.facts[x].products and self.facts[y].products:
                    return _under(items, Combination((self._sum(x), self._sum(y))), fused)
            inner = [o for o in node.operands if self.facts[o].products]
            if len(inner) != 1:
                return _under(items, Combination(tuple(self._sum(o) for o in inner)), fused)
            number = inner[0]

    # -- error ------------------------------------------------------------------------------------

    def error(self, step: Callable[[str, int], float]) -> float:
        """ε with |error| ≤ ε·Σ|terms|, barring overflow and underflow. ``step``: the relative error of one operation,
        by its type and the number of products it adds."""
        found: dict[int, float] = {}
        for number in self._upwards:
            node = self._node(number)
            found[number] = self._error(node, [found[o] for o in node.operands], step)
        return found[self.root]

    def _error(self, node: Node, given: list[float], step: Callable[[str, int], float]) -> float:
        if node.op in (Op.LEAF, Op.CONSTANT):
            return 0.0
        if node.op is Op.NEGATE:
            return given[0]
        if node.op is Op.TIMES:
            return (1 + given[0]) * (1 + given[1]) - 1
        if node.op is Op.BLOCK:
            products = [o for o in node.operands[1:] if o != NOTHING]
            before = max([given[0], *(self._cut(node, o, e) for o, e in zip(node.operands[1:], given[1:], strict=True)
                                      if o != NOTHING)])  # fmt: skip
            own = step(node.detail, len(products))
        elif node.op is Op.MULTIPLY:
            before, own = (1 + given[0]) * (1 + given[1]) - 1, step(node.detail, 1)
        elif node.op is Op.FMA:
            before, own = max((1 + given[0]) * (1 + given[1]) - 1, given[2]), step(node.detail, 1)
        else:
            before, own = max(given), step(node.detail, 1)
        return before + own + before * own

    def _cut(self, node: Node, product: int, error: float) -> float:
        """A tensor core takes the upper 19 bits of fp32 operands, which loses nothing if they were rounded to TF32."""
        if not node.detail.startswith("tf32"):
            return error
        for operand in self._node(product).operands:
            factor = self._node(operand)
            if not (factor.op is Op.ROUND and factor.detail.startswith(("tf32", "f16", "bf16"))):
                error = (1 + error) * (1 + 2.0**-10) - 1
        return error


def _facts(node: Node, given: list[Facts]) -> Facts:
    if node.op is Op.LEAF:
        return Facts(0, node.index if node.detail == "A" else -1, node.index if node.detail == "B" else -1)
    if not given:
        return Facts()
    if node.op in (Op.MULTIPLY, Op.TIMES, Op.FMA):
        x, y = given[:2]
        a, b = max(x.a, y.a), max(x.b, y.b)
        own = int(x.is_factor and y.is_factor and a >= 0 and b >= 0)
        products = own + sum(g.products for g in given)
        return Facts(products, a, b)
    return Facts(sum(g.products for g in given), max(g.a for g in given), max(g.b for g in given))


def _under(items: list[tuple[int, ...]], base: Sum, fused: bool) -> Sum:
    return Chain(tuple(reversed(items)), base, fused) if items else base


# -- words --------------------------------------------------------------------------------------------


def order_text(found: Sum) -> str:
    """The order of a sum in a few words."""
    if isinstance(found, Chain) and found.base is None:
        return f"{_chain_text(found)}, one accumulator"
    parts = list(_parts(found))
    if parts and all(isinstance(p, Chain) and p.base is None for p in parts):
        chains = [p for p in parts if isinstance(p, Chain)]
        return f"{_split_text(chains)}, {_meeting(found)}"
    return "partial sums in no regular order"


def _chain_text(chain: Chain) -> str:
    sizes = {len(item) for item in chain.items}
    apart = "" if chain.fused else ", products rounded before they are added"
    if sizes == {1}:
        return f"{_progression(chain.indices)}{apart}"
    size = max(sizes)
    firsts = [min(item) for item in chain.items]
    runs = all(max(item) - min(item) + 1 == len(item) for item in chain.items)
    order = "ascending" if firsts == sorted(firsts) else "not ascending"
    inside = "" if runs else f" that are not neighbours, {order}"
    return f"blocks of {size} products added at once, {'k ' + order if runs else 'k' + inside}"


def _progression(indices: list[int]) -> str:
    steps = {b - a for a, b in pairwise(indices)}
    if steps <= {1}:
        return "k ascending"
    if steps == {-1}:
        return "k descending"
    if len(steps) == 1:
        return f"every {abs(next(iter(steps)))}th k"
    return "k ascending with gaps" if all(s > 0 for s in steps) else "k in no regular order"


def _parts(found: Sum) -> Iterator[Sum]:
    """The chains that partial sums are, in no order."""
    if isinstance(found, Combination):
        for part in found.parts:
            yield from _parts(part)
    elif found.base is not None and len(found.items) == 1:  # one product on top: a part of one
        yield from _parts(found.base)
        yield Chain(found.items)
    else:
        yield found


def _split_text(chains: list[Chain]) -> str:
    sizes = sorted({len(chain.indices) for chain in chains})
    size = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
    spans = all(max(c.indices) - min(c.indices) + 1 == len(c.indices) for c in chains)
    steps = {b - a for c in chains for a, b in pairwise(c.indices)}
    if spans:
        inside = _chain_text(chains[0]) if len(chains[0].items) > 1 else "at once"
        return f"{len(chains)} parts of {size} consecutive k ({inside})"
    if len(steps) == 1:
        return f"{len(chains)} interleaved parts (every {abs(next(iter(steps)))}th k)"
    return f"{len(chains)} parts of {size} products"


def _meeting(found: Sum) -> str:
    """How partial sums are added to one another: along a line or as a tree."""
    return "added one after another" if _is_line(found) else "added as a tree"


def _is_line(found: Sum) -> bool:
    while isinstance(found, Combination) or found.base is not None:
        if isinstance(found, Chain):
            assert found.base is not None
            found = found.base
            continue
        deeper = [part for part in found.parts if isinstance(part, Combination) or part.base is not None]
        if len(deeper) > 1:
            return False
        if not deeper:
            return True
        found = deeper[0]
    return True
