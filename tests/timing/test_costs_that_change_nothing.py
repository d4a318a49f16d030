"""What-ifs of conflicts and lines are run only where some access has any."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from gemmsmith.explain.timing import whatif
from gemmsmith.explain.timing.prediction import Changes
from gemmsmith.sim.timing.table import Kind

CONFLICTS, COALESCED = Changes(conflicts=False), Changes(coalesced=True)
ROWS = [
    SimpleNamespace(kind=Kind.SHARED_LOAD, result_bytes=16, operand_bytes=4),
    SimpleNamespace(kind=Kind.GLOBAL_LOAD, result_bytes=4, operand_bytes=8),
    SimpleNamespace(kind=Kind.PLAIN, result_bytes=0, operand_bytes=0),
]


@pytest.mark.parametrize(("changes", "position", "payload", "changed"), [
    (CONFLICTS, 0, 4, False), (CONFLICTS, 0, 5, True), (CONFLICTS, 1, ((1, 15), (2, 15)), False),
    (COALESCED, 1, ((1, 15),), False), (COALESCED, 1, ((1, 15), (2, 15)), True), (COALESCED, 1, "local", True),
    (COALESCED, 0, 9, False), (CONFLICTS, 2, None, False), (Changes(sm={"barrier": 0.0}), 2, None, True),
])  # fmt: skip
def test_whether_a_change_changes_anything(
    changes: Changes, position: int, payload: Any, changed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whatif, "rows_of", lambda *_: ROWS)
    stream = SimpleNamespace(positions=(2, position), payloads=(None, payload))
    predictor: Any = SimpleNamespace(program=None, model=SimpleNamespace(sm=None),
                                     samples=[SimpleNamespace(streams=(stream,))])  # fmt: skip
    assert whatif._changes_some(changes, predictor) is changed
