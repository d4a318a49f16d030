"""How long commands take to start, against their limits: CPU seconds (user and system) of a process of its own.

    python benchmarks/limits.py [--runs N]

Prints the least of N runs, which other work on the machine disturbs least. Tests assert which modules are imported;
seconds are printed here and asserted nowhere.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys

# Command line and limit in seconds; None has no limit and is printed for comparison.
STARTS: tuple[tuple[str, float | None], ...] = (
    ("--version", 0.4),
    ("--help", None),
    ("list", 0.7),
    ("list --json", 0.7),
    ("run --help", None),
    ("run nosuch", None),
)


def cpu_seconds(words: list[str]) -> float:
    """User and system time of one run of the command line."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-m", "gemmsmith", *words], capture_output=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=5, help="runs of each command (default 5)")
    runs = max(1, parser.parse_args().runs)
    print(f"CPU seconds to start, least of {runs} runs")
    print(f"{'command':28} {'seconds':>8} {'limit':>6}")
    for line, limit in STARTS:
        seconds = min(cpu_seconds(line.split()) for _ in range(runs))
        over = "" if limit is None or seconds <= limit else "  OVER"
        print(f"gemmsmith {line:18} {seconds:8.2f} {'' if limit is None else f'{limit:.1f}':>6}{over}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
