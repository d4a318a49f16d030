"""Record what a GPU's TMA copies do (tests/data/tma.npz).

    PYTHONPATH=src python benchmarks/record_tma.py [--out FOLDER]
    PYTHONPATH=src python benchmarks/record_tma.py --compare      the file against the simulator; needs no GPU

The kernels and cases are those of tests/sim/tma_kernels.py, tma_cases.py and tma_bulk.py. A fault of the GPU ends the
process that runs a group; the other groups run in a new one.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "sim"))

from record_tensor_cores import driver_release
from tma_bulk import bulk_groups
from tma_cases import groups
from tma_recording import run_any, unpacked, packed

FILE = Path(__file__).parents[1] / "tests" / "data" / "tma.npz"
ARCH = "sm_90a"


def every() -> dict[str, Any]:
    return {group.name: group for group in (*groups(), *bulk_groups())}


def child(folder: Path, names: list[str]) -> int:
    """Run groups on the GPU; a file for each."""
    from gemmsmith.run.cuda import CudaDevice

    device, known = CudaDevice(), every()
    for name in names:
        (folder / "running").write_text(name)
        found = run_any(device, known[name], ARCH)
        np.savez(folder / f"{list(known).index(name)}.npz", **found)
        print(f"{name}: {len(known[name].cases)} cases, {int(found['accepted'].sum())} maps taken", flush=True)
    (folder / "running").write_text("")
    return 0


def recorded(folder: Path) -> tuple[dict[str, Any], list[str]]:
    known, failures = every(), []
    pending = list(known)
    while pending:
        words = [sys.executable, __file__, "--child", str(folder), *pending]
        ended = subprocess.run(words, capture_output=True, text=True, timeout=150, check=False)
        print(ended.stdout, end="")
        done = [name for n, name in enumerate(known) if (folder / f"{n}.npz").exists()]
        pending = [name for name in pending if name not in done]
        running = (folder / "running").read_text() if (folder / "running").exists() else ""
        if ended.returncode == 0 or running not in pending:
            if ended.returncode:
                print(ended.stderr[-2000:])
            break
        failures.append(f"{running}: {ended.stderr.strip().splitlines()[-1:] or ['']}")
        pending.remove(running)
    found = {}
    for number, name in enumerate(known):
        path = folder / f"{number}.npz"
        if path.exists():
            with np.load(path, allow_pickle=False) as file:
                found |= {f"{name}/{part}": file[part] for part in file.files}
    return found, failures + [f"{name}: not run" for name in pending]


def compare(path: Path, only: list[str]) -> int:
    from gemmsmith.sim.device import SimDevice

    with np.load(path, allow_pickle=False) as file:
        known = unpacked(file)
    wrong = 0
    for name, group in every().items():
        if f"{name}/accepted" not in known or (only and name not in only):
            continue
        found = run_any(SimDevice(ARCH), group, ARCH)
        for part in ("accepted", "image", "counted"):
            expected = known[f"{name}/{part}"]
            different = [n for n in range(len(expected)) if not np.array_equal(found[part][n], expected[n])]
            wrong += bool(different)
            if different:
                print(f"{name}: {part} of {len(different)} of {len(expected)} cases differ: {different[:12]}")
    print(f"{wrong} differ")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=FILE.parent, help="folder for the file (default: %(default)s)")
    parser.add_argument("--compare", nargs="*", metavar="GROUP", help="compare the recording with the simulator")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(Path(options.child[0]), options.child[1:])
    if options.compare is not None:
        return 1 if compare(options.out / FILE.name, options.compare) else 0
    with tempfile.TemporaryDirectory() as folder:
        found, failures = recorded(Path(folder))
    from gemmsmith.run.cuda import CudaDevice

    metadata = {"gpu": CudaDevice().name, "arch": ARCH, "driver": driver_release(),
                "date": f"{datetime.now(UTC):%Y-%m-%d}", "command": "benchmarks/record_tma.py"}  # fmt: skip
    text = np.frombuffer(json.dumps(metadata).encode(), np.uint8)
    np.savez_compressed(options.out / FILE.name, allow_pickle=False, metadata=text, **packed(found))
    print(f"{len(found)} arrays, {(options.out / FILE.name).stat().st_size:,} bytes")
    for line in failures:
        print("FAILED", line)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
