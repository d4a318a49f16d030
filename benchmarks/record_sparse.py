"""Record what a GPU computes with a sparse A: mma.sp and wgmma.mma_async.sp (tests/data/sparse_products.npz).

    PYTHONPATH=src python benchmarks/record_sparse.py [--out FILE]      (needs an sm_90 GPU)

The forms and kernels are those of tests/sim/sparse_kernels.py. Operands are stored with the results.
"""

from __future__ import annotations

import argparse
import json
import sys
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "sim"))

import sparse_kernels as kernels

from gemmsmith.run.cuda import cuda_device

FILE = Path(__file__).parents[1] / "tests" / "data" / "sparse_products.npz"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=FILE)
    options = parser.parse_args()
    device, random = cuda_device(), np.random.default_rng(23)
    arrays: dict[str, kernels.Array] = {}
    for form in kernels.FORMS:
        given = kernels.operands(form, random, kernels.KEPT_WGMMA if form.wgmma else kernels.KEPT)
        recorded = {**given, "d": kernels.run(form, given, "gpu")}
        arrays |= {f"{form.name}/{name}": array for name, array in recorded.items()}
    metadata = {"gpu": device.name, "arch": "sm_90a", "driver": f"CUDA {device.driver_version}",
                "date": f"{datetime.now(UTC):%Y-%m-%d}", "command": "benchmarks/record_sparse.py"}  # fmt: skip
    np.savez_compressed(options.out, metadata=np.frombuffer(json.dumps(metadata).encode(), np.uint8), **arrays)
    print(f"{len(kernels.FORMS)} forms; {options.out.name}: {options.out.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
