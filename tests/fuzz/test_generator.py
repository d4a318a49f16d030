"""The generator itself: recipes are legal and repeatable, a mutant differs in one place, shrinking keeps a failure."""

from __future__ import annotations

import difflib
import tomllib

import pytest
from cases import cases_of
from equivalence import normalised
from generated.draw import draw, obstacle
from generated.kernel import generate
from generated.recipe import Recipe
from generated.sites import KINDS
from outcome import ACCUSED, NOT_JUDGED, REFUSED, SURVIVED, TRUE, judge
from shrink import shrink

SEEDS = range(60)


def test_a_seed_gives_the_same_legal_kernel_each_time() -> None:
    for seed in SEEDS:
        assert obstacle(draw(seed)) == ""
        assert generate(draw(seed)).text == generate(draw(seed)).text


def test_seeds_cover_every_choice() -> None:
    drawn = [draw(seed) for seed in range(400)]
    for name, values in {
        "method": {"naive", "simt", "dp4a", "mma", "ldmatrix", "wmma"}, "pipeline": {"plain", "registers", "async"},
        "stages": {1, 2, 3, 4}, "vector": {1, 2, 4, 8}, "split": {"", "atomic", "ticket", "slice"},
        "grid": {"xy", "yx", "linear", "grouped"}, "batch": {True, False},
        "types": {"f32", "f64", "f16", "f16f32", "bf16", "bf16f32", "i8"},
        "epilogue": {"plain", "scaled", "bias"}, "swizzle": {True, False}, "dynamic": {True, False},
    }.items():  # fmt: skip
        assert values <= {getattr(recipe, name) for recipe in drawn}, name
    assert {"f32", "i8", "f16f32"} <= {recipe.types for recipe in drawn if recipe.method == "mma"}
    assert {recipe.layout for recipe in drawn} == {*["NN", "NT", "TN", "TT", "col-NN", "col-NT", "col-TN", "col-TT"]}


def test_every_kind_of_fault_is_offered() -> None:
    offered = {fault.kind for seed in SEEDS for fault in generate(draw(seed)).faults}
    assert offered == set(KINDS)


@pytest.mark.parametrize("seed", range(8))
def test_a_mutant_differs_from_its_original_in_one_place(seed: int) -> None:
    recipe = draw(seed)
    original = generate(recipe)
    for fault in original.faults:
        mutant = generate(recipe, fault.name)
        blocks = difflib.SequenceMatcher(None, original.text.splitlines(), mutant.text.splitlines(), autojunk=False)
        changed = [step for step in blocks.get_opcodes() if step[0] != "equal"]
        assert changed, fault.name
        # The text of a loop that is written twice holds the fault twice.
        assert len(changed) <= 2 or recipe.pipeline != "plain", (fault.name, changed)


def test_an_unknown_fault_is_refused() -> None:
    with pytest.raises(ValueError, match="no place for the fault"):
        generate(Recipe(), "a fault that does not exist")


def test_outcomes_are_judged() -> None:
    right, mutant = generate(Recipe()), generate(Recipe(), "products are subtracted")
    assert [judge(right, status, "NN") for status in ("right", "whole_tiles", "wrong", "racy", "not runnable")] == [
        TRUE, ACCUSED, ACCUSED, ACCUSED, REFUSED]  # fmt: skip
    assert judge(right, "right", "NT") == ACCUSED
    assert [judge(mutant, status, "NN") for status in ("right", "whole_tiles", "wrong", "racy")] == [
        SURVIVED, SURVIVED, TRUE, TRUE]  # fmt: skip
    guard = generate(Recipe(), "C: no row guard")
    assert [judge(guard, status, "NN") for status in ("right", "whole_tiles")] == [SURVIVED, TRUE]
    assert judge(mutant, "not runnable", "NN") == NOT_JUDGED
    assert judge(mutant, "right", "NT") == TRUE  # what it is was said
    cut = generate(Recipe(), "negative results are cut off")
    assert judge(cut, "right", "NN", "gemm is right, as relu(A·B): 60 trials passed") == TRUE
    assert judge(cut, "whole_tiles", "NN", "gemm is right, as relu(A·B), for whole tiles only: multiples of 16") == TRUE
    assert judge(cut, "right", "NN", "gemm is right: 60 trials passed") == SURVIVED
    assert judge(mutant, "right", "NN", "gemm is right, as relu(A·B): 60 trials passed") == SURVIVED
    tiles = generate(Recipe(guarded=False), "products are subtracted")
    assert judge(tiles, "whole_tiles", "NN") == SURVIVED


def test_a_tail_of_integers_needs_no_zeros() -> None:
    name = "B: the tail is not set to zero"
    assert generate(Recipe(types="i8"), name).innocent
    assert not generate(Recipe(types="f32"), name).innocent


def test_a_harmless_change_is_no_fault() -> None:
    kernel = generate(Recipe(), "barrier twice after the tile is stored")
    assert kernel.innocent
    assert judge(kernel, "racy", "NN") == ACCUSED


def test_shrinking_keeps_what_the_failure_needs() -> None:
    case = next(case for seed in range(200) for case in cases_of(seed, 0) if case.recipe.method == "ldmatrix"
                and case.recipe.pipeline == "async")  # fmt: skip
    small = shrink(case, lambda other: other.recipe.pipeline == "async", tries=500)
    assert small.recipe.pipeline == "async"
    assert len(small.recipe.differences()) <= 3, small.recipe.differences()


def test_a_failure_can_be_written_to_the_list() -> None:
    case = next(case for case in cases_of(3, 1) if case.fault)
    (entry,) = tomllib.loads(f"cases = [{case.toml()}]")["cases"]
    assert Recipe(**entry["recipe"]) == case.recipe
    assert entry["fault"] == case.fault


def test_code_is_compared_without_the_numbers_of_registers() -> None:
    one = "\tadd.s32 %r1, %r2, %r2; // sum\n\t.loc 1 2 3\n"
    assert normalised(one) == normalised("add.s32 %r7, %r9, %r9;".replace("add", "\tadd"))
    assert normalised(one) != normalised("\tadd.s32 %r1, %r2, %r1;")
