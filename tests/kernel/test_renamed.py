"""Old parameter names: data stored under them is converted, and a command line that has one gets the new name."""

from __future__ import annotations

import pytest

from gemmsmith.errors import ConfigError
from gemmsmith.kernel import equal_sources
from gemmsmith.kernel.renamed import (
    KERNELS,
    PARAMETERS,
    PRESETS,
    current_kernel,
    current_text,
    current_values,
    replacement,
)
from gemmsmith.ladder.registry import rung_named, rungs

OLD = ["TMA_STORE", *PARAMETERS]


def test_every_new_name_is_one_that_a_rung_has_and_no_old_name_is() -> None:
    known = {p.name for spec in rungs() for p in spec.parameters}
    assert {*PARAMETERS.values(), "STORE_MODE", "STORE_BOXES"} <= known
    assert not known & set(OLD)
    for (kernel, old), new in PRESETS.items():
        names = [preset.name for preset in rung_named(kernel).presets]
        assert new in names
        assert old not in names
    assert not set(KERNELS) & {spec.name for spec in rungs()}


@pytest.mark.parametrize(("old", "new"), [
    ({"BM": 64, "LOOSE": 1, "SWAP": 0}, {"BM": 64, "UNALIGNED_OPERANDS": 1, "SWAP": 0}),
    ({"NARROW": 128, "ORDERED": 0, "TURNED": 1}, {"TAIL_BN": 128, "DETERMINISTIC": 0, "TRANSPOSED_COPY": 1}),
    ({"GROUP": 8, "TMA_STORE": 4, "NARROW": 0}, {"GROUP": 8, "STORE_MODE": 2, "STORE_BOXES": 4, "TAIL_BN": 0}),
    ({"TMA_STORE": -4}, {"STORE_MODE": 1, "STORE_BOXES": 4}),
    ({"TMA_STORE": 0}, {"STORE_MODE": 0, "STORE_BOXES": 0}),
    ({"STORE_MODE": 2, "STORE_BOXES": 1, "TAIL_BN": 64}, {"STORE_MODE": 2, "STORE_BOXES": 1, "TAIL_BN": 64}),
    ({}, {}),
], ids=str)  # fmt: skip
def test_a_stored_configuration_is_converted_in_its_order(old: dict[str, int], new: dict[str, int]) -> None:
    assert list(current_values(old).items()) == list(new.items())
    as_text = ",".join(f"{name}={value}" for name, value in old.items())
    assert current_text(as_text) == ",".join(f"{name}={value}" for name, value in new.items())
    assert current_values(current_values(old)) == new


@pytest.mark.parametrize("text", ["", "BM=128", "TMA_STORE=as it was", "CLOOSE=1", "a,b,,c", "=", "LOOSER=1"])
def test_other_text_is_left_alone(text: str) -> None:
    assert current_text(text) == text


def test_kernels_of_prologues() -> None:
    assert current_kernel("repack") == "align_copy"
    assert current_kernel("fp16_parts_cluster") == "split_fp16_cluster"
    assert current_kernel("warp_tile") == "warp_tile"


@pytest.mark.parametrize(("name", "value", "words"), [
    ("LOOSE", 1, "UNALIGNED_OPERANDS=1"), ("NARROW", None, "TAIL_BN"),
    ("TMA_STORE", -4, "STORE_MODE=threads,STORE_BOXES=4"),
    ("TMA_STORE", 0, "STORE_MODE=direct,STORE_BOXES=0"), ("TMA_STORE", None, "STORE_MODE and STORE_BOXES"),
    ("TMA_STORE", "x", "STORE_MODE and STORE_BOXES"), ("BM", 64, ""), ("STORE_MODE", 1, ""),
])  # fmt: skip
def test_what_to_write_instead(name: str, value: object, words: str) -> None:
    assert replacement(name, value) == words


@pytest.mark.parametrize(("kernel", "changes", "hint"), [
    ("wgmma_split_k", {"LOOSE": 1}, "write UNALIGNED_OPERANDS=1"),
    ("wgmma_cluster", {"BM": 128, "TMA_STORE": -2}, "write STORE_MODE=threads,STORE_BOXES=2"),
    ("wgmma_cluster", {"NARROW": "128"}, "write TAIL_BN=128"),
    ("simt_best", {"TURNED": 1}, "write TRANSPOSED_COPY=1"),
])  # fmt: skip
def test_an_old_name_in_a_call_or_command_is_an_error_with_the_new_name(
    kernel: str, changes: dict[str, int | str], hint: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        rung_named(kernel).config(changes)
    assert "it was renamed" in caught.value.message
    assert caught.value.hint == hint


def test_an_old_preset_name_is_an_error_with_the_new_name() -> None:
    with pytest.raises(ConfigError, match="wgmma_split_k has no preset 'loose': it was renamed\nwrite unaligned"):
        rung_named("wgmma_split_k").config(preset="loose")


def test_a_digest_leads_to_the_latest_source_with_equal_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(equal_sources, "equal_sources", lambda: {"a": "b", "b": "c", "x": "y", "y": "x"})
    assert [equal_sources.current_digest(d) for d in ("a", "b", "c", "d", "")] == ["c", "c", "c", "d", ""]
    assert equal_sources.current_digest("x") in ("x", "y"), "a circle ends"


def test_the_shipped_pairs_are_digests() -> None:
    for old, new in equal_sources.equal_sources().items():
        assert len(old) == len(new) == 16
        assert int(old, 16) != int(new, 16)
