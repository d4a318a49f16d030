"""Output for a terminal or pipe that is not UTF-8: the nearest ASCII, never a traceback."""

from __future__ import annotations

import codecs
import sys
import unicodedata
from typing import TextIO

_HANDLER = "gemmsmith-ascii"
# One character for one where there is one, so that columns stay aligned.
_NEAREST = {
    "×": "x", "·": "*", "µ": "u", "μ": "u", "−": "-", "–": "-", "—": "-", "…": "...", "→": "->", "←": "<-", "⇒": "=>",
    "↑": "^", "↓": "v", "─": "-", "═": "=", "│": "|", "║": "|", "┃": "|", "━": "-", "█": "#", "▏": "|", "▎": "|",
    "▍": "|", "▌": "#", "▋": "#", "▊": "#", "▉": "#", "░": ".", "▒": ":", "▓": "#", "◀": "<", "▶": ">", "►": ">",
    "•": "*", "●": "*", "○": "o", "✓": "+", "✔": "+", "✗": "x", "✘": "x", "≤": "<=", "≥": ">=", "≠": "!=", "≈": "~",
    "±": "+/-", "°": " deg ", "§": "section ", "‖": "||", "ρ": "rho", "α": "alpha", "β": "beta", "π": "pi", "Σ": "sum",
    "Δ": "delta", "ε": "eps", "▸": ">", "◂": "<", "⋯": "...",
    "√": "sqrt", "∞": "inf", "∈": "in", "⌈": "ceil(", "⌉": ")", "⌊": "floor(", "⌋": ")", "⟨": "<", "⟩": ">", "‘": "'",
    "’": "'", "“": '"', "”": '"', "«": '"', "»": '"', "\N{NO-BREAK SPACE}": " ", "\N{THIN SPACE}": " ",
    "\N{NARROW NO-BREAK SPACE}": " ", "Ĉ": "C",
}  # fmt: skip
_CORNERS = "┌┐└┘├┤┬┴┼╭╮╰╯╔╗╚╝╠╣╦╩╬┏┓┗┛┣┫┳┻╋╷╵╶╴"
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ⁿ", "0123456789-+n")
_SUPERSCRIPT = "⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺ⁿ"


def to_ascii(text: str) -> str:
    """``text`` in ASCII: 4096³ is 4096^3, 2⁻²⁴ is 2^-24, 3 µs is 3 us."""
    if text.isascii():
        return text
    result: list[str] = []
    raised = False
    for char in text:
        if char in _SUPERSCRIPT:
            result.append(("" if raised else "^") + char.translate(_SUPERSCRIPTS))
        else:
            result.append(_one(char))
        raised = char in _SUPERSCRIPT
    return "".join(result)


def _one(char: str) -> str:
    if char.isascii():
        return char
    if char in _NEAREST:
        return _NEAREST[char]
    if char in _CORNERS:
        return "+"
    if "\ud800" <= char <= "\udfff":  # a byte of a file name that is not UTF-8
        return f"\\x{ord(char) & 0xFF:02x}"
    plain = unicodedata.normalize("NFKD", char).encode("ascii", "ignore").decode()
    return plain or "?"


def _encode_nearest(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    return to_ascii(error.object[error.start : error.end]), error.end


def is_unicode(stream: TextIO) -> bool:
    """Whether a stream takes every character."""
    encoding = getattr(stream, "encoding", None) or "utf-8"
    try:
        return codecs.lookup(encoding).name.startswith("utf")
    except LookupError:
        return False


def prepare_streams() -> None:
    """Make stdout and stderr take any text: a stream that is not UTF-8 gets ASCII."""
    codecs.register_error(_HANDLER, _encode_nearest)
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is None:
            continue
        if is_unicode(stream):
            reconfigure(errors=_HANDLER)
        else:
            reconfigure(encoding="ascii", errors=_HANDLER)
