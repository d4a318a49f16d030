"""Check every kernel of a folder of repositories, as a new user would: stage reached, reason, seconds.

    python benchmarks/check_repositories.py FOLDER [--only NAME] [--output table.json] [--jobs 2 | --on PLACE]

Each subfolder is a repository. Every ``__global__`` function is given to ``gemmsmith check`` as it is, in a process of
its own. A kernel whose parameters are not those of a product is compiled and loaded instead: the simulator then knows
all of its instructions, and ``gemmsmith.launch`` can run it. No GPU is needed.

The script judges no verdict: "right" and "wrong" are what check says.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from gemmsmith.cli.check_folder import KernelPlace, check_all, kernels_in, load_all
from gemmsmith.cli.options.on import OnOptions
from gemmsmith.cli.render.findings import Checked
from gemmsmith.cluster.place import LOCAL, Place

LOAD_S = 120


@dataclass(frozen=True)
class Row:
    """One kernel. ``stage`` is the status of its check, "loaded", or "not runnable"."""

    repository: str
    file: str
    kernel: str
    stage: str
    reason: str
    seconds: float


def rows_of(work: Sequence[tuple[Path, KernelPlace]], given: argparse.Namespace) -> list[Row]:
    """Every kernel checked; those that are no product loaded instead."""
    on, usual = OnOptions(on=given.on), Place(LOCAL, given.jobs)
    kernels = [kernel for _, kernel in work]
    command = shlex.join(["check_repositories.py", str(given.folder), given.only, *given.option])

    def done(one: Checked) -> None:
        print(f"{one.file}:{one.entry} {one.status} {one.seconds:.1f} s  {one.summary[:150]}", flush=True)

    found = check_all(kernels, given.option, seconds=given.seconds, on=on, usual=usual, command=command, done=done)
    others = [kernel for kernel, checked in zip(kernels, found, strict=True) if checked.kind == "SignatureError"]
    loads = iter(load_all(others, on=on, usual=usual, seconds=LOAD_S, command=f"{command} --load"))
    rows = []
    for (repository, kernel), checked in zip(work, found, strict=True):
        end = checked
        if checked.kind == "SignatureError":
            loaded, why, seconds = next(loads)
            end = replace(checked, status="loaded" if loaded else "not runnable", seconds=seconds,
                          summary="" if loaded else f"{checked.summary}; {why}")  # fmt: skip
        file = kernel.file.relative_to(repository).as_posix()
        rows.append(Row(repository.name, file, kernel.entry, end.status, end.summary, round(end.seconds, 1)))
    return rows


def table(rows: Sequence[Row]) -> str:
    lines = [f"{row.file}:{row.kernel:<40} {row.stage:<14} {row.seconds:6.1f} s  {row.reason[:150]}" for row in rows]
    for name in sorted({row.repository for row in rows}):
        counts = Counter(row.stage for row in rows if row.repository == name)
        lines.append(f"{name}: {counts.total()} kernels: " + ", ".join(f"{n} {stage}" for stage, n in counts.items()))
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="repositories and files with this in their path")
    parser.add_argument("--output", type=Path, help="write the rows as JSON")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--on", default="", help="where: local:4, ray or ray://host:10001 (docs/cluster.md)")
    parser.add_argument("--seconds", type=float, default=60, help="most seconds of one check")
    parser.add_argument("--option", action="append", default=[], help="a further word for gemmsmith check")
    given = parser.parse_args()
    work = [(repository, kernel) for repository in sorted(given.folder.iterdir()) if repository.is_dir()
            for kernel in kernels_in(repository) if given.only in str(kernel.file)]  # fmt: skip
    rows = rows_of(work, given)
    print(table(rows) if rows else "no kernel was found")
    if given.output:
        given.output.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
