"""What every test shares: a private compile cache and results database, and never the user's own."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read by NumPy when it is imported; every core has a worker

from done_once import do_once
from tiers import in_make_test, tier


def pytest_configure() -> None:
    """Look for garbage once in 50,000 new objects instead of 700: a parsed kernel has as many, and none is garbage."""
    gc.set_threshold(50_000, 10, 10)
    os.environ.pop("COLUMNS", None)  # workers of pytest-xdist get one, and commands would fold their lines to it


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that tiers.toml leaves to ``make test-all`` or ``make nightly``."""
    here = Path(__file__).parent
    files = {path: path.relative_to(here).as_posix() for path in {item.path for item in items} if here in path.parents}
    own = [item for item in items if item.path in files]
    kept = in_make_test((files[item.path], item.name) for item in own)
    for item in own:
        test = files[item.path], item.name
        if test not in kept and (marker := tier(*test)):
            item.add_marker(marker)


@pytest.fixture(scope="session", autouse=True)
def compile_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """GEMMSMITH_CACHE_DIR for this run: each kernel is compiled once, whichever worker needs it first."""
    base = tmp_path_factory.getbasetemp()
    # Each xdist worker has a folder of its own below the run's.
    run = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = run / "compile-cache"
    folder.mkdir(mode=0o700, exist_ok=True)
    (run / "listings").mkdir(mode=0o700, exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GEMMSMITH_CACHE_DIR", str(folder))
        patch.setenv("GEMMSMITH_DB", str(base / "results.db"))
        patch.setenv("GEMMSMITH_TUNING", str(base / "tuning.jsonl"))
        patch.setenv("GEMMSMITH_LEARN", str(base / "learn.json"))
        patch.setenv("GEMMSMITH_CURES", "0")  # the search of causes takes seconds; tests/cure asks for it
        patch.setenv("GEMMSMITH_ON", "here")  # commands are patched in this process; tests/cluster names other places
        do_once(patch, run / "listings")
        yield folder
