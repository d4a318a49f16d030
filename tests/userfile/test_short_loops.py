"""The loop over K that ends before the last terms, as a message names it."""

from __future__ import annotations

import pytest

from gemmsmith.userfile.text.short_loops import short_loop


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("{\n for (int i = 0; i < K / 4; ++i) { }\n}", "the loop of line 2 (`i < K / 4`)"),
        ("while (k <= K - 8) { k += 8; }", "the loop of line 1 (`k <= K - 8`)"),
        (
            "int parts = K / 8;\n\nfor (int p = 0; p < parts; p++) f(p);",
            "the loop of line 3 (`parts` is set in line 1)",
        ),
        ("for (int k = 0; k < K; k += 4) { }", "the loop"),
        ("for (int k = 0; k < K / 4; k++) { }\nfor (int k = 0; k < K / 4; k++) { }", "the loop"),
        ("int rows = M / 8; for (int r = 0; r < rows; ++r) { }", "the loop"),
    ],
)
def test_the_loop_is_named(code: str, told: str) -> None:
    assert short_loop(code, "K") == told
