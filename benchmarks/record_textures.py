"""Record what a GPU's texture unit returns: every case of tests/sim/texture_cases.py.

PYTHONPATH=src python benchmarks/record_textures.py
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "sim"))

from texture_cases import cases, weights
from texture_recording import FILE, SAMPLES, recorded

from gemmsmith.errors import GemmsmithError
from gemmsmith.run.cuda import cuda_device


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path, nargs="?", default=FILE)
    parser.add_argument("--samples", type=int, default=SAMPLES)
    chosen = parser.parse_args()
    device, found = cuda_device(), {}
    for case in (weights(SAMPLES), *cases(chosen.samples)):
        try:
            found[case.name] = recorded(device, case)
        except GemmsmithError as error:
            print(f"{case.name}: {error}", file=sys.stderr)
    np.savez_compressed(chosen.file, **found)
    print(f"{len(found)} cases on {device.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
