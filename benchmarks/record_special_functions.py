"""Record what a GPU's special function unit computes, densely enough to derive its coefficients.

    PYTHONPATH=src python benchmarks/record_special_functions.py sweeps.npz     every operand of the octaves below
    PYTHONPATH=src python benchmarks/record_special_functions.py sweeps.npz --compare     and where the model differs

The file has, for each function and octave, the results of all 2²³ operands, as differences that compress well. From it
the coefficients in src/gemmsmith/sim/sfu_coefficients.csv were derived: for each interval, linear programming finds the
c0, c1, c2 for which every result is c0 + c1·t + c2·s(t) cut off, where s is a square without its lowest columns;
c1 and c2 come out as whole numbers.
"""

from __future__ import annotations

import argparse
import lzma
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gemmsmith.errors import GemmsmithError
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.run.cuda import CudaDevice, LoadedCubin
from gemmsmith.run.device import Launch
from gemmsmith.run.driver_calls import checked
from gemmsmith.sim.arithmetic.approximations import approximate32

OCTAVE = 1 << 23
THREADS = 128
# The octaves of each function, by their first number.
OCTAVES = {
    "rcp": (1.0,), "rsqrt": (1.0, 2.0), "sqrt": (1.0, 2.0), "lg2": (1.0, 0.5), "ex2": (1.0, 0.5, -0.5, -1.0),
    "sin": (1.0, 0.5, 2.0, 0.25), "cos": (1.0, 0.5, 2.0, 0.25),
    "tanh": (4.0, 2.0, 1.0, 0.5, 0.25, 0.125, 0.0625, 0.03125, 2.0**-6, 2.0**-7, 2.0**-8),
}  # fmt: skip
KERNEL = """.version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out, .param .u32 first)
{{ .reg .b32 i, n, x, y; .reg .b64 at; mov.u32 i, %ctaid.x; mov.u32 n, %ntid.x; mov.u32 x, %tid.x;
mad.lo.u32 i, i, n, x;
ld.param.u32 x, [first]; add.u32 x, x, i; {instruction} y, x; ld.param.u64 at, [out]; mad.wide.u32 at, i, 4, at;
st.global.u32 [at], y; ret; }}
"""


def instruction(name: str) -> str:
    return f"{name}.approx{'' if name == 'tanh' else '.ftz'}.f32"


def sweep(device: CudaDevice, name: str, first: int) -> NDArray[np.uint32]:
    """The results of one octave."""
    text = KERNEL.format(instruction=instruction(name))
    with device.current():
        module = checked(device._cu.cuModuleLoadData(text.encode() + b"\0"), f"compiling {name}")
        function = checked(device._cu.cuModuleGetFunction(module, b"k"), f"finding {name}")
    out = device.allocate(4 * OCTAVE)
    arguments = (out.to_bytes(8, "little"), first.to_bytes(4, "little"))
    device.launch(
        LoadedCubin(function, module, 0), Launch(Geometry((OCTAVE // THREADS, 1, 1), (THREADS, 1, 1)), arguments)
    )
    device.synchronize()
    found = device.read(out, 4 * OCTAVE).view(np.uint32)
    device.free(out)
    return found


def octaves() -> Iterator[tuple[str, int]]:
    for name, starts in OCTAVES.items():
        for start in starts:
            yield name, int(np.float32(start).view(np.uint32))


def packed(values: NDArray[np.uint32]) -> NDArray[np.uint8]:
    """Differences from one result to the next, compressed."""
    steps = np.diff(values.astype(np.int64), prepend=np.int64(0))
    return np.frombuffer(lzma.compress(steps.astype("<i8").tobytes(), preset=1), np.uint8)


def differing(name: str, first: int, results: NDArray[np.uint32]) -> int:
    """How many results the simulator's model does not give."""
    model, wrong = approximate32(name, ftz=name != "tanh"), 0
    for start in range(0, OCTAVE, 1 << 20):
        operands = np.arange(first + start, first + start + (1 << 20), dtype=np.uint32).view(np.float32)
        wrong += int(np.count_nonzero(model(operands).view(np.uint32) != results[start : start + (1 << 20)]))
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, help="where to write the sweeps")
    parser.add_argument("--compare", action="store_true", help="also count where the simulator's model differs")
    options = parser.parse_args()
    device, arrays, wrong = CudaDevice(), {}, 0
    for name, first in octaves():
        results = sweep(device, name, first)
        arrays[f"{name}/{first:08x}"] = packed(results)
        count = differing(name, first, results) if options.compare else 0
        wrong += count
        print(f"{name} from {first:#010x}: {arrays[f'{name}/{first:08x}'].size:,} bytes"
              + (f", {count} of {OCTAVE:,} differ" if options.compare else ""))  # fmt: skip
    np.savez(options.out, **arrays)
    return 1 if wrong else 0


if __name__ == "__main__":
    try:
        raise SystemExit(main())
    except GemmsmithError as error:
        print(error, file=sys.stderr)
        raise SystemExit(error.exit_code) from None
