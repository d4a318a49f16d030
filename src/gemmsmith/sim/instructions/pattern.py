"""Match an instruction's modifiers against a pattern such as ``ld.order?.space?.hint*.vec?.type``.

A pattern is an opcode and words. A word that ``where`` lists stands for one of several modifiers, and the match says
which; any other word stands for itself. ``?`` makes a word optional, ``*`` allows any number, ``!`` demands it. Words
with none of these must occur in the order of the pattern; the others may stand anywhere, as ptxas takes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

Modifiers = Mapping[str, str]


@dataclass(frozen=True)
class _Word:
    name: str
    choices: frozenset[str]
    prefixes: tuple[str, ...]

    def takes(self, modifier: str) -> bool:
        return modifier in self.choices or modifier.startswith(self.prefixes)


@dataclass(frozen=True, eq=False)
class Pattern:
    """A pattern with the choices of its words, separated by blanks. A choice ``L2::*`` is everything that begins so."""

    text: str
    where: Mapping[str, str]

    @property
    def opcode(self) -> str:
        return self.text.partition(".")[0]

    @cached_property
    def _words(self) -> tuple[tuple[_Word, ...], ...]:
        """(required in this order, optional, repeated, required anywhere)"""
        sorted_words: dict[str, list[_Word]] = {"": [], "?": [], "*": [], "!": []}
        used = set()
        for part in self.text.split(".")[1:]:
            name = part.rstrip("?*!")
            used.add(name)
            choices = self.where.get(name, name).split()
            plain = frozenset(c for c in choices if not c.endswith("*"))
            prefixes = tuple(c[:-1] for c in choices if c.endswith("*"))
            sorted_words[part[len(name) :]].append(_Word(name, plain, prefixes))
        if unused := set(self.where) - used:
            raise ValueError(f"pattern {self.text!r} has no word {', '.join(sorted(unused))}")
        return tuple(tuple(words) for words in sorted_words.values())

    def match(self, name: str) -> Modifiers | None:
        """The modifiers of an instruction's full name, by the words they match; None if the pattern does not fit."""
        required, optional, repeated, anywhere = self._words
        found: dict[str, str] = {}
        at = 0
        for modifier in name.split(".")[1:]:
            if at < len(required) and required[at].takes(modifier):
                found[required[at].name] = modifier
                at += 1
                continue
            word = next((w for w in (*anywhere, *optional) if w.name not in found and w.takes(modifier)), None)
            if word is None:
                if not any(w.takes(modifier) for w in repeated):
                    return None
            else:
                found[word.name] = modifier
        return found if at == len(required) and all(w.name in found for w in anywhere) else None
