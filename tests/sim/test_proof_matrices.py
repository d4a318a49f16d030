"""Images go where numbers go: every form of mma.sync, wmma, ldmatrix and stmatrix, with images that tell the numbers.

The image of each operand is that of its real value, a small whole number. What a kernel writes then has the image of
the value that the plain simulator writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from tensor_core_kernels import (
    DOUBLE_FORMS,
    FLOAT_FORMS,
    HALF_FORMS,
    INTEGER_FORMS,
    MATRIX_FORMS,
    NARROW_FORMS,
    QUAD_PAIR_FORMS,
    SHARED_BYTES,
    Array,
    Matrices,
    Mma,
    compiled,
    matrix_inputs,
    matrix_source,
    mma_source,
    run,
    run_mma,
)
from tensor_core_warps import MORE_WARP_FORMS, WARP_FORMS, Warp, warp_source

from gemmsmith.run.device import Launch
from gemmsmith.sim.device import LoadedPtx, SimDevice
from gemmsmith.sim.proof import field
from gemmsmith.sim.proof.device import ProofDevice
from gemmsmith.sim.proof.images import BYTES, KINDS, Cells, Image, Kind, tag_of
from gemmsmith.sim.proof.session import NoProof, Session
from gemmsmith.sim.proof.trees import Trees
from gemmsmith.sim.schedule import schedule_named

ARCH = "sm_90"
REAL = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16), "tf32": np.dtype(np.float32),
        "f32": np.dtype(np.float32), "f64": np.dtype(np.float64), "s8": np.dtype(np.int8), "u8": np.dtype(np.uint8),
        "s32": np.dtype(np.int32)}  # fmt: skip


class TellingDevice(ProofDevice):
    """The allocations of a launch have the images of their values, each as a type ('' for none; 'raw': of 16 bits)."""

    def __init__(self, kinds: Sequence[str]) -> None:
        unit = 1 if any(kind in ("s8", "u8") for kind in kinds) else 2
        super().__init__(Session(unit, Trees()), ARCH, schedule_named("lockstep"))
        self.kinds = kinds
        self.found = Image(*(np.zeros(0, np.uint16),) * 3)

    def launch(self, loaded: LoadedPtx, launch: Launch, blocks: Sequence[int] | None = None) -> None:
        session = self.session
        bases = [int.from_bytes(argument, "little") for argument in launch.arguments[: len(self.kinds)]]
        for base, kind in zip(bases[:-1], self.kinds, strict=False):
            data = self.memory.data(base)
            session.memory[base] = Cells(data.size // session.unit)
            if kind:
                values = data.view(np.uint16 if kind == "raw" else REAL[kind])
                tag = np.full(values.shape, tag_of(Kind.F16 if kind == "raw" else KINDS[kind], data=True))
                element = field.image(values if values.dtype.kind in "iu" else values.astype(np.float64))
                tree = np.full(values.shape, 7, np.uint64)
                offsets = np.arange(values.size) * values.dtype.itemsize
                session.place(session.memory[base], offsets, Image(tag, element, tree))
        super().launch(loaded, launch, blocks)
        kind = Kind.F16 if self.kinds[-1] == "raw" else KINDS[self.kinds[-1]]
        offsets = np.arange(self.memory.data(bases[-1]).size // BYTES[kind]) * BYTES[kind]
        self.found, self.good = session.numbers(session.memory.get(bases[-1]), offsets, kind)

    def assert_tells(self, real: Array) -> None:
        values = real.reshape(-1).view(np.uint16 if self.kinds[-1] == "raw" else REAL[self.kinds[-1]])
        expected = field.image(values if values.dtype.kind in "iu" else values.astype(np.float64))
        np.testing.assert_array_equal(field.canonical(self.found.element[: values.size]), expected)
        assert self.good[: values.size].all()


def small(shape: tuple[int, ...], kind: str, seed: int) -> Array:
    """Bits of small whole numbers: products and sums of them are exact in every type."""
    numbers = np.random.default_rng(seed).integers(0 if kind == "u8" else -4, 5, shape)
    typed = numbers.astype(REAL[kind])
    return typed.view(f"u{typed.dtype.itemsize}")


FORMS = (*FLOAT_FORMS, *HALF_FORMS, *DOUBLE_FORMS, *(f for f in INTEGER_FORMS if not f.saturate),
         *(f for f in NARROW_FORMS if f.a in ("s8", "u8") and not f.saturate),
         *(f for f in QUAD_PAIR_FORMS if f.d == "f32"))  # fmt: skip


@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.opcode)
def test_mma(form: Mma) -> None:
    made = form.operands()
    operands = replace(made, a=small(made.a.shape, form.a, 1), b=small(made.b.shape, form.b, 2),
                       c=small(made.c.shape, form.accumulators, 3))  # fmt: skip
    device = TellingDevice([form.a, form.b, form.accumulators, form.d])
    run_mma(device, form, operands, ARCH)
    device.assert_tells(run_mma(SimDevice(ARCH), form, operands, ARCH))


@pytest.mark.parametrize("form", [f for f in NARROW_FORMS if f.a in ("s4", "b1")][:2], ids=lambda f: f.opcode)
def test_types_below_a_byte_are_refused(form: Mma) -> None:
    device = TellingDevice(["s8", "s8", "s32", "s32"])
    with pytest.raises(NoProof, match="a type that is not followed"):
        run_mma(device, form, form.operands(), ARCH)
    assert mma_source(form)


WARPS = tuple(f for f in (*WARP_FORMS, *MORE_WARP_FORMS) if not f.saturate and f.kind in REAL)


@pytest.mark.parametrize("form", WARPS, ids=lambda f: f"{f.mma}.{f.out}")
def test_wmma(form: Warp) -> None:
    cases = 2
    inputs = []
    for seed, which in enumerate("abc"):
        elements = form.bytes_of(which) // REAL[form.type_of(which)].itemsize
        inputs.append(small((cases, elements), form.type_of(which), seed))
    kernel, words = compiled(warp_source(form), ARCH), cases * form.bytes_of("d") // 4
    device = TellingDevice([*(form.type_of(which) for which in "abc"), form.result])
    run(device, kernel, cases, inputs, words, SHARED_BYTES)
    device.assert_tells(run(SimDevice(ARCH), kernel, cases, inputs, words, SHARED_BYTES))


@pytest.mark.parametrize("form", MATRIX_FORMS, ids=lambda f: f.opcode)
def test_ldmatrix_and_stmatrix(form: Matrices) -> None:
    data, at, registers = matrix_inputs(form, 2)
    words = 2 * (SHARED_BYTES // 4 if form.store else 32 * form.count)
    kernel = compiled(matrix_source(form), ARCH)
    device = TellingDevice(["raw", "", "raw", "raw"])
    run(device, kernel, 2, (data, at, registers), words, SHARED_BYTES)
    device.assert_tells(run(SimDevice(ARCH), kernel, 2, (data, at, registers), words, SHARED_BYTES))
