"""fp32 products with one to eight rows or columns: gemv and the choice, beside cuBLAS and the choice without gemv."""

from __future__ import annotations

import fit_vectors as fit

from doc_tables.records import load, table
from gemmsmith.choose.cost_data import vector_costs

_FITTED, _KEPT_OUT = "h200_vectors_fit.json", "h200_vectors.json"
_LOWEST = "7899x1x13715 NT"  # the lowest of the table of kinds, which is older


def means_table() -> str:
    """The choice with the shipped constants, among what was timed."""
    columns = ["shapes", "number", "`gemv` at", "cuBLAS = 1: mean", "lowest", "below 0.97", "without `gemv`: mean",
               "lowest", "below 0.97", "times as fast as without", "slower by > 3 %"]  # fmt: skip
    rows, costs = [], vector_costs()
    kept_out = fit.choices(fit.recorded(fit.KEPT_OUT), costs)
    for name, found in (("kept out of the fit", kept_out),
                        ("fitted to", fit.choices(fit.recorded(fit.FITTING, "random"), costs))):  # fmt: skip
        f = fit.figures(found)
        rows.append([name, f"{f['shapes']}", f"{f['gemv']}", f"{f['of_cublas']:.2f}", f"{f['least_of_cublas']:.2f}",
                     f"{f['below_cublas']}", f"{f['former_of_cublas']:.2f}", f"{f['least_former_of_cublas']:.2f}",
                     f"{f['former_below_cublas']}", f"{f['of_former']:.2f}", f"{f['slower']}"])  # fmt: skip
    lowest = next(each for each in kept_out if str(each.timed.shape).startswith(_LOWEST))
    note = (
        f"cuBLAS's time over ours, in bursts. The whole choice: `gemv`, or the kernel that was chosen without it, by "
        f"predicted time; of each only configurations that were timed. {_LOWEST.replace('x', '×')} in `ieee`: "
        f"{lowest.timed.cublas / lowest.whole:.2f} ({lowest.whole * 1e6:.0f} µs; cuBLAS "
        f"{lowest.timed.cublas * 1e6:.0f}, without `gemv` {lowest.timed.former * 1e6:.0f}). {_measured()}"
    )
    return "\n".join([*table(columns, "lrrrrrrrrrr", rows), "", note])


def shapes_table() -> str:
    """The sixteen fixed shapes: what was predicted before the first run, and what was measured. µs."""
    columns = ["product", "reading at 4.3 TB/s", "predicted", "measured", "fastest of gemv's", "cuBLAS",
               "chosen before"]  # fmt: skip
    rows = []
    for case in load(_KEPT_OUT)["cases"]:
        shape = case["shape"]
        if shape["origin"] != "named":
            continue
        figures = (case[name] for name in ("limit_us", "predicted_us", "first_us", "best_us", "cublas_us", "today_us"))
        rows.append([f"{shape['m']}×{shape['n']}×{shape['k']} {shape['layout']}", *(f"{us:.1f}" for us in figures)])
    return "\n".join([*table(columns, "lrrrrrr", rows), "", _measured()])


def _measured() -> str:
    record, fitting = load(_KEPT_OUT), load(_FITTED)
    random = sum(case["shape"]["origin"] != "named" for case in fitting["cases"])
    return (
        f"Measured on {record['gpu']} (driver {record['machine']['driver']}, {record['machine']['compiler']}, torch "
        f"{record['torch']}, {record['date'][:10]}) by `{record['command']}`, shapes for the fit by "
        f"`{fitting['command']}` with {random} random ones: contenders take turns; normal data; TF32 off."
    )
