"""Types as text: base, pointee, size in bytes, and what a template parameter is deduced to be."""

from __future__ import annotations

import re

from gemmsmith.userfile.host.values import UnknownValueError

_QUALIFIER = re.compile(r"\b(?:const|volatile|__restrict__|__restrict|restrict|__grid_constant__|struct|typename)\b|&")
_BYTES = {
    "char": 1, "bool": 1, "int8_t": 1, "uint8_t": 1, "__nv_fp8_e4m3": 1, "__nv_fp8_e5m2": 1,
    "short": 2, "half": 2, "__half": 2, "nv_bfloat16": 2, "__nv_bfloat16": 2, "int16_t": 2, "uint16_t": 2, "bf16": 2,
    "float16_t": 2, "bfloat16_t": 2, "at::Half": 2, "at::BFloat16": 2, "c10::Half": 2,
    "int": 4, "unsigned": 4, "uint": 4, "float": 4, "int32_t": 4, "uint32_t": 4, "half2": 4, "__half2": 4,
    "nv_bfloat162": 4, "__nv_bfloat162": 4, "long": 8, "double": 8, "size_t": 8, "int64_t": 8, "uint64_t": 8,
    "float2": 8, "int2": 8, "uint2": 8, "float4": 16, "int4": 16, "uint4": 16, "double2": 16, "float3": 12,
}  # fmt: skip
_BLOCK_BARRIER = re.compile(r"(?:cuda\s*::\s*)?barrier\s*<\s*(?:\w+\s*::\s*)*thread_scope_block\s*>")


def bare(kind: str) -> str:
    """``kind`` without const, references and the like."""
    return " ".join(_QUALIFIER.sub(" ", kind).replace("*", " * ").split())


def base_type(kind: str) -> str:
    """``kind`` without qualifiers and pointers."""
    return bare(kind).replace("*", "").replace("[]", "").strip()


def pointee(kind: str) -> str:
    """What a pointer of type ``kind`` points to; empty if it is none."""
    plain = bare(kind).removesuffix("[]").strip()
    return plain.removesuffix("*").strip() if plain.endswith("*") else ""


def size_of_type(kind: str) -> int:
    plain = bare(kind)
    if plain.endswith("*"):
        return 8
    plain = plain.removeprefix("std::").removeprefix("::")
    if plain in _BYTES:
        return _BYTES[plain]
    if _BLOCK_BARRIER.fullmatch(plain):
        return 8  # one mbarrier
    parts = [part for part in plain.split() if part not in ("unsigned", "signed", "int")]
    if all(part in ("long", "short", "char") for part in parts):
        return _BYTES[parts[0]] if parts else 4
    raise UnknownValueError(f"the size of {kind} is not known")


def deduced(name: str, parameter: str, argument: str) -> str:
    """What template parameter ``name`` is if an argument of type ``argument`` is passed for type ``parameter``."""
    wanted, given = bare(parameter), bare(argument)
    if not given:
        return ""
    stars = wanted.count("*")
    if wanted.replace("*", "").strip() != name or given.count("*") < stars or (not stars and "*" in given):
        return ""
    return given[: len(given.rstrip("* "))].strip() + " *" * (given.count("*") - stars)
