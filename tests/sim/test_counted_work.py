"""Every part of a simulated launch is counted as work: its wave, turns of warps, waits, and the search for races."""

from __future__ import annotations

from typing import Any

import pytest
from ptx_launch import MY_WORD, launch, words

from gemmsmith.sim.work import WORK, Work

# Each thread writes a word, waits for all, and reads the word of another warp.
BODY = f"""{MY_WORD} shl.b32 %r10, %t, 2; xor.b32 %r12, %r10, 128; setp.ne.u32 %p9, %t, 0;
@!%p9 mbarrier.init.shared.b64 [full], 64;
bar.sync 0;
st.shared.u32 [%r10], %r32;
mbarrier.arrive.shared.b64 %d1, [full];
LOOP: mbarrier.try_wait.shared.b64 %p1, [full], %d1;
@!%p1 bra LOOP;
ld.shared.u32 %r1, [%r12];
st.global.u32 [%d9], %r1;"""
ROOM = ".shared .align 16 .b8 room[256]; .shared .align 8 .b8 full[8];"


@pytest.mark.parametrize("hazards", [True, False], ids=["watched", "plain"])
def test_a_launch_is_counted(hazards: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: dict[str, list[tuple[Any, ...]]] = {}
    for name in ("add_wave", "add_turn", "add_search", "add_acquire"):
        real = getattr(Work, name)

        def noted(work: Work, *given: Any, name: str = name, real: Any = real) -> None:
            counted.setdefault(name, []).append(given)
            real(work, *given)

        monkeypatch.setattr(Work, name, noted)
    before = WORK.seconds
    (found,) = launch(BODY, words(64), block=(64, 1, 1), declarations=ROOM, hazards=hazards)
    assert found.tolist() == [*range(32, 64), *range(32)]
    assert WORK.seconds > before
    assert len(counted["add_wave"]) == 1
    assert sum(operations for operations, _, _ in counted["add_turn"]) >= BODY.count(";") / 2
    assert {watched for _, _, watched in counted["add_turn"]} == {hazards}
    assert ("add_acquire" in counted) is hazards
    assert any(pairs for pairs, _ in counted.get("add_search", ())) is hazards
