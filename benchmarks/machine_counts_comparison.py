"""Compare what the simulator counts from recorded cubins with what Nsight Compute counted."""

from __future__ import annotations

import base64
import csv
import gzip
import io
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from record_machine_counts import Case, launch_case

from gemmsmith.compile.compiled import CompiledKernel, Resources
from gemmsmith.errors import GemmsmithError
from gemmsmith.explain.machine_profile import EXECUTED, instruction_rows, program_of
from gemmsmith.explain.metrics import simulated
from gemmsmith.run.device import Launch
from gemmsmith.sim.counters import Counters
from gemmsmith.sim.device import LoadedPtx
from gemmsmith.sim.sass.device import MachineDevice

# Differs from run to run: instructions are issued again after misses of the constant cache.
UNSTEADY = "sm__inst_executed_pipe_adu.sum"
NO_RESOURCES = Resources(0, 0, 0, 0, 0, 0, 0)
Row = dict[str, Any]


class Recorded(MachineDevice):
    """Keeps the counters of every launch."""

    def __init__(self, arch: str) -> None:
        super().__init__(arch, count=True)
        self.every: list[Counters] = []

    def launch(self, loaded: LoadedPtx, launch: Launch, blocks: Any = None) -> None:
        super().launch(loaded, launch, blocks)
        assert self.counters is not None
        self.every.append(self.counters)


def kernels(folder: Path, row: Row) -> Iterator[CompiledKernel]:
    for kernel in row["kernels"]:
        cubin = gzip.decompress((folder / kernel["file"]).read_bytes())
        yield CompiledKernel(kernel["entry"], kernel["arch"], "", cubin, NO_RESOURCES, "", kernel["compiler"], "",
                             False, "")  # fmt: skip


def measured(folder: Path) -> list[dict[str, float]]:
    """ncu's raw page: the numbers of each launch."""
    text = gzip.decompress((folder / "raw.csv.gz").read_bytes()).decode()
    rows = [row for row in csv.DictReader(io.StringIO(text[text.find('"ID"') :])) if row["ID"]]
    return [{name: float(value.replace(",", "")) for name, value in row.items()
             if value and re.fullmatch(r"-?[\d,]+(\.\d+)?(e[-+]?\d+)?", value)} for row in rows]  # fmt: skip


def pages(folder: Path) -> list[list[tuple[str, int, int]]]:
    """ncu's source page: for each launch and instruction, text, executions, and lanes whose guard held."""
    text = gzip.decompress((folder / "source.csv.gz").read_bytes()).decode()
    found: list[list[tuple[str, int, int]]] = []
    head: list[str] = []
    for row in csv.reader(io.StringIO(text)):
        if row[:1] == ["Kernel Name"]:
            found.append([])
        elif row[:1] == ["Address"]:
            head = row
        elif row and row[0].startswith("0x") and len(row) == len(head) and "Instructions Executed" in head:
            cells = dict(zip(head, row, strict=True))
            found[-1].append((cells["Source"].strip(), int(cells["Instructions Executed"]),
                              int(cells["Predicated-On Thread Instructions Executed"])))  # fmt: skip
    return found


def compare(folder: Path, only: str, output: Path | None) -> int:
    """Compare all cases; with ``output``, write ncu's counters and what differs there."""
    kept: list[Row] = []
    rows = json.loads((folder / "cases.json").read_text())
    numbers, sources = measured(folder), pages(folder)
    equal: Counter[str] = Counter()
    total: Counter[str] = Counter()
    wrong_instructions: Counter[str] = Counter()
    at, instructions, same = 0, 0, 0
    for row in rows:
        if "launches" not in row or at >= len(numbers):
            continue
        count = len(row["launches"])
        mine, at = slice(at, at + count), at + count
        case = Case(row["name"], row["entry"], row["dtype"], False, tuple(row["shape"]))
        if only and only not in case.title:
            continue
        ready = kernels(folder, row)
        device = Recorded("sm_90")
        try:
            launch_case(device, case, lambda *_, ready=ready: next(ready))
        except GemmsmithError as error:
            print(f"{case.title}: not executed: {str(error).splitlines()[0]}")
            continue
        for counters, known, page in zip(device.every, numbers[mine], sources[mine], strict=True):
            wrong = _compare_launch(counters, known, equal, total)
            good, differ = _compare_instructions(counters, page)
            instructions += len(page)
            same += good
            wrong_instructions.update(differ)
            names = [name for name in {**simulated(counters), EXECUTED: 0} if name in known]
            kept.append({"case": case.title, "compiler": row["kernels"][0]["compiler"], "different": wrong,
                         "instructions": len(page), "equal_instructions": good,
                         "measured": {name: int(known[name]) for name in names}})  # fmt: skip
            print(f"{case.title}: {wrong or 'all equal'}; {good} of {len(page)} instructions", flush=True)
    print(f"{sum(equal.values())} of {sum(total.values())} counters equal; {same} of {instructions} instructions")
    for name in total:
        if equal[name] != total[name]:
            print(f"  {name}: {equal[name]} of {total[name]}")
    print("instructions that differ:", wrong_instructions.most_common(40))
    if output is not None:
        head = {"what": "counts of executed machine code against Nsight Compute, same cubins", "gpu": "NVIDIA H200",
                "counters": sum(total.values()), "equal": sum(equal.values()), "instructions": instructions,
                "equal_instructions": same, "rows": kept}  # fmt: skip
        output.write_text(json.dumps(head, separators=(",", ":")) + "\n", encoding="utf-8")
    return 0 if equal == total else 1


def _compare_launch(counters: Counters, known: dict[str, float], equal: Counter[str], total: Counter[str]) -> Row:
    program = program_of(counters)
    assert program is not None
    rows = instruction_rows(counters, program)
    mine: dict[str, int] = {**simulated(counters), EXECUTED: sum(row.executed for row in rows)}
    pipes: Counter[str] = Counter()
    for row in rows:
        pipes[f"sm__inst_executed_pipe_{row.pipe}.sum"] += row.executed
    mine |= {name: value for name, value in pipes.items() if name != UNSTEADY}
    wrong = {}
    for name, value in mine.items():
        if name in known:
            total[name] += 1
            equal[name] += value == known[name]
            if value != known[name]:
                wrong[name] = (value, int(known[name]))
    return wrong


def _compare_instructions(counters: Counters, page: list[tuple[str, int, int]]) -> tuple[int, list[str]]:
    program = program_of(counters)
    assert program is not None
    rows = instruction_rows(counters, program)
    good, differ = 0, []
    for row, (text, executed, lanes) in zip(rows, page, strict=False):
        if (row.executed, row.threads) == (executed, lanes):
            good += 1
        else:
            differ.append(row.opcode)
            print(f"    {row.offset:05x} {row.text} | {text}: {row.executed}, {row.threads}; ncu {executed}, {lanes}")
    return good, differ


# -- a file for the tests -----------------------------------------------------------------------------


class Noting(Recorded):
    """Keeps the launches too, with the addresses in their arguments as buffers."""

    def __init__(self, arch: str) -> None:
        super().__init__(arch)
        self.noted: list[Row] = []
        self.sizes: dict[int, int] = {}

    def allocate(self, nbytes: int) -> int:
        address = super().allocate(nbytes)
        self.sizes[address] = nbytes
        return address

    def launch(self, loaded: LoadedPtx, launch: Launch, blocks: Any = None) -> None:
        arguments: list[Any] = []
        for value in launch.arguments:
            address = int.from_bytes(value, "little") if len(value) == 8 else 0
            arguments.append({"bytes": self.sizes[address]} if address in self.sizes else value.hex())
        geometry = launch.geometry
        self.noted.append({"grid": geometry.grid, "block": geometry.block, "smem": geometry.smem,
                           "arguments": arguments})  # fmt: skip
        super().launch(loaded, launch, blocks)


def write_fixture(folder: Path, wanted: list[str], output: Path) -> int:
    """Cases of one launch each whose titles are wanted: cubin, launch, ncu's counters and instructions."""
    rows = json.loads((folder / "cases.json").read_text())
    numbers, sources = measured(folder), pages(folder)
    kept, at = [], 0
    for row in rows:
        if "launches" not in row or at >= len(numbers):
            continue
        mine, at = at, at + len(row["launches"])
        case = Case(row["name"], row["entry"], row["dtype"], False, tuple(row["shape"]))
        if case.title not in wanted:
            continue
        device = Noting("sm_90")
        ready = kernels(folder, row)
        launch_case(device, case, lambda *_, ready=ready: next(ready))
        (launch,) = device.noted
        names = {**simulated(device.every[0]), EXECUTED: 0}
        cubin = gzip.decompress((folder / row["kernels"][0]["file"]).read_bytes())
        kept.append({"title": case.title, "entry": row["kernels"][0]["entry"], "arch": row["kernels"][0]["arch"],
                     "compiler": row["kernels"][0]["compiler"], "cubin": base64.b64encode(cubin).decode(), **launch,
                     "metrics": {name: int(numbers[mine][name]) for name in names if name in numbers[mine]},
                     "executed": [executed for _, executed, _ in sources[mine]],
                     "threads": [threads for _, _, threads in sources[mine]]})  # fmt: skip
    record = {"what": "machine instructions and counters of Nsight Compute on an H200", "cases": kept}
    output.write_bytes(gzip.compress(json.dumps(record, separators=(",", ":")).encode(), 9, mtime=0))
    print(f"{len(kept)} cases, {output.stat().st_size:,} bytes")
    return 0
