"""bench, killed at random moments: what anybody had seen in the database is still there, and the file is whole."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gemmsmith.run.cuda import gpu_available

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not gpu_available(), reason="needs an NVIDIA GPU")]
ROUNDS, WRITERS = 5, 10
SHAPES = ",".join(str(64 * i) for i in range(1, 60))
BENCH = ["bench", "coalesced", "vectorized", "--against", "none", "--quick", "--budget", "0.02", "--shapes", SHAPES]


def seen(path: Path) -> set[tuple[str, str, int, float]]:
    """Every measurement that a reader finds."""
    if not path.exists():
        return set()
    reader = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, timeout=30)
    try:
        query = ("SELECT run.id, contender, m, timing.median FROM measurement JOIN run ON run.number = measurement.run "
                 "JOIN timing ON timing.measurement = measurement.number")  # fmt: skip
        return set(reader.execute(query).fetchall())
    except sqlite3.OperationalError:  # no tables yet
        return set()
    finally:
        reader.close()


def test_nothing_is_lost_when_bench_is_killed(tmp_path: Path) -> None:
    path = tmp_path / "results.db"
    rng = random.Random(1)
    known: set[tuple[str, str, int, float]] = set()
    for _ in range(ROUNDS):
        command = [sys.executable, "-m", "gemmsmith", *BENCH, "--db", str(path)]
        running = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
                   for _ in range(WRITERS)]  # fmt: skip
        started = time.monotonic()
        before = len(known)
        while len(known) < before + WRITERS and time.monotonic() - started < 60:
            time.sleep(0.05)
            known |= seen(path)
        for process in running:
            time.sleep(rng.uniform(0, 0.3))
            known |= seen(path)
            process.send_signal(signal.SIGKILL)
            process.wait()
        assert known <= seen(path)
        whole = sqlite3.connect(path)
        assert whole.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        whole.close()
        assert len(known) > before, "the benches got nowhere before they were killed"
    assert len(known) >= ROUNDS * WRITERS
