"""Record what a GPU's texture unit returns: every case of tests/sim/texture_cases.py.

    PYTHONPATH=src:. python benchmarks/record_textures.py tests/data/textures.npz --samples 256
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np

from gemmsmith.errors import GemmsmithError
from gemmsmith.run.cuda import cuda_device
from tests.sim.texture_cases import cases, weights
from tests.sim.texture_recording import recorded


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--samples", type=int, default=256)
    chosen = parser.parse_args()
    device, found = cuda_device(), {}
    for case in (weights(), *cases(chosen.samples)):
        try:
            found[case.name] = recorded(device, case)
        except GemmsmithError as error:
            print(f"{case.name}: {error}", file=sys.stderr)
    np.savez_compressed(chosen.file, **found)
    print(f"{len(found)} cases on {device.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
