"""Who owns what: C, the block's tile, the outputs of its warps and threads, and what of A and B feeds them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gemmsmith.report.view.model import ViewData, ViewSubject
from gemmsmith.report.view.packing import packed, ranges
from gemmsmith.trace.launch_trace import Access, Array, Event, Instruction, Kind, LaunchTrace

_WRITES = (Kind.STORE_GLOBAL, Kind.ATOMIC)
_MOST_SIDE = 512  # rows and columns of the tile that are drawn
_MOST_ACCESSES = 40  # of one line by one warp
_MOST_LINES = 18
_GLOBAL = (Kind.LOAD_GLOBAL, Kind.STORE_GLOBAL, Kind.ATOMIC, Kind.COPY, Kind.BULK_LOAD, Kind.BULK_STORE)


def build(subject: ViewSubject) -> ViewData | None:
    """The elements that each thread computes and stores, and the rows and columns that it consumes."""
    trace = subject.trace
    out = _output(trace)
    if out is None:
        return None
    stored, computed = _stored(trace, out), _computed(trace, out)
    box = _bounds([each for each in (stored, computed) if each])
    if box is None:
        return None
    maps = {"computes": _map(computed, box), "stores": _map(stored, box)}
    if not computed or (stored and np.array_equal(maps["computes"], maps["stores"])):
        maps = {"owns": maps["stores"]}
    elif not stored:
        maps = {"computes": maps["computes"]}
    lines, more = _lines(trace)
    data = {
        "out": out.name, "tile": box, "maps": {name: packed(values) for name, values in maps.items()},
        "roles": {array.role: array.name for array in trace.arrays if array.role},
        "fed": [{"array": each.array, "by_thread": packed(each.by_thread),
                 "sets": [[ranges(rows), ranges(columns)] for rows, columns in each.sets]} for each in trace.fed],
        "lines": lines, "more_lines": more, "blocks": _tiles(trace, out),
    }  # fmt: skip
    return ViewData("Who owns what", _notice(trace, maps, out), data)


def _notice(trace: LaunchTrace, maps: dict[str, NDArray[Any]], out: Array) -> str:
    values = next(iter(maps.values()))
    owners, counts = np.unique(values[values >= 0], return_counts=True)
    each = int(counts.max()) if counts.size else 0
    fed = {one.array: one for one in trace.fed}
    sides = [(array, fed[array.name]) for array in trace.arrays if array.role in ("A", "B") and array.name in fed]
    if owners.size == 1:
        return (f"One thread of the block's {trace.threads} stores {_count(each, 'element')} of {out.name}; the others "
                "help it to get there.")  # fmt: skip
    text = (f"{owners.size} threads share the block's {_count(int(counts.sum()), 'element')} of {out.name}, "
            f"{'up to ' if counts.min() < each else ''}{each} each.")  # fmt: skip
    if len(sides) == 2 and owners.size:
        (a, of_a), (b, of_b) = sides
        thread = int(owners[0])
        rows, columns = len(of_a.sets[of_a.by_thread[thread]][0]), len(of_b.sets[of_b.by_thread[thread]][1])
        text += (f" A thread combines {_count(rows, 'row')} of {a.name} with {_count(columns, 'column')} of {b.name}: "
                 f"in each step of k, {_count(rows * columns, 'multiply-add')} for {rows + columns} elements."
                 )  # fmt: skip
    copies = [name for name in fed if name.endswith(" in the workspace")]
    if len(sides) < 2 and copies:
        text += f" The kernel reads prepared copies ({', '.join(copies)}): where it does, A or B itself is not marked."
    if trace.problem.get("guessed"):
        text += (" What the kernel computes was not confirmed by a launch, so its matrices are drawn as their names "
                 "say, row-major: --layout says it otherwise.")  # fmt: skip
    if len(maps) == 2:
        text += " The threads exchange their results through shared memory before they store them: see both."
    return text


def _count(number: int, word: str) -> str:
    return f"{number:,} {word}{'s' * (number != 1)}"


def _output(trace: LaunchTrace) -> Array | None:
    """C, or the array that most elements are stored to."""
    for array in trace.arrays:
        if array.role in ("C", "D"):
            return array
    found: dict[str, int] = {}
    for _, event in _events(trace, _WRITES):
        assert event.access is not None
        target = trace.array_at(event.access.at)
        if target is not None:
            found[target.name] = found.get(target.name, 0) + event.access.used
    best = max(found, key=lambda name: found[name], default="")
    return next((array for array in trace.arrays if array.name == best), None)


def _events(trace: LaunchTrace, kinds: tuple[Kind, ...]) -> Iterator[tuple[int, Event]]:
    for warp in trace.warps:
        for event in warp.events:
            if event.access is not None and trace.instructions[event.instruction].kind in kinds:
                yield warp.number, event


Owned = list[tuple[int, NDArray[Any], NDArray[Any]]]  # thread, rows, columns


def _stored(trace: LaunchTrace, out: Array) -> Owned:
    found: Owned = []
    for warp, event in _events(trace, _WRITES):
        access = event.access
        if access is None or access.space != "global" or access.pattern < 0 or trace.array_at(access.at) != out:
            continue
        for lane, offset in enumerate(trace.patterns[access.pattern]):
            if offset >= 0:
                places = [out.place(access.at + offset + byte) for byte in range(0, access.width, out.itemsize)]
                rows, columns = zip(*places, strict=True)
                found.append((32 * warp + lane, np.array(rows), np.array(columns)))
    return found


def _computed(trace: LaunchTrace, out: Array) -> Owned:
    """Rows of A that a thread consumes times columns of B."""
    roles = {array.role: array.name for array in trace.arrays if array.role}
    fed = {each.array: each for each in trace.fed}
    if out.role not in ("C", "D") or roles.get("A") not in fed or roles.get("B") not in fed:
        return []
    a, b = fed[roles["A"]], fed[roles["B"]]
    found: Owned = []
    for thread, (one, other) in enumerate(zip(a.by_thread, b.by_thread, strict=True)):
        rows, columns = a.sets[one][0], b.sets[other][1]
        if rows and columns:
            down, across = np.meshgrid(rows, columns, indexing="ij")
            found.append((thread, down.reshape(-1), across.reshape(-1)))
    return found


def _bounds(some: list[Owned]) -> list[int] | None:
    """First row, first column, rows and columns of the block's outputs."""
    rows = [values for owned in some for _, values, _ in owned]
    columns = [values for owned in some for _, _, values in owned]
    if not rows:
        return None
    low = min(int(r.min()) for r in rows), min(int(c.min()) for c in columns)
    high = max(int(r.max()) for r in rows), max(int(c.max()) for c in columns)
    return [*low, *(min(_MOST_SIDE, b - a + 1) for a, b in zip(low, high, strict=True))]


def _map(owned: Owned, box: list[int]) -> NDArray[Any]:
    """The thread that owns each element of the tile, by rows; −1 if none does."""
    found = np.full((box[2], box[3]), -1, np.int64)
    for thread, rows, columns in owned:
        down, across = rows - box[0], columns - box[1]
        inside = (down < box[2]) & (across < box[3])
        found[down[inside], across[inside]] = thread
    return found


def _tiles(trace: LaunchTrace, out: Array) -> list[list[int]]:
    """What the other blocks store: first and last row and column."""
    return [[*block.block, box.first_row, box.last_row, box.first_column, box.last_column]
            for block in trace.blocks[:2048] for box in block.stored if box.array == out.name]  # fmt: skip


def _lines(trace: LaunchTrace) -> tuple[list[dict[str, Any]], int]:
    """Source lines that access global memory, with what each warp accesses there; and how many are left out."""
    found: dict[Line, dict[int, list[list[int]]]] = {}
    for warp in trace.warps:
        for event in warp.events:
            instruction = trace.instructions[event.instruction]
            if instruction.kind not in _GLOBAL:
                continue
            facts, access = event.facts or {}, event.access
            name = _array_of(trace, access) if access is not None else str(facts.get("array", ""))
            kept = found.setdefault(
                (instruction.file, instruction.line, _caller(instruction), str(instruction.kind), name), {}
            )
            mine = kept.setdefault(warp.number, [])
            if not name or len(mine) >= _MOST_ACCESSES:
                continue
            if access is not None:
                mine.append([access.pattern, access.at, access.width])
            elif "rows" in facts:
                mine.append([*facts["rows"], *facts["columns"]])
    known = {line: warps for line, warps in found.items() if line[4]}
    chosen = _chosen(known)
    made = [{"file": file, "line": line, "caller": caller, "kind": kind, "array": name,
             "warps": {str(number): some for number, some in warps.items()},
             "patterns": {str(one[0]): trace.patterns[one[0]] for some in warps.values() for one in some
                          if len(one) == 3}}
            for (file, line, caller, kind, name), warps in chosen]  # fmt: skip
    return made, len(known) - len(chosen)


Line = tuple[str, int, str, str, str]  # file, line, caller, kind, array


def _chosen(found: Mapping[Line, Any]) -> list[tuple[Line, Any]]:
    """At most ``_MOST_LINES`` lines in the order of execution: each kind of access to each array has its turn."""
    turns: dict[tuple[str, str], int] = {}
    ranked = []
    for n, line in enumerate(found):
        what = line[3], line[4]
        turns[what] = turns.get(what, -1) + 1
        ranked.append((turns[what], n, line))
    kept = sorted(sorted(ranked)[:_MOST_LINES], key=lambda item: item[1])
    return [(line, found[line]) for _, _, line in kept]


def _array_of(trace: LaunchTrace, access: Access) -> str:
    array = trace.array_at(access.at) if access.pattern >= 0 else None
    return "" if array is None else array.name


def _caller(instruction: Instruction) -> str:
    """Where the kernel calls the function that an instruction is in; '' if it is in the kernel's own file."""
    return "" if instruction.caller.startswith(f"{instruction.file}:") else instruction.caller
