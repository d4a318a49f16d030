"""Barriers with a number and a count: some threads of a block meet, some only arrive; and bar.red."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_launch import MY_WORD, SCHEDULES, launch, scheduled, words

from gemmsmith.errors import SimulationError
from gemmsmith.sim.races.hazards import HazardError

ROOM = ".shared .align 16 .b8 room[4096];"
# %r10: my byte offset in the room. %r20, %r21: my half of the block, and the number of its barrier.
OWN = MY_WORD + "shl.b32 %r10, %t, 2; shr.u32 %r20, %t, 6; add.u32 %r21, %r20, 1; mov.u32 %r22, 64;\n"


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize(
    "spelling", ["bar.sync %r21, 64", "barrier.sync.aligned %r21, %r22", "barrier.cta.sync %r21, 64"]
)
def test_each_half_of_a_block_has_its_own_barrier(spelling: str, schedule: tuple[str, int]) -> None:
    """Five rounds; in each a thread takes what its mirror image in its half wrote."""
    body = f"""{OWN}xor.b32 %r11, %r10, 252; mov.u32 %r1, %r32; mov.u32 %r2, 0;
    LOOP: st.shared.u32 [%r10], %r1;
    {spelling};
    ld.shared.u32 %r1, [%r11]; add.u32 %r1, %r1, 1;
    {spelling};
    add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 5;
    @%p1 bra LOOP;
    st.global.u32 [%d9], %r1;"""
    (found,) = launch(body, words(256), grid=(2, 1, 1), block=(128, 1, 1), declarations=ROOM,
                      schedule=scheduled(schedule), hazards=True)  # fmt: skip
    assert found.tolist() == [(t ^ 63) + 5 for t in range(256)]


def test_a_barrier_of_one_half_does_not_order_the_other() -> None:
    """Each half waits at its own barrier, then reads what the other half wrote."""
    body = f"""{OWN}st.shared.u32 [%r10], %t;
    bar.sync %r21, 64;
    xor.b32 %r11, %r10, 256; ld.shared.u32 %r1, [%r11];"""
    with pytest.raises(HazardError) as caught:
        launch(body, words(128), block=(128, 1, 1), declarations=ROOM, hazards=True)
    assert {(h.kind, h.across_warps) for h in caught.value.hazards} == {("read-after-write", True)}


# The first warp writes a stage of 32 words and arrives; the second waits for it, reads, and arrives in turn.
STAGES = """{own}mov.u32 %r1, 0; mov.u32 %r2, 0; and.b32 %r3, %t, 31; shl.b32 %r4, %r3, 2; xor.b32 %r5, %r4, 124;
setp.ge.u32 %p1, %t, 32;
LOOP:
@%p1 bra READ;
{acquire}
mad.lo.u32 %r6, %r1, 100, %r3; st.shared.u32 [%r4], %r6;
bar.arrive 1, 64;
bra NEXT;
READ: {consume}
ld.shared.u32 %r6, [%r5]; mad.lo.u32 %r2, %r2, 3, %r6;
bar.arrive 2, 64;
NEXT: add.u32 %r1, %r1, 1; setp.lt.u32 %p2, %r1, 5;
@%p2 bra LOOP;
@%p1 st.global.u32 [%d9], %r2;"""
FIRST = "setp.eq.u32 %p3, %r1, 0;\n@%p3 bra WRITE;\nbar.sync 2, 64;\nWRITE:"


# The first warp arrives twice; the second waits for each.
ARRIVES_TWICE = """setp.ge.u32 %p1, %t, 32;
@%p1 bra READ;
bar.arrive 1, 64; {between} bar.arrive 1, 64; bra END;
READ: bar.sync 1, 64; {between} bar.sync 1, 64;
END:"""


def stages(
    acquire: str = FIRST, consume: str = "bar.sync 1, 64;", schedule: tuple[str, int] = ("lockstep", 0)
) -> list[int]:
    return launch(STAGES.format(own=OWN, acquire=acquire, consume=consume), words(64), block=(64, 1, 1),
                  declarations=ROOM, schedule=scheduled(schedule), hazards=True)[0].tolist()  # fmt: skip


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_a_producer_arrives_and_a_consumer_waits(schedule: tuple[str, int]) -> None:
    expected = []
    for lane in range(32):
        total = 0
        for step in range(5):
            total = total * 3 + 100 * step + (lane ^ 31)
        expected.append(total)
    assert stages(schedule=schedule) == [0] * 32 + expected


def test_a_thread_that_only_arrives_is_not_ordered_after_the_others() -> None:
    with pytest.raises(HazardError) as caught:
        stages(acquire=FIRST.replace("bar.sync", "bar.arrive"), consume="bar.sync 1, 64;")
    assert {h.kind for h in caught.value.hazards} >= {"write-after-read"}


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_a_barrier_is_not_arrived_at_again_before_its_last_use_is_complete(schedule: tuple[str, int]) -> None:
    """Nothing makes the first warp wait: under some schedules both of its arrivals complete the barrier."""
    body = ARRIVES_TWICE.format(between="")
    with pytest.raises(SimulationError, match=r"reuse of barrier 1|barrier 1 never completes"):
        launch(body, words(64), block=(64, 1, 1), schedule=scheduled(schedule), hazards=True)


def test_a_barrier_in_between_makes_the_last_use_known() -> None:
    launch(ARRIVES_TWICE.format(between="bar.sync 3, 64;"), words(64), block=(64, 1, 1), hazards=True)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize(("between", "is_legal"), [("", False), ("bar.sync 3, 128;", True)])
def test_two_groups_at_one_barrier_must_be_ordered(between: str, is_legal: bool, schedule: tuple[str, int]) -> None:
    """Both halves of a block meet at barrier 1, for 64 threads each: a warp of one may be counted with the other's."""
    body = f"""{OWN}setp.ge.u32 %p1, %t, 64;
    @%p1 bra SECOND;
    bar.sync 1, 64; {between} bra END;
    SECOND: {between} bar.sync 1, 64;
    END:"""
    if is_legal:
        launch(body, words(128), block=(128, 1, 1), schedule=scheduled(schedule), hazards=True)
        return
    with pytest.raises(HazardError, match=r"reuse of barrier 1.* in place of one of them"):
        launch(body, words(128), block=(128, 1, 1), schedule=scheduled(schedule), hazards=True)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("count", ["", ", 96"])
def test_reductions_of_predicates(count: str, schedule: tuple[str, int]) -> None:
    body = f"""{MY_WORD}rem.u32 %r1, %t, 3; setp.eq.u32 %p1, %r1, 0; setp.lt.u32 %p2, %t, 999;
    bar.red.popc.u32 %r2, 1{count}, %p1;
    barrier.red.and.aligned.pred %p3, 1{count}, %p2;
    bar.red.and.pred %p4, 1{count}, %p1;
    bar.red.or.pred %p5, 1{count}, %p1;
    setp.gt.u32 %p6, %t, 999;
    barrier.red.or.pred %p6, 1{count}, %p6;
    selp.u32 %r3, 100, 0, %p3; add.u32 %r2, %r2, %r3; selp.u32 %r3, 1000, 0, %p4; add.u32 %r2, %r2, %r3;
    selp.u32 %r3, 10000, 0, %p5; add.u32 %r2, %r2, %r3; selp.u32 %r3, 100000, 0, %p6; add.u32 %r2, %r2, %r3;
    st.global.u32 [%d9], %r2;"""
    (found,) = launch(body, words(192), grid=(2, 1, 1), block=(96, 1, 1), schedule=scheduled(schedule))
    assert set(found.tolist()) == {32 + 100 + 10000}


def test_bar_red_is_a_barrier() -> None:
    body = f"""{MY_WORD}shl.b32 %r10, %t, 2; xor.b32 %r11, %r10, 252; setp.eq.u32 %p1, %t, 0;
    st.shared.u32 [%r10], %t;
    bar.red.or.pred %p2, 0, %p1;
    ld.shared.u32 %r1, [%r11];
    st.global.u32 [%d9], %r1;"""
    (found,) = launch(body, words(64), block=(64, 1, 1), declarations=ROOM, hazards=True)
    assert found.tolist() == list(range(63, -1, -1))


def test_threads_that_have_ended_count_with_their_warp() -> None:
    body = f"""{OWN}and.b32 %r1, %t, 31; setp.ge.u32 %p1, %r1, 20;
    @%p1 exit;
    bar.sync 1, 64;
    st.global.u32 [%d9], 1;"""
    (found,) = launch(body, words(64), block=(64, 1, 1))
    assert found.reshape(2, 32).sum(axis=1).tolist() == [20, 20]


FAULTS = [
    ("bar.sync 1, 48;", "a barrier for 48 threads: the number must be a multiple of 32"),
    ("bar.arrive 16, 64;", "barrier 16: a block has barriers 0 to 15"),
    ("setp.lt.u32 %p1, %t, 32;\n@%p1 bar.arrive 1, 96;\n@!%p1 bar.arrive 1, 64;",
     "barrier 1 is used with counts of 96 and 64"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "says"), FAULTS)
def test_misuse_is_a_fault_at_its_line(body: str, says: str) -> None:
    with pytest.raises(SimulationError, match=says) as caught:
        launch(body, words(1), block=(64, 1, 1))
    assert f"k.cu:{len(body.splitlines())}:" in caught.value.hint


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_a_barrier_that_too_few_threads_reach_names_its_line(schedule: tuple[str, int]) -> None:
    body = "setp.lt.u32 %p1, %t, 64;\n@%p1 bar.sync 3, 96;"
    with pytest.raises(SimulationError, match="barrier 3 never completes: 64 of 96 threads arrived") as caught:
        launch(body, words(1), block=(128, 1, 1), schedule=scheduled(schedule))
    assert "k.cu:2: @%p1 bar.sync 3, 96; block (0,0,0), thread (" in caught.value.hint


def test_a_hang_tells_of_a_thread_that_arrived_twice() -> None:
    """The first warp's two arrivals complete the barrier before the second warp comes, which then waits for ever."""
    body = "setp.lt.u32 %p1, %t, 32;\n@%p1 bar.arrive 1, 64;\n@%p1 bar.arrive 1, 64;\n@!%p1 bar.sync 1, 64;"
    with pytest.raises(SimulationError, match=r"thread \(0,0,0\) arrived twice \(bar.arrive\)"):
        launch(body, words(64), block=(64, 1, 1), schedule=scheduled(("in_order", 0)))


def test_counts_and_results_do_not_depend_on_the_number_of_blocks() -> None:
    body = f"{OWN}bar.sync %r21, 64;\nst.global.u32 [%d9], %r20;"
    (found,) = launch(body, words(128 * 7), grid=(7, 1, 1), block=(128, 1, 1))
    assert np.array_equal(found.reshape(7, 2, 64), np.broadcast_to(np.arange(2)[:, None], (7, 2, 64)))
