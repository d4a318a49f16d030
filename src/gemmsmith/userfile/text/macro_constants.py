"""Constants that a macro declares around a launch, as dispatch macros do:

#define BOOL_SWITCH(COND, NAME, ...) [&] { if (COND) { constexpr bool NAME = true; return __VA_ARGS__(); } …
BOOL_SWITCH(n % 64 == 0, Even, [&] { kernel<Even><<<grid, block>>>(…); });
"""

from __future__ import annotations

import re

from gemmsmith.userfile.host.host_frame import Frame
from gemmsmith.userfile.text.preprocessor import Macro, arguments_of, closing

_DECLARED = r"\b(?:constexpr|const)\b[^;=(){{}}]*\b{}\s*=\s*([^;,]+)[;,]"


def macro_constant(name: str, frame: Frame) -> str:
    """The value as text of a constant that a macro declares; the last of several, which mostly is the general case."""
    if frame.function is None:
        return ""
    for source in frame.sources:
        for called, macro in source.macros.items():
            if macro.parameters is None or called not in frame.function.body:
                continue
            for spelled in [name, *_passed_as(name, called, macro, frame.function.body)]:
                if values := re.findall(_DECLARED.format(re.escape(spelled)), macro.body):
                    return str(values[-1]).strip()
    return ""


def _passed_as(name: str, called: str, macro: Macro, body: str) -> list[str]:
    """The macro's parameters that calls in ``body`` pass ``name`` for."""
    found = []
    for match in re.finditer(rf"\b{re.escape(called)}\s*\(", body):
        given = arguments_of(body[match.end() : closing(body, match.end() - 1)])
        found += [p for p, text in zip(macro.parameters or (), given, strict=False) if text == name]
    return found
