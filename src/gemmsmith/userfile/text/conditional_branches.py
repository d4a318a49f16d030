"""Lines of a file that are never compiled together: they are in branches of ``#if`` that exclude each other.

#if VERSION == 1
    dim3 block(32, 32);          <- not the block of the launch below
#elif VERSION == 2
    dim3 block(16, 16);
#endif
#if VERSION == 2
    kernel<<<grid, block>>>();
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Container, Iterable
from dataclasses import dataclass, field

_OPENS, _TURNS = ("if", "ifdef", "ifndef"), ("elif", "else", "elifdef", "elifndef")
_DEFINED = re.compile(r"defined\(?(\w+)\)?")
_EQUAL = re.compile(r"(\w+)==(\w+)")
_DEEPEST, _MOST = 8, 32  # nested conditions and branches of one that are told apart; more would take quadratic time
_NEGATED = re.compile(r"!(\w+|defined\(\w+\)|\([^()]*\))")


@dataclass(frozen=True)
class Branches:
    """``lines`` ascend; from each on, the conditions of ``holds`` are met and those of ``fails`` are not. ``left_out``:
    by what the file defines, nothing is compiled from there on."""

    lines: tuple[int, ...] = ()
    holds: tuple[frozenset[str], ...] = ()
    fails: tuple[frozenset[str], ...] = ()
    left_out: tuple[bool, ...] = ()

    def within(self, first: int, last: int) -> Branches:
        """What a function on these lines needs of it."""
        begin, end = max(0, bisect_right(self.lines, first) - 1), bisect_right(self.lines, last)
        own = slice(begin, end)
        return Branches(self.lines[own], self.holds[own], self.fails[own], self.left_out[own])

    def exclude(self, one: int, other: int) -> bool:
        """Whether no build compiles both lines."""
        (met, unmet), (their_met, their_unmet) = self._at(one), self._at(other)
        if met & their_unmet or unmet & their_met:
            return True
        wanted, theirs = _values(met), _values(their_met)
        return any(theirs.get(name, value) != value for name, value in wanted.items())

    def adds_nothing(self, one: int, other: int) -> bool:
        """Whether a line is left out, as the file stands, in a build that compiles the ``other``: #ifdef DEBUG."""
        at = bisect_right(self.lines, one) - 1
        (met, unmet), (their_met, their_unmet) = self._at(one), self._at(other)
        return at >= 0 and self.left_out[at] and not (met <= their_met and unmet <= their_unmet)

    def _at(self, line: int) -> tuple[frozenset[str], frozenset[str]]:
        at = bisect_right(self.lines, line) - 1
        return (self.holds[at], self.fails[at]) if at >= 0 else (frozenset(), frozenset())


def _values(conditions: frozenset[str]) -> dict[str, str]:
    """What macros equal where the conditions hold."""
    return {match[1]: match[2] for each in conditions if (match := _EQUAL.fullmatch(each))}


NO_BRANCHES = Branches()


@dataclass
class _Chain:
    """An ``#if`` with its branches so far: conditions that were not met, and the present one. Each has its sign."""

    unmet: list[tuple[str, bool]] = field(default_factory=list)
    met: tuple[str, bool] | None = None
    branches: int = 1
    left_out: bool = False

    def turn(self, met: tuple[str, bool] | None, left_out: bool) -> None:
        """The next branch. Of very many nothing is told."""
        self.left_out = left_out
        self.branches += 1
        self.unmet += [self.met] if self.met else []
        self.met = met
        if self.branches > _MOST:
            self.unmet, self.met = [], None


def branches(directives: Iterable[tuple[int, str, str]], left_out: Container[int] = ()) -> Branches:
    """Of directives as line, word and rest, in order. ``left_out``: which of them open branches not compiled."""
    lines, holds, fails, out = [], [], [], []
    open_: list[_Chain] = []
    for at, (line, word, rest) in enumerate(directives):
        if word in _OPENS:
            open_.append(_Chain(met=_condition(word, rest), left_out=at in left_out))
        elif word in _TURNS and open_:
            met = None if word == "else" else _condition(word.removeprefix("el"), rest)
            open_[-1].turn(met, at in left_out)
        elif word == "endif" and open_:
            open_.pop()
        else:
            continue
        if len(open_) > _DEEPEST:
            continue
        signed = [(text, sign) for chain in open_ for text, sign in ([chain.met] if chain.met else [])]
        signed += [(text, not sign) for chain in open_ for text, sign in chain.unmet]
        lines.append(line)
        holds.append(frozenset(text for text, sign in signed if sign))
        fails.append(frozenset(text for text, sign in signed if not sign))
        out.append(any(chain.left_out for chain in open_))
    return Branches(tuple(lines), tuple(holds), tuple(fails), tuple(out))


def _condition(word: str, rest: str) -> tuple[str, bool]:
    """A condition in one way of writing it, and whether it must hold."""
    text = "".join(rest.split())
    if word != "if":
        return f"defined({text})", word == "ifdef"
    text = _DEFINED.sub(r"defined(\1)", text)
    while text.startswith("(") and text.endswith(")") and text.count("(") == 1:
        text = text[1:-1]
    if negated := _NEGATED.fullmatch(text):
        return negated[1].strip("()") if negated[1].startswith("(") else negated[1], False
    return text, True
