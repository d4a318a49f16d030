"""Fit the constants of gemv's cost model to recorded times, and report what the choice loses.

    python benchmarks/fit_vectors.py            fit, and report the fitting shapes and those that were kept out
    python benchmarks/fit_vectors.py --shipped  report the constants as they are in the package; fit nothing
    python benchmarks/fit_vectors.py --write    fit, write the constants into choose/tables/h200.toml, report

The times are those of time_vectors.py. The random shapes of h200_vectors_fit.json are fitted to. All 28 shapes of
h200_vectors.json are kept out; the sixteen fixed ones were timed in both runs, and count in neither fit.

A record has some of gemv's configurations; a choice is made among these. The whole choice is gemv's, or the kernel that
was chosen without gemv, whichever is predicted to be faster. That kernel was timed in one configuration.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from candidate_record import Floats
from shape_rig import Shape

from gemmsmith.choose import registers, simt, vectors
from gemmsmith.choose.cost_data import VectorCosts, vector_costs
from gemmsmith.choose.fit import _least_squares
from gemmsmith.choose.key import unaligned
from gemmsmith.choose.precision import DEFAULT
from gemmsmith.kernel.config import Config
from gemmsmith.problem import geometric_mean

RESULTS = Path(__file__).parent / "results"
FITTING, KEPT_OUT = RESULTS / "h200_vectors_fit.json", RESULTS / "h200_vectors.json"
TABLE = Path(__file__).parents[1] / "src" / "gemmsmith" / "choose" / "tables" / "h200.toml"
SMS = 132
NEAR = 4  # a configuration twice as slow as the fastest has a sixteenth of the weight
# Where the fit begins. A weak pull keeps constants near.
START = {
    "fixed": 1.2e-6, "cluster": 8e-7, "block": 5e-7, "round": 6e-7, "along": 1.2e-9, "across": 1.2e-9, "shared": 6e-10,
    "products": 8e-11, "copy": 1e-9, "last": 1e-9, "sum_along": 5e-9, "sum_across": 1e-8, "dram": 4.4e12,
}  # fmt: skip
OF_OTHERS = {"simt_less": 5e-7, "registers_more": 1.1}
SLOWER, OF_CUBLAS = 1.03, 0.97


@dataclass(frozen=True)
class Timed:
    """A shape with its times in seconds: of gemv's configurations, of the former choice and of cuBLAS."""

    shape: Shape
    configs: tuple[Config, ...]
    seconds: Floats
    kernel: str
    former: float
    cublas: float

    def predicted(self, costs: VectorCosts) -> Floats:
        p = self.shape.problem
        return np.array([vectors.predicted_seconds(p, each, SMS, self.where, costs) for each in self.configs])

    @property
    def where(self) -> int:
        return unaligned(self.shape.problem) & 3

    @property
    def former_predicted(self) -> float:
        """By the former kernel's own model."""
        p = self.shape.problem
        if self.kernel == simt.NAME:
            return simt.fastest(p, SMS, self.where, clusters=True)[1]
        found = registers.fastest(p, self.shape.precision or DEFAULT, SMS, self.where)
        assert self.kernel == registers.NAME
        assert found is not None
        return found[1]


@dataclass(frozen=True)
class Choice:
    """What is chosen for a shape, in seconds: gemv's configuration, beside its best one; and of all kernels."""

    timed: Timed
    ours: float
    best: float
    takes_gemv: bool
    is_timed: bool  # whether the configuration would be the same among all of gemv's

    @property
    def whole(self) -> float:
        return self.ours if self.takes_gemv else self.timed.former


def recorded(path: Path, origin: str = "") -> list[Timed]:
    """Of shapes whose origin begins so."""
    found = []
    for case in json.loads(path.read_text(encoding="utf-8"))["cases"]:
        if "best_us" not in case or not case["shape"]["origin"].startswith(origin):
            continue
        rows = [row for row in case["candidates"] if "us" in row]
        ours = [row for row in rows if row["kernel"] == vectors.NAME]
        configs = tuple(Config(tuple(row["config"].items())) for row in ours)
        found.append(Timed(Shape(**case["shape"]), configs, np.array([row["us"] for row in ours]) / 1e6,
                           case["today"], case["today_us"] / 1e6, case["cublas_us"] / 1e6))  # fmt: skip
    return found


def fitted(shapes: Sequence[Timed]) -> VectorCosts:
    """Constants by least squares on the logarithm of time. Every shape has the same weight; within a shape, fast
    configurations weigh most."""
    near = [(each.seconds.min() / each.seconds) ** NEAR for each in shapes]
    weight = np.sqrt(np.concatenate([each / each.sum() for each in near]) * sum(map(len, near)) / len(near))
    measured = np.log(np.concatenate([each.seconds for each in shapes]))
    names = tuple(START)

    def costs(x: Floats) -> VectorCosts:
        return replace(vector_costs(), **dict(zip(names, map(float, np.exp(x)), strict=True)))

    def residuals(x: Floats) -> Floats:
        result: Floats = weight * (np.log(np.concatenate([each.predicted(costs(x)) for each in shapes])) - measured)
        return result

    best = _least_squares(residuals, np.log(np.array(list(START.values()))))
    print(f"rms of ln(predicted / measured): {np.sqrt(np.mean(residuals(best) ** 2)):.3f} of {len(measured)} times")
    return with_others(costs(best), shapes)


def with_others(costs: VectorCosts, shapes: Sequence[Timed]) -> VectorCosts:
    """How the other kernels' times differ from their own predictions."""
    predicted = [each.former_predicted for each in shapes]
    measured = np.log(np.array([each.former for each in shapes]))

    def changed(x: Floats) -> VectorCosts:
        return replace(costs, **dict(zip(OF_OTHERS, map(float, np.exp(x)), strict=True)))

    def residuals(x: Floats) -> Floats:
        pairs = zip(shapes, predicted, strict=True)
        result: Floats = np.log([vectors.of_another(each.kernel, own, changed(x)) for each, own in pairs]) - measured
        return result

    return changed(_least_squares(residuals, np.log(np.array(list(OF_OTHERS.values())))))


def choices(shapes: Sequence[Timed], costs: VectorCosts) -> list[Choice]:
    found = []
    for each in shapes:
        predicted = each.predicted(costs)
        first = int(predicted.argmin())
        takes_gemv = bool(predicted[first] < vectors.of_another(each.kernel, each.former_predicted, costs))
        p = each.shape.problem
        of_all = min(vectors.configurations(p), key=lambda c: vectors.predicted_seconds(p, c, SMS, each.where, costs))
        found.append(Choice(each, float(each.seconds[first]), float(each.seconds.min()), takes_gemv,
                            of_all == each.configs[first]))  # fmt: skip
    return found


def figures(found: Sequence[Choice]) -> Mapping[str, float]:
    """Of gemv's configurations alone, then of the whole choice."""
    ours = np.array([each.ours for each in found])
    best, whole = (np.array([getattr(each, name) for each in found]) for name in ("best", "whole"))
    former, cublas = (np.array([getattr(each.timed, name) for each in found]) for name in ("former", "cublas"))
    return {
        "shapes": len(found), "loss": geometric_mean(list(ours / best)) - 1, "most": float(np.max(ours / best)) - 1,
        "near": float(np.mean(ours <= best * SLOWER)), "timed": sum(each.is_timed for each in found),
        "gemv": sum(each.takes_gemv for each in found),
        "of_cublas": geometric_mean(list(cublas / whole)), "least_of_cublas": float(np.min(cublas / whole)),
        "below_cublas": int(np.sum(cublas < OF_CUBLAS * whole)),
        "former_of_cublas": geometric_mean(list(cublas / former)),
        "least_former_of_cublas": float(np.min(cublas / former)),
        "former_below_cublas": int(np.sum(cublas < OF_CUBLAS * former)),
        "of_former": geometric_mean(list(former / whole)), "least_of_former": float(np.min(former / whole)),
        "slower": int(np.sum(whole > SLOWER * former)),
        "behind_fastest": geometric_mean(list(whole / np.minimum(best, former))) - 1,
    }  # fmt: skip


def report(name: str, found: Sequence[Choice]) -> None:
    f = figures(found)
    print(f"{name}: {f['shapes']} shapes; of gemv's configurations the chosen one loses {f['loss']:.1%} (at most "
          f"{f['most']:.0%}), within 3 % {f['near']:.0%}; of all configurations it would be the same at {f['timed']}\n"
          f"  whole choice, gemv at {f['gemv']}: {f['of_cublas']:.3f} of cuBLAS (lowest {f['least_of_cublas']:.3f}, "
          f"below 0.97: {f['below_cublas']}); without gemv {f['former_of_cublas']:.3f} (lowest "
          f"{f['least_former_of_cublas']:.3f}, below 0.97: {f['former_below_cublas']})\n"
          f"  {f['of_former']:.3f} times as fast as without gemv (lowest {f['least_of_former']:.3f}, slower by more "
          f"than 3 %: {f['slower']}); {f['behind_fastest']:.1%} behind the fastest of what was timed")  # fmt: skip
    for each in found:
        if each.whole > SLOWER * each.timed.former or each.timed.cublas < OF_CUBLAS * each.whole:
            print(f"    {each.timed.shape}: {each.whole * 1e6:.1f} us, before {each.timed.former * 1e6:.1f}, cuBLAS "
                  f"{each.timed.cublas * 1e6:.1f}")  # fmt: skip


def written(text: str, costs: VectorCosts) -> str:
    """The table with these constants, in three digits."""
    for name in (*START, *OF_OTHERS):
        value = f"{getattr(costs, name):.3g}".replace("e-0", "e-").replace("e+", "e")
        own = rf"(?s)(\[vectors\]\n(?:(?!\n\[).)*?\n{name} = \{{ value = )[^,]+"
        text, count = re.subn(own, rf"\g<1>{value}", text)
        assert count == 1, name
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shipped", action="store_true")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    fitting, kept_out = recorded(FITTING, "random"), recorded(KEPT_OUT)
    costs = vector_costs() if options.shipped else fitted(fitting)
    if options.write:
        TABLE.write_text(written(TABLE.read_text(encoding="utf-8"), costs), encoding="utf-8")
    print(", ".join(f"{name} {getattr(costs, name):.3g}" for name in (*START, *OF_OTHERS)))
    report("fitted to", choices(fitting, costs))
    report("kept out", choices(kept_out, costs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
