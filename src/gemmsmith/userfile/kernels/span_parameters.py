"""Matrices that are passed as a std::mdspan or as PyTorch's packed accessor: a pointer, two extents, and two strides
where the layout has any."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from gemmsmith.userfile.launches.launch_text import split_template
from gemmsmith.userfile.text.parts import Field, SourceFile

_DEEPEST = 4  # aliases of aliases
_ALIAS_TEMPLATE = r"template\s*<([^<>]*)>\s*using\s+{name}\s*=\s*([^;]+);"
# PyTorch's accessors of a tensor, with the type of their sizes and strides.
_ACCESSORS = {"PackedTensorAccessor32": "int", "PackedTensorAccessor64": "long long",
              "PackedTensorAccessor": "long long", "GenericPackedTensorAccessor": "long long"}  # fmt: skip
_OF_TENSOR = re.compile(r"(\w+)\s*(?:\.|->)\s*(?:template\s+)?(?:generic_)?packed_accessor\w*\s*<.*>\s*\(\s*\)", re.S)
_WITH_INDEX = 4  # template arguments of an accessor that names this type itself
# Fields in the order of libcu++'s mdspan; the last stride of a row-major matrix is one.
_EXTENTS = ("rows", "cols")
_STRIDES = ("stride", "unit")


def span_fields(kind: str, sources: Sequence[SourceFile], aliases: Mapping[str, str]) -> tuple[Field, ...]:
    """The members of a two-dimensional mdspan whose extents are known at run time, or of an accessor of two dimensions;
    none for other types."""
    base, given = _parts(_resolved(kind, sources, aliases))
    if base in _ACCESSORS and given[1:2] == ["2"]:
        index = given[3] if len(given) == _WITH_INDEX else _ACCESSORS[base]
        return Field(f"{given[0]}*", name="data"), *(Field(index, name=name) for name in (*_EXTENTS, *_STRIDES))
    if base != "mdspan" or len(given) < 2:
        return ()
    index = _index_type(_resolved(given[1], sources, aliases))
    layout = _parts(given[2])[0] if len(given) > 2 else "layout_right"
    if not index or layout not in ("layout_right", "layout_left", "layout_stride"):
        return ()
    numbers = (*_EXTENTS, *_STRIDES) if layout == "layout_stride" else _EXTENTS
    return Field(f"{given[0]}*", name="data"), *(Field(index, name=name) for name in numbers)


def without_accessor(text: str) -> str:
    """The tensor of ``x.packed_accessor32<float, 2>()``; other texts as they are."""
    match = _OF_TENSOR.fullmatch(text.strip())
    return match[1] if match else text


def _resolved(kind: str, sources: Sequence[SourceFile], aliases: Mapping[str, str]) -> str:
    """A type without its aliases, and without those that are templates: ``View<float>``."""
    for _ in range(_DEEPEST):
        if kind in aliases:
            kind = aliases[kind]
            continue
        base, given = _parts(kind)
        pattern = re.compile(_ALIAS_TEMPLATE.format(name=re.escape(base)))
        match = next((found for source in sources if (found := pattern.search(source.text))), None)
        if match is None:
            return kind
        names = [(re.findall(r"\w+", part.partition("=")[0]) or [""])[-1] for part in match[1].split(",")]
        values = dict(zip(names, given, strict=False))
        kind = re.sub(r"[A-Za-z_]\w*", lambda word, known=values: known.get(word[0], word[0]), match[2]).strip()
    return kind


def _index_type(extents: str) -> str:
    """The type of the extents: ``dextents<int, 2>``, ``dims<2>`` or ``extents<int, dynamic_extent, …>``."""
    base, given = _parts(extents)
    if base == "dextents" and len(given) == 2 and given[1] in ("2", "2u"):
        return given[0]
    if base == "dims" and given[:1] == ["2"]:
        return given[1] if len(given) > 1 else "size_t"
    dynamic = all(text.rsplit("::", 1)[-1] == "dynamic_extent" for text in given[1:])
    return given[0] if base == "extents" and len(given) == 3 and dynamic else ""


def _parts(kind: str) -> tuple[str, list[str]]:
    """``cuda::std::mdspan<float, E>`` as "mdspan" and its arguments."""
    base, opened, rest = kind.partition("<")
    given = split_template(rest.rsplit(">", 1)[0]) if opened else []
    return base.strip().rsplit("::", 1)[-1], [text.strip() for text in given]
