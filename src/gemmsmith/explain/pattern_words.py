"""An access pattern in words: what a warp's lanes access, why that is slow, and what to change."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise

from gemmsmith.explain.access_pattern import WORD, AccessPattern, Declaration
from gemmsmith.sim.wavefronts import BANKS, NOBODY

_ROW = WORD * BANKS  # bytes after which the banks repeat
_LIKELY_ROW = 64  # bytes; lanes that far apart are in different rows, where the length of a row is not known


def conflict_words(pattern: AccessPattern) -> str:
    """'The 32 threads of a warp read 32 words of As, 128 bytes apart (one column): all are in bank 4, which …'"""
    group = pattern.served_together
    banks = pattern.banks(group)
    bank = max(banks, key=lambda number: len(banks[number]))
    words = banks[bank]
    verb = "write" if pattern.writes else "read"
    what = pattern.array or "shared memory"
    if pattern.stride is not None and len(words) > 1:
        apart = f", {abs(pattern.stride):,} bytes apart{_column(pattern)}"
    else:
        apart = ""
    each = "words" if pattern.width <= WORD else f"pieces of {pattern.width} bytes"
    if 0 < pattern.written_width < pattern.width:
        what += f" (the compiler joins {pattern.width // pattern.written_width} accesses)"
    count = len({at for _, at in group})
    every = len(words) == count
    place = (
        f"{'both' if count == 2 else f'all {count}'} are in bank {bank}" if every
        else f"{len(words)} of them (of threads {_first_lanes(sorted(words.values()))}) are in bank {bank}"
    )  # fmt: skip
    return (f"{len(group)} threads of a warp {verb} {count} {each} of {what}{apart}: {place}, and a bank serves one "
            f"word at a time, so the access takes {len(words)} wavefronts where 1 would do.")  # fmt: skip


def _column(pattern: AccessPattern) -> str:
    """' (one column)' if the lanes go down the rows of an array of rows."""
    declared, stride = pattern.declaration, abs(pattern.stride or 0)
    return " (one column)" if declared is not None and declared.row_bytes and stride == declared.row_bytes else ""


def _first_lanes(lanes: list[int]) -> str:
    return ", ".join(map(str, lanes[:4])) + (", …" if len(lanes) > 4 else "")


def sector_words(pattern: AccessPattern) -> str:
    """What the lanes of a warp access in global memory."""
    places = [at for at in pattern.lanes if at != NOBODY]
    verb = "write" if pattern.writes else "read"
    each = f"{pattern.width} bytes of {pattern.array} each" if pattern.array else f"{pattern.width} bytes each"
    stride = pattern.stride
    if stride is None or abs(stride) <= pattern.width:
        return f"{len(places)} threads of a warp {verb} {each}, in {_sectors(pattern)} sectors."
    return (f"Neighbouring threads {verb} {each}, {abs(stride):,} bytes apart in the short rows "
            f"that were counted: {_sectors(pattern)} sectors of 32 bytes for one warp.")  # fmt: skip


def coalescing_fix(pattern: AccessPattern | None) -> str:
    """What to change about an uncoalesced access."""
    each = _elements_each(pattern) if pattern is not None else 0
    if pattern is not None and each:
        verb, bits = ("store", "stores") if pattern.writes else ("load", "loads")
        vector = pattern.width * each
        wide = f"{verb} them as one vector of {vector} bytes" if vector in (8, 16) else f"use {bits} of 16 bytes"
        return (
            f"Each thread has {each} neighbouring elements, so neighbouring threads are {vector} bytes apart: {wide}, "
            f"or give thread t the elements t, t + 32 and so on in place of {each}t to {each}t + {each - 1}."
        )
    return (
        "Let neighbouring threads of a warp access neighbouring addresses. Where a block has x and y, let threadIdx.x "
        "choose the column, threadIdx.y the row, and swap x and y of block and grid with them."
    )


def staging_fix(pattern: AccessPattern | None) -> str:
    """What to change about an uncoalesced access where another order of the threads is no remedy."""
    what = (pattern.array if pattern is not None else "") or "the matrix"
    if pattern is not None and pattern.writes:
        return (f"Collect the block's tile of {what} in shared memory first, then let neighbouring threads store "
                "neighbouring elements of one row.")  # fmt: skip
    return (f"Copy a tile of {what} into shared memory, with neighbouring threads at neighbouring elements of one row, "
            "and read it from there.")  # fmt: skip


def _elements_each(pattern: AccessPattern) -> int:
    """How many neighbouring elements each thread has, where that alone parts neighbouring threads; else 0."""
    places = [at for at in pattern.lanes if at != NOBODY]
    steps = Counter(b - a for a, b in pairwise(places))
    step = steps.most_common(1)[0][0] if steps else 0
    width = pattern.width
    return step // width if width < step <= _LIKELY_ROW // 2 and step % width == 0 else 0


def _sectors(pattern: AccessPattern) -> int:
    return len({(at + byte) // 32 for at in pattern.lanes if at != NOBODY for byte in (0, pattern.width - 1)})


def paddings(pattern: AccessPattern) -> tuple[int, ...]:
    """Elements that may be added to each row of the array, so that rows start in different banks: those of one access,
    which keep accesses of several words whole, then one word. Empty if that is no remedy."""
    declared, stride = pattern.declaration, pattern.stride
    if declared is None or len(declared.extents) < 2 or not declared.extents[-1] or not stride:
        return ()
    row = declared.row_bytes or _LIKELY_ROW
    if abs(stride) % row or row % (2 * max(WORD, pattern.width)):  # not down a column, or rows in different banks
        return ()
    return tuple(dict.fromkeys(max(1, size // declared.itemsize) for size in (max(WORD, pattern.width), WORD)))


def padded(declared: Declaration, elements: int) -> str:
    """'As[TILE][TILE + 1]'."""
    *outer, inner = declared.extents
    return declared.name + "".join(f"[{extent}]" for extent in (*outer, f"{inner} + {elements}"))


def with_longer_fragments(text: str, declared: Declaration, elements: int) -> str:
    """A source whose wmma loads and stores of the array get the leading dimension of its longer rows."""
    inner = declared.extents[-1]
    call = re.compile(rf"\b((?:load|store)_matrix_sync\s*\([^;]*\b{re.escape(declared.name)}\b[^;]*?,\s*)"
                      rf"{re.escape(inner)}(?=\s*[,)])")  # fmt: skip
    return call.sub(lambda match: f"{match[1]}{inner} + {elements}", text)


def remedy(pattern: AccessPattern, more: int = 0) -> str:
    """What to change, in the user's names; ``more``: by how many elements rows become longer, if that was tried."""
    declared, more = pattern.declaration, more or next(iter(paddings(pattern)), 0)
    what = pattern.array or "the tile"
    if declared is not None and more:
        inner = f"{declared.name}{''.join(f'[{extent}]' for extent in declared.extents)}"
        place = f"{declared.file}:{declared.line}"
        length = f"{declared.extents[-1]} + {more}"
        passed = f", and pass {length} as its leading dimension" if "_matrix_sync" in pattern.source else ""
        return (f"Declare {declared.type} {padded(declared, more)} in place of {inner} ({place}){passed}: "
                "the rows then start in different banks.")  # fmt: skip
    stride = abs(pattern.stride or 0)
    if stride and stride % _ROW == 0:
        return (f"Make the rows of {what} longer by {max(WORD, pattern.width)} bytes wherever {what} is indexed, so "
                "that they start in different banks; or swizzle: swap column c of row r with column c ^ r."
        )  # fmt: skip
    change = "written" if pattern.writes else "read"
    return (f"Let the threads of a warp access {what} in different banks: swap the two indices with which it is "
            f"{change} (and transpose it when it is {'read' if pattern.writes else 'written'}), pad its rows, or "
            "swizzle: swap column c of row r with column c ^ r.")  # fmt: skip
