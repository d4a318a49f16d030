"""A CUDA source as the reader needs it: comments, literals and directives blanked, telling macros expanded.

All steps take time linear in the text. Lines keep their numbers.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from gemmsmith.userfile.text.conditional_branches import NO_BRANCHES, Branches, branches
from gemmsmith.userfile.text.conditions import condition_value
from gemmsmith.userfile.text.tokens import plain_lines

_LITERAL = re.compile(
    r"(?P<comment>(?:(?://[^\n]*+(?:(?<=\\)\n[^\n]*+)*+|/\*.*?(?:\*/|\Z))\s*+)++)"
    r'|\b(?:u8|[uUL])?R"(?P<mark>[^\s()\\"]{0,16})\(.*?(?:\)(?P=mark)"|\Z)'
    r'|"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"?'
    r"|(?<![0-9a-fA-FxX])'[^'\\\n]*+(?:\\.[^'\\\n]*+)*+'?",
    re.S,
)
_DIRECTIVE = re.compile(r"^[ \t]*+#[ \t]*+(\w*+)([^\n]*+(?:(?<=\\)\n[^\n]*+)*+)", re.M)
_DEFINE = re.compile(r"\s*(\w+)(\(([^()]*)\))?(.*)", re.S)
_INCLUDE = re.compile(r'\s*(?:"([^"\n]+)"|<([^>\n]+)>)')


@dataclass(frozen=True)
class Macro:
    """A ``#define``. ``parameters`` is None for an object-like macro."""

    body: str
    parameters: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Preprocessed:
    """``code`` has no comments, directives and literals. ``quoted`` and ``angled`` are the includes in order."""

    code: str
    macros: Mapping[str, Macro] = field(default_factory=dict)
    quoted: tuple[str, ...] = ()
    angled: tuple[str, ...] = ()
    branches: Branches = NO_BRANCHES


@dataclass(frozen=True)
class Directive:
    """A preprocessor directive: ``word`` is what follows the #, ``rest`` what follows the word."""

    line: int
    word: str
    rest: str


def directives(text: str) -> tuple[Directive, ...]:
    """The directives of a file in order, without comments."""
    plain, code = _blanked(plain_lines(text))
    found, line, last = [], 1, 0
    for match in _DIRECTIVE.finditer(code):
        line, last = line + code.count("\n", last, match.start()), match.start()
        found.append(Directive(line, match[1], plain[match.start(2) : match.end(2)].replace("\\\n", " ")))
    return tuple(found)


def preprocess(text: str) -> Preprocessed:
    """``text`` without comments, literals and directives. Both sides of an ``#if`` stay where each is balanced."""
    plain, code = _blanked(plain_lines(text))
    found = [(m.start(), m.end(), m[1], plain[m.start(2) : m.end(2)]) for m in _DIRECTIVE.finditer(code)]
    dropped, inactive, left_out = _inactive(code, found)
    macros: dict[str, Macro] = {}
    later: dict[str, Macro] = {}
    quoted: list[str] = []
    angled: list[str] = []
    for at, (_, _, word, rest) in enumerate(found):
        if word == "define" and (named := _DEFINE.match(rest)):
            (later if at in inactive else macros).setdefault(named[1], _macro(named))
        elif word == "include" and at not in inactive and (name := _INCLUDE.match(rest)):
            (quoted if name[1] else angled).append(name[1] or name[2])
    blanked = _without(code, [*dropped, *((start, end) for start, end, _, _ in found)])
    if re.search(r"<<\s+<", blanked):  # as some formatters write launches
        blanked = re.sub(r">>(\s+)>(?=\s*\()", r">>>\1", re.sub(r"<<(\s+)<", r"<<<\1", blanked))
    compiled = branches(_with_lines(code, found), left_out)
    return Preprocessed(blanked, {**later, **macros}, tuple(quoted), tuple(angled), compiled)


def _with_lines(code: str, found: list[tuple[int, int, str, str]]) -> Iterator[tuple[int, str, str]]:
    """Directives with the lines that they are on, from 1."""
    line, last = 1, 0
    for start, _, word, rest in found:
        line, last = line + code.count("\n", last, start), start
        yield line, word, rest


def _blanked(text: str) -> tuple[str, str]:
    """``text`` without comments, and the same with literals hollowed out. Both are ASCII and equally long."""
    text = text.encode("ascii", "replace").decode("ascii")
    plain, code, last = [], [], 0
    for match in _LITERAL.finditer(text):
        start, end = match.span()
        if start > last:
            between = text[last:start]
            plain.append(between)
            code.append(between)
        last = end
        token = text[start:end]
        if match["comment"] is not None:
            kept = hollow = _blank(token)
        else:
            kept, hollow = token, _hollow(token)
        plain.append(kept)
        code.append(hollow)
    return "".join([*plain, text[last:]]), "".join([*code, text[last:]])


def _hollow(token: str) -> str:
    """A literal of the same length without contents; a character becomes its code, on which a template or a condition
    may depend, and one that is not understood 0."""
    if len(token) < 3 or token == '"C"':
        return token
    if token[0] == "'":
        code = str(ord(token[1])) if len(token) == 3 and token[2] == "'" else "0"
        return code + " " * (len(token) - len(code))
    lines = token[1:-1].split("\n")
    return '"' + "\n".join(" " * len(line) for line in lines) + '"'


def _blank(text: str) -> str:
    """A blank, or the line ends of ``text``."""
    return "\n" * text.count("\n") or " "


def _without(code: str, spans: list[tuple[int, int]]) -> str:
    """``code`` with these spans blanked."""
    pieces, last = [], 0
    for start, end in sorted(spans):
        if end > last:
            first = max(start, last)
            pieces += [code[last:first], _blank(code[first:end])]
            last = end
    return "".join([*pieces, code[last:]])


def _macro(named: re.Match[str]) -> Macro:
    parameters = None
    if named[2] is not None:
        parameters = tuple(part.strip() for part in named[3].split(",") if part.strip())
    return Macro(" ".join(named[4].replace("\\\n", " ").split()), parameters)


# --- #if


@dataclass
class _Group:
    """One ``#if`` … ``#endif``: its branches as (condition, index of the directive, start of the code)."""

    branches: list[tuple[bool, int, int]] = field(default_factory=list)


def _inactive(code: str, found: list[tuple[int, int, str, str]]) -> tuple[list[tuple[int, int]], set[int], set[int]]:
    """Spans of code to drop, the directives in branches that are not taken, and those that open such branches."""
    dropped: list[tuple[int, int]] = []
    skipped: list[tuple[int, int]] = []
    opened: list[_Group] = []
    left_out: set[int] = set()
    defined: dict[str, str] = {}
    braces = _Braces(code)
    all_known = True  # no header of the project was included so far
    for at, (_, end, word, rest) in enumerate(found):
        all_known &= not (word == "include" and rest.lstrip().startswith('"'))
        if word == "define" and (named := _DEFINE.match(rest)) and all(g.branches[-1][0] for g in opened):
            defined.setdefault(named[1], "" if named[2] is not None else named[4].strip())
        if word in ("if", "ifdef", "ifndef"):
            opened.append(_Group([(_condition(word, rest, defined, all_known), at, end)]))
        elif word in ("elif", "else", "elifdef", "elifndef") and opened:
            taken = any(branch[0] for branch in opened[-1].branches)
            holds = not taken and (word == "else" or _condition(word.removeprefix("el"), rest, defined, all_known))
            opened[-1].branches.append((holds, at, end))
        elif word == "endif" and opened:
            branches = opened.pop().branches
            edges = [*(branch[1] for branch in branches), at]
            spans = [(branch[2], found[edges[i + 1]][0]) for i, branch in enumerate(branches)]
            balanced = all(braces.balanced(*span) for span in spans)
            for i, (holds, directive, _) in enumerate(branches):
                if not holds:
                    left_out.add(directive)
                    skipped.append((directive + 1, edges[i + 1]))
                    if not balanced or found[directive][3].strip() in ("0", "false"):
                        dropped.append(spans[i])
    return dropped, _union(skipped), left_out


def _union(ranges: list[tuple[int, int]]) -> set[int]:
    found: set[int] = set()
    last = 0
    for start, end in sorted(ranges):
        found.update(range(max(start, last), end))
        last = max(last, end)
    return found


class _Braces:
    """The braces of a text, and how deep each leaves it."""

    def __init__(self, code: str) -> None:
        self.at: list[int] = []
        self.depth = [0]
        for match in re.finditer(r"[{}]", code):
            self.at.append(match.start())
            self.depth.append(self.depth[-1] + (1 if match[0] == "{" else -1))

    def balanced(self, start: int, end: int) -> bool:
        first, last = bisect_left(self.at, start), bisect_left(self.at, end)
        return self.depth[first] == self.depth[last] and (first == last or self.depth[first + 1] > self.depth[first])


def _condition(word: str, rest: str, defined: Mapping[str, str], all_known: bool) -> bool:
    """Whether a condition holds, by what the file defines; an architecture is taken to be new enough. A name that
    nothing defines is 0 if ``all_known``, else the condition is taken to hold."""
    name = rest.split("//", maxsplit=1)[0].strip()
    if word == "ifdef":
        return name in defined or name.startswith("__CUDA")
    if word == "ifndef":
        return name not in defined
    if name in ("0", "false"):
        return False
    if match := re.fullmatch(r"(!?)\s*defined\s*\(?\s*(\w+)\s*\)?", name):
        return (match[2] in defined or match[2].startswith("__CUDA")) != bool(match[1])
    return condition_value(name, defined, all_known=all_known) is not False


# --- macros

# What makes a macro worth expanding: it hides a kernel, a qualifier, a launch or an index.
_MARK = re.compile(
    r"__global__|__device__|__host__|__launch_bounds__|<<<|\bcu(?:da)?Launch\w+|\btemplate\b|threadIdx|blockIdx"
)
_QUALIFIER = re.compile(
    r"(?:(?:inline|static|constexpr|extern|__inline__|__forceinline__|__noinline__|__restrict__|__restrict|restrict"
    r"|__attribute__\s*\(\(.*\)\)|\[\[.*\]\])\s*)*"
)
_WORD = re.compile(r"\b[A-Za-z_]\w*\b")
_LEVELS = 8
_GROWTH = 4_000_000  # characters that expansion may add in all


def expand(code: str, telling: Mapping[str, Macro]) -> str:
    """``code`` with the ``telling`` macros expanded. One that comes back to itself is expanded once: the preprocessor
    leaves it as it is inside its own expansion."""
    macros, endless, budget = dict(telling), _endless(telling), len(code) + _GROWTH
    for _ in range(_LEVELS):
        names = [name for name in macros if name in code]
        if not names:
            break
        new = _expand_once(code, {name: macros[name] for name in names})
        if new == code or len(new) > budget:
            break
        for name in endless & set(_WORD.findall(code)):
            macros.pop(name, None)
        code = new
    return code


def _endless(macros: Mapping[str, Macro]) -> set[str]:
    """The macros that come back to themselves, or lead to one that does."""
    uses = {name: set(_WORD.findall(macro.body)) & macros.keys() for name, macro in macros.items()}
    users: dict[str, list[str]] = {name: [] for name in macros}
    for name, used in uses.items():
        for other in used:
            users[other].append(name)
    ends = [name for name, used in uses.items() if not used]
    while ends:
        end = ends.pop()
        for user in users[end]:
            uses[user].remove(end)
            if not uses[user]:
                ends.append(user)
    return {name for name, used in uses.items() if used}


def telling_macros(macros: Mapping[str, Macro]) -> dict[str, Macro]:
    """The macros that hide kernels, qualifiers, launches or indices, directly or through a macro that they use."""
    found = {
        name
        for name, macro in macros.items()
        if _MARK.search(macro.body) or (_QUALIFIER.fullmatch(macro.body) and name not in _KEPT)
    }
    for _ in range(_LEVELS):
        more = {n for n, m in macros.items() if n not in found and found & set(_WORD.findall(m.body))}
        if not more:
            break
        found |= more
    return {name: macros[name] for name in found if name not in _KEPT}


_KEPT = frozenset({"__global__", "__device__", "__host__", "__shared__", "__constant__", "__launch_bounds__"})


def _expand_once(code: str, macros: Mapping[str, Macro]) -> str:
    pattern = re.compile(r"\b(?:" + "|".join(map(re.escape, sorted(macros, key=len, reverse=True))) + r")\b")
    pieces, last = [], 0
    for match in pattern.finditer(code):
        if match.start() < last:
            continue
        macro = macros[match[0]]
        end, body = match.end(), macro.body
        if macro.parameters is not None:
            opening = _skip_blanks(code, end)
            if opening >= len(code) or code[opening] != "(":
                continue
            end = closing(code, opening) + 1
            body = filled(macro, arguments_of(code[opening + 1 : end - 1]))
        lines = code.count("\n", match.start(), end)
        pieces += [code[last : match.start()], body, "\n" * lines]
        last = end
    return "".join([*pieces, code[last:]])


def _skip_blanks(code: str, at: int) -> int:
    while at < len(code) and code[at].isspace():
        at += 1
    return at


def filled(macro: Macro, arguments: list[str]) -> str:
    """The macro's body with its parameters replaced; ``#`` and ``##`` as the preprocessor has them."""
    names = [name.removesuffix("...").strip() or "__VA_ARGS__" for name in macro.parameters or ()]
    if macro.parameters and macro.parameters[-1].endswith("...") and len(arguments) >= len(names):
        arguments = [*arguments[: len(names) - 1], ", ".join(arguments[len(names) - 1 :])]
    values = dict(zip(names, arguments, strict=False))
    body = re.sub(r"(?<!#)#\s*(\w+)", '""', macro.body)
    body = _WORD.sub(lambda m: " ".join(values.get(m[0], m[0]).split()), body)
    return re.sub(r"\s*##\s*", "", body)


_BRACKETS = re.compile(r"[()\[\]{}]")


def closing(code: str, opening: int) -> int:
    """The position of the bracket that closes the one at ``opening``; the end of the text if there is none."""
    depth = 0
    for match in _BRACKETS.finditer(code, opening):
        depth += 1 if match[0] in "([{" else -1
        if depth == 0:
            return match.start()
    return len(code)


def arguments_of(text: str) -> list[str]:
    """A macro call's arguments: split at commas outside parentheses and braces."""
    parts, depth, last = [], 0, 0
    for match in re.finditer(r"[()\[\]{},]", text):
        if match[0] == ",":
            if depth == 0:
                parts.append(text[last : match.start()].strip())
                last = match.end()
        else:
            depth += 1 if match[0] in "([{" else -1
    return [*parts, text[last:].strip()]
