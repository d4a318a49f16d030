"""Kernels around one wgmma each, for both the GPU and the simulator: a warpgroup, which is a block, is one case.

A case has an image of shared memory, the descriptors of A and B relative to the start of that image, the registers of
A, and the accumulators. What a descriptor means is the hardware's: the recording says what came out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tensor_core_cases import FORMATS, Operands, Random, float_operands, integer_operands
from tensor_core_kernels import compiled

from gemmsmith.kernel.geometry import Geometry
from gemmsmith.run.device import Device, Launch

Array = NDArray[Any]
THREADS, ROWS, K_BYTES = 128, 64, 32
_SIZES = {"f16": 2, "bf16": 2, "tf32": 4, "e4m3": 1, "e5m2": 1, "s8": 1, "u8": 1}


@dataclass(frozen=True)
class Wgmma:
    """A form of wgmma.mma_async. ``image`` is in bytes."""

    a: str
    b: str
    d: str
    n: int = 8
    registers: bool = False
    saturate: bool = False
    trans_a: int = 0
    trans_b: int = 0
    negate_a: bool = False
    negate_b: bool = False
    scale_d: int = 1
    image: int = 2304

    @property
    def size(self) -> int:
        return _SIZES[self.a]

    @property
    def k(self) -> int:
        return K_BYTES // self.size

    @property
    def opcode(self) -> str:
        ending = ".satfinite" if self.saturate else ""
        return f"wgmma.mma_async.sync.aligned.m64n{self.n}k{self.k}.{self.d}.{self.a}.{self.b}{ending}"

    @property
    def name(self) -> str:
        """The opcode, and what its operands say."""
        flags = [f"-{x}" for x, on in (("a", self.negate_a), ("b", self.negate_b)) if on]
        flags += [f"T{x}" for x, on in (("a", self.trans_a), ("b", self.trans_b)) if on]
        flags += ["a in registers"] if self.registers else []
        flags += [] if self.scale_d else ["scale-d 0"]
        return f"{self.opcode} ({', '.join(flags)})" if flags else self.opcode

    @property
    def accumulators(self) -> int:
        """Registers of D in each thread."""
        return self.n // (4 if self.d == "f16" else 2)


def source(form: Wgmma) -> str:
    count = form.accumulators
    names = [f"%{i}" for i in range(count)]
    next_ = count
    if form.registers:
        of_a = "{" + ", ".join(f"%{next_ + i}" for i in range(4)) + "}"
        inputs, next_ = ", ".join(f'"r"(r{i})' for i in range(4)), next_ + 4
    else:
        of_a, inputs, next_ = f"%{next_}", '"l"(da)', next_ + 1
    of_b, inputs = f"%{next_}", inputs + ', "l"(db)'
    flags = ""
    if form.d != "s32":
        flags = f", {-1 if form.negate_a else 1}, {-1 if form.negate_b else 1}"
        if form.size == 2:
            flags += f", {form.trans_b}" if form.registers else f", {form.trans_a}, {form.trans_b}"
    outs = ", ".join(f'"+r"(d{i})' for i in range(count))
    loads = " ".join(f"unsigned d{i} = c[{THREADS * i}];" for i in range(count))
    registers = " ".join(f"unsigned r{i} = ra[{THREADS * i}];" for i in range(4))
    stores = " ".join(f"d[{THREADS * i}] = d{i};" for i in range(count))
    return f"""
extern "C" __global__ void one(const uint4* image, const unsigned long long* descriptors, const unsigned* ra,
                               const unsigned* c, unsigned* d) {{
    extern __shared__ __align__(1024) uint4 memory[];
    image += blockIdx.x * {form.image // 16};
    ra += blockIdx.x * {4 * THREADS} + threadIdx.x;
    c += blockIdx.x * {count * THREADS} + threadIdx.x;
    d += blockIdx.x * {count * THREADS} + threadIdx.x;
    for (int i = threadIdx.x; i < {form.image // 16}; i += {THREADS}) memory[i] = image[i];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    unsigned long long base = ((unsigned)__cvta_generic_to_shared(memory) & 0x3FFFF) >> 4;
    unsigned long long da = descriptors[blockIdx.x * 2] + base, db = descriptors[blockIdx.x * 2 + 1] + base;
    {registers if form.registers else ""}
    {loads}
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile("{{\\n.reg .pred p;\\nsetp.ne.b32 p, {form.scale_d}, 0;\\n"
                 "{form.opcode} {{{", ".join(names)}}}, {of_a}, {of_b}, p{flags};\\n}}"
                 : {outs} : {inputs} : "memory");
    asm volatile("wgmma.commit_group.sync.aligned;\\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
    {stores}
}}
"""


@dataclass(frozen=True)
class Cases:
    """Images (cases, bytes), descriptors (cases, 2), registers of A and accumulators (cases, registers, 128)."""

    image: Array
    descriptors: Array
    registers: Array
    accumulators: Array


def run(device: Device, form: Wgmma, cases: Cases, arch: str) -> Array:
    """What D holds, as (cases, registers, 128) words."""
    count = len(cases.image)
    words = count * form.accumulators * THREADS
    addresses = []
    for array in (cases.image, cases.descriptors, cases.registers, cases.accumulators, np.zeros(words, np.uint32)):
        raw = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        addresses.append(device.allocate(max(16, raw.nbytes)))
        device.write(addresses[-1], raw)
    arguments = tuple(a.to_bytes(8, "little") for a in addresses)
    geometry = Geometry((count, 1, 1), (THREADS, 1, 1), smem=form.image)
    device.launch(device.load(compiled(source(form), arch)), Launch(geometry, arguments))
    device.synchronize()
    result = device.read(addresses[-1], 4 * words).view(np.uint32)
    for address in addresses:
        device.free(address)
    return result.reshape(count, form.accumulators, THREADS)


# -- arithmetic: A and B without swizzle, in units of eight rows and 16 bytes ------------------------

_LEADING, _STRIDE = 128, 256  # bytes


def descriptor(start: int, leading: int, stride: int, swizzle: int = 0, base: int = 0) -> int:
    """The 64 bits of a matrix descriptor; sizes in bytes, swizzle 0, 32, 64 or 128."""
    mode = {0: 0, 128: 1, 64: 2, 32: 3}[swizzle]
    return start >> 4 | (leading >> 4) << 16 | (stride >> 4) << 32 | base << 49 | mode << 62


def _units(rows: Array) -> Array:
    """Rows of 32 bytes (cases, rows, 32) as units of eight rows and 16 bytes."""
    count, many, _ = rows.shape
    return rows.reshape(count, many // 8, 8, 2, 16).transpose(0, 1, 3, 2, 4).reshape(count, -1)


def arithmetic_cases(form: Wgmma, operands: Operands) -> Cases:
    """A (cases, 64, K), B (cases, K, n) and C (cases, 64, n) as an image, descriptors and accumulators."""
    count = len(operands.a)
    a = np.ascontiguousarray(operands.a).view(np.uint8).reshape(count, ROWS, K_BYTES)
    b = np.ascontiguousarray(operands.b.transpose(0, 2, 1)).view(np.uint8).reshape(count, form.n, K_BYTES)
    image = np.concatenate([_units(a), _units(b)], axis=1)
    pair = np.array([descriptor(0, _LEADING, _STRIDE), descriptor(ROWS * K_BYTES, _LEADING, _STRIDE)], np.uint64)
    registers = np.zeros((count, 4, THREADS), np.uint32)
    if form.registers:
        registers = fragments(a, form.size)
    return Cases(image, np.tile(pair, (count, 1)), registers, accumulator_registers(operands.c, form))


def fragments(rows: Array, size: int) -> Array:
    """A's rows of 32 bytes (cases, 64, 32) as registers: a word of each lane is 4 bytes of k of one row."""
    del size
    words = np.ascontiguousarray(rows).view(np.uint32)  # (cases, 64, 8)
    thread = np.arange(THREADS)
    row = thread // 32 * 16 + thread % 32 // 4
    found = [words[:, row + 8 * (i % 2), thread % 4 + 4 * (i // 2)] for i in range(4)]
    return np.stack(found, axis=1)


def accumulator_registers(c: Array, form: Wgmma) -> Array:
    """C (cases, 64, n) as registers (cases, registers, 128)."""
    thread = np.arange(THREADS)
    row, column = thread // 32 * 16 + thread % 32 // 4, 2 * (thread % 4)
    found = []
    for j in range(form.n // 8):
        for half in (0, 8):
            pair = [c[:, row + half, 8 * j + column + e] for e in (0, 1)]
            if form.d == "f16":
                found.append(pair[0].astype(np.uint32) | pair[1].astype(np.uint32) << 16)
            else:
                found += [x.astype(np.uint32) for x in pair]
    return np.stack(found, axis=1)


_BYTE_CLASSES = (("any", 24), ("few", 24), ("small", 16), ("spread", 24), ("special", 8))


def byte_operands(a_type: str, b_type: str, accumulators: str, n: int = 8, part: int = 1) -> Operands:
    """fp8: all values, few of them, small ones, and accumulators of all sizes, zero among them."""
    made: list[tuple[Array, Array, Array]] = []
    classes: list[str] = []
    for name, most in _BYTE_CLASSES:
        count = most // part
        r = Random(f"wgmma/{a_type}/{b_type}/{accumulators}/{n}/{name}")
        a, b = (r.words(count, *shape).astype(np.uint8) for shape in ((ROWS, 32), (32, n)))
        if name != "special":  # no NaN: e4m3 has it at 7f, e5m2 from 7d on, and Inf at 7c
            a, b = (np.where((x & 0x7F) >= (0x7F if t == "e4m3" else 0x7C), x & np.uint8(0xBF), x)
                    for x, t in ((a, a_type), (b, b_type)))  # fmt: skip
        if name == "few":
            a = np.where(r.chosen(6, *a.shape), a, np.uint8(0))
        if name == "small":
            a, b = a & np.uint8(0x8F), b & np.uint8(0x9F)
        if name == "spread":  # one product much larger than the others
            a, b = a & np.uint8(0xA7), b & np.uint8(0xB7)
            a[:, :, 3], b[:, 3] = a[:, :, 3] & np.uint8(0x87) | np.uint8(0x60), np.uint8(0x50)
        form = FORMATS[accumulators]
        low, high = (-12, 14) if accumulators == "f16" else (-20, 20)
        shape = (count, ROWS, n)
        c = form.encode(r.integers(0, 1, *shape), r.integers(low, high, *shape), r.integers(0, (1 << 23) - 1, *shape))
        c = np.where(r.chosen(3, *shape), form.storage.type(0), c)
        made.append((a, b, c))
        classes += [name] * count
    a, b, c = (np.ascontiguousarray(np.concatenate([m[i] for m in made])) for i in range(3))
    return Operands(a, b, c, tuple(classes))


def operands(form: Wgmma) -> Operands:
    if form.d == "s32":
        return integer_operands(form.a, form.b, K_BYTES, 12, rows=ROWS, columns=form.n)
    if form.size == 1:
        return byte_operands(form.a, form.b, form.d, form.n, 1 if form.n == 8 else 8)
    plain = (form.n, form.registers, form.negate_a, form.negate_b, form.scale_d) == (8, False, False, False, 1)
    part = 2 if plain else 24 if form.n < 128 else 60
    return float_operands(form.a, form.k, part, columns=form.n, rows=ROWS, accumulators=form.d)


def _image(n: int) -> int:
    return ROWS * K_BYTES + n * K_BYTES


FLOATS = tuple(Wgmma(t, t, d) for t, d in (("f16", "f32"), ("f16", "f16"), ("bf16", "f32"), ("tf32", "f32")))
BYTE_FLOATS = tuple(Wgmma(a, b, d) for a in ("e4m3", "e5m2") for b in ("e4m3", "e5m2") for d in ("f32", "f16"))
INTEGERS = tuple(Wgmma(a, b, "s32", saturate=s) for a in ("s8", "u8") for b in ("s8", "u8") for s in (False, True))
OTHERS = (
    *(Wgmma(t, t, d, registers=True) for t, d in (("f16", "f32"), ("f16", "f16"), ("bf16", "f32"), ("tf32", "f32"))),
    *(Wgmma(a, a, d, registers=True) for a, d in (("e4m3", "f32"), ("e5m2", "f16"), ("s8", "s32"))),
    *(Wgmma("f16", "f16", d, n=n, image=_image(n)) for d in ("f32", "f16") for n in (16, 24, 128, 256)),
    *(Wgmma("bf16", "bf16", "f32", n=n, image=_image(n)) for n in (40, 256)),
    Wgmma("e4m3", "e4m3", "f32", n=64, image=_image(64)), Wgmma("s8", "s8", "s32", n=96, image=_image(96)),
    *(Wgmma("f16", "f16", "f32", negate_a=a, negate_b=b) for a, b in ((True, False), (False, True), (True, True))),
    Wgmma("tf32", "tf32", "f32", negate_a=True), Wgmma("e4m3", "e5m2", "f32", negate_b=True),
    Wgmma("bf16", "bf16", "f32", scale_d=0), Wgmma("s8", "u8", "s32", scale_d=0),
    Wgmma("e5m2", "e4m3", "f32", scale_d=0),
)  # fmt: skip
ARITHMETIC = (*FLOATS, *BYTE_FLOATS, *INTEGERS, *OTHERS)


_MOST_WORDS = 24_000  # of one form in the recording


def thinned(form: Wgmma, cases: Cases) -> Cases:
    """One case in so many that a recording of the results stays small. All of them were compared once."""
    every = -(-len(cases.image) * form.accumulators * THREADS // _MOST_WORDS)
    return Cases(*(x[::every] for x in (cases.image, cases.descriptors, cases.registers, cases.accumulators)))


# -- layouts: an image of small whole numbers, and descriptors of all kinds --------------------------

LAYOUT_IMAGE = 65536


@dataclass(frozen=True)
class Layout:
    """A form, and the descriptors of its cases."""

    form: Wgmma
    pairs: tuple[tuple[int, int], ...]

    @property
    def name(self) -> str:
        return f"layouts of {self.form.name}"


def _descriptors(transposed: bool) -> list[int]:
    """Descriptors with every swizzle, at starts that kernels have, with offsets of many sizes."""
    found = []
    for swizzle in (0, 32, 64, 128):
        for start in (0, 32, 64, 96, 128, 1024, 2048, 4096 + 32):
            for leading, stride in ((16, 1024), (128, 256), (1024, 2048), (2048, 1024), (512, 256), (4096, 512)):
                found.append(descriptor(start, leading, stride, swizzle))
    for base in (1, 3, 7):
        found += [descriptor(start, 16, 1024, 128, base) for start in (0, 128 * base, 1024)]
        found += [descriptor(start, 16, 512, 64, base) for start in (0, 128 * base)]
    return found if not transposed else found[::2] + found[-15:]


def _pairs(trans_a: bool, trans_b: bool) -> tuple[tuple[int, int], ...]:
    plain = descriptor(8192, 128, 256)
    a, b = _descriptors(trans_a), _descriptors(trans_b)
    return (*((x, plain) for x in a), *((plain, x) for x in b))


LAYOUTS = (
    *(Layout(Wgmma("f16", "f16", "f32", n=n, trans_a=ta, trans_b=tb, image=LAYOUT_IMAGE), _pairs(bool(ta), bool(tb)))
      for n, ta, tb in ((16, 0, 0), (24, 1, 1))),
    Layout(Wgmma("f16", "f16", "f32", n=128, trans_b=1, image=LAYOUT_IMAGE), _pairs(False, True)[1::9]),
    Layout(Wgmma("tf32", "tf32", "f32", n=16, image=LAYOUT_IMAGE), _pairs(False, False)[::3]),
    Layout(Wgmma("s8", "s8", "s32", n=16, image=LAYOUT_IMAGE), _pairs(False, False)[::3]),
)  # fmt: skip


def layout_cases(layout: Layout) -> Cases:
    """One image for all: every element is a small whole number, so that sums are exact."""
    form, r = layout.form, Random(f"wgmma layout/{layout.form.name}")
    values = r.integers(-8, 8, LAYOUT_IMAGE // form.size)
    kind = {"f16": np.float16, "tf32": np.float32, "s8": np.int8}[form.a]
    image = values.astype(kind).view(np.uint8)
    count = len(layout.pairs)
    return Cases(np.tile(image, (count, 1)), np.array(layout.pairs, np.uint64),
                 np.zeros((count, 4, THREADS), np.uint32),
                 np.zeros((count, form.accumulators, THREADS), np.uint32))  # fmt: skip
