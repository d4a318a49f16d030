"""The enumerators of cuda.h that describe tensor maps, by name."""

from __future__ import annotations

_TYPES = ("UINT8", "UINT16", "UINT32", "INT32", "UINT64", "INT64", "FLOAT16", "FLOAT32", "FLOAT64", "BFLOAT16",
          "FLOAT32_FTZ", "TFLOAT32", "TFLOAT32_FTZ")  # fmt: skip
_LISTS = {
    "DATA_TYPE": _TYPES, "INTERLEAVE": ("NONE", "16B", "32B"), "SWIZZLE": ("NONE", "32B", "64B", "128B"),
    "L2_PROMOTION": ("NONE", "L2_64B", "L2_128B", "L2_256B"), "FLOAT_OOB_FILL": ("NONE", "NAN_REQUEST_ZERO_FMA"),
}  # fmt: skip
MAP_CONSTANTS = {
    f"CU_TENSOR_MAP_{kind}_{word}": number for kind, words in _LISTS.items() for number, word in enumerate(words)
}
SWIZZLE_BYTES = (0, 32, 64, 128)
INTERLEAVE_BYTES = (0, 16, 32)
_ENUMS = {"DATA_TYPE": "DataType", "INTERLEAVE": "Interleave", "SWIZZLE": "Swizzle", "L2_PROMOTION": "L2promotion",
          "FLOAT_OOB_FILL": "FloatOOBfill"}  # fmt: skip


def enum_declarations() -> dict[str, str]:
    """The enums of cuda.h as C++, by the pattern of the names that they declare."""
    return {
        f"CUtensorMap{name}|CU_TENSOR_MAP_{kind}_\\w+": f"typedef enum CUtensorMap{name}_enum {{ "
        + ", ".join(f"CU_TENSOR_MAP_{kind}_{word} = {number}" for number, word in enumerate(_LISTS[kind]))
        + f" }} CUtensorMap{name};\n"
        for kind, name in _ENUMS.items()
    }
