"""Check every kernel of a folder of repositories, as a new user would: stage reached, reason, seconds.

    python benchmarks/check_repositories.py FOLDER [--only NAME] [--output table.json] [--jobs 2]

Each subfolder is a repository. Every ``__global__`` function is given to ``gemmsmith check`` as it is, in a process of
its own. A kernel whose parameters are not those of a product is compiled and loaded instead: the simulator then knows
all of its instructions, and ``gemmsmith.launch`` can run it. No GPU is needed.

The script judges no verdict: "right" and "wrong" are what check says.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from gemmsmith.cli.check_folder import KernelPlace, check_apart, kernels_in
from gemmsmith.cli.render.findings import Checked

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


def row_of(repository: Path, kernel: KernelPlace, options: Sequence[str], seconds: float) -> Row:
    found = check_apart(kernel, options, seconds)
    if found.kind == "SignatureError":
        other = loaded(kernel)
        found = other if other.ok else replace(other, summary=f"{found.summary}; {other.summary}")
    file = kernel.file.relative_to(repository).as_posix()
    return Row(repository.name, file, kernel.entry, found.status, found.summary, round(found.seconds, 1))


def loaded(kernel: KernelPlace) -> Checked:
    """Whether a kernel compiles and the simulator knows its instructions."""
    start = time.monotonic()
    command = [sys.executable, __file__, "--load", str(kernel.file), kernel.entry]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LOAD_S)
        said = (done.stderr.strip().splitlines() or [""])[-1]
        status = "not runnable" if done.returncode else "loaded"
    except subprocess.TimeoutExpired:
        status, said = "not runnable", f"not compiled after {LOAD_S} s"
    return Checked(str(kernel.file), kernel.entry, status, status == "loaded", summary=said,
                   seconds=time.monotonic() - start)  # fmt: skip


def load(file: str, entry: str) -> int:
    from gemmsmith.call.any_kernel.kernel import compile_launch
    from gemmsmith.errors import GemmsmithError
    from gemmsmith.sim.device import SimDevice
    from gemmsmith.userfile.user_kernel import launched_name

    try:
        name = launched_name(Path(file), entry)
        SimDevice().load(compile_launch(file, name, {}, (), "sm_90").compiled)
    except GemmsmithError as error:
        sys.stderr.write(f"{type(error).__name__}: {error.message}\n")
        return 1
    return 0


def table(rows: Sequence[Row]) -> str:
    lines = [f"{row.file}:{row.kernel:<40} {row.stage:<14} {row.seconds:6.1f} s  {row.reason[:150]}" for row in rows]
    for name in sorted({row.repository for row in rows}):
        counts = Counter(row.stage for row in rows if row.repository == name)
        lines.append(f"{name}: {counts.total()} kernels: " + ", ".join(f"{n} {stage}" for stage, n in counts.items()))
    return "\n".join(lines)


def main() -> int:
    if sys.argv[1:2] == ["--load"]:
        return load(sys.argv[2], sys.argv[3])
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="repositories and files with this in their path")
    parser.add_argument("--output", type=Path, help="write the rows as JSON")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=60, help="most seconds of one check")
    parser.add_argument("--option", action="append", default=[], help="a further word for gemmsmith check")
    given = parser.parse_args()
    work = [(repository, kernel) for repository in sorted(given.folder.iterdir()) if repository.is_dir()
            for kernel in kernels_in(repository) if given.only in str(kernel.file)]  # fmt: skip
    rows: list[Row] = []
    with ThreadPoolExecutor(given.jobs) as pool:
        for row in pool.map(lambda item: row_of(*item, given.option, given.seconds), work):
            rows.append(row)
            print(table([row]).splitlines()[0], flush=True)
    print(table(rows).split("\n", len(rows))[-1] if rows else "no kernel was found")
    if given.output:
        given.output.write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
