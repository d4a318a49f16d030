"""A sweep's title in words: 'padded: depth of a k-tile (BK)', where the sweep's own has parameter names alone."""

from __future__ import annotations

import re

from gemmsmith.errors import UnknownKernelError
from gemmsmith.ladder.registry import rung_named
from gemmsmith.report.report_model import Sweep

# The titles that ``gemmsmith sweep`` makes: kernel, fixed parameters, varied ones, and how it was measured.
_MADE = re.compile(r"^(?P<kernel>[^\s:]+)(?: at (?P<fixed>[^:]+))?: (?P<varied>[^:]+?)(?:, \w+)? \([^()]*\)$")


def title_in_words(sweep: Sweep) -> str:
    """The kernel and what was varied. A title that somebody wrote is kept."""
    found = _MADE.match(sweep.title)
    if found is None:
        return sweep.title
    meanings = _meanings(found["kernel"])
    varied = [_words(name, meanings) for name in sweep.parameters]
    listed = varied[0] if len(varied) == 1 else f"{', '.join(varied[:-1])} and {varied[-1]}"
    return f"{found['kernel']}: {listed}"


def fixed_words(sweep: Sweep) -> str:
    """' With BM=128, BN=128.' for what the title fixes; '' if it fixes nothing."""
    found = _MADE.match(sweep.title)
    return f" With {', '.join(found['fixed'].split(','))}." if found is not None and found["fixed"] else ""


def _meanings(kernel: str) -> dict[str, str]:
    """What each parameter of a rung means, in a few words; {} for a user's kernel."""
    try:
        spec = rung_named(kernel)
    except UnknownKernelError:
        return {}
    return {p.name: re.split(r"[:;,]", p.meaning)[0].strip() for p in spec.parameters}


def _words(name: str, meanings: dict[str, str]) -> str:
    """'depth of a k-tile (BK)'; 'TM×TN' has the meanings of both."""
    parts = [meanings[part] for part in name.split("×") if part in meanings]
    if len(parts) != len(name.split("×")):
        return name
    return f"{' by '.join(parts)} ({name})"
