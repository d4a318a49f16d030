"""Tensor-core fragments: which lane holds which element, and where in shared memory it came from."""

from __future__ import annotations

from typing import Any

from gemmsmith.report.view.model import ViewData, ViewSubject
from gemmsmith.report.view.packing import packed
from gemmsmith.trace.launch_trace import Event, Fragment, Kind, LaunchTrace
from gemmsmith.trace.recording.matrix_maps import ldmatrix_bytes

_MOST_PRODUCTS = 10
_MOST_LOADS = 8
_LOADS = (Kind.LOAD_MATRIX, Kind.STORE_MATRIX)


def build(subject: ViewSubject) -> ViewData | None:
    """Products with the layouts of their operands, and the loads that brought them."""
    trace = subject.trace
    products = [_product(trace, each) for each in _chosen(trace)]
    loads = _loads(trace)
    if not products and not loads:
        return None
    return ViewData("Fragments", _notice(trace), {"products": products, "loads": loads})


def _chosen(trace: LaunchTrace) -> list[Fragment]:
    """The first execution of each instruction, then further ones, of the first warp and of others."""
    seen: set[int] = set()
    first = []
    for each in trace.fragments:
        if each.instruction not in seen:
            seen.add(each.instruction)
            first.append(each)
    others = [each for each in trace.fragments if each not in first and each.warp != first[0].warp]
    return (first[: _MOST_PRODUCTS - 3] + others[:3])[:_MOST_PRODUCTS]


def _product(trace: LaunchTrace, one: Fragment) -> dict[str, Any]:
    instruction = trace.instructions[one.instruction]
    wide = instruction.kind is Kind.WGMMA
    return {
        "name": one.name, "warp": one.warp, "slot": one.start, "instruction": one.instruction, "rows": one.rows,
        "columns": one.columns, "depth": one.depth, "swizzle": one.swizzle, "threads": 2 * one.rows if wide else 32,
        "a": _operand(trace, one.a_held, one.a_of, one.a_shared),
        "b": _operand(trace, one.b_held, one.b_of, one.b_shared),
        "d": {"held": packed(one.d_held)},
    }  # fmt: skip


def _operand(trace: LaunchTrace, held: tuple[int, ...], of: tuple[int, ...], shared: tuple[int, ...]) -> dict[str, Any]:
    """Layout, elements as rows and columns of one array, and bytes of shared memory."""
    known = next((address for address in of if address >= 0), -1)
    array = trace.array_at(known)
    made: dict[str, Any] = {"held": packed(held), "array": "" if array is None else array.name}
    if any(at >= 0 for at in shared):
        made["shared"] = packed(shared)
    if array is not None:
        places = [array.place(address) if address >= 0 else (-1, -1) for address in of]
        made["row"], made["column"] = packed([r for r, _ in places]), packed([c for _, c in places])
    return made


def _loads(trace: LaunchTrace) -> list[dict[str, Any]]:
    """ldmatrix and stmatrix: the first execution of each instruction by the first warp that has one."""
    found: dict[int, tuple[int, Event]] = {}
    for warp in trace.warps:
        for event in warp.events:
            if trace.instructions[event.instruction].kind in _LOADS and event.instruction not in found:
                found[event.instruction] = warp.number, event
    return [_load(trace, warp, event) for warp, event in list(found.values())[:_MOST_LOADS]]


def _load(trace: LaunchTrace, warp: int, event: Event) -> dict[str, Any]:
    instruction, access = trace.instructions[event.instruction], event.access
    assert access is not None
    count = int((event.facts or {}).get("matrices", 1))
    row, byte = ldmatrix_bytes(".trans" in instruction.ptx)
    held = [0] * 64
    for lane in range(32):
        for part in range(2):
            held[int(row[lane, 2 * part]) * 8 + int(byte[lane, 2 * part]) // 2] = lane * 4096 + part
    pattern = trace.patterns[access.pattern]
    shared = [access.at + pattern[8 * m + r] + 2 * c for m in range(count) for r in range(8) for c in range(8)]
    of = [-1] * len(shared)
    if access.elements >= 0:
        elements = trace.patterns[access.elements]
        each = len(elements) // 32
        for n in range(len(shared)):
            m, r, c = n // 64, n // 8 % 8, n % 8
            offset = elements[(8 * m + r) * each + 2 * c // trace.granule]
            of[n] = -1 if offset < 0 else access.of + offset
    return {
        "warp": warp, "slot": event.start, "instruction": event.instruction, "matrices": count, "held": packed(held),
        "wavefronts": access.wavefronts, "groups": access.groups, "shared": packed(shared),
        **{key: value for key, value in _operand(trace, (), tuple(of), ()).items() if key != "held"},
    }  # fmt: skip


def _notice(trace: LaunchTrace) -> str:
    kinds = {instruction.kind for instruction in trace.instructions}
    if Kind.WGMMA in kinds and any(one.a_held and one.a_held[0] >= 0 for one in trace.fragments):
        return ("A warpgroup multiplies A from its registers by B straight from shared memory: each warp has 16 of the "
                "64 rows, and a lane's elements come in pairs. So A can be changed before it is used.")  # fmt: skip
    if Kind.WGMMA in kinds:
        return ("A warpgroup multiplies straight from shared memory: only the accumulators are in registers, each warp "
                "has 16 of the 64 rows, and a lane's columns come in pairs.")  # fmt: skip
    if Kind.LOAD_MATRIX in kinds:
        return ("No lane holds a whole row: four neighbouring lanes share one, two elements each. ldmatrix deals rows "
                "of shared memory out in just this order.")  # fmt: skip
    return "No lane holds a whole row: four neighbouring lanes share one, and each lane's elements lie far apart."
