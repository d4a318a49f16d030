"""How many values host code and comments say that a bias has: ``b.size(0) == w.size(1)``, ``bias: (N,)``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gemmsmith.kernel.signature import Signature
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.userfile.launches.launch_values import SiteValues

_COMMENT = re.compile(r"//([^\n]*)|/\*(.*?)\*/", re.S)
_TENSOR = re.compile(r"([A-Za-z_]\w*)\s*(?:\.|->)\s*(?:\w*data)")
_LENGTH = r"(?:size\((?:0|-1)\)|numel\(\)|sizes\(\)\[0\])"
_CAST = re.compile(r"\s|\(int\)|static_cast<\w+>")
_IS = r"\s*(?::|=|is|has|of(?:\s+(?:length|size))?)?\s*[\[(]?\s*(?:length\s+|size\s+)?"
_END = r"\s*(?:,?\s*[\])]|\s(?:values|elements|entries|floats)\b)"


def told_bias(spec: KernelSpec, signature: Signature) -> tuple[str, str]:
    """The extent (M or N) that a bias is said to have, and by what; empty where nothing is said."""
    site: SiteValues | None = getattr(spec.geometry, "site", None)
    passed = site.site.arguments if site is not None else ()
    texts = {arg.role: passed[place] for number, arg in enumerate(signature.arguments)
             if (place := signature.place(number)) < len(passed)}  # fmt: skip
    tensor = match[1] if (match := _TENSOR.match(texts.get("bias", ""))) is not None else ""
    names = {signature.named("bias"), tensor, texts.get("bias", "")}
    extents = {signature.named(axis): axis for axis in ("M", "N") if signature.has(axis)}
    told = [*(_checked(site, tensor, texts) if site is not None and tensor else ()), *_said(spec.code, names, extents)]
    return told[0] if len({extent for extent, _ in told}) == 1 else ("", "")


def _checked(site: SiteValues, tensor: str, texts: dict[str, str]) -> Iterator[tuple[str, str]]:
    """By a check of host code, which compares the tensor's length with what the launch passes for M or N."""
    known, lengths = site.site.frame.locals, dict[str, str]()
    for axis in (axis for axis in ("M", "N") if axis in texts):
        variable = known.variables.get(texts[axis])
        for each in (texts[axis], variable.value if variable is not None else ""):
            lengths[_CAST.sub("", each)] = axis
    length = re.compile(rf"{re.escape(tensor)}\.{_LENGTH}")
    for part in (part for text, holds in known.checked if holds for part in text.split("&&")):
        sides = [_side(side) for side in part.split("==")]
        for one, other in (sides, sides[::-1]) if len(sides) == len("ab") else ():
            if length.fullmatch(one) and other in lengths:
                yield lengths[other], f"host code checks `{part.strip()}`"


def _side(text: str) -> str:
    """A side of a comparison, without blanks, casts, and a parenthesis around more than it."""
    text = _CAST.sub("", text)
    more = text.count("(") - text.count(")")
    return text.removeprefix("(") if more > 0 else text.removesuffix(")") if more < 0 else text


def _said(code: str, biases: set[str], extents: dict[str, str]) -> Iterator[tuple[str, str]]:
    """By a comment: ``bias: (n,)``, ``bias[N]``, ``bias has N values``."""
    said = " ".join(line or block for line, block in _COMMENT.findall(code))
    own, listed = ("|".join(map(re.escape, sorted(filter(str.isidentifier, names)))) for names in (biases, extents))
    for match in re.finditer(rf"(?<![\w.])(?:{own}){_IS}({listed}){_END}", said) if own and listed else ():
        yield extents[match[1]], f"a comment says `{match[0].strip()}`"
