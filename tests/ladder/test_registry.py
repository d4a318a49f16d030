"""The registry: every NN_name.cu is a rung, described by name.py beside it; nothing is listed by hand."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from gemmsmith.errors import UnknownKernelError, UnsupportedError
from gemmsmith.ladder import registry, rung
from gemmsmith.ladder.registry import check_accepts, rung_named, rungs, simulated_alternative
from gemmsmith.ladder.rung import make_rung, number_of, sources
from gemmsmith.problem import BF16, FP16, INT8, INT32, TF32, Problem

NAMES = [spec.name for spec in rungs()]


def test_numbers_and_names_are_those_of_the_files() -> None:
    files = sorted(Path(rung.__file__).parent.glob("[0-9]*.cu"))
    assert [spec.source for spec in rungs()] == files
    assert [f"{spec.rung:02d}_{spec.name}.cu" for spec in rungs()] == [file.name for file in files]
    assert [spec.rung for spec in rungs()] == list(range(1, len(files) + 1))
    assert rungs() is rungs()


def test_a_rung_is_found_by_name() -> None:
    assert [rung_named(name).name for name in NAMES] == NAMES


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [("warptile", "warp_tile"), ("vectorised", "vectorized"), ("niave", "naive"), ("padding", "padded")],
)
def test_a_misspelt_name_is_corrected(wrong: str, meant: str) -> None:
    with pytest.raises(UnknownKernelError) as caught:
        rung_named(wrong)
    assert f"did you mean {meant}?" in caught.value.hint
    assert all(name in caught.value.hint for name in NAMES)


def test_a_name_like_no_other_gets_the_list_only() -> None:
    with pytest.raises(UnknownKernelError, match=r"no rung called '!'\nthe rungs: naive, coalesced"):
        rung_named("!")


# --- files that do not fit together


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder in place of the ladder's."""
    monkeypatch.setattr(rung, "__file__", str(tmp_path / "rung.py"))
    sources.cache_clear()
    yield tmp_path
    sources.cache_clear()


def test_the_sources_are_in_the_order_of_their_numbers(folder: Path) -> None:
    for name in ("10_b.cu", "02_a_2.cu", "11_c.cu", "helper.cu", "3_x.cu", "12_d.txt"):
        (folder / name).touch()
    assert {name: number_of(file) for name, file in sources().items()} == {"a_2": 2, "b": 10, "c": 11}


@pytest.mark.parametrize("names", [("02_a.cu", "02_b.cu"), ("02_a.cu", "03_a.cu")])
def test_two_sources_with_one_number_or_name(folder: Path, names: tuple[str, str]) -> None:
    for name in names:
        (folder / name).touch()
    with pytest.raises(UnknownKernelError, match=f"{names[0]} and {names[1]} have the same number or name"):
        sources()


def test_a_source_without_a_specification(folder: Path) -> None:
    (folder / "30_nothing_such.cu").touch()
    with pytest.raises(UnknownKernelError, match=r"30_nothing_such.cu has no specification\nadd nothing_such.py"):
        registry._spec_of("nothing_such")


def test_a_specification_without_a_source(folder: Path) -> None:
    (folder / "01_other.cu").touch()
    with pytest.raises(UnknownKernelError, match=r"mine.py has no source beside it\nadd NN_mine.cu"):
        make_rung("gemmsmith.ladder.mine", parameters=(), presets=())


def test_a_specification_of_another_rung(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("gemmsmith.ladder.naive")
    module.SPEC = rung_named("coalesced")  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "gemmsmith.ladder.naive", module)
    with pytest.raises(UnknownKernelError, match=r"SPEC in naive.py is not the specification of naive"):
        registry._spec_of("naive")


# --- what a rung takes


@pytest.mark.parametrize(("problem", "message"), [
    (Problem(4, 4, 4, FP16, trans_a=True), "warp_tile_mixed takes layout NN, not TN\nuse wmma or mma_swizzled"),
    (Problem(4, 4, 4, FP16, FP16), "warp_tile_mixed writes fp32, not fp16\nuse wmma or mma_swizzled or mma_pipelined"),
    (Problem(4, 4, 4, TF32), "takes fp16, bf16 inputs, not tf32\nuse mma_swizzled or mma_pipelined"),
    (Problem(4, 4, 4, INT8, INT32), "takes fp16, bf16 inputs, not int8\nuse mma_swizzled or mma_pipelined"),
    (Problem(4, 4, 4, BF16, bias="row"), "takes no bias and no activation\nuse wmma"),
    (Problem(4, 4, 4, BF16, activation="relu"), "takes no bias and no activation\nuse wmma"),
    (Problem(4, 4, 4, FP16, batch=2), "takes one product, not a batch of 2\nuse wmma"),
], ids=str)  # fmt: skip
def test_a_refusal_names_rungs_that_take_the_problem(problem: Problem, message: str) -> None:
    spec = rung_named("warp_tile_mixed")
    with pytest.raises(UnsupportedError) as caught:
        check_accepts(spec, problem)
    assert message in str(caught.value)
    assert not spec.takes(problem)
    assert rung_named("mma_pipelined").takes(problem)


def test_a_refused_layout_names_rungs_that_take_it() -> None:
    refusing = [spec for spec in rungs() if spec.layouts == ("NN",) and spec.dtypes[0].name == "fp32"]
    assert refusing
    for spec in refusing:
        with pytest.raises(UnsupportedError, match="use naive or coalesced"):
            check_accepts(spec, Problem(4, 4, 4, trans_b=True))


def test_a_batch_larger_than_a_grid_is_refused() -> None:
    spec = rung_named("warp_tile")
    check_accepts(spec, Problem(1, 1, 1, batch=65_535))
    with pytest.raises(UnsupportedError, match="65,535 products at most, not 65,536"):
        check_accepts(spec, Problem(1, 1, 1, batch=65_536))


def test_the_simulator_has_an_alternative_for_every_type() -> None:
    for problem in (Problem(4, 4, 4), Problem(4, 4, 4, BF16, BF16), Problem(4, 4, 4, INT8, INT32)):
        assert rung_named(simulated_alternative(problem)).takes(problem)
