"""How a user's kernel computes, as its PTX shows: the type of its accumulators, and of the factors on tensor cores.

A rung's specification says so; a user's kernel is judged by what it was compiled to. fp16 or bf16 arithmetic in a
loop, or atomics of these types, are taken for the accumulators' type. A few operations after the loops are an epilogue.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

from gemmsmith.errors import UnsupportedError
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import BF16, FP16, FP32, FP64, TF32, DType
from gemmsmith.verify.code.instruction_start import START
from gemmsmith.verify.oracles.bounds import PARTS
from gemmsmith.verify.oracles.promises import keeps_float, sums_in_float

_MMA = re.compile(rf"{START}(w?mma(?:\.mma)?\.\S+|wgmma\.mma_async\S*)", re.M)
_NARROW = re.compile(rf"{START}(?:fma|add|sub|mul|red\S*\.add|atom\S*\.add)(?:\.\w+)*\.(f16|bf16)(?:x2)?\s", re.M)
# Factors of matrix instructions that C++ has no type of their size for.
_PACKED = {
    "s4": "4-bit integers", "u4": "unsigned 4-bit integers", "b1": "single bits", "e4m3": "fp8 (e4m3)",
    "e5m2": "fp8 (e5m2)", "e2m1": "fp4 (e2m1)", "e3m2": "fp6 (e3m2)", "e2m3": "fp6 (e2m3)",
}  # fmt: skip
_ROUNDED = re.compile(rf"{START}cvt\.rn\.(f16|bf16)(?:x2)?\.f32\s", re.M)
_NARROWED = re.compile(rf"{START}cvt\.rn\.(?:b?f16)(?:x2)?\.f32\s+(%\w+),\s*([^;]+);", re.M)
_CONSTANT = re.compile(r"^\s*mov\.(?:f32|b32)\s+(%\w+),\s*0f[0-9A-Fa-f]{8};", re.M)
_MOVED = re.compile(rf"{START}(?:mov|prmt|cvt\.u32)\S*\s+(%\w+),\s*([^;]+);", re.M)
_STAGED = re.compile(rf"{START}(?:st\.shared|stmatrix)\S*\s+\[[^\]]*\],\s*([^;]+);", re.M)
_NAMES = {"f16": FP16.name, "bf16": BF16.name}
_LABEL = re.compile(r"^\s*(\$\w+):")
_BRANCH = re.compile(r"\bbra(?:\.uni)?\s+(\$\w+)")
_ATOMIC = re.compile(r"\b(?:red|atom)\.")
_MOST_OF_EPILOGUE = 9  # operations outside of loops; more may be an unrolled loop
_FP16_ROOM = 2**15  # fp16 outputs overflow at 65,520
# Integers up to this are exact, and so are sums of them below it.
EXACT = {FP16.name: 2**11 - 1, BF16.name: 2**8 - 1, FP32.name: 2**24 - 1, FP64.name: 2**24 - 1}


def as_compiled(spec: KernelSpec, ptx: str) -> KernelSpec:
    """A user's kernel, with the arithmetic of its PTX; a rung as it is."""
    if spec.is_rung:
        return spec
    products = [name for name in _MMA.findall(ptx) if name.startswith(("mma.", "wmma.mma", "wgmma"))]
    _refuse_packed(spec, products)
    dtype, out = spec.dtypes[0], spec.out_dtypes[0]
    factors = {kind for name in products for kind in _factors(name)}
    whole = dtype == FP32 and keeps_float(spec)
    if dtype == FP32 and "tf32" in factors and not whole:
        dtype = TF32
    multiplies_in = PARTS if whole and products else ""
    if dtype == FP32 and not whole and factors & {"f16", "bf16"}:
        multiplies_in = BF16.name if "bf16" in factors else FP16.name
    elif dtype == out == FP32 and not products and not whole:  # a SIMT kernel that stores its tiles in a narrow type
        multiplies_in = _NAMES.get(" ".join(sorted(set(_ROUNDED.findall(ptx)))), "")
    accumulator = _accumulator(dtype, out, products, ptx)
    if accumulator in (FP16, BF16) and sums_in_float(spec):
        accumulator = None
    again = accumulator is None and dtype == out and out in (FP16, BF16) and _rounds_again(ptx)
    return replace(spec, dtypes=(dtype,), accumulator=accumulator, tensor_cores=bool(products),
                   arithmetic=multiplies_in, rounds_again=again)  # fmt: skip


def _rounds_again(ptx: str) -> bool:
    """Whether values are rounded to 16 bits and used again: by arithmetic of that type, or from shared memory.

    The operands of such a kernel have 16 bits already, so that what it rounds are its sums.
    """
    if _NARROW.search(ptx):
        return True
    constants = _converted_constants(ptx)
    rounded = {register for register, value in _NARROWED.findall(ptx) if not constants.issuperset(_registers(value))}
    for _ in range(2):  # packed in pairs, moved
        rounded |= {m[1] for m in _MOVED.finditer(ptx) if rounded & set(_registers(m[2]))}
    return any(rounded & set(_registers(values)) for values in _STAGED.findall(ptx))


def _registers(operands: str) -> list[str]:
    return re.findall(r"%\w+", operands)


def _converted_constants(ptx: str) -> set[str]:
    """The registers that only bring a constant to a conversion: __float2half(0.0f) fills up a tile with zeros."""
    uses = Counter(_registers(_NARROWED.sub("", ptx)))
    return {register for register in _CONSTANT.findall(ptx) if uses[register] == 1}


def _refuse_packed(spec: KernelSpec, products: list[str]) -> None:
    """Raise for a kernel whose bytes hold something other than the integers that its parameters are declared as: with
    those, a right kernel would look wrong."""
    if not spec.dtypes[0].name.startswith(("int", "uint")):
        return
    kinds = dict.fromkeys(kind for name in products for kind in re.findall(r"\.(\w+)", name) if kind in _PACKED)
    if kinds:
        held = " and ".join(_PACKED[kind] for kind in kinds)
        raise UnsupportedError(
            f"{spec.signature.entry} multiplies {held} on tensor cores, which its {spec.dtypes[0].cuda} pointers hold: "
            "check cannot make matrices of such numbers",
            f"give matrices of your own and the right answer: --args '{spec.signature.arguments[0].name}="
            "randint(-128,128,64,32,i8), ...' --expect FILE.py:FUNCTION --grid X,Y --block X",
        )


def _factors(name: str) -> list[str]:
    """The types in an instruction's name; wmma of fp16 factors names only its accumulators."""
    kinds = re.findall(r"\.(tf32|f16|bf16|f32|f64|s8|u8|s32)\b", name)
    return ["f16"] if name.startswith("wmma") and set(kinds) <= {"f16", "f32"} else kinds


def notes(spec: KernelSpec) -> tuple[str, ...]:
    """What the gates depend on, where it is not the usual fp32."""
    found = []
    if not spec.is_rung and spec.arithmetic == PARTS:
        found.append("it claims the accuracy of fp32, so it is judged with eight times the error bound of fp32")
    elif not spec.is_rung and spec.arithmetic:
        where = " for the tensor cores" if spec.tensor_cores else ""
        found.append(f"it rounds its operands to {spec.arithmetic}{where}, and is judged as that")
    if spec.rounds_again:
        found.append(f"its epilogue rounds to {spec.out_dtypes[0]} more than once, and is judged with these roundings")
    if spec.accumulator in (FP16, BF16):
        found.append(f"it computes in {spec.accumulator}, and is judged with that type's roundoff")
    return tuple(found)


def precision_limit(spec: KernelSpec) -> str:
    """That results have fewer digits than their type: a product of 16-bit sums that is stored in fp32. Empty if not."""
    if spec.is_rung or spec.accumulator not in (FP16, BF16) or spec.out_dtypes[0] != FP32:
        return ""
    digits = "3 decimal digits" if spec.accumulator == FP16 else "2 decimal digits"
    return f"it computes in {spec.accumulator}, though C is fp32: about {digits} are right; multiply and add in float"


def _accumulator(dtype: DType, out: DType, products: list[str], ptx: str) -> DType | None:
    if FP64 in (dtype, out):
        return FP64
    narrow = _narrow_sums(ptx)
    if any(_sums_in_fp16(name) for name in products):
        narrow.add("f16")
    if dtype in (FP16, BF16) and narrow:
        return BF16 if "bf16" in narrow else FP16
    return None


def _narrow_sums(ptx: str) -> set[str]:
    """f16 and bf16, where operations of that type may add up the products."""
    lines = ptx.splitlines()
    labels = {found[1]: number for number, line in enumerate(lines) if (found := _LABEL.match(line))}
    loops = [(labels[found[1]], number) for number, line in enumerate(lines)
             if (found := _BRANCH.search(line)) and labels.get(found[1], number) < number]  # fmt: skip
    counts: dict[str, int] = {}
    for number, line in enumerate(lines):
        if (operation := _NARROW.match(line)) is None:
            continue
        inside = not loops or any(first < number < last for first, last in loops) or _ATOMIC.search(line)
        counts[operation[1]] = counts.get(operation[1], 0) + (_MOST_OF_EPILOGUE if inside else 1)
    return {kind for kind, count in counts.items() if count >= _MOST_OF_EPILOGUE}


def _sums_in_fp16(name: str) -> bool:
    """mma.….f16.f16.f16.f16 (D, A, B, C), wmma.mma.….f16.f16 (D, C), wgmma.….f16.f16.f16 (D, A, B)."""
    kinds = re.findall(r"\.(f16|bf16|f32|tf32|s32|s8|u8|f64)\b", name)
    return bool(kinds) and kinds[0] == "f16"


def exact_limit(spec: KernelSpec) -> int:
    """The largest sum of integers that the kernel's accumulators hold exactly."""
    limit = EXACT[spec.accumulator.name if spec.accumulator is not None else FP32.name]
    if not spec.is_rung and spec.out_dtypes[0] == FP16:
        return min(limit, _FP16_ROOM)
    return limit
