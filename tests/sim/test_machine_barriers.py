"""Barriers: everyone arrives before anyone goes on, under every schedule; what cannot complete is an error."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_launch import MY_WORD, SCHEDULES, launch, scheduled, words

from gemmsmith.errors import SimulationError

ROOM = ".shared .align 16 .b8 room[4096];"
OWN = MY_WORD + "shl.b32 %r10, %t, 2; mov.u32 %r11, %ntid.x; sub.u32 %r11, %r11, %t; sub.u32 %r11, %r11, 1;\n"
OWN += "shl.b32 %r12, %r11, 2;\n"  # %r10: my byte offset in the room; %r12: that of my mirror image


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("block", [32, 64, 100, 256])
@pytest.mark.parametrize("spelling", ["bar.sync 0", "barrier.sync 0", "bar.sync 3", "barrier.sync.aligned 0"])
def test_what_others_wrote_before_a_barrier_is_there_after_it(
    spelling: str, block: int, schedule: tuple[str, int]
) -> None:
    body = (
        OWN
        + f"""
    st.shared.u32 [%r10], %r32;
    {spelling};
    ld.shared.u32 %r1, [%r12];
    st.global.u32 [%d9], %r1;
    """
    )
    (found,) = launch(body, words(3 * block), grid=(3, 1, 1), block=(block, 1, 1), declarations=ROOM,
                      schedule=scheduled(schedule), hazards=True)  # fmt: skip
    assert np.array_equal(found.reshape(3, block), np.arange(3 * block).reshape(3, block)[:, ::-1])


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_a_reduction_in_a_loop(schedule: tuple[str, int]) -> None:
    """A tree sum of 256 numbers: divergent work between barriers that everybody reaches."""
    body = (
        OWN
        + """
    add.u32 %r1, %r32, 1; st.shared.u32 [%r10], %r1; mov.u32 %r2, 128;
    LOOP: bar.sync 0;
    setp.ge.u32 %p1, %t, %r2;
    @%p1 bra SKIP;
    mad.lo.u32 %r3, %r2, 4, %r10; ld.shared.u32 %r4, [%r3]; ld.shared.u32 %r5, [%r10];
    add.u32 %r5, %r5, %r4; st.shared.u32 [%r10], %r5;
    SKIP: shr.u32 %r2, %r2, 1; setp.ne.u32 %p2, %r2, 0;
    @%p2 bra LOOP;
    bar.sync 0;
    ld.shared.u32 %r1, [room];
    st.global.u32 [%d9], %r1;
    """
    )
    (found,) = launch(body, words(512), grid=(2, 1, 1), block=(256, 1, 1), declarations=ROOM,
                      schedule=scheduled(schedule), hazards=True)  # fmt: skip
    assert found.tolist() == [sum(range(1, 257))] * 256 + [sum(range(257, 513))] * 256


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_exited_threads_are_not_waited_for(schedule: tuple[str, int]) -> None:
    body = (
        OWN
        + """
    setp.ge.u32 %p1, %t, 70;
    @%p1 exit;
    st.shared.u32 [%r10], %t;
    bar.sync 0;
    sub.u32 %r1, 69, %t; shl.b32 %r1, %r1, 2; ld.shared.u32 %r1, [%r1];
    st.global.u32 [%d9], %r1;
    """
    )
    (found,) = launch(body, words(128), block=(128, 1, 1), declarations=ROOM, schedule=scheduled(schedule))
    assert found.tolist() == [69 - t for t in range(70)] + [0] * 58


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_blocks_may_need_different_numbers_of_barriers(schedule: tuple[str, int]) -> None:
    body = (
        OWN
        + """
    mov.u32 %r1, 0; add.u32 %r2, %r30, 1;
    LOOP: st.shared.u32 [%r10], %r1;
    bar.sync 0;
    ld.shared.u32 %r1, [%r12]; add.u32 %r1, %r1, 1;
    bar.sync 0;
    sub.u32 %r2, %r2, 1; setp.ne.u32 %p1, %r2, 0;
    @%p1 bra LOOP;
    st.global.u32 [%d9], %r1;
    """
    )
    (found,) = launch(body, words(4 * 64), grid=(4, 1, 1), block=(64, 1, 1), declarations=ROOM,
                      schedule=scheduled(schedule), hazards=True)  # fmt: skip
    assert found.tolist() == [b + 1 for b in range(4) for _ in range(64)]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_a_predicated_barrier_holds_only_those_whose_predicate_is_true(schedule: tuple[str, int]) -> None:
    """Warp 1 passes by and runs to its end; only then can warp 0's barrier complete, and see what warp 1 wrote."""
    body = (
        OWN
        + """
    setp.lt.u32 %p1, %t, 32;
    @%p1 bar.sync 0;
    @!%p1 st.shared.u32 [%r10], %t;
    @%p1 ld.shared.u32 %r1, [%r12];
    @%p1 st.global.u32 [%d9], %r1;
    """
    )
    (found,) = launch(body, words(64), block=(64, 1, 1), declarations=ROOM, schedule=scheduled(schedule))
    assert found.tolist() == [*range(63, 31, -1), *[0] * 32]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_a_barrier_whose_predicate_is_false_everywhere_does_nothing(schedule: tuple[str, int]) -> None:
    body = MY_WORD + "setp.gt.u32 %p1, %t, 999;\n@%p1 bar.sync 0;\nst.global.u32 [%d9], %t;"
    (found,) = launch(body, words(64), block=(64, 1, 1), schedule=scheduled(schedule))
    assert found.tolist() == list(range(64))


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_threads_at_two_barriers_are_an_error_that_names_both_lines(schedule: tuple[str, int]) -> None:
    body = "\n".join(
        ["setp.lt.u32 %p1, %t, 40;", "@%p1 bra LOW;", "bar.sync 0;", "bra END;", "LOW: bar.sync 0;",
         "END: st.global.u32 [%b0], 1;"]
    )  # fmt: skip
    with pytest.raises(SimulationError, match="divergent barrier") as caught:
        launch(body, words(1), grid=(2, 1, 1), block=(64, 1, 1), schedule=scheduled(schedule))
    assert "k.cu:3" in caught.value.hint
    assert "k.cu:5" in caught.value.hint
    assert "block (0,0,0)" in caught.value.hint
    assert "threads at" in caught.value.hint


def test_a_barrier_in_only_one_branch_is_an_error_too() -> None:
    """Half of a warp waits inside the if, the other half at the barrier after it."""
    body = "setp.lt.u32 %p1, %t, 16;\n@!%p1 bra AFTER;\nbar.sync 0;\nAFTER: bar.sync 0;\nst.global.u32 [%b0], 1;"
    with pytest.raises(SimulationError, match="divergent barrier") as caught:
        launch(body, words(1))
    assert "16 threads at k.cu:3" in caught.value.hint
    assert "16 threads at k.cu:4" in caught.value.hint


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_a_barrier_that_can_never_complete_names_its_line(schedule: tuple[str, int]) -> None:
    """Half of a warp waits for the other half at __syncwarp(), which waits for them at __syncthreads()."""
    body = "setp.lt.u32 %p1, %t, 16;\n@%p1 bra LOW;\nbar.sync 0;\nbra END;\nLOW: bar.warp.sync -1;\nEND: ret;"
    with pytest.raises(SimulationError, match="barrier never completes: 16 of 32 live threads arrived") as caught:
        launch(body, words(1), schedule=scheduled(schedule))
    assert "k.cu:3: bar.sync 0; block (0,0,0), thread (16,0,0) waits" in caught.value.hint


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_lanes_of_a_warp_meet_at_two_warp_barriers(schedule: tuple[str, int]) -> None:
    """PTX asks for the same mask, not for the same place."""
    body = (
        OWN
        + """
    st.shared.u32 [%r10], %t; setp.lt.u32 %p1, %t, 16;
    @%p1 bra LOW;
    bar.warp.sync -1;
    bra END;
    LOW: bar.warp.sync -1;
    END: ld.shared.u32 %r1, [%r12];
    st.global.u32 [%d9], %r1;
    """
    )
    (found,) = launch(body, words(32), declarations=ROOM, schedule=scheduled(schedule), hazards=True)
    assert found.tolist() == list(range(31, -1, -1))


def test_two_warp_instructions_that_wait_for_one_another() -> None:
    body = "setp.lt.u32 %p1, %t, 16;\n@%p1 bra LOW;\nbar.warp.sync -1;\nbra END;\n"
    body += "LOW: shfl.sync.bfly.b32 %r1, %t, 1, 31, -1;\nEND: ret;"
    with pytest.raises(SimulationError, match="never completes: live lanes of its member mask never arrive") as caught:
        launch(body, words(1))
    assert "bar.warp.sync -1" in caught.value.hint


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("spelling", ["bar.sync 0", "barrier.sync 0"])
def test_whole_warps_may_wait_at_different_places(spelling: str, schedule: tuple[str, int]) -> None:
    """Warp 0 and warp 1 execute the same number of barriers, each in its own branch and at its own pace."""
    body = (
        OWN
        + f"""
    setp.lt.u32 %p1, %t, 32; mov.u32 %r5, 3;
    @%p1 bra FIRST;
    AGAIN: st.shared.u32 [%r10], %r5;
    {spelling};
    ld.shared.u32 %r1, [%r12];
    {spelling};
    sub.u32 %r5, %r5, 1; setp.ne.u32 %p2, %r5, 0;
    @%p2 bra AGAIN;
    bra END;
    FIRST: st.shared.u32 [%r10], %r5;
    {spelling};
    ld.shared.u32 %r1, [%r12]; sub.u32 %r5, %r5, 1;
    {spelling};
    setp.ne.u32 %p2, %r5, 0;
    @%p2 bra FIRST;
    END: st.global.u32 [%d9], %r1;
    """
    )
    (found,) = launch(body, words(128), grid=(2, 1, 1), block=(64, 1, 1), declarations=ROOM,
                      schedule=scheduled(schedule), hazards=True)  # fmt: skip
    assert found.tolist() == [1] * 128


def test_barrier_sync_takes_the_threads_of_a_warp_at_two_places() -> None:
    """Unlike bar.sync, which is aligned."""
    body = MY_WORD + "setp.lt.u32 %p1, %t, 16;\n@%p1 bra LOW;\nbarrier.sync 0;\nbra END;\nLOW: barrier.sync 0;\n"
    (found,) = launch(body + "END: st.global.u32 [%d9], 1;", words(32))
    assert found.tolist() == [1] * 32


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_warps_at_barriers_of_different_numbers_never_meet(schedule: tuple[str, int]) -> None:
    body = "setp.lt.u32 %p1, %t, 32;\n@%p1 bra LOW;\nbar.sync 1;\nbra END;\nLOW: bar.sync 0;\nEND: ret;"
    with pytest.raises(SimulationError, match="divergent barrier"):
        launch(body, words(1), block=(64, 1, 1), schedule=scheduled(schedule))


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_a_warp_barrier_waits_for_the_lanes_of_its_mask_only(schedule: tuple[str, int]) -> None:
    """The mask of the barrier has the low half of the warp; the high half never arrives."""
    body = (
        OWN
        + """
    setp.ge.u32 %p1, %t, 16; st.shared.u32 [%r10], %t;
    @%p1 bra END;
    bar.warp.sync 0xffff;
    xor.b32 %r1, %r10, 32; ld.shared.u32 %r1, [%r1];
    st.global.u32 [%d9], %r1;
    END: ret;
    """
    )
    (found,) = launch(body, words(32), declarations=ROOM, schedule=scheduled(schedule), hazards=True)
    assert found.tolist() == [t ^ 8 for t in range(16)] + [0] * 16


def test_a_warp_barrier_by_a_lane_that_its_mask_leaves_out() -> None:
    with pytest.raises(SimulationError) as caught:
        launch("setp.lt.u32 %p1, %t, 18;\n@%p1 bar.warp.sync 0xffff;", words(1))
    assert caught.value.message == "__syncwarp() by a lane that its own member mask leaves out"
    assert "k.cu:2: @%p1 bar.warp.sync 0xffff; block (0,0,0), thread (16,0,0)" in caught.value.hint


@pytest.mark.parametrize(
    "fence", ["membar.cta", "membar.gl", "fence.acq_rel.gpu", "fence.sc.cta", "bar.warp.sync 0xffffffff"]
)
def test_fences_change_nothing(fence: str) -> None:
    body = MY_WORD + f"st.global.u32 [%d9], %t;\n{fence};\nld.global.u32 %r1, [%d9];\nadd.u32 %r1, %r1, 1;\n"
    assert launch(body + "st.global.u32 [%d9], %r1;", words(32))[0].tolist() == list(range(1, 33))
