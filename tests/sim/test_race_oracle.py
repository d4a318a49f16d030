"""Random programs of accesses and barriers: the race detector against a brute-force oracle, under every schedule.

The oracle compares every two accesses of every two threads. It shares no code with the detector.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from random import Random

import numpy as np
import pytest
from ptx_launch import SCHEDULES, launch, scheduled, words

from gemmsmith.sim.races.hazards import HazardError
from gemmsmith.sim.races.race_pairs import _sorted_by
from gemmsmith.sim.races.shadow import Shadow

THREADS, WORDS = 64, 3


@dataclass(frozen=True)
class Line:
    """One instruction: what it does, for which lanes of each warp, where, and what it writes."""

    does: str  # read, write, atomic, barrier, warp
    masks: tuple[int, int]
    word: int = 0
    value: int = 0

    def takes(self, thread: int) -> bool:
        return bool(self.masks[thread // 32] >> thread % 32 & 1)


def program(seed: int) -> list[Line]:
    random = Random(seed)
    masks = (0, 0xFFFFFFFF, 0x0000FFFF, 0xFFFF0000, 1, 1 << 31, 1 << 9, 0x00010001)
    lines = []
    for _ in range(random.randrange(3, 9)):
        does = random.choice(("read", "read", "write", "write", "atomic", "barrier", "warp", "warp"))
        if does == "barrier":
            lines.append(Line("barrier", (0xFFFFFFFF, 0xFFFFFFFF)))
            continue
        pair = (random.choice(masks), random.choice(masks))
        lines.append(Line(does, pair, random.randrange(WORDS), random.randrange(2)))
    return lines


def ordered(lines: list[Line], one: int, first: int, two: int, second: int) -> bool:
    """Whether the access of thread ``first`` at line ``one`` is ordered before that of ``second`` at line ``two``."""
    if first == second:
        return True
    reached = {first}
    for line in lines[one:two]:
        if line.does == "barrier":
            return True
        if line.does == "warp":
            for warp in (0, 1):
                members = {t for t in range(32 * warp, 32 * warp + 32) if line.takes(t)}
                if members & reached:
                    reached |= members
    return second in reached


def races(lines: list[Line]) -> set[tuple[int, int]]:
    """The pairs of lines that race, by brute force."""
    found = set()
    accesses = [(n, line) for n, line in enumerate(lines) if line.does in ("read", "write", "atomic")]
    for (one, a), (two, b) in product(accesses, accesses):
        if one > two or a.word != b.word or {a.does, b.does} in ({"read"}, {"atomic"}):
            continue
        if a.does == b.does == "write" and a.value == b.value:
            continue
        threads = product(range(THREADS), range(THREADS))
        if any(
            first != second and a.takes(first) and b.takes(second) and not ordered(lines, one, first, two, second)
            for first, second in threads
        ):
            found.add((one, two))
    return found


def found_by_simulator(lines: list[Line], space: str, schedule: tuple[str, int]) -> set[tuple[int, int]]:
    """The pairs of lines that the simulator names."""
    room = "room" if space == "shared" else "%b0"
    start = "and.b32 %r20, %t, 31; setp.lt.u32 %p9, %t, 32; mov.u32 %r9, 0; setp.eq.u32 %p8, %t, 0; "
    start += "; ".join(f"@%p8 st.shared.u32 [room+{4 * n}], 0" for n in range(WORDS)) + "; bar.sync 0;\n"
    body = start
    for line in lines:
        low, high = line.masks
        guard = f"selp.u32 %r1, {low}, {high}, %p9; shr.u32 %r2, %r1, %r20; and.b32 %r2, %r2, 1; "
        guard += "setp.ne.u32 %p1, %r2, 0; "
        place = f"[{room}+{4 * line.word}]"
        body += {
            "read": f"{guard}@%p1 ld.{space}.u32 %r3, {place};",
            "write": f"{guard}@%p1 st.{space}.u32 {place}, {line.value};",
            "atomic": f"{guard}@%p1 red.{space}.add.u32 {place}, 1;",
            "barrier": "bar.sync 0;",
            "warp": f"{guard}@%p1 bar.warp.sync %r1;",
        }[line.does] + "\n"
    try:
        launch(body, words(WORDS), block=(THREADS, 1, 1), declarations=".shared .align 4 .b8 room[64];",
               schedule=scheduled(schedule), hazards=True)  # fmt: skip
    except HazardError as error:
        pairs = [(h.first.where, h.second.where) for h in error.hazards]
        return {tuple(sorted(int(where.split(":")[1]) - 2 for where in pair)) for pair in pairs}  # type: ignore[misc]
    return set()


@pytest.mark.parametrize("space", ["shared", "global"])
@pytest.mark.parametrize("part", range(6))
def test_the_same_pairs_as_by_brute_force(part: int, space: str) -> None:
    racy = 0
    for seed in range(12 * part, 12 * part + 12):
        lines = program(seed)
        expected = races(lines)
        racy += bool(expected)
        for schedule in SCHEDULES:
            found = found_by_simulator(lines, space, schedule)
            assert found == expected, (seed, schedule, lines)
    assert 0 < racy < 12  # of both kinds


@pytest.mark.parametrize("part", range(2))
def test_the_same_answer_without_room_for_all_accesses(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where some accesses stand for others, a racy program may name fewer pairs, but not none."""
    for module in ("shadow", "shadow_judge"):
        monkeypatch.setattr(f"gemmsmith.sim.{module}.MOST_ACCESSES", 16)
    for seed in range(20 * part, 20 * part + 20):
        expected = races(program(seed))
        found = found_by_simulator(program(seed), "shared", ("lockstep", 0))
        assert found <= expected, seed
        assert bool(found) == bool(expected), (seed, program(seed))


def test_the_same_pairs_where_accesses_of_several_epochs_are_judged_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where the blocks of a wave come to their barriers at different times."""
    used = []
    by_epoch = Shadow._suspects_by_epoch
    monkeypatch.setattr("gemmsmith.sim.races.shadow.ALL", None)
    monkeypatch.setattr(Shadow, "_all_that_live", lambda *_: False)
    monkeypatch.setattr(Shadow, "_suspects_by_epoch", lambda self, n: (used.append(n), by_epoch(self, n))[1])
    for seed in range(30):
        lines = program(seed)
        assert found_by_simulator(lines, "shared", ("lockstep", 0)) == races(lines), (seed, lines)
    assert max(used) > 2


def test_a_block_that_has_ended_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    judged = []
    judge = Shadow._judge
    monkeypatch.setattr(
        Shadow, "_judge", lambda self: (judged.append(len(self._records + self._reads)), judge(self))[1]
    )
    body = """
    mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %r1, 1; @%p1 ret;
    shl.b32 %r2, %t, 2; mov.u32 %r3, room; add.u32 %r3, %r3, %r2;
    st.shared.u32 [%r3], 1; bar.sync 0; ld.shared.u32 %r4, [room]; bar.sync 0; st.shared.u32 [room], 2; bar.sync 0;
    """
    launch(body, words(1), grid=(3, 1, 1), block=(64, 1, 1), declarations=".shared .align 4 .b8 room[256];",
           hazards=True)  # fmt: skip
    assert judged == [1, 1, 1, 0]  # at each barrier, and at the end


@pytest.mark.parametrize("far", [False, True], ids=["packed", "too far apart to be packed"])
def test_accesses_are_sorted_as_lexsort_does(far: bool) -> None:
    random = np.random.default_rng(3)
    size, wide = 4000, random.integers(-(2**62), 2**62, 4000)
    columns = (random.integers(0, 99, size), random.integers(0, 2, size) > 0, random.integers(0, 40, size),
               wide[random.integers(0, 9, size)], random.integers(-1, 2**32, size),
               random.integers(0, 512, size))  # fmt: skip
    columns = (*columns, wide, wide[::-1], wide[::7].repeat(7)[:size]) if far else columns
    assert np.array_equal(_sorted_by(columns), np.lexsort(columns[::-1]))
