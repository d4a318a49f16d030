"""benchmarks/fit_vectors.py: what is fitted to, what is kept out, and that the shipped constants choose well."""

from __future__ import annotations

from dataclasses import replace

import fit_vectors as fit
import numpy as np

from gemmsmith.choose.cost_data import vector_costs


def test_no_shape_that_is_kept_out_is_fitted_to() -> None:
    fitting, kept_out = fit.recorded(fit.FITTING, "random"), fit.recorded(fit.KEPT_OUT)
    assert (len(fitting), len(kept_out)) == (120, 28)
    assert not {str(each.shape) for each in fitting} & {str(each.shape) for each in kept_out}
    assert all(len(each.configs) == len(each.seconds) > 1 for each in (*fitting, *kept_out))


def test_the_shipped_constants_on_shapes_that_were_kept_out() -> None:
    found = fit.figures(fit.choices(fit.recorded(fit.KEPT_OUT), vector_costs()))
    assert found["loss"] < 0.02
    assert found["behind_fastest"] < 0.03
    assert found["below_cublas"] == 0
    assert found["of_former"] > 1.2


def test_a_fit_predicts_better_than_its_start() -> None:
    shapes = fit.recorded(fit.FITTING, "random")[:4]

    def error(costs: fit.VectorCosts) -> float:
        return float(np.mean([np.mean(np.log(each.predicted(costs) / each.seconds) ** 2) for each in shapes]))

    start = replace(vector_costs(), **fit.START)
    assert error(fit.fitted(shapes)) < 0.5 * error(start)


def test_figures_of_a_choice() -> None:
    one, two = fit.recorded(fit.KEPT_OUT)[:2]
    wrong = fit.Choice(replace(one, former=1e-5, cublas=1e-5), 2e-5, 1e-5, takes_gemv=True, is_timed=True)
    former = fit.Choice(replace(two, former=1e-5, cublas=2e-5), 2e-5, 2e-5, takes_gemv=False, is_timed=False)
    found = fit.figures([wrong, former])
    assert {name: found[name] for name in ("gemv", "timed", "slower", "below_cublas", "least_of_cublas")} == {
        "gemv": 1, "timed": 1, "slower": 1, "below_cublas": 1, "least_of_cublas": 0.5,
    }  # fmt: skip
    assert round(found["most"], 9) == 1.0


def test_constants_are_written_into_their_own_table_alone() -> None:
    text = fit.TABLE.read_text(encoding="utf-8")
    assert fit.written(text, vector_costs()) == text
    changed = fit.written(text, replace(vector_costs(), dram=1.25e12))
    assert [line for line in changed.splitlines() if line not in text.splitlines()] == [
        next(line for line in text.splitlines() if line.startswith("dram = { value = 4.15e12")).replace("4.15", "1.25")
    ]
