"""Missing barriers: where `__syncthreads()` or `__syncwarp()` would order all racing accesses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from gemmsmith.cure.code import LOOPS, Code, Program, above
from gemmsmith.cure.edit import Candidate, Edit
from gemmsmith.cure.fault import Fault, Race
from gemmsmith.cure.slots import Slot, children, occurrences, parting

if TYPE_CHECKING:
    from tree_sitter import Node

_BLOCK = re.compile(r"__syncthreads\s*\(\s*\)\s*;")
_WARP = re.compile(r"__syncwarp\s*\(\s*\)\s*;")
_MOST = 10  # single places tried
_MOST_PAIRS = 6
_MOST_WEAK = 2


def barriers(program: Program, fault: Fault) -> Iterator[Candidate]:
    """One barrier that parts every racing pair; else two, or three, that do so together."""
    races = [race for race in fault.races if not race.across_blocks]
    options = [(race, parting(program, race.first.place, race.second.place)) for race in races]
    options = [(race, slots) for race, slots in options if slots]
    if not options:
        yield from _in_bare_loops(program, races)
        return
    ranked = _ranked(options)
    for text in _texts(program, races):
        singles = [slots for slots in ranked if len(slots) == 1]
        several = [slots for slots in ranked if len(slots) > 1]
        complete = [slots for slots in singles if _covers(slots, options, weakly=False)]
        weak = [slots for slots in singles if slots not in complete and _covers(slots, options, weakly=True)]
        rest = [slots for slots in singles if slots not in complete][:_MOST]
        for slots in [*complete[:_MOST], *weak[:_MOST_WEAK], *several[:_MOST_PAIRS], *rest]:
            if not any(_beside(_BLOCK, slot) for slot in slots):
                narrow = _beside(_WARP, slots[0]) if len(slots) == 1 and text.startswith("__syncthreads") else None
                yield _widened(slots[0].code, narrow) if narrow is not None else _candidate(slots, text, options)


def _in_bare_loops(program: Program, races: Sequence[Race]) -> Iterator[Candidate]:
    """A barrier at the end of a loop whose body is one statement, with braces around both."""
    for race in races[:1]:
        found = occurrences(program, *race.first.place)
        if race.first.place != race.second.place:
            continue
        for function, statements in found.values():
            code = function.code
            for loop in (each for each in above(statements[0]) if each.type in LOOPS):
                body = loop.child_by_field_name("body")
                if body is None or body.type == "compound_statement":
                    break
                line = code.last_line(body)
                for text in _texts(program, races):
                    edits = (Edit(code.path, body.start_byte, body.start_byte, "{ "),
                             Edit(code.path, body.end_byte, body.end_byte, f" {text} }}"))  # fmt: skip
                    yield Candidate("missing-barrier", f"no barrier between {race.first} and {race.second} in the next "
                                    f"iteration", f"insert `{text}` after the statement in line {line}, with braces "
                                    "around both", edits)  # fmt: skip


def _texts(program: Program, races: Sequence[Race]) -> list[str]:
    """The barriers to insert. Accesses of one warp need less, unless the kernel speaks of blocks only."""
    block, warp = "__syncthreads();", "__syncwarp();"
    if any(race.across_warps for race in races):
        return [block]
    code = " ".join(function.code.of(function.body) for function in program.reached)
    if "__syncthreads" in code and "__syncwarp" not in code and "warpSize" not in code and "_sync(" not in code:
        return [block]
    return [warp, block]


def _ranked(options: Sequence[tuple[Race, list[Slot]]]) -> list[tuple[Slot, ...]]:
    """Single places, those that part most pairs first; then sets of places that part all pairs together."""
    slots: dict[tuple[str, int, int], Slot] = {}
    order: dict[tuple[str, int, int], tuple[int, int]] = {}
    for _, found in options:
        for i, slot in enumerate(each for each in found if not each.is_weak):
            slots.setdefault(slot.key, slot)
            count, place = order.get(slot.key, (0, 0))
            order[slot.key] = count + 1, place + i
    for slot in (slot for _, found in options for slot in found if slot.is_weak):
        slots.setdefault(slot.key, slot)
        order.setdefault(slot.key, (0, len(order)))
    keys = sorted(slots, key=lambda key: (-order[key][0], order[key][1]))
    ranked: list[tuple[Slot, ...]] = [(slots[key],) for key in keys]
    if order[keys[0]][0] == len(options):
        return ranked
    parts = [{slot.key for slot in found if not slot.is_weak} for _, found in options]
    sets = [
        chosen for count in (2, 3) for chosen in combinations(keys[:12], count)
        if all(part & set(chosen) for part in parts)
    ]  # fmt: skip
    fewest = min((len(chosen) for chosen in sets), default=0)
    small = [chosen for chosen in sets if len(chosen) == fewest]
    small.sort(key=lambda chosen: sum(keys.index(key) for key in chosen))
    return ranked + [tuple(slots[key] for key in chosen) for chosen in small]


def _covers(slots: tuple[Slot, ...], options: Sequence[tuple[Race, list[Slot]]], *, weakly: bool) -> bool:
    keys = {slot.key for slot in slots}
    return all(keys & {slot.key for slot in found if weakly or not slot.is_weak} for _, found in options)


def _beside(barrier: re.Pattern[str], slot: Slot) -> Node | None:
    """The barrier that stands there already."""
    listed = children(slot.block)
    near = [listed[i] for i in (slot.index, slot.index + 1) if 0 <= i < len(listed)]
    return next((node for node in near if barrier.fullmatch(slot.code.of(node).strip())), None)


def _widened(code: Code, node: Node) -> Candidate:
    """`__syncwarp()` becomes `__syncthreads()`."""
    line = code.line(node.start_byte)
    return Candidate("narrow-barrier", f"the `__syncwarp()` in line {line} makes the threads of one warp wait, and the "
                     "accesses are of different warps", f"write `__syncthreads();` in line {line}",
                     (Edit(code.path, node.start_byte, node.end_byte, "__syncthreads();"),))  # fmt: skip


def _candidate(slots: tuple[Slot, ...], text: str, options: Sequence[tuple[Race, list[Slot]]]) -> Candidate:
    causes, changes = [], []
    for slot in sorted(slots, key=lambda slot: slot.after_line):
        parted = [(race, each.is_weak) for race, found in options for each in found if each.key == slot.key]
        race = max(parted, key=lambda part: (not part[1], part[0].across_warps))[0]
        again, sides = _when(slot, race, options), [race.first, race.second]
        if not again and race.first.place[0] == race.second.place[0]:
            sides.sort(key=lambda side: side.place[1])
        causes.append(f"no barrier between {sides[0]} and {sides[1]}{again}")
        changes.append(f"insert `{text}` after line {slot.after_line}")
    edits = tuple(slot.insertion(text) for slot in slots)
    return Candidate("missing-barrier", ", and ".join(causes), " and ".join(changes), edits)


def _when(slot: Slot, race: Race, options: Sequence[tuple[Race, list[Slot]]]) -> str:
    own = next(found for each, found in options if each is race)
    again = next(each.next_iteration for each in own if each.key == slot.key)
    return " in the next iteration" if again else ""
