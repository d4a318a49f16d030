"""Record what Nsight Compute counts for rungs and files, with their cubins: what simulated machine code must count.

    python benchmarks/record_machine_counts.py record FOLDER [--files LIST.json]     needs a GPU and ncu
    python benchmarks/record_machine_counts.py compare FOLDER [--only NAME]          needs neither
    python benchmarks/record_machine_counts.py fixture FOLDER --only A,B --output tests/data/machine_counts.json.gz

``record`` compiles every case, runs it once under ncu, and writes to FOLDER: cases.json, one cubin for each case,
counters.csv (ncu's raw page) and source.csv (executions of each machine instruction). ``compare`` executes the same
cubins on the simulator and compares every counter, and every instruction's executions. ``fixture`` keeps some cases
with cubin, launch and counts in one file, for the tests. LIST.json has
[path, entry] of users' files, or [path, entry, M, N, K].
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gemmsmith.call.binding import aligned_code, bind
from gemmsmith.cli.options.kernel import KernelOptions, find_kernel
from gemmsmith.cli.options.problem import ProblemOptions
from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.compile.compiler import compile_for
from gemmsmith.errors import GemmsmithError
from gemmsmith.explain.metrics import METRICS
from gemmsmith.fills import operands
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import Addresses, KernelSpec
from gemmsmith.ladder.registry import rung_named, rungs
from gemmsmith.problem import DTYPES, FP32, Problem
from gemmsmith.run.memory import upload

ARCH = "sm_90"
SHAPES = ((256, 256, 128), (131, 197, 75))
WORKSPACE = 64 << 20
PIPES = ("alu", "fma", "fmaheavy", "fp16", "fp64", "xu", "lsu", "tex", "adu", "cbu", "uniform", "tensor", "ipa")
WANTED = tuple(dict.fromkeys((
    *(m.name for m in METRICS if not m.hardware_only), "smsp__inst_executed.sum", "smsp__thread_inst_executed.sum",
    "smsp__thread_inst_executed_pred_on.sum", "smsp__inst_issued.sum",
    *(f"sm__inst_executed_pipe_{pipe}.sum" for pipe in PIPES),
    "smsp__inst_executed_op_shared.sum", "smsp__inst_executed_op_generic.sum", "smsp__inst_executed_op_branch.sum",
    "smsp__sass_branch_targets.sum", "smsp__sass_branch_targets_threads_divergent.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum", "l1tex__data_pipe_lsu_wavefronts.sum",
)))  # fmt: skip


@dataclass(frozen=True)
class Case:
    """A launch: a rung by name, or a file's entry, with types, layout and shape."""

    name: str
    entry: str
    dtype: str
    trans_b: bool
    shape: tuple[int, int, int]

    @property
    def title(self) -> str:
        name = f"{Path(self.name).name}:{self.entry}" if self.entry else self.name
        return f"{name} {self.dtype} {'x'.join(map(str, self.shape))}"

    def kernel(self) -> tuple[KernelSpec, Config, Problem]:
        """Specification, configuration and problem."""
        if self.entry:
            spec, config = find_kernel(self.name, KernelOptions(entry=self.entry))
            own = {r.lower(): x for r, x in spec.signature.fixed if r in ("M", "N", "K")}
            problem = replace(ProblemOptions(*self.shape), **own).problem(spec)  # type: ignore[arg-type]
        else:
            spec = rung_named(self.name)
            config, dtype = spec.config(), DTYPES[self.dtype]
            out = FP32 if FP32 in spec.out_dtypes else spec.out_dtypes[0]
            problem = Problem(*self.shape, dtype=dtype, out_dtype=out, trans_b=self.trans_b)
        fitted, _ = aligned_code(spec, config, problem)
        return spec, fitted, problem


def cases(files: Path | None, part: str = "") -> Iterator[Case]:
    """All cases; of one ``part``: 'files', 'hopper', or 'rungs', which are the others."""
    for spec in rungs():
        if part and part != ("hopper" if spec.arch_specific else "rungs"):
            continue
        for dtype in spec.dtypes[: 3 if spec.tensor_cores else 1]:
            for shape in SHAPES:
                yield Case(spec.name, "", dtype.name, False, shape)
    if files is not None and part in ("", "files"):
        for path, entry, *shape in json.loads(files.read_text()):
            m, n, k = shape or (128, 128, 64)
            yield Case(str(files.parent / path), entry, "", False, (m, n, k))


def compiled(case: Case) -> CompiledKernel | str:
    try:
        spec, config, problem = case.kernel()
        _, seen = aligned_code(spec, config, problem)
        return compile_for(spec, config, seen, ARCH)
    except GemmsmithError as error:
        return str(error)


def launch_case(device: Any, case: Case, compile_fn: Any) -> tuple[list[Any], bytes]:
    """Run a case's launches; their geometries, and what C holds then."""
    spec, config, problem = case.kernel()
    data = operands(problem, "integers" if spec.prologue is not None else "normal", seed=0)
    places = [upload(device, values) for values in (data.a, data.b, data.c)]
    workspace = device.allocate(WORKSPACE)  # also for the copies of operands that start anywhere
    steps = bind(device, spec, config, problem, Addresses(*places), workspace, compile_fn)
    for step in steps:
        device.launch(step.loaded, step.launch)
    device.synchronize()
    found: bytes = device.read(places[2], data.c.nbytes).tobytes()
    for place in (*places, workspace):
        device.free(place)
    return [step.launch.geometry for step in steps], found


class Saving:
    """Compiles, and keeps the machine code of each kernel in the order in which they are asked for."""

    def __init__(self, folder: Path, number: int) -> None:
        self.folder, self.number = folder, number
        self.kernels: list[dict[str, str]] = []

    def __call__(self, spec: KernelSpec, config: Config, problem: Problem, arch: str) -> CompiledKernel:
        kernel = compile_for(spec, config, problem, arch)
        name = f"{self.number}-{len(self.kernels)}.cubin.gz"
        (self.folder / name).write_bytes(gzip.compress(kernel.cubin, 9))
        self.kernels.append({"file": name, "entry": kernel.entry, "arch": kernel.arch, "compiler": kernel.compiler})
        return kernel


def record(folder: Path, files: Path | None, part: str) -> int:
    from gemmsmith.explain.ncu import find_ncu

    folder.mkdir(parents=True, exist_ok=True)
    every = list(cases(files, part))
    with ProcessPoolExecutor(14) as pool:
        kernels = list(pool.map(compiled, every))
    rows = []
    for n, (case, kernel) in enumerate(zip(every, kernels, strict=True)):
        row = {"number": n, "name": case.name, "entry": case.entry, "dtype": case.dtype, "shape": case.shape}
        if isinstance(kernel, str):
            row["skipped"] = kernel
        rows.append(row)
    (folder / "cases.json").write_text(json.dumps(rows, indent=1))
    known = subprocess.run([find_ncu(), "--query-metrics"], capture_output=True, text=True, check=False).stdout
    names = {line.split()[0] for line in known.splitlines() if line.strip()}
    (folder / "metrics.txt").write_text("\n".join(sorted(n for n in names if "inst_executed" in n or "shared" in n)))
    wanted = [name for name in WANTED if name.split(".")[0] in names]
    given = ["--files", str(files)] if files else []
    child = [sys.executable, __file__, "launch", str(folder), "--part", part, *given]
    report = folder / "report"
    command = [find_ncu(), "--clock-control", "none", "--print-kernel-base", "mangled", "--section", "SourceCounters",
               "--metrics", ",".join(wanted), "--export", str(report), "--force-overwrite", *child]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    (folder / "ncu.log").write_text(done.stdout[-20000:] + done.stderr[-20000:])
    read = [find_ncu(), "--import", f"{report}.ncu-rep", "--print-kernel-base", "mangled", "--csv", "--page"]
    for page, more in (("raw", ["--print-units", "base"]), ("source", ["--print-source", "sass"])):
        text = subprocess.run([*read, page, *more], capture_output=True, text=True, check=False).stdout
        (folder / f"{page}.csv.gz").write_bytes(gzip.compress(text.encode(), 9))
    Path(f"{report}.ncu-rep").unlink(missing_ok=True)
    return 0


def launch_all(folder: Path, files: Path | None, part: str) -> int:
    """The program that ncu profiles."""
    from gemmsmith.run.cuda import cuda_device

    device = cuda_device()
    rows = json.loads((folder / "cases.json").read_text())
    for case, row in zip(cases(files, part), rows, strict=True):
        if "skipped" in row:
            continue
        saving = Saving(folder, row["number"])
        try:
            geometries, found = launch_case(device, case, saving)
        except GemmsmithError as error:
            row["failed"] = str(error)
        else:
            row |= {"launches": [[g.grid, g.block, g.smem, g.cluster] for g in geometries],
                    "result": hashlib.sha256(found).hexdigest()}  # fmt: skip
        row["kernels"] = saving.kernels
        print("case", row["number"], row.get("failed", ""), flush=True)
        (folder / "cases.json").write_text(json.dumps(rows, indent=1))
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("record", "launch", "compare", "fixture"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", type=Path)
    parser.add_argument("--part", default="", help="record only 'rungs', 'hopper' or 'files'")
    parser.add_argument("--only", default="", help="compare only cases with this in their title")
    parser.add_argument("--output", type=Path, help="of fixture; of compare, the record")
    options = parser.parse_args()
    if options.command == "compare":
        from machine_counts_comparison import compare

        return compare(options.folder, options.only, options.output)
    if options.command == "fixture":
        from machine_counts_comparison import write_fixture

        return write_fixture(options.folder, options.only.split(","), options.output)
    return {"record": record, "launch": launch_all}[options.command](options.folder, options.files, options.part)


if __name__ == "__main__":
    sys.exit(main())
