"""C++ types of kernel parameters, and the NumPy types that fit them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np

from gemmsmith.errors import UsageError

DTypeOf = np.dtype[Any]

_FLOAT16, _BFLOAT16 = np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16)
_E4M3, _E5M2 = np.dtype(ml_dtypes.float8_e4m3fn), np.dtype(ml_dtypes.float8_e5m2)
_SIGNED: dict[int, DTypeOf] = {
    1: np.dtype(np.int8),
    2: np.dtype(np.int16),
    4: np.dtype(np.int32),
    8: np.dtype(np.int64),
}
_UNSIGNED: dict[int, DTypeOf] = {
    1: np.dtype(np.uint8),
    2: np.dtype(np.uint16),
    4: np.dtype(np.uint32),
    8: np.dtype(np.uint64),
}

# C++ spellings of arithmetic types, as compilers print them and as sources write them. long has 8 bytes on Linux.
_BASES: dict[str, DTypeOf] = {
    "float": np.dtype(np.float32), "double": np.dtype(np.float64), "bool": np.dtype(np.bool_),
    **dict.fromkeys(("char", "signed char", "int8_t"), _SIGNED[1]),
    **dict.fromkeys(("unsigned char", "uint8_t", "uchar"), _UNSIGNED[1]),
    **dict.fromkeys(("short", "short int", "int16_t"), _SIGNED[2]),
    **dict.fromkeys(("unsigned short", "uint16_t", "ushort"), _UNSIGNED[2]),
    **dict.fromkeys(("int", "signed", "int32_t"), _SIGNED[4]),
    **dict.fromkeys(("unsigned", "unsigned int", "uint32_t", "uint"), _UNSIGNED[4]),
    **dict.fromkeys(("long", "long int", "long long", "long long int", "int64_t", "ptrdiff_t", "ssize_t"), _SIGNED[8]),
    **dict.fromkeys(("unsigned long", "unsigned long long", "uint64_t", "size_t", "ulong"), _UNSIGNED[8]),
    **dict.fromkeys(("__half", "half", "c10::Half", "at::Half", "cutlass::half_t"), _FLOAT16),
    **dict.fromkeys(("__nv_bfloat16", "nv_bfloat16", "c10::BFloat16", "at::BFloat16", "cutlass::bfloat16_t"),
                    _BFLOAT16),
    **dict.fromkeys(("__nv_fp8_e4m3", "c10::Float8_e4m3fn"), _E4M3),
    **dict.fromkeys(("__nv_fp8_e5m2", "c10::Float8_e5m2"), _E5M2),
}  # fmt: skip
_VECTOR_BASES = {
    "char": "char", "uchar": "unsigned char", "short": "short", "ushort": "unsigned short", "int": "int",
    "uint": "unsigned", "long": "long", "ulong": "unsigned long", "longlong": "long long",
    "ulonglong": "unsigned long long", "float": "float", "double": "double",
}  # fmt: skip
_PAIRS = {"__half2": "__half", "half2": "__half", "__nv_bfloat162": "__nv_bfloat16", "nv_bfloat162": "__nv_bfloat16"}
_COMPLEX = {"float2": np.dtype(np.complex64), "double2": np.dtype(np.complex128)}

# Names of element types in argument descriptions: "randn(1024, f16)".
_NAMES: dict[str, DTypeOf] = {
    **dict.fromkeys(("f32", "fp32", "float32", "float"), np.dtype(np.float32)),
    **dict.fromkeys(("f64", "fp64", "float64", "double"), np.dtype(np.float64)),
    **dict.fromkeys(("f16", "fp16", "float16", "half"), _FLOAT16),
    **dict.fromkeys(("bf16", "bfloat16"), _BFLOAT16),
    **dict.fromkeys(("e4m3", "fp8", "fp8_e4m3", "float8_e4m3fn"), _E4M3),
    **dict.fromkeys(("e5m2", "fp8_e5m2", "float8_e5m2"), _E5M2),
    **{name: dtype for size, dtype in _SIGNED.items() for name in (f"i{8 * size}", f"int{8 * size}")},
    **{name: dtype for size, dtype in _UNSIGNED.items() for name in (f"u{8 * size}", f"uint{8 * size}")},
    "int": _SIGNED[4], "unsigned": _UNSIGNED[4], "bool": np.dtype(np.bool_),
    **dict.fromkeys(("c64", "complex64"), np.dtype(np.complex64)),
    **dict.fromkeys(("c128", "complex128"), np.dtype(np.complex128)),
}  # fmt: skip
# Types of handles to textures and surfaces, with the function that makes an argument for each.
OBJECTS = {"cudaTextureObject_t": "texture", "CUtexObject": "texture", "cudaSurfaceObject_t": "surface",
           "CUsurfObject": "surface"}  # fmt: skip
_SHOWN = ("f32", "f64", "f16", "bf16", "e4m3", "e5m2", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool")
_QUALIFIERS = re.compile(r"\b(const|volatile|__restrict__|__restrict|restrict|__grid_constant__|struct|typename)\b")


@dataclass(frozen=True)
class CType:
    """A parameter's type: ``base`` without qualifiers, how many pointers lead to it, and whether it is const.

    ``known`` is False where the source does not say it: then only the size is checked.
    """

    base: str
    pointers: int = 0
    const: bool = False
    known: bool = True

    def __str__(self) -> str:
        return ("const " if self.const else "") + self.base + "*" * self.pointers

    @property
    def element(self) -> DTypeOf | None:
        """The NumPy type of one number of it; None for void, structs and types that are not known."""
        return _element(self.base)[0]

    @property
    def lanes(self) -> int:
        """Numbers in one value: 4 in a float4."""
        return _element(self.base)[1]


UNKNOWN = CType("", known=False)


def parse_type(text: str) -> CType:
    """A type as a compiler or a source writes it: 'float const*', 'const float * __restrict__', 'unsigned int'."""
    pointed = text.partition("*")[0]
    base = " ".join(_QUALIFIERS.sub(" ", text).replace("*", " ").replace("&", " ").split())
    base = re.sub(r"\s*::\s*", "::", base).removeprefix("::").removeprefix("std::")
    return CType(base, text.count("*"), bool(re.search(r"\bconst\b", pointed)))


@cache
def _element(base: str) -> tuple[DTypeOf | None, int]:
    if base in _BASES:
        return _BASES[base], 1
    if base in _PAIRS:
        return _BASES[_PAIRS[base]], 2
    vector = re.fullmatch(r"([a-z]+)([1-4])(_16a|_32a)?", base)
    if vector and vector.group(1) in _VECTOR_BASES:
        return _BASES[_VECTOR_BASES[vector.group(1)]], int(vector.group(2))
    return (_UNSIGNED[4], 3) if base == "dim3" else (None, 1)


def is_tensor_map(kind: CType) -> bool:
    """Whether a type is ``CUtensorMap``, which compilers also print as ``CUtensorMap_st``; or a pointer to it."""
    return kind.base.rpartition("::")[2] in ("CUtensorMap", "CUtensorMap_st", "TmaDescriptor")


def fits(kind: CType, dtype: DTypeOf) -> bool:
    """Whether an array of ``dtype`` may be passed to a pointer of type ``kind``.

    Integers of one size fit each other. Raw bits fit 16-bit and 8-bit floats: uint16 for __half, uint8 for fp8.
    """
    wanted = kind.element
    if wanted is None or not kind.known or dtype == wanted:
        return True
    if dtype.kind == "c":
        return dtype == _COMPLEX.get(kind.base, wanted)
    if wanted.kind in "iub" and dtype.kind in "iub":
        return dtype.itemsize == wanted.itemsize
    narrow = wanted.itemsize < 4 and wanted.kind not in "iub"
    return narrow and dtype == _UNSIGNED[wanted.itemsize]


def dtype_named(name: str) -> DTypeOf:
    """The element type with that name in an argument description."""
    found = _NAMES.get(name.strip())
    if found is None:
        raise UsageError(f"unknown element type {name.strip()!r}", f"use one of {', '.join(_SHOWN)}")
    return found


def is_dtype_name(name: str) -> bool:
    return name.strip() in _NAMES


def integer_of(size: int) -> DTypeOf:
    """The signed integer of ``size`` bytes."""
    return _SIGNED[size]


def with_article(word: str) -> str:
    """'an int', 'a float*', 'an unsigned', 'a uint'."""
    return f"{'an' if word[:1] in 'aeio' or word.startswith('un') else 'a'} {word}"
