"""The warp-matrix API of mma.h for every type, shape and layout, from global and from shared memory, against NumPy."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray
from ptx_launch import launch, words
from tensor_core_launch import run

from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.compile.nvrtc import compile_request
from gemmsmith.compile.render import CompileRequest
from gemmsmith.compile.toolchain import find_toolchain
from gemmsmith.errors import SimulationError
from gemmsmith.sim.device import SimDevice

SOURCE = Path(__file__).parents[1] / "data" / "tensor_core_wmma_types.cu"
SIXTEEN = {"16x16": (16, 16, 16), "32x8": (32, 8, 16), "8x32": (8, 32, 16)}
KINDS: dict[str, tuple[Any, Any, dict[str, tuple[int, int, int]]]] = {
    "half_half": (np.float16, np.float16, SIXTEEN), "half_float": (np.float16, np.float32, SIXTEEN),
    "bfloat": (ml_dtypes.bfloat16, np.float32, SIXTEEN), "signed_char": (np.int8, np.int32, SIXTEEN),
    "unsigned_char": (np.uint8, np.int32, SIXTEEN), "tf32": (np.float32, np.float32, {"16x16": (16, 16, 8)}),
    "double_precision": (np.float64, np.float64, {"8x8": (8, 8, 4)}),
}  # fmt: skip
# Layouts of A and B in memory: "C" for rows, "F" for columns.
PLACES = {"rows": "CC", "columns": "FF", "rows_shared": "CF", "columns_shared": "FC"}
CASES = [(kind, shape, place) for kind, (_, _, shapes) in KINDS.items() for shape in shapes for place in PLACES]


@cache
def module(kind: str, arch: str) -> CompiledKernel:
    first = next(f"{kind}_{shape}_{place}" for other, shape, place in CASES if other == kind)
    request = CompileRequest(SOURCE.name, SOURCE.read_text(encoding="utf-8"), (), (("KIND", kind),), arch, first)
    return compile_request(request, find_toolchain())


def whole(seed: int, low: int, *shape: int) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(low, 8, shape)


@pytest.mark.parametrize(("kind", "shape", "place"), CASES)
def test_a_tile(kind: str, shape: str, place: str) -> None:
    element, result, shapes = KINDS[kind]
    m, n, k = shapes[shape]
    low = 0 if element is np.uint8 else -8
    a, b, c = whole(1, low, m, k), whole(2, low, k, n), whole(3, -8, m, n)
    first, second = PLACES[place]
    arrays = [a.astype(element).reshape(-1, order=first), b.astype(element).reshape(-1, order=second), c.astype(result)]
    kernel = replace(module(kind, "sm_80"), entry=f"{kind}_{shape}_{place}")
    found = run(SimDevice(hazards=True), kernel, (1, 1, 1), 32, arrays)[2]
    assert np.array_equal(found, a @ b + c)


ROOM = ".shared .align 32 .b8 room[1024];"
HALVES = "{%r1, %r2, %r3, %r4}"
FACTORS = "{%r11, %r12, %r13, %r14, %r15, %r16, %r17, %r18}"


def test_a_product_may_overwrite_its_own_operands() -> None:
    """D in the registers of A, and C in reverse: every operand is read before D is written."""
    eight = "{%r11, %r12, %r13, %r14, %r15, %r16, %r17, %r18}"
    ones = " ".join(f"mov.b32 %r{n}, 0x3C003C00;" for n in range(11, 19))
    body = f"""{ones}
wmma.mma.sync.aligned.row.col.m16n16k16.f32.f16 {eight}, {eight}, {eight}, {{%r11, %r12, %r13, %r14}};
mad.wide.u32 %d9, %t, 4, %b0; st.global.b32 [%d9], %r11; st.global.b32 [%d9+128], %r18;"""
    (found,) = launch(body, words(64))
    assert set(found.view(np.float32).tolist()) == {17.0}


@pytest.mark.parametrize("layout", ["row", "col"])
def test_rows_that_are_not_aligned_are_a_fault(layout: str) -> None:
    body = f"wmma.load.a.sync.aligned.{layout}.m16n16k16.shared.f16 {FACTORS}, [room+2], 16;"
    with pytest.raises(SimulationError, match="misaligned shared read of 16 bytes"):
        launch(body, words(1), declarations=ROOM)


def test_a_tile_that_leaves_its_memory_names_the_instruction() -> None:
    body = f"wmma.load.c.sync.aligned.row.m32n8k16.global.f16 {HALVES}, [%b0], 8;"
    with pytest.raises(SimulationError, match="out-of-bounds global read of 4 bytes") as caught:
        launch(body, words(100))
    assert "wmma.load.c.sync.aligned.row.m32n8k16.global.f16" in caught.value.hint


def test_shared_memory_that_was_never_written_is_a_fault() -> None:
    body = f"wmma.load.c.sync.aligned.col.m16n16k16.shared.f16 {HALVES}, [room], 16;"
    with pytest.raises(SimulationError, match="uninitialised shared read of 4 bytes"):
        launch(body, words(1), declarations=ROOM)
