"""wmma: the warp-matrix instructions that ``nvcuda::wmma`` compiles to, built from other instructions.

Each becomes what ptxas makes of it: loads and stores as in ``wmma_code.py``, and mma.sync for a product, on registers
laid out as in ``wmma_fragments.py``.
"""

from __future__ import annotations

from gemmsmith.sim.instructions.pattern import Modifiers
from gemmsmith.sim.instructions.record import Composite
from gemmsmith.sim.instructions.wmma_code import Code, Place, Transfer
from gemmsmith.sim.instructions.wmma_fragments import (
    ACCUMULATORS,
    FACTORS,
    SHAPES,
    Layout,
    accumulator,
    factor,
    swapped,
)
from gemmsmith.sim.lowering.places import Refused, items, operands
from gemmsmith.sim.lowering.rewriting import Rewriting
from gemmsmith.sim.ptx.syntax import Address, Immediate, Instruction, Operand, Register, Vector

# -- loads and stores ---------------------------------------------------------------------------------


def _transfer(
    code: Code, i: Instruction, m: Modifiers, layout: Layout, at: int
) -> tuple[Transfer, tuple[Operand, ...]]:
    """The address is operand number ``at``; the registers are the other of the first two."""
    given = operands(i, 2, 3)
    address, registers = given[at], items(given[1 - at], layout.registers)
    by_rows = m["layout"] == "row"
    if not isinstance(address, Address):
        raise Refused
    pitch = given[2] if len(given) == 3 else Immediate(layout.pitch(by_rows), "int")
    place = Place(by_rows, m.get("space", "").removesuffix("::cta"), address, pitch)
    return Transfer(code, place, layout), registers


def _load(work: Rewriting, i: Instruction, m: Modifiers) -> list[Instruction]:
    code, layout = Code(work, i), factor(m["matrix"], m["shape"], m["type"])
    transfer, registers = _transfer(code, i, m, layout, 1)
    if layout.bits < 8 and not transfer.contiguous:
        raise Refused
    transfer.load_factor(registers)
    return code.made


def _load_accumulator(work: Rewriting, i: Instruction, m: Modifiers) -> list[Instruction]:
    code = Code(work, i)
    transfer, registers = _transfer(code, i, m, accumulator(m["shape"], m["type"]), 1)
    transfer.accumulator("ld", registers)
    return code.made


def _store_accumulator(work: Rewriting, i: Instruction, m: Modifiers) -> list[Instruction]:
    code = Code(work, i)
    transfer, registers = _transfer(code, i, m, accumulator(m["shape"], m["type"]), 0)
    transfer.accumulator("st", registers)
    return code.made


# -- products -----------------------------------------------------------------------------------------

# For each type: the shape of mma.sync, and the registers of its A, B and accumulators of 32 bits or more.
_PRODUCTS = {
    "f16": ("m16n8k16", 4, 2, 4), "bf16": ("m16n8k16", 4, 2, 4), "s8": ("m16n8k16", 2, 1, 4),
    "u8": ("m16n8k16", 2, 1, 4), "tf32": ("m16n8k4", 2, 1, 4), "f64": ("m8n8k4", 1, 1, 2),
    "s4": ("m8n8k32", 1, 1, 2), "u4": ("m8n8k32", 1, 1, 2), "b1": ("m8n8k128", 1, 1, 2),
}  # fmt: skip


class _Multiplication:
    """The products of one wmma.mma: groups of tiles of D, each a chain of mma.sync along K."""

    def __init__(self, code: Code, m: Modifiers, a: str, b: str, ending: str) -> None:
        self.code, self.kind, self.swapped = code, a, swapped(m["shape"])
        self.c, self.d = m["c"], m["d"]
        inner = "f32" if "f32" in (self.c, self.d) else self.c  # what mma.sync accumulates in
        shape, self.of_a, self.of_b, of_d = _PRODUCTS[a]
        self.of_d = of_d // 2 if inner == "f16" else of_d
        first, second = (b, a) if self.swapped else (a, b)
        saturate = ".satfinite" if "satfinite" in m else ""
        self.form = f"mma.sync.aligned.{shape}.row.col{saturate}.{inner}.{first}.{second}.{inner}{ending}"
        layouts = factor("a", m["shape"], a), factor("b", m["shape"], b)
        self.counts = [layout.registers for layout in layouts]
        self.tiles = [len(layout.tiles) for layout in layouts]
        self.of_c, self.of_result = (accumulator(m["shape"], kind).registers for kind in (self.c, self.d))

    def add(self, i: Instruction) -> None:
        given = operands(i, 4)
        d, a, b, c = (items(o, n) for o, n in zip(given, (self.of_result, *self.counts, self.of_c), strict=True))
        a, b = a[: self.tiles[0]], b[: self.tiles[1]]
        widened, narrowed = self.c != self.d and self.c == "f16", self.c != self.d and self.d == "f16"
        start = self._widened(c) if widened else c
        results = d if not narrowed else tuple(self.code.work.new("f32") for _ in range(2 * len(d)))
        overwritten = set(results) & {*a, *b} or set(results[: self.of_d]) & set(start[self.of_d :])
        targets = tuple(self.code.work.new("b64" if self.kind == "f64" else "b32") for _ in results)
        self._multiply(targets if overwritten else results, b if self.swapped else a, a if self.swapped else b, start)
        if overwritten:
            for target, value in zip(results, targets, strict=True):
                self.code.add("mov.b64" if self.kind == "f64" else "mov.b32", target, value)
        if narrowed:
            self._narrow(results, d)

    def _multiply(
        self, d: tuple[Operand, ...], a: tuple[Operand, ...], b: tuple[Operand, ...], c: tuple[Operand, ...]
    ) -> None:
        groups, steps = len(d) // self.of_d, 2 if self.kind == "tf32" else 1
        of_a, of_b = self.of_a * steps, self.of_b * steps  # the registers of one group, along all of K
        for group in range(groups):
            mine = slice(group * self.of_d, (group + 1) * self.of_d)
            first, second = (group * of_a) % len(a), (group * of_b) % len(b)
            total = c[mine]
            for step in range(steps):
                left = a[first + step * self.of_a : first + (step + 1) * self.of_a]
                right = b[second + step * self.of_b : second + (step + 1) * self.of_b]
                self.code.add(self.form, *map(Vector, (d[mine], left, right, total)))
                total = d[mine]

    def _widened(self, registers: tuple[Operand, ...]) -> tuple[Register, ...]:
        """fp16 accumulators as fp32."""
        halves = [half for register in registers for half in self.code.half_register(register)]
        return tuple(self.code.value("cvt.f32.f16", half, kind="f32") for half in halves)

    def _narrow(self, values: tuple[Operand, ...], into: tuple[Operand, ...]) -> None:
        """fp32 results to pairs of fp16."""
        halves = [self.code.value("cvt.rn.f16.f32", value, kind="b16") for value in values]
        for number, target in enumerate(into):
            self.code.add("mov.b32", target, Vector(tuple(halves[2 * number : 2 * number + 2])))


def _multiply(work: Rewriting, i: Instruction, m: Modifiers) -> list[Instruction]:
    a, b = m.get("a", "f16"), m.get("b", "f16")
    results = {"bf16": ("f32",), "tf32": ("f32",), "f64": ("f64",), "f16": ("f16", "f32")}.get(a, ("s32",))
    if a != b or m["c"] not in results or m["d"] not in results or ("satfinite" in m and "s32" not in results):
        raise Refused
    if ("a" in m) == (a == "f16"):  # fp16 is not named, every other type is
        raise Refused
    code = Code(work, i)
    _Multiplication(code, m, a, b, "").add(i)
    return code.made


def _multiply_bits(work: Rewriting, i: Instruction, m: Modifiers) -> list[Instruction]:
    code = Code(work, i)
    _Multiplication(code, {**m, "shape": "m8n8k128", "c": "s32", "d": "s32"}, "b1", "b1", f".{m['op']}.popc").add(i)
    return code.made


_PLACE = {"layout": "row col", "space": "shared shared::cta global", "shape": SHAPES}
_LAYOUTS = {"rows": "row col", "columns": "row col", "shape": SHAPES}
_RESULTS = {"d": ACCUMULATORS, "c": ACCUMULATORS}

COMPOSITES = (
    Composite("wmma.load.matrix.sync!.aligned!.layout!.shape!.space?.type!", _load,
              where={**_PLACE, "matrix": "a b", "type": FACTORS}),
    Composite("wmma.load.c.sync!.aligned!.layout!.shape!.space?.type!", _load_accumulator,
              where={**_PLACE, "type": ACCUMULATORS}),
    Composite("wmma.store.d.sync!.aligned!.layout!.shape!.space?.type!", _store_accumulator,
              where={**_PLACE, "type": ACCUMULATORS}),
    Composite("wmma.mma.sync!.aligned!.rows.columns.shape!.d.c", _multiply, where={**_LAYOUTS, **_RESULTS}),
    Composite("wmma.mma.sync!.aligned!.rows.columns.shape!.rn?.d.a.b.c.satfinite?", _multiply,
              where={**_LAYOUTS, **_RESULTS, "a": FACTORS, "b": FACTORS}),
    Composite("wmma.mma.op.popc.sync!.aligned!.row.col.m8n8k128!.s32.b1.b1.s32", _multiply_bits,
              where={"op": "and xor"}),
)  # fmt: skip
