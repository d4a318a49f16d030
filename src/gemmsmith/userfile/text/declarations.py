"""A CUDA text as declarations at namespace scope, found by brackets alone, so that unknown macros do not matter."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection
from dataclasses import dataclass, field

from gemmsmith.userfile.text.tokens import Text

_BRACKET = re.compile(r"[{}()\[\];]")
_SCOPE = re.compile(r'(?:\bnamespace\b\s*(?P<name>[\w\s:]*?)(?:\[\[.*?\]\]\s*)?|\bextern\s*"C"\s*)$')
_ATTRIBUTE = re.compile(
    r"\b(?:__launch_bounds__|__cluster_dims__|__block_size__|__maxnreg__|__align__|alignas|__attribute__|__declspec|"
    r"decltype|noexcept|explicit|requires|__nv_pure__|__builtin_align__)\s*$"
)
_TYPE = re.compile(
    r"^(?:[A-Z_]\w*\s+)*?(?:(?:typedef|static|extern|const|constexpr|inline|__device__|__constant__|__shared__)\s+)*"
    r"(struct|class|union|enum)\b(.*)",
    re.S,
)
_WORDS = re.compile(r"[A-Za-z_]\w*")
_CALLED = re.compile(r"(?:([A-Za-z_]\w*)\s*(?:<[^;{}()]*>)?\s*::\s*)?~?([A-Za-z_]\w*)\s*(?:<[^;{}()]*>\s*)?$")
_DECLARATOR = re.compile(r"([A-Za-z_]\w*)\s*(?=[=\[({,;]|$)")
_PARENTHESIS = re.compile(r"[()]")
_MOST_NAMES = 8  # of one function: macros before it have parentheses too
_LONGEST = 400  # characters looked at before a brace or a parenthesis


@dataclass(frozen=True)
class Declaration:
    """One declaration: ``[start, end)`` of the text, with the head before its braces.

    kind       function, type, alias, variable, using (namespace), instance (of a template), assertion, macro call
    names      what it declares; of a member function defined outside its class, the class
    namespace  the names of the namespaces around it; "" is an unnamed one
    opening    where its braces begin; -1: it has none
    """

    kind: str
    names: tuple[str, ...]
    start: int
    end: int
    head: str
    namespace: tuple[str, ...] = ()
    opening: int = -1


@dataclass
class _State:
    """Where the scan stands; ``#if`` saves it, and each further branch begins from what was saved."""

    scopes: list[str] = field(default_factory=list)
    brackets: int = 0
    braces: int = 0
    start: int = 0
    opening: int = -1

    def copy(self) -> _State:
        return _State([*self.scopes], self.brackets, self.braces, self.start, self.opening)


def declarations(text: Text, macros: Collection[str] = ()) -> list[Declaration]:
    """The declarations of a text. ``macros``: function-like macros whose call is a whole declaration."""
    return _Scan(text.bare, text, macros).all()


def members(text: Text, declaration: Declaration) -> list[Declaration]:
    """The members of a class."""
    last = text.bare.rfind("}", declaration.opening, declaration.end)
    return _Scan(text.bare, text, (), declaration.opening + 1, last).all()


class _Scan:
    def __init__(self, bare: str, text: Text, macros: Collection[str], first: int = 0, last: int | None = None) -> None:
        self.bare, self.macros = bare, macros
        self.first, self.last = first, len(bare) if last is None else last
        self.directives = [d for d in text.directives if self.first <= d.start < self.last and d.word]
        self.found: list[Declaration] = []
        self.state = _State(start=self.first)
        self.saved: list[_State] = []

    def all(self) -> list[Declaration]:
        at = self.first
        for each in self.directives:
            self._brackets(at, each.start)
            self._branch(each.word)
            at = max(at, each.end)
        self._brackets(at, self.last)
        self._end(self.last)
        return self.found

    def _branch(self, word: str) -> None:
        if word in ("if", "ifdef", "ifndef"):
            self.saved.append(self.state.copy())
        elif word.startswith("el") and self.saved:
            start = self.state.start if self.state.braces == 0 and self.state.brackets == 0 else self.saved[-1].start
            self.state = self.saved[-1].copy()
            if self.state.braces == 0 and self.state.brackets == 0:
                self.state.start = start
        elif word == "endif" and self.saved:
            self.saved.pop()

    def _brackets(self, first: int, last: int) -> None:
        bare = self.bare
        at = first
        while (match := _BRACKET.search(bare, at, last)) is not None:
            at, state = match.end(), self.state
            char = match.group()
            if char in "([":
                if state.braces == 0 and state.brackets == 0 and char == "(" and self._is_call(match.start()):
                    at = self._whole_call(match.start())
                    continue
                state.brackets += 1
            elif char in ")]":
                state.brackets = max(0, state.brackets - 1)
            elif char == "{":
                if state.braces == 0 and state.brackets == 0 and self._enter(match.start()):
                    continue
                if state.braces == 0 and state.brackets == 0 and state.opening < 0:
                    state.opening = match.start()
                state.braces += 1
            elif char == "}":
                self._close(match.end())
            elif state.braces == 0 and state.brackets == 0:
                self._end(match.end())

    def _enter(self, position: int) -> bool:
        """Whether the brace at ``position`` opens a namespace or ``extern "C"``, which is searched inside."""
        scope = _SCOPE.search(self.bare[max(self.state.start, position - _LONGEST) : position].rstrip())
        if scope is None:
            return False
        name = scope["name"]
        # `extern "C"` adds no name; None marks its brace.
        self.state.scopes.append("\0" if name is None else re.sub(r"\s|\binline\b", "", name))
        self.state.start = position + 1
        return True

    def _close(self, position: int) -> None:
        state = self.state
        if state.braces == 0 and state.brackets == 0:
            self._end(position - 1)
            if state.scopes:
                state.scopes.pop()
            state.start = position
            return
        state.braces = max(0, state.braces - 1)
        if state.braces == 0 and state.brackets == 0:
            head = plain_head(self.bare[state.start : state.opening])
            if is_function(head):
                self._end(position)

    def _is_call(self, position: int) -> bool:
        """Whether a parenthesis follows a macro whose call is a whole declaration, at the start of one."""
        if not self.macros or position - self.state.start > _LONGEST:
            return False
        return self.bare[self.state.start : position].strip() in self.macros

    def _whole_call(self, position: int) -> int:
        depth = 0
        for match in _PARENTHESIS.finditer(self.bare, position, self.last):
            depth += 1 if match.group() == "(" else -1
            if depth == 0:
                self._end(match.end(), "macro call")
                return match.end()
        return self.last

    def _end(self, position: int, kind: str = "") -> None:
        """The declaration that began at ``state.start`` ends here."""
        state = self.state
        whole = self.bare[state.start : position]
        stripped = whole.lstrip()
        start = state.start + len(whole) - len(stripped)
        if stripped.strip(" \t\n;"):
            end = start + len(stripped.rstrip())
            opening = state.opening
            head = self.bare[start : opening if opening >= 0 else end]
            namespace = tuple(part for scope in state.scopes if scope != "\0" for part in scope.split("::"))
            found, names = (kind, tuple(_WORDS.findall(head)[:1])) if kind else classified(head, self.bare[start:end])
            self.found.append(Declaration(found, names, start, end, head, namespace, opening))
        state.start, state.opening, state.braces, state.brackets = position, -1, 0, 0


def plain_head(head: str) -> str:
    """A head without ``template <...>`` and attributes in front."""
    rest = head.strip()
    while match := re.match(r"template\s*<", rest):
        rest = rest[_closing_angle(rest, match.end() - 1) :].lstrip()
    while match := re.match(r"\[\[.*?\]\]\s*", rest, re.S):
        rest = rest[match.end() :]
    return rest


def _closing_angle(text: str, opening: int) -> int:
    """Just past the angle bracket that closes the one at ``opening``."""
    depth = nested = 0
    for match in re.compile(r"[<>(){}]|->").finditer(text, opening):
        char = match.group()
        if char in "({":
            nested += 1
        elif char in ")}":
            nested -= 1
        elif char != "->" and nested == 0:
            depth += 1 if char == "<" else -1
            if depth == 0:
                return match.end()
    return len(text)


def is_function(head: str) -> bool:
    """Whether a plain head before a brace is a function's."""
    if "operator" in head:
        return "(" in head and not re.match(r"(?:struct|class|union|enum|typedef)\b", head)
    outside = _outside_parentheses(head)
    if "=" in outside:
        return False
    kind = _TYPE.match(head)
    return "()" in (_without_attributes(kind[2]) if kind else outside)


def _outside_parentheses(text: str) -> str:
    """``text`` with the contents of its parentheses left out."""
    parts, depth, last = [], 0, 0
    for match in _PARENTHESIS.finditer(text):
        if match.group() == "(":
            if depth == 0:
                parts.append(text[last : match.end()])
            depth += 1
        elif depth > 0:
            depth -= 1
            last = match.start()
    return "".join([*parts, text[last:] if depth == 0 else ""])


def _without_attributes(text: str) -> str:
    """What follows ``struct``, its attributes left out; macros with arguments before the name are attributes too."""
    text = _outside_parentheses(text)
    return re.sub(r"^\s*(?:[A-Za-z_]\w*\s*\(\)\s*|__\w+__\s+|\[\[.*?\]\]\s*)+(?=[A-Za-z_])", "", text, flags=re.S)


def classified(head: str, whole: str) -> tuple[str, tuple[str, ...]]:
    """Kind and names of a declaration."""
    rest = plain_head(head)
    if rest.startswith("using"):
        if re.match(r"using\s+namespace\b", rest):
            return "using", ()
        alias = re.match(r"using\s+(\w+)\s*(?:\[\[.*?\]\]\s*)?=", rest)
        return "alias", (alias[1],) if alias else tuple(_WORDS.findall(rest)[-1:])
    if rest.startswith("namespace"):
        return "alias", tuple(_WORDS.findall(rest)[1:2])
    if rest.startswith("static_assert"):
        return "assertion", ()
    if re.match(r"(?:extern\s+)?template\b(?!\s*<)", rest):
        return "instance", ()
    if rest.startswith("concept"):
        return "alias", tuple(_WORDS.findall(rest)[1:2])
    kind = _TYPE.match(rest)
    if kind and "()" not in _without_attributes(kind[2].split(":")[0] if "::" not in kind[2] else kind[2]):
        return "type", _type_names(kind, whole[len(head) :] if "{" in whole else "", kind[1])
    if rest.startswith("typedef"):
        return "alias", _typedef_names(rest)
    outside = _outside_parentheses(rest)
    before, _, after = rest.partition("(")
    if "operator" in rest:
        owner = re.search(r"(\w+)\s*(?:<[^;{}()]*>)?\s*::\s*operator\b", rest)
        return "function", (owner[1],) if owner else ("operator",)
    if "(" in rest and (after or before) and ("=" not in outside.partition("()")[0]):
        return _function_or_call(rest, whole)
    return "variable", tuple(_DECLARATOR.findall(_outside_braces(whole)))


def _function_or_call(rest: str, whole: str) -> tuple[str, tuple[str, ...]]:
    names: list[str] = []
    depth = 0
    for match in _PARENTHESIS.finditer(rest):
        if match.group() == ")":
            depth -= 1
            continue
        if len(names) == _MOST_NAMES:
            break
        if depth == 0 and not _ATTRIBUTE.search(rest, max(0, match.start() - 40), match.start()):
            called = _CALLED.search(rest, max(0, match.start() - 400), match.start())
            if called is not None:
                names += [called[1]] if called[1] else [called[2]]
        depth += 1
    is_variable = "{" not in whole and re.match(r"(?:static\s+|const\s+|inline\s+)*[\w:<>]+\s+\w+\s*\(\s*[\d\"]", rest)
    return ("variable" if is_variable else "function"), tuple(dict.fromkeys(names))


def _type_names(kind: re.Match[str], braces: str, keyword: str) -> tuple[str, ...]:
    """The type's name, what is declared after its braces, and an enumeration's values."""
    head = _without_attributes(kind[2]).split("{")[0]
    words = [w for w in _WORDS.findall(re.split(r"(?<!:):(?!:)|<", head)[0]) if w not in ("class", "struct", "final")]
    names = words[-1:]
    last = braces.rfind("}")
    names += _WORDS.findall(braces[last + 1 :]) if last >= 0 else []
    if keyword == "enum":
        names += re.findall(r"(?<![\w.])([A-Za-z_]\w*)\s*(?=[=,}])", braces[: last + 1])
    return tuple(dict.fromkeys(names))


def _typedef_names(rest: str) -> tuple[str, ...]:
    pointer = re.search(r"\(\s*\*\s*(\w+)\s*\)", rest)
    ends = re.findall(r"(\w+)\s*(?:\[[^\]]*\]\s*)*(?=[,;]|$)", _outside_parentheses(rest))
    return tuple(dict.fromkeys(([pointer[1]] if pointer else []) + ends))


def _outside_braces(text: str) -> str:
    return re.sub(r"\{[^{}]*\}", "{}", text.partition("{")[0] + ("{" if "{" in text else ""))


def line_starts(text: str) -> list[int]:
    """Offsets at which lines begin."""
    return [0, *(match.end() for match in re.finditer("\n", text))]


def line_of(starts: list[int], offset: int) -> int:
    """The line of an offset, counted from 1."""
    return bisect_right(starts, offset)
