"""Tasks of ``check``: one kernel each, in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gemmsmith.cli.tasks.files import seen, seen_words


def do_check(parameters: dict[str, Any], folder: Path) -> Any:
    """The JSON object that ``gemmsmith check`` prints for a kernel."""
    if "cwd" in parameters:  # files are read in place
        os.chdir(parameters["cwd"])
    words = ["check", seen(parameters["file"], folder), "--entry", parameters["entry"], "--json"]
    command = [sys.executable, "-m", "gemmsmith", *words, *seen_words(parameters["options"], folder)]
    try:
        return _report(command, parameters["seconds"])
    except subprocess.TimeoutExpired:
        return _error(f"not finished after {parameters['seconds']:.0f} s")


def _report(command: Sequence[str], seconds: float) -> dict[str, Any]:
    """The JSON object that a check prints; what it said last if it printed none."""
    alone = {name: value for name, value in os.environ.items() if name != "GEMMSMITH_ON"}
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=seconds, env=alone)
    try:
        found: dict[str, Any] = json.loads(ended.stdout)
    except json.JSONDecodeError:
        return _error((ended.stderr.strip().splitlines() or ["the check ended without a word"])[-1])
    return found


def _error(message: str) -> dict[str, Any]:
    return {"error": {"kind": "CheckError", "message": message, "hint": ""}}
