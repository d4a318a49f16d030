"""Which kernel is chosen for a problem, and from what: the user's tuning, the shipped table, the model, the default."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fake_hopper import CLUSTER, H200, SPLIT_K

from gemmsmith.choose import candidates, choice, simt
from gemmsmith.choose import table as shipped
from gemmsmith.choose.choice import choose, forget, hopper_model
from gemmsmith.choose.cost import Constants
from gemmsmith.choose.default import SIMULATOR, default_rung
from gemmsmith.choose.fit import Fitted
from gemmsmith.choose.key import ShapeKey, alignment, shape_key, unaligned
from gemmsmith.choose.table import Entry, Table, shipped_tables, table_from_text, table_text
from gemmsmith.choose.tuning_file import TuningFile, TuningFileError
from gemmsmith.errors import UnsupportedError, UsageError
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import BF16, FP16, FP32, INT8, TF32, Problem

SQUARE = Problem(4096, 4096, 4096, BF16, BF16, trans_b=True)
KEY = shape_key(SQUARE)
ODD_CONFIG = CLUSTER.config({"BM": 64, "BN": 72, "CONSUMERS": 1, "GROUP": 1})
REAL_SPECS = candidates.hopper_specs
ENTRY = Entry("wgmma_cluster", ODD_CONFIG.values, 180.0, 190.0)


@pytest.fixture(autouse=True)
def hopper(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Fake kernels, no shipped table, and a tuning file of the test's own."""

    def specs() -> tuple[KernelSpec, ...]:
        return (CLUSTER, SPLIT_K)

    monkeypatch.setattr(candidates, "hopper_specs", specs)
    monkeypatch.setattr(choice, "hopper_specs", specs)
    ship(monkeypatch)
    path = tmp_path / "tuning.jsonl"
    monkeypatch.setenv("GEMMSMITH_TUNING", str(path))
    forget()
    choice._own_values.cache_clear()
    yield path
    forget()
    choice._own_values.cache_clear()


@pytest.fixture
def real_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "hopper_specs", REAL_SPECS)
    monkeypatch.setattr(choice, "hopper_specs", REAL_SPECS)


class Tables:
    """Stands in for the cached reader of the package's tables."""

    def __init__(self, *tables: Table) -> None:
        self._tables = tables

    def __call__(self) -> tuple[Table, ...]:
        return self._tables

    def cache_clear(self) -> None:
        pass


def ship(monkeypatch: pytest.MonkeyPatch, *tables: Table) -> None:
    monkeypatch.setattr(shipped, "shipped_tables", Tables(*tables))


def table(entries: dict[ShapeKey, Entry], gpu: str = H200, constants: Constants | None = None) -> Table:
    return Table(gpu, "2026-01-02", {"b": "2", "a": "1"}, "gemmsmith tune …", Fitted(constants or Constants(), 9, 0.1),
                 entries)  # fmt: skip


# --- the default


@pytest.mark.parametrize(
    ("problem", "gpu", "arch"),
    [
        (SQUARE, None, SIMULATOR), (Problem(64, 64, 64), H200, 90), (Problem(64, 64, 64, TF32), H200, 90),
        (Problem(64, 64, 64, INT8), H200, 90), (SQUARE, "NVIDIA A100-SXM4-80GB", 80), (SQUARE, "NVIDIA B200", 100),
        (SQUARE, "A GPU of the future", 80), (SQUARE.with_(k=0), H200, 90), (SQUARE.with_(m=0), H200, 90),
    ],
)  # fmt: skip
def test_the_default_stays_where_hopper_kernels_do_not_apply(problem: Problem, gpu: str | None, arch: int) -> None:
    found = choose(problem, gpu)
    assert found.spec == default_rung(problem, arch=arch)
    if found.spec.name == simt.NAME and gpu is not None:  # it has a model of its own
        assert (found.config, found.source) == (simt.configuration_for(problem, 132), "model")
    else:
        assert (found.config, found.source) == (found.spec.config(), "default")


def test_without_hopper_kernels_it_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "hopper_specs", lambda: ())
    assert choose(SQUARE, H200).source == "default"


def test_what_no_hopper_kernel_takes_is_the_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = (replace(CLUSTER, epilogue=False),)
    monkeypatch.setattr(choice, "hopper_specs", lambda: plain)
    assert choose(SQUARE, H200).source == "model"
    assert choose(SQUARE.with_(activation="relu"), H200).source == "default"


def test_what_nothing_takes_is_refused_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gemmsmith.choose.default.rungs", lambda: ())
    for _ in range(2):
        with pytest.raises(UnsupportedError):
            choose(Problem(4, 4, 4), None)


# --- the sources, in their order


def test_the_users_tuning_comes_before_the_shipped_table(monkeypatch: pytest.MonkeyPatch, hopper: Path) -> None:
    ship(monkeypatch, table({KEY: ENTRY}))
    assert choose(SQUARE, H200).source == "shipped"
    mine = Entry("wgmma_split_k", SPLIT_K.config({"BM": 64, "CONSUMERS": 1}).values, 170.0)
    TuningFile(hopper).add_best(H200, KEY, mine)
    assert choose(SQUARE, H200).source == "shipped", "answers are kept"
    forget()
    found = choose(SQUARE, H200)
    assert (found.source, found.spec, found.config.values) == ("tuned", SPLIT_K, mine.config)


def test_a_winner_that_should_be_beaten_by_far_is_doubted(monkeypatch: pytest.MonkeyPatch) -> None:
    ship(monkeypatch, table({KEY: ENTRY}))
    best = candidates.ranked(SQUARE, *hopper_model(H200, 132, "sm_90"))[0].seconds * 1e6  # type: ignore[misc]
    for slower, source in ((1.19, "shipped"), (1.21, "model")):
        ship(monkeypatch, table({KEY: replace(ENTRY, us=best * slower)}))
        forget()
        assert choose(SQUARE, H200, sms=132, arch="sm_90").source == source


def test_the_shipped_table_is_for_its_own_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    ship(monkeypatch, table({KEY: ENTRY}))
    found = choose(SQUARE, H200, sms=132, arch="sm_90")
    assert (found.source, found.spec, found.config) == ("shipped", CLUSTER, ODD_CONFIG)
    assert choose(SQUARE, "NVIDIA H200 NVL", sms=132).source == "shipped", "the same GPU by another name"
    assert choose(SQUARE, "NVIDIA H100 80GB HBM3").source == "model"


def test_fp16_and_bf16_share_entries_and_output_sizes_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    ship(monkeypatch, table({KEY: ENTRY}))
    assert choose(SQUARE.with_(dtype=FP16, out_dtype=FP16), H200).source == "shipped"
    assert choose(SQUARE.with_(bias="row", activation="gelu"), H200).source == "shipped"
    for other in (
        SQUARE.with_(out_dtype=FP32),
        SQUARE.with_(trans_a=True),
        SQUARE.with_(k=4095),
        SQUARE.with_(batch=2),
    ):
        assert choose(other, H200).source == "model"


def test_an_entry_is_not_for_operands_that_must_be_copied_first(monkeypatch: pytest.MonkeyPatch) -> None:
    ship(monkeypatch, table({KEY: ENTRY}))
    assert choose(SQUARE, H200, (256, 256, 256)).source == "shipped"
    assert choose(SQUARE, H200, (258, 256, 256)).source == "model"
    assert choose(replace(SQUARE, lda=4097), H200).source == "model"


def test_an_entry_is_not_for_operands_that_are_fetched_more_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is one of half-aligned rows for others."""
    half = SQUARE.with_(k=4104)
    ship(monkeypatch, table({KEY: ENTRY, shape_key(half): ENTRY}))
    assert choose(SQUARE, H200, (288, 256, 256)).source == "shipped"
    assert choose(SQUARE, H200, (272, 256, 256)).source == "model"
    assert choose(replace(SQUARE, lda=4112), H200).source == "shipped"
    assert choose(replace(SQUARE, lda=4104), H200).source == "model"
    assert choose(half, H200).source == "shipped"
    assert choose(replace(half, lda=4112, ldb=4112), H200).source == "model"


def test_an_entry_this_version_cannot_run_is_left_out_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    ship(monkeypatch, table({KEY: replace(ENTRY, config=(("BM", 7),)), shape_key(SQUARE.with_(k=64)): ENTRY}))
    with pytest.warns(RuntimeWarning, match="BM=7 is not one of"):
        assert choose(SQUARE, H200).source == "model"
    ship(monkeypatch, table({KEY: replace(ENTRY, kernel="of the future")}))
    forget()
    assert choose(SQUARE, H200).source == "model"


def test_a_broken_shipped_table_is_said_and_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(Tables):
        def __call__(self) -> tuple[Table, ...]:
            raise UsageError("the table is broken")

    monkeypatch.setattr(shipped, "shipped_tables", Broken())
    with pytest.warns(RuntimeWarning, match="the table is broken"):
        assert choose(SQUARE, H200).source == "model"


# --- the model


def test_the_model_gives_legal_configurations_that_suit_the_shape() -> None:
    for problem in (SQUARE, SQUARE.with_(m=1), SQUARE.with_(m=127, n=9, k=3), SQUARE.with_(batch=16, m=64, n=64)):
        found = choose(problem, H200)
        assert found.source == "model"
        assert found.spec.illegal(found.config) == []
    assert choose(SQUARE, H200).spec is CLUSTER
    few = choose(Problem(16, 4096, 4096, BF16, BF16, trans_b=True), H200)
    assert few.spec is SPLIT_K
    assert few.config["SPLIT"] > 1
    assert few.config["SWAP"] == 1
    assert few.config["BN"] == 16
    deep = choose(Problem(128, 128, 16384, BF16, BF16), H200)
    assert (deep.spec, deep.config["SPLIT"]) == (SPLIT_K, 8)


def test_a_winner_elsewhere_is_preferred_where_it_is_predicted_as_good(monkeypatch: pytest.MonkeyPatch) -> None:
    model = hopper_model(H200, 0, "")
    assert model is not None
    first, *others = candidates.ranked(SQUARE, *model, within=choice._CLOSE)
    winner = others[-1]
    assert choose(SQUARE, H200).config == first.config
    entry = Entry(winner.spec.name, tuple(reversed(winner.config.values)), 1.0)
    ship(monkeypatch, table({shape_key(SQUARE.with_(k=2048)): entry, shape_key(SQUARE.with_(k=512)): ENTRY}))
    forget()
    assert choose(SQUARE, H200).config == winner.config
    nearer = Entry(others[0].spec.name, others[0].config.values, 1.0)
    ship(monkeypatch, table({shape_key(SQUARE.with_(k=2048)): entry, shape_key(SQUARE.with_(k=4095)): nearer}))
    forget()
    assert choose(SQUARE, H200).config == others[0].config
    same, turned = shape_key(SQUARE.with_(k=3000)), shape_key(SQUARE.with_(k=3500, trans_b=False))
    ship(monkeypatch, table({same: entry, turned: nearer}))
    forget()
    assert choose(SQUARE, H200).config == winner.config, "another layout is further away"
    ship(monkeypatch, table({shape_key(SQUARE.with_(k=2048)): ENTRY}))
    forget()
    assert choose(SQUARE, H200).config == first.config, "a winner that is predicted much slower is not taken"


@pytest.mark.parametrize(("k", "taken"), [(4080, True), (2048, False)])
def test_what_the_model_misjudged_nearby_is_carried_over(k: int, taken: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    tuned = SQUARE.with_(k=k)
    model = hopper_model(H200, 0, "")
    assert model is not None
    best = candidates.ranked(tuned, *model)
    here = {c.name: c for c in candidates.ranked(SQUARE, *model)}
    slower = [c for c in best if 1.1 < c.seconds / best[0].seconds < 1.2]
    winner = next(c for c in slower if here[c.name].seconds < 1.2 * min(h.seconds for h in here.values()))
    ship(monkeypatch, table({shape_key(tuned): Entry(winner.spec.name, winner.config.values, 1.0)}))
    forget()
    assert (choose(SQUARE, H200).config == winner.config) is taken


def test_a_winner_is_not_carried_over_to_where_it_takes_another_wave(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was the model's favourite as well, so that nothing was misjudged."""
    larger = SQUARE.with_(m=4160, n=4160)
    first, here = choose(SQUARE, H200), choose(larger, H200)
    times = {c.name: c.seconds for c in candidates.ranked(larger, *hopper_model(H200, 0, ""))}  # type: ignore[misc]
    slower = times[first.spec.name, str(first.config)] / times[here.spec.name, str(here.config)]
    assert 1.2 < slower < 1.25, "close enough for a rule that allows as much for every winner"
    ship(monkeypatch, table({KEY: Entry(first.spec.name, first.config.values, 1.0)}))
    forget()
    assert choose(larger, H200).config == here.config


@pytest.mark.usefixtures("real_kernels")
@pytest.mark.parametrize(
    ("sizes", "layout", "fast"),
    [
        ((4104, 4104, 4104), "NT", {(192, 176, 1, 2), (256, 192, 1, 2)}),
        ((2056, 2056, 2056), "NT", {(192, 176, 1, 2)}), ((768, 3072, 768), "NN", {(192, 96, 1, 1)}),
        ((2560, 2560, 2560), "NN", {(256, 208, 1, 1), (256, 208, 2, 1), (192, 144, 1, 2), (128, 208, 2, 1)}),
        ((4096, 4096, 64), "NT", {(256, 128, 1, 1), (128, 256, 1, 1)}),
    ],
    ids=str,
)  # fmt: skip
def test_tiles_are_among_the_fastest_that_were_measured(
    sizes: tuple[int, int, int], layout: str, fast: set[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of twelve that an H200 timed of each shape: none of these is in the table, and others are up to 70 % slower."""
    ship(monkeypatch, *shipped_tables())
    problem = Problem(*sizes, BF16, BF16, trans_b=layout == "NT")
    found = choose(problem, H200, sms=132, arch="sm_90")
    assert found.source == "model"
    assert tuple(found.config[name] for name in ("BM", "BN", "CLUSTER_M", "CLUSTER_N")) in fast


@pytest.mark.usefixtures("real_kernels")
@pytest.mark.parametrize("tables", [(), shipped_tables()], ids=["estimates", "shipped"])
@pytest.mark.parametrize(
    ("sizes", "layout", "loose"),
    [
        ((16, 4096, 4095), "NT", "AB"), ((16, 4096, 4096), "NT", ""), ((4096, 16, 4095), "NN", "A"),
        ((4096, 16, 4096), "NN", ""), ((16, 4095, 4096), "NN", "B"), ((4095, 16, 4096), "TN", "A"),
        ((4097, 4095, 4093), "NN", ""), ((4097, 4095, 4093), "NT", ""), ((4097, 4095, 4093), "TN", ""),
        ((4097, 4095, 4093), "TT", ""), ((65, 63, 17), "NN", "AB"), ((65, 63, 17), "NT", "AB"),
        ((64, 64, 33), "NT", "AB"), ((64, 64, 33), "NN", "A"), ((1023, 1021, 1019), "NT", ""),
    ],
)  # fmt: skip
def test_few_rows_take_the_other_operand_as_it_is(
    tables: tuple[Table, ...], sizes: tuple[int, int, int], layout: str, loose: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ship(monkeypatch, *tables)
    problem = Problem(*sizes, BF16, BF16, trans_a=layout[0] == "T", trans_b=layout[1] == "T")
    found = choose(problem, H200, sms=132, arch="sm_90")
    assert found.spec.unaligned_operands is not None or not loose
    assert (found.spec.unaligned_operands(found.config) if found.spec.unaligned_operands is not None else "") == loose


@pytest.mark.usefixtures("real_kernels")
def test_few_rows_take_the_other_operand_as_it_is_where_addresses_ask_for_it() -> None:
    aligned = Problem(16, 4096, 4096, BF16, BF16, trans_b=True)
    assert choose(aligned, H200, (256, 258, 256), sms=132, arch="sm_90").config["UNALIGNED_OPERANDS"] == 1
    assert choose(aligned, H200, (258, 256, 256), sms=132, arch="sm_90").config["UNALIGNED_OPERANDS"] == 0
    assert choose(aligned, H200, (256, 256, 258), sms=132, arch="sm_90").config["UNALIGNED_OPERANDS"] == 0


@pytest.mark.usefixtures("real_kernels")
def test_a_winner_of_a_time_before_a_parameter_is_the_one_with_its_default(monkeypatch: pytest.MonkeyPatch) -> None:
    few = Problem(16, 4096, 4096, BF16, BF16, trans_b=True)
    first, *others = candidates.ranked(few, *hopper_model(H200, 132, "sm_90"), within=choice._CLOSE)  # type: ignore[misc]
    winner = next(c for c in reversed(others) if c.spec.name == "wgmma_split_k")
    older = tuple((name, value) for name, value in winner.config if name != "UNALIGNED_OPERANDS")
    assert len(older) == len(winner.config.values) - 1
    assert choice._identity("wgmma_split_k", older) == choice._identity("wgmma_split_k", winner.config.values)
    assert choice._identity("wgmma_split_k", (*older, ("UNALIGNED_OPERANDS", 1))) != choice._identity(
        "wgmma_split_k", older
    )
    assert choose(few, H200, sms=132, arch="sm_90").config == first.config
    ship(monkeypatch, table({shape_key(few.with_(k=2048)): Entry("wgmma_split_k", older, 1.0)}))
    forget()
    assert choose(few, H200, sms=132, arch="sm_90").config == winner.config


def test_constants_come_from_the_shipped_table(monkeypatch: pytest.MonkeyPatch) -> None:
    ship(monkeypatch, table({}, constants=Constants(dram=2e12)))
    forget()
    own, other = hopper_model(H200, 132, "sm_90"), hopper_model("NVIDIA H100 80GB HBM3", 132, "sm_90")
    assert own is not None
    assert other is not None
    assert own[1].dram == 2e12
    assert other[1].dram == pytest.approx(2e12 * 3350 / 4800)


def test_a_hopper_gpu_in_no_table_has_a_model_if_the_driver_is_asked() -> None:
    assert hopper_model("NVIDIA H20", 0, "") is None
    model = hopper_model("NVIDIA H20", 78, "sm_90")
    assert model is not None
    assert model[0].sms == 78
    assert hopper_model("NVIDIA H20", 78, "sm_100") is None
    assert choose(SQUARE, "NVIDIA H20", sms=78, arch="sm_90").source == "model"


def test_asking_again_is_a_look_into_a_dictionary(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Problem] = []

    def counted(problem: Problem, *rest: object, **facts: object) -> list[candidates.Candidate]:
        asked.append(problem)
        return original(problem, *rest, **facts)  # type: ignore[arg-type]

    original = choice.ranked
    monkeypatch.setattr(choice, "ranked", counted)
    first = choose(SQUARE, H200, (256, 512, 1024))
    assert choose(SQUARE.with_(), H200, (4096, 512, 0)) is first
    assert len(asked) == 1
    choose(SQUARE, H200, (257, 512, 1024))
    assert len(asked) == 2
    choose(SQUARE, H200, (272, 512, 1024))
    assert len(asked) == 3, "half aligned"


def test_memory_of_choices_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "_MOST_REMEMBERED", 4)
    for m in range(1, 10):
        choose(Problem(m, 4, 4), None)
    assert len(choice._CHOICES) <= 4


@pytest.mark.parametrize(
    ("problem", "addresses", "bits"),
    [
        (Problem(64, 64, 64, BF16), None, 0), (Problem(64, 64, 63, BF16), None, 1),
        (Problem(64, 63, 64, BF16), None, 2), (Problem(63, 63, 63, BF16, BF16, trans_a=True), None, 7),
        (Problem(1, 64, 63, BF16), None, 0), (Problem(64, 64, 64, BF16, BF16), (8, 16, 2), 5),
        (Problem(64, 68, 64, BF16, BF16, ldb=72), None, 4), (Problem(64, 68, 64, BF16, ldb=72), None, 0),
        (Problem(64, 64, 64, BF16, BF16, ldc=68), None, 4), (Problem(1, 64, 64, BF16, BF16, ldc=68), None, 0),
        (Problem(64, 64, 64, BF16, BF16, batch=2, stride_c=4100), None, 4),
        (Problem(64, 1, 64, BF16), None, 0), (Problem(64, 1, 64, BF16, ldb=3), None, 2), (Problem(64, 1, 64), None, 2),
        (Problem(1, 64, 63, BF16, trans_a=True), None, 0), (Problem(64, 8, 1, BF16), None, 1),
        (Problem(64, 64, 64, BF16, batch=2, stride_a=4100), None, 1),
        (Problem(64, 64, 64, BF16, batch=2, stride_b=0), None, 0),
    ],
)  # fmt: skip
def test_which_matrices_no_tensor_map_can_describe(
    problem: Problem, addresses: tuple[int, int, int] | None, bits: int
) -> None:
    assert unaligned(problem, addresses) == bits


@pytest.mark.parametrize(
    ("problem", "addresses", "bits"),
    [
        (Problem(64, 64, 64, BF16), None, 0), (Problem(64, 64, 72, BF16), None, 8),
        (Problem(64, 72, 64, BF16), None, 16), (Problem(64, 72, 72, BF16), None, 24),
        (Problem(72, 64, 64, BF16, trans_a=True), None, 8), (Problem(64, 64, 72, BF16, trans_b=True), None, 24),
        (Problem(64, 64, 80, BF16), None, 0), (Problem(64, 64, 64, BF16, lda=72, ldb=80), None, 8),
        (Problem(64, 64, 64, BF16), (16, 32, 16), 8), (Problem(64, 64, 64, BF16), (8, 48, 0), 1 | 16),
        (Problem(64, 64, 72, BF16, BF16), (2, 0, 2), 1 | 4), (Problem(1, 64, 72, BF16), None, 0),
        (Problem(64, 1, 72, BF16), None, 8), (Problem(64, 64, 64, BF16, batch=2, stride_a=4104), None, 8),
        (Problem(64, 64, 64, BF16, batch=2, stride_b=4112), None, 0),
    ],
)  # fmt: skip
def test_which_operands_are_half_aligned(problem: Problem, addresses: tuple[int, int, int] | None, bits: int) -> None:
    """Bits 3 and 4; what must be copied first, or has no next row, is not."""
    assert alignment(problem, addresses) == bits
    assert alignment(problem, addresses) & 7 == unaligned(problem, addresses)


# --- the table's file


def test_a_table_comes_back_as_it_was_and_is_sorted() -> None:
    keys = [replace(KEY, m=m) for m in (64, 8, 4096)]
    made = table({key: replace(ENTRY, cublas_us=math.nan if key.m == 8 else 2.5) for key in keys})
    text = table_text(made)
    again = table_from_text(text)
    assert table_text(again) == text
    assert [key.m for key in again.entries] == [8, 64, 4096]
    assert math.isnan(again.entries[keys[1]].cublas_us)
    assert replace(again, entries={}) == replace(made, entries={})
    lines = [line for line in text.splitlines() if '"kernel"' in line]
    assert len(lines) == 3, "one entry a line"
    assert json.loads(text)["versions"] == {"a": "1", "b": "2"}
    assert table_from_text(table_text(table({}))).entries == {}


@pytest.mark.parametrize(
    "change",
    [
        {"format": 2}, {"entries": [{}]}, {"entries": 3}, {"model": {}}, {"versions": []},
        {"model": {"constants": {"dram": -1}, "samples": 1, "error": 1}},
    ],
)  # fmt: skip
def test_what_is_no_table_is_refused(change: dict[str, object]) -> None:
    good = json.loads(table_text(table({KEY: ENTRY})))
    with pytest.raises(UsageError):
        table_from_text(json.dumps(good | change))
    with pytest.raises(UsageError):
        table_from_text("{")


def test_the_shipped_tables_can_be_read_and_their_configurations_run() -> None:
    from gemmsmith.ladder.registry import rung_named

    for found in shipped_tables():
        assert found.entries
        assert found.model.error < math.log(2)
        for key, entry in found.entries.items():
            assert rung_named(entry.kernel).config(dict(entry.config)), key


# --- the tuning file, read by calls


def test_a_damaged_tuning_file_is_said_and_the_rest_of_it_is_used(hopper: Path) -> None:
    TuningFile(hopper).add_best(H200, KEY, ENTRY)
    good = hopper.read_bytes()
    bad = [b'{"format": 1, "event": "best"}',
           b'{"format": 9, "event": "best", "gpu": "x"}', b'"event": "best" \xff\x00',
           good.replace(b'"BM": 64', b'"BM": 6.4').strip(), b"[" * 100_000 + b'"event": "best"']  # fmt: skip
    hopper.write_bytes(b"\n".join(bad) + b"\n" + good + good[:30])
    with pytest.warns(RuntimeWarning, match="5 of 6 lines of the tuning file"):
        assert choose(SQUARE, H200).source == "tuned"


def test_a_torn_last_line_is_ordinary(hopper: Path) -> None:
    file = TuningFile(hopper)
    file.add_best(H200, KEY, ENTRY)
    whole = hopper.read_bytes()
    hopper.write_bytes(whole + whole[:40])
    assert choose(SQUARE, H200).source == "tuned"
    file.add_best(H200, replace(KEY, m=8), ENTRY)
    assert hopper.read_bytes() == whole + whole.replace(b'"m": 4096', b'"m": 8')


def test_a_tuning_file_that_cannot_be_read_is_said(hopper: Path) -> None:
    hopper.mkdir()
    with pytest.warns(RuntimeWarning, match="cannot read the tuning file"):
        assert choose(SQUARE, H200).source == "model"


def test_another_programs_file_is_not_written(hopper: Path) -> None:
    hopper.write_bytes(b"something precious")
    with pytest.raises(UsageError, match="is not a tuning file"):
        TuningFile(hopper).add_best(H200, KEY, ENTRY)
    assert hopper.read_bytes() == b"something precious"


def test_a_tuning_file_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TuningFileError, match="cannot write the tuning file"):
        TuningFile(tmp_path / "file" / "tuning.jsonl").add_best(H200, KEY, ENTRY)
