"""From PTX instructions to operations on rows of a register file.

Registers become rows of four arrays, by width: predicates, 16, 32 and 64 bits. An operation names the
rows it reads and writes, so that independent operations of one kind can later run as one NumPy call.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gemmsmith.sim import calls, ptx
from gemmsmith.sim.matrix_forms import MatrixLowering
from gemmsmith.sim.memory import LOCAL_WINDOW, SHARED_WINDOW
from gemmsmith.sim.semantics import NUMPY, Function, semantics, unknown
from gemmsmith.sim.wmma import expand

FILES = {1: "p", 2: "h", 4: "w", 8: "d"}
FILE_DTYPES: dict[str, np.dtype[Any]] = {
    "p": np.dtype(bool), "h": np.dtype(np.uint16), "w": np.dtype(np.uint32), "d": np.dtype(np.uint64),
}  # fmt: skip
SPECIAL = (*(f"%{n}.{d}" for n in ("tid", "ntid", "ctaid", "nctaid") for d in "xyz"), "%laneid", "%warpid")


@dataclass(frozen=True, slots=True)
class Slot:
    """A row of a register file, seen as ``dtype`` (narrower than the row: converted)."""

    file: str
    row: int
    dtype: np.dtype[Any]

    @property
    def cell(self) -> tuple[str, int]:
        return self.file, self.row


Source = Slot | np.generic


@dataclass(frozen=True, slots=True)
class Operation:
    """What one instruction does. ``kind`` chooses the executor; operations of equal ``key`` may run as one."""

    kind: str
    instruction: ptx.Instruction
    key: tuple[Any, ...]
    targets: tuple[Slot, ...] = ()
    sources: tuple[Source, ...] = ()
    function: Function | None = None
    space: str = ""
    width: int = 0
    offsets: tuple[int, ...] = ()
    label: str = ""
    number: int = 0
    guard: Slot | None = None
    negated: bool = False

    def reads(self) -> list[tuple[str, int]]:
        cells = [s.cell for s in self.sources if isinstance(s, Slot)]
        if self.guard is not None:
            cells.append(self.guard.cell)
        return cells

    def writes(self) -> list[tuple[str, int]]:
        return [t.cell for t in self.targets]


@dataclass(frozen=True)
class Lowered:
    """An entry's operations, label positions, register-file heights and memory layout."""

    operations: tuple[Operation, ...]
    labels: dict[str, int]
    heights: dict[str, int]
    special: dict[str, int]
    static_shared: int
    dynamic_symbols: tuple[str, ...]
    local_size: int


def lower(entry: ptx.Entry, addresses: dict[str, int], ring: bool = False) -> Lowered:
    """Lower a whole entry; ``addresses`` places the module's .global and .const variables."""
    return _Lowering(expand(entry), addresses, ring).result()


class _Lowering(MatrixLowering):
    def __init__(self, entry: ptx.Entry, addresses: dict[str, int], ring: bool) -> None:
        self.entry, self.ring = entry, ring
        self.rows: dict[str, Slot] = {}
        self.widths = {name: 1 if kind == "pred" else ptx.TYPE_BYTES[kind] for name, kind in entry.registers}
        self.heights = dict.fromkeys(FILE_DTYPES, 0)
        for name, width in self.widths.items():
            self.rows[name] = self._new_row(FILES[width])
        self.special = {name: self._new_row("w").row for name in SPECIAL}
        self.symbols: dict[str, tuple[str, int]] = {name: ("global", at) for name, at in addresses.items()}
        self.static_shared = self.local_size = 0
        self.dynamic: list[str] = []
        self._place_variables()
        offset = 0
        for parameter in entry.parameters:
            offset = -(-offset // parameter.align) * parameter.align
            self.symbols[parameter.name] = ("param", offset)
            offset += parameter.size

    def _new_row(self, file: str) -> Slot:
        row = self.heights[file]
        self.heights[file] += 1
        return Slot(file, row, FILE_DTYPES[file])

    def _place_variables(self) -> None:
        for variable in self.entry.variables:
            if variable.space == "shared" and variable.size == 0:
                self.dynamic.append(variable.name)
            elif variable.space == "shared":
                at = -(-self.static_shared // variable.align) * variable.align
                self.symbols[variable.name] = ("shared", at)
                self.static_shared = at + variable.size
            elif variable.space == "local":
                at = -(-self.local_size // variable.align) * variable.align
                self.symbols[variable.name] = ("local", at)
                self.local_size = at + variable.size
        for name in self.dynamic:  # dynamic shared memory follows the static, 16-byte aligned
            self.symbols[name] = ("shared", -(-self.static_shared // 16) * 16)

    def result(self) -> Lowered:
        operations = tuple(self._lower(instruction) for instruction in self.entry.instructions)
        return Lowered(operations, dict(self.entry.labels), self.heights, self.special,
                       self.static_shared, tuple(self.dynamic), self.local_size)  # fmt: skip

    # -- operands ---------------------------------------------------------------------------------

    def _slot(self, operand: ptx.Operand, kind: str, instruction: ptx.Instruction) -> Slot:
        if not isinstance(operand, ptx.Register):
            raise unknown(instruction)
        row = self.rows[operand.name]
        return Slot(row.file, row.row, NUMPY[kind])

    def _source(self, operand: ptx.Operand, kind: str, instruction: ptx.Instruction) -> Source:
        dtype = NUMPY[kind]
        if isinstance(operand, ptx.Register):
            return self._slot(operand, kind, instruction)
        if isinstance(operand, ptx.Immediate):
            return _constant(operand, dtype)
        if isinstance(operand, ptx.Symbol):
            if operand.name in self.special:
                return Slot("w", self.special[operand.name], dtype)
            if operand.name in self.symbols:
                return _scalar(self.symbols[operand.name][1], dtype)
            if operand.name == "WARP_SZ":
                return _scalar(32, dtype)
            if operand.name.startswith("%"):
                raise unknown(instruction, operand.name)
        raise unknown(instruction)

    def _address(self, operand: ptx.Operand, instruction: ptx.Instruction) -> tuple[Source, int]:
        if not isinstance(operand, ptx.Address):
            raise unknown(instruction)
        if isinstance(operand.base, ptx.Register):
            row = self.rows[operand.base.name]
            return Slot(row.file, row.row, FILE_DTYPES[row.file]), operand.offset
        base = 0
        if isinstance(operand.base, ptx.Symbol):
            if operand.base.name not in self.symbols:
                raise unknown(instruction)
            base = self.symbols[operand.base.name][1]
        return np.uint64((base + operand.offset) % (1 << 64)), 0

    # -- instructions -----------------------------------------------------------------------------

    def _lower(self, i: ptx.Instruction) -> Operation:
        guard = None if i.guard is None else self._slot(i.guard, "pred", i)
        fields: dict[str, Any] = {"instruction": i, "guard": guard, "negated": i.negated}
        handler = getattr(self, f"_op_{i.opcode}", None)
        operation = handler(i) if handler is not None else self._compute(i)
        if operation is None:
            raise unknown(i)
        kind, rest = operation
        fields.update(rest)
        shape = tuple(_form(s) for s in fields.get("sources", ()))
        targets = tuple(_form(t) for t in fields.get("targets", ()))
        key = (kind, fields.get("function"), fields.get("space"), fields.get("width"), shape, targets,
               None if guard is None else (guard.row, i.negated), fields.get("number", 0))  # fmt: skip
        return Operation(kind=kind, key=key, **fields)

    def _compute(self, i: ptx.Instruction) -> tuple[str, dict[str, Any]]:
        meaning = semantics(i, self.ring)
        if len(i.operands) != 1 + len(meaning.arguments):
            raise unknown(i)
        sources = tuple(self._source(o, k, i) for o, k in zip(i.operands[1:], meaning.arguments, strict=True))
        target = self._slot(i.operands[0], meaning.result, i)
        fields = {"function": meaning.function, "targets": (target,), "sources": sources}
        if i.opcode == "lop3":  # the truth table must be one for all operations that run together
            table = i.operands[4]
            if not isinstance(table, ptx.Immediate):
                raise unknown(i)
            fields["number"] = table.bits
        return "compute", fields

    def _op_mov(self, i: ptx.Instruction) -> tuple[str, dict[str, Any]]:
        target, source = i.operands if len(i.operands) == 2 else (None, None)
        if isinstance(target, ptx.Vector):
            return self._unpack(i, target, source)
        if isinstance(source, ptx.Vector) and target is not None:
            return self._pack(i, target, source)
        return self._compute(i)

    def _unpack(self, i: ptx.Instruction, target: ptx.Vector, source: ptx.Operand | None) -> tuple[str, dict[str, Any]]:
        if source is None or i.type not in ("b32", "b64"):
            raise unknown(i)
        width = ptx.TYPE_BYTES[i.type] // len(target.items)
        targets = tuple(self._slot(t, f"b{8 * width}", i) for t in target.items if t != ptx.Symbol("_"))
        parts = tuple(n for n, t in enumerate(target.items) if t != ptx.Symbol("_"))
        return "unpack", {"targets": targets, "sources": (self._source(source, i.type, i),), "width": width,
                          "offsets": parts}  # fmt: skip

    def _pack(self, i: ptx.Instruction, target: ptx.Operand, source: ptx.Vector) -> tuple[str, dict[str, Any]]:
        if i.type not in ("b32", "b64"):
            raise unknown(i)
        width = ptx.TYPE_BYTES[i.type] // len(source.items)
        sources = tuple(self._source(s, f"b{8 * width}", i) for s in source.items)
        return "pack", {"targets": (self._slot(target, i.type, i),), "sources": sources, "width": width}

    def _op_cvta(self, i: ptx.Instruction) -> tuple[str, dict[str, Any]]:
        """Generic addresses are global ones; shared and local have windows of their own."""
        to = "to" in i.modifiers
        space = next((s for s in ("global", "shared", "local", "const", "param") if s in i.modifiers), "")
        window = {"global": 0, "const": 0, "shared": SHARED_WINDOW, "local": LOCAL_WINDOW}.get(space)
        if window is None or i.type != "u64":
            raise unknown(i)
        shift = np.uint64((-window if to else window) % (1 << 64))
        sources = (self._source(i.operands[1], "u64", i), shift)
        return "compute", {"function": np.add, "targets": (self._slot(i.operands[0], "u64", i),), "sources": sources}

    def _memory_form(self, i: ptx.Instruction) -> tuple[str, int]:
        """The space and the vector length of a load or store; cache and ordering hints do not matter here."""
        harmless = {"nc", "ca", "cg", "cs", "lu", "cv", "wb", "wt", "relaxed", "weak", "volatile", "gpu", "cta", "sys"}
        space, count = "generic", 1
        for modifier in i.modifiers[:-1]:
            base = modifier.split("::")[0]
            if modifier == "shared::cluster":
                raise unknown(i)
            if base in ("global", "shared", "local", "param", "const"):
                space = "global" if base == "const" else base
            elif modifier in ("v2", "v4"):
                count = int(modifier[1:])
            elif base not in harmless | {"L1", "L2", "cta"}:
                raise unknown(i)
        if i.type not in NUMPY or i.type == "pred" or ptx.TYPE_BYTES[i.type] * count > 16:
            raise unknown(i)
        return space, count

    def _op_ld(self, i: ptx.Instruction) -> tuple[str, dict[str, Any]]:
        space, count = self._memory_form(i)
        items = i.operands[0].items if isinstance(i.operands[0], ptx.Vector) else (i.operands[0],)
        if len(items) != count:
            raise unknown(i)
        if space == "param" and self._is_of_call(i.operands[1]):
            return self._move_parameter(i, i.operands[1], i.operands[0])
        base, offset = self._address(i.operands[1], i)
        targets = tuple(self._slot(t, i.type, i) for t in items)
        return "load", {"targets": targets, "sources": (base,), "space": space, "offsets": (offset,),
                        "width": ptx.TYPE_BYTES[i.type] * count}  # fmt: skip

    def _op_st(self, i: ptx.Instruction) -> tuple[str, dict[str, Any]]:
        space, count = self._memory_form(i)
        if space == "param":
            return self._move_parameter(i, i.operands[0], i.operands[1])
        items = i.operands[1].items if isinstance(i.operands[1], ptx.Vector) else (i.operands[1],)
        if len(items) != count:
            raise unknown(i)
        base, offset = self._address(i.operands[0], i)
        sources = (base, *(self._source(s, i.type, i) for s in items))
        return "store", {"sources": sources, "space": space, "offsets": (offset,),
                         "width": ptx.TYPE_BYTES[i.type] * count}  # fmt: skip

    _op_ldu = _op_ld

    def _is_of_call(self, operand: ptx.Operand) -> bool:
        """Whether an address in .param space is that of a call's parameter and not of the kernel's."""
        base = operand.base if isinstance(operand, ptx.Address) else None
        if isinstance(base, ptx.Register):
            return base.name.startswith(ptx.CALL_PARAMETER)
        return isinstance(base, ptx.Symbol) and base.name not in self.symbols

    def _move_parameter(self, i: ptx.Instruction, at: ptx.Operand, other: ptx.Operand) -> tuple[str, dict[str, Any]]:
        register = calls.parameter(at, ptx.TYPE_BYTES[i.type], self.widths)
        if register is None or isinstance(other, ptx.Vector):
            raise calls.unknown_function(i, self.entry.instructions)
        target, source = (register, other) if i.opcode == "st" else (other, register)
        return self._compute(calls.as_move(i, target, source))

    def _op_call(self, i: ptx.Instruction) -> tuple[str, dict[str, Any]]:
        name, results, arguments = calls.parts(i)
        if name == calls.ASSERT and not results and len(arguments) == 5:
            return "assert", {"sources": (self._source(arguments[0], "u64", i),)}
        if name == calls.PRINT and len(results) == 1:
            zero = _scalar(0, NUMPY["b32"])
            return "compute", {"function": np.copy, "targets": (self._slot(results[0], "b32", i),), "sources": (zero,)}
        raise calls.unknown_function(i, self.entry.instructions)

    def _op_red(self, i: ptx.Instruction) -> tuple[str, dict[str, Any]]:
        return self._atomic(i, (), i.operands[0], i.operands[1:])

    def _op_atom(self, i: ptx.Instruction) -> tuple[str, dict[str, Any]]:
        return self._atomic(i, i.operands[:1], i.operands[1], i.operands[2:])

    def _atomic(self, i: ptx.Instruction, old: tuple[ptx.Operand, ...], address: ptx.Operand,
                values: tuple[ptx.Operand, ...]) -> tuple[str, dict[str, Any]]:  # fmt: skip
        """add, and max of integers, on global or shared memory."""
        harmless = {"relaxed", "gpu", "cta", "sys", "acquire", "release", "acq_rel", "global", "shared"}
        spaces = [m.split("::")[0] for m in i.modifiers if m.split("::")[0] in ("global", "shared")]
        does = [m.removesuffix("::cta") for m in i.modifiers[:-1] if m.removesuffix("::cta") not in harmless]
        types = {"add": ("f32", "u32", "s32", "u64", "f64"), "max": ("u32", "s32")}
        if len(does) != 1 or i.type not in types.get(does[0], ()) or len(values) != 1:
            raise unknown(i)
        base, offset = self._address(address, i)
        targets = tuple(self._slot(o, i.type, i) for o in old if o != ptx.Symbol("_"))
        return "atomic", {"targets": targets, "sources": (base, self._source(values[0], i.type, i)),
                          "space": spaces[0] if spaces else "generic", "offsets": (offset,),
                          "width": ptx.TYPE_BYTES[i.type], "label": does[0]}  # fmt: skip

    def _op_cp(self, i: ptx.Instruction) -> tuple[str, dict[str, Any]]:
        """cp.async and its groups."""
        if i.modifiers[:2] == ("async", "commit_group"):
            return "commit", {}
        if i.modifiers[:2] == ("async", "wait_group") and isinstance(i.operands[0], ptx.Immediate):
            return "wait", {"number": i.operands[0].bits}
        if i.modifiers[:2] == ("async", "wait_all"):
            return "wait", {"number": -1}
        names = [m.removesuffix("::cta") for m in i.modifiers]
        hints = all(m.startswith("L2::") and m.endswith("B") for m in i.modifiers[4:])
        if (
            names[:1] != ["async"]
            or names[1:2] not in (["ca"], ["cg"])
            or names[2:4] != ["shared", "global"]
            or not hints
        ):
            raise unknown(i)
        if not isinstance(i.operands[2], ptx.Immediate) or len(i.operands) > 4:
            raise unknown(i)
        width = i.operands[2].bits
        if width not in (4, 8, 16) or (names[1] == "cg" and width != 16):
            raise unknown(i)
        target, target_offset = self._address(i.operands[0], i)
        source, source_offset = self._address(i.operands[1], i)
        size = self._source(i.operands[3], "u32", i) if len(i.operands) == 4 else np.uint32(width)
        if isinstance(size, Slot) and size.file != "w":  # the form that ignores the source by a predicate
            raise unknown(i)
        return "copy", {"sources": (target, source, size), "width": width, "offsets": (target_offset, source_offset)}

    def _op_bra(self, i: ptx.Instruction) -> tuple[str, dict[str, Any]]:
        if not isinstance(i.operands[0], ptx.Symbol) or not set(i.modifiers) <= {"uni"}:
            raise unknown(i)
        return "branch", {"label": i.operands[0].name}

    def _op_bar(self, i: ptx.Instruction) -> tuple[str, dict[str, Any]]:
        if i.modifiers == ("warp", "sync") and len(i.operands) == 1:
            return "warp_barrier", {"sources": (self._source(i.operands[0], "u32", i),)}
        if i.modifiers not in (("sync",), ("sync", "aligned")) or len(i.operands) != 1:
            raise unknown(i)
        if not isinstance(i.operands[0], ptx.Immediate):
            raise unknown(i)
        return "barrier", {"number": i.operands[0].bits}

    _op_barrier = _op_bar

    def _op_ret(self, _: ptx.Instruction) -> tuple[str, dict[str, Any]]:
        return "exit", {}

    _op_exit = _op_ret

    def _op_membar(self, i: ptx.Instruction) -> tuple[str, dict[str, Any]]:
        if not set(i.modifiers) <= {"cta", "gl", "sys", "sc", "acq_rel", "acquire", "release", "gpu", "cluster"}:
            raise unknown(i)
        return "fence", {}

    _op_fence = _op_membar

    def _op_griddepcontrol(self, i: ptx.Instruction) -> tuple[str, dict[str, Any]]:
        """Launches here run one after another: the one before has ended."""
        if i.modifiers not in (("wait",), ("launch_dependents",)):
            raise unknown(i)
        return "fence", {}

    def _op_shfl(self, i: ptx.Instruction) -> tuple[str, dict[str, Any]]:
        if i.modifiers[:1] != ("sync",) or i.modifiers[1] not in ("idx", "up", "down", "bfly") or i.type != "b32":
            raise unknown(i)
        predicate = len(i.operands) == 6
        targets = [self._slot(i.operands[0], "b32", i)]
        if predicate:
            targets.append(self._slot(i.operands[1], "pred", i))
        sources = tuple(self._source(o, "u32", i) for o in i.operands[1 + predicate :])
        if len(sources) != 4:
            raise unknown(i)
        return "shuffle", {"targets": tuple(targets), "sources": sources, "label": i.modifiers[1]}


def _constant(operand: ptx.Immediate, dtype: np.dtype[Any]) -> np.generic:
    if dtype == np.dtype(bool):
        return np.bool_(operand.bits != 0)
    if operand.kind == "f64" and dtype == np.dtype(np.float32):
        return np.float32(np.uint64(operand.bits).view(np.float64))
    return _scalar(operand.bits, dtype)


def _scalar(bits: int, dtype: np.dtype[Any]) -> np.generic:
    """The scalar of ``dtype`` with the given bit pattern."""
    raw = np.array([bits % (1 << (8 * dtype.itemsize))], f"u{dtype.itemsize}")
    value: np.generic = raw.view(dtype)[0]
    return value


def _form(source: Source) -> tuple[str, ...]:
    return (source.file, source.dtype.str) if isinstance(source, Slot) else ("const",)
