"""Arguments of kernels that are given as PTX: what PTX says of a parameter is used, and misuse is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gemmsmith
from gemmsmith.call.any_kernel.ptx_file import address_parameters, parameter_types
from gemmsmith.errors import DTypeError, UsageError

SCALED = """.version 8.0
.target sm_90
.address_size 64
.visible .entry scaled(.param .u64 scaled_param_0, .param .f32 scaled_param_1, .param .u32 scaled_param_2,
 .param .u64 .ptr .global .align 4 scaled_param_3, .param .u64 scaled_param_4)
{ .reg .b64 %rd<8>; .reg .b32 %r<4>; .reg .f32 %f<4>; .reg .pred %p<2>;
ld.param.u64 %rd1, [scaled_param_0]; ld.param.f32 %f1, [scaled_param_1]; ld.param.u32 %r2, [scaled_param_2];
ld.param.u64 %rd5, [scaled_param_3]; ld.param.u64 %rd6, [scaled_param_4];
cvta.to.global.u64 %rd2, %rd1; mov.u32 %r1, %tid.x; setp.ge.s32 %p1, %r1, %r2; @%p1 ret;
mul.wide.u32 %rd3, %r1, 4; add.s64 %rd4, %rd2, %rd3; add.s64 %rd5, %rd5, %rd3;
ld.global.f32 %f2, [%rd4]; mul.f32 %f3, %f2, %f1; st.global.f32 [%rd5], %f3; ret; }
"""
ONES = np.ones(32, np.float32)


def launched(tmp_path: Path, *arguments: object) -> np.ndarray:
    path = tmp_path / "scaled.ptx"
    path.write_text(SCALED, encoding="utf-8")
    out = np.zeros(32, np.float32)
    given = [out if argument is Ellipsis else argument for argument in arguments]
    return np.asarray(gemmsmith.launch(path, grid=1, block=32, args=given)[-1])


def test_what_is_read_off() -> None:
    assert parameter_types(SCALED, "scaled") == ["u64", "f32", "u32", "u64", "u64"]
    assert address_parameters(SCALED, "scaled") == {"scaled_param_0", "scaled_param_3"}


def test_an_integer_for_a_floating_parameter_is_its_value(tmp_path: Path) -> None:
    assert launched(tmp_path, ONES, 3, 4, ..., 0).tolist() == [3.0] * 4 + [0.0] * 28


def test_a_negative_integer_fits_a_parameter_of_32_bits(tmp_path: Path) -> None:
    assert not launched(tmp_path, ONES, 3.0, -1, ..., 0).any()


@pytest.mark.parametrize(("arguments", "words"), [
    ((7, 3.0, 4, ..., 0), r"param_0 is taken as an address .*7 was given"),
    ((ONES, 3.0, 2.5, ..., 0), r"param_2 is a \.u32, and 2\.5 is no integer"),
    ((ONES, 3.0, ONES, ..., 0), r"param_2 \(\.u32\), passed by value, and an array was given"),
    ((ONES, 3.0, 4, 8, 0), r"param_3 is taken as an address"),
])  # fmt: skip
def test_a_wrong_kind_is_named(tmp_path: Path, arguments: tuple[object, ...], words: str) -> None:
    with pytest.raises(DTypeError, match=words):
        launched(tmp_path, *arguments)


def test_missing_arguments_are_listed_with_what_they_are(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="takes 5 arguments, and 1 were given") as caught:
        launched(tmp_path, ONES)
    assert "param_0 (an address), param_1 (.f32), param_2 (.u32)" in caught.value.hint
