"""Candidates: legal configurations in predicted order, and their neighbours."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from cost_cases import CHIP, SQUARE
from fake_hopper import CLUSTER, SPLIT_K

from gemmsmith.choose import candidates
from gemmsmith.choose.candidates import Candidate, menu, ranked
from gemmsmith.choose.constants import Constants
from gemmsmith.choose.neighbours import neighbours
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.geometry import Geometry
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import BF16, Problem

REAL_SPECS = candidates.hopper_specs


@pytest.fixture(autouse=True)
def _hopper(monkeypatch: pytest.MonkeyPatch) -> None:
    def specs() -> tuple[KernelSpec, ...]:
        return (CLUSTER, SPLIT_K)

    monkeypatch.setattr(candidates, "hopper_specs", specs)


@pytest.mark.parametrize("spec", [CLUSTER, SPLIT_K], ids=lambda spec: spec.name)
def test_the_menu_is_legal_with_as_many_stages_as_fit(spec: KernelSpec) -> None:
    found = menu(spec, "NN")
    assert len(found.configs) > 200
    assert len(set(found.configs)) == len(found.configs)
    for config in found.configs[::7]:
        values = dict(config)
        assert spec.illegal(config) == []
        deeper = replace(config, values=tuple((values | {"STAGES": values["STAGES"] + 1}).items()))
        back = values["CONSUMERS"] * 64 * values["BN"] if values.get("STORE_MODE") else 0  # half of the outputs
        stage = values.get("DEPTH", 1) * (values["BM"] + values["BN"]) * 128
        smem = [each["STAGES"] * stage + back for each in (config, deeper)]
        two = spec == SPLIT_K and smem[0] <= 113 * 1024  # up to eight stages, with room for a second block
        fits = smem[1] <= (113 if two else 227) * 1024 and not spec.illegal(deeper)
        fits = fits and not (two and values["STAGES"] == 8)
        assert not fits, "one more stage must not fit beside the staging buffer"
        used = values["STAGES"] * (values["BM"] + values["BN"]) * 128 + back
        assert used <= 227 * 1024
        accumulators = values["BM"] * values["BN"] / (128 * values["CONSUMERS"])
        assert accumulators <= (208 if values["CONSUMERS"] == 2 else 128)
        assert values.get("CLUSTER_M", 1) * values.get("CLUSTER_N", 1) <= 2


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
def test_the_menu_has_unaligned_operands_for_all_tiles_of_one_cluster(layout: str) -> None:
    spec = rung_named("wgmma_split_k")
    found = menu(spec, layout).configs
    direct = [config for config in found if config["UNALIGNED_OPERANDS"]]
    assert {config["CLUSTERS"] for config in direct} == {1}
    assert {config["CLUSTERS"] for config in found} > {1}, "others split K over clusters"
    for name in ("BM", "BN", "SPLIT", "SWAP", "DEPTH"):
        assert {config[name] for config in direct} == {config[name] for config in found}, name
    both = [config for config in direct if config["UNALIGNED_OPERANDS"] == 2]
    for name in ("BM", "SPLIT", "SWAP", "DEPTH"):
        assert {config[name] for config in both} == {config[name] for config in found}, name
    assert {config["BN"] for config in both} == {config["BN"] for config in found if config["BN"] <= 192}
    sample = Problem(1024, 1024, 1024, BF16, BF16, trans_a=layout[0] == "T", trans_b=layout[1] == "T")
    assert all(spec.geometry(sample, config).smem <= 227 * 1024 for config in direct)


@pytest.mark.parametrize(
    ("problem", "addresses", "swaps"),
    [
        (Problem(64, 64, 64, BF16), None, set()), (Problem(64, 64, 63, BF16), None, {0}),
        (Problem(64, 63, 64, BF16), None, {1}), (Problem(64, 63, 63, BF16), None, {0, 1}),
        (Problem(64, 64, 64, BF16), (2, 0, 0), {0}), (Problem(64, 64, 64, BF16), (0, 2, 0), {1}),
        (Problem(64, 64, 64, BF16, BF16, ldc=67), None, set()), (Problem(64, 64, 64, BF16, BF16), (0, 0, 2), set()),
    ],
)  # fmt: skip
def test_an_operand_is_loaded_unaligned_only_where_that_saves_a_copy(
    problem: Problem, addresses: tuple[int, int, int] | None, swaps: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "hopper_specs", REAL_SPECS)
    found = ranked(problem, CHIP, Constants(), addresses=addresses)
    by_operands = [
        {dict(c.config)["SWAP"] for c in found if dict(c.config).get("UNALIGNED_OPERANDS") == n} for n in (0, 1, 2)
    ]
    others = {1 - swap for swap in swaps}  # the second operand: only UNALIGNED_OPERANDS = 2 saves its copy
    assert by_operands == [{0, 1}, swaps, others]
    assert all(math.isfinite(c.seconds) for c in found)


def test_a_layout_that_takes_more_shared_memory_has_fewer_stages() -> None:
    def doubled(problem: Problem, config: Config) -> Geometry:
        sides = config["BM"] + config["BN"] * (1 if problem.trans_b else 2)
        return Geometry((1, 1, 1), (256, 1, 1), config["STAGES"] * sides * 128)

    spec = replace(CLUSTER, name="wgmma_cluster", extra_defines=(("DOUBLED", "1"),), geometry=doubled)
    k_major, mn_major = menu(spec, "NT").configs, menu(spec, "NN").configs
    assert sum(c["STAGES"] for c in mn_major) < sum(c["STAGES"] for c in k_major)
    for config in mn_major:
        assert doubled(SQUARE, config).smem <= 227 * 1024


def test_candidates_are_sorted_and_within_the_limit() -> None:
    everybody = ranked(SQUARE, CHIP, Constants())
    times = [c.seconds for c in everybody]
    assert times == sorted(times)
    assert len(everybody) == len(menu(CLUSTER, "NN").configs) + len(menu(SPLIT_K, "NN").configs)
    close = ranked(SQUARE, CHIP, Constants(), within=1.1)
    assert close == everybody[: len(close)]
    assert times[len(close) - 1] <= 1.1 * times[0] < times[len(close)]


def test_a_short_list_is_varied() -> None:
    found = ranked(SQUARE, CHIP, Constants(), count=12)
    assert len(found) == 12
    assert [c.seconds for c in found] == sorted(c.seconds for c in found)
    sizes = [(c.spec.name, c.config["BM"], c.config["BN"]) for c in found]
    assert max(sizes.count(size) for size in sizes) <= 2
    assert found[0] == ranked(SQUARE, CHIP, Constants())[0]
    few = len(ranked(SQUARE, CHIP, Constants(), within=1.02))
    assert len(ranked(SQUARE, CHIP, Constants(), count=few, within=1.02)) == few, "filled up with more of the same size"


def test_only_kernels_that_take_the_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "hopper_specs", lambda: (CLUSTER, replace(SPLIT_K, layouts=("NT",))))
    assert {c.spec.name for c in ranked(SQUARE, CHIP, Constants())} == {"wgmma_cluster"}
    assert len({c.spec.name for c in ranked(SQUARE.with_(trans_b=True), CHIP, Constants())}) == 2
    assert ranked(Problem(4, 4, 4), CHIP, Constants()) == []


@pytest.mark.parametrize("spec", [CLUSTER, SPLIT_K], ids=lambda spec: spec.name)
def test_neighbours_are_legal_and_one_step_away(spec: KernelSpec) -> None:
    best = Candidate(spec, spec.config({"BM": 128, "BN": 128, "STAGES": 6, "CONSUMERS": 2}), 1.0)
    found = neighbours(best, SQUARE, CHIP, Constants())
    changed = []
    for near in found:
        assert spec.illegal(near.config) == []
        assert near.seconds > 0
        different = {name for name, value in near.config if best.config[name] != value}
        assert different
        changed.append(
            "cluster" if "CLUSTER_M" in different or "CLUSTER_N" in different else min(different - {"STORE_BOXES"})
        )
        assert (
            len(different) == 1
            or changed[-1] == "cluster"
            or different in ({"DEPTH", "STAGES"}, {"STORE_MODE", "STORE_BOXES"})
        )
    mine = {"cluster", "STORE_MODE", "GROUP"} if spec is CLUSTER else {"SPLIT", "DEPTH"}
    assert set(changed) == {"STAGES", "BN"} | mine
    edge = Candidate(spec, spec.config({"BM": 128, "BN": 256, "STAGES": 2, "CONSUMERS": 2}), 1.0)
    assert {near.config["BN"] for near in neighbours(edge, SQUARE, CHIP, Constants())} == {240, 256}
    assert {near.config["STAGES"] for near in neighbours(edge, SQUARE, CHIP, Constants())} == {2, 3}
    full = Candidate(spec, spec.config({"BM": 128, "BN": 128, "STAGES": 7, "CONSUMERS": 2}), 1.0)
    assert {near.config["BN"] for near in neighbours(full, SQUARE, CHIP, Constants())} == {112, 128}
