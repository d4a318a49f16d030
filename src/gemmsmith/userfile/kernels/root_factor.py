"""A factor that attention's scores have, where it is no parameter: ``sum / sqrtf(D)``, ``sum * rsqrtf((float)D)``.

In a copy of the file each such root is 1, so that the kernel computes a plain product.
"""

from __future__ import annotations

import re

from gemmsmith.userfile.files.edited import Edited, edited_text
from gemmsmith.userfile.kernels.pointed_structs import parameters_at
from gemmsmith.userfile.text.parts import KernelSource
from gemmsmith.userfile.text.source import read_text
from gemmsmith.userfile.text.tokens import Text, normalized

_NAMES = r"(?:std::|::)?(?:__f?r?sqrt_r[nzud]|r?sqrtf?)"
_FLOAT = r"(?:float|double)"
_CAST = rf"(?:\(\s*{_FLOAT}\s*\)|(?:{_FLOAT}|static_cast\s*<\s*{_FLOAT}\s*>|__int2float_r[nzud])(?=\s*\())"
_ROOT = re.compile(rf"(?<![\w.:]){_NAMES}\s*\(\s*(?:{_CAST}\s*)?(\(\s*)?([A-Za-z_]\w*)(?(1)\s*\))\s*\)")


def without_root(kernel: KernelSource, edited: Edited = ()) -> tuple[Edited, str] | None:
    """Texts in place of files in which the roots of one name are 1 in ``kernel``, and the first root as it is written;
    None where it has none, or roots of several names."""
    raw = edited_text(kernel.file, edited)
    known = Text(normalized(read_text(kernel.file) if raw is None else raw))
    place = parameters_at(kernel, known.bare)
    if place is None:
        return None
    _, _, start, end = place
    found = [*_ROOT.finditer(known.bare, start, end)]
    if len({match[2] for match in found}) != 1:
        return None
    text = known.text
    for match in reversed(found):
        text = f"{text[: match.start()]}decltype({match[0]})(1){text[match.end() :]}"
    kept = ((file, old) for file, old in edited if file.resolve() != kernel.file.resolve())
    return (*kept, (kernel.file, text)), found[0][0]
