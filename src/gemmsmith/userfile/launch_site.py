"""A kernel's launch in a .cu file: constants in scope, the kernel's own text, and the launch in host code.

``entry<32><<<grid, block, smem>>>(dA, dB, dC, m, n, k)`` is found with the ``dim3`` and integer variables of the
function around it, and evaluated for any problem: the call's arguments tell what m, n and k mean.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gemmsmith.errors import UsageError
from gemmsmith.kernel.expressions import Names, c_as_python, evaluate_c, split
from gemmsmith.kernel.signature import Signature, strip_comments

_TYPE = re.compile(
    r"(?P<before>(?:\b(?:static|const|constexpr|inline|__device__|__constant__)\s+)*)"
    r"\b(?:(?:unsigned|signed|long|short|int|uint|auto|size_t|u?int\d+_t)\s+)+(?P<after>(?:const(?:expr)?\s+)?)(?=\w)"
)
_DIM3 = re.compile(r"\b(?:dim3|auto)\s+(?=\w)")
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+(\S.*)$", re.M)
_SCOPE = re.compile(r'(?:\bnamespace\b[\w\s:]*|\bextern\s*"[^"]*"\s*)$')
_BLOCK = re.compile(r"(?:^|[;{})\]]|\b(?:else|do|try|const|noexcept))\s*$")


def plain_code(code: str) -> str:
    """The source without comments, preprocessor lines and contents of string literals."""
    text = re.sub(r"^[ \t]*#(?:\\\n|[^\n])*", "", strip_comments(code).replace("\r\n", "\n"), flags=re.M)
    return re.sub(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', '""', text)


def macros(code: str) -> dict[str, str]:
    """The object-like macros of a source; the first definition of each."""
    text = re.sub(r"\\\r?\n", " ", strip_comments(code))
    return {name: value.strip() for name, value in reversed(_MACRO.findall(text))}


def _closing(text: str, opening: int) -> int:
    """The position of the bracket that closes the one at ``opening``; the end of the text if there is none."""
    depth = 0
    for at in range(opening, len(text)):
        depth += (text[at] in "([{") - (text[at] in ")]}")
        if depth == 0:
            return at
    return len(text)


def _statement(text: str, start: int) -> str:
    """The text from ``start`` to the semicolon, or to the end of the enclosing brackets."""
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] in "([{") - (text[at] in ")]}")
        if depth < 0 or (depth == 0 and text[at] == ";"):
            return text[start:at]
    return text[start:]


def integers(text: str, *, only_const: bool) -> dict[str, str]:
    """Initialisers of the integer variables declared in ``text``; the last one of each name."""
    found = {}
    for match in _TYPE.finditer(text):
        if only_const and "const" not in match["before"] + match["after"]:
            continue
        for item in split(_statement(text, match.end())):
            if declarator := re.fullmatch(r"(\w+)\s*(?:=\s*([^={].*)|(?:=\s*)?\{(.*)\})", item, re.S):
                found[declarator[1]] = declarator[2] or declarator[3] or "0"
    return found


def file_scope(plain: str) -> str:
    """``plain`` without the bodies of functions and classes."""
    out, at = "", 0
    while (opening := plain.find("{", at)) >= 0:
        out += plain[at:opening]
        if _SCOPE.search(out):
            at = opening + 1
        elif re.search(r"[=\w]\s*$", out) and not re.search(
            r"\b(?:struct|class|enum|union)\b[^;]*$|\b(?:const|noexcept)\s*$", out
        ):
            at = _closing(plain, opening) + 1
            out += plain[opening:at]  # an initialiser
        else:
            at = _closing(plain, opening) + 1
            out += ";"
    return out + plain[at:]


@dataclass(frozen=True)
class KernelText:
    """One function of a file: its template parameters and attributes (``head``), and its ``body``."""

    head: str
    body: str


def function_text(plain: str, name: str, mark: str) -> KernelText:
    """The definition of ``name`` whose head has ``mark`` (``__global__``); empty if there is none."""
    for match in re.finditer(rf"\b{re.escape(name)}\s*\(", plain):
        end = _closing(plain, match.end() - 1)
        start = max(plain.rfind(char, 0, match.start()) for char in ";{}") + 1
        if mark in plain[start : match.start()] and plain[end + 1 :].lstrip().startswith("{"):
            opening = plain.index("{", end)
            return KernelText(plain[start : end + 1], plain[opening + 1 : _closing(plain, opening)])
    return KernelText("", "")


def template_defaults(head: str) -> dict[str, str]:
    """Default values of the template parameters in a function's head."""
    match = re.search(r"\btemplate\s*<(.*)>\s*(?:static\s+|inline\s+)*__global__", head, re.S)
    pairs = (item.partition("=") for item in split(match[1] if match else ""))
    return {left.split()[-1]: value.strip() for left, _, value in pairs if value and left.split()}


@dataclass(frozen=True)
class LaunchSite:
    """A launch in host code: the texts between ``<<<`` and ``>>>``, and the variables that they use."""

    configuration: tuple[str, ...]
    template: tuple[str, ...]
    arguments: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    dims: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    forwarded: frozenset[str] = frozenset()

    def names(
        self, signature: Signature, sizes: Mapping[str, int], known: Mapping[str, int], texts: Mapping[str, str]
    ) -> Names:
        """Values of names in the host code around the launch, for a problem of ``sizes`` (M, N, K)."""
        bound: dict[str, frozenset[int]] = {}
        usual = {key: value for role, value in sizes.items() for key in (role, role.lower())}
        for argument, text in zip(signature.arguments, self.arguments, strict=False):
            host = c_as_python(text)
            if argument.role in sizes:
                usual[argument.name] = sizes[argument.role]
                if re.fullmatch(r"[A-Za-z_]\w*", host):
                    bound[host] = bound.get(host, frozenset()) | {sizes[argument.role]}
        members = {
            f"{name}__dot_{axis}": parts[i] if i < len(parts) else "1"
            for name, parts in self.dims.items() for i, axis in enumerate("xyz")
        }  # fmt: skip
        return Names(known, {**texts, **self.variables, **members}, bound, usual)

    def extent(self, index: int, names: Names) -> tuple[int, int, int]:
        """The grid (0) or block (1); raises ``UsageError`` where it cannot be evaluated."""
        if index >= len(self.configuration):
            raise UsageError("the launch has no such part")
        text = self.configuration[index]
        for _ in range(4):
            match = re.fullmatch(r"(?:dim3\s*)?[({](.*)[)}]", text, re.S) if text.startswith(("dim3", "{")) else None
            parts = split(match[1]) if match else list(self.dims.get(text, (text,)))
            if match or parts[0] not in self.dims:
                break
            text = parts[0]
        values = [evaluate_c(part, names) for part in parts[:3]]
        values += [1] * (3 - len(values))
        if min(values) < 1:
            raise UsageError("a launch of nothing")
        return values[0], values[1], values[2]


def launch_sites(plain: str, entry: str) -> list[LaunchSite]:
    """The file's own launches of ``entry``."""
    found = []
    for match in re.finditer(rf"\b{re.escape(entry)}\s*(?:<(?!<)([^;{{}}]*?)>)?\s*<<<(?P<how>[^;]*?)>>>\s*\(", plain):
        head, visible, whole = _around(plain, match.start())
        dims = _dims(visible)
        variables = integers(visible, only_const=False)
        for name in {*dims, *variables}:
            if re.search(rf"(?:[;{{}})]|\belse)\s*{name}\s*(?:[-+*/%]|<<|>>)?=(?!=)|\b{name}\s*(?:\+\+|--)", whole):
                dims.pop(name, None)
                variables.pop(name, None)  # its value changes before the launch
        template = re.search(r"\btemplate\s*<(.*)>", head, re.S)
        forwarded = {
            re.split(r"[\s.]+", item.partition("=")[0].strip())[-1] for item in split(template[1] if template else "")
        }
        call = plain[match.end() : _closing(plain, match.end() - 1)]
        found.append(LaunchSite(tuple(split(match["how"])), tuple(split(match[1] or "")), tuple(split(call)),
                                variables, dims, frozenset(forwarded)))  # fmt: skip
    return found


def _around(plain: str, position: int) -> tuple[str, str, str]:
    """The head of the function around ``position``, the part of its body in scope there, and the body up to there."""
    opened: list[int] = []
    for at in range(position):
        if plain[at] == "{":
            opened.append(at)
        elif plain[at] == "}" and opened:
            opened.pop()
    bodies = [at for at in opened if re.search(r"\)\s*(?:const|noexcept)?\s*$", plain[:at][-200:])]
    if not bodies:
        return "", "", ""
    head = re.split(r"[;{}]", plain[: bodies[0]])[-1]
    visible, at = "", bodies[0] + 1
    while at < position:
        if plain[at] == "{" and at not in opened and _BLOCK.search(visible[-40:]):
            at = _closing(plain, at)
            visible += ";"
        else:
            visible += plain[at]
        at += 1
    return head, visible, plain[bodies[0] : position]


def _dims(visible: str) -> dict[str, tuple[str, ...]]:
    """The dim3 variables declared in ``visible``, with the texts of their components."""
    found: dict[str, tuple[str, ...]] = {}
    for match in _DIM3.finditer(visible):
        for item in split(_statement(visible, match.end())):
            one = re.fullmatch(r"(\w+)\s*(?:=\s*)?(dim3\s*)?[({](.*)[)}]", item, re.S)
            if one is not None and (match[0].startswith("dim3") or one[2]):
                found[one[1]] = tuple(split(one[3]))
            elif match[0].startswith("dim3") and (copy := re.fullmatch(r"(\w+)\s*=\s*(.+)", item, re.S)):
                found[copy[1]] = (copy[2],)
            elif match[0].startswith("dim3") and re.fullmatch(r"\w+", item):
                set_later = dict(re.findall(rf"\b{item}\s*\.\s*([xyz])\s*=\s*([^;=]+);", visible))
                found[item] = tuple(set_later.get(axis, "1") for axis in "xyz")
    return found


def x_walks_rows(body: str, signature: Signature) -> bool:
    """Whether blockIdx.x counts rows of C, judged by what its variable is compared with, named, or multiplied by."""
    named = {arg.role: arg.name for arg in signature.arguments}
    rows, cols = (f"(?:{role}|{named.get(role, role)})" for role in "MN")
    direct = re.findall(r"(\w+)\s*=\s*[^;=]*blockIdx\.x", body)
    further = [n for d in direct for n in re.findall(rf"(\w+)\s*=(?!=)[^;=]*\b{d}\b", body) if n not in direct]
    for name in direct + further:
        for size, answer in ((rows, True), (cols, False)):
            if re.search(rf"\b{name}\s*(?:<|>=)\s*{size}\b|\b{size}\s*(?:>|<=)\s*{name}\b", body):
                return answer
        if "row" in name.lower() or "col" in name.lower():
            return "row" in name.lower()
        if re.search(rf"\b(?:{named['A']}|{named['C']})\s*\[\s*\(?{name}\s*\*", body):
            return True
    return False


def values_of(defines: tuple[tuple[str, str], ...]) -> dict[str, int]:
    return {name: int(text) for name, text in defines if re.fullmatch(r"\d+", text)}


def chosen(
    sites: list[LaunchSite], parameters: list[tuple[str, str, bool]], given: Mapping[str, int], texts: Mapping[str, str]
) -> tuple[LaunchSite | None, dict[str, str]]:
    """The first launch site that agrees with the given values, and the template arguments that it passes."""
    for site in sites:
        found, agrees, known = {}, True, dict(given)
        for (kind, name, _), text in zip(parameters, site.template, strict=False):
            if name in given:
                try:
                    agrees &= text.isidentifier() or evaluate_c(text, Names(given, texts)) == given[name]
                except UsageError:
                    agrees = False
                known[text] = given[name]
            elif text not in site.forwarded:
                try:
                    if kind in ("typename", "class"):
                        raise UsageError(text)
                    found[name] = str(evaluate_c(text, Names(given, {**texts, **site.variables})))
                except UsageError:
                    found[name] = text  # a type, or a value only the compiler knows
        if agrees:
            own = {name: text for name, text in site.variables.items() if name not in known}
            own |= {text: str(value) for text, value in known.items() if text.isidentifier()}
            return replace(site, variables=own), found
    return None, {}
