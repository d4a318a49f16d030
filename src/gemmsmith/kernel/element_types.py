"""C++ types of a kernel's parameters: elements of matrices, scalars, and which words stand for which type."""

from __future__ import annotations

import platform
import re
from collections.abc import Mapping
from dataclasses import dataclass

from gemmsmith.problem import BF16, FP16, FP32, FP64, INT8, INT32, UINT8, DType

# Element types by their spelling; vectors of them are read as the same matrix.
_ELEMENTS: dict[DType, tuple[str, ...]] = {
    FP32: ("float", "float2", "float3", "float4", "float32_t", "at::opmath_type"),
    FP16: ("half", "__half", "half2", "__half2", "__fp16", "_Float16", "at::Half", "c10::Half", "half_t",
           "cutlass::half_t", "cute::half_t", "nv_half", "nv_half2", "float16_t"),
    BF16: ("__nv_bfloat16", "nv_bfloat16", "__nv_bfloat162", "nv_bfloat162", "at::BFloat16", "c10::BFloat16",
           "bfloat16_t", "cutlass::bfloat16_t", "cute::bfloat16_t", "__bf16"),
    FP64: ("double", "double2", "float64_t"),
    INT8: ("int8_t", "signed char", "char2", "char4", "std::int8_t"),
    UINT8: ("uint8_t", "unsigned char", "uchar", "uchar4", "std::uint8_t"),
    # Products modulo 2³² are the same for unsigned numbers.
    INT32: ("int", "int32_t", "signed", "signed int", "unsigned", "unsigned int", "uint", "uint32_t", "int2", "int4",
            "std::int32_t", "std::uint32_t"),
}  # fmt: skip
_ELEMENT_OF = {spelling: dtype for dtype, spellings in _ELEMENTS.items() for spelling in spellings}
_ELEMENT_OF["char"] = UINT8 if platform.machine() in ("aarch64", "arm64") else INT8  # as the host's compiler has it

# struct codes of scalars. bf16 has none: 'bf16' is packed from the upper half of an fp32.
BF16_CODE = "bf16"
_INTEGERS = {
    "int": "i", "signed": "i", "signed int": "i", "unsigned": "I", "unsigned int": "I", "uint": "I", "uint32_t": "I",
    "int32_t": "i", "long": "q", "long long": "q", "long int": "q", "long long int": "q", "int64_t": "q",
    "ptrdiff_t": "q", "ssize_t": "q", "size_t": "Q", "unsigned long": "Q", "unsigned long long": "Q",
    "unsigned long int": "Q", "unsigned long long int": "Q", "uint64_t": "Q", "short": "h", "short int": "h",
    "int16_t": "h", "unsigned short": "H", "uint16_t": "H", "bool": "?", "index_t": "q",
}  # fmt: skip
# What the C++ standard defines: a header's typedef for another platform does not change it.
_STANDARD = frozenset(_INTEGERS) - {"uint", "index_t"} | {"float", "double", "int8_t", "uint8_t"}
_REALS = {FP32: "f", FP64: "d", FP16: "e", BF16: BF16_CODE, INT32: "i", INT8: "b", UINT8: "B"}
_QUALIFIERS = re.compile(
    r"\b(const|volatile|__restrict__|__restrict|restrict|RESTRICT|__grid_constant__|typename|register|struct|enum|"
    r"__global|__device__)\b"
)


@dataclass(frozen=True)
class ParameterType:
    """A parameter's type: ``name`` without const and stars, resolved; how many stars; whether what it points to is
    const."""

    name: str
    stars: int
    const: bool
    reference: bool = False

    @property
    def element(self) -> DType | None:
        """The element type; None for types that gemmsmith does not verify."""
        return _ELEMENT_OF.get(self.name)

    @property
    def scalar_code(self) -> str:
        """How a scalar of this type is packed; empty if it is no scalar type."""
        plain = self.name.removeprefix("std::")
        element = self.element
        return _INTEGERS.get(plain) or (_REALS.get(element, "") if element else "")

    @property
    def is_integer(self) -> bool:
        return self.scalar_code in tuple("iIqQhHbB")


_ROWS = re.compile(r"[^*\[]*\*(?:\s*(?:const|__restrict__))*\s*\[[^\]]+\]\s*")  # a pointer to arrays of one extent


def parameter_type(text: str, aliases: Mapping[str, str]) -> ParameterType:
    """The type written as ``text``; ``aliases`` are typedefs, template arguments and macros, by name.

    ``float *[N]``, as ``float A[][N]`` is, and ``float (*)[N]`` are pointers to rows: one star.
    """
    text = re.sub(r"\(\s*\*\s*\)\s*\[", "*[", text)
    for _ in range(8):  # an alias of an alias
        plain = " ".join(_QUALIFIERS.sub(" ", re.sub(r"\[[^\]]*\]|[*&]", " ", text)).split())
        target = aliases.get(plain) if plain.removeprefix("std::") not in _STANDARD else None
        if target is None or target == plain:
            break
        text = re.sub(rf"(?<![\w:]){re.escape(plain)}(?![\w:])", target, text)
    return ParameterType(
        name=plain, stars=1 if _ROWS.fullmatch(text) else text.count("*") + len(re.findall(r"\[[^\]]*\]", text)),
        const=re.search(r"\bconst\b", text.split("*")[0]) is not None, reference="&" in text,
    )  # fmt: skip


def vector_width(ctype: str) -> int:
    """Elements of a vector type: 2 of half2 and __nv_bfloat162, 4 of float4; 1 of other types."""
    found = re.search(r"(?:half|float|double|char|short|int|long|bfloat16)([234])$", ctype)
    return int(found[1]) if found else 1


# How kernels that take numbers of 16 bits as integers read them.
_READ_AS = {
    BF16: re.compile(r"bfloat16|\bbf16\b|\.bf16|<<\s*16\b"),
    FP16: re.compile(r"\b__u?short_as_half\b|\b__half_raw\b|\bhalf\b|\b__half\b|\.f16\b|\bhalf2\b|\b__half2\b"),
}
_BITS = frozenset(("short", "short int", "int16_t", "std::int16_t", "unsigned short", "unsigned short int", "uint16_t",
                   "std::uint16_t", "ushort"))  # fmt: skip
_WORDS = frozenset(("int", "int32_t", "std::int32_t", "unsigned", "unsigned int", "uint32_t", "std::uint32_t", "uint"))
_UNPACKS_BYTES = re.compile(r"\b__dp[24]a\w*\s*\(|\bu?char4\b|\bdp[24]a\.")


def element_of_bits(name: str, body: str) -> DType | None:
    """The element type whose bits a kernel's ``body`` takes from integers of type ``name``, where it tells one."""
    if name not in _BITS:
        return None
    found = [dtype for dtype, words in _READ_AS.items() if words.search(body)]
    return found[0] if len(found) == 1 else None


def holds_bytes(name: str, body: str) -> bool:
    """Whether a kernel's ``body`` unpacks integers of type ``name`` into four bytes each."""
    return name in _WORDS and _UNPACKS_BYTES.search(body) is not None


def element_in_casts(name: str, body: str, aliases: Mapping[str, str]) -> DType | None:
    """The element type that the ``void*`` parameter ``name`` is cast to in the kernel's ``body``."""
    casts = rf"_cast\s*<\s*([\w:\s]+?)\s*\*[^>]*>\s*\(\s*{name}\b|\(\s*([\w:\s]+?)\s*\*[\s\w]*\)\s*{name}\b"
    found = {parameter_type(a or b, aliases).element for a, b in re.findall(casts, body)}
    found.discard(None)
    return found.pop() if len(found) == 1 else None
