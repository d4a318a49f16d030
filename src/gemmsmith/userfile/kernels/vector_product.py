"""Products of a matrix and a vector, which are refused with the command that launches them: check judges products of
two matrices by itself."""

from __future__ import annotations

import re
from dataclasses import dataclass

from gemmsmith.kernel.role_names import is_increment
from gemmsmith.kernel.signature import Signature
from gemmsmith.userfile.text.parts import KernelSource

_NAME = re.compile(r"gemv|mat_?vec|matrix_?vec|(?:^|_)mv(?:_|$|\d)", re.I)
_SUM = re.compile(r"\+=|\w*fma\w*\s*\(|=[^;=]*\+[^;]*\*")
_TYPES = {"float": "f32", "double": "f64", "half": "f16", "__half": "f16", "__nv_bfloat16": "bf16", "int": "i32"}
_ROWS, _COLUMNS = 256, 128


@dataclass(frozen=True)
class VectorProduct:
    """The parameters of y = A x, by name, and arguments to launch it with; empty where only its name tells."""

    matrix: str = ""
    vector: str = ""
    result: str = ""
    args: str = ""

    def __str__(self) -> str:
        return f" ({self.matrix} and {self.vector})" if self.matrix else ", as its name says"

    @property
    def hint(self) -> str:
        """The options that check it."""
        if not self.matrix:
            return "launch it: --args 'NAME=VALUE, …' --grid … --block … --expect FILE.py:FUNCTION"
        return (f"launch it: --args '{self.args}' --grid … --block … --expect FILE.py:FUNCTION, with "
                f"def FUNCTION({self.matrix}, {self.vector}, **_): return "
                f'{{"{self.result}": {self.matrix} @ {self.vector}}}')  # fmt: skip


def vector_product(kernel: KernelSource, signature: Signature) -> VectorProduct | None:
    """What a kernel computes if it is one, by its two extents (one of a square matrix) and how it indexes its arrays;
    None for all others."""
    pointers = [arg for arg in signature.arguments if arg.code == "P"]
    numbers = [arg for arg in signature.arguments if arg.code in ("i", "I", "q", "Q") and not is_increment(arg.name)]
    extents = [arg.name for arg in numbers if not arg.role.startswith("ld")]
    if len(pointers) != 3 or len(extents) not in (1, 2) or not _SUM.search(kernel.body):
        return None
    flat = {arg.name: _is_flat(arg.name, kernel.body, [number.name for number in numbers]) for arg in pointers}
    written = [arg.name for arg in pointers if _is_written(arg.name, kernel.body)]
    matrices = [name for name, is_flat in flat.items() if is_flat is False]
    if len(written) != 1 or len(matrices) != 1 or matrices == written:
        return VectorProduct() if _NAME.search(kernel.name) else None
    if flat[written[0]] is not True and not _NAME.search(kernel.name):
        return None
    vector = next(arg.name for arg in pointers if arg.name not in (matrices[0], written[0]))
    if flat[vector] is not True and not _NAME.search(kernel.name):
        return None
    columns = _columns(matrices[0], kernel.body, extents)
    rows = next((name for name in extents if name != columns), columns)
    return VectorProduct(matrices[0], vector, written[0], _args(signature, matrices[0], vector, rows, columns))


def _args(signature: Signature, matrix: str, vector: str, rows: str, columns: str) -> str:
    texts, height = list[str](), _COLUMNS if rows == columns else _ROWS
    for arg in signature.arguments:
        kind = _TYPES.get(arg.ctype, "f32")
        if arg.code == "P":
            texts.append(f"{arg.name}=randn({height},{_COLUMNS},{kind})" if arg.name == matrix else
                         f"{arg.name}=randn({_COLUMNS},{kind})" if arg.name == vector else
                         f"{arg.name}=zeros({height},{kind})")  # fmt: skip
        else:
            texts.append(f"{arg.name}={ {rows: height, columns: _COLUMNS}.get(arg.name, 1) }")
    return ", ".join(texts)


def _indices(name: str, body: str) -> list[str]:
    """The texts in brackets after an array's name; variables are replaced by what they are set to, once."""
    found = re.findall(rf"\b{re.escape(name)}\s*\[([^\]]*)\]", body)
    return [re.sub(r"[A-Za-z_]\w*", lambda word: _set_to(word[0], body), text) for text in found]


def _set_to(name: str, body: str) -> str:
    texts = re.findall(rf"\b{re.escape(name)}\s*=(?!=)\s*([^;,)]+)", body)
    return f"({' '.join([name, *texts])})"


def _is_flat(name: str, body: str, extents: list[str]) -> bool | None:
    """Whether an array is indexed without the product of an extent and a row; None where it is not indexed at all."""
    found = _indices(name, body)
    times = "|".join(rf"\*\s*\(?{extent}\b|\b{extent}[^*]{{0,40}}\*" for extent in map(re.escape, extents))
    return None if not found else not any(re.search(times, text) for text in found)


def _columns(name: str, body: str, extents: list[str]) -> str:
    """The extent that a row of the matrix is multiplied with."""
    for extent in extents:
        if any(re.search(rf"\*\s*\(?{re.escape(extent)}\b", text) for text in _indices(name, body)):
            return extent
    return extents[-1]


def _is_written(name: str, body: str) -> bool:
    return re.search(rf"\b{re.escape(name)}\s*\[[^\]]*\]\s*[-+*]?=(?!=)|atomicAdd\s*\(\s*&?\s*{re.escape(name)}\b",
                     body) is not None  # fmt: skip
