"""What mbarriers and barriers with a count order beside shared memory, and how waiting goes with everything else."""

from __future__ import annotations

import pytest
from ptx_launch import SCHEDULES, launch, scheduled, words

from gemmsmith.sim.races.hazards import HazardError

ROOM = ".shared .align 8 .b64 full; .shared .align 16 .b8 room[1024];"
OWN = "mul.wide.u32 %d8, %t, 4; add.s64 %d9, %b0, %d8; add.s64 %d7, %b1, %d8;\n"
INIT = "setp.eq.u32 %p9, %t, 0; @%p9 mbarrier.init.shared.b64 [full], 32; bar.sync 0;\n"
# The first warp writes global memory and arrives; the second waits for it and reads.
HANDOVER = """{own}{init}setp.ge.u32 %p1, %t, 32;
@%p1 bra READ;
st.global.u32 [%d7], %t; {arrive} ret;
READ: {wait}
ld.global.u32 %r1, [%d7+-128]; st.global.u32 [%d9], %r1;"""
WAIT = "AGAIN: mbarrier.try_wait.parity.shared.b64 %p2, [full], 0; @!%p2 bra AGAIN;"
PAIRS = {
    "mbarrier": ("mbarrier.arrive.shared.b64 %d1, [full];", WAIT),
    "barrier with a count": ("bar.arrive 1, 64;", "bar.sync 1, 64;"),
}


def handover(arrive: str, wait: str, schedule: tuple[str, int]) -> list[int]:
    body = HANDOVER.format(own=OWN, init=INIT, arrive=arrive, wait=wait)
    return launch(body, words(64), words(64), block=(64, 1, 1), declarations=ROOM, schedule=scheduled(schedule),
                  hazards=True)[0].tolist()  # fmt: skip


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("pair", PAIRS)
def test_global_memory_is_ordered(pair: str, schedule: tuple[str, int]) -> None:
    assert handover(*PAIRS[pair], schedule)[32:] == list(range(32))


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("pair", PAIRS)
def test_global_memory_is_not_ordered_without_a_wait(pair: str, schedule: tuple[str, int]) -> None:
    arrive, _ = PAIRS[pair]
    with pytest.raises(HazardError) as caught:
        handover(arrive, "", schedule)
    assert {hazard.across_warps for hazard in caught.value.hazards} == {True}


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_warps_may_meet_at_different_reductions(schedule: tuple[str, int]) -> None:
    body = f"""{OWN}setp.ge.u32 %p1, %t, 32; setp.lt.u32 %p3, %t, 40;
@%p1 bra SECOND;
bar.red.popc.u32 %r1, 0, %p3; bra END;
SECOND: not.pred %p4, %p3; bar.red.popc.u32 %r1, 0, !%p4;
END: st.global.u32 [%d9], %r1;"""
    assert launch(body, words(64), block=(64, 1, 1), schedule=scheduled(schedule))[0].tolist() == [40] * 64


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_copies_land_while_another_warp_spins(schedule: tuple[str, int]) -> None:
    """The first warp waits for its copies by an mbarrier and sets a flag. The second spins on the flag."""
    body = f"""{OWN}{INIT}setp.ge.u32 %p1, %t, 32; mov.u32 %r3, room; mad.lo.u32 %r4, %t, 4, %r3;
@%p1 bra SPIN;
cp.async.ca.shared.global [%r4], [%d7], 4; cp.async.mbarrier.arrive.noinc.shared.b64 [full];
{WAIT}
ld.shared.u32 %r1, [%r4]; st.global.u32 [%d9], %r1; setp.ne.u32 %p3, %t, 0; @%p3 bra END;
st.volatile.global.u32 [%b1+256], 1; bra END;
SPIN: ld.volatile.global.u32 %r1, [%b1+256]; setp.eq.u32 %p3, %r1, 0; @%p3 bra SPIN;
END: ret;"""
    found = launch(body, words(64), words(65), block=(64, 1, 1), declarations=ROOM, schedule=scheduled(schedule))
    assert found[1].tolist()[64] == 1


@pytest.mark.parametrize("rounds", [5, 110])  # 96 are kept
def test_what_all_threads_know_to_be_past_is_forgotten_but_races_are_found(rounds: int) -> None:
    """Two warps hand a stage to and fro, for more rounds than are kept; at the end one more write is a race."""
    body = f"""{OWN}mov.u32 %r2, 0; and.b32 %r3, %t, 31; mov.u32 %r6, room; mad.lo.u32 %r4, %r3, 4, %r6;
setp.ge.u32 %p1, %t, 32;
LOOP: @%p1 bra READ;
st.shared.u32 [%r4], %r2; bar.arrive 1, 64; bar.sync 2, 64; bra NEXT;
READ: bar.sync 1, 64; xor.b32 %r7, %r4, 4; ld.shared.u32 %r1, [%r7]; bar.arrive 2, 64;
NEXT: add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, {rounds}; @%p2 bra LOOP;
@%p1 {{last}} st.global.u32 [%d9], %r1;"""
    for last, races in (("", False), ("st.shared.u32 [%r4], 7;", True)):
        run = body.format(last=last) if last else body.replace("@%p1 {last} ", "@%p1 ")
        try:
            launch(run, words(64), block=(64, 1, 1), declarations=ROOM, hazards=True)
        except HazardError:
            assert races
        else:
            assert not races
