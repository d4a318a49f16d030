"""What gemmsmith check says of a generated kernel, and whether that is true."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from generated.kernel import Generated

_LAUNCH_S = "60"
_USER_S = 600
ACCUSED, SURVIVED, TRUE = "false accusation", "surviving mutant", "true"
REFUSED, NOT_JUDGED = "correct kernel refused", "mutant refused"
_REFUSALS = ("not runnable", "not_runnable")  # of a command that ended early, of a report
# With such a fault a kernel may still be right where the status says so; with any other it is not.
_RESTRICTED: dict[str, tuple[str, ...]] = {
    "guard": ("whole_tiles", "aligned_rows"), "tail": ("whole_tiles",), "launch": ("whole_tiles",),
    "loop": ("whole_tiles",), "stride": ("square_only", "aligned_rows"), "index": ("square_only",),
    "threshold": ("square_only",),
}  # fmt: skip

# Faults that make another product of it, which check names.
_NAMED_EPILOGUES = {"negative results are cut off": " is right, as relu("}


@dataclass(frozen=True)
class Outcome:
    """``status`` and ``layout`` as check reports them; ``judged``: whether that is true of the kernel."""

    judged: str
    status: str
    layout: str
    summary: str
    seconds: float

    @property
    def failed(self) -> bool:
        return self.judged in (ACCUSED, SURVIVED, REFUSED)


def outcome(kernel: Generated, file: Path, *, as_user: bool = False) -> Outcome:
    """Write the kernel to ``file`` and check it: in this process, or by a process of its own as a user would."""
    file.write_text(kernel.text, encoding="utf-8")
    start = time.monotonic()
    facts = (_by_command if as_user else _here)(["check", str(file), "--json", "--timeout", _LAUNCH_S, "--cures", "0"])
    took = time.monotonic() - start
    status, layout = facts.get("status", "not runnable"), _layout(facts)
    judged = judge(kernel, status, layout, str(facts.get("verdict", "")))
    return Outcome(judged, status, layout, _summary(facts), round(took, 2))


def judge(kernel: Generated, status: str, layout: str, verdict: str = "") -> str:
    """Whether a status is true of the kernel; ``verdict`` may say what it computes instead of the product."""
    if kernel.innocent:
        if status in _REFUSALS:
            return REFUSED
        return TRUE if (status, layout) == (kernel.recipe.status, kernel.recipe.layout) else ACCUSED
    if status in _REFUSALS:
        return NOT_JUDGED  # no verdict, so neither caught nor called right
    if status in ("wrong", "racy"):
        return TRUE
    if layout != kernel.recipe.layout:
        return TRUE  # what the kernel became is said
    if kernel.fault and kernel.fault.name in _NAMED_EPILOGUES and _NAMED_EPILOGUES[kernel.fault.name] in verdict:
        return TRUE
    kind = kernel.fault.kind if kernel.fault else ""
    allowed = _RESTRICTED.get(kind, ())
    if kernel.fault and "#" in kernel.fault.name:  # the second place: elements at the edges, beside the vectors
        allowed = (*allowed, "whole_tiles", "aligned_rows")
    restricted = status != kernel.recipe.status and status in allowed
    return TRUE if restricted else SURVIVED


def _layout(facts: dict[str, Any]) -> str:
    """The layout that check names in its next command; NN if it names none."""
    words = facts.get("next", "").split()
    if "--layout" in words:
        word: str = words[words.index("--layout") + 1]
        return "col-NN" if word == "col" else word
    return "col-NN" if facts.get("status") == "column_major" else "NN"


def _summary(facts: dict[str, Any]) -> str:
    if "error" in facts:
        return str(facts["error"]["message"])
    failed = [trial for trial in facts["trials"] if trial.get("reasons")]
    reasons = [f"{trial['label']}: {trial['reasons'][0]}" for trial in failed]
    return "; ".join([facts["verdict"], *reasons[:2]])


def _here(words: list[str]) -> dict[str, Any]:
    from gemmsmith.cli.main import run_command

    out, err = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            run_command(words)
    except Exception as error:  # a traceback is a finding, and must not end the others
        return {"error": {"message": f"{type(error).__name__}: {error}"}}
    return _parsed(out.getvalue(), err.getvalue())


def _by_command(words: list[str]) -> dict[str, Any]:
    done = subprocess.run([sys.executable, "-m", "gemmsmith", *words], capture_output=True, text=True, check=False,
                          timeout=_USER_S)  # fmt: skip
    return _parsed(done.stdout, done.stderr)


def _parsed(out: str, err: str) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(out)
    except json.JSONDecodeError:
        return {"error": {"message": (err.strip().splitlines() or ["the check ended without a word"])[-1]}}
    return found
