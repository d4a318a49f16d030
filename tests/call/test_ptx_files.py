"""PTX as it is: kernels that Triton compiled, and files with several kernels.

The Triton kernels were written for this test (tests/data/triton_kernels.npz has their PTX, their arguments, and what an
H200 computed): products by TMA descriptors, warp-specialised and persistent loops, a cluster, attention, softmax,
layernorm.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

import gemmsmith
from gemmsmith.call.any_kernel.ptx_file import cluster_of, described_entries, largest_block, required_block
from gemmsmith.cli.main import run_command as main
from gemmsmith.errors import SignatureError, UsageError

with np.load(Path(__file__).parents[1] / "data" / "triton_kernels.npz", allow_pickle=False) as _file:
    RECORDED: dict[str, NDArray[Any]] = {name: _file[name] for name in _file.files}
CASES: list[dict[str, Any]] = json.loads(bytes(RECORDED["cases"]))["cases"]

SEVERAL = """.version 8.0
.target sm_90
.address_size 64
.extern .shared .align 16 .b8 room[];
.visible .entry scale(.param .u64 scale_param_0, .param .f32 scale_param_1)
.maxntid 64, 1, 1
{ .reg .b64 %rd<4>; .reg .b32 %r<4>; .reg .f32 %f<4>; ld.param.u64 %rd1, [scale_param_0];
ld.param.f32 %f1, [scale_param_1];
mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd3, %rd1, %rd2; ld.global.f32 %f2, [%rd3];
mul.f32 %f3, %f2, %f1; st.global.f32 [%rd3], %f3; ret; }
.visible .entry ranks(.param .u64 ranks_param_0)
.reqntid 32, 1, 1
.explicitcluster
.reqnctapercluster 2, 1, 1
{ .reg .b64 %rd<4>; .reg .b32 %r<6>; ld.param.u64 %rd1, [ranks_param_0]; mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x;
mov.u32 %r3, %cluster_ctarank; mad.lo.u32 %r4, %r2, 32, %r1; mul.wide.u32 %rd2, %r4, 4; add.s64 %rd3, %rd1, %rd2;
st.global.u32 [%rd3], %r3; ret; }
.visible .entry staged(.param .u64 staged_param_0)
{ .reg .b64 %rd<4>; .reg .b32 %r<6>; ld.param.u64 %rd1, [staged_param_0]; mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2;
mov.u32 %r3, room; add.u32 %r3, %r3, %r2; st.shared.u32 [%r3], %r1; ld.shared.u32 %r4, [%r3]; cvt.u64.u32 %rd2, %r2;
add.s64 %rd3, %rd1, %rd2; st.global.u32 [%rd3], %r4; ret; }
"""


def array(key: str, described: dict[str, Any]) -> NDArray[Any]:
    name = described["dtype"]
    kind = np.dtype(getattr(ml_dtypes, name) if hasattr(ml_dtypes, name) else name)
    return RECORDED[key].reshape(-1).view(kind).reshape(described["shape"]).copy()


def argument(described: dict[str, Any] | None) -> Any:
    if described is None:
        return None
    if "map" in described:
        return gemmsmith.tensor_map(array(described["map"], described), box=tuple(described["box"]),
                                    swizzle=described["swizzle"])  # fmt: skip
    if "array" in described:
        return array(described["array"], described)
    ((kind, value),) = described.items()
    return {"i32": np.int32, "i64": np.int64, "f32": np.float32}[kind](value)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_kernel_of_triton_computes_the_bits_of_an_h200(case: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "kernel.ptx"
    file.write_bytes(bytes(RECORDED[f"{case['name']}/ptx"]))
    block = required_block(file.read_text(), re.findall(r"\.entry\s+(\w+)", file.read_text())[0])
    assert block is not None
    result = gemmsmith.launch(file, grid=tuple(case["grid"]), block=block, smem=case["smem"], cluster=case["cluster"],
                              args=[argument(each) for each in case["args"]])  # fmt: skip
    assert not result.hazards, result.hazards[0]
    own = [each.get("map") or each.get("array") for each in case["args"] if each]
    names = [parameter.name for parameter in result.launched.parameters]
    places = {key: names[n] for n, key in enumerate([each.get("map") or each.get("array") if each else None
                                                     for each in case["args"]]) if key}  # fmt: skip
    assert set(case["written"]) <= set(own)
    for key in case["written"]:
        found = np.ascontiguousarray(result.by_name[places[key]]).view(np.uint8).reshape(-1)
        assert np.array_equal(found, RECORDED[key.replace("/", "/gpu/")].reshape(-1)), key


@pytest.fixture
def several(tmp_path: Path) -> Path:
    file = tmp_path / "several.ptx"
    file.write_text(SEVERAL)
    return file


def test_one_of_several_kernels_is_launched_by_name(several: Path) -> None:
    x = np.arange(64, dtype=np.float32)
    assert np.array_equal(gemmsmith.launch(several, "scale", grid=1, block=64, args=[x, np.float32(2)])[0], 2 * x)
    with pytest.raises(SignatureError, match="several kernels: scale, ranks, staged"):
        gemmsmith.launch(several, grid=1, block=64, args=[x, np.float32(2)])


def test_directives_are_read(several: Path) -> None:
    assert (largest_block(SEVERAL, "scale"), required_block(SEVERAL, "scale")) == ((64, 1, 1), None)
    assert (required_block(SEVERAL, "ranks"), cluster_of(SEVERAL, "ranks")) == ((32, 1, 1), (2, 1, 1))
    assert cluster_of(SEVERAL, "scale") is required_block(SEVERAL, "staged") is None
    assert described_entries(several)[:2] == [
        "scale takes 2 values of 8, 4 bytes", "ranks (block 32,1,1) takes 1 value of 8 bytes"
    ]  # fmt: skip
    found = gemmsmith.launch(several, "ranks", grid=4, block=32, args=[np.zeros(128, np.uint32)])[0]
    assert np.array_equal(found, np.repeat([0, 1, 0, 1], 32))


@pytest.mark.parametrize(("kernel", "grid", "block", "words"), [
    ("scale", 1, 128, "128 threads; scale is compiled for at most 64"),
    ("ranks", 2, 64, r"ranks is compiled for \(32, 1, 1\) \(.reqntid\)"),
    ("ranks", 3, 32, r"does not consist of clusters of \(2, 1, 1\)"),
])  # fmt: skip
def test_a_launch_that_cuda_refuses_is_refused(several: Path, kernel: str, grid: int, block: int, words: str) -> None:
    values = [np.zeros(256, np.float32), np.float32(1)] if kernel == "scale" else [np.zeros(256, np.uint32)]
    with pytest.raises(UsageError, match=words):
        gemmsmith.launch(several, kernel, grid=grid, block=block, args=values)


def test_the_command_line_takes_ptx(several: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without arguments it says what each kernel takes; the block is read from the file."""
    assert main(["check", str(several)]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "several.ptx is PTX" in told
    assert "scale takes 2 values of 8, 4 bytes" in told
    assert main(["check", str(several), "--entry", "ranks", "--grid", "4", "--args", "zeros(128,u32)"]) == 0
    assert "block 32×1×1" in capsys.readouterr().out
    assert main(["check", str(several), "--entry", "scale", "--grid", "4", "--args", "zeros(128,f32), 1:f32"]) == 2
    assert main(["profile", str(several), "--entry", "scale", "--grid", "1", "--block", "64", "--args",
                 "ones(64,f32), 2:f32"]) == 0  # fmt: skip


def test_dynamic_shared_memory_that_is_missing_is_named(several: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["check", str(several), "--entry", "staged", "--grid", "1", "--block", "32", "--args", "zeros(32,u32)"]
    assert main(words) == 1
    assert "smem (--smem) is its dynamic part" in " ".join(capsys.readouterr().out.split())
    assert main([*words, "--smem", "128"]) == 0
