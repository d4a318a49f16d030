"""Profile a launch on the GPU with Nsight Compute, with the same metric names as the simulator."""

from __future__ import annotations

import csv
import io
import math
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.compile.sass import disassemble
from gemmsmith.errors import LaunchError, MissingDeviceError
from gemmsmith.explain.metrics import BY_NAME, METRICS
from gemmsmith.explain.profile import SECTOR, Line, Profile
from gemmsmith.explain.source_page import Page, correlate, line_sums, lines_of, parse_pages
from gemmsmith.explain.source_text import source_lines
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.run.cuda import cuda_device

T = TypeVar("T")
Launch = tuple[str, dict[str, float]]  # kernel name, metric values

_TIMEOUT_S = 600
# Names are compared with the compiled kernel's, which is mangled; ncu demangles them unless told not to.
_NAMES = ("--print-kernel-base", "mangled")
_PROFILE = ("--clock-control", "none", *_NAMES)
# ncu has ratios where the simulator has counts. They replace nvprof's gld_efficiency, gst_efficiency,
# branch_efficiency and warp_execution_efficiency, according to NVIDIA's table of equivalents.
_USED = "smsp__sass_average_data_bytes_per_sector_mem_global_op_{op}.pct"
_UNIFORM = "smsp__sass_average_branch_targets_threads_uniform.pct"
_LANES = "smsp__thread_inst_executed_per_inst_executed.ratio"
_RATIOS = (_USED.format(op="ld"), _USED.format(op="st"), _UNIFORM, _LANES)
_UNKNOWN = re.compile(r"(failed to find|unknown|invalid|unsupported|unrecognized)\b.*\bmetrics?\b", re.IGNORECASE)
_METRIC_NAME = re.compile(r"\w+__\w+(?:\.\w+)*")


class UnknownMetricError(LaunchError):
    """ncu refused metric names; ``names`` are all the names in its messages."""

    def __init__(self, message: str, hint: str, names: frozenset[str]) -> None:
        super().__init__(message, hint)
        self.names = names


def find_ncu() -> str:
    """The path of ncu; raises with install instructions if it is missing."""
    program = shutil.which("ncu")
    if program is None:
        raise MissingDeviceError(
            "Nsight Compute's ncu is not on PATH",
            "install Nsight Compute (it comes with the CUDA toolkit) and add it to PATH; or use --device sim",
        )
    return program


def run_ncu(command: Sequence[str], metrics: Sequence[str], kernel: str = "regex:.*",
            environment: dict[str, str] | None = None) -> list[Launch]:  # fmt: skip
    """Run a program under ncu; returns (kernel name, metric values) per launch, in order."""
    done = _ncu([*_PROFILE, "--csv", "--print-units", "base", "--metrics", ",".join(metrics), "--kernel-name", kernel,
                 *command], environment)  # fmt: skip
    start = done.stdout.find('"ID"')
    if start < 0:
        raise _refusal(done)
    launches: dict[int, Launch] = {}
    for row in csv.DictReader(io.StringIO(done.stdout[start:])):
        _, values = launches.setdefault(int(row["ID"]), (row["Kernel Name"], {}))
        _read_value(values, row["Metric Name"], row["Metric Value"])
    return [launches[number] for number in sorted(launches)]


def record(command: Sequence[str], metrics: Sequence[str]) -> tuple[list[Launch], tuple[Page, ...]]:
    """As ``run_ncu``, plus the source page of each launch; both are read from the report of one run."""
    with tempfile.TemporaryDirectory(prefix="gemmsmith-") as folder:
        report = Path(folder) / "profile.ncu-rep"  # ncu appends the suffix itself
        done = _ncu([*_PROFILE, "--section", "SourceCounters", "--metrics", ",".join(metrics),
                     "--export", str(report.with_suffix("")), *command])  # fmt: skip
        if not report.is_file():
            raise _refusal(done)
        read = ["--import", str(report), *_NAMES, "--csv", "--page"]
        raw = _ncu([*read, "raw", "--print-units", "base"])
        source = _ncu([*read, "source", "--print-source", "sass"])
    launches, pages = parse_raw_page(raw.stdout, metrics), parse_pages(source.stdout)
    if not launches:
        raise _refusal(raw)
    if len(pages) != len(launches):
        why = f"ncu's report has {len(launches)} launches but {len(pages)} source pages"
        raise LaunchError(why, "leave out --lines" if pages else _reason(source.stdout + source.stderr))
    return launches, pages


def parse_raw_page(text: str, metrics: Sequence[str]) -> list[Launch]:
    """Parse the output of ``ncu --import … --csv --page raw``: names, units, then one row per launch."""
    start = text.find('"ID"')
    launches: list[Launch] = []
    for row in csv.DictReader(io.StringIO(text[start:] if start >= 0 else "")):
        if row["ID"]:  # the row of units has no ID
            values: dict[str, float] = {}
            for name in metrics:
                _read_value(values, name, row.get(name) or "")
            launches.append((row["Kernel Name"], values))
    return launches


def _ncu(arguments: Sequence[str], environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    full = [find_ncu(), *arguments]
    try:
        return subprocess.run(full, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S, env=environment)
    except subprocess.TimeoutExpired:
        raise LaunchError(f"ncu did not finish in {_TIMEOUT_S} s", "profile a smaller problem") from None


def _read_value(values: dict[str, float], name: str, text: str) -> None:
    text = text.replace(",", "")
    if text and text.lower() not in ("nan", "n/a"):
        values[name] = float(text)


def _refusal(done: subprocess.CompletedProcess[str]) -> LaunchError:
    said = done.stdout + done.stderr
    why = f"ncu profiled nothing (exit code {done.returncode})", _reason(said)
    if _UNKNOWN.search(said):
        return UnknownMetricError(*why, frozenset(_METRIC_NAME.findall(said)))
    return LaunchError(*why)


def _reason(output: str) -> str:
    lines = [line.strip("= ") for line in output.splitlines() if "ERROR" in line or "error" in line]
    text = "; ".join(lines[-2:]) or output.strip()[-300:]
    if "ERR_NVGPUCTRPERM" in text:
        text += "; only administrators may read GPU counters: run as root, or set NVreg_RestrictProfilingToAdminUsers=0"
    return text


def with_known_metrics(ask: Callable[[list[str]], T], metrics: Sequence[str], optional: Sequence[str]) -> T:
    """Call ``ask`` with these metrics, and again without the names ncu refuses; ``optional`` are dropped together."""
    asked = [*metrics, *optional]
    while True:
        try:
            return ask(asked)
        except UnknownMetricError as error:
            # A message may name a metric without its suffix (.sum, .pct).
            refused = {n for n in asked if {n, n.partition(".")[0]} & error.names}
            if not refused or refused & {*optional}:
                refused |= {*optional}
            left = [n for n in asked if n not in refused]
            if not left or left == asked:
                raise
            asked = left


def measure(
    spec: KernelSpec, config: Config, problem: Problem, compiled: CompiledKernel, command: Sequence[str],
    *, lines: bool = False,
) -> Profile:  # fmt: skip
    """Profile the launch made by ``command``, a `gemmsmith run …` in its own process.

    ``lines`` also counts by source line, which needs more passes of ncu.
    """
    device = cuda_device()
    child, names = [sys.executable, *command], [m.name for m in METRICS]
    pages: tuple[Page, ...] = ()
    if lines:
        launches, pages = with_known_metrics(lambda asked: record(child, asked), names, _RATIOS)
    else:
        launches = with_known_metrics(lambda asked: run_ncu(child, asked), names, _RATIOS)
    wanted = [i for i, (name, _) in enumerate(launches) if name.split("(")[0] == compiled.entry or len(launches) == 1]
    if not wanted:
        raise LaunchError(f"ncu saw no launch of {compiled.entry}", f"it saw {[name for name, _ in launches]}")
    seen = launches[wanted[-1]][1]
    values = {name: value for name, value in seen.items() if name in BY_NAME}
    found: tuple[Line, ...] = ()
    if lines:
        pairs = correlate(pages[wanted[-1]], disassemble(compiled))
        found = lines_of(pairs, spec.source.name, lambda file: source_lines(spec, file))
    for op, word in (("ld", "load"), ("st", "store")):
        sectors = seen.get(f"l1tex__t_sectors_pipe_lsu_mem_global_op_{op}.sum", math.nan)
        # A sector cannot use more than its 32 bytes.
        share = seen.get(_USED.format(op=op), math.nan)
        if not math.isnan(sectors * share):
            values[f"used_{word}_bytes"] = SECTOR * sectors * min(100.0, share) / 100
    return Profile(spec.name, str(config), problem, device.name, "measured", device.arch,
                   spec.geometry(problem, config), compiled.resources, tuple(values.items()), found,
                   active_lanes=seen.get(_LANES, math.nan), branch_efficiency=seen.get(_UNIFORM, math.nan),
                   missing=tuple(name for name in _RATIOS if name not in seen),
                   line_sums=line_sums(found, values) if lines else ())  # fmt: skip
