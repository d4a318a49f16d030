"""Mistakes with TMA, clusters, wgmma and dependent launches in small kernels, each named; correct ones are not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from async_mistakes import CODE

import gemmsmith
from gemmsmith.cli.main import run_command
from gemmsmith.errors import GemmsmithError

PLANE = np.arange(8 * 32, dtype=np.float32).reshape(8, 32)
A = np.arange(64 * 64, dtype=np.float16).reshape(64, 64) % 7
B = np.arange(8 * 64, dtype=np.float16).reshape(8, 64) % 5

RIGHT = ("dependent_right", "dependent_synced", "registers_right", "registers_started", "changed_right",
         "pair_right", "product_right", "product_copied", "stored_right",
         "stored_reloaded_right")  # fmt: skip
# The words that the message must have.
WRONG = {
    "dependent_early": "griddepcontrol.wait must come first",
    "dependent_other": "griddepcontrol.wait must come first",
    "registers_many": "setmaxnreg.inc to 240 never completes",
    "registers_fewer": "setmaxnreg.inc to 160 registers by a thread that has 168",
    "registers_given": "setmaxnreg.dec to 232 registers by a thread that has 168",
    "changed_unfenced": "fence.proxy.tensormap::generic.acquire of this map",
    "pair_missed": "never completes: phase 0 of the mbarrier lacks 0 arrivals and 1,024 bytes",
    "pair_uninitialised": "then barrier.cluster by both blocks",
    "pair_ended": "before the block ends",
    "pair_read_ended": "before the block ends",
    "pair_too_many": "a multicast to 0x7: the cluster has 2 blocks",
    "pair_unset": "the mbarrier there, in block (1,0,0), is not initialised",
    "pair_unwaited": "a wait for the mbarrier's phase",
    "product_swizzle": "reads bytes that belong to element",
    "product_stride": "reads bytes that belong to element",
    "product_start": "reads bytes that belong to element",
    "product_bytes": "never completes",
    "product_parity": "never completes: phase 1",
    "product_unfenced": "wgmma.fence must come between",
    "product_early": "wgmma.wait_group must come between them",
    "product_unwaited": "a wait for the mbarrier's phase",
    "product_arrivals": "never completes: phase 0 of the mbarrier lacks 1 arrivals",
    "product_before": "uninitialised shared read by wgmma",
    "product_of_a": "expect_tx must count the bytes of all its copies",
    "product_overtaken": "those who arrive must first wait for this thread",
    "stored_unfenced": "fence.proxy.async",
    "stored_reused": "cp.async.bulk.wait_group.read",
    "stored_reloaded": "cp.async.bulk.wait_group.read",
    "stored_recopied": "cp.async.bulk.wait_group.read",
}


def launched(kernel: str, schedule: str = "lockstep") -> Any:
    family = kernel.split("_", maxsplit=1)[0]
    options: dict[str, Any] = {"grid": 1, "block": 64}
    if family == "dependent":
        args: list[Any] = [np.arange(64, dtype=np.int32), np.zeros(64, np.int32)]
    elif family == "registers":
        args, options["block"] = [np.zeros(384, np.int32)], 384
    elif family == "changed":
        args = [gemmsmith.tensor_map(PLANE, box=(8, 32)), np.zeros(256, np.uint32), PLANE + 1000]
    elif family == "pair":
        args, options["grid"] = [gemmsmith.tensor_map(PLANE, box=(8, 32)), np.zeros(513, np.uint32)], 2
    elif family == "product":
        maps = [gemmsmith.tensor_map(x, box=x.shape, swizzle=128) for x in (A, B)]
        args, options["block"] = [*maps, np.zeros(512, np.float32)], 128
    else:
        args = [gemmsmith.tensor_map(np.zeros((8, 32), np.uint32), box=(8, 32))]
    return gemmsmith.launch(CODE, kernel, args=args, check=True, schedule=schedule, **options)


def said(kernel: str, schedule: str) -> str:
    try:
        result = launched(kernel, schedule)
    except GemmsmithError as error:
        return f"{error} {error.hint}"
    return "\n".join(map(str, result.hazards))


@pytest.mark.parametrize("schedule", ["lockstep", "in_order", "reversed", "random", "starved"])
@pytest.mark.parametrize("kernel", RIGHT)
def test_a_correct_kernel_raises_no_alarm(kernel: str, schedule: str) -> None:
    assert said(kernel, schedule) == ""


@pytest.mark.parametrize("schedule", ["lockstep", "reversed"])
@pytest.mark.parametrize("kernel", WRONG)
def test_a_mistake_is_named(kernel: str, schedule: str) -> None:
    words = WRONG[kernel]
    if kernel == "product_parity" and schedule == "reversed":
        words = "a wait for the mbarrier's phase"  # the wait ends before the copy
    assert words in said(kernel, schedule)


@pytest.mark.parametrize(("kernel", "schedule"), [("product_right", "lockstep"), ("product_copied", "in_order")])
def test_the_product_is_right(kernel: str, schedule: str) -> None:
    """Also where some lanes of a warp copy an accumulator of a product in flight: it is computed for the whole warp."""
    result = launched(kernel, schedule)
    found = np.asarray(result["out"]).reshape(4, 4, 8, 4)  # register, warp, row of eight, pair of columns
    expected = A.astype(np.float32) @ B.astype(np.float32).T
    rows = found.transpose(1, 0, 2, 3)
    for warp in range(4):
        tile = expected[16 * warp : 16 * warp + 16]
        for register in range(4):
            part = tile[8 * (register // 2) :][:8, register % 2 :: 2]
            assert np.array_equal(rows[warp, register], part)


def test_check_says_which_mbarrier_is_not_initialised(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A multicast counts at the mbarrier of every block that gets it, at the same place."""
    (tmp_path / "pair.cu").write_text(CODE)
    words = ["check", str(tmp_path / "pair.cu"), "--entry", "pair_unset", "--grid", "2", "--block", "64"]
    assert run_command([*words, "--args", "map=tensor_map(randn(8,32,f32), box=(8,32)), out=zeros(513,u32)"]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "of shared memory, but the mbarrier there, in block (1,0,0), is not initialised" in said


def test_rows_of_another_width_than_the_descriptor_has() -> None:
    """Rows of 64 bytes, swizzled by 64: the descriptor takes two of them for one, and every element fits a matrix."""
    rows = np.arange(64 * 64, dtype=np.float16).reshape(128, 32) % 7
    maps = [gemmsmith.tensor_map(rows, box=(128, 32), swizzle=64), gemmsmith.tensor_map(B, box=B.shape, swizzle=128)]
    result = gemmsmith.launch(CODE, "product_right", grid=1, block=128, args=[*maps, np.zeros(512, np.float32)])
    assert any("its row 1 at k 0 reads bytes that belong to element [2, 0]" in str(each) for each in result.hazards)
