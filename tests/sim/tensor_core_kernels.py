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
from tensor_core_cases import Operands, Random, float_operands, integer_operands

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


def a_place(k: int, size: int, lane: int, i: int) -> tuple[int, int]:
    """(row, column) of a lane's element i of A, as PTX's tables for each shape and type give it."""
    group, member = _lane(lane)
    each = 4 // size
    if (size, k) in ((2, 8), (1, 16)):  # two registers: rows 0-7, then rows 8-15
        return group + (8 if i >= each else 0), member * each + i % each
    if (size, k) == (4, 4):
        return group + 8 * i, member
    upper = (i // each) % 2 == 1  # four registers: a half of K after the other
    return group + (8 if upper else 0), member * each + i % each + (4 * each if i >= 2 * each else 0)


def b_place(k: int, size: int, lane: int, i: int) -> tuple[int, int]:
    """(row, column) of a lane's element i of B."""
    del k
    group, member = _lane(lane)
    each = 4 // size
    return member * each + i % each + 4 * each * (i // each), group


def c_place(lane: int, i: int) -> tuple[int, int]:
    """(row, column) of a lane's element i of C and D."""
    group, member = _lane(lane)
    return group + (8 if i >= 2 else 0), member * 2 + (i & 1)


def spread(matrices: Array, place: Callable[[int, int], tuple[int, int]], registers: int, size: int) -> Array:
    """Registers (cases, registers, 32, elements in one) of matrices (cases, rows, columns)."""
    each = 4 // size
    places = [[[place(lane, r * each + e) for e in range(each)] for lane in range(32)] for r in range(registers)]
    index = np.array(places)
    return matrices[:, index[..., 0], index[..., 1]]


@dataclass(frozen=True)
class Mma:
    """A form of mma.sync with 16 rows and 8 columns."""

    k: int
    a: str
    b: str
    d: str
    saturate: bool = False

    @property
    def opcode(self) -> str:
        middle = ".satfinite" if self.saturate else ""
        return f"mma.sync.aligned.m16n8k{self.k}.row.col{middle}.{self.d}.{self.a}.{self.b}.{self.d}"

    @property
    def size(self) -> int:
        return {"f16": 2, "bf16": 2, "tf32": 4}.get(self.a, 1)

    @property
    def registers(self) -> tuple[int, int]:
        return self.k * self.size // 8, self.k * self.size // 16

    def operands(self, part: int = 1) -> Operands:
        return float_operands(self.a, self.k, part) if self.d == "f32" else integer_operands(self.a, self.b, self.k)


FLOAT_FORMS = (
    *(Mma(k, kind, kind, "f32") for kind in ("f16", "bf16") for k in (16, 8)),
    *(Mma(k, "tf32", "tf32", "f32") for k in (8, 4)),
)
INTEGER_FORMS = tuple(
    Mma(k, a, b, "s32", saturate)
    for k in (32, 16) for a in ("s8", "u8") for b in ("s8", "u8") for saturate in (False, True)
)  # fmt: skip


def mma_source(form: Mma) -> str:
    na, nb = form.registers
    names = [f"%{i}" for i in range(4 + na + nb + 4)]
    groups = (names[:4], names[4 : 4 + na], names[4 + na : 4 + na + nb], names[4 + na + nb :])
    text = ", ".join("{" + ", ".join(group) + "}" for group in groups)
    outputs = ", ".join(f'"=r"(d{i})' for i in range(4))
    inputs = ", ".join([*(f'"r"(a[{32 * i}])' for i in range(na)), *(f'"r"(b[{32 * i}])' for i in range(nb)),
                        *(f'"r"(c[{32 * i}])' for i in range(4))])  # fmt: skip
    if form.d == "f32":
        outputs = outputs.replace("=r", "=f")
        inputs = ", ".join([*inputs.split(", ")[: na + nb], *(f'"f"(__uint_as_float(c[{32 * i}]))' for i in range(4))])
    kind, store = ("float", "__float_as_uint(d{})") if form.d == "f32" else ("unsigned", "d{}")
    stores = "\n    ".join(f"d[{32 * i}] = {store.format(i)};" for i in range(4))
    return f"""
extern "C" __global__ void one(const unsigned* a, const unsigned* b, const unsigned* c, unsigned* d) {{
    a += blockIdx.x * {32 * na} + threadIdx.x;
    b += blockIdx.x * {32 * nb} + threadIdx.x;
    c += blockIdx.x * 128 + threadIdx.x;
    d += blockIdx.x * 128 + threadIdx.x;
    {kind} d0, d1, d2, d3;
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


@dataclass(frozen=True)
class Warp:
    """A form of the warp-matrix instructions: m×n×k, type, layouts of A and B."""

    m: int
    n: int
    k: int
    kind: str
    a: str = "row"
    b: str = "row"

    @property
    def shape(self) -> str:
        return f"m{self.m}n{self.n}k{self.k}"

    @property
    def registers(self) -> dict[str, int]:
        each = 8 if self.kind == "f16" else 4
        return {"a": each, "b": each, "c": 8}

    @property
    def size(self) -> int:
        return {"f16": 2, "bf16": 2}[self.kind]

    def load(self, which: str, layout: str, space: str = "shared") -> str:
        kind = "f32" if which == "c" else self.kind
        return f"wmma.load.{which}.sync.aligned.{layout}.{self.shape}.{space}.{kind}"

    @property
    def mma(self) -> str:
        kinds = "f32.f32" if self.kind == "f16" else f"f32.{self.kind}.{self.kind}.f32"
        return f"wmma.mma.sync.aligned.{self.a}.{self.b}.{self.shape}.{kinds}"

    def store(self, layout: str = "row", space: str = "shared") -> str:
        return f"wmma.store.d.sync.aligned.{layout}.{self.shape}.{space}.f32"


WARP_FORMS = tuple(
    Warp(16, 16, 16, kind, a, b) for kind in ("f16", "bf16") for a in ("row", "col") for b in ("row", "col")
)
DUMPS = tuple(
    (Warp(16, 16, 16, kind), which, layout) for kind in ("f16", "bf16") for which in "abc" for layout in ("row", "col")
)


def _braced(names: Sequence[str]) -> str:
    return "{" + ", ".join(names) + "}"


def dump_source(form: Warp, which: str, layout: str) -> str:
    """wmma.load from shared memory, then every register to global memory."""
    n = form.registers[which]
    f = which == "c"
    store = "__float_as_uint(r{})" if f else "r{}"
    stores = "\n    ".join(f"out[{32 * i} + threadIdx.x] = {store.format(i)};" for i in range(n))
    outs = ", ".join(f'"={"f" if f else "r"}"(r{i})' for i in range(n))
    text = f"{form.load(which, layout)} {_braced([f'%{i}' for i in range(n)])}, [%{n}], %{n + 1};"
    return f"""
extern "C" __global__ void one(const unsigned* data, unsigned* out, int pitch) {{
    extern __shared__ unsigned memory[];
    for (int i = threadIdx.x; i < {SHARED_BYTES // 4}; i += 32) memory[i] = data[i];
    __syncwarp();
    unsigned where = (unsigned)__cvta_generic_to_shared(memory);
    {"float" if f else "unsigned"} {", ".join(f"r{i}" for i in range(n))};
    asm volatile("{text}" : {outs} : "r"(where), "r"(pitch) : "memory");
    {stores}
}}
"""


def warp_source(form: Warp) -> str:
    """D = A·B + C of one tile in shared memory: wmma.load, wmma.mma, wmma.store."""
    counts = form.registers
    na, nb, nc = counts["a"], counts["b"], counts["c"]
    pitch_a, pitch_b = (form.k if form.a == "row" else form.m), (form.n if form.b == "row" else form.k)
    words = {"a": form.m * form.k * form.size // 4, "b": form.k * form.n * form.size // 4, "c": form.m * form.n}

    def load(which: str, layout: str, pitch: int, constraint: str) -> str:
        n = counts[which]
        outs = ", ".join(f'"={constraint}"({which}{i})' for i in range(n))
        text = f"{form.load(which, layout)} {_braced([f'%{i}' for i in range(n)])}, [%{n}], %{n + 1};"
        return f'asm volatile("{text}" : {outs} : "r"(at_{which}), "r"({pitch}) : "memory");'

    copies = "\n    ".join(
        f"for (int i = threadIdx.x; i < {words[w]}; i += 32) memory[{start} + i] = {w}_in[blockIdx.x * {words[w]} + i];"
        for w, start in (("a", 0), ("b", 1024), ("c", 2048))
    )
    names = [f"%{i}" for i in range(2 * nc + na + nb)]
    groups = (names[:nc], names[nc : nc + na], names[nc + na : nc + na + nb], names[nc + na + nb :])
    outputs = ", ".join(f'"=f"(d{i})' for i in range(nc))
    inputs = ", ".join([*(f'"r"(a{i})' for i in range(na)), *(f'"r"(b{i})' for i in range(nb)),
                        *(f'"f"(c{i})' for i in range(nc))])  # fmt: skip
    return f"""
extern "C" __global__ void one(const unsigned* a_in, const unsigned* b_in, const unsigned* c_in, unsigned* out) {{
    extern __shared__ unsigned memory[];
    {copies}
    __syncwarp();
    unsigned at_a = (unsigned)__cvta_generic_to_shared(memory);
    unsigned at_b = at_a + 4096, at_c = at_a + 8192, at_d = at_a + 12288;
    unsigned {", ".join(f"a{i}" for i in range(na))}, {", ".join(f"b{i}" for i in range(nb))};
    float {", ".join(f"c{i}, d{i}" for i in range(nc))};
    {load("a", form.a, pitch_a, "r")}
    {load("b", form.b, pitch_b, "r")}
    {load("c", "row", form.n, "f")}
    asm volatile("{form.mma} {", ".join(map(_braced, groups))};" : {outputs} : {inputs});
    asm volatile("{form.store()} [%0], {_braced([f"%{i + 2}" for i in range(nc)])}, %1;"
                 :: "r"(at_d), "r"({form.n}), {", ".join(f'"f"(d{i})' for i in range(nc))} : "memory");
    __syncwarp();
    for (int i = threadIdx.x; i < {words["c"]}; i += 32) out[blockIdx.x * {words["c"]} + i] = memory[3072 + i];
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
    """D in registers, (cases, 4, 32)."""
    na, nb = form.registers
    a = spread(operands.a, partial(a_place, form.k, form.size), na, form.size)
    b = spread(operands.b, partial(b_place, form.k, form.size), nb, form.size)
    c = spread(operands.c, c_place, 4, 4)
    found = run(device, compiled(mma_source(form), arch), len(operands.a), (a, b, c), 128 * len(operands.a))
    return found.reshape(-1, 4, 32)


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


def dump_inputs(form: Warp, which: str) -> Array:
    """Shared memory whose elements are their own numbers."""
    size = 4 if which == "c" else form.size
    return np.arange(SHARED_BYTES // size, dtype=f"u{size}").view(np.uint32)


PITCH = 48


def run_dump(device: Device, form: Warp, which: str, layout: str, arch: str) -> Array:
    """Registers (registers, 32) after wmma.load of elements that are their own numbers."""
    n = form.registers[which]
    kernel = compiled(dump_source(form, which, layout), arch)
    found = run(device, kernel, 1, (dump_inputs(form, which),), 32 * n, SHARED_BYTES, (PITCH.to_bytes(4, "little"),))
    return found.reshape(n, 32)


def warp_operands(form: Warp) -> Operands:
    return float_operands(form.kind, form.k, part=16, columns=form.n)


def run_warp(device: Device, form: Warp, arch: str) -> Array:
    """D (cases, m, n) through wmma.load, wmma.mma and wmma.store."""
    o = warp_operands(form)
    a = o.a if form.a == "row" else np.ascontiguousarray(o.a.transpose(0, 2, 1))
    b = o.b if form.b == "row" else np.ascontiguousarray(o.b.transpose(0, 2, 1))
    words = len(a) * form.m * form.n
    found = run(device, compiled(warp_source(form), arch), len(a), (a, b, o.c), words, smem=SHARED_BYTES)
    return found.reshape(len(a), form.m, form.n)
