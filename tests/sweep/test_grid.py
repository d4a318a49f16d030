"""The points of a sweep: axes, every combination, illegal points with their reasons, macros of a user's file."""

from __future__ import annotations

from pathlib import Path

import pytest
from sweep_samples import points, rung

from gemmsmith.errors import UsageError
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import Problem
from gemmsmith.shapes import parse_shapes
from gemmsmith.sweep.axes import parse_axis
from gemmsmith.sweep.counting import small_problem
from gemmsmith.sweep.families import FileFamily, Variant
from gemmsmith.userfile.kernels.user_kernel import UserOptions


def test_an_axis_keeps_its_order_and_drops_repetitions() -> None:
    assert parse_axis("BK=32,8,32,16").values == (("32",), ("8",), ("16",))


def test_names_that_vary_together() -> None:
    axis = parse_axis("TM,TN=4x4, 8x4")
    assert axis.names == ("TM", "TN")
    assert axis.values == (("4", "4"), ("8", "4"))
    assert axis.title == "TM×TN"
    assert axis.label((("BK", "8"), ("TM", "8"), ("TN", "4"))) == "8×4"


@pytest.mark.parametrize("text", ["BK", "BK=", "=8", "BK=8,,16", "TM,TN=4", "TM,TN=4x4x4", "TM,TN=4x", "TM,TM=4x4",
                                  "8=8", "B K=8", "TM,=4x4"])  # fmt: skip
def test_what_is_not_an_axis_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        parse_axis(text)


def test_every_combination_with_the_last_axis_fastest() -> None:
    found = points(rung("padded"), "BK=8,16", "PAD=0,4")
    assert [p.label for p in found] == ["BK=8 PAD=0", "BK=8 PAD=4", "BK=16 PAD=0", "BK=16 PAD=4"]
    assert all(p.variant is not None and dict(p.settings)["PAD"] == str(p.variant.config["PAD"]) for p in found)


def test_an_illegal_point_stays_with_every_reason() -> None:
    legal, illegal = points(rung("rectangular", "BM=128,BN=128,BK=32,MIN_BLOCKS=1"), "TM,TN=8x8,8x128")
    assert legal.variant is not None
    assert legal.reasons == ()
    assert illegal.variant is None
    assert len(illegal.reasons) == 2
    assert "1024 accumulators" in illegal.reasons[0]
    assert "128·128/(8·128) = 16 threads" in illegal.reasons[1]


def test_fixed_values_and_presets_apply() -> None:
    (point,) = points(rung("padded", "PAD=8", "128x128x16-8x8"), "TM=4")
    assert point.variant is not None
    assert [point.variant.config[name] for name in ("BK", "PAD", "TM")] == [16, 8, 4]


@pytest.mark.parametrize(("vary", "message"), [
    (("NO=1",), "no parameter NO"), (("BK=8", "BK=16"), "varied twice"), (("BK=x",), "BK must be an integer, not 'x'"),
    (("SIZE=64", "M=64"), "cannot vary too"), (("SIZE=0",), "not an extent"), (("SIZE=-4",), "not an extent"),
    (("WAVES=1",), "needs a GPU whose occupancy is known"), (("registers=x",), "not an integer"),
    (("dtype=fp99",), "unknown data type"),
])  # fmt: skip
def test_an_inconsistent_sweep_is_refused(vary: tuple[str, ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        points(rung("padded"), *vary)


def test_a_fixed_value_cannot_vary(file: Path) -> None:
    for family, vary in (
        (rung("padded", "PAD=8"), "PAD=0"),
        (FileFamily(file, UserOptions(defines=(("TILE", "8"),))), "TILE=8"),
    ):
        with pytest.raises(UsageError, match="both fixed and varied"):
            points(family, vary)


def test_sizes_and_shapes() -> None:
    found = points(rung("coalesced"), "SIZE=32,64")
    assert [str(p.problem) for p in found] == ["32x32x32 fp32", "64x64x64 fp32"]
    (point,) = points(rung("coalesced"), "M=32", shapes=((8, 16, 24),))
    assert str(point.problem) == "32x16x24 fp32"
    both = points(rung("coalesced"), "TILE=8,16", shapes=parse_shapes("32,8x16x24"))
    assert [p.label for p in both][::2] == ["shape=32x32x32 TILE=8", "shape=8x16x24 TILE=8"]
    with pytest.raises(UsageError, match="both set sizes"):
        points(rung("coalesced"), "K=8", shapes=parse_shapes("32,64"))


def test_unsupported_types_are_illegal_points() -> None:
    good, bad = points(rung("warp_tile_mixed"), "dtype=bf16,fp32")
    assert str(good.problem) == "64x64x64 bf16"
    assert "takes fp16, bf16" in bad.reasons[0]


# --- a user's file


def test_macros_of_a_file(file: Path) -> None:
    eight, too_large = points(FileFamily(file, UserOptions(defines=(("OTHER", "1"),))), "TILE=8,64")
    assert eight.variant is not None
    assert eight.variant.text == "OTHER=1,TILE=8"
    assert eight.variant.spec.geometry(Problem(64, 64, 64), eight.variant.config).block == (8, 8, 1)
    assert "64 x 64 threads" in too_large.reasons[0]


@pytest.mark.parametrize(("declaration", "message"), [
    ("#define TILE 16", "sets TILE itself"), ("constexpr int TILE = 16;", "sets TILE itself"),
    ("const int OTHER = 1, TILE = 16;", "sets TILE itself"), ("#define T 16", "has no macro TILE"),
    ("#if !defined(TILE)\n#define TILE 16\n#endif", ""), ("template <int TILE>", ""),
])  # fmt: skip
def test_a_macro_without_effect_is_refused(tmp_path: Path, declaration: str, message: str) -> None:
    text = f"{declaration}\n__global__ void k(float* A, float* B, float* C, int M, int N, int K) {{}}\n"
    if not message:
        text += "// TILE\n"
    path = tmp_path / "k.cu"
    path.write_text(text)
    family = FileFamily(path, UserOptions())
    if message:
        with pytest.raises(UsageError, match=message):
            family.check(["TILE"])
    else:
        family.check(["TILE"])


def test_the_problem_a_point_is_verified_on(file: Path) -> None:
    """A rung on ragged tiles; a file, which may support whole tiles only, on a shape as ragged as the sweep's."""
    spec = rung_named("padded")
    small = small_problem(Variant(spec, spec.config(), ""), Problem(4096, 4096, 4096))
    assert (small.m % 128, small.n % 128, small.k % 8) == (1, 127, 1)
    (point,) = points(FileFamily(file, UserOptions()), "TILE=16")
    assert point.variant is not None
    even = small_problem(point.variant, Problem(4096, 4096, 4096))
    assert (even.m % 16, even.n % 16, even.k % 64) == (0, 0, 0)
    assert max(even.m, even.n, even.k) <= 256
    odd = small_problem(point.variant, Problem(4099, 4096, 10))
    assert (odd.m % 16, odd.n % 16, odd.k) == (3, 0, 10)
