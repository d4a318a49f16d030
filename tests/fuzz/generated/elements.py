"""Element types of generated kernels: how C++ spells, converts and rounds them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Element:
    """Inputs, accumulator and output; ``{}`` in a conversion stands for the value."""

    input: str
    accumulator: str
    output: str
    size: int  # bytes of an input
    header: str = ""
    widen: str = "{}"  # input to accumulator
    narrow: str = "{}"  # accumulator to output
    read: str = "{}"  # output to accumulator

    @property
    def zero(self) -> str:
        return {"float": "0.0f", "double": "0.0", "int": "0", "half": "__float2half(0.0f)"}[self.accumulator]

    @property
    def one(self) -> str:
        return "__float2half(1.0f)" if self.accumulator == "half" else "1"

    @property
    def input_zero(self) -> str:
        half, bf16 = "__float2half(0.0f)", "__float2bfloat16(0.0f)"
        return {"half": half, "__nv_bfloat16": bf16, "float": "0.0f", "double": "0.0"}.get(self.input, "0")

    @property
    def is_16_bit(self) -> bool:
        return self.size == 2

    @property
    def is_float(self) -> bool:
        return self.accumulator != "int"


_HALF, _BF16 = "#include <cuda_fp16.h>", "#include <cuda_bf16.h>"
_FROM_HALF, _FROM_BF16 = "__half2float({})", "__bfloat162float({})"
ELEMENTS: dict[str, Element] = {
    "f32": Element("float", "float", "float", 4),
    "f64": Element("double", "double", "double", 8),
    "f16f32": Element("half", "float", "float", 2, _HALF, _FROM_HALF),
    "f16": Element("half", "float", "half", 2, _HALF, _FROM_HALF, "__float2half({})", _FROM_HALF),
    "f16h": Element("half", "half", "half", 2, _HALF),
    "bf16f32": Element("__nv_bfloat16", "float", "float", 2, _BF16, _FROM_BF16),
    "bf16": Element("__nv_bfloat16", "float", "__nv_bfloat16", 2, _BF16, _FROM_BF16, "__float2bfloat16({})",
                    _FROM_BF16),
    "i8": Element("int8_t", "int", "int32_t", 1, "#include <cstdint>", "(int){}"),
}  # fmt: skip
# The type of a vector load, by its bytes.
WORDS = {2: "unsigned short", 4: "unsigned int", 8: "uint2", 16: "uint4"}
