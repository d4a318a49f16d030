"""shfl.sync waits for the lanes of its member mask on every path, and reports lanes that cannot arrive."""

from __future__ import annotations

import pytest
from ptx_launch import MY_WORD, SCHEDULES, launch, scheduled, words

from gemmsmith.errors import SimulationError

every_schedule = pytest.mark.parametrize("schedule", SCHEDULES, ids=str)


@every_schedule
def test_lanes_from_different_branches_exchange_values(schedule: tuple[str, int]) -> None:
    """Lane n loops n times before a butterfly sum."""
    body = MY_WORD + "mov.u32 %r1, %t;\nmov.u32 %r5, 0;\nLOOP:\nadd.u32 %r5, %r5, 1;\nsetp.le.u32 %p1, %r5, %t;\n"
    body += "@%p1 bra LOOP;\n"
    for step in (16, 8, 4, 2, 1):
        body += f"shfl.sync.bfly.b32 %r2, %r1, {step}, 31, -1;\nadd.u32 %r1, %r1, %r2;\n"
    (found,) = launch(body + "st.global.u32 [%d9], %r1;", words(128), grid=(2, 1, 1), block=(64, 1, 1),
                      schedule=scheduled(schedule))  # fmt: skip
    assert found.tolist() == [sum(range(t // 32 * 32, t // 32 * 32 + 32)) for t in range(64)] * 2


@every_schedule
def test_halves_of_a_warp_with_masks_of_their_own(schedule: tuple[str, int]) -> None:
    body = (
        MY_WORD
        + """setp.lt.u32 %p1, %t, 16; selp.u32 %r4, 0xffff, 0xffff0000, %p1;
    @%p1 bra HERE;
    add.u32 %r9, %t, 1;
    HERE:
    shfl.sync.bfly.b32 %r2, %t, 8, 31, %r4;
    st.global.u32 [%d9], %r2;"""
    )
    assert launch(body, words(32), schedule=scheduled(schedule))[0].tolist() == [t ^ 8 for t in range(32)]


@every_schedule
def test_a_predicated_shuffle_is_for_the_lanes_whose_guard_holds(schedule: tuple[str, int]) -> None:
    body = MY_WORD + "setp.lt.u32 %p1, %t, 16; mov.u32 %r2, 99;\n@%p1 shfl.sync.bfly.b32 %r2, %t, 1, 31, 0xffff;\n"
    (found,) = launch(body + "st.global.u32 [%d9], %r2;", words(32), schedule=scheduled(schedule))
    assert found.tolist() == [t ^ 1 for t in range(16)] + [99] * 16


@every_schedule
def test_exited_lanes_are_not_waited_for(schedule: tuple[str, int]) -> None:
    body = MY_WORD + "setp.ge.u32 %p1, %t, 16;\n@%p1 exit;\nshfl.sync.bfly.b32 %r2, %t, 8, 31, -1;\n"
    (found,) = launch(body + "st.global.u32 [%d9], %r2;", words(32), schedule=scheduled(schedule))
    assert found.tolist() == [t ^ 8 for t in range(16)] + [0] * 16


@every_schedule
def test_a_lane_outside_its_own_mask(schedule: tuple[str, int]) -> None:
    body = "mov.u32 %r1, 0xfffff7ff;\nshfl.sync.idx.b32 %r2, %t, 0, 31, %r1;"
    with pytest.raises(SimulationError) as caught:
        launch(body, words(1), schedule=scheduled(schedule))
    assert caught.value.message == "shfl.sync by a lane that its own member mask leaves out"
    assert "k.cu:2: shfl.sync" in caught.value.hint
    assert "thread (11,0,0)" in caught.value.hint


def test_reading_an_exited_lane_names_both_lanes() -> None:
    body = "setp.ge.u32 %p1, %t, 16;\n@%p1 exit;\nshfl.sync.bfly.b32 %r1, %t, 16, 31, -1;"
    with pytest.raises(SimulationError) as caught:
        launch(body, words(1))
    assert caught.value.message == "shfl.sync of lane 0 reads lane 16, a lane that does not take part"


def test_lanes_that_never_arrive() -> None:
    body = "setp.ge.u32 %p1, %t, 16;\n@%p1 bra OTHER;\nshfl.sync.bfly.b32 %r1, %t, 1, 31, -1;\nret;\nOTHER:\n"
    with pytest.raises(SimulationError, match="live lanes of its member mask never arrive"):
        launch(body + "shfl.sync.down.b32 %r1, %t, 2, 31, -1;", words(1))


@every_schedule
def test_lanes_exchange_values_from_two_places(schedule: tuple[str, int]) -> None:
    """PTX asks for the same qualifiers and mask, not for the same place; each lane has registers of its own there."""
    body = (
        MY_WORD
        + """setp.ge.u32 %p1, %t, 16; add.u32 %r1, %t, 100; add.u32 %r5, %t, 200; mov.u32 %r6, 31; mov.u32 %r9, 7;
    @%p1 bra OTHER;
    shfl.sync.bfly.b32 %r2, %r1, 31, 31, -1;
    bra END;
    OTHER: shfl.sync.bfly.b32 %r2|%p2, %r5, %r6, 31, 0xffffffff;
    END: add.u32 %r2, %r2, %r9; st.global.u32 [%d9], %r2;"""
    )
    (found,) = launch(body, words(64), block=(64, 1, 1), schedule=scheduled(schedule))
    expected = [31 - t + 207 for t in range(16)] + [31 - t + 107 for t in range(16, 32)]
    assert found[:32].tolist() == expected
    assert found[32:].tolist() == [(t ^ 31) + 207 for t in range(32, 64)]


def test_a_shuffle_orders_no_memory() -> None:
    """A shuffle does not order shared memory between lanes; bar.warp.sync does."""
    body = """shl.b32 %r1, %t, 2; xor.b32 %r2, %r1, 4; st.shared.u32 [%r1], %t;
    {};
    ld.shared.u32 %r3, [%r2];"""
    room = ".shared .align 4 .b8 room[128];"
    launch(body.format("bar.warp.sync -1"), words(1), declarations=room, hazards=True)
    with pytest.raises(SimulationError, match="read-after-write"):
        launch(body.format("shfl.sync.bfly.b32 %r4, %t, 1, 31, -1"), words(1), declarations=room, hazards=True)
