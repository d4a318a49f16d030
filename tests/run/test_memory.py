"""Guarded matrices: every write outside them is detected and located."""

from __future__ import annotations

import numpy as np
import pytest
from test_verify_fakes import FakeDevice

from gemmsmith.errors import GemmsmithError, LaunchError, ProblemError
from gemmsmith.problem import DTYPES, FP32, DType
from gemmsmith.run.memory import CANARY, POISON, GuardedMatrix

SHAPES = [(1, 1, 1), (3, 5, 5), (3, 5, 8), (7, 2, 3), (0, 4, 4), (4, 0, 1), (1, 9, 12)]

FLOATS = ("fp32", "fp16", "bf16", "tf32")


def values(shape: tuple[int, int], dtype: DType) -> np.ndarray:
    return (np.arange(shape[0] * shape[1], dtype=np.float32).reshape(shape) + 1).astype(dtype.numpy)


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize(("rows", "columns", "ld"), SHAPES)
@pytest.mark.parametrize("offset", [0, 1, 3])
def test_round_trip(name: str, rows: int, columns: int, ld: int, offset: int) -> None:
    device, dtype = FakeDevice(), DTYPES[name]
    with GuardedMatrix.create(device, (rows, columns), ld, dtype, offset) as matrix:
        assert matrix.address % 256 == offset * dtype.itemsize
        data = values((rows, columns), dtype)
        matrix.upload(data)
        assert (matrix.download() == data).all()
        assert matrix.download().dtype == dtype.numpy
        assert matrix.damage(is_input=True) == ()
    assert not device.live


@pytest.mark.parametrize("name", FLOATS)
def test_rows_are_ld_apart_with_nan_between_and_around(name: str) -> None:
    device, dtype = FakeDevice(), DTYPES[name]
    with GuardedMatrix.create(device, (2, 3), 5, dtype) as matrix:
        matrix.upload(values((2, 3), dtype))
        size = dtype.itemsize
        memory = device.read(matrix.address - 2 * size, 13 * size).view(dtype.numpy).astype(np.float64)
        nan = np.nan
        np.testing.assert_array_equal(memory, [nan, nan, 1, 2, 3, nan, nan, 4, 5, 6, nan, nan, nan])


@pytest.mark.parametrize("name", FLOATS)
def test_patterns_are_quiet_nans_that_arithmetic_does_not_produce(name: str) -> None:
    dtype = DTYPES[name]
    word = np.dtype(f"<u{dtype.itemsize}")
    patterns = np.array([CANARY[name], POISON[name]], dtype=word)
    assert np.isnan(patterns.view(dtype.numpy).astype(np.float32)).all()
    made = np.array([np.nan, np.inf], dtype=np.float32).astype(dtype.numpy).view(word)
    assert not set(patterns.tolist()) & {*made.tolist(), 0x7FFFFFFF, 0x7FFF, 0xFFFF}
    assert patterns[0] != patterns[1]


@pytest.mark.parametrize("name", DTYPES)
def test_a_new_matrix_is_poisoned(name: str) -> None:
    dtype = DTYPES[name]
    with GuardedMatrix.create(FakeDevice(), (2, 2), 3, dtype) as matrix:
        words = matrix.download().view(f"<u{dtype.itemsize}")
        assert (words == POISON[name]).all()


# (offset in bytes from the address, region, row, column) for a 3×4 fp32 matrix with ld 6: 16 elements end at byte 64.
STRAYS = [
    (-1, "before", -1, -1),
    (-4096, "before", -1, -1),
    (64, "after", -1, -1),
    (64 + 4095, "after", -1, -1),
    (16, "padding", 0, 4),
    (44, "padding", 1, 5),
]


@pytest.mark.parametrize(("offset", "region", "row", "column"), STRAYS)
@pytest.mark.parametrize("is_input", [True, False])
def test_one_stray_byte_is_located(offset: int, region: str, row: int, column: int, is_input: bool) -> None:
    device = FakeDevice()
    with GuardedMatrix.create(device, (3, 4), 6, FP32, name="C") as matrix:
        matrix.upload(values((3, 4), FP32))
        device.arena[matrix.address + offset] ^= 0x40
        (damage,) = matrix.damage(is_input=is_input)
        assert (damage.matrix, damage.region, damage.row, damage.column) == ("C", region, row, column)
        assert damage.first == offset
        assert damage.count == (4 if region == "padding" else 1)
        assert "C: " in str(damage)
        assert "overwritten" in str(damage)


@pytest.mark.parametrize(("is_input", "count"), [(True, 1), (False, 0)])
def test_a_changed_element_counts_for_an_input_only(is_input: bool, count: int) -> None:
    device = FakeDevice()
    with GuardedMatrix.create(device, (3, 4), 6, FP32, name="A") as matrix:
        matrix.upload(values((3, 4), FP32))
        device.arena[matrix.address + 6 * 4 + 2 * 4] ^= 1
        found = matrix.damage(is_input=is_input)
        assert len(found) == count
        if found:
            assert (found[0].region, found[0].row, found[0].column) == ("values", 1, 2)
            assert "input was changed" in str(found[0])


def test_the_uploaded_values_are_copied() -> None:
    data = values((2, 2), FP32)
    with GuardedMatrix.create(FakeDevice(), (2, 2), 2, FP32) as matrix:
        matrix.upload(data)
        data[:] = 0
        assert matrix.damage(is_input=True) == ()


def test_a_nan_with_another_payload_is_a_change() -> None:
    device = FakeDevice()
    with GuardedMatrix.create(device, (1, 2), 2, FP32) as matrix:
        matrix.upload(np.full((1, 2), np.nan, dtype=np.float32))
        device.arena[matrix.address] ^= 1
        assert [d.region for d in matrix.damage(is_input=True)] == ["values"]


def test_all_kinds_of_damage_and_the_number_of_bytes() -> None:
    device = FakeDevice()
    with GuardedMatrix.create(device, (2, 2), 4, FP32) as matrix:
        matrix.upload(values((2, 2), FP32))
        device.arena[matrix.address - 8 : matrix.address + 24 + 8] = 0
        assert [(d.region, d.count) for d in matrix.damage(is_input=True)] == [
            ("before", 8), ("after", 8), ("padding", 8), ("values", 16),
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((2, 4), 3, FP32), "leading dimension 3"),
        (((-1, 4), 4, FP32), "no -1x4 matrix"),
        (((2, -4), 4, FP32), "no 2x-4 matrix"),
        (((2, 0), 0, FP32), "leading dimension 0"),
        (((2, 2), 2, FP32, -1), "offset -1"),
    ],
)
def test_wrong_layouts_are_refused_before_allocating(arguments: tuple, message: str) -> None:
    device = FakeDevice()
    with pytest.raises(ProblemError, match=message):
        GuardedMatrix.create(device, *arguments)
    assert not device.live


@pytest.mark.parametrize(
    "data", [np.zeros((2, 3), np.float64), np.zeros((3, 2), np.float32), np.zeros((2, 3), np.float16)]
)
def test_wrong_data_is_refused_and_nothing_changes(data: np.ndarray) -> None:
    with GuardedMatrix.create(FakeDevice(), (2, 3), 3, FP32, name="B") as matrix:
        with pytest.raises(ProblemError, match="B: expected"):
            matrix.upload(data)
        assert (matrix.download().view(np.uint32) == POISON["fp32"]).all()


def test_closing_twice_frees_once_and_the_address_is_refused() -> None:
    device = FakeDevice()
    matrix = GuardedMatrix.create(device, (1, 1), 1, FP32)
    matrix.close()
    matrix.close()
    with pytest.raises(ProblemError, match="closed"):
        _ = matrix.address


class BrokenDevice(FakeDevice):
    """Freeing fails too, as after a fault."""

    def free(self, address: int) -> None:
        super().free(address)
        raise LaunchError("cannot free")


def test_the_first_error_is_raised() -> None:
    def fault_inside() -> None:
        with GuardedMatrix.create(BrokenDevice(), (1, 1), 1, FP32):
            raise LaunchError("illegal address")

    def fault_in_free() -> None:
        with GuardedMatrix.create(BrokenDevice(), (1, 1), 1, FP32):
            pass

    with pytest.raises(GemmsmithError, match="illegal address"):
        fault_inside()
    with pytest.raises(GemmsmithError, match="cannot free"):
        fault_in_free()


def test_a_failing_first_write_frees() -> None:
    class Full(FakeDevice):
        def write(self, address: int, data: np.ndarray) -> None:  # noqa: ARG002
            raise LaunchError("no")

    device = Full()
    with pytest.raises(LaunchError):
        GuardedMatrix.create(device, (1, 1), 1, FP32)
    assert not device.live


@pytest.mark.parametrize(("asked", "given"), [(0, 0), (1, 256), (256, 256), (257, 512)])
def test_the_guard_keeps_the_alignment(asked: int, given: int) -> None:
    device = FakeDevice()
    with GuardedMatrix.create(device, (2, 2), 2, FP32, guard_bytes=asked) as matrix:
        assert next(iter(device.live.values())) == 16 + 2 * given
        assert matrix.address % 256 == 0
