"""A kernel with a fault, and what check must say about its cause."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from gemmsmith.cli.check_prepare import Asked
from gemmsmith.cli.check_run import run_check
from gemmsmith.cli.options.device import CacheOptions, DeviceOptions
from gemmsmith.cli.options.kernel import KernelOptions, find_kernel
from gemmsmith.cli.options.problem import ShapeOptions
from gemmsmith.cli.options.verification import VerificationOptions
from gemmsmith.cli.render.check_report import Report


@dataclass(frozen=True)
class Faulty:
    """``kind`` of the cause; the lines marked with `//!` are those that the change belongs to.

    text   what the change has to contain
    edits  how many places change; None: any number
    cured  nothing is wrong with it
    """

    name: str
    source: str
    kind: str
    text: str = ""
    edits: int | None = None
    cured: bool = False
    options: tuple[str, ...] = ()

    @property
    def lines(self) -> list[int]:
        return [i for i, line in enumerate(self.source.split("\n"), 1) if "//!" in line]


def checked(faulty: Faulty, folder: Path, seconds: float = 60.0) -> Report:
    """The report of check on the kernel, with time enough on a slow machine."""
    path = folder / "kernel.cu"
    path.write_text(faulty.source)
    options = replace(KernelOptions(), **dict(option.split("=", 1) for option in faulty.options))
    spec, config = find_kernel(str(path), options)
    report = run_check(spec, config, Asked(str(path), options, ShapeOptions(128, 128, 128), True, DeviceOptions("sim"),
                                           120, VerificationOptions(), CacheOptions(), cures=seconds))  # fmt: skip
    assert path.read_text() == faulty.source, "the user's file was changed"
    return report
