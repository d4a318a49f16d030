"""Host code that returns without a launch, as if nothing were to do, where C is to be scaled by beta.

    if (M == 0 || N == 0 || K == 0 || alpha == 0.0f) return;

BLAS may return where K or alpha is 0 if beta is 1. The trials launch the kernel itself, so that they cannot see this.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from gemmsmith.kernel.spec import KernelSpec
from gemmsmith.problem import Problem
from gemmsmith.userfile.host.launch_conditions import HostCondition
from gemmsmith.userfile.text.source import read_text
from gemmsmith.userfile.text.syntax import words
from gemmsmith.verify.host.launched_products import excluded
from gemmsmith.verify.verdict import Verdict

_PLACE = re.compile(r"(.+):(\d+)")
_MOST_LINES = 4  # of a condition and its return
# Nothing, or what says that all went well. An error code says that such a product is not made.
_DONE = r"(?:0|true|\w*success|\w*_ok|ok|c|d|out|output|y)?"
_RETURNS = re.compile(rf"\)\s*\{{?\s*return\s*\(?\s*(?:\w+\s*::\s*)?{_DONE}\s*\)?\s*;", re.I)
_BETA = 0.5


def early_return(spec: KernelSpec, problem: Problem, like: Verdict) -> Verdict | None:
    """The verdict on a launch that is left out at alpha = 0 or K = 0, with the facts of ``like``; None where host code
    makes it, or does something else."""
    signature = spec.signature
    if spec.is_rung or not signature.has("beta"):
        return None
    scaled = problem.with_(alpha=1.0, beta=_BETA)
    for name, empty in (("alpha", scaled.with_(alpha=0.0)), ("K", scaled.with_(k=0))):
        found = excluded(spec, empty) if signature.has(name) and excluded(spec, scaled) is None else None
        if found is not None and not found.holds and _returns(spec, found):
            reason = (f"host code: where {words(found.text)} it returns at {found.place} and leaves C as it is; "
                      f"with {name} = 0 and beta = {_BETA} C must be scaled")  # fmt: skip
            return replace(like, problem=problem, reasons=(reason,), repeat=like.repeat.partition(" --trial ")[0])
    return None


def _returns(spec: KernelSpec, condition: HostCondition) -> bool:
    """Whether the statement at a condition does nothing but return, as after success."""
    place = _PLACE.fullmatch(condition.place)
    if place is None:
        return False
    file = Path(spec.source).parent / Path(place[1]).name
    text = dict(spec.edited).get(file) or (read_text(file) if file.is_file() else "")
    lines = words(" ".join(text.splitlines()[int(place[2]) - 1 : int(place[2]) - 1 + _MOST_LINES]))
    start = lines.find(words(condition.text))
    return start >= 0 and _RETURNS.match(lines[start + len(words(condition.text)) :].lstrip()) is not None
