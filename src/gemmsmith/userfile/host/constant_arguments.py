"""Sizes in constant memory, which host code sets before the launch: ``cudaMemcpyToSymbol(ext, &e, sizeof(e))``.

In a copy of the file the kernel takes each such variable as a parameter of the same name, and the launch passes what
host code copies: then check fills it as it does any parameter.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gemmsmith.kernel.expressions import split
from gemmsmith.userfile.files.edited import Edited, edited_text
from gemmsmith.userfile.host.found_value import FoundValue
from gemmsmith.userfile.kernels.pointed_structs import parameters_at
from gemmsmith.userfile.text.parts import KernelSource, SourceFile
from gemmsmith.userfile.text.preprocessor import closing
from gemmsmith.userfile.text.source import read_text
from gemmsmith.userfile.text.tokens import Text, normalized

_NAME = r"\w+(?:\s*\[\s*[1-8]\s*\])?"
_CONSTANT = re.compile(
    r"(?:\bstatic\s+)?__constant__\s+(?:static\s+)?((?:struct\s+)?[\w:]+(?:\s+[\w:]+)*?)\s+"
    rf"({_NAME}(?:\s*,\s*{_NAME})*)\s*;"
)
_COPIED = r"\bcudaMemcpyToSymbol(?:Async)?\s*\(\s*&?\s*{name}\s*,\s*{taken}([\w.]+|\w+->\w+)\s*,"


@dataclass(frozen=True)
class _Constant:
    """``passed``: the variable that host code copies there; ``count``: of an array, how many elements it has;
    ``elements``: what host code sets them to, where it declares them so."""

    kind: str
    name: str
    passed: str
    count: int = 0
    elements: tuple[str, ...] = ()

    @property
    def parameters(self) -> list[str]:
        """The parameters that replace it: one, or one for each element of an array."""
        names = [f"{self.name}_{i}" for i in range(self.count)] or [self.name]
        return [f"const {self.kind} {name}" for name in names]

    @property
    def arguments(self) -> list[str]:
        if len(self.elements) == self.count > 0:
            return list(self.elements)
        return [f"{self.passed}[{i}]" for i in range(self.count)] or [self.passed]

    @property
    def local(self) -> str:
        """What the kernel begins with: the array of its elements."""
        elements = ", ".join(f"{self.name}_{i}" for i in range(self.count))
        return f" const {self.kind} {self.name}[{self.count}] = {{{elements}}};" if self.count else ""


def passed_as_arguments(kernel: KernelSource, sources: Sequence[SourceFile], edited: Edited = ()) -> Edited:
    """Texts in place of files, in which ``kernel`` takes its variables in constant memory as parameters; ``edited``
    itself if it has none, or if other functions read them."""
    found = _constants(kernel, sources)
    raw = edited_text(kernel.file, edited)
    known = Text(normalized(read_text(kernel.file) if raw is None else raw))
    place = parameters_at(kernel, known.bare) if found else None
    launches = _launches(kernel, known.bare) if place is not None else []
    if place is None or not launches:
        return edited
    start, end, body, _ = place
    first = "" if not known.bare[start:end].strip() else ", "
    inserted = {end: first + ", ".join(name for each in found for name in each.parameters),
                body + 1: "".join(each.local for each in found)}  # fmt: skip
    for opened, closed in launches:
        more = "" if not known.bare[opened + 1 : closed].strip() else ", "
        inserted[closed] = more + ", ".join(text for each in found for text in each.arguments)
    text = known.text
    for at in sorted(inserted, reverse=True):
        text = f"{text[:at]}{inserted[at]}{text[at:]}"
    return (*((file, old) for file, old in edited if file.resolve() != kernel.file.resolve()), (kernel.file, text))


def passed_note(kernel: KernelSource, sources: Sequence[SourceFile]) -> FoundValue:
    """What the report says of such a kernel."""
    found = _constants(kernel, sources)
    names = ", ".join(each.name for each in found)
    copies = ((each.name, each.passed if each.count else f"&{each.passed}") for each in found)
    text = "; ".join(f"cudaMemcpyToSymbol({name}, {copied}, …)" for name, copied in copies)
    return FoundValue(f"{names} in constant memory", "passed as parameters", f"{kernel.file.name}:{kernel.line}", text)


def _constants(kernel: KernelSource, sources: Sequence[SourceFile]) -> list[_Constant]:
    """Those that the kernel alone reads, and that one call in a function that launches it sets."""
    own = next((source for source in sources if source.path == kernel.file), None)
    taken = {parameter.name for parameter in kernel.parameters}
    if own is None or "__constant__" not in own.text:
        return []
    found = []
    for match in _CONSTANT.finditer(own.text):
        for part in match[2].split(","):
            name, _, extent = (word.strip() for word in part.partition("["))
            count = int(extent.rstrip("] \n")) if extent else 0
            word = re.compile(rf"(?<![\w.]){re.escape(name)}\b")
            if taken & {name, f"{name}_0"} or not word.search(kernel.body):
                continue
            taken_at = r"&\s*" if not count else r"&?\s*"
            copied = re.compile(_COPIED.format(name=re.escape(name), taken=taken_at))
            host = [(f, call) for f in own.functions for call in copied.finditer(f.body)]
            if len(host) != 1 or not re.search(rf"\b{kernel.name}\s*<", host[0][0].body):
                return []
            if any(word.search(f.body) for f in own.functions if f is not host[0][0]):
                return []  # a device function reads it, too
            function, call = host[0]
            listed = re.search(rf"\b{re.escape(call[1])}\s*\[\s*\w*\s*\]\s*=?\s*\{{([^{{}}]*)\}}", function.body)
            found.append(_Constant(match[1], name, call[1], count, tuple(split(listed[1])) if listed else ()))
    return found


def _launches(kernel: KernelSource, code: str) -> list[tuple[int, int]]:
    """Where the arguments of each launch of the kernel begin and end."""
    found = []
    for match in re.finditer(rf"\b{re.escape(kernel.name)}\s*(?:<(?!<<)[^;{{}}]*?>\s*)?<<<", code):
        after = code.find(">>>", match.end())
        opened = code.find("(", after) if after >= 0 else -1
        if opened >= 0 and not code[after + 3 : opened].strip():
            found.append((opened, closing(code, opened)))
    return found
