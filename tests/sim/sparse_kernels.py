"""Kernels around one sparse product each, mma.sp or wgmma.mma_async.sp: registers in, registers out.

Operands are raw words. The recording has them beside what an H200 computed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

import gemmsmith

Array = NDArray[Any]
KEPT, KEPT_WGMMA = (1, 2, 3, 4), (3, 4)  # cases of a form in the recording: normal, spread, one large, special
_PAIRS = np.array([0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b1110])  # two of four, the lower one first
_HALVES = np.array([0b0100, 0b1110])  # of tf32: one of two
_DTYPES = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "f32": np.float32,
           "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}  # fmt: skip
_COLUMNS = 16  # of the wgmma


@dataclass(frozen=True)
class Sparse:
    """A form of mma.sp, or of wgmma.mma_async.sp. ``registers``: those of A in a thread."""

    k: int
    a: str
    b: str
    d: str
    selector: int = 0
    registers: int = 4
    wgmma: bool = False
    a_shared: bool = False
    kind: str = "sp::ordered_metadata"
    saturate: bool = False

    @property
    def opcode(self) -> str:
        if self.wgmma:
            return f"wgmma.mma_async.sp.sync.aligned.m64n{_COLUMNS}k{self.k}.{self.d}.{self.a}.{self.b}"
        ending = ".satfinite" if self.saturate else ""
        return f"mma.{self.kind}.sync.aligned.m16n8k{self.k}.row.col{ending}.{self.d}.{self.a}.{self.b}.{self.d}"

    @property
    def name(self) -> str:
        in_registers = " (a in registers)" if self.wgmma and not self.a_shared else ""
        return f"{self.opcode}{in_registers} {self.selector}"

    @property
    def of_d(self) -> int:
        """Registers of C and D in a thread."""
        return (_COLUMNS // 2 if self.wgmma else 4) // (2 if self.d == "f16" else 1)


def _mma_forms() -> Iterator[Sparse]:
    floats = [("f16", "f16"), ("f16", "f32"), ("bf16", "f32")]
    for k, count, selectors in ((16, 2, 4), (32, 4, 2)):
        for a, d in floats:
            for selector in range(selectors):
                if (k, a, selector) == (32, "f16", 0):
                    yield Sparse(k, a, a, d, 0, count, kind="sp")
                yield Sparse(k, a, a, d, selector, count)
    yield from (Sparse(k, "tf32", "tf32", "f32", s, n) for k, n, many in ((8, 2, 4), (16, 4, 2)) for s in range(many))
    for narrow, first in ((8, 32), (4, 64)):
        kinds = [(f"s{narrow}", f"s{narrow}"), (f"u{narrow}", f"s{narrow}"), ("u8", "u8")][: 3 if narrow == 8 else 2]
        for k, count, selectors in ((first, 2, 2), (2 * first, 4, 1)):
            yield from (Sparse(k, a, b, "s32", s, count) for a, b in kinds for s in range(selectors))
    yield from (Sparse(64, a, "e4m3", "f32") for a in ("e4m3", "e5m2"))
    yield Sparse(64, "s8", "s8", "s32", saturate=True)


def _wgmma_forms() -> Iterator[Sparse]:
    types = [("f16", "f16", "f32", 32), ("f16", "f16", "f16", 32), ("bf16", "bf16", "f32", 32),
             ("tf32", "tf32", "f32", 16), ("e4m3", "e4m3", "f32", 64), ("e5m2", "e4m3", "f16", 64),
             ("s8", "s8", "s32", 64), ("u8", "s8", "s32", 64)]  # fmt: skip
    for a, b, d, k in types:
        for selector in (0,) if k == 64 else (0, 1):
            yield from (Sparse(k, a, b, d, selector, wgmma=True, a_shared=shared) for shared in (True, False))


FORMS = (*_mma_forms(), *_wgmma_forms())


# -- operands -----------------------------------------------------------------------------------------


def _values(random: np.random.Generator, kind: str, shape: tuple[int, ...], case: int) -> Array:
    """Words of elements: whole numbers, normal, spread, one much larger than others, special values."""
    if kind not in _DTYPES:
        return random.integers(0, 2**32, shape, np.uint64).astype(np.uint32)
    dtype = np.dtype(_DTYPES[kind])
    full = (*shape, 4 // dtype.itemsize)
    normal = random.standard_normal(full)
    values = {
        0: lambda: random.integers(-8, 9, full).astype(np.float64), 1: lambda: normal,
        2: lambda: normal * 2.0 ** random.integers(-7, 8, full),
        3: lambda: normal * np.where(random.random(full) < 0.06, 200.0, 2.0 ** random.integers(-9, 0, full)),
        4: lambda: np.where(random.random(full) < 0.03, random.choice([np.inf, -np.inf, np.nan, 0.0, -0.0], full),
                            normal),
    }[case % 5]()  # fmt: skip
    return np.ascontiguousarray(values.astype(dtype)).view(np.uint32).reshape(shape)


def _metadata(random: np.random.Generator, kind: str, shape: tuple[int, ...]) -> Array:
    codes = _HALVES if kind == "tf32" else _PAIRS
    chosen = codes[random.integers(0, codes.size, (*shape, 8))].astype(np.uint64)
    return (chosen << (4 * np.arange(8, dtype=np.uint64))).sum(-1).astype(np.uint32)


def operands(form: Sparse, random: np.random.Generator, cases: tuple[int, ...]) -> dict[str, Array]:
    """Arguments of the kernel. ``image``: shared memory of a wgmma, A and then B; else B's registers."""
    threads = 128 if form.wgmma else 32

    def made(kind: str, *shape: int) -> Array:
        return np.stack([_values(random, kind, shape, case) for case in cases])

    if form.wgmma:
        image = np.concatenate([made(form.a, 512), made(form.b, _COLUMNS * 16)], axis=1)
    else:
        image = made(form.b, form.registers, threads)
    return {"image": image, "a": made(form.a, form.registers, threads), "c": made(form.d, form.of_d, threads),
            "metadata": _metadata(random, form.a, (len(cases), threads))}  # fmt: skip


# -- kernels ------------------------------------------------------------------------------------------


def _list(start: int, count: int) -> str:
    return "{" + ", ".join(f"%{start + i}" for i in range(count)) + "}"


def _parameters(kind: str) -> str:
    words = ", ".join(f"const unsigned* {name}" for name in ("a", "c", "metadata"))
    return f'extern "C" __global__ void one(const {kind}* image, {words}, unsigned* d)'


def _source_mma(form: Sparse) -> str:
    of_a, of_d = form.registers, form.of_d
    text = (f"{form.opcode} {_list(0, of_d)}, {_list(of_d, of_a)}, {_list(of_d + of_a, of_a)}, "
            f"{_list(of_d + 2 * of_a, of_d)}, %{2 * (of_a + of_d)}, {form.selector};")  # fmt: skip
    outs = ", ".join(f'"=r"(d_[{i}])' for i in range(of_d))
    ins = [f'"r"({name}[{i}])' for name, count in (("a_", of_a), ("b_", of_a), ("c_", of_d)) for i in range(count)]
    return f"""{_parameters("unsigned")} {{
    int w = blockIdx.x, t = threadIdx.x;
    unsigned a_[{of_a}], b_[{of_a}], c_[{of_d}], d_[{of_d}];
    for (int i = 0; i < {of_a}; ++i) a_[i] = a[(w * {of_a} + i) * 32 + t], b_[i] = image[(w * {of_a} + i) * 32 + t];
    for (int i = 0; i < {of_d}; ++i) c_[i] = c[(w * {of_d} + i) * 32 + t];
    asm volatile("{text}" : {outs} : {", ".join(ins)}, "r"(metadata[w * 32 + t]));
    for (int i = 0; i < {of_d}; ++i) d[(w * {of_d} + i) * 32 + t] = d_[i];
}}
"""


def _source_wgmma(form: Sparse) -> str:
    of_d, chunks = form.of_d, (2048 + _COLUMNS * 64) // 16
    of_a, after = (f"%{of_d}", of_d + 1) if form.a_shared else (_list(of_d, 4), of_d + 4)
    flags = "" if form.d == "s32" else ", 1, 1"
    if form.a in ("f16", "bf16"):
        flags += ", 0, 0" if form.a_shared else ", 0"
    outs = ", ".join(f'"+r"(d_[{i}])' for i in range(of_d))
    ins = '"l"(da)' if form.a_shared else ", ".join(f'"r"(a_[{i}])' for i in range(4))
    return f"""{_parameters("uint4")} {{
    extern __shared__ __align__(1024) uint4 memory[];
    int w = blockIdx.x, t = threadIdx.x;
    for (int i = t; i < {chunks}; i += 128) memory[i] = image[w * {chunks} + i];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    unsigned long long base = ((unsigned)__cvta_generic_to_shared(memory) & 0x3FFFF) >> 4;
    unsigned long long da = base | 8ull << 16 | 16ull << 32, db = (base + 128) | 8ull << 16 | 32ull << 32;
    unsigned a_[4], d_[{of_d}], meta = metadata[w * 128 + t];
    for (int i = 0; i < 4; ++i) a_[i] = a[(w * 4 + i) * 128 + t];
    for (int i = 0; i < {of_d}; ++i) d_[i] = c[(w * {of_d} + i) * 128 + t];
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    asm volatile("{{\\n.reg .pred p;\\nsetp.ne.b32 p, 1, 0;\\n{form.opcode} {_list(0, of_d)}, {of_a}, %{after}, "
                 "%{after + 1}, {form.selector}, p{flags};\\n}}" : {outs} : {ins}, "l"(db), "r"(meta) : "memory");
    asm volatile("wgmma.commit_group.sync.aligned;\\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
    for (int i = 0; i < {of_d}; ++i) d[(w * {of_d} + i) * 128 + t] = d_[i];
}}
"""


def run(form: Sparse, given: dict[str, Array], device: str = "sim") -> Array:
    """D as (cases, registers, threads) words."""
    threads, smem = (128, 2048 + _COLUMNS * 64) if form.wgmma else (32, 0)
    cases = len(given["metadata"])
    d = np.zeros((cases, form.of_d, threads), np.uint32)
    source = _source_wgmma(form) if form.wgmma else _source_mma(form)
    result = gemmsmith.launch(source, "one", grid=cases, block=threads, smem=smem, args={**given, "d": d},
                              device=device, arch="sm_90a", hazards=device == "sim")  # fmt: skip
    assert not result.hazards
    found: Array = result["d"]
    return found
