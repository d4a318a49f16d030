"""What check, run and verify say about one launch: its geometry, likely causes of a failure, and how to repeat it."""

from __future__ import annotations

import re
from typing import Any

from gemmsmith.cli.options.verification import VerificationOptions
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.userfile.kernels.user_kernel import UserOptions, geometry_source
from gemmsmith.userfile.launches.user_launch import UserLaunch
from gemmsmith.verify.meaning.launch_search import TileLaunch
from gemmsmith.verify.verdict import Verdict


def launch_facts(spec: KernelSpec, config: Config, problem: Problem, options: UserOptions) -> dict[str, Any]:
    """A launch as JSON: its geometry, and where that comes from."""
    geometry = spec.geometry(problem, config)
    return {"grid": list(geometry.grid), "block": list(geometry.block), "smem": geometry.smem,
            "source": launch_source(spec, options, problem), "found": _found(spec, problem)}  # fmt: skip


def launch_line(facts: dict[str, Any]) -> str:
    """The same as text: a line on the launch, and one for each value that host code tells, with its place."""
    grid, block = ("×".join(map(str, facts[name])) for name in ("grid", "block"))
    source = source_text(facts["source"]) + ("; set it with --grid, --block" if _guessed(facts) else "")
    line = f"launch: grid {grid}, block {block}, {facts['smem']} B dynamic shared memory ({source})"
    return "\n".join([line, *(f"  {value}" for value in facts["found"])])


def source_text(source: str) -> str:
    """Where a launch comes from, as people read it: "from host code", "block from host code, grid guessed"."""
    return source.replace("launch site", "from host code").replace("directive", "from a gemmsmith comment")


def launch_source(spec: KernelSpec, options: UserOptions, problem: Problem) -> str:
    """Where a launch comes from."""
    if spec.is_rung:
        return "the rung's own"
    if isinstance(spec.geometry, UserLaunch) and spec.geometry.described:
        return "block from a comment, grid guessed" if spec.geometry.guessed else "from a comment"
    if isinstance(spec.geometry, TileLaunch):
        return "found by trying"
    return geometry_source(spec.source, options, problem)


def _found(spec: KernelSpec, problem: Problem) -> list[str]:
    return [str(value) for value in spec.geometry.found(problem)] if isinstance(spec.geometry, UserLaunch) else []


def _guessed(facts: dict[str, Any]) -> bool:
    return "guess" in facts["source"]


def hints(
    spec: KernelSpec, facts: dict[str, Any], options: UserOptions, verdict: Verdict, suspect_launch: bool = True
) -> list[str]:
    """Causes of a failure other than the kernel itself, the likeliest first; for a user's file only."""
    if spec.is_rung or verdict.trusted:
        return []
    found = []
    text = "\n".join(verdict.reasons)
    if suspect_launch and _guessed(facts) and " race on " not in text:
        found.append("The launch was guessed: if the kernel needs another one, set it with --grid and --block.")
    if options.grid and not re.search(r"\b[MN]\b", options.grid):
        found.append(f"--grid {options.grid} is the same for every shape: write it with M and N, as ceil(N/32).")
    if facts["smem"] == 0 and re.search(r"extern\s+__shared__", spec.code) and "out-of-bounds shared" in text:
        found.append("The kernel has extern __shared__ memory, but the launch gave it none: set the bytes with --smem.")
    reads = re.search(r"must not be read when beta|C was read although", text) is not None
    if reads and not spec.signature.has("beta") and _may_add(spec):
        found.append("If the kernel adds to C (C += A·B, atomicAdd), say that C holds zeros with --c zero.")
    return found


def _may_add(spec: KernelSpec) -> bool:
    """Whether the source adds to an output: by an atomic, by `+=`, or by reading what it then writes."""
    name = re.escape(spec.signature.named("D" if spec.signature.has("D") else "C"))
    element = rf"\b{name}\s*\[[^;=]*\]"
    loads = rf"\bload_matrix_sync[^;]*\b{name}\b"
    return re.search(rf"\batomic|\bred\.|{element}\s*\+=|{element}\s*=[^;=]*{element}|{loads}", spec.code) is not None


def repeat_words(
    options: UserOptions, device: str, checks: VerificationOptions, schedule: str, seed: int
) -> tuple[str, ...]:
    """The words that repeat a launch, besides those for kernel, problem and data."""
    words = []
    for name in ("grid", "block", "smem", "layout"):
        words += [f"--{name}", getattr(options, name)] if getattr(options, name) else []
    words += ["--device", device] if device != "auto" else []
    words += ["--schedule", schedule, "--schedule-seed", str(seed)] if schedule != "lockstep" else []
    words += ["--c", checks.c] if checks.c else []
    return (*words, *(["--strict"] if checks.strict else []))


def scalar_notes(problem: Problem, alpha: float, beta: float) -> list[str]:
    """Scalars that overflow or vanish in fp32."""
    found = []
    for name, given, used in (("alpha", alpha, problem.alpha), ("beta", beta, problem.beta)):
        if used != given and (abs(used) == float("inf") or used == 0):
            found.append(f"--{name} {given:g} is {used:g} in fp32, the type that kernels take.")
    return found
