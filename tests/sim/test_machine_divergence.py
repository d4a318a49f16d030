"""Lanes on different paths: every thread gets the result it would get alone, under every schedule."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from ptx_launch import MY_WORD, SCHEDULES, launch, scheduled, words


def _collatz(n: int) -> int:
    steps = 0
    while n > 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


def _nested_loops(t: int) -> int:
    total = 0
    for i in range(t % 5):
        for j in range(t % 3 + i):
            if (i + j) % 4 == 3:
                break
            total += 10 * i + j
    return total


# Each: PTX that leaves its result in %r1, and the same in Python for the thread's number.
PROGRAMS: dict[str, tuple[str, Callable[[int], int]]] = {
    "nested ifs": (
        """
        mov.u32 %r1, 0; and.b32 %r2, %t, 1; setp.eq.u32 %p1, %r2, 0;
        @%p1 bra EVEN;
        add.u32 %r1, %r1, 1; and.b32 %r2, %t, 2; setp.eq.u32 %p2, %r2, 0;
        @!%p2 bra BOTH;
        add.u32 %r1, %r1, 10;
        bra DONE;
        BOTH: add.u32 %r1, %r1, 100;
        bra DONE;
        EVEN: and.b32 %r2, %t, 4; setp.ne.u32 %p2, %r2, 0;
        @%p2 add.u32 %r1, %r1, 1000;
        @!%p2 add.u32 %r1, %r1, 2000;
        DONE: add.u32 %r1, %r1, %t;
        """,
        lambda t: t + ((1 + (100 if t & 2 else 10)) if t & 1 else (1000 if t & 4 else 2000)),
    ),
    "a loop of each lane's own length": (
        """
        mov.u32 %r1, 0; rem.u32 %r2, %t, 7;
        LOOP: setp.eq.u32 %p1, %r2, 0;
        @%p1 bra END;
        mad.lo.u32 %r1, %r1, 3, %r2; sub.u32 %r2, %r2, 1;
        bra LOOP;
        END: add.u32 %r1, %r1, 5;
        """,
        lambda t: _fold(t % 7) + 5,
    ),
    "collatz": (
        """
        mov.u32 %r1, 0; mov.u32 %r2, %t;
        TOP: setp.le.u32 %p1, %r2, 1;
        @%p1 bra OUT;
        add.u32 %r1, %r1, 1; and.b32 %r3, %r2, 1; setp.eq.u32 %p2, %r3, 0;
        @%p2 bra HALVE;
        mad.lo.u32 %r2, %r2, 3, 1;
        bra TOP;
        HALVE: shr.u32 %r2, %r2, 1;
        bra TOP;
        OUT: add.u32 %r1, %r1, 0;
        """,
        _collatz,
    ),
    "nested loops with a break": (
        """
        mov.u32 %r1, 0; rem.u32 %r2, %t, 5; rem.u32 %r3, %t, 3; mov.u32 %r4, 0;
        OUTER: setp.ge.u32 %p1, %r4, %r2;
        @%p1 bra FINISHED;
        mov.u32 %r5, 0; add.u32 %r6, %r3, %r4;
        INNER: setp.ge.u32 %p2, %r5, %r6;
        @%p2 bra NEXT;
        add.u32 %r7, %r4, %r5; rem.u32 %r7, %r7, 4; setp.eq.u32 %p3, %r7, 3;
        @%p3 bra NEXT;
        mad.lo.u32 %r7, %r4, 10, %r5; add.u32 %r1, %r1, %r7; add.u32 %r5, %r5, 1;
        bra.uni INNER;
        NEXT: add.u32 %r4, %r4, 1;
        bra OUTER;
        FINISHED: add.u32 %r1, %r1, 0;
        """,
        _nested_loops,
    ),
    "all predicated": (
        """
        mov.u32 %r1, 7; setp.lt.u32 %p1, %t, 11; setp.gt.u32 %p2, %t, 40;
        @%p1 mul.lo.u32 %r1, %t, 3;
        @!%p1 add.u32 %r1, %r1, %t;
        @%p2 xor.b32 %r1, %r1, 0xFF;
        @!%p2 sub.u32 %r1, %r1, 1;
        @%p1 setp.eq.u32 %p2, %t, 5;
        @%p2 add.u32 %r1, %r1, 1000;
        """,
        lambda t: _predicated(t),
    ),
}


def _fold(n: int) -> int:
    value = 0
    while n:
        value, n = (value * 3 + n) % (1 << 32), n - 1
    return value


def _predicated(t: int) -> int:
    r = t * 3 if t < 11 else 7 + t
    r = (r ^ 0xFF) if t > 40 else r - 1
    if (t == 5) if t < 11 else t > 40:
        r += 1000
    return r % (1 << 32)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize(("grid", "block"), [(1, 32), (3, 77), (2, 128)])
def test_each_thread_gets_its_own_result(name: str, grid: int, block: int, schedule: tuple[str, int]) -> None:
    code, oracle = PROGRAMS[name]
    body = MY_WORD + "mov.u32 %t, %r32;\n" + code.strip() + "\nst.global.u32 [%d9], %r1;"
    (found,) = launch(body, words(grid * block), grid=(grid, 1, 1), block=(block, 1, 1), schedule=scheduled(schedule))
    assert found.tolist() == [oracle(t) for t in range(grid * block)]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_exited_threads_write_nothing_more(schedule: tuple[str, int]) -> None:
    body = (
        MY_WORD
        + """
    rem.u32 %r1, %r32, 3; setp.eq.u32 %p1, %r1, 1; setp.eq.u32 %p2, %r1, 2;
    st.global.u32 [%d9], 1;
    @%p1 exit;
    st.global.u32 [%d9], 2;
    @!%p2 bra LAST;
    st.global.u32 [%d9], 3;
    ret;
    LAST: st.global.u32 [%d9], 4;
    """
    )
    (found,) = launch(body, words(200), grid=(2, 1, 1), block=(100, 1, 1), schedule=scheduled(schedule))
    assert found.tolist() == [(4, 1, 3)[i % 3] for i in range(200)]


@pytest.mark.parametrize("negated", [False, True])
def test_predicated_loads_and_stores_touch_only_their_lanes(negated: bool) -> None:
    """The other lanes' addresses are invalid, which must not matter."""
    sign = "!" if negated else ""
    body = f"""
    setp.{"ge" if negated else "lt"}.u32 %p1, %t, 10; mul.wide.u32 %d1, %t, 4;
    add.s64 %d2, %b0, %d1; add.s64 %d3, %b1, %d1;
    mov.u32 %r1, 99;
    @{sign}%p1 ld.global.u32 %r1, [%d2];
    @{sign}%p1 st.global.u32 [%d3], %r1;
    """
    data = np.arange(10, dtype=np.uint32) + 50
    assert launch(body, data, words(10))[1].tolist() == data.tolist()


def test_a_branch_that_no_lane_takes_and_one_that_all_lanes_take() -> None:
    body = (
        MY_WORD
        + """
    setp.lt.u32 %p1, %t, 1000; mov.u32 %r1, 5;
    @!%p1 bra NEVER;
    @%p1 bra ALWAYS;
    NEVER: mov.u32 %r1, 6;
    ALWAYS: st.global.u32 [%d9], %r1;
    """
    )
    assert launch(body, words(64), block=(64, 1, 1))[0].tolist() == [5] * 64
