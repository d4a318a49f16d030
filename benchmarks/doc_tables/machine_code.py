"""Tables of docs/machine-code.md: counts against ncu, and micro-benchmarks."""

from __future__ import annotations

from typing import Any

from doc_tables.records import load, table

_RECORDS = {
    "rungs": "rungs from naive to mma_pipelined, 256×256×128 and 131×197×75; wgmma_tma",
    "public": "public kernels that read inside their arrays at 128×128×64",
    "repositories": "ten kernels of ten repositories that were not used before, 512×512×128",
}
# What the record calls an instruction, and what the page does.
_INSTRUCTIONS = {
    "ffma": "FFMA", "fadd": "FADD", "fmul": "FMUL", "imad": "IMAD", "lop3": "LOP3", "shift": "SHF", "prmt": "PRMT",
    "hfma2": "HFMA2", "dfma": "DFMA", "mufu_ex2": "MUFU.EX2", "popc": "POPC", "shfl": "SHFL", "dp4a": "IDP.4A",
    "isetp_guarded_iadd": "ISETP, then an IADD3 that it guards", "hmma_16816_f32": "HMMA.16816.F32",
    "hmma_1688_tf32": "HMMA.1688.F32.TF32", "imma_16832_s8": "IMMA.16832.S8", "ld.shared.b32": "LDS",
    "ld.shared.b64": "LDS.64", "ld.shared.b128": "LDS.128", "ldmatrix_x4_and_iadd": "LDSM.x4 and an IADD3",
}  # fmt: skip
_WARPS = 16


def counts_table() -> str:
    """Launches, counters and instructions that agree with ncu's, of each record."""
    rows = []
    for name, words in _RECORDS.items():
        record = load(f"h200_machine_counts_{name}.json")
        rows.append([words, str(len(record["rows"])), f"{record['equal']:,} of {record['counters']:,}",
                     f"{record['equal_instructions']:,} of {record['instructions']:,}"])  # fmt: skip
    heads = ["", "launches", "counters equal", "instructions whose executions and lanes are equal"]
    return "\n".join(table(heads, "lrrr", rows))


def micro_table() -> str:
    """Latency and throughput of single instructions."""
    found = load("h200_micro_benchmarks.json")["rows"]
    rows = [[words, _latency(found, name), _rate(found, name)] for name, words in _INSTRUCTIONS.items()]
    heads = ["H200, one SM", "latency, cycles", f"warp instructions a cycle, {_WARPS} warps"]
    return "\n".join(table(heads, "lrr", rows))


def _latency(found: list[dict[str, Any]], name: str) -> str:
    return next(f"{r['cycles']:.1f}" for r in found if r["instruction"] == name and r["what"] == "latency")


def _rate(found: list[dict[str, Any]], name: str) -> str:
    return next(f"{r['per_cycle']:.2f}" for r in found
                if (r["instruction"], r["what"], r.get("warps")) == (name, "throughput", _WARPS))  # fmt: skip
