"""The lengths of groups that a file says a kernel is launched for."""

from __future__ import annotations

import pytest

from gemmsmith.userfile.kernels.group_lengths import group_lengths


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("if (group != 32 && group != 64 && group != 128) return -2;", (128, 64, 32)),
        ("if (group != 128) return;  // groups of 32, 64 or 128 elsewhere", (128,)),
        ("// group may be 16, 32, 64 or 128; K is a multiple of group.", (128, 64, 32, 16)),
        ("// Supported group sizes: 32/64.", (64, 32)),
        ("// group is a power of two >= 32 and divides K.", (256, 128, 64, 32)),
        ("TORCH_CHECK(K % group == 0 && group >= 64);", (256, 128, 64)),
        ("int groups = K / group; float a[32], b[64];", ()),
    ],
)
def test_lengths_that_a_text_names(text: str, expected: tuple[int, ...]) -> None:
    assert group_lengths("group", text) == expected
