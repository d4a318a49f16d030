"""Tensor maps: the requirements of TMA, the encodings of the driver and of the simulator, and compiled parameters."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_driver import FakeEncode
from mapped_kernel import CODE, mapped_kernel

from gemmsmith.compile.compiler import compile_for, compile_kernel
from gemmsmith.compile.render import render_for
from gemmsmith.compile.target import target_arch
from gemmsmith.errors import ConfigError, SignatureError, UnsupportedError
from gemmsmith.kernel.geometry import Geometry, TensorMap
from gemmsmith.kernel.signature import parse_signature
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import BF16, DTYPES, FP16, FP32, Problem
from gemmsmith.run.tensor_map import check_tensor_map, decode_simulated, driver_encoder, encode_simulated
from gemmsmith.sim.device import SimDevice
from gemmsmith.userfile.kernels.user_kernel import UserOptions, user_kernel

PLAIN = TensorMap("A", BF16, (4096, 300, 7), (8192, 8192 * 300), (64, 128, 1), 128)


# --- the rules


@pytest.mark.parametrize(
    ("changes", "address", "said"),
    [
        ({}, 0x1008, "A is at 0x1008, 8 bytes past a multiple of 16"),
        ({"strides": (8194, 8192)}, 0, "8,194 bytes apart"),
        ({"strides": (8192, 2**40)}, 0, "1,099,511,627,776 bytes apart"),
        ({"strides": (8192, -16)}, 0, "-16 bytes apart"),
        ({"extents": (4096, 0, 7)}, 0, "an extent of 0"),
        ({"extents": (4096, 2**32 + 1, 7)}, 0, "an extent of 4,294,967,297"),
    ],
)
def test_matrices_that_tma_cannot_copy(changes: dict[str, Any], address: int, said: str) -> None:
    with pytest.raises(UnsupportedError, match=said):
        check_tensor_map(replace(PLAIN, **changes), address)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"box": (64, 257, 1)}, "a box of 64x257x1 elements"),
        ({"box": (64, 0, 1)}, "a box of 64x0x1 elements"),
        ({"box": (4, 8, 1)}, "rows of 8 bytes"),
        ({"box": (72, 8, 1)}, "rows of 144 bytes, longer than the 128"),
        ({"swizzle": 64}, "rows of 128 bytes, longer than the 64"),
        ({"swizzle": 48}, "a swizzle of 48 bytes"),
        ({"box": (64, 8)}, "3 extents, 2 strides and a box of 2"),
        ({"strides": (8192,)}, "3 extents, 1 strides"),
        ({"extents": (8,) * 6, "strides": (16,) * 5, "box": (8,) * 6}, "6 extents"),
        ({"extents": (), "strides": (), "box": ()}, "0 extents"),
    ],
)
def test_boxes_that_tma_cannot_copy(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check_tensor_map(replace(PLAIN, **changes), 0)


@pytest.mark.parametrize("changes", [
    {}, {"extents": (1, 2**32, 1)}, {"box": (256, 256, 1), "swizzle": 0}, {"box": (8, 1, 1), "swizzle": 32},
    {"extents": (16,), "strides": (), "box": (16,)}, {"strides": (8192, 0)},
])  # fmt: skip
def test_legal_maps(changes: dict[str, Any]) -> None:
    check_tensor_map(replace(PLAIN, **changes), 0x7F0000000010)


# --- the simulator's encoding


@pytest.mark.parametrize("described", [
    PLAIN, TensorMap("C", FP32, (2**32, 1, 2, 3, 4), (16, 2**40 - 16, 32, 48), (32, 256, 1, 2, 3), 32),
    TensorMap("B", FP16, (5,), (), (256,)), *(TensorMap("B", d, (16, 16), (64,), (16, 2)) for d in DTYPES.values()),
])  # fmt: skip
def test_the_simulators_encoding_is_decoded(described: TensorMap) -> None:
    address = 0x7FFF_1234_5670
    data = encode_simulated(described, address)
    assert len(data) == 128
    assert decode_simulated(data) == (described, address)


def test_other_bytes_are_not_a_map_of_the_simulator() -> None:
    for data in (bytes(128), b"", encode_simulated(PLAIN, 0)[:-1]):
        with pytest.raises(UnsupportedError, match="not a tensor map"):
            decode_simulated(data)


def test_the_simulator_checks_the_same_rules() -> None:
    device = SimDevice()
    assert decode_simulated(device.encode_tensor_map(PLAIN, 0x40)) == (PLAIN, 0x40)
    with pytest.raises(UnsupportedError, match="past a multiple of 16"):
        device.encode_tensor_map(PLAIN, 0x42)
    loaded: Any = None
    sizes = [device.blocks_at_once(loaded, Geometry((1, 1, 1), (1, 1, 1), 0, (n, 1, 1))) for n in (1, 2, 8)]
    assert sizes == [132, 132, 128]


# --- the driver's encoding


def test_the_driver_is_given_every_field_and_aligned_memory() -> None:
    fake = FakeEncode()
    encode = driver_encoder(fake.address)
    kept = [encode(PLAIN, 0x7F00_0000_0010) for _ in range(5)]  # several buffers
    assert kept == [(0, b"\7" * 128)] * 5
    extents, strides = [4096, 300, 7], [8192, 8192 * 300]
    assert fake.seen == [(0, 9, 3, 0x7F00_0000_0010, extents, strides, [64, 128, 1], [1, 1, 1], (0, 3, 2, 0))] * 5
    encode(TensorMap("C", FP32, (10,), (), (8,), 32), 16)
    assert fake.seen[-1] == (0, 7, 1, 16, [10], [], [8], [1], (0, 1, 2, 0))


@pytest.mark.parametrize(("extents", "strides", "given"), [
    ((4096, 300, 1), (8192, 0), [8192, 8192 * 300]), ((5, 1, 1), (0, 0), [16, 16]),
    ((4096, 300, 7), (8192, 0), [8192, 0]),  # one matrix for the whole batch
    ((4096, 2**30, 1), (8192, 0), [8192, 2**40 - 16]),
])  # fmt: skip
def test_a_stride_that_is_never_used_is_replaced_by_a_legal_one(
    extents: tuple[int, ...], strides: tuple[int, ...], given: list[int]
) -> None:
    fake = FakeEncode()
    driver_encoder(fake.address)(replace(PLAIN, extents=extents, strides=strides), 0)
    assert fake.seen[0][5] == given


def test_the_drivers_numbers_of_types_and_swizzles() -> None:
    from cuda.bindings import driver

    fake = FakeEncode()
    encode = driver_encoder(fake.address)
    names = {"fp32": "FLOAT32", "fp16": "FLOAT16", "bf16": "BFLOAT16", "tf32": "TFLOAT32", "int8": "UINT8",
             "int32": "INT32"}  # fmt: skip
    for name, theirs in names.items():
        encode(replace(PLAIN, dtype=DTYPES[name]), 0)
        assert fake.seen[-1][1] == int(getattr(driver.CUtensorMapDataType, f"CU_TENSOR_MAP_DATA_TYPE_{theirs}"))
    for span, theirs in {0: "NONE", 32: "32B", 64: "64B", 128: "128B"}.items():
        encode(replace(PLAIN, swizzle=span), 0)
        assert fake.seen[-1][-1] == (
            int(driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE),
            int(getattr(driver.CUtensorMapSwizzle, f"CU_TENSOR_MAP_SWIZZLE_{theirs}")),
            int(driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_256B),
            int(driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
        )


@pytest.mark.parametrize(
    ("pitch", "address", "promoted"),
    [(8192, 0, "256B"), (8320, 128, "256B"), (8192, 64, "128B"), (8208, 0, "128B"), (8256, 0, "128B")],
)
def test_rows_that_straddle_lines_are_fetched_in_lines(pitch: int, address: int, promoted: str) -> None:
    from cuda.bindings import driver

    fake = FakeEncode()
    driver_encoder(fake.address)(replace(PLAIN, strides=(pitch, pitch * 300)), address)
    named = getattr(driver.CUtensorMapL2promotion, f"CU_TENSOR_MAP_L2_PROMOTION_L2_{promoted}")
    assert fake.seen[0][-1][2] == int(named)


@pytest.mark.parametrize(("slices", "promoted"), [(1, "256B"), (4, "128B")])
def test_operands_of_slices_are_fetched_in_lines(slices: int, promoted: str) -> None:
    from cuda.bindings import driver

    spec, fake = rung_named("wgmma_cluster"), FakeEncode()
    problem = Problem(512, 512, 4096, BF16, BF16, trans_b=True)
    assert spec.tensor_maps is not None
    maps = spec.tensor_maps(problem, spec.config({"SLICES": slices, "STORE_MODE": 0, "STORE_BOXES": 0}))
    for name in ("map_a", "map_b"):
        driver_encoder(fake.address)(maps[name], 0)
    named = getattr(driver.CUtensorMapL2promotion, f"CU_TENSOR_MAP_L2_PROMOTION_L2_{promoted}")
    assert [seen[-1][2] for seen in fake.seen] == [int(named)] * 2


# --- signatures and compilation


def test_an_entry_with_tensor_maps() -> None:
    signature = parse_signature(CODE, "gemm", tensor_maps=True)
    roles = [argument.role for argument in signature.arguments]
    assert roles == ["M", "N", "K", "alpha", "mapA", "mapB", "beta", "C", "ldc", "mapC", "bias", "strideC", "batch"]
    problem = Problem(2, 3, 4, batch=5)
    packed = dict(zip(roles, signature.pack(problem, 1, 2, 3, maps={"map_a": b"a" * 128, "map_c": b"c" * 128}),
                      strict=True))  # fmt: skip
    assert (packed["mapA"], packed["mapB"], packed["mapC"]) == (b"a" * 128, bytes(128), b"c" * 128)
    assert packed["batch"] == b"\5\0\0\0"


def test_a_users_file_cannot_have_tensor_maps(tmp_path: Path) -> None:
    with pytest.raises(SignatureError, match="meaning of parameter 'map_a' is not recognised"):
        parse_signature(CODE, "gemm")
    path = tmp_path / "mine.cu"
    path.write_text(CODE, encoding="utf-8")
    with pytest.raises(SignatureError, match=r"map_a is a tensor map"):
        user_kernel(path, UserOptions(block="32"))


@pytest.mark.parametrize(("params", "said"), [
    ("TensorMap map_a, float* C, int N", "no parameter for B"),
    ("TensorMap map_a, TensorMap map_b, TensorMap map_c, int N", "no parameter for C"),
    ("TensorMap* map_a, TensorMap map_b, float* C, int N", "'map_a' is not recognised"),
    ("TensorMap map_a, TensorMap map_b, TensorMap map_b, float* C, int N", "two parameters that mean mapB"),
])  # fmt: skip
def test_incomplete_entries_with_tensor_maps(params: str, said: str) -> None:
    with pytest.raises(SignatureError, match=said):
        parse_signature(f"__global__ void gemm({params}) {{}}", "gemm", tensor_maps=True)


def test_a_kernel_for_one_architecture_is_compiled_only_for_it(tmp_path: Path) -> None:
    spec, problem = mapped_kernel(tmp_path), Problem(64, 64, 64, dtype=FP16)
    assert [target_arch(spec, arch) for arch in ("sm_90", "sm_90a")] == ["sm_90a"] * 2
    assert target_arch(rung_named("naive"), "sm_90") == "sm_90"
    assert render_for(spec, spec.config(), problem, "sm_90").arch == "sm_90a"
    for arch in ("sm_80", "sm_100", "sm_120"):
        with pytest.raises(UnsupportedError, match=f"mapped uses instructions that only sm_90 has.*{arch}"):
            compile_for(spec, spec.config(), problem, arch)


def test_tensor_maps_are_compiled_to_parameters_of_128_bytes(tmp_path: Path) -> None:
    spec = mapped_kernel(tmp_path)
    compiled = compile_kernel(spec, spec.config(), dtype=FP16, arch="sm_90")
    assert compiled.arch == "sm_90a"
    assert ".target sm_90a" in compiled.ptx
    assert compiled.ptx.count(".align 64 .b8 gemm_param_") == 3
    assert compile_kernel(spec, spec.config(), dtype=FP16, arch="sm_90a").key == compiled.key
