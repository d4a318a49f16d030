"""Record what a GPU's wgmma instructions compute (tests/data/wgmma.npz).

    PYTHONPATH=src python benchmarks/record_wgmma.py [--out FOLDER]
    PYTHONPATH=src python benchmarks/record_wgmma.py --compare      the file against the simulator; needs no GPU

The kernels and their operands are those of tests/sim/wgmma_kernels.py. Operands are not stored: they are generated
again. A form that fails is reported and left out; the others are kept.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "sim"))

import wgmma_kernels as kernels
from record_tensor_cores import driver_release

from gemmsmith.run.device import Device

FILE = Path(__file__).parents[1] / "tests" / "data" / "wgmma.npz"
ARCH = "sm_90a"


def every() -> Iterator[tuple[str, kernels.Wgmma, kernels.Cases]]:
    """(name, form, cases) of all that is recorded."""
    for form in kernels.ARITHMETIC:
        yield form.name, form, kernels.thinned(form, kernels.arithmetic_cases(form, kernels.operands(form)))
    for layout in kernels.LAYOUTS:
        yield layout.name, layout.form, kernels.thinned(layout.form, kernels.layout_cases(layout))


def results(device: Device) -> tuple[dict[str, Any], list[str]]:
    found: dict[str, Any] = {}
    failures = []
    for name, form, cases in every():
        try:
            found[name] = kernels.run(device, form, cases, ARCH)
        except Exception as error:  # a form that fails must not lose the others
            failures.append(f"{name}: {type(error).__name__}: {error}")
    return found, failures


def compare(path: Path) -> int:
    from gemmsmith.sim.device import SimDevice

    with np.load(path, allow_pickle=False) as file:
        recorded = {name: file[name] for name in file.files if name != "metadata"}
    found, failures = results(SimDevice(ARCH))
    for line in failures:
        print("FAILED", line)
    wrong = len(failures)
    for name, expected in recorded.items():
        if name in found and (count := int(np.count_nonzero(found[name] != expected))):
            wrong += 1
            print(f"{name}: {count} of {expected.size} words differ")
    print(f"{wrong} of {len(recorded)} forms differ")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=FILE.parent, help="folder for the file (default: %(default)s)")
    parser.add_argument("--compare", action="store_true", help="compare the recorded values with the simulator")
    options = parser.parse_args()
    if options.compare:
        return 1 if compare(options.out / FILE.name) else 0
    from gemmsmith.run.cuda import CudaDevice

    device = CudaDevice()
    found, failures = results(device)
    metadata = {"gpu": device.name, "arch": ARCH, "driver": driver_release(), "date": f"{datetime.now(UTC):%Y-%m-%d}",
                "command": "benchmarks/record_wgmma.py"}  # fmt: skip
    text = np.frombuffer(json.dumps(metadata).encode(), np.uint8)
    np.savez_compressed(options.out / FILE.name, allow_pickle=False, metadata=text, **found)
    print(f"{len(found)} forms, {(options.out / FILE.name).stat().st_size:,} bytes")
    for line in failures:
        print("FAILED", line)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
