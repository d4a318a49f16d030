"""Profile a launch on the GPU with Nsight Compute, under the same names as the simulator's counters."""

from __future__ import annotations

import csv
import io
import math
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence

from gemmsmith.compile.compiled import CompiledKernel
from gemmsmith.errors import LaunchError, MissingDeviceError
from gemmsmith.explain.metrics import BY_NAME, METRICS
from gemmsmith.explain.profile import SECTOR, Profile
from gemmsmith.kernels.spec import Config, KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.run.cuda import cuda_device

_TIMEOUT_S = 600
# Ratios that ncu has under names of their own, where the simulator has counts (nvprof's gld_efficiency,
# gst_efficiency, branch_efficiency and warp_execution_efficiency, by NVIDIA's table of equivalents).
_USED = "smsp__sass_average_data_bytes_per_sector_mem_global_op_{op}.pct"
_UNIFORM = "smsp__sass_average_branch_targets_threads_uniform.pct"
_LANES = "smsp__thread_inst_executed_per_inst_executed.ratio"
_RATIOS = (_USED.format(op="ld"), _USED.format(op="st"), _UNIFORM, _LANES)
_UNKNOWN = re.compile(r"(failed to find|unknown|invalid|unsupported|unrecognized)\b.*\bmetrics?\b", re.IGNORECASE)
_METRIC_NAME = re.compile(r"\w+__\w+(?:\.\w+)*")


class UnknownMetricError(LaunchError):
    """ncu refused names of metrics; ``names`` are all that its messages have."""

    def __init__(self, message: str, hint: str, names: frozenset[str]) -> None:
        super().__init__(message, hint)
        self.names = names


def find_ncu() -> str:
    """The ncu program, or an error that says how to get it."""
    program = shutil.which("ncu")
    if program is None:
        raise MissingDeviceError(
            "Nsight Compute's ncu is not on PATH",
            "install Nsight Compute (it comes with the CUDA toolkit) and add it to PATH; or use --device sim",
        )
    return program


def run_ncu(command: Sequence[str], metrics: Sequence[str], kernel: str = "regex:.*",
            environment: dict[str, str] | None = None) -> list[tuple[str, dict[str, float]]]:  # fmt: skip
    """Run a program under ncu: (kernel name, metric values) of each launch, in order."""
    full = [find_ncu(), "--clock-control", "none", "--csv", "--print-units", "base", "--metrics", ",".join(metrics),
            "--kernel-name", kernel, *command]  # fmt: skip
    try:
        done = subprocess.run(full, capture_output=True, text=True, check=False, timeout=_TIMEOUT_S, env=environment)
    except subprocess.TimeoutExpired:
        raise LaunchError(f"ncu did not finish in {_TIMEOUT_S} s", "profile a smaller problem") from None
    start = done.stdout.find('"ID"')
    if start < 0:
        said = done.stdout + done.stderr
        why = f"ncu profiled nothing (exit code {done.returncode})", _reason(said)
        if _UNKNOWN.search(said):
            raise UnknownMetricError(*why, frozenset(_METRIC_NAME.findall(said)))
        raise LaunchError(*why)
    launches: dict[int, tuple[str, dict[str, float]]] = {}
    for row in csv.DictReader(io.StringIO(done.stdout[start:])):
        name, values = launches.setdefault(int(row["ID"]), (row["Kernel Name"], {}))
        text = row["Metric Value"].replace(",", "")
        if text and text.lower() not in ("nan", "n/a"):
            values[row["Metric Name"]] = float(text)
        del name
    return [launches[number] for number in sorted(launches)]


def _reason(output: str) -> str:
    lines = [line.strip("= ") for line in output.splitlines() if "ERROR" in line or "error" in line]
    text = "; ".join(lines[-2:]) or output.strip()[-300:]
    if "ERR_NVGPUCTRPERM" in text:
        text += "; the driver lets only administrators read counters: run as root, or allow it in the driver's settings"
    return text


def run_ncu_with_what_it_knows(
    command: Sequence[str], metrics: Sequence[str], optional: Sequence[str]
) -> list[tuple[str, dict[str, float]]]:
    """As ``run_ncu``; where ncu refuses names, again without them; ``optional`` go together."""
    asked = [*metrics, *optional]
    while True:
        try:
            return run_ncu(command, asked)
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
    spec: KernelSpec, config: Config, problem: Problem, compiled: CompiledKernel, command: Sequence[str]
) -> Profile:
    """Profile the launch that ``command`` makes (a `gemmsmith run …` in a process of its own)."""
    device = cuda_device()
    launches = run_ncu_with_what_it_knows([sys.executable, *command], [m.name for m in METRICS], _RATIOS)
    wanted = [values for name, values in launches if name.split("(")[0] == compiled.entry or len(launches) == 1]
    if not wanted:
        raise LaunchError(f"ncu saw no launch of {compiled.entry}", f"it saw {[name for name, _ in launches]}")
    seen = wanted[-1]
    values = {name: value for name, value in seen.items() if name in BY_NAME}
    for op, word in (("ld", "load"), ("st", "store")):
        sectors = seen.get(f"l1tex__t_sectors_pipe_lsu_mem_global_op_{op}.sum", math.nan)
        # A sector has no more than its 32 bytes.
        share = seen.get(_USED.format(op=op), math.nan)
        if not math.isnan(sectors * share):
            values[f"used_{word}_bytes"] = SECTOR * sectors * min(100.0, share) / 100
    return Profile(spec.name, str(config), problem, device.name, "measured", device.arch,
                   spec.geometry(problem, config), compiled.resources, tuple(values.items()),
                   active_lanes=seen.get(_LANES, math.nan), branch_efficiency=seen.get(_UNIFORM, math.nan),
                   missing=tuple(name for name in _RATIOS if name not in seen))  # fmt: skip
