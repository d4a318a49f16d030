"""Kernels of published ladders as their authors wrote them, predicted on the authors' GPUs (no GPU needed).

    python benchmarks/authors_kernels.py FOLDER --output benchmarks/results/authors_kernels.json

``time_model.py`` predicts our rungs in the published configurations; their machine code is another than that of the
published kernels. Here the authors' files are predicted. FOLDER has the repositories, each as OWNER+NAME at the commit
of ``KERNELS``; they are not part of this project. Figures are those of their README, at the clock that the GPU had,
which they do not tell; predictions are at the data sheet's boost. Nothing was set with them. A file whose tile is not
the published one is left out (4_vectorized.cu of evanking12).
"""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from time_model import write_record

_BOEHM = ("siboehm/SGEMM_CUDA", "60cba6f9b20a198116c76f18de8047f44df8c8b8", "RTX A6000", 4096, "src/runner.cu")
_EVAN = ("evanking12/cuda-gemm-optimization", "713d240b6cf631a62ff15df97761cd155963ec72", "RTX 3050", 2048)
# Repository, commit, GPU, M = N = K, file, kernel, GFLOPS.
KERNELS = (
    (*_BOEHM, "sgemm_naive", 309.0),
    (*_BOEHM, "sgemm_global_mem_coalesce", 1986.5),
    (*_BOEHM, "sgemm_shared_mem_block", 2980.3),
    (*_BOEHM, "sgemm1DBlocktiling", 8474.7),
    (*_BOEHM, "sgemm2DBlocktiling", 15971.7),
    (*_BOEHM, "sgemmVectorize", 18237.3),
    (*_BOEHM, "sgemmResolveBankConflicts", 16213.4),
    (*_BOEHM, "sgemmResolveBankExtraCol", 16459.2),
    (*_BOEHM, "sgemmAutotuned", 19721.0),
    (*_BOEHM, "sgemmWarptiling", 21779.3),
    (*_BOEHM, "sgemmDoubleBuffering", 17278.3),
    (*_EVAN, "kernels/1_naive.cu", "matmul_naive", 280.0),
    (*_EVAN, "kernels/1_naive.cu", "matmul_tiled", 736.0),
    (*_EVAN, "kernels/3_register_blocking.cu", "", 2400.0),
    (*_EVAN, "kernels/5_rectangular_tiling.cu", "", 5250.0),
    (*_EVAN, "kernels/6_async.cu", "", 5834.0),
)


def predicted(folder: Path) -> list[dict[str, Any]]:
    from gemmsmith.cli.options.kernel import KernelOptions, find_kernel
    from gemmsmith.explain.timing.predict import Predictor
    from gemmsmith.gpus import gpu_named

    found = []
    for repository, commit, gpu, size, path, entry, gflops in KERNELS:
        file = folder / repository.replace("/", "+") / path
        spec, config = find_kernel(str(file), KernelOptions(entry=entry))
        predictor = Predictor(spec, config, spec.problem(size, size, size), gpu_named(gpu))
        now, measured = predictor.predict(), 2 * size**3 / gflops / 1e3
        found.append({
            "repository": repository, "commit": commit, "path": path, "entry": entry, "gpu": gpu, "size": size,
            "measured_us": round(measured, 1), "predicted_us": round(now.us, 1),
            "ratio": round(now.us / measured, 3), "bound": now.bound, "resident": predictor.resident,
        })  # fmt: skip
        print(f"{gpu:10} {entry or path:30} {measured:10.1f} {now.us:10.1f} {now.us / measured:6.3f}", flush=True)
    return found


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--output", default="")
    given = parser.parse_args()
    rows = predicted(given.folder)
    if given.output:
        head = {
            "what": "kernels of published ladders as their authors wrote them, at data-sheet boost",
            "date": datetime.now(UTC).date().isoformat(),
            "command": "python benchmarks/authors_kernels.py FOLDER --output benchmarks/results/authors_kernels.json",
        }
        write_record(Path(given.output), head, "rows", rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
