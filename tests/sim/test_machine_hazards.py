"""Shared-memory races: found under every schedule, named on both sides, without false alarms."""

from __future__ import annotations

import pytest
from ptx_launch import SCHEDULES, kernel, launch, scheduled, words

from gemmsmith.errors import SimulationError
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.run.device import Launch
from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.races.hazards import Hazard, HazardError

ROOM = ".shared .align 16 .b8 room[2048];"
# Line 1 of each body: %r10 my word, %r11 my neighbour's (within the warp), %r12 that of the thread 32 further on.
MINE = (
    "shl.b32 %r10, %t, 2; xor.b32 %r11, %r10, 4; xor.b32 %r12, %r10, 128; mov.u64 %d1, %b0; setp.eq.u32 %p1, %t, 0;"
    " setp.lt.u32 %p2, %t, 32;\n"
)


def hazards(
    body: str, schedule: tuple[str, int] = ("lockstep", 0), block: int = 64, grid: int = 1
) -> tuple[Hazard, ...]:
    """The hazards of a body; none is an empty tuple."""
    try:
        launch(MINE + body.strip(), words(64), block=(block, 1, 1), grid=(grid, 1, 1), declarations=ROOM,
               schedule=scheduled(schedule), hazards=True)  # fmt: skip
    except HazardError as error:
        return error.hazards
    return ()


# What is missing between lines 2 (or 3) and the next: kind, whether two warps, first verb, second verb.
WRITE, WRITE_ALL = "st.shared.u32 [%r10], %t;", "st.shared.u32 [%r10], 0;\nbar.sync 0;"
RACES = {
    "read after write, two warps": (WRITE, "ld.shared.u32 %r1, [%r12];", "read-after-write", True),
    "read after write, one warp": (WRITE, "ld.shared.u32 %r1, [%r11];", "read-after-write", False),
    "write after read, two warps": ("ld.shared.u32 %r1, [%r12];", WRITE, "write-after-read", True),
    "write after read, one warp": ("ld.shared.u32 %r1, [%r11];", WRITE, "write-after-read", False),
    "write after write, two warps": (WRITE, "st.shared.u32 [%r12], %t;", "write-after-write", True),
    "write after write, one warp": (WRITE, "st.shared.u32 [%r11], %t;", "write-after-write", False),
    "broadcast read, then write": (
        "ld.shared.u32 %r1, [room];", "@%p1 st.shared.u32 [room], 3;", "write-after-read", True),
    "wide read of narrow writes": (
        WRITE, "and.b32 %r1, %r10, 0xF0; ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [%r1];", "read-after-write", False),
}  # fmt: skip


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("name", RACES)
def test_a_race_is_found_under_every_schedule(name: str, schedule: tuple[str, int]) -> None:
    first, second, kind, across = RACES[name]
    found = hazards(f"{WRITE_ALL}\n{first}\n{second}", schedule)
    assert found
    # Which of the two accesses came first is the schedule's choice where warps drift apart.
    assert {h.kind for h in found} & {kind, "read-after-write", "write-after-read"}
    lines = {h.first.where for h in found} | {h.second.where for h in found}
    assert lines <= {"k.cu:4", "k.cu:5"}
    assert "k.cu:5" in lines
    assert any(h.across_warps for h in found) or not across


@pytest.mark.parametrize("name", RACES)
def test_the_report_names_both_accesses(name: str) -> None:
    first, second, kind, across = RACES[name]
    hazard = next(h for h in hazards(f"{WRITE_ALL}\n{first}\n{second}") if h.kind == kind)
    assert (hazard.first.where, hazard.second.where) == ("k.cu:4", "k.cu:5")
    assert hazard.first.text in first.rstrip(";")
    assert hazard.second.text.removeprefix("@%p1 ") in second.rstrip(";")
    assert hazard.first.thread != hazard.second.thread
    assert hazard.across_warps == across
    assert hazard.block == "(0,0,0)"
    text = str(hazard)
    assert f"{kind} race on shared address {hazard.address:#x} of block (0,0,0)" in text
    assert ("a __syncthreads() must" in text) == across
    assert ("__syncwarp()" in text) == (not across)
    for access in (hazard.first, hazard.second):
        assert f"{access.verb} at {access.where} by thread (" in text


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("name", RACES)
def test_a_barrier_removes_the_race(name: str, schedule: tuple[str, int]) -> None:
    first, second, _, _ = RACES[name]
    assert hazards(f"{WRITE_ALL}\n{first}\nbar.sync 0;\n{second}", schedule) == ()


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("name", [n for n, race in RACES.items() if not race[3]])
def test_syncwarp_is_enough_within_a_warp(name: str, schedule: tuple[str, int]) -> None:
    first, second, _, _ = RACES[name]
    assert hazards(f"{WRITE_ALL}\n{first}\nbar.warp.sync -1;\n{second}", schedule) == ()


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("name", [n for n, race in RACES.items() if race[3]])
def test_syncwarp_is_not_enough_between_warps(name: str, schedule: tuple[str, int]) -> None:
    first, second, _, _ = RACES[name]
    found = hazards(f"{WRITE_ALL}\n{first}\nbar.warp.sync -1;\n{second}", schedule)
    assert found
    assert all(h.across_warps for h in found)


NO_RACES = {
    "everyone their own word": f"{WRITE}\nld.shared.u32 %r1, [%r10];\nst.shared.u32 [%r10], %r1;",
    "everyone reads one word": "@%p1 st.shared.u32 [room], 1;\nbar.sync 0;\nld.shared.u32 %r1, [room];",
    "the same bits by several threads": "st.shared.u32 [room], 5;\nst.shared.u32 [room+4], 6;",
    "bytes of one word": "mov.u32 %r1, %t; st.shared.u8 [%t], %r1;\nld.shared.u8 %r2, [%t];",
    "one warp only": "@%p2 st.shared.u32 [%r10], %t;\nbar.warp.sync -1;\n@%p2 ld.shared.u32 %r1, [%r11];",
    "barrier in a loop": """
        mov.u32 %r2, 3;
        AGAIN: st.shared.u32 [%r10], %r2;
        bar.sync 0;
        ld.shared.u32 %r3, [%r12];
        bar.sync 0;
        sub.u32 %r2, %r2, 1; setp.ne.u32 %p3, %r2, 0;
        @%p3 bra AGAIN;
        """,
    "global memory": "shl.b32 %r1, %t, 2; cvt.u64.u32 %d2, %r1; add.s64 %d2, %d2, %d1;\nst.global.u32 [%d2], 5;",
}


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("name", NO_RACES)
def test_no_false_alarm(name: str, schedule: tuple[str, int]) -> None:
    assert hazards(NO_RACES[name], schedule, grid=3) == ()


def test_a_loop_that_lacks_its_second_barrier() -> None:
    """The classic race: the next iteration's write overtakes this iteration's read."""
    body = NO_RACES["barrier in a loop"].replace("bar.sync 0;\n        sub", "sub")
    for schedule in SCHEDULES:
        found = hazards(body, schedule)
        assert {h.kind for h in found} <= {"write-after-read", "read-after-write"}
        assert any(h.across_warps for h in found)


def test_blocks_do_not_race_with_one_another() -> None:
    assert hazards("st.shared.u32 [%r10], %t;\nld.shared.u32 %r1, [%r10];", grid=5, block=33) == ()


def test_the_block_and_the_threads_are_right() -> None:
    """In block 3 only: thread 7 reads what thread 39 wrote."""
    body = f"{WRITE}\nmov.u32 %r1, %ctaid.x; setp.eq.u32 %p3, %r1, 3; setp.eq.and.u32 %p3, %t, 7, %p3;\n"
    body += "@%p3 ld.shared.u32 %r1, [%r12];"
    (hazard,) = hazards(body, grid=6)
    assert hazard.block == "(3,0,0)"
    assert hazard.address == 4 * 39
    assert hazard.first.thread == "thread (39,0,0)"
    assert hazard.second.thread == "thread (7,0,0)"
    assert (hazard.first.verb, hazard.second.verb) == ("write", "read")


COPY = "mul.wide.u32 %d2, %t, 4; add.s64 %d2, %d2, %d1; cp.async.ca.shared.global [%r10], [%d2], 4;"
IN_FLIGHT = {
    "own copy read without waiting": (f"{COPY}\ncp.async.commit_group;\nld.shared.u32 %r1, [%r10];", 4),
    "another's copy read without waiting": (f"{COPY}\nbar.sync 0;\nld.shared.u32 %r1, [%r12];", 4),
    "the wait allows one group too many": (
        f"{COPY}\ncp.async.commit_group; cp.async.wait_group 1;\nld.shared.u32 %r1, [%r10];", 4),
    "destination overwritten": (f"{COPY}\ncp.async.commit_group;\nst.shared.u32 [%r10], %t;", 4),
    "copied over twice": (f"{COPY}\ncp.async.commit_group;\n{COPY}", 4),
}  # fmt: skip


@pytest.mark.parametrize("schedule", [s for s in SCHEDULES if s[0] != "lockstep"] + [("lockstep", 0)], ids=str)
@pytest.mark.parametrize("name", IN_FLIGHT)
def test_touching_a_copy_in_flight_is_a_race(name: str, schedule: tuple[str, int]) -> None:
    body, line = IN_FLIGHT[name]
    fill = "st.shared.u32 [%r10], 0; bar.sync 0;"  # so that late copies do not show as uninitialised
    found = [h for h in hazards(body.replace(COPY, f"{fill} {COPY}", 1), schedule) if h.kind == "in-flight-copy"]
    assert found
    assert found[0].first.verb == "asynchronous copy"
    assert (found[0].first.where, found[0].second.where) == ("k.cu:2", f"k.cu:{line}")
    assert "cp.async.wait_group by the copying thread" in str(found[0])


def test_a_wait_does_not_cover_the_copy_of_another_thread() -> None:
    body = f"{COPY}\ncp.async.wait_all;\nld.shared.u32 %r1, [%r12];"
    assert {h.kind for h in hazards(body)} == {"read-after-write"}
    assert hazards(body.replace("cp.async.wait_all;", "cp.async.wait_all; bar.sync 0;")) == ()


def test_a_buffer_reused_too_early() -> None:
    """A copy into a buffer that other threads may still read."""
    body = f"{WRITE}\nbar.sync 0;\nld.shared.u32 %r1, [%r12];\n{COPY}\ncp.async.wait_all;"
    (hazard,) = hazards(body)
    assert hazard.kind == "write-after-read"
    assert (hazard.first.verb, hazard.second.verb) == ("read", "asynchronous copy")
    assert (hazard.first.where, hazard.second.where) == ("k.cu:4", "k.cu:5")
    assert hazards(body.replace(COPY, f"bar.sync 0; {COPY}")) == ()


def test_the_error_carries_every_hazard() -> None:
    body = MINE + f"{WRITE_ALL}\n{WRITE}\nld.shared.u32 %r1, [%r12];\nst.shared.u32 [%r11], 9;"
    with pytest.raises(HazardError) as caught:
        launch(body, words(64), block=(64, 1, 1), declarations=ROOM, hazards=True)
    assert len(caught.value.hazards) >= 3
    assert caught.value.message == str(caught.value.hazards[0])
    assert all(str(hazard) in caught.value.hint for hazard in caught.value.hazards[1:])


def test_a_hazard_is_not_forgotten_by_the_next_launch() -> None:
    """A product may take several launches; its hazards are read once, at the end. A launch that faults has none."""
    device = SimDevice(hazards=True)
    address = device.allocate(256)
    racy = f"{WRITE_ALL}\n{WRITE}\nld.shared.u32 %r1, [%r12];"
    bodies = {"racy": racy, "right": WRITE, "faulty": racy + "\nst.global.u32 [%d1+4000], %r1;"}

    def start(name: str) -> None:
        loaded = device.load_ptx(kernel(MINE + bodies[name], 1, ROOM), "k")
        device.launch(loaded, Launch(Geometry((1, 1, 1), (64, 1, 1)), (address.to_bytes(8, "little"),)))

    start("racy")
    start("right")
    with pytest.raises(HazardError):
        device.synchronize()
    start("right")
    device.synchronize()
    with pytest.raises(SimulationError, match="out-of-bounds"):
        start("faulty")
    device.synchronize()


def test_nothing_is_reported_if_hazards_are_off() -> None:
    launch(MINE + f"{WRITE}\nld.shared.u32 %r1, [%r12];", words(64), block=(64, 1, 1), declarations=ROOM)


def test_a_barrier_that_exited_threads_miss_is_a_note() -> None:
    device = SimDevice(hazards=True)
    address = device.allocate(256)
    for body, notes in ((f"{WRITE}\nbar.sync 0;", 0), (f"@!%p2 exit;\n{WRITE}\nbar.sync 0;", 1)):
        loaded = device.load_ptx(kernel(MINE + body, 1, ROOM), "k")
        device.launch(loaded, Launch(Geometry((2, 1, 1), (64, 1, 1)), (address.to_bytes(8, "little"),)))
        assert len(device.notes) == notes
    assert device.notes[0].startswith("__syncthreads() at k.cu:4: 32 of 64 threads of the block had returned before it")
    device.synchronize()


def test_a_second_look_leaves_memory_as_one_launch_does() -> None:
    """Each thread adds one to a counter that another thread reads: the launch is repeated, the result is not."""
    body = "red.global.add.u32 [%d1], 1;\nld.global.u32 %r1, [%d1];\nst.global.u32 [%d1+4], 7;"
    device = SimDevice(hazards=True)
    address = device.allocate(256)
    loaded = device.load_ptx(kernel(MINE + body, 1, ROOM), "k")
    device.launch(loaded, Launch(Geometry((3, 1, 1), (64, 1, 1)), (address.to_bytes(8, "little"),)))
    assert device.read(address, 8).view("u4").tolist() == [192, 7]
    with pytest.raises(
        HazardError, match=r"race on global address 0x\w+ \(byte 0 of a 256-byte allocation\)"
    ) as caught:
        device.synchronize()
    assert all(hazard.is_global and hazard.across_blocks for hazard in caught.value.hazards)
    assert "blocks of one launch run at the same time" in str(caught.value)


def test_global_races_with_few_accesses_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the locations are left out until the rest fits; a race at all of them is found at those that stay."""
    monkeypatch.setattr("gemmsmith.sim.races.global_shadow._MOST_ACCESSES", 50)
    body = (
        "mad.wide.u32 %d2, %t, 4, %d1;\nst.global.u32 [%d2], %t;\nxor.b32 %r1, %t, 32; mad.wide.u32 %d3, %r1, 4, %d1;\n"
    )
    assert hazards(body + "ld.global.u32 %r2, [%d3];")
    assert hazards(body + "bar.sync 0;\nld.global.u32 %r2, [%d3];") == ()
