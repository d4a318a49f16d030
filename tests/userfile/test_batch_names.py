"""A name that may be the size of a batch or the side of a tile."""

from __future__ import annotations

import pytest

from gemmsmith.userfile.host.batch_names import batch_names


@pytest.mark.parametrize(("path", "block", "grid", "counts"), [
    ("batch", "dim3(16, 16)", "dim3(n / 16, m / 16, batch)", True),
    ("args.bs", "dim3(16, 16)", "dim3(n / 16, m / 16, args.bs)", True),
    ("BS", "dim3(BS, BS)", "dim3(n / 16, m / 16, batch)", False),
    ("BS", "256", "dim3((n + BS - 1) / BS, (m + BS - 1) / (BS), batch)", False),
    ("tile", "256", "dim3(n, m, tile)", False),
])  # fmt: skip
def test_what_counts_products(path: str, block: str, grid: str, counts: bool) -> None:
    assert batch_names([path], [grid, block], {}) == [path] * counts
    assert batch_names([path], ["blocks", "threads"], {"blocks": grid, "threads": block}) == [path] * counts
