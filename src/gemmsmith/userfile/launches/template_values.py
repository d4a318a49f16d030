"""Template arguments of a launch as the compiler takes them outside the host code."""

from __future__ import annotations

import re

from gemmsmith.userfile.host.host_frame import Frame
from gemmsmith.userfile.host.host_values import HostScope
from gemmsmith.userfile.host.values import UnknownValueError, evaluate_int
from gemmsmith.userfile.launches.launch_text import launched
from gemmsmith.userfile.text.parts import TemplateParameter

_INTEGER = re.compile(r"(?:unsigned|signed|long|short|int|char|bool|size_t|uint|auto|std::size_t|u?int\d+_t|\s)+")

# The value of a lambda's parameter, as dispatchers pass it: ``tag.value``, ``decltype(tag)::value``.
_OF_A_LAMBDA = re.compile(r"\b\w+\s*\.\s*value\b|\bdecltype\s*\(")


def template_value(parameter: TemplateParameter, text: str, scope: HostScope) -> str:
    """A template argument as the compiler takes it outside the host code; empty if it is not known."""
    if parameter.kind in ("typename", "template"):
        kind = closed_type(scope.type_of(text), scope)
        return "" if is_open(kind, scope.frame) or is_placeholder(kind, scope) else qualified(kind, scope)
    if _INTEGER.fullmatch(parameter.kind):
        try:
            value = evaluate_int(text, scope)
            return ("true" if value else "false") if parameter.kind == "bool" else str(value)
        except UnknownValueError:
            return "" if is_undecided(text, scope.frame) else text
    text = _enumerator(text, scope)
    return "" if is_open(text, scope.frame) else qualified(text, scope)


def closed_type(kind: str, scope: HostScope) -> str:
    """``kind`` with the values of the host function's own names: ``Tile<BM, T>`` of a launcher called with 64 and float
    is ``Tile<64, float>``. What is not known stays as it is written."""
    name, given = launched(kind)
    if not given or not is_open(kind, scope.frame):
        return kind
    return f"{name}<{', '.join(_closed_argument(each, scope) for each in given)}>"


def _closed_argument(text: str, scope: HostScope) -> str:
    if not is_open(text, scope.frame):
        return text
    try:
        return str(evaluate_int(text, scope))
    except (UnknownValueError, RecursionError):
        return closed_type(scope.type_of(text), scope)


def is_placeholder(kind: str, scope: HostScope) -> bool:
    """Whether a macro of a library declares ``kind``, as AT_DISPATCH_FLOATING_TYPES does ``scalar_t``."""
    if re.fullmatch(r"scalar_t|[A-Z][A-Z_0-9]*|DType|Dtype", kind) is None:
        return False
    return not any(kind in names for s in scope.frame.sources for names in (s.aliases, s.qualified, s.macros))


def _enumerator(text: str, scope: HostScope) -> str:
    """The enumerator that a name stands for."""
    for _ in range(4):
        variable = scope.frame.locals.variables.get(text)
        if variable is not None and variable.value:
            text = variable.value
            continue
        try:
            passed = scope.passed_for(text)
        except UnknownValueError:
            break
        if passed is None:
            break
        text, scope = passed
    return text


def is_open(text: str, frame: Frame) -> bool:
    """Whether ``text`` uses a template parameter or a variable of the host function."""
    names = set(re.findall(r"[A-Za-z_]\w*", text))
    if frame.function is None:
        return False
    own = {p.name for p in frame.function.template or ()} | {p.name for p in frame.function.parameters}
    return bool(names & (own | frame.locals.variables.keys()))


def is_undecided(text: str, frame: Frame) -> bool:
    """Whether the value of ``text`` is settled only when the host code runs, or where it is compiled."""
    return is_open(text, frame) or _OF_A_LAMBDA.search(text) is not None


def qualified(text: str, scope: HostScope) -> str:
    """``text`` with the namespaces of the types of the user's own: ``v2::Tile`` is ``mine::v2::Tile``."""

    def spelled(match: re.Match[str]) -> str:
        parts = re.sub(r"\s", "", match.group()).split("::")
        for count in range(len(parts), 0, -1):  # of Order::Row the type is Order
            wholes = (source.qualified.get(parts[count - 1], "") for source in scope.frame.sources)
            whole = next((w for w in wholes if f"::{w}".endswith("::" + "::".join(parts[:count]))), "")
            if whole:
                return "::".join((whole, *parts[count:]))
        return match.group()

    return re.sub(r"(?<![\w:])[A-Za-z_]\w*(?:\s*::\s*\w+)*", spelled, text)
