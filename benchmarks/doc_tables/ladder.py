"""The ladder on the H200, and mma_pipelined beside cuBLAS."""

from __future__ import annotations

from typing import Any

from doc_tables.records import load, table

_SIZE = 4096  # where shares of cuBLAS are given
_BASELINES = {"cublas": "cuBLAS (torch)", "cublas-tf32": "cuBLAS, TF32", "cublaslt": "cuBLASLt, best of its candidates"}


def ladder_table() -> str:
    """One table per input type: verified cases and TFLOPS over sizes, baselines first."""
    verified, (run,) = load("h200_verification.json"), load("h200_ladder.json")["runs"]
    sizes = list(dict.fromkeys(m["problem"]["m"] for m in run["measurements"]))
    lines: list[str] = []
    for dtype in dict.fromkeys(m["problem"]["dtype"] for m in run["measurements"]):
        here = [m for m in run["measurements"] if m["problem"]["dtype"] == dtype]
        rows = []
        for name in dict.fromkeys(m["identity"]["name"] for m in here):
            mine = {m["problem"]["m"]: m for m in here if m["identity"]["name"] == name}
            baseline = mine[_SIZE]["identity"]["kind"] == "baseline"
            shown = f"*{_BASELINES.get(name, name)}*" if baseline else f"`{name}`"
            rows.append([shown, "" if baseline else _verified(verified, name),
                         *(_tflops(mine.get(size)) for size in sizes), _share(mine[_SIZE])])  # fmt: skip
        columns = [f"{dtype} inputs", "verified", *(f"{size}³" for size in sizes), f"of cuBLAS at {_SIZE}³"]
        lines += [*table(columns, "ll" + "r" * (len(sizes) + 1), rows), ""]
    return "\n".join([*lines, _method(run), "", _other_runs(run)])


def _method(run: dict[str, Any]) -> str:
    machine, packages = run["machine"], dict(run["machine"]["packages"])
    versions = ", ".join(f"{name} {packages[name]}" for name in ("torch", "nvidia-cublas") if name in packages)
    conditions = [m["conditions"] for m in run["measurements"] if m["conditions"]["sm_mhz"]]
    capped = sorted({m["problem"]["m"] for m in run["measurements"] if "power cap" in m["conditions"]["throttled"]})
    spreads = sorted(_timing(m)["spread"] for m in run["measurements"] if _timing(m)["samples"] >= 3)
    return (
        f"TFLOPS, medians, fp32 output, measured on {machine['gpu']} (driver {machine['driver']}, "
        f"{machine['compiler']}, {versions}, {run['started'][:10]}; SM clock "
        f"{min(c['sm_mhz_min'] for c in conditions):.0f} to {max(c['sm_mhz_max'] for c in conditions):.0f} MHz; power "
        f"cap reached at {', '.join(map(str, capped))}) by the commands in `benchmarks/results/h200_ladder.json`. "
        "Normal data, operands rotated over twice the L2, contenders interleaved, CUDA graphs, verified before and "
        f"after. Spread (interquartile range over median): median {spreads[len(spreads) // 2]:.1%}, largest "
        f"{spreads[-1]:.1%}. * fewer than ten samples. Verification and compute-sanitizer: "
        "`benchmarks/results/h200_verification.json`."
    )


def _other_runs(run: dict[str, Any]) -> str:
    """How far runs differ from each other, which is more than the spread within one."""

    def medians(of: dict[str, Any]) -> dict[tuple[str, str, int], float]:
        return {(m["identity"]["name"], m["problem"]["dtype"], m["problem"]["m"]): _timing(m)["median"]
                for m in of["measurements"]}  # fmt: skip

    (second,), (third,) = load("h200_ladder_again.json")["runs"], load("h200_ladder_third.json")["runs"]
    first, again, last = medians(run), medians(second), medians(third)
    apart = sorted(abs(again[key] / first[key] - 1) for key in first.keys() & again.keys())
    both = first.keys() & again.keys() & last.keys()
    beyond = [max(last[key] / max(first[key], again[key]), min(first[key], again[key]) / last[key]) - 1 for key in both]
    return (
        f"Repeatability: between this run and a second one (`h200_ladder_again.json`) the medians differ by "
        f"{apart[len(apart) // 2]:.1%} in the median of {len(apart)} cases, by at most 3% in "
        f"{sum(d <= 0.03 for d in apart)}, and by {apart[-1]:.1%} at most. In a third run on a freshly started machine "
        f"(`h200_ladder_third.json`) {sum(d <= 0 for d in beyond)} of {len(both)} medians lie between the first two, "
        f"{sum(d <= 0.03 for d in beyond)} within 3% of them; the largest difference is {max(beyond):.1%}."
    )


def tensor_table() -> str:
    """mma_pipelined beside cuBLAS: samples of 100 ms and more, and of 4 ms."""
    record = load("h200_tensor_rungs.json")
    rows = []
    for kind, runs in (("long", record["settled"]), ("4 ms", record["short"])):
        for run in runs:
            for m in run["measurements"]:
                config = dict(part.split("=") for part in m["identity"]["config"].split(",") if "=" in part)
                if m["identity"]["name"] == "mma_pipelined" and config["BM"] == "256":
                    rows.append(_tensor_row(kind, m, config))
    machine = record["settled"][0]["machine"]
    columns = ["inputs", "output", "layout", "TF32 operands", "size", "samples", "TFLOPS", "of cuBLAS in that type",
               "error"]  # fmt: skip
    source = (
        f"Measured on {machine['gpu']} (driver {machine['driver']}, {machine['compiler']}, "
        f"{record['settled'][0]['started'][:10]}); the first command is `{record['settled'][0]['command']}`, and "
        "`benchmarks/results/h200_tensor_rungs.json` has the others. Preset `h200`, for TF32 `h200-tf32`. Errors are "
        "in units of fp32's roundoff of |A|·|B|; for TF32, of TF32's."
    )
    return "\n".join([*table(columns, "llllrlrrr", rows), "", source])


def _tensor_row(kind: str, m: dict[str, Any], config: dict[str, str]) -> list[str]:
    problem = m["problem"]
    layout = "".join("T" if problem[name] else "N" for name in ("trans_a", "trans_b"))
    operands = {"0": "truncated", "1": "rounded"}[config["ROUND"]] if problem["dtype"] == "tf32" else ""
    error = f"{m['rho'][0]:.2g}" if problem["m"] <= _SIZE else ""
    return [problem["dtype"], problem["out_dtype"], layout, operands, f"{problem['m']}³", kind,
            f"{m['derived']['tflops']:.0f}", f"{m['ratios'][0]['value']:.1%}", error]  # fmt: skip


def _verified(record: dict[str, Any], name: str) -> str:
    outcome = record["rungs"].get(name)
    if outcome is None:
        return "by tests/gpu"
    cases, bits = f"{outcome['edge_matrix']['passed']} cases", outcome["bit_identity"]
    if not bits["shapes"]:  # not simulated
        return cases
    return f"{cases}, same bits as simulated" if not bits["different"] else f"{cases}, other bits than simulated"


def _timing(measurement: dict[str, Any]) -> dict[str, Any]:
    """The timing that the table shows: cold L2, from a graph."""
    return next(t for t in measurement["timings"] if (t["mode"], t["cache"]) == ("graph", "cold"))


def _tflops(measurement: dict[str, Any] | None) -> str:
    if measurement is None:
        return ""
    return f"{measurement['derived']['tflops']:.3g}{'*' if _timing(measurement)['samples'] < 10 else ''}"


def _share(measurement: dict[str, Any]) -> str:
    """The share of cuBLAS; none for a baseline in other arithmetic."""
    ratios = {ratio["baseline"]: ratio["value"] for ratio in measurement["ratios"]}
    own = (
        measurement["identity"]["precision"] == measurement["problem"]["dtype"]
        or measurement["identity"]["kind"] != "baseline"
    )
    return f"{ratios['cublas']:.1%}" if "cublas" in ratios and own else ""
