"""DMMA: products of fp64 matrices give the same bits from machine code and from PTX."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from gemmsmith.compile import compile_request, find_toolchain
from gemmsmith.compile.render import CompileRequest
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.run.device import Launch
from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.sass.device import MachineDevice

# Doubles of a thread in A, B and C.
REGISTERS = {"m8n8k4": (1, 1, 2), "m16n8k4": (2, 1, 4), "m16n8k8": (4, 2, 4), "m16n8k16": (8, 4, 4)}


def product(shape: str, result: int, sign: str, with_c: bool) -> str:
    """Statements that multiply and store; A's sign is changed, C is left out."""
    of_a, of_b, of_c = REGISTERS[shape]
    names = [f"%{n}" for n in range(of_a + of_b + 2 * of_c)]
    groups = [names[of_c + start : of_c + start + count] for start, count in ((0, of_a), (of_a, of_b))]
    braces = ", ".join("{" + ", ".join(g) + "}" for g in (names[:of_c], *groups, names[of_c + of_a + of_b :]))
    given = [f'"d"({sign}a[{n}])' for n in range(of_a)] + [f'"d"(b[{n}])' for n in range(of_b)]
    given += [f'"d"({f"c[{n}]" if with_c else "0.0"})' for n in range(of_c)]
    wanted = ", ".join(f'"=d"(d[{n}])' for n in range(of_c))
    return f"""
    asm volatile("mma.sync.aligned.{shape}.row.col.f64.f64.f64.f64 {braces};" : {wanted} : {", ".join(given)});
    for (int n = 0; n < {of_c}; ++n) out[({result} + n) * 64 + t] = d[n];"""


def source(shapes: list[str]) -> str:
    variants = [(shape, sign, with_c) for shape in shapes for sign, with_c in (("", True), ("-", True), ("-", False))]
    body = "".join(product(shape, 4 * n, sign, with_c) for n, (shape, sign, with_c) in enumerate(variants))
    return f"""
extern "C" __global__ void k(const double* in, double* out) {{
    const int t = threadIdx.x;
    double a[8], b[4], c[4], d[4];
    for (int n = 0; n < 8; ++n) a[n] = in[n * 64 + t];
    for (int n = 0; n < 4; ++n) {{ b[n] = in[(8 + n) * 64 + t]; c[n] = in[(12 + n) * 64 + t]; }}{body}
}}
"""


def results(device: SimDevice, code: str, arch: str, values: NDArray[np.float64]) -> NDArray[np.uint64]:
    kernel = compile_request(CompileRequest("mine.cu", code, (), (), arch, "k"), find_toolchain())
    nbytes = 8 * 64 * 64
    given, out = device.allocate(values.nbytes), device.allocate(nbytes)
    device.write(given, values.view(np.uint8))
    device.write(out, np.zeros(nbytes, np.uint8))
    arguments = given.to_bytes(8, "little"), out.to_bytes(8, "little")
    device.launch(device.load(kernel), Launch(Geometry((1, 1, 1), (64, 1, 1)), arguments))
    device.synchronize()
    return device.read(out, nbytes).view(np.uint64)


@pytest.mark.parametrize(("arch", "shapes"), [("sm_80", ["m8n8k4"]), ("sm_90", list(REGISTERS))])
def test_same_bits(arch: str, shapes: list[str]) -> None:
    random = np.random.default_rng(7)
    values = random.standard_normal(16 * 64) * 2.0 ** random.integers(-30, 30, 16 * 64)
    code = source(shapes)
    expected, found = (results(cls(arch), code, arch, values) for cls in (SimDevice, MachineDevice))
    wrong = sorted(set((np.flatnonzero(expected != found) // 256).tolist()))
    assert not wrong, f"products {wrong} differ"
    rows = expected.reshape(64, 64)
    used = [4 * n + i for n in range(3 * len(shapes)) for i in range(REGISTERS[shapes[n // 3]][2])]
    assert rows[used].all()
