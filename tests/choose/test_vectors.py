"""fp32 products with up to eight rows or columns: gemv's configurations are legal and read the long operand once; the
table says whether it is chosen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from gemmsmith.choose import choice, cost_data, fp32_candidates, vectors
from gemmsmith.choose.choice import choose
from gemmsmith.ladder.gemv import long_operand
from gemmsmith.ladder.registry import rung_named
from gemmsmith.problem import Problem

SHAPES = [(7899, 1, 13715), (4, 1304, 3104), (691, 8, 12938), (1, 1, 1), (3, 7, 100_000), (5000, 5, 3), (8, 8, 64)]
LAYOUTS = ("NN", "NT", "TN", "TT")


def problem(shape: tuple[int, int, int], layout: str = "NN", **more: int) -> Problem:
    return Problem(*shape, trans_a=layout[0] == "T", trans_b=layout[1] == "T", **more)  # type: ignore[arg-type]


@pytest.fixture(name="switched", params=[0, 1], ids=["off", "on"])
def _switched(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The table's entry ``chosen``."""
    costs = replace(cost_data.vector_costs(), chosen=request.param)
    for module in (choice, fp32_candidates):
        monkeypatch.setattr(module, "vector_costs", lambda: costs)
    choice.forget()
    yield request.param
    choice.forget()


def chosen(shape: tuple[int, int, int], layout: str = "NT", precision: str = "ieee", **more: int) -> str:
    p = problem(shape, layout, **more)
    return choose(p, "NVIDIA H200", sms=132, arch="sm_90", precision=precision).spec.name


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_every_configuration_is_legal_and_reads_the_long_operand_once(shape: tuple[int, int, int], layout: str) -> None:
    spec, p = rung_named(vectors.NAME), problem(shape, layout)
    found = list(vectors.configurations(p))
    assert found
    assert len(set(found)) == len(found)
    for config in found:
        assert not spec.illegal(config)
        assert long_operand(p, config).shape == (p.b_shape if p.m < p.n else p.a_shape)
        assert min(config["BM"], config["BN"]) >= min(p.m, p.n), "all vectors are in one tile"
        for sms in (132, 114, 78, 1):
            assert vectors.predicted_seconds(p, config, sms) > 0


def test_more_rows_and_columns_and_empty_products_are_for_other_kernels() -> None:
    for shape in ((9, 9, 64), (4096, 4096, 64), (0, 5, 7), (5, 7, 0)):
        assert vectors.fastest(problem(shape), 132) is None


def test_time_is_that_of_reading() -> None:
    """Twice the rows take twice the time; unaligned ones that do not run along k, and a batch, take longer."""
    one, two = (vectors.fastest(problem((m, 1, 16384)), 132) for m in (8000, 16000))
    assert one is not None
    assert two is not None
    assert 1.8 < two[1] / one[1] < 2.0
    small = problem((600, 8, 12000), "TN")
    times = [found[1] for found in (vectors.fastest(small, 132, where) for where in (0, 2, 1)) if found is not None]
    assert times[0] == times[1] < times[2]
    batch = vectors.fastest(small.with_(batch=10), 132)
    assert batch is not None
    assert batch[1] > 5 * times[0]


def test_it_is_chosen_where_it_is_switched_on_and_predicted_faster(switched: int) -> None:
    for precision in ("ieee", "fp32"):
        assert (chosen((7899, 1, 13715), precision=precision) == vectors.NAME) == bool(switched)
        assert (chosen((4, 1304, 3104), "NN", precision) == vectors.NAME) == bool(switched)
        assert chosen((4096, 4096, 4096), precision=precision) != vectors.NAME
        assert chosen((11336, 4, 28), precision=precision) != vectors.NAME  # K is less than a warp loads
    assert choose(problem((7899, 1, 13715)), "NVIDIA A100", sms=108, arch="sm_80").spec.name == "simt_best"
    assert choose(problem((7899, 1, 13715))).spec.name != vectors.NAME  # on the simulator


@pytest.mark.parametrize(("shape", "layout", "precision", "name"), [
    ((7899, 1, 13715), "NT", "ieee", vectors.NAME), ((1, 8192, 8192), "NN", "ieee", vectors.NAME),
    ((1, 8192, 8192), "NN", "fp32", vectors.NAME), ((4540, 7, 14685), "NN", "ieee", vectors.NAME),
    ((7946, 7, 8034), "TN", "fp32-fast", vectors.NAME), ((8, 6676, 868), "NN", "ieee", "simt_best"),
    ((8, 6144, 165), "NN", "ieee", "simt_best"), ((11336, 4, 28), "NN", "ieee", "simt_best"),
    ((13632, 5, 48), "NT", "ieee", "simt_best"), ((7, 1388, 76), "NT", "fp32", "simt_best"),
    ((9, 8192, 8192), "NN", "ieee", "simt_best"),
], ids=str)  # fmt: skip
def test_the_shipped_table_chooses_what_was_faster(shape: tuple[int, int, int], layout: str, precision: str,
                                                   name: str) -> None:  # fmt: skip
    assert chosen(shape, layout, precision) == name


def test_other_kernels_predictions_are_set_right_for_vectors() -> None:
    costs = cost_data.vector_costs()
    assert vectors.of_another("simt_best", 1e-5) == 1e-5 - costs.simt_less
    assert vectors.of_another("simt_best", 0.0) == costs.fixed, "no time is less than a launch"
    assert vectors.of_another("fp32_wgmma_registers", 1e-5) == 1e-5 * costs.registers_more
    assert vectors.of_another("fp32_wgmma_bf16x6", 1e-5) == 1e-5


def test_tuning_tries_it_where_it_is_switched_on(switched: int) -> None:
    p = problem((7899, 1, 13715), "NT")
    names = {each.spec.name for each in fp32_candidates.fp32_candidates(p, "ieee", 132)}
    assert names == ({"simt_best", vectors.NAME} if switched else {"simt_best"})
    assert vectors.NAME in fp32_candidates.fp32_kernels("ieee", p)


@pytest.mark.parametrize(
    ("shape", "more"), [((4000, 1, 4000), {"batch": 2}), ((255, 2, 9000), {}), ((9000, 2, 63), {})]
)
def test_what_was_not_timed_goes_to_other_kernels(shape: tuple[int, int, int], more: dict[str, int]) -> None:
    """Batches, fewer than 256 rows and K below 64, whatever is predicted for them."""
    assert chosen(shape, **more) == "simt_best"
    assert not vectors.is_timed(problem(shape, **more))
    assert vectors.is_timed(problem((4000, 1, 4000)))
