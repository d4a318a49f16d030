"""Whether a measured time is of the kernel as it is now: rows of record_cycles.py carry a digest of all source text.

A kernel that changed since it was timed is another kernel. Texts with equal machine code count as the same
(src/gemmsmith/kernel/equal_sources.json).
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

ARCH = "sm_90a"
HERE = Path(__file__).parent


def file_of(name: str) -> Path:
    """A kernel's file by its name: a micro-benchmark, or one of the kernels in other people's styles."""
    return next(HERE / folder / name for folder in ("micro", "outside") if (HERE / folder / name).exists())


def is_stale(row: dict[str, Any]) -> bool:
    """Whether the source of a row's kernel is another one today; a row without a digest cannot show that it is not."""
    from gemmsmith.kernel.equal_sources import current_digest

    shape = row["m"], row["n"], row["k"]
    today = digest_today(row["kernel"], shape, tuple(sorted(row.get("defines", {}).items())))
    return current_digest(str(row.get("digest", ""))) != current_digest(today)


@cache
def digest_today(name: str, shape: tuple[int, int, int], defines: tuple[tuple[str, int], ...] = ()) -> str:
    """The digest that record_cycles.py would write for a kernel, with operands that are aligned as it aligns them."""
    from gemmsmith.bench.kernel_contender import source_digest
    from gemmsmith.call.binding import specialized_config
    from gemmsmith.cli.options.kernel import KernelOptions, find_kernel
    from gemmsmith.kernel.spec import Addresses

    if name.endswith(".cu"):
        given = KernelOptions(define=[f"{key}={value}" for key, value in defines])
        spec, config = find_kernel(str(file_of(name)), given)
    else:
        spec, config = find_kernel(name)
    problem = spec.problem(*shape)
    config = specialized_config(spec, config, problem, Addresses(1 << 20, 2 << 20, 3 << 20))
    return source_digest(spec, config, problem, ARCH)
