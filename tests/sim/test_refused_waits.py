"""Waits at an mbarrier that were refused: asked again when a phase ends, and only then. Where races are looked for the
answer is not kept, which the same launch is compared with."""

from __future__ import annotations

import pytest
from ptx_launch import MY_WORD, SCHEDULES, launch, scheduled, words

from gemmsmith.sim.at_event import AtEvent
from gemmsmith.sim.instructions.mbarrier import PhaseWait

ROOM = ".shared .align 8 .b8 bars[32];"
BARS = [f"[bars{f'+{8 * n}' if n else ''}]" for n in range(4)]


def init(*counts: int) -> str:
    """Thread 0 initialises barriers, and all wait for that."""
    made = "".join(f"@!%p9 mbarrier.init.shared.b64 {BARS[n]}, {count};\n" for n, count in enumerate(counts))
    return f"{MY_WORD}setp.ne.u32 %p9, %t, 0;\n{made}bar.sync 0;\n"


# Warp n of four waits for the phases of barrier n, which warp n - 1 ends: each of ten rounds passes through all warps.
RELAY = f"""{init(32, 32, 32, 32)}
shr.u32 %r1, %t, 5; shl.b32 %r2, %r1, 3; mov.u32 %r3, bars; add.u32 %r4, %r3, %r2;
add.u32 %r5, %r1, 1; and.b32 %r5, %r5, 3; shl.b32 %r5, %r5, 3; add.u32 %r5, %r5, %r3;
mov.u32 %r6, 0; setp.eq.u32 %p2, %r1, 0;
LOOP: and.b32 %r7, %r6, 1; @%p2 xor.b32 %r7, %r7, 1;
WAIT: mbarrier.try_wait.parity.shared.b64 %p1, [%r4], %r7;
@!%p1 bra WAIT;
mbarrier.arrive.shared.b64 _, [%r5];
add.u32 %r6, %r6, 1; setp.lt.u32 %p3, %r6, 10;
@%p3 bra LOOP;
st.global.u32 [%d9], %r6;"""


def polls(schedule: tuple[str, int], monkeypatch: pytest.MonkeyPatch, **options: bool) -> int:
    """How many times nobody could go on, so that all who wait were sent round their loops."""
    made, poll = [], AtEvent.poll
    monkeypatch.setattr(AtEvent, "poll", lambda self: made.append(1) or poll(self))
    (found,) = launch(RELAY, words(256), grid=(2, 1, 1), block=(128, 1, 1), declarations=ROOM,
                      schedule=scheduled(schedule), **options)  # fmt: skip
    monkeypatch.undo()
    assert found.tolist() == [10] * 256
    return len(made)


@pytest.mark.parametrize("schedule", SCHEDULES, ids=str)
def test_every_phase_that_ends_is_seen(schedule: tuple[str, int], monkeypatch: pytest.MonkeyPatch) -> None:
    assert polls(schedule, monkeypatch) == polls(schedule, monkeypatch, hazards=True)


def test_those_who_were_refused_are_not_asked_when_no_phase_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, complete = [], PhaseWait.complete
    monkeypatch.setattr(PhaseWait, "complete", lambda self, *rest: asked.append(1) or complete(self, *rest))
    counts = []
    for hazards in (False, True):
        asked.clear()
        launch(RELAY, words(256), grid=(2, 1, 1), block=(128, 1, 1), declarations=ROOM, hazards=hazards)
        counts.append(len(asked))
    assert counts[0] < counts[1]
