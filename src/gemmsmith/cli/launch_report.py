"""What check, run and verify share about one launch: its geometry in words, what C holds, and what may be amiss."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any

import typer

from gemmsmith.errors import UsageError
from gemmsmith.kernel.config import Config
from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.userfile.user_kernel import UserOptions, geometry_source
from gemmsmith.verify.verdict import Verdict

Strict = Annotated[bool, typer.Option("--strict", help="Reading C when beta = 0 fails, too.")]
CText = Annotated[
    str, typer.Option("--c", help="C before a launch with beta 0: nan (must not be read), set, or zero (for C += A·B).")
]

_C_FILLS = {"": "", "nan": "unset", "set": "set", "zero": "zero"}


def c_fill(text: str) -> str:
    """What ``--c`` asks for, in the words of verification; empty where nothing was said."""
    if text not in _C_FILLS:
        raise UsageError(f"--c {text!r} is unknown", "use nan, set or zero")
    return _C_FILLS[text]


def is_lenient(spec: KernelSpec, c: str, strict: bool) -> bool:
    """Whether a kernel may compute 0·C: a user's own with a beta, as many tutorials do, unless told otherwise."""
    return not spec.is_rung and not c and not strict and spec.signature.has("beta")


def leniently(judge: Callable[[str], Verdict], lenient: bool, c: str) -> tuple[Verdict, str]:
    """The verdict on a launch, and a note where it is right only as long as what BLAS does not read holds numbers.

    judge    launches and verifies with C filled as it is told
    """
    strictly = judge(c or "unset")
    problem = strictly.problem
    unread = problem.alpha == 0 or problem.beta == 0 or problem.k == 0
    if strictly.trusted or not lenient or not unread:
        return strictly, ""
    verdict = judge("set")
    return verdict, read_note(strictly) if verdict.trusted else ""


def read_note(strictly: Verdict) -> str:
    """What a failure means that vanishes once C holds numbers."""
    text = "; ".join(strictly.reasons[:2])
    if strictly.problem.beta == 0 and not re.search(r"\b[AB] must not be read", text):
        what = "C is read when beta = 0, where BLAS lets it hold anything, NaN too: test beta first"
    else:
        what = "A or B is read when alpha = 0 or K = 0, where BLAS lets them hold anything, NaN too: test alpha first"
    return f"{what}.\n  {text}\n  (--strict makes this a failure)"


def launch_facts(spec: KernelSpec, config: Config, problem: Problem, options: UserOptions) -> dict[str, Any]:
    """A launch as JSON: its extents and where they come from."""
    geometry = spec.geometry(problem, config)
    return {"grid": list(geometry.grid), "block": list(geometry.block), "smem": geometry.smem,
            "source": _source(spec, options, problem)}  # fmt: skip


def launch_line(facts: dict[str, Any]) -> str:
    """The same for people."""
    grid, block = ("×".join(map(str, facts[name])) for name in ("grid", "block"))
    source = facts["source"] + ("; set it with --grid, --block" if _guessed(facts) else "")
    return f"launch: grid {grid}, block {block}, {facts['smem']} B dynamic shared memory ({source})"


def _source(spec: KernelSpec, options: UserOptions, problem: Problem) -> str:
    return "the rung's own" if spec.is_rung else geometry_source(spec.source, options, problem)


def _guessed(facts: dict[str, Any]) -> bool:
    return "guess" in facts["source"]


def hints(
    spec: KernelSpec, facts: dict[str, Any], options: UserOptions, verdict: Verdict, suspect_launch: bool = True
) -> list[str]:
    """What besides the kernel itself may be why a launch failed, the likeliest first; for a user's file only."""
    if spec.is_rung or verdict.trusted:
        return []
    found = []
    text = "\n".join(verdict.reasons)
    if suspect_launch and _guessed(facts) and "HazardError" not in text:
        found.append("The launch was guessed: if the kernel is written for another, set it with --grid and --block.")
    if options.grid and not re.search(r"\b[MN]\b", options.grid):
        found.append(f"--grid {options.grid} is the same for every shape: write it with M and N, as ceil(N/32).")
    if facts["smem"] == 0 and re.search(r"extern\s+__shared__", spec.code) and "out-of-bounds shared" in text:
        found.append("The kernel has extern __shared__ memory, but was given none: say how many bytes with --smem.")
    if not spec.signature.has("beta") and re.search(r"C must not be read|C was read although", text):
        found.append("If the kernel adds to C (C += A·B, atomicAdd), say that C holds zeros with --c zero.")
    return found


def repeat_words(options: UserOptions, device: str, c: str, strict: bool, schedule: str, seed: int) -> tuple[str, ...]:
    """What a command line needs, besides kernel, problem and data, to make the same launch again."""
    words = []
    for name in ("grid", "block", "smem"):
        words += [f"--{name}", getattr(options, name)] if getattr(options, name) else []
    words += ["--device", device] if device != "auto" else []
    words += ["--schedule", schedule, "--schedule-seed", str(seed)] if schedule != "lockstep" else []
    words += ["--c", c] if c else []
    return (*words, *(["--strict"] if strict else []))


def scalar_notes(problem: Problem, alpha: float, beta: float) -> list[str]:
    """Scalars that fp32 turns into something else altogether."""
    found = []
    for name, given, used in (("alpha", alpha, problem.alpha), ("beta", beta, problem.beta)):
        if used != given and (abs(used) == float("inf") or used == 0):
            found.append(f"--{name} {given:g} is {used:g} in fp32, the type that kernels take.")
    return found
