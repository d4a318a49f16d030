"""A page in fewer bytes: attributes without quotes where HTML does not need them."""

from __future__ import annotations

import re

# A whole attribute with a plain value, before a space or the end of its tag. One before "/>" keeps its quotes: HTML
# would take the slash for a part of the value.
_PLAIN = re.compile(r"""(?<=[\s"])([\w:-]+)="([\w.:-]+)"(?=[\s>])""")
_TAG = re.compile(r"<[a-zA-Z][^<>]*>")
_VERBATIM = re.compile(r"(<(?:script|style)\b.*?</(?:script|style)>)", re.DOTALL)


def compact(page: str) -> str:
    """The same document. Scripts and styles stay as they are: the page's policy has their digests."""
    pieces = _VERBATIM.split(page)
    return "".join(piece if n % 2 else _TAG.sub(_unquoted, piece) for n, piece in enumerate(pieces))


def _unquoted(tag: re.Match[str]) -> str:
    return _PLAIN.sub(r"\1=\2", tag.group(0))
