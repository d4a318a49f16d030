"""Caches for work that many tests share.

A kernel is parsed once per process and disassembled once per test run: nvdisasm takes 0.65 s to start, and `climb`
reads the machine code of every rung. Profiles of rungs are simulated once per test run (shared_results.py). The
command-line parser is built once per process: it takes 0.07 s for over twenty commands, and tests use it hundreds of
times. A cached result depends only on its key. Programs started by tests do not use the caches.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections import OrderedDict
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import shared_results
import typer.main

from gemmsmith.compile import sass
from gemmsmith.sim.device import LoadedPtx, SimDevice
from gemmsmith.sim.ptx.reader import mentioned

MOST_KERNELS = 64  # of a process; the largest take tens of megabytes
_load_ptx = SimDevice.load_ptx
_loaded: OrderedDict[tuple[str, str, bool, bool], LoadedPtx] = OrderedDict()


def do_once(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """Enable the caches; workers share ``folder``."""
    patch.setenv(shared_results.FOLDER, str(folder))
    patch.setattr(SimDevice, "load_ptx", load_ptx_once)
    patch.setattr(sass, "subprocess", Listings(folder))
    patch.setattr(typer.main, "get_command", cache(typer.main.get_command))


def load_ptx_once(device: SimDevice, ptx: str, entry: str) -> LoadedPtx:
    """Load as the simulator does, and share the result between devices, unless the kernel uses a global variable.

    A global variable is in one device's memory. No rung has one: named constants are folded into the code.
    """
    key = (ptx, entry, device.mod32, device.contracts)
    if key in _loaded:
        _loaded.move_to_end(key)
        return _loaded[key]
    loaded = _load_ptx(device, ptx, entry)
    if not mentioned(ptx, (v.name for v in loaded.entry.variables if v.space in ("global", "const"))):
        _loaded[key] = loaded
        if len(_loaded) > MOST_KERNELS:
            _loaded.popitem(last=False)
    return loaded


class Listings:
    """Replaces ``subprocess`` for disassembly; each cubin is disassembled once per test run."""

    TimeoutExpired = subprocess.TimeoutExpired

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, command: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
        """Cached by tool and options; failures are not cached."""
        *words, cubin = command
        digest = hashlib.sha256(repr((words, options)).encode() + Path(cubin).read_bytes())
        known = self.folder / f"{digest.hexdigest()}.sass"
        if known.exists():
            return subprocess.CompletedProcess(command, 0, known.read_text(encoding="utf-8"), "")
        done = subprocess.run(command, **options)
        if done.returncode == 0:
            ours = known.with_suffix(f".{os.getpid()}")
            ours.write_text(done.stdout, encoding="utf-8")
            ours.replace(known)
        return done
