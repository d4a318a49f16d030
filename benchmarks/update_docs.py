"""Write the tables in README.md and docs/ from the files in benchmarks/results/.

    python benchmarks/update_docs.py            rewrite what stands between the markers
    python benchmarks/update_docs.py --check    exit 1 if a table is not what its file says

A table stands between ``<!-- begin NAME -->`` and ``<!-- end NAME -->``. Every figure in the documentation comes
from here, so it cannot differ from what was recorded.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import geometric_mean
from typing import Any

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))


def load(name: str) -> dict[str, Any]:
    data: dict[str, Any] = json.loads((RESULTS / name).read_text(encoding="utf-8"))
    return data


def ladder_table() -> str:
    """The ladder on the H200: verified, and TFLOPS over sizes beside the baselines of each input type."""
    verified, (run,) = load("h200_verification.json"), load("h200_ladder.json")["runs"]
    sizes = list(dict.fromkeys(m["problem"]["m"] for m in run["measurements"]))
    of = 4096
    lines = []
    for dtype in dict.fromkeys(m["problem"]["dtype"] for m in run["measurements"]):
        here = [m for m in run["measurements"] if m["problem"]["dtype"] == dtype]
        header = [f"{dtype} inputs", "verified", *(f"{size}³" for size in sizes), f"of cuBLAS at {of}³"]
        lines += [f"| {' | '.join(header)} |", f"| --- | --- |{' ---: |' * (len(sizes) + 1)}"]
        for name in dict.fromkeys(m["identity"]["name"] for m in here):
            mine = {m["problem"]["m"]: m for m in here if m["identity"]["name"] == name}
            cells = [_tflops(mine.get(size)) for size in sizes]
            baseline = mine[of]["identity"]["kind"] == "baseline"
            shown = f"*{_BASELINES.get(name, name)}*" if baseline else f"`{name}`"
            lines.append(f"| {shown} | {'' if baseline else _verified(verified, name)} | {' | '.join(cells)} | "
                         f"{_share(mine[of])} |")  # fmt: skip
        lines.append("")
    machine = run["machine"]
    packages = dict(machine["packages"])
    versions = ", ".join(f"{name} {packages[name]}" for name in ("torch", "nvidia-cublas") if name in packages)
    conditions = [m["conditions"] for m in run["measurements"] if m["conditions"]["sm_mhz"]]
    capped = sorted({m["problem"]["m"] for m in run["measurements"] if "power cap" in m["conditions"]["throttled"]})
    spreads = [_timing(m)["spread"] for m in run["measurements"] if _timing(m)["samples"] >= 3]
    source = (
        f"TFLOPS, medians, measured on {machine['gpu']} (driver {machine['driver']}, {machine['compiler']}, "
        f"{versions}, {run['started'][:10]}; SM clock {min(c['sm_mhz_min'] for c in conditions):.0f} to "
        f"{max(c['sm_mhz_max'] for c in conditions):.0f} MHz, power cap reached at {', '.join(map(str, capped))}) by "
        f"{_command(run['command'])}: random normal data, operands rotated over twice the L2, ours and theirs in turn, "
        "replayed from CUDA graphs, verified before and after. The spread (interquartile range over median) is at most "
        f"{max(spreads):.1%}, its median {sorted(spreads)[len(spreads) // 2]:.1%}; * is of fewer than ten samples. "
        f"fp32 output. {_other_runs(run)} Verification and compute-sanitizer by the commands in "
        "`benchmarks/results/h200_verification.json`."
    )
    return "\n".join([*lines, source])


def _other_runs(run: dict[str, Any]) -> str:
    """How far apart runs are, which is more than the spread within one."""

    def medians(of: dict[str, Any]) -> dict[tuple[str, str, int], float]:
        return {(m["identity"]["name"], m["problem"]["dtype"], m["problem"]["m"]): _timing(m)["median"]
                for m in of["measurements"]}  # fmt: skip

    (second,), (third,) = load("h200_ladder_again.json")["runs"], load("h200_ladder_third.json")["runs"]
    first, again, last = medians(run), medians(second), medians(third)
    apart = sorted(abs(again[key] / first[key] - 1) for key in first.keys() & again.keys())
    both = first.keys() & again.keys() & last.keys()
    beyond = [max(last[key] / max(first[key], again[key]), min(first[key], again[key]) / last[key]) - 1 for key in both]
    return (
        f"A second run (`h200_ladder_again.json`) has medians that differ by {apart[len(apart) // 2]:.1%}, half of "
        f"{len(apart)} by less, {sum(d <= 0.03 for d in apart)} by 3% at most, and the last by {apart[-1]:.1%}. Of a "
        f"third, on a machine started afresh (`h200_ladder_third.json`), {sum(d <= 0 for d in beyond)} of {len(both)} "
        f"lie between the two, {sum(d <= 0.03 for d in beyond)} within 3% of them, and the last is {max(beyond):.1%} "
        "off."
    )


_BASELINES = {"cublas": "cuBLAS (torch)", "cublas-tf32": "cuBLAS, TF32", "cublaslt": "cuBLASLt, best of its candidates"}


def _command(command: str) -> str:
    """The command of a record; one that names every rung is read better in the record itself."""
    return f"`{command}`" if len(command) <= 120 else "the commands in `benchmarks/results/h200_ladder.json`"


def _verified(record: dict[str, Any], name: str) -> str:
    outcome = record["rungs"].get(name)
    if outcome is None:
        return "by tests/gpu"
    cases, bits = f"{outcome['edge_matrix']['passed']} cases", outcome["bit_identity"]
    if not bits["shapes"]:  # the simulator does not run it
        return cases
    return f"{cases}, same bits as simulated" if not bits["different"] else f"{cases}, other bits than simulated"


def _timing(measurement: dict[str, Any]) -> dict[str, Any]:
    """The timing that the table shows: cold, from a graph."""
    return next(t for t in measurement["timings"] if (t["mode"], t["cache"]) == ("graph", "cold"))


def _tflops(measurement: dict[str, Any] | None) -> str:
    if measurement is None:
        return ""
    return f"{measurement['derived']['tflops']:.3g}{'*' if _timing(measurement)['samples'] < 10 else ''}"


def _share(measurement: dict[str, Any]) -> str:
    ratios = {ratio["baseline"]: ratio["value"] for ratio in measurement["ratios"]}
    own = (
        measurement["identity"]["precision"] == measurement["problem"]["dtype"]
        or measurement["identity"]["kind"] != "baseline"
    )
    return f"{ratios['cublas']:.1%}" if "cublas" in ratios and own else ""


def tensor_table() -> str:
    """mma_pipelined beside cuBLAS: samples of 100 ms and more, and of 4 ms."""
    record = load("h200_tensor_rungs.json")
    rows = ["| inputs | output | layout | operands | size | samples | TFLOPS | of cuBLAS in that type | error |",
            "| --- | --- | --- | --- | ---: | --- | ---: | ---: | ---: |"]  # fmt: skip
    for kind, runs in (("long", record["settled"]), ("4 ms", record["short"])):
        for run in runs:
            for m in run["measurements"]:
                config = dict(part.split("=") for part in m["identity"]["config"].split(",") if "=" in part)
                if m["identity"]["name"] != "mma_pipelined" or config["BM"] != "256":
                    continue
                problem = m["problem"]
                layout = "".join("T" if problem[name] else "N" for name in ("trans_a", "trans_b"))
                operands = {"0": "cut off", "1": "rounded"}[config["ROUND"]] if problem["dtype"] == "tf32" else ""
                error = f"{m['rho'][0]:.2g}" if problem["m"] <= 4096 else ""
                cells = (problem["dtype"], problem["out_dtype"], layout, operands, f"{problem['m']}³", kind,
                         f"{m['derived']['tflops']:.0f}", f"{m['ratios'][0]['value']:.1%}", error)  # fmt: skip
                rows.append(f"| {' | '.join(cells)} |")
    machine = record["settled"][0]["machine"]
    source = (
        f"Measured on {machine['gpu']} (driver {machine['driver']}, {machine['compiler']}, "
        f"{record['settled'][0]['started'][:10]}) by `{record['settled'][0]['command']}` and the like; the file has "
        "each run's command. Preset `h200`, for TF32 `h200-tf32`. Errors are in units of fp32's roundoff of "
        "|A|·|B|, for TF32 of its own."
    )
    return "\n".join([*rows, "", source])


_HOPPER_GROUPS = {
    "large": "large products",
    "llm": "squares and shapes of language models",
    "odd": "no row starts on 16 bytes",
    "skinny": "few rows",
    "odd few": "few rows or columns, others start anywhere",
    "edges": "one element around the usual tiles",
    "others": "shapes that were not tuned",
}


def hopper_means() -> str:
    """gemmsmith's own choice beside cuBLAS, group by group."""
    record = load("h200_hopper.json")
    rows = ["| products | cases | speed, cuBLAS = 1: geometric mean | lowest | highest |",
            "| --- | ---: | ---: | ---: | ---: |"]  # fmt: skip
    for group, words in _HOPPER_GROUPS.items():
        found = [case["ratio"]["median"] for case in record["cases"] if case["group"] == group]
        mean = record["means"][group]["geometric_mean"]
        rows.append(f"| {words} | {len(found)} | {mean:.2f} | {min(found):.2f} | {max(found):.2f} |")
    small, large = (_beside([case for case in record["cases"] if (case["group"] == "edges") == edges])
                    for edges in (True, False))  # fmt: skip
    rows += [
        "",
        f"Where rows do not start on 16 bytes, a product has {large} of the speed of the next shape whose rows do; "
        f"small ones of the suites `smoke` and `edges`, which are launches more than products, {small}.",
    ]
    host = {name: f"{found['us']:.1f} µs" for name, found in record["host"][0]["host"].items()}
    rows += ["", "These are times on the GPU. A call costs the host: "
             + ", ".join(f"`{name}` {text}" for name, text in host.items())
             + f". {_hopper_source(record)}"]  # fmt: skip
    return "\n".join(rows)


def _beside(cases: list[dict[str, Any]]) -> str:
    ratios = [case["aligned"]["ratio"]["median"] for case in cases if "aligned" in case]
    return f"{geometric_mean(ratios):.2f} ({len(ratios)} shapes, {min(ratios):.2f} at least)"


def hopper_table() -> str:
    """The same, case by case."""
    return _by_case(load("h200_hopper.json"))


def fp32_table() -> str:
    """fp32 products by what was promised, case by case."""
    return _by_case(load("h200_fp32.json"))


def fp32_means() -> str:
    """fp32 products at 4096³ and 8192³, and on CUDA cores over all shapes, beside cuBLAS without TF32."""
    record = load("h200_fp32.json")
    rows = ['| `precision=` | kernel | 4096³ | 8192³ | TFLOPS at 8192³ | error at 4096³ | cuBLAS\'s |',
            "| --- | --- | ---: | ---: | ---: | ---: | ---: |"]  # fmt: skip
    for precision in ("fp32", "fp32-fast", "ieee"):
        cases = {c["m"]: c for c in record["cases"]
                 if c["precision"] == precision and c["layout"] == "NN" and c["m"] == c["n"] == c["k"]}  # fmt: skip
        middle, large = cases[4096], cases[8192]
        cells = (f'`"{precision}"`', f"`{large['kernel']}`", f"{middle['ratio']['median']:.2f}",
                 f"{large['ratio']['median']:.2f}", f"{large['ours']['tflops']:.0f}", f"{middle['rho']:.1f}",
                 f"{middle['rho_cublas']:.1f}")  # fmt: skip
        rows.append(f"| {' | '.join(cells)} |")
    source = (
        "Speed, cuBLAS fp32 = 1 (TF32 off), splitting included; errors beyond the output's own rounding, in units of "
        f"2⁻²⁴ of |A|·|B|, the largest of all outputs. {_hopper_source(record)}"
    )
    return "\n".join([*rows, "", source])


def _by_case(record: dict[str, Any]) -> str:
    neighbours = any("aligned" in case for case in record["cases"])
    more = ["next aligned shape = 1"] if neighbours else []
    head = [
        "type",
        "layout",
        "M×N×K",
        "TFLOPS",
        "cuBLAS",
        "speed, cuBLAS = 1",
        "cuBLAS against itself",
        *more,
        "kernel",
    ]
    rows = [f"| {' | '.join(head)} |", f"| --- | --- | --- |{' ---: |' * (len(head) - 4)} --- |"]
    for case in record["cases"]:
        ratio = case["ratio"]
        kind = case.get("precision") or case["dtype"]
        aligned = f"{case['aligned']['ratio']['median']:.2f}" if "aligned" in case else ""
        cells = (kind, case["layout"], f"{case['m']}×{case['n']}×{case['k']}", f"{case['ours']['tflops']:.3g}",
                 f"{case['cublas']['tflops']:.3g}", f"{ratio['median']:.3f} ({ratio['low']:.2f}–{ratio['high']:.2f})",
                 f"{case['cublas_against_itself']['median']:.3f}", *([aligned] if neighbours else []),
                 f"`{case['kernel']}` {case['config']['BM']}×{case['config']['BN']}")  # fmt: skip
        rows.append(f"| {' | '.join(cells)} |")
    return "\n".join([*rows, "", _hopper_source(record)])


def _hopper_source(record: dict[str, Any]) -> str:
    return (
        f"Measured on {record['gpu']} (driver {record['driver']}, torch {record['torch']}, {record['date'][:10]}) by "
        f"`{record['command']}`: taking turns in random order, medians, normal data, inputs rotated over twice the L2."
    )


def accuracy_table() -> str:
    """The largest and the mean error of fp32 products beside cuBLAS's, by kind of data and K."""
    record = load("h200_accuracy.json")
    names = [kernel["name"] for kernel in record["kernels"] if kernel["name"] != "cublas-tf32"]
    rows = [f"| data | K | {' | '.join(f'`{name}`' for name in names)} |", f"| --- | ---: |{' ---: |' * len(names)}"]
    points = {(p["distribution"], p["k"], p["kernel"]): p for p in record["points"]}
    for data in record["distributions"]:
        for k in record["k"]:
            found = [points[data, k, name] for name in names]
            cells = [f"{p['largest']:.2f} ({p['frobenius']:.1e})" for p in found]
            rows.append(f"| {data} | {k} | {' | '.join(cells)} |")
    source = (
        f"The largest component of |Ĉ−C|/(|A||B|) in units of 2⁻²⁴, and in brackets ‖Ĉ−C‖/‖C‖, of {record['m']}×"
        f"{record['n']} products. Measured on {record['device']} ({record['date']}) by `{record['command']}`."
    )
    return "\n".join([*rows, "", source])


def speed_table() -> str:
    """How long the simulator takes."""
    speed = load("simulator_speed.json")
    rows = ["| rung | seconds |", "| --- | ---: |"]
    rows += [f"| `{name}` | {value:.2f} |" for name, value in speed["seconds"].items()]
    rows += [f"| all | {speed['total']:.2f} |", ""]
    rows.append(
        f"Measured on one core ({speed['machine']}, Python {speed['python']}, NumPy {speed['numpy']}, {speed['date']}) "
        f"by `{speed['command']}`: one launch at {speed['size']}³."
    )
    return "\n".join(rows)


def agreement_table() -> str:
    """Simulated counters against Nsight Compute, one row a configuration."""
    record = load("h200_ncu_agreement.json")
    names = {name: name.split("pipe_lsu_")[-1].removesuffix(".sum") for name in record["compared"]}
    rows = [
        "| kernel | configuration | launches | counters compared | equal | different |",
        "| --- | --- | ---: | ---: | ---: | --- |",
    ]
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in record["rows"]:
        groups.setdefault((row["kernel"], row["config"]), []).append(row)
    for (kernel, config), launches in groups.items():
        compared = sum(len(set(row["measured"]) & set(record["compared"])) for row in launches)
        different = Counter(names[name] for row in launches for name in row["different"])
        listed = ", ".join(f"{n} x `bank_conflicts_{name}`" for name, n in different.items())
        rows.append(
            f"| `{kernel}` | {config} | {len(launches)} | {compared} | {compared - different.total()} | {listed} |"
        )
    shapes = ", ".join(dict.fromkeys(f"{r['m']}x{r['n']}x{r['k']}" for r in record["rows"]))
    source = (
        f"{record['equal']} of {record['equal'] + record['different']} counters are equal. Measured on {record['gpu']} "
        f"(driver for CUDA {record['driver_cuda']}, ncu {record['ncu'].split()[1]}, {record['date']}) at {shapes} by "
        f"`{record['command']}`; both sides come from one compilation."
    )
    first = load("h200_ncu_agreement_first.json")
    pairs = list(zip(first["rows"], record["rows"], strict=True))
    varied = Counter(names[n] for a, b in pairs for n in record["compared"] if a["measured"][n] != b["measured"][n])
    history = (
        f"A first comparison (`h200_ncu_agreement_first.json`) had {first['equal']} equal. It showed that warps which "
        "had diverged met again too late in the simulator, and that asynchronous copies were counted by a wrong rule; "
        "both were mended before the table above. What the GPU itself counted changed between the two runs only in "
        + " and ".join(f"`bank_conflicts_{name}` ({n} of {len(pairs)} launches)" for name, n in varied.items())
        + "."
    )
    return "\n".join([*rows, "", source, "", history])


def mutant_table() -> str:
    """What our checker calls the mutants, and how many of them compute-sanitizer sees."""
    record = load("h200_mutants.json")
    rows = ["| caught as | mutants | compute-sanitizer sees | with |", "| --- | ---: | ---: | --- |"]
    kinds: dict[str, list[dict[str, Any]]] = {}
    for row in record["rows"]:
        kinds.setdefault(row["ours"], []).append(row)
    for kind, mutants in sorted(kinds.items(), key=lambda item: -len(item[1])):
        seen = [row for row in mutants if row["sanitizer"]]
        tools = sorted({tool for row in seen for tool in row["sanitizer"]})
        rows.append(f"| {kind} | {len(mutants)} | {len(seen)} | {', '.join(tools)} |")
    rows.append(f"| all | {record['mutants']} | {record['seen_by_both']} | |")
    source = (
        f"Measured on {record['gpu']} (driver for CUDA {record['driver_cuda']}, {record['date']}) by "
        f"`{record['command']}`: memcheck, racecheck and synccheck, in matrices without guards."
    )
    return "\n".join([*rows, "", source])


def gate_table() -> str:
    """How near honest kernels come to the gates: simulated, and measured."""
    return "\n\n".join(_gates(load(f"{where}_gate_calibration.json")) for where in ("sim", "h200"))


def _gates(record: dict[str, Any]) -> str:
    rows = record["rows"]
    kinds, depths = (list(dict.fromkeys(row[name] for row in rows)) for name in ("type", "k"))
    fills = list(dict.fromkeys(row["distribution"] for row in rows))
    origin = record["origin"].capitalize()
    lines = [f"| {origin}: largest error, of its gate | {' | '.join(fills)} | rungs | dropped terms caught |",
             f"| --- |{' ---: |' * len(fills)} ---: | ---: |"]  # fmt: skip
    for kind in kinds:
        mine = [row for row in rows if row["type"] == kind]
        cells = [_worst(row["fraction"] for row in mine if row["distribution"] == fill) for fill in fills]
        caught = [row["caught"] for row in mine if row["distribution"] == "normal" and row["k"] == depths[-1]]
        lines.append(f"| {kind} | {' | '.join(cells)} | {len({row['rung'] for row in mine})} | {min(caught):.1%} |")
    refused = ", ".join(f"`{name}`" for name in dict.fromkeys(one["rung"] for one in record["refused"]))
    source = (
        f"{origin} ({record['device']}, {record['compiler']}, {record['date']}) by `{record['command']}`: "
        f"{record['m']}×{record['n']} outputs, K of {', '.join(map(str, depths))}, {record['seeds']} seeds. The last "
        f"column is of normal data at K = {depths[-1]}: in how many outputs one dropped term exceeds the gate "
        "(in int8 some terms are 0)." + (f" Not run there: {refused}." if refused else "")
    )
    return "\n".join([*lines, "", source])


def _worst(fractions: Iterable[float | str]) -> str:
    """The largest, where a NaN, which is stored as a word, is larger than any number; nothing where there is none."""
    found = list(fractions)
    wrong = [value for value in found if isinstance(value, str)]
    largest = max(map(float, found), default=math.nan)
    return wrong[0] if wrong else "" if math.isnan(largest) else f"{largest:.2f}" if largest else "0"


TABLES: dict[str, Callable[[], str]] = {
    "ladder": ladder_table,
    "tensor rungs": tensor_table,
    "hopper": hopper_table,
    "hopper means": hopper_means,
    "fp32": fp32_table,
    "fp32 means": fp32_means,
    "accuracy": accuracy_table,
    "simulator speed": speed_table,
    "ncu agreement": agreement_table,
    "mutants": mutant_table,
    "gates": gate_table,
}


def picture() -> str:
    """The README's picture of the ladder, from the same record."""
    from gemmsmith.gpus import gpu_named
    from gemmsmith.ladder.registry import rungs
    from gemmsmith.problem import Problem
    from gemmsmith.report.collect import ladder_config
    from gemmsmith.report.ladder_picture import ladder_picture
    from gemmsmith.report.report_model import Made, ReportModel, Rung
    from gemmsmith.store.run_file import run_from_json

    (run,) = (run_from_json(data) for data in load("h200_ladder.json")["runs"])
    told = tuple(Rung(s.rung, s.name, s.summary, s.teaches, s.source.name, "", str(ladder_config(s)),
                      s.dtypes[0].name, tensor_cores=s.tensor_cores)
                 for s in rungs())  # fmt: skip
    made = Made(run.command, run.started, run.gemmsmith, run.machine)
    return ladder_picture(ReportModel(gpu_named("H200"), Problem(4096, 4096, 4096), told, made, recorded=(run,)))


def shipped_choice() -> str:
    """What the page shows of gemmsmith.matmul's choice, from its two records."""
    from gemmsmith.store.tuned_choice import as_text, reduced

    return as_text(reduced(load("h200_hopper.json"), load("h200_fp32.json")))


# Files that are made whole: (path, how). The package has its own copy of what it shows to those without a GPU.
PACKAGED = ROOT / "src" / "gemmsmith" / "store" / "data"
MADE: dict[Path, Callable[[], str]] = {
    ROOT / "docs" / "ladder.svg": picture,
    PACKAGED / "h200_ladder.json": lambda: (RESULTS / "h200_ladder.json").read_text(encoding="utf-8"),
    PACKAGED / "h200_choice.json": shipped_choice,
    PACKAGED / "h200_sweeps.json": lambda: (RESULTS / "h200_sweeps.json").read_text(encoding="utf-8"),
}


def updated(text: str) -> str:
    for name, make in TABLES.items():
        pattern = re.compile(rf"(<!-- begin {name} -->\n).*?(<!-- end {name} -->)", re.S)
        if pattern.search(text):
            table = make()
            text = pattern.sub(lambda m, table=table: f"{m.group(1)}{table}\n{m.group(2)}", text)
    return text


def main() -> int:
    wanted = {page: updated(page.read_text(encoding="utf-8")) for page in PAGES} | {
        p: make() for p, make in MADE.items()
    }
    stale = []
    for path, text in wanted.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            stale.append(path.name)
            if "--check" not in sys.argv:
                path.write_text(text, encoding="utf-8")
    if "--check" in sys.argv and stale:
        print(f"not what benchmarks/results/ says: {', '.join(stale)}; run python benchmarks/update_docs.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
