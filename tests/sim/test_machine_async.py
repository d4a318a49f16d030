"""cp.async: when copies land, which groups a wait covers, zero fill, and what a late copy must not see."""

from __future__ import annotations

import numpy as np
import pytest
from ptx_launch import Array, launch, words

from gemmsmith.errors import SimulationError
from gemmsmith.sim.schedule import NAMES, Schedule, schedule_named

ROOM = ".shared .align 16 .b8 room[2048];"
# %r10: my 16 bytes of the room; %d1, %d2: my 16 bytes of buffers 0 and 1.
MINE = """shl.b32 %r10, %t, 4; mul.wide.u32 %d1, %t, 16; add.s64 %d2, %d1, %b1; add.s64 %d1, %d1, %b0;
"""
SCHEDULES = [(name, late) for name in NAMES for late in (False, True)]


def _schedule(case: tuple[str, bool]) -> Schedule:
    return schedule_named(case[0], late_copies=case[1])


def _data(count: int = 128) -> Array:
    return np.random.default_rng(3).integers(0, 1 << 32, count, dtype=np.uint32)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
@pytest.mark.parametrize("wait", ["cp.async.commit_group;\ncp.async.wait_group 0", "cp.async.wait_all"])
@pytest.mark.parametrize(("form", "width"), [("ca", 4), ("ca", 8), ("ca", 16), ("cg", 16), ("cg.L2", 16)])
def test_a_copy_that_is_waited_for_is_there(form: str, width: int, wait: str, schedule: tuple[str, bool]) -> None:
    name = "cp.async.cg.shared.global.L2::128B" if form == "cg.L2" else f"cp.async.{form}.shared.global"
    vector = {4: "u32 %r1", 8: "v2.u32 {%r1, %r2}", 16: "v4.u32 {%r1, %r2, %r3, %r4}"}[width]
    kind, _, registers = vector.partition(" ")
    body = MINE + f"{name} [%r10], [%d1], {width};\n{wait};\n"
    body += f"ld.shared.{kind} {registers}, [%r10];\nst.global.{kind} [%d2], {registers};"
    data = _data()
    _, found = launch(body, data, words(128), declarations=ROOM, schedule=_schedule(schedule), hazards=True)
    wanted = np.zeros((32, 4), np.uint32)
    wanted[:, : width // 4] = data.reshape(32, 4)[:, : width // 4]
    assert np.array_equal(found.reshape(32, 4), wanted)


READ_TOO_EARLY = (
    MINE
    + """
st.shared.u32 [%r10], 7;
cp.async.ca.shared.global [%r10], [%d1], 4;
cp.async.commit_group;
ld.shared.u32 %r1, [%r10];
st.global.u32 [%d2], %r1;
"""
)


@pytest.mark.parametrize("late", [False, True])
def test_early_and_late_arrival_differ_where_nothing_waits(late: bool) -> None:
    data = _data()
    _, found = launch(READ_TOO_EARLY, data, words(128), declarations=ROOM, schedule=schedule_named("lockstep", 0, late))
    assert found.reshape(32, 4)[:, 0].tolist() == ([7] * 32 if late else data.reshape(32, 4)[:, 0].tolist())


def test_a_late_copy_into_fresh_memory_is_uninitialised_until_waited_for() -> None:
    body = READ_TOO_EARLY.replace("st.shared.u32 [%r10], 7;\n", "")
    with pytest.raises(SimulationError, match="uninitialised shared read"):
        launch(body, _data(), words(128), declarations=ROOM, schedule=schedule_named("lockstep", 0, True))


@pytest.mark.parametrize("allowed", [0, 1, 2, 3, 4, 7])
@pytest.mark.parametrize("groups", [1, 2, 3, 4])
def test_wait_group_leaves_the_last_n_groups_in_flight(groups: int, allowed: int) -> None:
    """Each group copies one word over a zero; exactly the groups that were waited for have landed."""
    body = MINE + "mov.u32 %r20, 0;\nst.shared.v4.u32 [%r10], {%r20, %r20, %r20, %r20};\n"
    for i in range(groups):
        body += f"cp.async.ca.shared.global [%r10+{4 * i}], [%d1+{4 * i}], 4;\ncp.async.commit_group;\n"
    body += f"cp.async.wait_group {allowed};\nld.shared.v4.u32 {{%r1, %r2, %r3, %r4}}, [%r10];\n"
    body += "st.global.v4.u32 [%d2], {%r1, %r2, %r3, %r4};"
    data = _data()
    _, found = launch(body, data, words(128), declarations=ROOM, schedule=schedule_named("in_order"))
    landed = max(0, groups - allowed)
    wanted = np.zeros((32, 4), np.uint32)
    wanted[:, :landed] = data.reshape(32, 4)[:, :landed]
    assert np.array_equal(found.reshape(32, 4), wanted)


@pytest.mark.parametrize(("wait", "lands"), [("wait_group 0", False), ("wait_all", True)])
def test_a_copy_without_a_commit_belongs_to_no_group_yet(wait: str, lands: bool) -> None:
    body = READ_TOO_EARLY.replace("cp.async.commit_group", f"cp.async.{wait}")
    data = _data()
    _, found = launch(body, data, words(128), declarations=ROOM, schedule=schedule_named("in_order"))
    assert found.reshape(32, 4)[:, 0].tolist() == (data.reshape(32, 4)[:, 0].tolist() if lands else [7] * 32)


def test_an_empty_group_counts() -> None:
    """Pipelines commit at every step, copies or not."""
    body = READ_TOO_EARLY.replace("cp.async.commit_group;", "cp.async.commit_group;\n" * 2 + "cp.async.wait_group 1;")
    data = _data()
    _, found = launch(body, data, words(128), declarations=ROOM, schedule=schedule_named("in_order"))
    assert found.reshape(32, 4)[:, 0].tolist() == data.reshape(32, 4)[:, 0].tolist()


def test_a_wait_covers_only_the_copies_of_its_thread() -> None:
    """Odd lanes do not wait (a predicated wait): their copies are still in flight."""
    body = READ_TOO_EARLY.replace(
        "ld.shared", "and.b32 %r9, %t, 1; setp.eq.u32 %p1, %r9, 0;\n@%p1 cp.async.wait_group 0;\nld.shared"
    )
    data = _data()
    _, found = launch(body, data, words(128), declarations=ROOM, schedule=schedule_named("in_order"))
    first = data.reshape(32, 4)[:, 0].tolist()
    assert found.reshape(32, 4)[:, 0].tolist() == [7 if t % 2 else first[t] for t in range(32)]


def test_a_predicated_commit_closes_only_the_groups_of_its_lanes() -> None:
    body = READ_TOO_EARLY.replace(
        "cp.async.commit_group;",
        "and.b32 %r9, %t, 1; setp.eq.u32 %p1, %r9, 0;\n@%p1 cp.async.commit_group;\ncp.async.wait_group 0;",
    )
    data = _data()
    _, found = launch(body, data, words(128), declarations=ROOM, schedule=schedule_named("in_order"))
    first = data.reshape(32, 4)[:, 0].tolist()
    assert found.reshape(32, 4)[:, 0].tolist() == [7 if t % 2 else first[t] for t in range(32)]


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("size", range(17))
def test_the_rest_of_a_short_copy_is_zero(size: int, late: bool) -> None:
    """src-size bytes come from memory, the others are zeros; size 0 reads nothing, even from an invalid address."""
    source = "mov.u64 %d1, 0;\n" if size == 0 else ""
    body = MINE + source + f"mov.u32 %r5, {size};\ncp.async.cg.shared.global [%r10], [%d1], 16, %r5;\n"
    body += "cp.async.wait_all;\nld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [%r10];\n"
    body += "st.global.v4.u32 [%d2], {%r1, %r2, %r3, %r4};"
    data = _data()
    _, found = launch(body, data, words(128), declarations=ROOM, schedule=schedule_named("lockstep", 0, late))
    wanted = data.view(np.uint8).reshape(32, 16).copy()
    wanted[:, size:] = 0
    assert found.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(("form", "policy"), [("", ""), (".L2::128B", ""), (".L2::cache_hint", ", %d4"),
                                              (".L2::cache_hint.L2::64B", ", %d4")])  # fmt: skip
def test_a_predicate_may_ignore_the_source(form: str, policy: str, late: bool) -> None:
    """Odd lanes read nothing, from an invalid address, and fill with zeros."""
    body = MINE + "and.b32 %r9, %t, 1; setp.ne.u32 %p1, %r9, 0; mov.u64 %d4, 0; @%p1 mov.u64 %d1, 16;\n"
    body += f"cp.async.cg.shared.global{form} [%r10], [%d1], 16, %p1{policy};\ncp.async.wait_all;\n"
    body += "ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [%r10];\nst.global.v4.u32 [%d2], {%r1, %r2, %r3, %r4};"
    data = _data()
    _, found = launch(body, data, words(128), declarations=ROOM, schedule=schedule_named("lockstep", 0, late))
    wanted = data.reshape(32, 4).copy()
    wanted[1::2] = 0
    assert np.array_equal(found.reshape(32, 4), wanted)


@pytest.mark.parametrize("name", ["cp.async.ca.shared::cta.global", "cp.async.shared.global.ca",
                                  "cp.async.ca.shared.global.L2::256B"])  # fmt: skip
def test_modifiers_of_a_copy_come_in_any_order(name: str) -> None:
    body = MINE + f"mov.u32 %r5, 8;\n{name} [%r10], [%d1], 16, %r5;\ncp.async.wait_all;\n"
    body += "ld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [%r10];\nst.global.v4.u32 [%d2], {%r1, %r2, %r3, %r4};"
    data = _data()
    _, found = launch(body, data, words(128), declarations=ROOM)
    wanted = data.reshape(32, 4).copy()
    wanted[:, 2:] = 0
    assert np.array_equal(found.reshape(32, 4), wanted)


@pytest.mark.parametrize("late", [False, True])
def test_each_lane_may_have_its_own_size(late: bool) -> None:
    body = MINE + "and.b32 %r5, %t, 15; cp.async.ca.shared.global [%r10], [%d1], 16, %r5;\n"
    body += "cp.async.wait_all;\nld.shared.v4.u32 {%r1, %r2, %r3, %r4}, [%r10];\n"
    body += "st.global.v4.u32 [%d2], {%r1, %r2, %r3, %r4};"
    data = _data()
    _, found = launch(body, data, words(128), declarations=ROOM, schedule=schedule_named("lockstep", 0, late))
    wanted = data.view(np.uint8).reshape(32, 16).copy()
    for t in range(32):
        wanted[t, t % 16 :] = 0
    assert found.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("late", [False, True])
def test_a_copy_comes_after_what_its_thread_did_before(late: bool) -> None:
    """An earlier load of the destination sees the old bytes; an earlier store to the source is copied."""
    body = (
        MINE
        + """
    st.shared.u32 [%r10], 5;
    st.global.u32 [%d1], %t;
    ld.shared.u32 %r1, [%r10]; cp.async.ca.shared.global [%r10], [%d1], 4; cp.async.wait_all;
    ld.shared.u32 %r2, [%r10];
    st.global.v2.u32 [%d2], {%r1, %r2};
    """
    )
    schedule = schedule_named("lockstep", 0, late)
    _, found = launch(body, _data(), words(128), declarations=ROOM, schedule=schedule, hazards=True)
    assert found.reshape(32, 4)[:, :2].tolist() == [[5, t] for t in range(32)]


@pytest.mark.parametrize("late", [False, True])
def test_registers_may_change_while_a_copy_is_in_flight(late: bool) -> None:
    body = (
        MINE
        + """
    mov.u32 %r5, 4; mov.u32 %r6, %r10; mov.u64 %d3, %d1;
    cp.async.ca.shared.global [%r6], [%d3], 4, %r5;
    mov.u32 %r5, 0; mov.u64 %d3, 0; mov.u32 %r6, 9999;
    cp.async.wait_all;
    ld.shared.u32 %r1, [%r10];
    st.global.u32 [%d2], %r1;
    """
    )
    data = _data()
    _, found = launch(body, data, words(128), declarations=ROOM, schedule=schedule_named("lockstep", 0, late))
    assert np.array_equal(found.reshape(32, 4)[:, 0], data.reshape(32, 4)[:, 0])


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_a_double_buffered_pipeline(schedule: tuple[str, bool]) -> None:
    """Copies one step ahead; every thread reads what its neighbour copied; the sum is the same under every schedule."""
    body = """
    shl.b32 %r10, %t, 2; xor.b32 %r11, %r10, 252; mul.wide.u32 %d1, %t, 4; add.s64 %d2, %d1, %b1; add.s64 %d1, %d1, %b0;
    mov.u32 %r1, 0; mov.u32 %r2, 0; mov.u32 %r3, 0;
    cp.async.ca.shared.global [%r10], [%d1], 4;
    cp.async.commit_group;
    LOOP: add.u32 %r2, %r2, 1; setp.lt.u32 %p1, %r2, 8; xor.b32 %r4, %r3, 256; add.s64 %d1, %d1, 256;
    add.u32 %r5, %r10, %r4; add.u32 %r6, %r11, %r3;
    @%p1 cp.async.ca.shared.global [%r5], [%d1], 4;
    cp.async.commit_group;
    cp.async.wait_group 1;
    bar.sync 0;
    ld.shared.u32 %r7, [%r6]; mad.lo.u32 %r1, %r1, 3, %r7; mov.u32 %r3, %r4;
    bar.sync 0;
    @%p1 bra LOOP;
    st.global.u32 [%d2], %r1;
    """
    data = _data(512)
    _, found = launch(body, data, words(64), block=(64, 1, 1), declarations=ROOM, schedule=_schedule(schedule),
                      hazards=True)  # fmt: skip
    wanted = np.zeros(64, np.uint32)
    for step in data.reshape(8, 64):
        wanted = wanted * np.uint32(3) + step[::-1]
    assert np.array_equal(found, wanted)
