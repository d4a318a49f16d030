"""mbarrier: phases, waits that block, counts, copies that arrive, what a wait orders, and what goes wrong."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_launch import MY_WORD, SCHEDULES, launch, scheduled, words

from gemmsmith.errors import SimulationError
from gemmsmith.sim.races.hazards import HazardError

ROOM = ".shared .align 16 .b8 room[1024]; .shared .align 8 .b8 full[16]; .shared .align 8 .b8 empty[16];"
# %r10: my byte offset in the room; %r12: that of my mirror image in the block.
OWN = MY_WORD + "shl.b32 %r10, %t, 2; mov.u32 %r11, %ntid.x; sub.u32 %r12, %r11, %t; sub.u32 %r12, %r12, 1; "
OWN += "shl.b32 %r12, %r12, 2;\n"


def init(count: str, name: str = "full") -> str:
    """Thread 0 initialises a barrier, and all wait for that."""
    return f"setp.ne.u32 %p9, %t, 0; @!%p9 mbarrier.init.shared.b64 [{name}], {count};\nbar.sync 0;\n"


def wait(label: str, form: str = "try_wait.shared.b64", name: str = "full", phase: str = "%d1") -> str:
    return f"{label}: mbarrier.{form} %p1, [{name}], {phase};\n@!%p1 bra {label};\n"


SPELLINGS = [
    ("arrive.shared.b64", "test_wait.shared.b64"),
    ("arrive.shared::cta.b64", "try_wait.shared::cta.b64"),
    ("arrive.release.cta.shared::cta.b64", "try_wait.acquire.cta.shared::cta.b64"),
]


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize(("arrive", "test"), SPELLINGS)
def test_what_others_wrote_before_they_arrived_is_there(arrive: str, test: str, schedule: tuple[str, int]) -> None:
    body = f"""{OWN}{init("%r11")}
    st.shared.u32 [%r10], %r32;
    mbarrier.{arrive} %d1, [full];
    {wait("LOOP", test)}
    ld.shared.u32 %r1, [%r12];
    st.global.u32 [%d9], %r1;"""
    (found,) = launch(body, words(3 * 96), grid=(3, 1, 1), block=(96, 1, 1), declarations=ROOM,
                      schedule=scheduled(schedule), hazards=True)  # fmt: skip
    assert np.array_equal(found.reshape(3, 96), np.arange(3 * 96).reshape(3, 96)[:, ::-1])


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_a_phase_orders_nothing_that_arrived_for_the_next(schedule: tuple[str, int]) -> None:
    """The barrier expects 32 of 64 threads: each warp ends a phase of its own, and reads what the other wrote."""
    body = f"""{OWN}{init("32")}
    st.shared.u32 [%r10], %r32;
    mbarrier.arrive.shared.b64 %d1, [full];
    {wait("LOOP")}
    ld.shared.u32 %r1, [%r12];
    st.global.u32 [%d9], %r1;"""
    with pytest.raises(HazardError):
        launch(body, words(64), block=(64, 1, 1), declarations=ROOM, schedule=scheduled(schedule), hazards=True)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_generic_addresses(schedule: tuple[str, int]) -> None:
    body = f"""{OWN}
    mov.u64 %d2, full; cvta.shared.u64 %d2, %d2; setp.ne.u32 %p9, %t, 0;
    @!%p9 mbarrier.init.b64 [%d2], %r11;
    bar.sync 0;
    st.shared.u32 [%r10], %r32;
    mbarrier.arrive.b64 %d1, [%d2];
    {wait("LOOP", "test_wait.b64", "%d2")}
    ld.shared.u32 %r1, [%r12];
    st.global.u32 [%d9], %r1;"""
    (found,) = launch(body, words(64), block=(64, 1, 1), declarations=ROOM, schedule=scheduled(schedule), hazards=True)
    assert found.tolist() == list(range(63, -1, -1))


# Warp 0 writes one of two stages of 32 words when it is empty, warp 1 reads it when it is full.
PIPELINE = """{own}setp.ne.u32 %p9, %t, 0;
@!%p9 mbarrier.init.shared.b64 [full], 32;
@!%p9 mbarrier.init.shared.b64 [full+8], 32;
@!%p9 mbarrier.init.shared.b64 [empty], 32;
@!%p9 mbarrier.init.shared.b64 [empty+8], 32;
bar.sync 0;
mov.u32 %r1, 0; mov.u32 %r2, 0; and.b32 %r20, %t, 31; setp.ge.u32 %p2, %t, 32;
LOOP: and.b32 %r3, %r1, 1; shr.u32 %r4, %r1, 1; and.b32 %r4, %r4, 1; shl.b32 %r5, %r3, 3; shl.b32 %r6, %r3, 7;
mov.u32 %r7, full; add.u32 %r7, %r7, %r5; mov.u32 %r8, empty; add.u32 %r8, %r8, %r5;
@%p2 bra READ;
xor.b32 %r9, %r4, 1;
{acquire}
mad.lo.u32 %r13, %r20, 4, %r6; mad.lo.u32 %r14, %r1, 100, %r20;
st.shared.u32 [%r13], %r14;
mbarrier.arrive.shared.b64 _, [%r7];
bra NEXT;
READ:
{consume}
xor.b32 %r13, %r20, 31; mad.lo.u32 %r13, %r13, 4, %r6;
ld.shared.u32 %r14, [%r13]; mad.lo.u32 %r2, %r2, 3, %r14;
mbarrier.arrive.shared.b64 _, [%r8];
NEXT: add.u32 %r1, %r1, 1; setp.lt.u32 %p3, %r1, 6;
@%p3 bra LOOP;
@%p2 st.global.u32 [%d9], %r2;"""
ACQUIRE = wait("FREE", "try_wait.parity.shared::cta.b64", "%r8", "%r9")
CONSUME = wait("FULL", "test_wait.parity.shared.b64", "%r7", "%r4")


def pipeline(acquire: str = ACQUIRE, consume: str = CONSUME, schedule: tuple[str, int] = ("lockstep", 0),
             hazards: bool = True) -> list[int]:  # fmt: skip
    body = PIPELINE.format(own=OWN, acquire=acquire, consume=consume)
    return launch(body, words(128), grid=(2, 1, 1), block=(64, 1, 1), declarations=ROOM, schedule=scheduled(schedule),
                  hazards=hazards)[0].tolist()  # fmt: skip


# Where no races are looked for, a wait that was refused is not asked again before a phase ends.
@pytest.mark.parametrize("hazards", [True, False], ids=["races looked for", "results alone"])
@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_a_producer_and_a_consumer_warp(schedule: tuple[str, int], hazards: bool) -> None:
    expected = []
    for lane in range(32):
        total = 0
        for step in range(6):
            total = total * 3 + 100 * step + 31 - lane
        expected.append(total)
    assert pipeline(schedule=schedule, hazards=hazards) == ([0] * 32 + expected) * 2


def hazards(acquire: str, consume: str) -> set[str]:
    with pytest.raises(HazardError) as caught:
        pipeline(acquire, consume)
    assert all(hazard.across_warps for hazard in caught.value.hazards)
    return {hazard.kind for hazard in caught.value.hazards}


def test_a_stage_that_is_overwritten_before_it_is_empty_is_a_race() -> None:
    assert "write-after-read" in hazards("", CONSUME)


def test_a_stage_that_is_read_without_a_wait_is_a_race() -> None:
    assert "read-after-write" in hazards(ACQUIRE, "")


@pytest.mark.parametrize("form", ["test_wait.parity.shared.b64", "try_wait.parity.shared.b64"])
def test_a_wait_that_is_not_repeated_is_a_race(form: str) -> None:
    """The second warp asks once, and goes on whatever the answer is."""
    body = f"""{OWN}{init("32")}st.shared.u32 [%r10], 0; bar.sync 0; setp.ge.u32 %p2, %t, 32;
@%p2 bra READ;
st.shared.u32 [%r10], %t; mbarrier.arrive.shared.b64 _, [full]; bra END;
READ: mbarrier.{form} %p1, [full], 0;
ld.shared.u32 %r1, [%r10+-128]; st.global.u32 [%d9], %r1;
END: ret;"""
    with pytest.raises(HazardError) as caught:
        launch(body, words(64), block=(64, 1, 1), declarations=ROOM, schedule=scheduled(("reversed", 0)), hazards=True)
    assert {hazard.kind for hazard in caught.value.hazards} == {"read-after-write"}
    (found,) = launch(body, words(64), block=(64, 1, 1), declarations=ROOM, schedule=scheduled(("reversed", 0)))
    assert not found.any()


def test_threads_that_use_a_barrier_before_it_is_initialised_race_with_that() -> None:
    body = "setp.ne.u32 %p9, %t, 0; @!%p9 mbarrier.init.shared.b64 [full], 64;\nmbarrier.arrive.shared.b64 _, [full];"
    with pytest.raises(HazardError) as caught:
        launch(body, words(1), block=(64, 1, 1), declarations=ROOM, hazards=True)
    (hazard,) = caught.value.hazards
    assert (hazard.first.verb, hazard.second.verb) == ("initialisation", "arrival")


# -- counts -------------------------------------------------------------------------------------------


def results(body: str, count: int = 4) -> list[int]:
    """%r1 to %r4 of thread 0 after a body that one thread runs."""
    stores = " ".join(f"st.global.u32 [%b0+{4 * n}], %r{n + 1};" for n in range(count))
    return launch(f"{body}\n{stores}", words(count), block=(1, 1, 1), declarations=ROOM)[0].tolist()


def test_an_arrival_returns_what_was_pending_before_it() -> None:
    body = """mbarrier.init.shared.b64 [full], 3;
mbarrier.arrive.shared.b64 %d1, [full]; mbarrier.pending_count.b64 %r1, %d1;
mbarrier.arrive.shared.b64 %d1, [full]; mbarrier.pending_count.b64 %r2, %d1;
mbarrier.arrive.shared.b64 %d1, [full]; mbarrier.pending_count.b64 %r3, %d1;
mbarrier.arrive.shared.b64 %d1, [full]; mbarrier.pending_count.b64 %r4, %d1;"""
    assert results(body) == [3, 2, 1, 3]


def test_one_thread_may_arrive_for_several() -> None:
    body = """mbarrier.init.shared.b64 [full], 9;
mbarrier.arrive.noComplete.shared.b64 %d1, [full], 5; mbarrier.pending_count.b64 %r1, %d1;
mbarrier.arrive.shared::cta.b64 %d2, [full], 4; mbarrier.pending_count.b64 %r2, %d2;
mbarrier.test_wait.shared.b64 %p1, [full], %d1; selp.u32 %r3, 1, 0, %p1;
mbarrier.test_wait.parity.shared.b64 %p1, [full], 1; selp.u32 %r4, 1, 0, %p1;"""
    assert results(body) == [9, 4, 1, 0]


def test_a_thread_that_drops_out_is_not_expected_again() -> None:
    body = """mbarrier.init.shared.b64 [full], 4;
mbarrier.arrive_drop.shared.b64 %d1, [full]; mbarrier.arrive_drop.noComplete.shared.b64 _, [full], 1;
mbarrier.arrive.shared.b64 _, [full]; mbarrier.arrive.shared.b64 _, [full];
mbarrier.test_wait.shared.b64 %p1, [full], %d1; selp.u32 %r1, 1, 0, %p1;
mbarrier.arrive.shared.b64 %d1, [full]; mbarrier.pending_count.b64 %r2, %d1; mov.u32 %r3, 0; mov.u32 %r4, 0;"""
    assert results(body) == [1, 2, 0, 0]


def test_a_wait_that_is_not_over_can_be_left() -> None:
    """Nobody else can complete the phase: the one who asks gets false, goes on, and completes it."""
    body = """mbarrier.init.shared.b64 [full], 2;
mbarrier.arrive.shared.b64 %d1, [full];
mbarrier.test_wait.shared.b64 %p1, [full], %d1; selp.u32 %r1, 1, 0, %p1;
mbarrier.try_wait.shared::cta.b64 %p1, [full], %d1, 1000; selp.u32 %r2, 1, 0, %p1;
mbarrier.arrive.shared.b64 _, [full];
mbarrier.test_wait.shared.b64 %p1, [full], %d1; selp.u32 %r3, 1, 0, %p1; mov.u32 %r4, 0;"""
    assert results(body) == [0, 0, 1, 0]


def test_memory_of_a_barrier_can_be_used_again() -> None:
    body = """mbarrier.init.shared.b64 [full], 1; mbarrier.arrive.shared.b64 %d1, [full];
mbarrier.inval.shared.b64 [full]; st.shared.u32 [full], 7; ld.shared.u32 %r1, [full];
mbarrier.init.shared.b64 [full], 2;
mbarrier.arrive.shared.b64 %d1, [full]; mbarrier.pending_count.b64 %r2, %d1; mov.u32 %r3, 0; mov.u32 %r4, 0;"""
    assert results(body) == [7, 2, 0, 0]


# -- copies -------------------------------------------------------------------------------------------

COPIES = """{own}{init}mul.wide.u32 %d2, %t, 4; add.s64 %d3, %b1, %d2;
cp.async.ca.shared.global [%r10], [%d3], 4;
cp.async.mbarrier.arrive{noinc}.shared.b64 [full];
{arrive}
{wait}
ld.shared.u32 %r1, [%r12];
st.global.u32 [%d9], %r1;"""


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("noinc", [False, True])
def test_copies_arrive_when_they_have_landed(noinc: bool, schedule: tuple[str, int]) -> None:
    """Without .noinc the thread arrives as well; with it the copies are the arrival."""
    arrive = "" if noinc else "mbarrier.arrive.shared.b64 _, [full];"
    body = COPIES.format(own=OWN, init=init("%r11"), noinc=".noinc" if noinc else "", arrive=arrive,
                         wait=wait("LOOP", "try_wait.parity.shared.b64", phase="0"))  # fmt: skip
    data = np.random.default_rng(1).integers(0, 1 << 32, 96, dtype=np.uint32)
    found, _ = launch(body, words(96), data, block=(96, 1, 1), declarations=ROOM, schedule=scheduled(schedule),
                      hazards=True)  # fmt: skip
    assert np.array_equal(found, data[::-1])


def test_a_copy_that_nobody_has_waited_for_is_in_flight() -> None:
    body = COPIES.format(own=OWN, init=init("%r11"), noinc=".noinc", arrive="", wait="")
    with pytest.raises(HazardError) as caught:
        launch(body, words(96), words(96), block=(96, 1, 1), declarations=ROOM, hazards=True)
    assert {hazard.kind for hazard in caught.value.hazards} == {"in-flight-copy"}


def test_a_copy_after_the_arrival_is_not_waited_for() -> None:
    late = "cp.async.ca.shared.global [%r10], [%d3], 4;\n"
    body = COPIES.format(own=OWN, init=init("%r11"), noinc=".noinc", arrive=late,
                         wait=wait("LOOP", "try_wait.parity.shared.b64", phase="0"))  # fmt: skip
    with pytest.raises(HazardError) as caught:
        launch(body, words(96), words(96), block=(96, 1, 1), declarations=ROOM, hazards=True)
    assert {hazard.kind for hazard in caught.value.hazards} == {"in-flight-copy"}


# -- faults -------------------------------------------------------------------------------------------

FAULTS = [
    ("mbarrier.arrive.shared.b64 _, [full];", "uninitialised shared arrival of 8 bytes"),
    ("st.shared.u64 [full], 0;\nmbarrier.arrive.shared.b64 _, [full];", "is not initialised"),
    ("mbarrier.init.shared.b64 [full], 0;", "a count of 0: it must be from 1 to 1048575"),
    ("mbarrier.init.shared.b64 [full+4], 1;", "misaligned shared initialisation of 8 bytes"),
    ("mbarrier.init.shared.b64 [full], 2;\nmbarrier.arrive.shared.b64 _, [full], 3;",
     "3 arrivals at an mbarrier whose phase lacks 2"),
    ("mbarrier.init.shared.b64 [full], 1;\nmbarrier.arrive.expect_tx.shared.b64 _, [full], 64;\n"
     "mbarrier.arrive.expect_tx.shared.b64 _, [full], 64;",
     "phase lacks 0 and waits for .* a wait for the end of phase 0 must come first"),
    ("mbarrier.init.shared.b64 [full], 2;\nmbarrier.arrive.noComplete.shared.b64 _, [full], 2;", "completes the phase"),
    ("mbarrier.init.b64 [%b0], 2;", "mbarrier.init in global memory: an mbarrier must be in shared memory"),
    ("mbarrier.init.shared.b64 [full], 1;\nmbarrier.inval.shared.b64 [full];\nmbarrier.inval.shared.b64 [full];",
     "is not initialised"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "says"), FAULTS)
def test_misuse_is_a_fault_at_its_line(body: str, says: str) -> None:
    with pytest.raises(SimulationError, match=says) as caught:
        launch(body, words(4), block=(1, 1, 1), declarations=ROOM)
    assert f"k.cu:{len(body.splitlines())}: mbarrier" in caught.value.hint
    assert "thread (0,0,0)" in caught.value.hint


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_a_phase_that_is_never_complete_names_the_wait(schedule: tuple[str, int]) -> None:
    body = f"""{init("65")}mbarrier.arrive.shared.b64 %d1, [full];
{wait("LOOP")}"""
    with pytest.raises(SimulationError, match="phase 0 of the mbarrier lacks 1 arrivals") as caught:
        launch(body, words(1), block=(64, 1, 1), declarations=ROOM, schedule=scheduled(schedule))
    assert "mbarrier.try_wait.shared.b64" in caught.value.hint


# -- spinning on memory -------------------------------------------------------------------------------


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_a_warp_that_spins_on_memory_gives_way(schedule: tuple[str, int]) -> None:
    """Every warp waits for the one before it, or after it, to set a flag in global memory."""
    for first, step in ((0, 1), (3, -1)):
        body = f"""{MY_WORD}shr.u32 %r1, %t, 5; mul.wide.u32 %d1, %r1, 4; add.s64 %d1, %d1, %b1;
        setp.eq.u32 %p1, %r1, {first};
        @%p1 bra GO;
        SPIN: ld.volatile.global.u32 %r2, [%d1+{-4 * step}]; setp.eq.u32 %p2, %r2, 0;
        @%p2 bra SPIN;
        GO: st.volatile.global.u32 [%d1], 1;
        st.global.u32 [%d9], %r1;"""
        found, _ = launch(body, words(128), words(4), block=(128, 1, 1), schedule=scheduled(schedule))
        assert found.tolist() == [t // 32 for t in range(128)]
