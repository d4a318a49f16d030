"""deterministic=: kernels whose order of accumulation may change are tuned and used only with deterministic=False."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_hopper import CLUSTER, H200, SPLIT_K

import gemmsmith
from gemmsmith.choose import candidates, choice
from gemmsmith.choose import table as shipped
from gemmsmith.choose.candidates import ranked
from gemmsmith.choose.choice import choose, forget
from gemmsmith.choose.constants import Constants
from gemmsmith.choose.determinism import check_deterministic, is_deterministic
from gemmsmith.choose.export import table_of
from gemmsmith.choose.fit import Fitted
from gemmsmith.choose.key import ShapeKey, fastest, shape_key
from gemmsmith.choose.models import hopper_model
from gemmsmith.choose.neighbours import neighbours
from gemmsmith.choose.table import Entry, Table, table_from_text, table_text
from gemmsmith.choose.tuning_file import Tried, TuningFile
from gemmsmith.errors import ConfigError
from gemmsmith.kernel.config import Config, Parameter
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import rung_named, rungs
from gemmsmith.problem import BF16, Problem

ROOT = Path(__file__).parents[2]
DEEP = Problem(128, 128, 16384, BF16, BF16)
KEY = shape_key(DEEP)
# A split along K that may accumulate in arrival order.
SPLIT = replace(SPLIT_K, parameters=(*SPLIT_K.parameters, Parameter("DETERMINISTIC", 1, (0, 1), "")))
FIXED, ARRIVING = (SPLIT.config({"BM": 64, "BN": 64, "CONSUMERS": 1, "DETERMINISTIC": order}) for order in (1, 0))


def entry(config: Config) -> Entry:
    return Entry(SPLIT.name, config.values, 0.5, 20.0)


@pytest.fixture(autouse=True)
def tuning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """The fake kernels, one of them with a choice of order, no shipped table, and a tuning file of its own."""

    def specs() -> tuple[KernelSpec, ...]:
        return (CLUSTER, SPLIT)

    menu = {**candidates._MENU, "wgmma_split_k": {**candidates._MENU["wgmma_split_k"], "DETERMINISTIC": (0, 1)}}
    monkeypatch.setattr(candidates, "_MENU", menu)
    monkeypatch.setattr(candidates, "menu", cache(candidates.menu.__wrapped__))  # the cached menu is of other kernels
    monkeypatch.setattr(candidates, "hopper_specs", specs)
    ship(monkeypatch, {})
    path = tmp_path / "tuning.jsonl"
    monkeypatch.setenv("GEMMSMITH_TUNING", str(path))
    forget()
    yield path
    forget()


def ship(monkeypatch: pytest.MonkeyPatch, entries: dict[ShapeKey, Entry]) -> None:
    class Tables:
        def __call__(self) -> tuple[Table, ...]:
            return (Table(H200, "2026-01-02", {}, "gemmsmith tune …", Fitted(Constants(), 9, 0.1), entries),)

        def cache_clear(self) -> None: ...

    monkeypatch.setattr(shipped, "shipped_tables", Tables())
    forget()


def orders(found: Any) -> set[int]:
    return {dict(each.config).get("DETERMINISTIC", 1) for each in found}


def test_which_configurations_are_deterministic() -> None:
    assert is_deterministic(SPLIT, FIXED)
    assert not is_deterministic(SPLIT, ARRIVING)
    for spec in rungs():
        assert is_deterministic(spec, spec.config()), f"{spec.name}: what is chosen by default must be"


# --- candidates


def test_candidates_and_their_neighbours() -> None:
    model = hopper_model(H200, 132, "sm_90")
    assert model is not None
    fixed, free = ranked(DEEP, *model), ranked(DEEP, *model, deterministic=False)
    assert orders(fixed) == {1}
    assert orders(free) == {0, 1}
    assert len(free) > len(fixed)
    assert {c.name for c in fixed} < {c.name for c in free}
    best = next(c for c in fixed if c.spec is SPLIT)
    assert orders(neighbours(best, DEEP, *model)) == {1}
    assert orders(neighbours(best, DEEP, *model, deterministic=False)) == {0, 1}
    arriving = next(c for c in free if dict(c.config).get("DETERMINISTIC") == 0)
    assert orders(neighbours(arriving, DEEP, *model, deterministic=False)) == {0, 1}
    assert orders(neighbours(arriving, DEEP, *model)) == {1}


def test_no_candidate_is_left_if_none_is_deterministic() -> None:
    model = hopper_model(H200, 132, "sm_90")
    assert model is not None
    only = replace(SPLIT, parameters=(*SPLIT_K.parameters, Parameter("DETERMINISTIC", 0, (0,), "")))
    for deterministic in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(candidates, "hopper_specs", lambda: (only,))
            assert bool(ranked(DEEP, *model, deterministic=deterministic)) == (not deterministic)


# --- the choice


def test_the_model_chooses_a_fixed_order_by_default() -> None:
    assert is_deterministic(SPLIT, choose(DEEP, H200).config)
    free = choose(DEEP, H200, deterministic=False)
    assert (free.spec, dict(free.config)["DETERMINISTIC"], free.source) == (SPLIT, 0, "model")
    assert choose(DEEP, H200).config != free.config, "answers are kept apart"


def test_a_tuned_nondeterministic_entry_is_used_only_if_allowed(tuning: Path) -> None:
    TuningFile(tuning, any_order=True).add_best(H200, KEY, entry(ARRIVING))
    forget()
    assert choose(DEEP, H200).source == "model"
    free = choose(DEEP, H200, deterministic=False)
    assert (free.config, free.source) == (ARRIVING, "tuned")
    TuningFile(tuning).add_best(H200, KEY, entry(FIXED))
    forget()
    assert (choose(DEEP, H200).config, choose(DEEP, H200).source) == (FIXED, "tuned")
    assert choose(DEEP, H200, deterministic=False).config == ARRIVING, "its own comes first"


def test_a_deterministic_entry_is_used_where_either_is_allowed(tuning: Path) -> None:
    TuningFile(tuning).add_best(H200, KEY, entry(FIXED))
    forget()
    assert choose(DEEP, H200, deterministic=False).config == FIXED


def test_a_nondeterministic_entry_under_the_wrong_key_is_ignored(tuning: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    TuningFile(tuning).add_best(H200, KEY, entry(ARRIVING))
    ship(monkeypatch, {KEY: entry(ARRIVING)})
    assert choose(DEEP, H200).source == "model"
    assert choose(DEEP, H200, deterministic=False).source == "tuned"


def test_shipped_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    ship(monkeypatch, {KEY: entry(FIXED), fastest(KEY): entry(ARRIVING)})
    assert (choose(DEEP, H200).config, choose(DEEP, H200).source) == (FIXED, "shipped")
    free = choose(DEEP, H200, deterministic=False)
    assert (free.config, free.source) == (ARRIVING, "shipped")


def test_deterministic_calls_use_the_deterministic_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    other = SPLIT.config({"BM": 64, "BN": 32, "CONSUMERS": 1})
    ship(monkeypatch, {KEY: entry(FIXED), fastest(KEY): entry(other)})
    assert choose(DEEP, H200).config == FIXED
    assert choose(DEEP, H200, deterministic=False).config == other


# --- the tuning file and the table


def test_both_results_are_kept_in_one_file(tuning: Path) -> None:
    plain, free = TuningFile(tuning), TuningFile(tuning, any_order=True)
    plain.add_run(H200, "gemmsmith tune", "2026-01-02", {})
    for file, config in ((plain, FIXED), (free, ARRIVING)):
        file.add_start(H200, KEY, str(config), SPLIT.name, config.values)
        file.add_candidate(H200, KEY, str(config), Tried(SPLIT.name, config.values, "timed", 10.0, 20.0))
        file.add_best(H200, KEY, entry(config))
    for file, config in ((plain, FIXED), (free, ARRIVING)):
        history = file.history(H200)
        assert history.best == {KEY: entry(config)}
        assert list(history.tried[KEY]) == [str(config)]
        assert len(history.runs) == 1
        assert file.best(H200) == {KEY: entry(FIXED), fastest(KEY): entry(ARRIVING)}
    free.add_fresh(H200, KEY)
    assert not free.history(H200).tried
    assert plain.history(H200).tried
    table = table_of(plain)
    assert table == table_of(free)
    assert dict(table.entries) == {KEY: entry(FIXED), fastest(KEY): entry(ARRIVING)}
    assert table.model.samples == 1, "what was timed before 'fresh' is not among them"
    assert table_from_text(table_text(table)).entries == table.entries


def test_old_files_are_read_unchanged() -> None:
    file = TuningFile(ROOT / "benchmarks" / "results" / "h200_tuning.jsonl")
    (gpu,) = file.gpus()
    assert len(file.history(gpu).best) == len(file.best(gpu)) > 10
    any_order = TuningFile(file.path, any_order=True).history(gpu)
    assert not any_order.best
    assert not any_order.tried
    assert any_order.runs


def test_deterministic_lines_are_written_in_the_old_format(tuning: Path) -> None:
    TuningFile(tuning).add_best(H200, KEY, entry(FIXED))
    line = json.loads(tuning.read_text())
    assert list(line) == ["format", "event", "gpu", "kind", "out_bytes", "layout", "m", "n", "k", "batch", "kernel",
                          "config", "us", "cublas_us"]  # fmt: skip
    assert line["kind"] == "16-bit"


# --- the public functions


def test_a_nondeterministic_configuration_must_be_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    free = replace(rung_named("naive"), parameters=(*rung_named("naive").parameters,
                                                    Parameter("DETERMINISTIC", 1, (0, 1), "")))  # fmt: skip
    with pytest.raises(ConfigError, match="naive with DETERMINISTIC=0 reduces in arrival order") as caught:
        check_deterministic(free, free.config({"DETERMINISTIC": 0}))
    assert "deterministic=False" in caught.value.hint
    a = b = np.eye(4, dtype=np.float32)
    for how in (gemmsmith.gemm, gemmsmith.plan):
        with pytest.raises(ConfigError, match="arrival order"):
            how(a, b, kernel=free, config={"DETERMINISTIC": 0})
    assert np.array_equal(gemmsmith.gemm(a, b, kernel=free, config={"DETERMINISTIC": 1}), a)
    assert np.array_equal(gemmsmith.gemm(a, b, kernel=free, config={"DETERMINISTIC": 0}, deterministic=False), a)
    asked: list[bool] = []

    def chosen(_problem: Problem, *, precision: str, deterministic: bool) -> choice.Choice:
        assert precision == "fp32"
        asked.append(deterministic)
        return choice.Choice(free, free.config(), "default")

    monkeypatch.setattr("gemmsmith.call.api.choose", chosen)
    with pytest.raises(ConfigError, match="arrival order"):
        gemmsmith.gemm(a, b, config={"DETERMINISTIC": 0})
    assert np.array_equal(gemmsmith.matmul(a, b, deterministic=False), a)
    assert asked == [True, False]
