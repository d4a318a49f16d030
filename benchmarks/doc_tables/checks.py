"""Accuracy, the simulator's speed, agreement with Nsight Compute, mutants, calibration of the gates."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from typing import Any

from doc_tables.records import load, table


def accuracy_table() -> str:
    """The largest component-wise error and the error in the norm, by kind of data and K."""
    record = load("h200_accuracy.json")
    names = [kernel["name"] for kernel in record["kernels"] if kernel["name"] != "cublas-tf32"]
    points = {(p["distribution"], p["k"], p["kernel"]): p for p in record["points"]}
    rows = []
    for data in record["distributions"]:
        for k in record["k"]:
            found = [points[data, k, name] for name in names]
            rows.append([data, str(k), *(f"{p['largest']:.2f} ({p['frobenius']:.1e})" for p in found)])
    source = (
        "The largest component of |Ĉ−C|/(|A||B|) in units of 2⁻²⁴; in brackets ‖Ĉ−C‖/‖C‖. "
        f"{record['m']}×{record['n']} products. Measured on {record['device']} ({record['date']}) by "
        f"`{record['command']}`."
    )
    return "\n".join([*table(["data", "K", *(f"`{name}`" for name in names)], "lr" + "r" * len(names), rows), "",
                      source])  # fmt: skip


def speed_table() -> str:
    """Seconds per launch on the simulator."""
    speed = load("simulator_speed.json")
    rows = [[f"`{name}`", f"{value:.2f}"] for name, value in speed["seconds"].items()]
    rows.append(["all", f"{speed['total']:.2f}"])
    source = (
        f"Measured on one core ({speed['machine']}, Python {speed['python']}, NumPy {speed['numpy']}, {speed['date']}) "
        f"by `{speed['command']}`: one launch at {speed['size']}³."
    )
    return "\n".join([*table(["rung", "seconds"], "lr", rows), "", source])


def agreement_table() -> str:
    """Simulated counters against Nsight Compute, one row per configuration."""
    record, first = load("h200_ncu_agreement.json"), load("h200_ncu_agreement_first.json")
    names = {name: name.split("pipe_lsu_")[-1].removesuffix(".sum") for name in record["compared"]}
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in record["rows"]:
        groups.setdefault((row["kernel"], row["config"]), []).append(row)
    rows = []
    for (kernel, config), launches in groups.items():
        compared = sum(len(set(row["measured"]) & set(record["compared"])) for row in launches)
        different = Counter(names[name] for row in launches for name in row["different"])
        listed = ", ".join(f"{n} × `bank_conflicts_{name}`" for name, n in different.items())
        rows.append(
            [f"`{kernel}`", config, str(len(launches)), str(compared), str(compared - different.total()), listed]
        )
    shapes = ", ".join(dict.fromkeys(f"{r['m']}x{r['n']}x{r['k']}" for r in record["rows"]))
    source = (
        f"{record['equal']} of {record['equal'] + record['different']} counters are equal. Measured on {record['gpu']} "
        f"(driver for CUDA {record['driver_cuda']}, ncu {record['ncu'].split()[1]}, {record['date']}) at {shapes} by "
        f"`{record['command']}`; the simulator and ncu ran the same compilation."
    )
    pairs = list(zip(first["rows"], record["rows"], strict=True))
    varied = Counter(names[n] for a, b in pairs for n in record["compared"] if a["measured"][n] != b["measured"][n])
    history = (
        f"In a first comparison (`h200_ncu_agreement_first.json`) {first['equal']} were equal. It showed two mistakes "
        "of the simulator, both fixed before the table above: diverged warps reconverged too late, and asynchronous "
        "copies were counted by a wrong rule. Between the two runs the GPU's own counts changed only in "
        + " and ".join(f"`bank_conflicts_{name}` ({n} of {len(pairs)} launches)" for name, n in varied.items())
        + "."
    )
    columns = ["kernel", "configuration", "launches", "counters compared", "equal", "different"]
    return "\n".join([*table(columns, "llrrrl", rows), "", source, "", history])


def mutant_table() -> str:
    """How the checker classifies each mutant, and how many of them compute-sanitizer reports."""
    record = load("h200_mutants.json")
    kinds: dict[str, list[dict[str, Any]]] = {}
    for row in record["rows"]:
        kinds.setdefault(row["ours"], []).append(row)
    rows = []
    for kind, mutants in sorted(kinds.items(), key=lambda item: -len(item[1])):
        seen = [row for row in mutants if row["sanitizer"]]
        tools = sorted({tool for row in seen for tool in row["sanitizer"]})
        rows.append([kind, str(len(mutants)), str(len(seen)), ", ".join(tools)])
    rows.append(["all", str(record["mutants"]), str(record["seen_by_both"]), ""])
    source = (
        f"Measured on {record['gpu']} (driver for CUDA {record['driver_cuda']}, {record['date']}) by "
        f"`{record['command']}`: memcheck, racecheck and synccheck, on matrices without guards."
    )
    columns = ["gemmsmith reports", "mutants", "compute-sanitizer reports", "with"]
    return "\n".join([*table(columns, "lrrl", rows), "", source])


def fuzz_table() -> str:
    """Generated kernels: what check says of them, beside the GPU and compute-sanitizer; then the disagreements."""
    record = load("h200_fuzz.json")
    groups: dict[str, list[dict[str, Any]]] = {}
    for row in record["rows"]:
        groups.setdefault("correct, or changed harmlessly" if row["innocent"] else row["kind"], []).append(row)
    rows = [_fuzz_row(kind, found) for kind, found in sorted(groups.items(), key=lambda item: -len(item[1]))]
    reasons = Counter((row["kind"] or "none", row["reason"]) for row in record["rows"] if not row["agree"])
    listed = [[kind, str(number), reason] for (kind, reason), number in sorted(reasons.items())]
    source = (
        f"Measured on {record['gpu']} (driver for CUDA {record['driver_cuda']}, {record['date']}) by "
        f"`{record['command']}`. Results are compared with float64 on random and special values. A mutant that check "
        f"refuses to judge is not counted as caught. {_left_out(record)}{record.get('note', '')}".rstrip()
    )
    columns = ["fault", "kernels", "accepted", "caught", "proven equivalent", "refused", "wrong on the GPU",
               "reported by compute-sanitizer", "disagreements"]  # fmt: skip
    return "\n".join([
        *table(columns, "lrrrrrrrr", rows), "", source, "",
        *(table(["fault", "disagreements", "reason"], "lrl", listed) if listed else ["There are no disagreements."]),
    ])  # fmt: skip


def _left_out(record: dict[str, Any]) -> str:
    count, planned = len(record["rows"]), record.get("cases", len(record["rows"]))
    return "" if count == planned else f"Of {planned} kernels {planned - count} were not checked, for want of time. "


def _fuzz_row(kind: str, found: list[dict[str, Any]]) -> list[str]:
    judged = Counter(row["check"]["judged"] for row in found)
    innocent = found[0]["innocent"]
    accepted = judged["true"] if innocent else judged["surviving mutant"]
    return [kind, str(len(found)), str(accepted), "" if innocent else str(judged["true"]),
            "" if innocent else str(judged["equivalent mutant"]),
            str(judged["correct kernel refused"] + judged["mutant refused"]),
            str(sum(row["gpu"] != "right" for row in found)),
            str(sum(bool(row["sanitizer"]) for row in found)), str(sum(not row["agree"] for row in found))]  # fmt: skip


def gate_table() -> str:
    """How close correct kernels come to the gates: simulated, and measured."""
    return "\n\n".join(_gates(load(f"{where}_gate_calibration.json")) for where in ("sim", "h200"))


def _gates(record: dict[str, Any]) -> str:
    found = record["rows"]
    kinds, depths = (list(dict.fromkeys(row[name] for row in found)) for name in ("type", "k"))
    fills = list(dict.fromkeys(row["distribution"] for row in found))
    origin = record["origin"].capitalize()
    rows = []
    for kind in kinds:
        mine = [row for row in found if row["type"] == kind]
        cells = [_worst(row["fraction"] for row in mine if row["distribution"] == fill) for fill in fills]
        caught = [row["caught"] for row in mine if row["distribution"] == "normal" and row["k"] == depths[-1]]
        shown = kind.replace("cut off", "truncated")
        rows.append([shown, *cells, str(len({row["rung"] for row in mine})), f"{min(caught):.1%}"])
    refused = ", ".join(f"`{name}`" for name in dict.fromkeys(one["rung"] for one in record["refused"]))
    source = (
        f"{origin} ({record['device']}, {record['compiler']}, {record['date']}) by `{record['command']}`: "
        f"{record['m']}×{record['n']} outputs, K of {', '.join(map(str, depths))}, {record['seeds']} seeds. The last "
        f"column is for normal data at K = {depths[-1]}: the share of outputs in which one dropped term exceeds the "
        "gate (in int8 some terms are 0)." + (f" Not run there: {refused}." if refused else "")
    )
    columns = [f"{origin}: largest error ÷ gate", *fills, "rungs", "dropped terms caught"]
    return "\n".join([*table(columns, "l" + "r" * (len(fills) + 2), rows), "", source])


def _worst(fractions: Iterable[float | str]) -> str:
    """The largest; a NaN, stored as text, counts as larger than any number. Empty if there are none."""
    found = list(fractions)
    wrong = [value for value in found if isinstance(value, str)]
    largest = max(map(float, found), default=math.nan)
    return wrong[0] if wrong else "" if math.isnan(largest) else f"{largest:.2f}" if largest else "0"
