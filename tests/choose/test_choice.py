"""Which kernel is chosen for a problem: the user's tuning, the shipped table, the model, or the default."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fake_hopper import CLUSTER, H200, SPLIT_K
from tuned_tables import ENTRY, KEY, ODD_CONFIG, SQUARE, Tables, ship, table

from gemmsmith.choose import candidates, choice, simt
from gemmsmith.choose import table as shipped
from gemmsmith.choose.choice import choose, forget
from gemmsmith.choose.constants import Constants
from gemmsmith.choose.default import SIMULATOR, default_rung
from gemmsmith.choose.key import shape_key
from gemmsmith.choose.models import hopper_model
from gemmsmith.choose.table import Entry, Table, shipped_tables
from gemmsmith.choose.tuning_file import TuningFile
from gemmsmith.choose.winners import CLOSE, config_key
from gemmsmith.errors import UnsupportedError, UsageError
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import BF16, FP16, FP32, INT8, TF32, Problem

REAL_SPECS = candidates.hopper_specs


@pytest.fixture(autouse=True)
def hopper(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Fake kernels, no shipped table, and a tuning file of the test's own."""

    def specs() -> tuple[KernelSpec, ...]:
        return (CLUSTER, SPLIT_K)

    monkeypatch.setattr(candidates, "hopper_specs", specs)
    ship(monkeypatch)
    path = tmp_path / "tuning.jsonl"
    monkeypatch.setenv("GEMMSMITH_TUNING", str(path))
    forget()
    yield path
    forget()


@pytest.fixture
def real_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "hopper_specs", REAL_SPECS)


# --- the default


@pytest.mark.parametrize(
    ("problem", "gpu", "arch"),
    [
        (SQUARE, None, SIMULATOR), (Problem(1, 1, 1), H200, 90), (Problem(64, 64, 64, TF32), H200, 90),
        (Problem(64, 64, 64, INT8), H200, 90), (SQUARE, "NVIDIA A100-SXM4-80GB", 80), (SQUARE, "NVIDIA B200", 100),
        (SQUARE, "A GPU of the future", 80), (SQUARE.with_(k=0), H200, 90), (SQUARE.with_(m=0), H200, 90),
    ],
)  # fmt: skip
def test_the_default_rung_where_hopper_kernels_do_not_apply(problem: Problem, gpu: str | None, arch: int) -> None:
    found = choose(problem, gpu)
    assert found.spec == default_rung(problem, arch=arch)
    if found.spec.name == simt.NAME and gpu is not None:  # has a model of its own
        expected = simt.configuration_for(problem, 132, clusters=gpu == H200)
        assert (found.config, found.source) == (expected, "model")
    else:
        assert (found.config, found.source) == (found.spec.config(), "default")


def test_without_hopper_kernels_it_is_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "hopper_specs", lambda: ())
    assert choose(SQUARE, H200).source == "default"


def test_what_no_hopper_kernel_takes_gets_the_default_rung(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = (replace(CLUSTER, epilogue=False),)
    monkeypatch.setattr(candidates, "hopper_specs", lambda: plain)
    assert choose(SQUARE, H200).source == "model"
    assert choose(SQUARE.with_(activation="relu"), H200).source == "default"


def test_what_no_rung_takes_is_refused_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert choose(SQUARE, H200).source == "shipped", "answers are cached"
    forget()
    found = choose(SQUARE, H200)
    assert (found.source, found.spec, found.config.values) == ("tuned", SPLIT_K, mine.config)


def test_a_shipped_winner_that_the_model_expects_to_beat_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert choose(SQUARE, "NVIDIA H200 NVL", sms=132).source == "shipped", "the same GPU under another name"
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


def test_an_entry_of_a_batch_is_for_batches_that_share_no_operand(monkeypatch: pytest.MonkeyPatch) -> None:
    many = SQUARE.with_(batch=3, m=512, n=512, k=512)
    ship(monkeypatch, table({shape_key(many): replace(ENTRY, us=5.0)}))
    assert choose(many, H200).source == "shipped"
    assert choose(replace(many, stride_a=0), H200).source == "model"


def test_an_entry_does_not_apply_to_operands_that_must_be_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    ship(monkeypatch, table({KEY: ENTRY}))
    assert choose(SQUARE, H200, (256, 256, 256)).source == "shipped"
    assert choose(SQUARE, H200, (258, 256, 256)).source == "model"
    assert choose(replace(SQUARE, lda=4097), H200).source == "model"


def test_an_entry_does_not_apply_to_operands_that_load_more_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does an entry for half-aligned rows apply to aligned ones."""
    half = SQUARE.with_(k=4104)
    ship(monkeypatch, table({KEY: ENTRY, shape_key(half): ENTRY}))
    assert choose(SQUARE, H200, (288, 256, 256)).source == "shipped"
    assert choose(SQUARE, H200, (272, 256, 256)).source == "model"
    assert choose(replace(SQUARE, lda=4112), H200).source == "shipped"
    assert choose(replace(SQUARE, lda=4104), H200).source == "model"
    assert choose(half, H200).source == "shipped"
    assert choose(replace(half, lda=4112, ldb=4112), H200).source == "model"


def test_an_entry_that_this_version_cannot_run_is_skipped_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    ship(monkeypatch, table({KEY: replace(ENTRY, config=(("BM", 7),)), shape_key(SQUARE.with_(k=64)): ENTRY}))
    with pytest.warns(RuntimeWarning, match="BM=7 is not one of"):
        assert choose(SQUARE, H200).source == "model"
    ship(monkeypatch, table({KEY: replace(ENTRY, kernel="of the future")}))
    forget()
    assert choose(SQUARE, H200).source == "model"


def test_a_broken_shipped_table_is_skipped_with_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(Tables):
        def __call__(self) -> tuple[Table, ...]:
            raise UsageError("the table is broken")

    monkeypatch.setattr(shipped, "shipped_tables", Broken())
    with pytest.warns(RuntimeWarning, match="the table is broken"):
        assert choose(SQUARE, H200).source == "model"


# --- the model


def test_the_model_chooses_legal_configurations_that_suit_the_shape() -> None:
    for problem in (SQUARE, SQUARE.with_(m=1), SQUARE.with_(m=127, n=9, k=3), SQUARE.with_(batch=16, m=64, n=64)):
        found = choose(problem, H200)
        assert found.source == "model"
        assert found.spec.illegal(found.config) == []
    assert choose(SQUARE, H200).spec is CLUSTER
    few = choose(Problem(16, 4096, 4096, BF16, BF16, trans_b=True), H200)
    assert few.spec.name == SPLIT_K.name
    assert few.config["SWAP"] == 1
    assert few.config["BN"] == 16
    deep = choose(Problem(128, 128, 16384, BF16, BF16), H200)
    assert (deep.spec, deep.config["SPLIT"]) == (SPLIT_K, 8)


def test_a_winner_at_another_shape_is_preferred_where_predicted_as_good(monkeypatch: pytest.MonkeyPatch) -> None:
    model = hopper_model(H200, 0, "")
    assert model is not None
    first, *others = candidates.ranked(SQUARE, *model, within=CLOSE)
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
    same, other_layout = shape_key(SQUARE.with_(k=3000)), shape_key(SQUARE.with_(k=3500, trans_b=False))
    ship(monkeypatch, table({same: entry, other_layout: nearer}))
    forget()
    assert choose(SQUARE, H200).config == winner.config, "another layout is further away"
    ship(monkeypatch, table({shape_key(SQUARE.with_(k=2048)): ENTRY}))
    forget()
    assert choose(SQUARE, H200).config == first.config, "a winner that is predicted much slower is not taken"


@pytest.mark.parametrize(("k", "taken"), [(4080, True), (2048, False)])
def test_an_underrated_winner_nearby_is_preferred(k: int, taken: bool, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_a_winner_nearby_is_not_used_where_it_needs_another_wave(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was the model's favourite as well, so the model did not underrate it."""
    larger = SQUARE.with_(m=4160, n=4160)
    first, here = choose(SQUARE, H200), choose(larger, H200)
    times = {c.name: c.seconds for c in candidates.ranked(larger, *hopper_model(H200, 0, ""))}  # type: ignore[misc]
    slower = times[first.spec.name, str(first.config)] / times[here.spec.name, str(here.config)]
    assert 1.1 < slower < 1.25, "within the tolerance of an underrated winner"
    ship(monkeypatch, table({KEY: Entry(first.spec.name, first.config.values, 1.0)}))
    forget()
    assert choose(larger, H200).config == here.config


@pytest.mark.usefixtures("real_kernels")
@pytest.mark.parametrize(
    ("sizes", "layout", "fast"),
    [
        ((4104, 4104, 4104), "NT", {(192, 176, 1, 2), (256, 192, 1, 2)}),
        ((2056, 2056, 2056), "NT", {(192, 176, 1, 2)}),
        # 200 columns give as many tiles as 208, waste less, and were not there when others were timed
        ((2560, 2560, 2560), "NN", {(256, 208, 1, 1), (256, 208, 2, 1), (192, 144, 1, 2), (128, 208, 2, 1),
                                    (256, 200, 1, 1), (128, 200, 2, 1)}),
        # timed together on 2026-11-18: 10.23, 10.69, 10.96 µs; (128, 256, 1, 1) 11.54
        ((4096, 4096, 64), "NT", {(128, 128, 1, 1), (256, 128, 1, 1), (192, 192, 1, 1)}),
    ],
    ids=str,
)  # fmt: skip
def test_tiles_are_among_the_fastest_measured(
    sizes: tuple[int, int, int], layout: str, fast: set[tuple[int, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of twelve per shape, timed on an H200. None of the shapes is in the table; other tiles are up to 70 % slower."""
    ship(monkeypatch, *shipped_tables())
    problem = Problem(*sizes, BF16, BF16, trans_b=layout == "NT")
    found = choose(problem, H200, sms=132, arch="sm_90")
    assert found.source == "model"
    assert tuple(found.config[name] for name in ("BM", "BN", "CLUSTER_M", "CLUSTER_N")) in fast


@pytest.mark.usefixtures("real_kernels")
@pytest.mark.parametrize("tables", [(), shipped_tables()], ids=["estimates", "shipped"])
@pytest.mark.parametrize(
    ("sizes", "layout", "operands"),
    [
        ((16, 4096, 4095), "NT", "AB"), ((16, 4096, 4096), "NT", ""), ((4096, 16, 4095), "NN", "A"),
        ((4096, 16, 4096), "NN", ""), ((16, 4095, 4096), "NN", "B"), ((4095, 16, 4096), "TN", "A"),
        ((4097, 4095, 4093), "NN", ""), ((4097, 4095, 4093), "NT", ""), ((4097, 4095, 4093), "TN", ""),
        ((4097, 4095, 4093), "TT", ""), ((65, 63, 17), "NN", "AB"), ((65, 63, 17), "NT", "AB"),
        ((64, 64, 33), "NT", "AB"), ((64, 64, 33), "NN", "A"), ((1023, 1021, 1019), "NT", ""),
    ],
)  # fmt: skip
def test_skinny_shapes_load_the_large_operand_unaligned(
    tables: tuple[Table, ...], sizes: tuple[int, int, int], layout: str, operands: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ship(monkeypatch, *tables)
    problem = Problem(*sizes, BF16, BF16, trans_a=layout[0] == "T", trans_b=layout[1] == "T")
    found = choose(problem, H200, sms=132, arch="sm_90")
    assert found.spec.unaligned_operands is not None or not operands
    taken = found.spec.unaligned_operands(found.config) if found.spec.unaligned_operands is not None else ""
    assert taken == operands


@pytest.mark.usefixtures("real_kernels")
def test_skinny_shapes_load_an_operand_unaligned_where_its_address_is() -> None:
    aligned = Problem(16, 4096, 4096, BF16, BF16, trans_b=True)
    assert choose(aligned, H200, (256, 258, 256), sms=132, arch="sm_90").config["UNALIGNED_OPERANDS"] == 1
    assert choose(aligned, H200, (258, 256, 256), sms=132, arch="sm_90").config["UNALIGNED_OPERANDS"] == 0
    assert choose(aligned, H200, (256, 256, 258), sms=132, arch="sm_90").config["UNALIGNED_OPERANDS"] == 0


@pytest.mark.usefixtures("real_kernels")
def test_a_winner_without_a_newer_parameter_has_its_default(monkeypatch: pytest.MonkeyPatch) -> None:
    few = Problem(80, 4096, 4096, BF16, BF16, trans_b=True)
    first, *others = candidates.ranked(few, *hopper_model(H200, 132, "sm_90"), within=CLOSE)  # type: ignore[misc]
    winner = next(c for c in reversed(others) if c.spec.name == "wgmma_split_k")
    older = tuple((name, value) for name, value in winner.config if name != "UNALIGNED_OPERANDS")
    assert len(older) == len(winner.config.values) - 1
    assert config_key("wgmma_split_k", older) == config_key("wgmma_split_k", winner.config.values)
    assert config_key("wgmma_split_k", (*older, ("UNALIGNED_OPERANDS", 1))) != config_key("wgmma_split_k", older)
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


def test_a_hopper_gpu_that_is_not_in_the_table_has_a_model() -> None:
    assert hopper_model("NVIDIA H800", 0, "") is None
    model = hopper_model("NVIDIA H800", 78, "sm_90")
    assert model is not None
    assert model[0].sms == 78
    assert hopper_model("NVIDIA H800", 78, "sm_100") is None
    assert choose(SQUARE, "NVIDIA H800", sms=78, arch="sm_90").source == "model"


def test_asking_again_is_a_dictionary_lookup(monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_the_cache_of_choices_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "_MOST_REMEMBERED", 4)
    for m in range(1, 10):
        choose(Problem(m, 4, 4), None)
    assert len(choice._CACHE.choices) <= 4


# --- architectures


def test_unknown_hopper_gpus_are_taken_for_an_h100() -> None:
    model, h100 = hopper_model("NVIDIA H800", 114, "sm_90"), hopper_model("NVIDIA H100 80GB HBM3", 132, "sm_90")
    assert model is not None
    assert h100 is not None
    assert (model[0], model[1]) == (replace(h100[0], sms=114), h100[1])


def test_the_h20_has_its_own_rate_and_memory() -> None:
    model = hopper_model("NVIDIA H20", 78, "sm_90")
    assert model is not None
    assert (model[0].sms, model[0].flops_per_clock) == (78, 1024)
    assert model[1].dram == pytest.approx(Constants().dram * 4000 / 4800)


@pytest.mark.parametrize(
    ("problem", "rung"),
    [
        (Problem(512, 512, 512), "warp_tile"), (Problem(512, 512, 512, trans_b=True), "coalesced"),
        (Problem(512, 512, 512, FP16, FP16), "wmma"), (Problem(512, 512, 512, FP16, trans_a=True), "wmma"),
        (Problem(512, 512, 512, BF16), "warp_tile_mixed"),
    ],
)  # fmt: skip
def test_turing_gets_rungs_without_cp_async(problem: Problem, rung: str) -> None:
    """Its tensor cores have fp16, so bf16 runs on CUDA cores."""
    for gpu, sms, arch in (("Tesla T4", 40, "sm_75"), ("NVIDIA GeForce RTX 2080 Ti", 0, "")):
        assert choose(problem, gpu, sms=sms, arch=arch).spec.name == rung


@pytest.mark.parametrize(
    "problem", [Problem(64, 64, 64, TF32), Problem(64, 64, 64, BF16, BF16), Problem(64, 64, 64, INT8)]
)
def test_what_turing_cannot_do_is_refused_by_name(problem: Problem) -> None:
    with pytest.raises(UnsupportedError, match=r"no rung computes 64x64x64 .* on sm_75"):
        choose(problem, "Tesla T4", sms=40, arch="sm_75")


@pytest.mark.usefixtures("real_kernels")
def test_a_winner_serves_rows_that_its_tiles_cover_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that no list of candidates has: tiles of 144 rows."""
    timed = Problem(72, 18432, 7168, BF16, BF16, trans_b=True)
    config = rung_named("wgmma_split_k").config({"BM": 144, "BN": 80, "STAGES": 5, "SWAP": 1, "DEPTH": 1, "SPLIT": 1})
    ship(monkeypatch, table({shape_key(timed): Entry("wgmma_split_k", config.values, 65.0)}))
    forget()
    assert choose(timed, H200).source == "shipped"
    for rows in (70, 80):
        found = choose(timed.with_(m=rows), H200)
        assert (found.config, found.source) == (config, "rows")
    assert choose(timed.with_(m=96), H200).source == "model"
