"""Matrix instructions against an H200: every recorded value bit for bit, every recorded count.

The files are made by benchmarks/record_tensor_cores.py; without them these tests fail, they do not pass silently.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensor_core_kernels as kernels
import tensor_core_warps as warps
from numpy.typing import NDArray
from tensor_core_cases import Operands, underflow_operands
from tensor_core_kernels import CONVERSIONS, FLOAT_FORMS, HALF_FORMS, INTEGER_FORMS, MATRIX_FORMS, MORE_FORMS, Mma
from tensor_core_patterns import Counted, launch_all
from tensor_core_recording import COUNTS, FIRST, MORE, load
from tensor_core_warps import DUMPS, MORE_DUMPS, MORE_WARP_FORMS, WARP_FORMS

from gemmsmith.explain.metrics import BY_NAME, simulated
from gemmsmith.sim.device import SimDevice
from gemmsmith.sim.memory.window_memory import WindowMemory

Array = NDArray[Any]
ARCH = "sm_90"
WAVEFRONTS = "smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum"
BOTH = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"


def _mma(form: Mma, operands: Callable[[], Operands]) -> Callable[[], tuple[Array, str]]:
    def simulate() -> tuple[Array, str]:
        made = operands()
        return kernels.run_mma(SimDevice(ARCH), form, made, ARCH), made.digest

    return simulate


def _simulations() -> dict[str, Callable[[], tuple[Array, str]]]:
    """By recorded name: a function for the simulator's result, and the digest of its operands."""
    device, made = SimDevice(ARCH), {}
    for form in (*FLOAT_FORMS, *INTEGER_FORMS, *MORE_FORMS):
        made[form.opcode] = _mma(form, form.operands)
        if form in FLOAT_FORMS:
            made[f"{form.opcode} (underflow)"] = _mma(form, lambda f=form: underflow_operands(f.a, f.k))
    for warp in (*WARP_FORMS, *MORE_WARP_FORMS):
        made[warp.mma] = lambda w=warp: (warps.run_warp(device, w, ARCH), warps.warp_operands(w).digest)
    for matrices in MATRIX_FORMS:
        made[matrices.opcode] = lambda m=matrices: (kernels.run_matrix(device, m, ARCH), "")
    for tile, which, layout in (*DUMPS, *MORE_DUMPS):
        made[tile.load(which, layout)] = lambda d=(tile, which, layout): (warps.run_dump(device, *d, ARCH), "")
    for opcode in CONVERSIONS:
        for name, inputs in ((opcode, kernels.conversion_inputs), (f"{opcode} (edges)", kernels.conversion_edges)):
            made[name] = lambda o=opcode, i=inputs: (kernels.run_conversion(device, o, i(), ARCH), "")
    return made


SIMULATIONS = _simulations()


def test_the_recording_names_its_origin_and_has_every_form() -> None:
    recorded = load()
    assert len(recorded.metadata) == 2
    assert all(part[key] for part in recorded.metadata for key in ("gpu", "arch", "driver", "date", "command"))
    assert set(recorded.arrays) == set(SIMULATIONS)
    assert FIRST.stat().st_size < 3_000_000
    assert MORE.stat().st_size < 3_000_000
    assert sum(recorded.arrays[form.opcode].size for form in FLOAT_FORMS) > 400_000
    assert sum(2 * recorded.arrays[form.opcode].size for form in HALF_FORMS) > 160_000


@pytest.mark.parametrize("name", SIMULATIONS)
def test_the_simulator_gives_the_recorded_bits(name: str) -> None:
    recorded = load()
    found, digest = SIMULATIONS[name]()
    assert digest == recorded.digests.get(name, ""), "the operands are not those that were recorded"
    assert found.shape == recorded.arrays[name].shape
    assert np.flatnonzero(found != recorded.arrays[name]).tolist() == []


def test_one_flipped_bit_would_be_found() -> None:
    name = "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16"
    found, _ = SIMULATIONS[name]()
    found[3, 2, 1] ^= 1
    assert np.flatnonzero(found != load().arrays[name]).size == 1


@pytest.mark.parametrize("form", FLOAT_FORMS, ids=lambda form: form.opcode)
def test_recorded_results_hold_every_kind_of_number(form: Mma) -> None:
    """The recording covers zeros, infinities, NaN, and subnormals where the type can produce them."""
    bits = load().arrays[form.opcode]
    exponent, fraction = bits >> 23 & 0xFF, bits & 0x7FFFFF
    assert set(np.unique(bits[(exponent == 255) & (fraction != 0)])) == {0x7FFFFFFF}
    assert all(np.any(bits == value) for value in (0, 0x7F800000, 0xFF800000))
    assert form.a == "f16" or np.any((exponent == 0) & (fraction != 0))


@pytest.mark.parametrize("form", HALF_FORMS, ids=lambda form: form.opcode)
def test_recorded_fp16_results_hold_every_kind_of_number(form: Mma) -> None:
    bits = load().arrays[form.opcode].view(np.uint16)
    exponent, fraction = bits >> 10 & 0x1F, bits & 0x3FF
    assert set(np.unique(bits[(exponent == 31) & (fraction != 0)])) == {0x7FFF}
    assert all(np.any(bits == value) for value in (0, 0x7C00, 0xFC00, 0x7BFF))
    assert not np.any(bits == 0x8000)
    assert np.any((exponent == 0) & (fraction != 0))


# -- counts -------------------------------------------------------------------------------------------


def test_every_recorded_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests, wavefronts, conflicts and tensor instructions of single launches, under the profiler's names."""
    record = json.loads(COUNTS.read_text(encoding="utf-8"))
    names = record["metrics"]
    known = [n for n in names if n in BY_NAME]
    assert len(known) >= 9
    expected = {(p["form"], p["pattern"]): dict(zip(names, p["counts"], strict=True)) for p in record["patterns"]}
    # These kernels read shared memory that was never written: on the GPU only the counts mattered.
    monkeypatch.setattr(WindowMemory, "_check_written", lambda *_: None)
    device = SimDevice(ARCH, count=True)
    wrong, seen = [], 0

    def compare(item: Counted) -> None:
        nonlocal seen
        assert device.counters is not None
        found = simulated(device.counters)
        measured = expected[item.name]
        seen += 1
        # ncu has one name for the wavefronts of both, which is not among ours.
        found[BOTH] = sum(found[WAVEFRONTS.format(op=op)] for op in ("ld", "ldsm"))
        wrong.extend((*item.name, n, found[n], measured[n]) for n in (*known, BOTH) if found[n] != measured[n])

    launch_all(device, ARCH, compare)
    assert seen == len(expected) == len(record["patterns"]) > 400
    assert wrong == []
