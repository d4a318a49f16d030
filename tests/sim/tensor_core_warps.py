"""Small kernels around the warp-matrix instructions (wmma), for both the GPU and the simulator.

One warp, which is one block, is one case: wmma.load, wmma.mma, wmma.store of a tile in shared memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tensor_core_cases import Operands, Random, double_operands, float_operands, integer_operands
from tensor_core_kernels import BITS, SHARED_BYTES, compiled, run

from gemmsmith.run.device import Device

Array = NDArray[Any]
_TYPES = {"f32": ("float", "f"), "f64": ("double", "d")}
_WORD = ("unsigned", "r")
_STORAGE = {"f16": np.dtype(np.uint16), "f64": np.dtype(np.uint64)}


@dataclass(frozen=True)
class Warp:
    """A form of the warp-matrix instructions: m×n×k, types, layouts of A and B in memory, and of D."""

    m: int
    n: int
    k: int
    kind: str
    a: str = "row"
    b: str = "row"
    c: str = "f32"
    d: str = ""
    out: str = "row"
    saturate: bool = False
    operation: str = ""

    @property
    def shape(self) -> str:
        return f"m{self.m}n{self.n}k{self.k}"

    @property
    def result(self) -> str:
        """The type of D."""
        return self.d or self.c

    @property
    def registers(self) -> dict[str, int]:
        twice = 2 if self.kind == "f16" else 1
        unit = 32 * max(32, BITS[self.kind])
        of_a, of_b = (8 if twice == 2 else x * self.k * BITS[self.kind] // unit for x in (self.m, self.n))
        c, d = (self.m * self.n // (64 if kind == "f16" else 32) for kind in (self.c, self.result))
        return {"a": of_a, "b": of_b, "c": c, "d": d}

    def type_of(self, which: str) -> str:
        return {"c": self.c, "d": self.result}.get(which, self.kind)

    def bytes_of(self, which: str) -> int:
        """What the matrix takes in memory without padding."""
        elements = {"a": self.m * self.k, "b": self.k * self.n}.get(which, self.m * self.n)
        return elements * BITS[self.type_of(which)] // 8

    def load(self, which: str, layout: str, space: str = "shared") -> str:
        return f"wmma.load.{which}.sync.aligned.{layout}.{self.shape}.{space}.{self.type_of(which)}"

    @property
    def mma(self) -> str:
        ending = ".satfinite" if self.saturate else ""
        between = "" if self.kind == "f16" else f".{self.kind}.{self.kind}"
        kinds = f"{self.result}{between}.{self.c}{ending}"
        return f"wmma.mma{self.operation}.sync.aligned.{self.a}.{self.b}.{self.shape}.{kinds}"

    def store(self, layout: str = "row", space: str = "shared") -> str:
        return f"wmma.store.d.sync.aligned.{layout}.{self.shape}.{space}.{self.result}"

    @property
    def base(self) -> Warp:
        """The form whose results are the same, bit for bit: layouts in memory change none of them."""
        return replace(self, a="row", b="row" if _by_rows(self.kind) else "col", out="row")


def _by_rows(kind: str) -> bool:
    """Whether B may be stored by rows; elements narrower than a byte may not."""
    return BITS[kind] >= 8


SHAPES = ((16, 16, 16), (32, 8, 16), (8, 32, 16))
_LAYOUTS = tuple((a, b) for a in ("row", "col") for b in ("row", "col"))

WARP_FORMS = tuple(Warp(16, 16, 16, kind, a, b) for kind in ("f16", "bf16") for a, b in _LAYOUTS)
# Forms added to the recording after the first ones.
MORE_WARP_FORMS = (
    *(Warp(*shape, "f16", a, b, c, out=a)
      for shape in SHAPES for c in ("f16", "f32") for a, b in _LAYOUTS if (shape, c) != (SHAPES[0], "f32")),
    *(Warp(*shape, "f16", c=c, d=d) for shape in SHAPES for c, d in (("f16", "f32"), ("f32", "f16"))),
    *(Warp(*shape, "bf16", a, b, out=b) for shape in SHAPES[1:] for a, b in _LAYOUTS),
    *(Warp(*shape, "s8", a, b, "s32", out=a) for shape in SHAPES for a, b in _LAYOUTS),
    *(Warp(*shape, "s8", b="col", c="s32", saturate=True) for shape in SHAPES),
    *(Warp(*shape, "u8", a, b, "s32", out=b) for shape in SHAPES for a, b in _LAYOUTS[1:3]),
    *(Warp(16, 16, 8, "tf32", a, b, out=a) for a, b in _LAYOUTS),
    *(Warp(8, 8, 4, "f64", a, b, "f64", out=a) for a, b in _LAYOUTS),
    *(Warp(8, 8, 32, kind, b="col", c="s32", out="col") for kind in ("s4", "u4")),
    *(Warp(8, 8, 128, "b1", b="col", c="s32", operation=f".{op}.popc") for op in ("xor", "and")),
)  # fmt: skip

Dump = tuple[Warp, str, str]
DUMPS: tuple[Dump, ...] = tuple(
    (Warp(16, 16, 16, kind), which, layout) for kind in ("f16", "bf16") for which in "abc" for layout in ("row", "col")
)


def _more_dumps() -> tuple[Dump, ...]:
    """Every load that the forms have and that is not among the first dumps."""
    known = {form.load(which, layout) for form, which, layout in DUMPS}
    found: dict[str, Dump] = {}
    for form in MORE_WARP_FORMS:
        for which in "abc":
            for layout in ("row", "col"):
                narrow = which != "c" and not _by_rows(form.kind) and layout != {"a": "row", "b": "col"}[which]
                if form.load(which, layout) not in known and not narrow:
                    found.setdefault(form.load(which, layout), (form, which, layout))
    return tuple(found.values())


MORE_DUMPS = _more_dumps()


def _braced(names: Sequence[str]) -> str:
    return "{" + ", ".join(names) + "}"


def _asm_load(form: Warp, which: str, layout: str, pitch: str, at: str) -> str:
    """Declares and loads the registers of a fragment."""
    n = form.registers[which]
    kind, code = _TYPES.get(form.type_of(which), _WORD)
    names = [f"{which}{i}" for i in range(n)]
    outs = ", ".join(f'"={code}"({name})' for name in names)
    text = f"{form.load(which, layout)} {_braced([f'%{i}' for i in range(n)])}, [%{n}], %{n + 1};"
    return f"""{kind} {", ".join(names)};
    asm volatile("{text}" : {outs} : "r"({at}), "r"({pitch}) : "memory");"""


def dump_source(form: Warp, which: str, layout: str) -> str:
    """wmma.load from shared memory, then every register to global memory."""
    kind, _ = _TYPES.get(form.type_of(which), _WORD)
    stores = "\n    ".join(f"out[{32 * i} + threadIdx.x] = {which}{i};" for i in range(form.registers[which]))
    return f"""
extern "C" __global__ void one(const unsigned* data, {kind}* out, int pitch) {{
    extern __shared__ unsigned memory[];
    for (int i = threadIdx.x; i < {SHARED_BYTES // 4}; i += 32) memory[i] = data[i];
    __syncwarp();
    unsigned where = (unsigned)__cvta_generic_to_shared(memory);
    {_asm_load(form, which, layout, "pitch", "where")}
    {stores}
}}
"""


def warp_source(form: Warp) -> str:
    """D = A·B + C of one tile in shared memory: wmma.load, wmma.mma, wmma.store."""
    counts = form.registers
    pitches = {"a": form.k if form.a == "row" else form.m, "b": form.n if form.b == "row" else form.k, "c": form.n}
    layouts = {"a": form.a, "b": form.b, "c": "row"}
    words = {which: form.bytes_of(which) // 4 for which in "abcd"}
    copies = "\n    ".join(
        f"for (int i = threadIdx.x; i < {words[w]}; i += 32) memory[{start} + i] = {w}_in[blockIdx.x * {words[w]} + i];"
        for w, start in (("a", 0), ("b", 1024), ("c", 2048))
    )
    loads = "\n    ".join(_asm_load(form, w, layouts[w], str(pitches[w]), f"at_{w}") for w in "abc")
    numbers = iter(range(99))
    groups = [_braced([f"%{next(numbers)}" for _ in range(counts[which])]) for which in "dabc"]
    of_d, code_d = _TYPES.get(form.result, _WORD)
    outputs = ", ".join(f'"={code_d}"(d{i})' for i in range(counts["d"]))
    inputs = ", ".join(f'"{_TYPES.get(form.type_of(w), _WORD)[1]}"({w}{i})' for w in "abc" for i in range(counts[w]))
    stored = ", ".join(f'"{code_d}"(d{i})' for i in range(counts["d"]))
    return f"""
extern "C" __global__ void one(const unsigned* a_in, const unsigned* b_in, const unsigned* c_in, unsigned* out) {{
    extern __shared__ unsigned memory[];
    {copies}
    __syncwarp();
    unsigned at_a = (unsigned)__cvta_generic_to_shared(memory);
    unsigned at_b = at_a + 4096, at_c = at_a + 8192, at_d = at_a + 12288;
    {loads}
    {of_d} {", ".join(f"d{i}" for i in range(counts["d"]))};
    asm volatile("{form.mma} {", ".join(groups)};" : {outputs} : {inputs});
    asm volatile("{form.store(form.out)} [%0], {_braced([f"%{i + 2}" for i in range(counts["d"])])}, %1;"
                 :: "r"(at_d), "r"({form.n if form.out == "row" else form.m}), {stored} : "memory");
    __syncwarp();
    for (int i = threadIdx.x; i < {words["d"]}; i += 32) out[blockIdx.x * {words["d"]} + i] = memory[3072 + i];
}}
"""


def dump_inputs(form: Warp, which: str) -> Array:
    """Shared memory whose elements are their own numbers; elements of a byte or less are random."""
    bits = BITS[form.type_of(which)]
    if bits <= 8:
        return Random("dumps").words(SHARED_BYTES // 4).astype(np.uint32)
    return np.arange(8 * SHARED_BYTES // bits, dtype=f"u{bits // 8}").view(np.uint32)


def dump_pitch(form: Warp, which: str) -> int:
    """Elements from one row to the next: the smallest multiple of 48 bytes that every type may have."""
    return {4: 96, 1: 384}.get(BITS[form.type_of(which)], 48)


def run_dump(device: Device, form: Warp, which: str, layout: str, arch: str) -> Array:
    """Registers (registers, 32) after wmma.load of elements that are their own numbers."""
    n = form.registers[which]
    wide = form.type_of(which) == "f64"
    kernel = compiled(dump_source(form, which, layout), arch)
    pitch = dump_pitch(form, which).to_bytes(4, "little")
    found = run(device, kernel, 1, (dump_inputs(form, which),), 32 * n * (1 + wide), SHARED_BYTES, (pitch,))
    return found.view(np.uint64 if wide else np.uint32).reshape(n, 32)


def warp_operands(form: Warp) -> Operands:
    if form.kind == "f64":
        return double_operands(form.m, form.n, form.k)
    if form.c == "s32":
        return integer_operands(form.kind, form.kind, form.k * BITS[form.kind] // 8, 12, form.m, form.n)
    return float_operands(form.kind, form.k, part=16, columns=form.n, rows=form.m, accumulators=form.c)


def run_warp(device: Device, form: Warp, arch: str) -> Array:
    """D (cases, m, n) through wmma.load, wmma.mma and wmma.store."""
    o = warp_operands(form)
    a = o.a if form.a == "row" else np.ascontiguousarray(o.a.transpose(0, 2, 1))
    b = o.b if form.b == "row" else np.ascontiguousarray(o.b.transpose(0, 2, 1))
    words = len(a) * form.bytes_of("d") // 4
    found = run(device, compiled(warp_source(form), arch), len(a), (a, b, o.c), words, smem=SHARED_BYTES)
    found = found.view(_STORAGE.get(form.result, np.dtype(np.uint32)))
    if form.out == "col":
        return np.ascontiguousarray(found.reshape(len(a), form.n, form.m).transpose(0, 2, 1))
    return found.reshape(len(a), form.m, form.n)
