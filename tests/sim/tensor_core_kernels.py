"""Small kernels around one matrix instruction each, in CUDA C++ with inline PTX, for both the GPU and the simulator.

One warp, which is one block, is one case. Registers lie in memory as (case, register, lane).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tensor_core_cases import (
    Operands,
    Random,
    double_operands,
    float_operands,
    integer_operands,
    small_accumulators,
)

from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.compile.nvrtc import compile_request
from gemmsmith.compile.render import CompileRequest
from gemmsmith.compile.toolchain import find_toolchain
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.run.device import Device, Launch

Array = NDArray[Any]
SHARED_BYTES = 16384


def _lane(lane: int) -> tuple[int, int]:
    """groupID and threadID_in_group of PTX's tables."""
    return lane // 4, lane % 4


def a_place(k: int, size: int, lane: int, i: int, m: int = 16) -> tuple[int, int]:
    """(row, column) of a lane's element i of A, as PTX's tables for each shape and type give it."""
    group, member = _lane(lane)
    each = max(1, 4 // size)
    if m == 8:  # one register
        return group, member * each + i
    if (size, k) in ((2, 8), (1, 16)):  # two registers: rows 0-7, then rows 8-15
        return group + (8 if i >= each else 0), member * each + i % each
    if k == 4:
        return group + 8 * i, member
    if size == 8:  # as many pairs of registers as K has fours
        return group + 8 * (i % 2), member + 4 * (i // 2)
    upper = (i // each) % 2 == 1  # four registers: a half of K after the other
    return group + (8 if upper else 0), member * each + i % each + (4 * each if i >= 2 * each else 0)


def b_place(k: int, size: int, lane: int, i: int) -> tuple[int, int]:
    """(row, column) of a lane's element i of B."""
    del k
    group, member = _lane(lane)
    each = max(1, 4 // size)
    return member * each + i % each + 4 * each * (i // each), group


def c_place(lane: int, i: int) -> tuple[int, int]:
    """(row, column) of a lane's element i of C and D."""
    group, member = _lane(lane)
    return group + (8 if i >= 2 else 0), member * 2 + (i & 1)


def quad_pair_place(which: str, layout: str, size: int, lane: int, i: int) -> tuple[int, int]:
    """The same for m8n8k4 of fp16, of which every warp computes four: one for each two groups of four lanes."""
    upper, member = 4 * (lane >= 16), lane % 4
    if which == "c" and size == 4:
        return (lane & 1) + (i & 2) + upper, (i & 4) + (lane & 2) + (i & 1)
    if which == "c" or (which == "a" and layout == "row"):
        return member + upper, i
    if which == "a":
        return i + upper, member
    return (member, i + upper) if layout == "row" else (i, member + upper)


def spread(matrices: Array, place: Callable[[int, int], tuple[int, int]], registers: int, size: int) -> Array:
    """Registers (cases, registers, 32, elements in one) of matrices (cases, rows, columns)."""
    each = max(1, 4 // size)
    places = [[[place(lane, r * each + e) for e in range(each)] for lane in range(32)] for r in range(registers)]
    index = np.array(places)
    return matrices[:, index[..., 0], index[..., 1]]


def spread_quad_pairs(matrices: Array, which: str, layout: str, registers: int, size: int) -> Array:
    """The same for m8n8k4 of fp16; four matrices are one case."""
    whole = spread(matrices, partial(quad_pair_place, which, layout, size), registers, size)
    own = np.arange(32) // 4 % 4
    return whole.reshape(-1, 4, *whole.shape[1:])[:, own, :, np.arange(32)].transpose(1, 2, 0, 3)


# The bits of an element, and how many 32-bit registers of a C++ type hold it.
BITS = {"b1": 1, "s4": 4, "u4": 4, "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8, "f16": 16, "bf16": 16, "tf32": 32, "f32": 32,
        "s32": 32, "f64": 64}  # fmt: skip
_TYPES = {"f32": ("float", "f"), "f64": ("double", "d")}
_WORD = ("unsigned", "r")


@dataclass(frozen=True)
class Mma:
    """A form of mma.sync, with 8 columns."""

    k: int
    a: str
    b: str
    d: str
    saturate: bool = False
    m: int = 16
    c: str = ""
    layouts: str = "row.col"
    ending: str = ""

    @property
    def accumulators(self) -> str:
        """The type of C."""
        return self.c or self.d

    @property
    def opcode(self) -> str:
        middle = ".satfinite" if self.saturate else ""
        shape = f"m{self.m}n8k{self.k}"
        kinds = f"{self.d}.{self.a}.{self.b}.{self.accumulators}"
        return f"mma.sync.aligned.{shape}.{self.layouts}{middle}.{kinds}{self.ending}"

    @property
    def size(self) -> int:
        """Bytes of what registers of A and B consist of; elements narrower than a byte come by the byte."""
        return max(1, BITS[self.a] // 8)

    @property
    def depth(self) -> int:
        """K in units of ``size`` bytes."""
        return self.k * BITS[self.a] // (8 * self.size)

    @property
    def quad_pairs(self) -> bool:
        return self.m == 8 and self.a == "f16"

    @property
    def registers(self) -> tuple[int, int]:
        if self.quad_pairs:
            return 2, 2
        unit = max(4, self.size) * 32
        return self.m * self.depth * self.size // unit, self.depth * self.size * 8 // unit

    def outputs(self, kind: str) -> int:
        """Registers of C or D."""
        return (4 if self.quad_pairs else 1) * self.m // 4 // (2 if kind == "f16" else 1)

    def operands(self, part: int = 1) -> Operands:
        if self.a == "f64":
            return double_operands(self.m, 8, self.k)
        if self.d == "s32" or self.a in ("e4m3", "e5m2"):
            count = 12 if self.d == "s32" else 40
            made = integer_operands(self.a, self.b, self.depth, count, rows=self.m)
            return made if self.d == "s32" else small_accumulators(made)
        part *= 1 if self.m == 16 else 2
        made = float_operands(self.a, self.k, part, rows=self.m, accumulators=self.accumulators)
        # Four matrices make a case.
        return made.part(len(made.a) // 4 * 4) if self.quad_pairs else made


FLOAT_FORMS = (
    *(Mma(k, kind, kind, "f32") for kind in ("f16", "bf16") for k in (16, 8)),
    *(Mma(k, "tf32", "tf32", "f32") for k in (8, 4)),
)
INTEGER_FORMS = tuple(
    Mma(k, a, b, "s32", saturate)
    for k in (32, 16) for a in ("s8", "u8") for b in ("s8", "u8") for saturate in (False, True)
)  # fmt: skip
HALF_FORMS = tuple(Mma(k, "f16", "f16", "f16") for k in (16, 8))
# m8n8k4 as sm_70 has it: ptxas builds it from fused multiply-adds.
QUAD_PAIR_FORMS = tuple(
    Mma(4, "f16", "f16", d, m=8, c=c, layouts=f"{one}.{other}")
    for one in ("row", "col") for other in ("row", "col") for d, c in (("f16", "f16"), ("f32", "f32"), ("f32", "f16"))
)  # fmt: skip
NARROW_FORMS = (
    *(Mma(16, a, b, "s32", saturate, m=8) for a in ("s8", "u8") for b in ("s8", "u8") for saturate in (False, True)),
    *(Mma(k, a, b, "s32", saturate, m=m)
      for m, k in ((8, 32), (16, 32), (16, 64)) for a, b in (("s4", "s4"), ("u4", "u4"), ("s4", "u4"), ("u4", "s4"))
      for saturate in (False, True)),
    *(Mma(k, "b1", "b1", "s32", m=m, ending=f".{op}.popc")
      for m, k in ((8, 128), (16, 128), (16, 256)) for op in ("and", "xor")),
)  # fmt: skip
DOUBLE_FORMS = tuple(Mma(k, "f64", "f64", "f64", m=m) for m, k in ((8, 4), (16, 4), (16, 8), (16, 16)))
BYTE_FLOAT_FORMS = tuple(Mma(32, a, b, "f32") for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2"))
# Forms added to the recording after the first ones.
MORE_FORMS = (*HALF_FORMS, *QUAD_PAIR_FORMS, *NARROW_FORMS, *DOUBLE_FORMS, *BYTE_FLOAT_FORMS)


def mma_source(form: Mma) -> str:
    na, nb = form.registers
    nd, nc = form.outputs(form.d), form.outputs(form.accumulators)
    (of_d, code_d), (of_c, code_c), (of_a, code_a) = (
        _TYPES.get(k, _WORD) for k in (form.d, form.accumulators, form.a if form.a == "f64" else "")
    )
    names = [f"%{i}" for i in range(nd + na + nb + nc)]
    groups = (names[:nd], names[nd : nd + na], names[nd + na : nd + na + nb], names[nd + na + nb :])
    text = ", ".join("{" + ", ".join(group) + "}" for group in groups)
    outputs = ", ".join(f'"={code_d}"(d{i})' for i in range(nd))
    inputs = ", ".join(
        f'"{code}"({name}[{32 * i}])'
        for name, code, count in (("a", code_a, na), ("b", code_a, nb), ("c", code_c, nc)) for i in range(count)
    )  # fmt: skip
    stores = "\n    ".join(f"d[{32 * i}] = d{i};" for i in range(nd))
    return f"""
extern "C" __global__ void one(const {of_a}* a, const {of_a}* b, const {of_c}* c, {of_d}* d) {{
    a += blockIdx.x * {32 * na} + threadIdx.x;
    b += blockIdx.x * {32 * nb} + threadIdx.x;
    c += blockIdx.x * {32 * nc} + threadIdx.x;
    d += blockIdx.x * {32 * nd} + threadIdx.x;
    {of_d} {", ".join(f"d{i}" for i in range(nd))};
    asm volatile("{form.opcode} {text};" : {outputs} : {inputs});
    {stores}
}}
"""


@dataclass(frozen=True)
class Matrices:
    """A form of ldmatrix or stmatrix: 8×8 matrices of 16-bit elements, one row of 16 bytes per lane."""

    count: int
    transposed: bool
    store: bool = False

    @property
    def opcode(self) -> str:
        name = "stmatrix" if self.store else "ldmatrix"
        return f"{name}.sync.aligned.m8n8.x{self.count}{'.trans' if self.transposed else ''}.shared.b16"

    @property
    def name(self) -> str:
        return f"{'stm' if self.store else 'ldm'}_x{self.count}{'_trans' if self.transposed else ''}"


MATRIX_FORMS = tuple(Matrices(n, t, s) for s in (False, True) for n in (1, 2, 4) for t in (False, True))


def matrix_source(form: Matrices, fill: bool = True, entry: str = "one") -> str:
    """Reads (or writes) matrices at each lane's byte offset ``at``; shared memory comes from and goes to global."""
    n = form.count
    registers = "{" + ", ".join(f"%{i + form.store}" for i in range(n)) + "}"
    prepare = f"for (int i = threadIdx.x; i < {SHARED_BYTES // 4}; i += 32) memory[i] = data[i];" if fill else ""
    if form.store:
        inputs = ", ".join(f'"r"(r{i})' for i in range(n))
        body = f"""
    unsigned {", ".join(f"r{i} = in[blockIdx.x * {32 * n} + {32 * i} + threadIdx.x]" for i in range(n))};
    {prepare}
    __syncwarp();
    asm volatile("{form.opcode} [%0], {registers};" :: "r"(where), {inputs} : "memory");
    __syncwarp();
    out += blockIdx.x * {SHARED_BYTES // 4};
    {f"for (int i = threadIdx.x; i < {SHARED_BYTES // 4}; i += 32) out[i] = memory[i];" if fill else ""}"""
    else:
        stores = "\n    ".join(f"out[blockIdx.x * {32 * n} + {32 * i} + threadIdx.x] = r{i};" for i in range(n))
        outs = ", ".join(f'"=r"(r{i})' for i in range(n))
        body = f"""
    unsigned {", ".join(f"r{i}" for i in range(n))};
    {prepare}
    __syncwarp();
    asm volatile("{form.opcode} {registers}, [%{n}];" : {outs} : "r"(where) : "memory");
    {stores}"""
    return f"""
extern "C" __global__ void {entry}(const unsigned* data, const int* at, const unsigned* in, unsigned* out) {{
    extern __shared__ unsigned memory[];
    unsigned where = (unsigned)__cvta_generic_to_shared(memory) + at[blockIdx.x * 32 + threadIdx.x];
{body}
}}
"""


CONVERSIONS = ("cvt.rna.tf32.f32", "cvt.rn.tf32.f32")


def conversion_source(opcode: str) -> str:
    return f"""
extern "C" __global__ void one(const float* in, unsigned* out) {{
    unsigned r;
    asm volatile("{opcode} %0, %1;" : "=r"(r) : "f"(in[blockIdx.x * 32 + threadIdx.x]));
    out[blockIdx.x * 32 + threadIdx.x] = r;
}}
"""


def conversion_inputs() -> Array:
    """fp32 numbers of all exponents, with fractions about the border that rounding to ten bits has."""
    random = Random("conversions")
    bits = random.words(4096).astype(np.uint32)
    edge = (random.words(4096) % np.uint64(5)).astype(np.uint32) + np.uint32(0x0FFE)
    return np.where(random.chosen(2, 4096), (bits & np.uint32(0xFFFFE000)) | edge, bits)


def conversion_edges() -> Array:
    """Infinities, NaNs whose payload is in the lowest bits, the largest numbers, and the smallest."""
    words = np.array([0, 1, 0xFFF, 0x1000, 0x1001, 0x7FFFFF, 0x7F800000, 0x7F800001, 0x7F801000, 0x7F801FFF, 0x7F802000,
                      0x7FFFFFFF, 0x7F7FFFFF, 0x7F7FEFFF, 0x7F7FF000, 0x7F7FE000], np.uint32)  # fmt: skip
    return np.concatenate([words, words | np.uint32(1 << 31)])


def run_conversion(device: Device, opcode: str, inputs: Array, arch: str) -> Array:
    return run(device, compiled(conversion_source(opcode), arch), inputs.size // 32, (inputs,), inputs.size)


@cache
def compiled(source: str, arch: str, entry: str = "one") -> CompiledKernel:
    request = CompileRequest("tensor_core.cu", source, (), (), arch, entry)
    return compile_request(request, find_toolchain(), key=f"{arch}/{hash(source):x}")


def run(device: Device, kernel: CompiledKernel, blocks: int, inputs: Sequence[Array], words: int, smem: int = 0,
        scalars: tuple[bytes, ...] = ()) -> Array:  # fmt: skip
    """Launch one warp per block; pointers to the inputs and to ``words`` output words, then ``scalars``."""
    addresses = []
    for array in (*inputs, np.zeros(words, np.uint32)):
        raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        addresses.append(device.allocate(raw.nbytes))
        device.write(addresses[-1], raw)
    arguments = (*(a.to_bytes(8, "little") for a in addresses), *scalars)
    device.launch(device.load(kernel), Launch(Geometry((blocks, 1, 1), (32, 1, 1), smem=smem), arguments))
    device.synchronize()
    result = device.read(addresses[-1], 4 * words).view(np.uint32)
    for address in addresses:
        device.free(address)
    return result


def run_mma(device: Device, form: Mma, operands: Operands, arch: str) -> Array:
    """D in registers, (cases, registers, 32); of 64 bits for float64."""
    na, nb = form.registers
    nc, nd = form.outputs(form.accumulators), form.outputs(form.d)
    size = {"f16": 2, "f64": 8}.get(form.accumulators, 4)
    if form.quad_pairs:
        one, other = form.layouts.split(".")
        a = spread_quad_pairs(operands.a, "a", one, na, 2)
        b = spread_quad_pairs(operands.b, "b", other, nb, 2)
        c = spread_quad_pairs(operands.c, "c", "", nc, size)
    else:
        a = spread(operands.a, partial(a_place, form.depth, form.size, m=form.m), na, form.size)
        b = spread(operands.b, partial(b_place, form.depth, form.size), nb, form.size)
        c = spread(operands.c, c_place, nc, size)
    words = nd * 32 * (2 if form.d == "f64" else 1)
    found = run(device, compiled(mma_source(form), arch), len(a), (a, b, c), words * len(a))
    return found.view(np.uint64 if form.d == "f64" else np.uint32).reshape(-1, nd, 32)


def matrix_inputs(form: Matrices, cases: int = 6) -> tuple[Array, Array, Array]:
    """(shared memory as words, byte offsets (cases, 32), registers (cases, count, 32))."""
    random = Random(form.opcode)
    data = np.arange(SHARED_BYTES // 2, dtype=np.uint16).view(np.uint32)
    at = np.stack([np.argsort(random.words(SHARED_BYTES // 16), kind="stable")[:32] * 16 for _ in range(cases)])
    return data, at.astype(np.int32), random.words(cases, form.count, 32).astype(np.uint32)


def run_matrix(device: Device, form: Matrices, arch: str) -> Array:
    """Registers (cases, count, 32) of a load; shared memory (cases, words) after a store."""
    data, at, registers = matrix_inputs(form)
    words = len(at) * (SHARED_BYTES // 4 if form.store else 32 * form.count)
    found = run(device, compiled(matrix_source(form), arch), len(at), (data, at, registers), words, smem=SHARED_BYTES)
    return found.reshape(len(at), -1) if form.store else found.reshape(len(at), form.count, 32)
