"""What a parameter's name says about its role: ``d_A``, ``matA`` and ``A_ptr`` are A, ``wA`` is K."""

from __future__ import annotations

import re
from collections.abc import Mapping

_COUNTER = re.compile(r"\w*(?:idx|index|Idx|Index)")  # by its name, wherever the loop is
_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
# Words that say where a matrix lies or that it is one.
_POINTER_NOISE = frozenset((
    "d", "dev", "device", "gpu", "cuda", "g", "gmem", "mat", "matrix", "ptr", "p", "data", "arr", "array", "buf",
    "buffer", "tensor", "global", "h", "host", "my", "v", "pointer", "raw", "base", "addr", "vec", "dptr", "the", "f",
    "float", "half", "elements", "elems", "elem", "values", "vals", "entries", "mem",
))  # fmt: skip
_MAP_NOISE = frozenset(("tma", "map", "tmap", "tensormap", "desc", "descriptor", "tensor", "load", "store", "t"))
_POINTER_NAMES: dict[str, tuple[str, ...]] = {
    "A": ("a", "lhs", "left", "ad", "da", "input", "inp", "in", "x", "mat1", "1", "first", "act", "activations", "m1"),
    "B": ("b", "rhs", "right", "bd", "db", "weight", "weights", "w", "wt", "2", "second", "m2", "filter"),
    "C": ("c", "cd", "dc", "out", "output", "result", "res", "dst", "product", "prod", "3", "o", "ret", "answer"),
    "D": ("d", "dd"),
    "bias": ("bias", "biases"),
}
_WEIGHTS = frozenset(("weight", "weights", "w", "wt"))
_POINTER_OF = {name: role for role, names in _POINTER_NAMES.items() for name in names}

_EXTENT_NOISE = frozenset((
    "num", "number", "of", "size", "dim", "dims", "ld", "d", "count", "total", "extent", "length", "len", "mat",
    "matrix", "global", "g",
))  # fmt: skip
_EXTENT_NAMES: dict[str, tuple[str, ...]] = {
    "M": ("m", "rows", "row", "height", "nrows", "mm", "ni"),
    "N": ("n", "cols", "columns", "col", "ncols", "width", "nn", "nj"),
    "K": ("k", "inner", "depth", "common", "reduction", "shared", "kk", "nk"),
}
# Of a linear layer: x is tokens × in_features, its result tokens × out_features. Gradients have other products.
_LAYER_NAMES = {
    "M": ("tokens",),
    "N": ("outfeatures", "outputfeatures", "outchannels", "outfeat", "outfeats", "outf", "outch", "out", "output",
          "outputs", "fanout", "cout"),
    "K": ("infeatures", "inputfeatures", "inchannels", "infeat", "infeats", "inf", "inch", "in", "input", "inputs",
          "fanin", "cin"),
}  # fmt: skip
_EXTENT_OF = {name: role for role, names in _EXTENT_NAMES.items() for name in (*names, *_LAYER_NAMES[role])}
_ROWS = frozenset(("rows", "row", "height", "h", "r"))
_COLUMNS = frozenset(("cols", "columns", "col", "column", "width", "w", "c"))
# Rows and columns of each operand.
_SIDES = {"a": ("M", "K"), "b": ("K", "N"), "c": ("M", "N"), "d": ("M", "N")}
_SHORT_STRIDES = {"s": ("stride",), "st": ("stride",), "bs": ("batch", "stride")}  # sA, sb, stB, bsC
# Other words for the operands, in names of their extents and strides: lhs_rows, row_stride_two.
_OPERANDS = {"one": "a", "lhs": "a", "two": "b", "rhs": "b", "dest": "c", "dst": "c"}
_SCALARS = {"alpha": ("alpha", "scale", "scalar"), "beta": ("beta",)}
_SCALAR_OF = {name: role for role, names in _SCALARS.items() for name in names}
BATCH = frozenset(("batch", "batches", "batchsize", "batchcount", "numbatches", "nbatch", "nbatches", "numbatch",
                   "bsz", "bs", "nb"))  # fmt: skip


SEQUENCE = frozenset(("t", "seq", "seqlen", "sequence", "sequencelength", "seqlength", "s", "l", "length", "time"))


def is_batch(name: str, short: bool = False) -> bool:
    """Whether a number is named after the products of a batch; ``short``: B counts, too."""
    own = "".join(words(name))
    return own in BATCH or (short and own == "b")


def loops_over_products(name: str, body: str) -> bool:
    """Whether each block makes one product after another: ``for (b = 0; b < B; ++b)`` with offsets ``b * M * K``. A
    tile's side ends loops as well, and is a term of indices: ``i < B`` beside ``k += B`` or ``i * B + tx``."""
    word = re.escape(name)
    loop = re.search(rf"\bfor\s*\([^;()]*;\s*(\w+)\s*<\s*{word}\s*;", body)
    if loop is None or re.search(rf"[-+*/%=]\s*{word}\b|(?<![\w.]){word}\s*[-+*/%]", body):
        return False
    return re.search(rf"\b{loop[1]}\s*\*|\*\s*{loop[1]}\b", body) is not None


def is_side_of_tile(name: str, body: str) -> bool:
    """Whether a number is a tile's side, though bs may stand for a batch's size: the kernel has ``blockIdx.x * bs``, or
    counts tiles, ``(K + bs - 1) / bs``."""
    word = re.escape(name)
    begins = rf"\bblockIdx\.[xy]\s*\*\s*{word}\b|(?<![\w.]){word}\s*\*\s*blockIdx\.[xy]\b"
    counts = rf"\+\s*{word}\s*-\s*1\s*\)\s*/\s*{word}\b"
    return re.search(f"{begins}|{counts}", body) is not None


def numbers_a_product(name: str, at_launch: str, body: str, counters: frozenset[str]) -> bool:
    """Whether a number that is named after a batch tells which of its products to make: host code passes a counter
    (``counters``: those of loops around the launch), the kernel has ``A + batch * M * K``, no block makes another one,
    and nothing is compared with it, nor with what is computed from it: ``rows = batch * M`` counts."""
    word = re.escape(name)
    multiplied = rf"\b{word}\s*\*|\*\s*{word}\b"
    if (
        not (at_launch in counters or _COUNTER.fullmatch(at_launch))
        or "blockIdx.z" in body
        or not re.search(multiplied, body)
    ):
        return False
    computed = re.findall(rf"\b(\w+)\s*=(?!=)[^;,=]*\b{word}\b", body)
    return not any(_is_compared(each, body) for each in (name, *computed))


def _is_compared(name: str, body: str) -> bool:
    """Whether anything is compared with a number, or divided by it."""
    word = re.escape(name)
    compared = rf"[<>]\s*=?\s*{word}\b|[=!]=\s*{word}\b|\b{word}\s*(?:[<>]|[=!]=)|[/%]=?\s*{word}\b"
    return re.search(compared, body) is not None


def words(name: str) -> list[str]:
    """``numARows`` as num, a, rows."""
    return [word.lower() for word in _WORDS.findall(name)]


def _with_letters(found: list[str]) -> list[str]:
    """The words of a name of several, with operands by their letters."""
    return [_OPERANDS.get(word, word) for word in found] if len(found) > 1 else found


def pointer_role(name: str) -> str:
    """A, B, C, D or bias; empty if the name says nothing."""
    found = words(name)
    told = [word for word in found if word not in _POINTER_NOISE]
    for key in ("".join(found), "".join(told), told[0] if len(told) == 1 else ""):
        if key in _POINTER_OF:
            return _POINTER_OF[key]
    return ""


def is_weight(name: str) -> bool:
    """Whether a pointer is named after the weights of a layer."""
    return bool(_WEIGHTS.intersection(words(name)))


def map_role(name: str) -> str:
    """Which matrix a tensor map is named after: tensorMapA, tma_a, b_desc, tensorMap_bT; empty if none."""
    told = [word for word in words(name) if word not in _POINTER_NOISE | _MAP_NOISE]
    told = told[:1] if len(told) == 2 and told[1] in ("t", "trans", "transposed") else told
    return pointer_role(told[0]) if len(told) == 1 else pointer_role(name)


def scalar_role(name: str) -> str:
    """alpha or beta; empty if the name says nothing."""
    return _SCALAR_OF.get("".join(w for w in words(name) if w not in ("h", "d", "p", "ptr")), "")


def leading_role(name: str, batched: bool) -> str:
    """lda, strideA and their like; a stride is a batch's in a kernel that has a batch."""
    found = _with_letters(words(name))
    text = "".join(found)
    if re.fullmatch(r"s[abcd]", text):
        found = [*text]
    if match := re.fullmatch(r"ld([abcd])|([abcd])ld|(?:leading|pitch|lead)(?:dim)?([abcd])", text):
        return "ld" + "".join(filter(None, match.groups()))
    letter = next((word for word in found if word in _SIDES), "")
    if len(found) == 2 and found[0] in _SHORT_STRIDES and found[1] == letter:
        found = [*_SHORT_STRIDES[found[0]], letter]
    if "stride" in found and letter and set(found) <= {"stride", "batch", "row", letter}:
        return f"stride{letter.upper()}" if batched or "batch" in found else f"ld{letter}"
    return ""


def leading_of(name: str, matrices: Mapping[str, str]) -> str:
    """The leading dimension that is named after a matrix, by its name or the beginning of it: ldx for x, ldo for out.

    ``matrices``: the role of each pointer, by its name.
    """
    match = re.fullmatch(r"(?:ld|leading|lead|pitch|stride)_?(\w+)|(\w+?)_?(?:ld|pitch|stride)", name.lower())
    if match is None:
        return ""
    own = match[1] or match[2]
    whole = {role for pointer, role in matrices.items() if pointer.lower() == own}
    begun = whole or {role for pointer, role in matrices.items() if pointer.lower().startswith(own)}
    return f"ld{begun.pop().lower()}" if len(begun) == 1 and begun <= set("ABCD") else ""


def is_increment(name: str) -> bool:
    """Whether a number is the distance of two elements of a vector, as BLAS calls it: incx, inc_y, incX."""
    return re.fullmatch(r"inc_?[xyXY]|[xy]_inc", name) is not None


def layer_role(name: str) -> str:
    """The extent of a linear layer that is named so: K of in_features, in_f, d_in; empty for others."""
    told = [word for word in words(name) if word not in _EXTENT_NOISE]
    told = told[1:] if len(told) == 2 and told[0] == "n" else told
    return next((role for role, names in _LAYER_NAMES.items() if "".join(told) in names), "")


def extent_of(name: str, matrices: Mapping[str, str]) -> str:
    """The extent that is named after a matrix by the matrix's own name: row_M of a matrix M, widthX of X.

    ``matrices``: the role of each pointer, by its name.
    """
    found = [word for word in words(name) if word not in _EXTENT_NOISE]
    letters = {tuple(w for w in words(pointer) if w not in _POINTER_NOISE): role for pointer, role in matrices.items()}
    for place, side in enumerate(found):
        role = letters.get((*found[:place], *found[place + 1 :]), "")
        if side in _ROWS | _COLUMNS and role.lower() in _SIDES:
            return _SIDES[role.lower()][side in _COLUMNS]
    return ""


def field_role(field: str, matrix: str) -> str:
    """What a number beside the elements of ``matrix`` (A, B, C or D) means in a struct: width, height, stride."""
    if field == "unit":  # the distance of two elements of a row
        return "1"
    found = [word for word in words(field) if word not in _EXTENT_NOISE]
    if (not found and words(field) == ["ld"]) or (found and found[0] in ("stride", "pitch", "ld", "lda", "leading")):
        return f"ld{matrix.lower()}"
    told = [word for word in found if word != "n"] or found
    if len(told) != 1 or matrix.lower() not in _SIDES or told[0] not in _ROWS | _COLUMNS:
        return ""
    return _SIDES[matrix.lower()][told[0] in _COLUMNS]


def extent_role(name: str) -> str:
    """M, N or K; empty if the name says nothing."""
    found = _with_letters(words(name))
    told = [word for word in found if word not in _EXTENT_NOISE] or found
    if len(told) > 1:  # nRows, C_n_cols
        told = [word for word in told if word != "n"] or told
    for letter in (word for word in told if word in _SIDES):
        rest = list(told)
        rest.remove(letter)
        if len(rest) == 1 and rest[0] in _ROWS | _COLUMNS:
            return _SIDES[letter][rest[0] in _COLUMNS]
    key = "".join(told)
    joined = re.fullmatch(r"([abc])(rows|cols|height|width)|(rows|cols|height|width)([abc])", key)
    if joined:
        own, side = (joined[1], joined[2]) if joined[1] else (joined[4], joined[3])
        return _SIDES[str(own)][side in _COLUMNS]
    return _EXTENT_OF.get(key, "")
